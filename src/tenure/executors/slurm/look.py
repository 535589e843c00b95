"""What one question to Slurm has brought: its jobs, sorted by whose they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tenure.executors import procs
from tenure.executors.slurm import marks, reading
from tenure.executors.slurm.marks import Mark
from tenure.executors.slurm.reading import SlurmJob
from tenure.executors.slurm.rows import Row


@dataclass(frozen=True, slots=True)
class Look:
    """``own``: jobs that this server submitted, by Tenure's job id. ``adopted``: those it has taken over, by the same.

    ``marked``: all that the plugin has held at birth, with their marks, but for those in ``given``. ``given``: by its
    comment what was perhaps submitted by this server as a user, and has no mark of it yet: anybody can write such a
    comment. Those that have it are in ``adopted``. ``asked``: when the question was put, by the clock since boot, in
    ms: what the look shows was so then or later.
    """

    rows: Sequence[Row]
    own: Mapping[int, list[SlurmJob]]
    adopted: Mapping[int, Row]
    marked: Sequence[tuple[Row, Mark]]
    given: Mapping[str, list[Row]] = field(default_factory=dict)
    asked: int = field(default_factory=procs.boottime_ms)

    def numbers(self) -> set[int]:
        """Slurm's numbers of what is this server's, submitted or adopted, and not over."""
        submitted = {one.id for some in self.own.values() for one in some if not one.over}
        return submitted | {row.number for row in self.adopted.values() if not row.over}

    def named(self, slurm: str, submitted: int) -> Row | None:
        """An adopted job whose mark is lost: with this id, submitted in that second, and taken over by nobody."""
        for row, mark in self.marked:
            if row.id == slurm and row.submitted == submitted and not mark.job:
                return row
        return None


def sort(rows: Sequence[Row], instance: str, uid: int, asked: int = 0) -> Look:
    """``instance`` and ``uid``: this server's mark, and its user. ``asked``: as in ``Look``."""
    marked = []
    adopted: dict[int, Row] = {}
    given: dict[str, list[Row]] = {}
    for row in rows:
        mark = marks.read(row.mark) if row.mark else None
        if reading.is_given(row.comment) and (mark is None or not mark.job):
            given.setdefault(row.comment, []).append(row)
            continue
        if mark is None or reading.submitted_by_tenure(row):
            continue
        if marks.GIVEN not in mark.said:
            marked.append((row, mark))
        if mark.job and mark.server == instance:
            adopted[mark.job] = _newer(row, adopted.get(mark.job))
    return Look(rows, reading.own_jobs(rows, instance, uid), adopted, marked, given, asked)


def _newer(row: Row, other: Row | None) -> Row:
    """A job that could not be kept under its id has had another one before."""
    return row if other is None or (not row.over, row.number) > (not other.over, other.number) else other
