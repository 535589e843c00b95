"""Under whose rule each partition of a site is: Tenure decides, or Slurm's own scheduler, or both. Changes nothing.

Told by the script of the job_submit plugin, by the marks that it and Tenure leave on jobs, and by what a configuration
of Tenure names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from tenure.slurm.commands import CommandFailed, Commands
from tenure.slurm.site import Site

_WIDTHS = (200, 8, 8)
_FIELDS = f"Partition:{_WIDTHS[0]},admin_comment:{_WIDTHS[1]},Comment:{_WIDTHS[2]}"
_MARK = "tenure:"
_LIST = re.compile(r"local\s+PARTITIONS\s*=\s*\{([^}]*)\}")


class Rule(StrEnum):
    TENURE = "tenure"
    SLURM = "slurm"
    BOTH = "both"
    """Tenure decides about its jobs, and others start past it."""


@dataclass(frozen=True, slots=True)
class Regime:
    """A partition. ``ours`` and ``others``: jobs there now, waiting ones too.

    ``shares_with``: other partitions on its nodes.
    """

    partition: str
    rule: Rule
    why: str
    nodes: int
    gpus: int
    ours: int
    others: int
    shares_with: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def listed(site: Site) -> tuple[str, ...] | None:
    """Partitions in which the plugin holds jobs at birth; None where its script is not to be seen."""
    if "lua" not in site.settings.words("JobSubmitPlugins"):
        return ()
    text = site.files.get("job_submit.lua")
    if text is None:
        return None
    found = _LIST.search(text)
    return tuple(re.findall(r"[\"']([^\"']+)[\"']", found[1])) if found and "tenure_submit" in text else ()


def read_marks(commands: Commands) -> str:
    """What ``regimes`` takes as ``marks``: of each job its partitions, and how its comments begin.

    Raises CommandFailed.
    """
    return commands.run("squeue", "-h", "-a", "-r", "-O", _FIELDS)


def regimes(site: Site, marks: str | CommandFailed, configured: Collection[str] = ()) -> list[Regime]:
    """One for each partition, in Slurm's order. ``configured``: partitions that a configuration of Tenure names."""
    held = listed(site)
    ours, others, born = _count(marks if isinstance(marks, str) else "")
    found = []
    for partition in site.partitions:
        name = partition.name
        nodes = site.members(name)
        rule, why = _rule(name, held, name in configured, ours[name], others[name], born[name])
        if isinstance(marks, CommandFailed):
            why += f"; its jobs could not be looked at: {marks}"
        shared = {other for node in nodes for other in node.partitions if other != name}
        gpus = sum(node.gpu_count for node in nodes)
        found.append(Regime(name, rule, why, len(nodes), gpus, ours[name], others[name], tuple(sorted(shared))))
    return found


def _count(marks: str) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Tenure's jobs by partition, others, and those that the plugin marked at birth."""
    ours, others, born = Counter[str](), Counter[str](), Counter[str]()
    for line in marks.splitlines():
        names = line[: _WIDTHS[0]].strip()
        admin, comment = line[_WIDTHS[0] : sum(_WIDTHS[:2])], line[sum(_WIDTHS[:2]) :]
        for name in names.split(",") if names else ():
            mine = admin.startswith(_MARK) or comment.startswith(_MARK)
            (ours if mine else others)[name] += 1
            born[name] += admin.startswith(_MARK)
    return ours, others, born


def _rule(
    name: str, held: Iterable[str] | None, configured: bool, ours: int, others: int, born: int
) -> tuple[Rule, str]:
    if held is not None and name in held:
        return Rule.TENURE, "job_submit.lua holds its jobs at birth"
    if held is None and born:
        return Rule.TENURE, "its jobs bear the mark of job_submit.lua, which is not here"
    if not ours and not configured:
        return Rule.SLURM, "no job of Tenure's is there, and job_submit.lua " + (
            "is not here" if held is None else "does not list it"
        )
    past = "a plain sbatch starts past Tenure, since job_submit.lua does not list it"
    if others:
        return Rule.BOTH, past
    return Rule.TENURE, f"its jobs come through Tenure; {past}"
