"""Priority with per-team caps on protected GPUs and optional preemptibility: what many labs run today."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.core.decisions import Plan
from tenure.core.reasons import Because, Reason
from tenure.core.state import Attempt, ClusterState, Job, State
from tenure.policies import greedy, moves

LOW, NORMAL, HIGH = 0, 1, 2
"""Values of ``JobSpec.priority``; larger ones are higher still."""


@dataclass(frozen=True, slots=True)
class PriorityCaps:
    """HIGH before NORMAL before LOW, the oldest first within a level; what does not fit is skipped.

    A job claimed with ``min_runtime`` > 0 is *protected*: nobody evicts it until it ends, and it counts towards the cap
    of its team, which is its leaf of the tree. One with 0 is *preemptible*: it runs on anything that is free and goes
    when a job of strictly higher priority needs the GPUs, LOW first, then the one that was started last (as in PBS
    Professional's preemption). A job that is larger than its team's cap starts when its team has nothing else that is
    protected: else it could never run.

    ``cap_percent``: a team's cap in percent of its allocation x healthy GPUs. ``cap_least``: GPUs that it is at least.
    Raises ValueError for negative settings.
    """

    cap_percent: int = 100
    cap_least: int = 8

    name = "priority"

    def __post_init__(self) -> None:
        for setting, value in (("cap_percent", self.cap_percent), ("cap_least", self.cap_least)):
            if value < 0:
                raise ValueError(f"{setting} = {value}: must be 0 or more")

    def run(self, state: State) -> list[Plan]:
        return greedy.run(self, state)

    def withheld(self, state: State) -> int:
        """What protected jobs over their caps could use: a pass leaves nobody else waiting for whom GPUs are free."""
        return moves.usable(state)

    # ---- the rules of the greedy pass

    def order(self, job: Job) -> tuple[int, ...]:
        return (-job.spec.priority, job.submitted)

    def cap(self, state: State, cluster: ClusterState, leaf: str) -> int:
        """Protected GPUs that a team may run in a cluster now, rounded down."""
        ledger = cluster.ledger
        share = ledger.account(leaf).allocation * ledger.healthy_gpus * self.cap_percent
        return max(self.cap_least, share // (state.the_tree().denominator(leaf) * 100))

    def over(self, state: State, cluster: ClusterState, job: Job, running: int) -> int:
        if not job.spec.charged:
            return 0
        return min(running, running + job.spec.gpus - self.cap(state, cluster, job.leaf))

    def protected(self, attempt: Attempt, now: int) -> bool:
        return attempt.charged

    def rank(self, job: Job) -> int:
        return job.spec.priority

    def outranks(self, job: Job, victim: Job) -> bool:
        return job.spec.priority > victim.spec.priority

    def evict_order(self, job: Job, attempt: Attempt) -> tuple[int, ...]:
        return (job.spec.priority, -attempt.planned_at, -attempt.job_id)

    def because(self, job: Job, victim: Job) -> Because:
        numbers = {"gainer": job.id, "gainer_priority": job.spec.priority, "victim_priority": victim.spec.priority}
        return Because(Reason.EVICTED_LEVEL, numbers)
