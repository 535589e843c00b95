"""The pass as rule 5 reads: after each placement walk again from the root over everything that waits.

It remembers nothing between passes and knows nothing of what has changed, so it shows what the real pass leaves out
by mistake.
"""

from __future__ import annotations

from tenure.core import cycle, preemption
from tenure.core.decisions import Plan
from tenure.core.ledger import Kind
from tenure.core.queue import Group
from tenure.core.state import State
from tenure.core.walk import Walk


def run(state: State) -> list[Plan]:
    """What ``cycle.run`` decides, at leisure."""
    plans: list[Plan] = []
    passes: dict[str, cycle._Pass] = {}
    for name in sorted(state.clusters):
        passes[name] = _Plain(state, state.clusters[name], passes, plans)
    cycle.settle(passes.values(), plans)
    return plans


class _Plain(cycle._Pass):
    def _place(self, kind: Kind) -> None:
        while self._place_one(kind):
            pass

    def _place_one(self, kind: Kind) -> bool:
        standing, leaves = self.contest.standing(kind), self.cluster.queues[kind].leaves
        waiting = [
            group
            for leaf, groups in leaves.items()
            for group in groups.values()
            if kind is Kind.UNALLOCATED or standing.entitled(leaf)
        ]
        walk = Walk(self.contest, kind, waiting)
        while leaf := walk.first_leaf():
            top = max(group.key.priority for group in walk.awake[leaf])
            group = min((g for g in walk.awake[leaf] if g.key.priority == top), key=self._head)
            plan = self._plan(group) if self._possible(group) and self._ours(group) else None
            if plan is not None:
                self._commit(plan)
                return True
            walk.drop(group)
        return False

    def _possible(self, group: Group) -> bool:
        """Whether it fits, by eviction if need be: tried, not reasoned about."""
        if self.state.paused_starts:
            return False
        if self.prospects.fits(group):
            return True
        may_evict = self.state.evictions_allowed() and self.prospects.under_cap()
        job, there = self.state.jobs[group.anyone()], self.prospects.claimable(group)
        return may_evict and preemption.search(self.contest, job, there) is not None
