"""What tells one greedy policy from another: a few pure functions."""

from __future__ import annotations

from typing import Protocol

from tenure.core.reasons import Because
from tenure.core.state import Attempt, ClusterState, Job, State


class Rules(Protocol):
    """Order, caps, protection and evictions of a policy that ``greedy.run`` can follow.

    Answers depend on the arguments only. For jobs that differ in nothing but their owner and their age all of them but
    ``order`` are the same, and whoever starts never makes room for somebody who was tried before.
    """

    def order(self, job: Job) -> tuple[int, ...]:
        """Sorts waiting jobs: the smallest is tried first."""

    def over(self, state: State, cluster: ClusterState, job: Job, running: int) -> int:
        """GPUs of its team that must end before the job may start, whatever is free; at most 0 when it may.

        ``running``: protected GPUs that the team holds or claims in the cluster.
        """

    def protected(self, attempt: Attempt, now: int) -> bool:
        """Whether nobody may evict the attempt at ``now`` (ms UTC)."""

    def rank(self, job: Job) -> int:
        """Jobs of one rank may evict the same attempts."""

    def outranks(self, job: Job, victim: Job) -> bool:
        """Whether ``job`` may evict an attempt of ``victim`` that is not protected."""

    def evict_order(self, job: Job, attempt: Attempt) -> tuple[int, ...]:
        """Sorts attempts (with their jobs) that may be evicted: the smallest goes first."""

    def because(self, job: Job, victim: Job) -> Because:
        """Why ``job`` may evict ``victim``."""
