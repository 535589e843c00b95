"""Waits of a group of jobs on one side, of which those of jobs that never start are lower bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tenure.core.model import SECOND
from tenure.reports.catalogue import wait
from tenure.reports.verdicts import longer
from tenure.reports.waits import percentile


@dataclass(slots=True)
class Waits:
    """ms. ``never``: of how many jobs it is the wait that they had in the end, without a start."""

    all: list[int] = field(default_factory=list)
    never: int = 0
    _over: list[int] = field(default_factory=list)
    """Of ``all``, those that a start ended."""

    def add(self, wait: int, *, started: bool) -> None:
        self.all.append(wait)
        if started:
            self._over.append(wait)
        else:
            self.never += 1

    def plain(self) -> dict[str, Any]:
        """JSON-ready. ``p50_at_least``: the median hangs on jobs that never started: it would be longer, by as much as
        makes a difference, if those had waited for ever.
        """
        found: dict[str, Any] = {}
        waits, over = sorted(self.all), sorted(self._over)
        for percent in (50, 90):
            value = _seconds(percentile(waits, percent))
            rank = max(1, -(-percent * len(waits) // 100))
            most = _seconds(over[rank - 1]) if rank <= len(over) else None
            bound = self.never > 0 and (most is None or longer(value, most) != 0)
            found |= {f"p{percent}_s": value, f"p{percent}_at_least": bound}
        return {**found, "never_started": self.never}


def _seconds(ms: int | None) -> int | None:
    return None if ms is None else ms // SECOND


def told(figures: Mapping[str, Any], percent: int) -> str:
    """``7.2 h``, or ``at least 7.2 h``, of what ``plain`` gives."""
    bound = "at least " if figures[f"p{percent}_at_least"] else ""
    return bound + wait(figures[f"p{percent}_s"])


def starts(figures: Mapping[str, Any], who: str) -> str:
    """How long ``who``, as in "90 % of 12 jobs", take to start, in words."""
    if figures["p90_at_least"]:
        return f"it takes {told(figures, 90)} until {who} have started"
    return f"{who} start within {told(figures, 90)}"


def cell(figures: Mapping[str, Any], percent: int) -> str:
    """The same in a table: ``≥ 7.2 h``; ``-`` of no job."""
    if figures[f"p{percent}_s"] is None:
        return "-"
    return ("≥ " if figures[f"p{percent}_at_least"] else "") + wait(figures[f"p{percent}_s"])
