"""What the doctor says: one finding for each thing looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum


class Level(StrEnum):
    """The worst first."""

    MUST = "must"
    SHOULD = "should"
    CANNOT_TELL = "cannot tell"
    FINE = "fine"


@dataclass(frozen=True, slots=True)
class Finding:
    """``code`` is stable. ``line``: what to write into slurm.conf, or another file that it names; '' for nothing."""

    code: str
    level: Level
    found: str
    wanted: str
    why: str
    line: str = ""

    def plain(self) -> dict[str, str]:
        return {key: str(value) for key, value in asdict(self).items()}


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first, otherwise as they were found."""
    rank = {level: at for at, level in enumerate(Level)}
    return sorted(findings, key=lambda finding: rank[finding.level])


def counted(findings: Sequence[Finding]) -> str:
    """``1 must, 2 should, 0 cannot tell, 9 fine``"""
    return ", ".join(f"{sum(one.level is level for one in findings)} {level}" for level in Level)
