"""Remembers what a pass over a line of jobs depended on when it had nothing left to start."""

from __future__ import annotations

from collections.abc import Iterable

from tenure.core.lifecycle import JobState
from tenure.core.state import Job, State
from tenure.policies.moves import groups


class Standstill:
    """While ``lasts`` says so another pass decides nothing, so it need not be made.

    Jobs that wait in the queues cannot start until GPUs become free, until those that stand first go away, until
    somebody joins the line, or until ``until`` (ms UTC), when what was expected turns out wrong.
    """

    def __init__(self, state: State, first: Iterable[int], until: int | None = None) -> None:
        self.state = state
        self.first = tuple(first)
        self.until = until
        self._freed = [(cluster, cluster.freed) for cluster in state.clusters.values()]
        self._attempts = len(state.attempts)
        self._newest = next(reversed(state.jobs), 0)
        self._aside = [job for job in state.jobs.values() if job.attempt is None and not _in_line(job, state.now)]
        """They may come back without anything else happening."""

    def lasts(self, state: State) -> bool:
        return (
            state is self.state
            and (self.until is None or state.now < self.until)
            and next(reversed(state.jobs), 0) == self._newest
            and len(state.attempts) == self._attempts
            and list(state.clusters.values()) == [cluster for cluster, _ in self._freed]
            and all(cluster.freed == freed for cluster, freed in self._freed)
            and all((job := state.jobs.get(job_id)) is not None and _in_line(job, state.now) for job_id in self.first)
            and not any(_in_line(job, state.now) for job in self._aside)
            and all(group.parked is not None for _, group in groups(state))
        )


def _in_line(job: Job, now: int) -> bool:
    return job.state is JobState.QUEUED and not job.held_by and job.not_before <= now
