"""Adopted jobs, and those submitted as their users, while they wait: what has ended on one side ends on the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from tenure.core.lifecycle import JobState
from tenure.engine.engine import Engine
from tenure.engine.errors import NotFound
from tenure.executors.slurm import marks, native
from tenure.executors.slurm.ends import CANCELLED_BY
from tenure.executors.slurm.executor import SlurmExecutor
from tenure.executors.slurm.look import Look
from tenure.executors.slurm.marks import BEFORE, Mark
from tenure.executors.slurm.rows import Row
from tenure.slurm.commands import CommandFailed

log = structlog.get_logger()

CERTAIN = 3
"""A waiting job must be over, or gone, in so many looks at Slurm: the first may be older than the job's last run."""
_WAITING = frozenset({JobState.QUEUED, JobState.CLAIMING})


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A job of Tenure that waits, adopted as ``slurm`` (an id) in the second ``submitted``."""

    slurm: str
    submitted: int
    attempts: int
    user: str
    held_by: str


class Standing:
    """``clusters``: those whose jobs are in the Slurm of ``executor``; empty: all."""

    def __init__(self, engine: Engine, executor: SlurmExecutor, clusters: tuple[str, ...] = ()) -> None:
        self._engine, self._executor = engine, executor
        self._handling, self._instance = executor.handling, executor.instance
        self._clusters = clusters
        self._since: dict[int, tuple[int, int]] = {}
        """By Tenure's job id: attempts that it had, and the look in which it was first over."""

    def keep(self, number: int, look: Look, cluster: str) -> list[tuple[Row, Mark]]:
        """Bring both sides into step, by look ``number``; returns the marked jobs that are nobody's yet.

        Raises EngineStopped and SQLAlchemyError.
        """
        with self._engine.view() as state:
            live = set(state.jobs)
            named = {job.spec.execution.adopted: job.id for job in state.jobs.values() if job.spec.execution.adopted}
            prefix = f"slurm:{cluster}:"
            waiting = {
                job.id: _waiting(job.spec.execution.adopted, job.starts, job.spec.user, job.held_by)
                for job in state.jobs.values()
                if job.state in _WAITING
                and job.spec.execution.adopted.startswith(prefix)
                and (not self._clusters or job.spec.clusters[0] in self._clusters)
            }
            as_users = {
                job.id: _Waiting(row.id, row.submitted, job.starts, job.spec.user, job.held_by)
                for job in state.jobs.values()
                if job.state in _WAITING
                and not job.spec.execution.adopted
                and (row := look.adopted.get(job.id)) is not None
                and row.state == "CANCELLED"
            }
        waiting |= {job: one for job, one in as_users.items() if self._executor.cancelled_there(job)}
        strangers = []
        for row, mark in look.marked:
            if mark.job and mark.server != self._instance:
                continue  # another Tenure's
            if mark.job in live:
                continue
            job = 0 if mark.job else named.get(native.name_of(cluster, row), 0)
            if job:
                self._order(self._handling.mark, row.id, marks.write(marks.taken(mark, job, self._instance)))
            elif not mark.job:
                strangers.append((row, mark))
            elif row.pending and self._is_anew(row, mark):
                strangers.append((row, replace(mark, said={**mark.said, BEFORE: "yes"}, job=0, server="")))
        self._end_what_is_over(number, look, waiting)
        return strangers

    def _is_anew(self, row: Row, mark: Mark) -> bool:
        """Its job in Tenure is over, or not known: whether it is to be adopted as a new one. Else it is cancelled.

        It waits because it was queued again after its end, or else because Tenure cancelled it before it had begun.
        """
        known = self._engine.store.job(mark.job)
        if known is None or known.ended_at is None:
            return known is None
        # Slurm has whole seconds.
        if known.state != JobState.CANCELLED or row.submitted > known.ended_at // 1000:
            return True
        log.info("slurm_job_cancelled", slurm_job=row.id, job=mark.job)
        self._order(self._handling.cancel, row.id)
        return False

    def _order(self, order: Callable[..., None], *words: str) -> None:
        """What fails is tried again after the next look."""
        try:
            order(*words)
        except CommandFailed as error:
            log.warning("slurm_command_failed", error=str(error))

    def _end_what_is_over(self, number: int, look: Look, waiting: Mapping[int, _Waiting]) -> None:
        """Cancelled by its user while it waited, or lost by Slurm."""
        over = {}
        for job, one in waiting.items():
            row = look.adopted.get(job) or look.named(one.slurm, one.submitted)
            if row is None or row.over:
                over[job] = row
        self._since = {
            job: before if (before := self._since.get(job)) and before[0] == waiting[job].attempts
            else (waiting[job].attempts, number)
            for job in over
        }  # fmt: skip
        for job, row in over.items():
            if number - self._since[job][1] < CERTAIN - 1:
                continue
            state = row.state if row is not None else "gone"
            log.warning("adopted_job_over", job=job, slurm_job=waiting[job].slurm, state=state)
            try:
                self._engine.cancel(job, CANCELLED_BY if state == "CANCELLED" else f"slurm ({state})")
            except NotFound:
                continue


def _waiting(adopted: str, attempts: int, user: str, held_by: str) -> _Waiting:
    slurm, _, submitted = adopted.rpartition(":")[2].partition("@")
    return _Waiting(slurm, int(submitted), attempts, user, held_by)
