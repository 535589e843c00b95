"""The Hadoop Fair Scheduler of 2009: pools with minimum shares, and two preemption time-outs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache

from tenure.core.model import GPU, MINUTE
from tenure.core.state import Attempt
from tenure.core.tree import Tree
from tenure.policies.by_shares import BySharesPolicy, Due, Shares, demand, evictable, in_need, staying
from tenure.policies.hadoop_shares import deficit, fair_shares, half_of, order
from tenure.policies.queue_tree import QueueNode, Queues
from tenure.policies.yarn_shares import Amount, Queue


class Hadoop(BySharesPolicy):
    """Every leaf of the tree is a pool with its allocation as its weight; whoever is below its minimum is first.

    A pool that is below its minimum share for ``min_share_timeout`` ms, or below half of its fair share for
    ``fair_share_timeout``, has jobs stopped of pools that are above theirs, the most recently started first, until it
    has its share in whole GPUs. No pool is pushed below its own in whole GPUs by that.

    ``min_share_percent``: minimum shares, in percent of what allocations are worth, rounded down to whole GPUs. Raises
    ValueError for one that is not possible.
    """

    name = "hadoop"

    def __init__(
        self,
        min_share_percent: int = 100,
        min_share_timeout: int = 5 * MINUTE,
        fair_share_timeout: int = 10 * MINUTE,
    ) -> None:
        super().__init__(min_share_percent)
        self.min_share_timeout = min_share_timeout
        self.fair_share_timeout = fair_share_timeout

    def next(self, queues: Queues) -> str:
        return min(queues.ready(), key=lambda leaf: order(self.queue_of(queues, leaf))).path

    def fair_shares(self, queues: Queues) -> Shares:
        """Path -> fair share of every pool now, thousandths of a GPU."""
        return fair_shares([self.queue_of(queues, leaf) for leaf in queues.leaves], queues.capacity.gpus * GPU)

    def wants(self, queues: Queues) -> tuple[object, ...]:
        return tuple(demand(queues, leaf) for leaf in queues.leaves)

    def kept(self, share: Fraction) -> int:
        """In whole GPUs: of 4/3 slots a pool with 2 loses one there, since 2 is more than its fair share."""
        return int(share // GPU) * GPU

    def due(self, queues: Queues, queue: Queue, share: Fraction) -> Due:
        return (
            in_need(queues, queue, queue.min_share, self.min_share_timeout),
            in_need(queues, queue, half_of(share, GPU), self.fair_share_timeout),
        )

    def lack(self, queue: Queue, share: Fraction, due: Due) -> Amount:
        return deficit(queue, share, GPU, of_minimum=due[0], of_fair_share=due[1])

    def goers(self, queues: Queues, least: Mapping[str, int]) -> Iterator[Attempt]:
        """The most recently started first."""
        held = staying(queues)
        over = [leaf for leaf in queues.leaves if held[leaf.path] > least[leaf.path]]
        attempts = [attempt for leaf in over for attempt in evictable(queues, leaf)]
        for attempt in sorted(attempts, key=lambda one: (one.started_at, one.job_id), reverse=True):
            if held[attempt.leaf] - attempt.amount >= least[attempt.leaf]:
                held[attempt.leaf] -= attempt.amount
                yield attempt

    def minimum(self, queues: Queues, node: QueueNode) -> int:
        """In whole GPUs: a minimum share was a number of slots."""
        return super().minimum(queues, node) // GPU * GPU

    def queue_of(self, queues: Queues, node: QueueNode) -> Queue:
        weight = node.allocation * (_deepest(queues.state.the_tree()) // node.denominator)
        return Queue(node.path, weight, node.amount, demand(queues, node), self.minimum(queues, node))


@lru_cache(maxsize=4)
def _deepest(tree: Tree) -> int:
    """What all allocations of a tree can be put over."""
    return max(tree.denominators.values())
