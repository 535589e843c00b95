"""Which groups a pass has to try: those that what has changed since they were last tried could help.

A group that could not be placed stays unplaceable until one of four things happens. It is *fresh*: new, or something
that holds for all has changed. Something became *free* on a host where it would then fit. Something it outranks came
to be *exposed* there. Its budget has come to outrank a sibling that has something to evict, which happens as time
passes and when others are charged: a *crossing* of its margin.
"""

from __future__ import annotations

from tenure.core.ledger import Kind
from tenure.core.model import GPU
from tenure.core.preemption import Contest, evictable_at_most
from tenure.core.queue import Group

ANY = 1 << 62
"""Above every priority."""


class Waking:
    """The groups of one kind that are to be tried in a pass. ``gained``: hosts on which something became free."""

    def __init__(self, contest: Contest, kind: Kind, gained: int) -> None:
        self.contest = contest
        self.kind = kind
        self.gained = gained
        self.queue = contest.cluster.queues[kind]
        self.pool = contest.cluster.pools[kind]
        self.tree = contest.state.the_tree()

    def begin(self) -> list[Group]:
        """What has to be tried since the last pass; it counts as tried from now on."""
        found = self.queue.fresh
        self.queue.fresh = {}
        if self.pool.gpus:
            for child in {child: None for leaf in self.queue.leaves for child in self.tree.line(leaf)[1:]}:
                for sibling in self.tree.siblings[child]:
                    if sibling in self.pool.gpus:
                        self._cross(child, sibling, found)
        if self.gained or self.pool.grown:
            for leaf in self.queue.leaves:
                self._helped(leaf, found)
            self.pool.grown.clear()
        return [group for group in found if self._entitled(group.key.leaf)]

    def moved(self, leaf: str) -> list[Group]:
        """What has to be tried since a plan charged ``leaf``: its siblings reach further over it, it less over them."""
        found: dict[Group, None] = {}
        if self.pool.gpus:
            for child in self.tree.line(leaf)[1:]:
                for sibling in self.tree.siblings[child]:
                    if child in self.pool.gpus:
                        self._cross(sibling, child, found)
                    if sibling in self.pool.gpus:
                        self._cross(child, sibling, found)
        return [group for group in found if self._entitled(group.key.leaf)]

    def _entitled(self, leaf: str) -> bool:
        return self.kind is Kind.UNALLOCATED or self.contest.charged.entitled(leaf)

    def _cross(self, child: str, sibling: str, found: dict[Group, None]) -> None:
        """Groups below ``child`` that outrank ``sibling`` now and did not when they were last tried."""
        levels = self.queue.levels.setdefault(child, {})
        standing = self.contest.standing(self.kind)
        before, now = levels.get(sibling, -1), standing.reach(child, sibling)
        levels[sibling] = now
        if now > before:
            margin = standing.margin(GPU)
            for leaf in self.tree.leaves_below(child):
                for group in self.queue.leaves.get(leaf, {}).values():
                    if before < group.gpus * margin <= now:
                        found[group] = None

    def _helped(self, leaf: str, found: dict[Group, None]) -> None:
        """Groups of ``leaf`` for which there could be room on a host that has more of it than before."""
        contest, room, groups = self.contest, self.contest.cluster.room, self.queue.leaves[leaf]
        outranked = contest.outranked(self.kind, leaf, min(group.gpus for group in groups.values()) * GPU)
        grown = self.pool.grown
        hosts = self.gained | grown.get(leaf, 0)
        for sibling in outranked:
            hosts |= grown.get(sibling, 0)
        if not hosts:
            return
        gpus = by_host = 0
        if contest.state.evictions_allowed():
            gpus, by_host = evictable_at_most(contest, self.kind, leaf, ANY, outranked)
        enough, most = room.free_gpus + gpus, room.largest(by_host, hosts)
        for key, group in groups.items():
            if group.gpus <= most if group.single else group.gpus <= enough and room.holds(by_host, key.shape.roles):
                found[group] = None
