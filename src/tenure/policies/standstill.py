"""Remembers what a pass over a line of jobs depended on when it had nothing left to start."""

from __future__ import annotations

from collections.abc import Iterable

from tenure.core.lifecycle import JobState
from tenure.core.state import Job, State
from tenure.policies.moves import groups


class Standstill:
    """While it ``lasts`` another pass decides nothing, so it need not be made.

    Jobs that wait cannot start until GPUs become free, until those at the head of the line go away, until somebody
    comes into the line, or until ``until`` (ms UTC), when what was expected turns out wrong.
    """

    def __init__(self, state: State, heads: Iterable[int], until: int | None = None) -> None:
        self.state = state
        self.heads = tuple(heads)
        self.until = until
        self._freed = [(cluster, cluster.freed) for cluster in state.clusters.values()]
        self._attempts = len(state.attempts)
        self._newest = next(reversed(state.jobs), 0)
        now = state.now
        self._aside = [j for j in state.jobs.values() if j.attempt is None and (j.held_by or j.not_before > now)]
        """Jobs that may come into the line without anything else happening."""

    def lasts(self, state: State) -> bool:
        """Whether nothing of that has happened. Every group must have its reason, too."""
        return (
            state is self.state
            and (self.until is None or state.now < self.until)
            and next(reversed(state.jobs), 0) == self._newest
            and len(state.attempts) == self._attempts
            and list(state.clusters.values()) == [cluster for cluster, _ in self._freed]
            and all(cluster.freed == freed for cluster, freed in self._freed)
            and all((job := state.jobs.get(job_id)) is not None and _in_line(job, state.now) for job_id in self.heads)
            and not any(_in_line(job, state.now) for job in self._aside)
            and all(group.parked is not None for _, group in groups(state))
        )


def _in_line(job: Job, now: int) -> bool:
    return job.state is JobState.QUEUED and not job.held_by and job.not_before <= now
