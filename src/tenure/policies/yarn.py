"""Hadoop YARN's Fair Scheduler: hierarchical queues with weights and minimum shares, and preemption by time-out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from tenure.core.model import GPU, MINUTE
from tenure.core.state import Attempt
from tenure.policies.by_shares import BySharesPolicy, Due, Shares, demand, evictable, in_need, percentage, staying
from tenure.policies.queue_tree import QueueNode, Queues
from tenure.policies.queues import order
from tenure.policies.yarn_shares import Amount, Order, Queue, deficit, fair_shares
from tenure.policies.yarn_shares import order as turn


class Yarn(BySharesPolicy):
    """Each level of the tree is shared by weights, the budgets' shares; whoever is below its minimum comes first.

    A queue that goes short of its minimum share for ``min_share_timeout`` ms, or of ``threshold_percent`` of its fair
    share for ``fair_share_timeout``, may have jobs stopped of queues that hold more than theirs, until it has all of
    it. No queue is pushed below its fair share by that.

    ``min_share_percent``: minimum shares, in percent of what allocations are worth. ``busy_percent``: nobody is stopped
    while no more than this part of the GPUs is in use. Raises ValueError for settings that are not possible.
    """

    name = "yarn"

    def __init__(
        self,
        min_share_percent: int = 100,
        min_share_timeout: int = 2 * MINUTE,
        fair_share_timeout: int = 5 * MINUTE,
        threshold_percent: int = 50,
        busy_percent: int = 80,
    ) -> None:
        super().__init__(min_share_percent)
        self.min_share_timeout = min_share_timeout
        self.fair_share_timeout = fair_share_timeout
        self.threshold_percent = percentage("threshold_percent", threshold_percent)
        self.busy_percent = percentage("busy_percent", busy_percent)

    def next(self, queues: Queues) -> str:
        return queues.descend(lambda nodes: min(nodes, key=lambda node: turn(self.queue_of(queues, node))))

    def fair_shares(self, queues: Queues) -> Shares:
        """Path -> fair share of every budget now, thousandths of a GPU; 0 for those without any jobs."""
        found = {queues.root.path: Fraction(queues.capacity.gpus * GPU)}
        for node in queues.nodes.values():  # parents first
            children = [self.queue_of(queues, child) for child in node.children]
            found.update({child.name: Fraction(0) for child in children if not child.demand})
            found.update(fair_shares([child for child in children if child.demand], found[node.path]))
        return found

    def wants(self, queues: Queues) -> tuple[object, ...]:
        """Who wants something."""
        return tuple(leaf.path for leaf in queues.leaves if demand(queues, leaf))

    def preempting(self, queues: Queues) -> bool:
        return 100 * queues.root.used.gpus > self.busy_percent * queues.capacity.gpus

    def due(self, queues: Queues, queue: Queue, share: Fraction) -> Due:
        part = share * self.threshold_percent / 100
        return (
            in_need(queues, queue, queue.min_share, self.min_share_timeout),
            in_need(queues, queue, part, self.fair_share_timeout),
        )

    def lack(self, queue: Queue, share: Fraction, due: Due) -> Amount:
        return deficit(queue, share, of_minimum=due[0], of_fair_share=due[1])

    def goers(self, queues: Queues, least: Mapping[str, int]) -> Iterator[Attempt]:
        """Each time one of the queue that comes last: at each level the one whose turn would be last without them.

        In a queue whoever is last in its order.
        """
        held, jobs = staying(queues), queues.state.jobs
        lines: dict[str, list[Attempt]] = {}
        below: dict[str, int] = dict.fromkeys(queues.nodes, 0)
        """How many queues at or below a budget have somebody left in their lines."""
        for leaf in queues.leaves:
            spare = held[leaf.path] - least[leaf.path]
            some = [attempt for attempt in evictable(queues, leaf) if attempt.amount <= spare] if spare > 0 else []
            if some:
                lines[leaf.path] = sorted(some, key=lambda one: order(jobs[one.job_id]))
                for above in queues.line(leaf.path):
                    below[above.path] += 1

        def turn_then(node: QueueNode) -> Order:
            return turn(self._with(queues, node, held[node.path]))

        while below[queues.root.path]:
            node = queues.root
            while node.children:
                node = max((child for child in node.children if below[child.path]), key=turn_then)
            attempt, above_it = lines[node.path].pop(), queues.line(node.path)
            if held[node.path] - attempt.amount >= least[node.path]:
                yield attempt
                for above in above_it:
                    held[above.path] -= attempt.amount
            if not lines[node.path]:
                for above in above_it:
                    below[above.path] -= 1

    def queue_of(self, queues: Queues, node: QueueNode) -> Queue:
        return self._with(queues, node, node.amount)

    def _with(self, queues: Queues, node: QueueNode, usage: int) -> Queue:
        return Queue(node.path, node.share, usage, demand(queues, node), self.minimum(queues, node))
