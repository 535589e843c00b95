"""Static quotas: each team has its part of the cluster, and what it leaves idle is nobody's."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.core.state import Job, State
from tenure.policies import moves
from tenure.policies.queue_tree import QueueNode, Queues
from tenure.policies.queues import QueuePolicy, order


@dataclass(frozen=True, slots=True)
class Quotas(QueuePolicy):
    """A team, which is a leaf of the tree, holds at most its allocation x healthy GPUs, rounded. Nobody is evicted.

    A job that is larger than its team's quota starts when the team holds nothing else: else it could never run. Where
    quotas together are more than there is, the older job goes first.

    ``quota_least``: GPUs that a quota is at least. Raises ValueError when it is negative.
    """

    quota_least: int = 8

    name = "quotas"

    def __post_init__(self) -> None:
        if self.quota_least < 0:
            raise ValueError(f"quota_least = {self.quota_least}: must be 0 or more")

    def next(self, queues: Queues) -> str:
        return min(queues.ready(), key=_oldest).path

    def quota(self, queues: Queues, leaf: QueueNode) -> int:
        """GPUs that a team may hold in a cluster now."""
        return max(self.quota_least, leaf.gpus_of(queues.capacity.gpus))

    def over(self, queues: Queues, leaf: QueueNode, job: Job) -> int:
        used = leaf.used.gpus
        return min(used, used + job.spec.gpus - self.quota(queues, leaf))

    def withheld(self, state: State) -> int:
        """What jobs over their quotas could use: a pass leaves nobody else waiting for whom GPUs are free."""
        return moves.usable(state)


def _oldest(leaf: QueueNode) -> tuple[int, ...]:
    assert leaf.first is not None
    return leaf.first.submitted, *order(leaf.first)
