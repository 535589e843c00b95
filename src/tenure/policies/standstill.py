"""Remembers what a pass over a line of jobs depended on when it had nothing left to start."""

from __future__ import annotations

from collections.abc import Iterable

from tenure.core.state import State
from tenure.policies.line import waits


class Standstill:
    """While it ``lasts`` nobody who was in the line can start, so only those need be looked at who have come since.

    Jobs that wait cannot start until GPUs become free, until those at the head of the line go away, or until ``until``
    (ms UTC), when what was expected turns out wrong.
    """

    def __init__(self, state: State, heads: Iterable[int], until: int | None = None) -> None:
        self.heads = tuple(heads)
        self.until = until
        self._freed = [(cluster, cluster.freed) for cluster in state.clusters.values()]
        self._attempts = len(state.attempts)

    def lasts(self, state: State) -> bool:
        """Whether nothing of that has happened. The clusters must be the same."""
        return (
            (self.until is None or state.now < self.until)
            and len(state.attempts) == self._attempts
            and all(cluster.freed == freed for cluster, freed in self._freed)
            and all(waits(state, state.jobs.get(job_id)) for job_id in self.heads)
        )
