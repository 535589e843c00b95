"""DRF over queues: the next job is of the queue with the smallest dominant share for its weight. Nobody is evicted.

The shares themselves are ``tenure.policies.drf``. As in Mesos, what is handed out stays with whoever has it until it is
given back.
"""

from __future__ import annotations

from fractions import Fraction

from tenure.policies import drf
from tenure.policies.queue_tree import QueueNode, Queues
from tenure.policies.queues import QueuePolicy


class Drf(QueuePolicy):
    """Flat: every queue by itself, with its allocation of the cluster as its weight."""

    name = "drf"

    def next(self, queues: Queues) -> str:
        return min(queues.ready(), key=lambda leaf: (*_rank(queues, leaf), leaf.path)).path


def _rank(queues: Queues, leaf: QueueNode) -> tuple[bool, Fraction]:
    share = max(drf.parts(leaf.used, queues.capacity))
    return drf.rank(Fraction(leaf.allocation, leaf.denominator), share)


class DrfTree(QueuePolicy):
    """Hierarchical: at each level the child with the smallest dominant share for its share of the parent.

    A node is blocked when no job below it can start now: for good if nobody waits there, else until more is free.
    """

    name = "drf-tree"

    def next(self, queues: Queues) -> str:
        gone = {r for r, (used, all_) in enumerate(zip(queues.root.used, queues.capacity, strict=True)) if used >= all_}
        known: dict[str, drf.Standing] = {}

        def standing(node: QueueNode) -> drf.Standing:
            found = known.get(node.path)
            if found is None:
                if node.children:
                    found = drf.inner(node.share, [standing(child) for child in node.children], gone)
                else:
                    used = drf.parts(node.used, queues.capacity)
                    waits = queues.demand(node.path) != node.used
                    found = drf.leaf(node.share, used, blocked=not node.ready, waits=waits)
                known[node.path] = found
            return found

        def rank(node: QueueNode) -> tuple[bool, Fraction, str]:
            found = standing(node)
            return (*drf.rank(found.weight, found.share), node.path)

        return queues.descend(lambda nodes: min(nodes, key=rank))
