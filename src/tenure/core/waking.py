"""Which groups a pass has to try: those that what has changed since they were last tried could help.

A group that could not be placed stays unplaceable until one of four things happens. It is *fresh*: new, or something
that holds for all has changed. Something became *free* on a host where it would then fit. Something it outranks came
to be *exposed* there. Its budget has come to outrank a sibling that has something to evict, which happens as time
passes and when others are charged: a *crossing* of its margin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tenure.core.fairshare import Standing
from tenure.core.ledger import Kind
from tenure.core.model import GPU
from tenure.core.preemption import Contest, evictable_at_most
from tenure.core.queue import Group
from tenure.core.watch import ENDLESS, HORIZON

ANY = 1 << 62
"""Above every priority."""


class Waking:
    """The groups of one kind that are to be tried in a pass."""

    def __init__(self, contest: Contest, kind: Kind, lets_in: Callable[[Group], int]) -> None:
        self.contest = contest
        self.kind = kind
        self.lets_in = lets_in
        """Hosts that let a group's jobs in, as bits."""
        self.queue = contest.cluster.queues[kind]
        self.pool = contest.cluster.pools[kind]
        self.watch = self.queue.watch
        self.tree = contest.state.the_tree()
        self.rebound: set[str] = set()
        """Nodes whose bounds have become tighter, and whose alarms are to be set anew."""

    @property
    def standing(self) -> Standing:
        return self.contest.standing(self.kind)

    def begin(self, gained: int) -> list[Group]:
        """What has to be tried since the last pass; it counts as tried from now on.

        ``gained``: hosts on which something became free.
        """
        found = self.queue.fresh
        self.queue.fresh = {}
        if len(found) == self.queue.groups:  # all of them
            self.pool.grown.clear()
            return [group for group in found if self._entitled(group.key.leaf)]
        self._look(found, new=False)  # those that are new here are tried now, and measured when they have to wait
        if gained or self.pool.grown:
            for leaf in self.queue.leaves:
                self._helped(leaf, gained, found)
            self.pool.grown.clear()
        return [group for group in found if self._entitled(group.key.leaf)]

    def moved(self, leaf: str, gained: int) -> list[Group]:
        """What has to be tried since a plan charged ``leaf``: its siblings reach further over it, it less over them.

        ``gained``: hosts that were held for its job.
        """
        if not self.queue.groups:
            return []
        found: dict[Group, None] = {}
        self._look(found)
        for each in self.queue.leaves if gained else ():
            self._helped(each, gained, found)
        return [group for group in found if self._entitled(group.key.leaf)]

    def end(self) -> None:
        """The pass is over: measure what is to wake those that were tried in it."""
        if self.queue.resized and self.queue.groups:
            self._look({})  # nothing was charged since they were tried
        self._set_alarms(())

    def outranked(self, leaf: str, gpus: int) -> tuple[str, ...]:
        """Siblings along the path of ``leaf`` with something to evict that a job of so many GPUs outranks now.

        Who is tried and found not to reach a margin waits for a crossing of it, even if it had been crossed before.
        """
        if not self.pool.gpus:
            return ()
        standing, levels = self.standing, self.watch.levels
        margin, found = standing.margin(gpus * GPU), []
        for child in self.tree.line(leaf)[1:]:
            for sibling in self.tree.siblings[child]:
                if sibling in self.pool.gpus:
                    now = standing.reach(child, sibling)
                    if now >= margin:
                        found.append(sibling)
                    elif levels.get(child, {}).get(sibling, -1) >= margin:
                        self._measure(child, sibling)
        return tuple(found)

    def _entitled(self, leaf: str) -> bool:
        return self.kind is Kind.UNALLOCATED or self.contest.cluster.ledger.account(leaf).allocation > 0

    def _look(self, found: dict[Group, None], *, new: bool = True) -> None:
        """Measure again what could have come to outrank a sibling, and note the groups that have."""
        watch, pool, ledger = self.watch, self.pool, self.contest.cluster.ledger
        checked = {node: None for leaf in sorted(ledger.charged[self.kind]) for node in self.tree.line(leaf)[1:]}
        ledger.charged[self.kind].clear()
        checked.update(dict.fromkeys(watch.due(self.contest.now)))
        if watch.entitlements != ledger.entitlements:
            watch.entitlements = ledger.entitlements
            self.queue.resized.update(self.queue.sizes)
            new = True
        pairs: dict[tuple[str, str], bool] = {}
        """Whether what was measured of them before is not to be asked."""
        for node in checked:
            bounds = watch.bounds.get(node)
            if bounds is not None and not bounds.hold(self.standing.figures(node), self.contest.now):
                del watch.bounds[node]
                pairs.update({(node, sibling): False for sibling in self.tree.siblings[node]})
                pairs.update({(sibling, node): False for sibling in self.tree.siblings[node]})
        if new:
            for node in sorted(self.queue.resized - {self.tree.root}):
                pairs.update({(node, sibling): True for sibling in self.tree.siblings[node]})
            self.queue.resized.clear()
        for node in sorted(pool.opened - {self.tree.root}):
            pairs.update({(sibling, node): True for sibling in self.tree.siblings[node]})
        pool.opened.clear()
        for (child, sibling), anew in pairs.items():
            contested = sibling in pool.gpus and self.queue.sizes.get(child)
            if contested and (anew or not watch.holds(child, sibling, self.standing)):
                self._cross(child, sibling, found)
        self._set_alarms(checked)

    def _cross(self, child: str, sibling: str, found: dict[Group, None]) -> None:
        """Groups below ``child`` that outrank ``sibling`` now and did not when they were last tried."""
        before = self.watch.levels.setdefault(child, {}).get(sibling, -1)
        now = self._measure(child, sibling)
        if now > before:
            margin = self.standing.margin(GPU)
            for leaf in self.tree.leaves_below(child):
                for group in self.queue.leaves.get(leaf, {}).values():
                    if before < group.gpus * margin <= now:
                        found[group] = None

    def _measure(self, child: str, sibling: str) -> int:
        """The reach of ``child`` over ``sibling`` now, with the bounds within which it crosses no margin below it."""
        standing, watch = self.standing, self.watch
        level = standing.reach(child, sibling)
        watch.levels[child][sibling] = level
        margins = [size * standing.margin(GPU) for size in self.queue.sizes[child]]
        above = min((margin for margin in margins if margin > level), default=None)
        if above is not None:
            worst, until = standing.reach_at_worst(child, sibling, HORIZON)
            watch.bind(child, sibling, above - worst - 2, standing, until)
            self.rebound.update((child, sibling))
        else:
            watch.slacks[child, sibling] = ENDLESS
        return level

    def _set_alarms(self, checked: Iterable[str]) -> None:
        for node in sorted(self.rebound.union(checked)):
            if node in self.watch.bounds:
                self.watch.set_alarm(node, self.standing)
        self.rebound.clear()

    def _helped(self, leaf: str, gained: int, found: dict[Group, None]) -> None:
        """Groups of ``leaf`` for which there could be room on a host that has more of it than before."""
        contest, room, grown = self.contest, self.contest.cluster.room, self.pool.grown
        sizes = self.queue.sizes[leaf]
        outranked = self._outranked_at_most(leaf, min(sizes))
        hosts = gained | grown.get(leaf, 0)
        for sibling in outranked:
            hosts |= grown.get(sibling, 0)
        hosts |= grown.get(self.tree.root, 0) & contest.cluster.headroom_mask
        if not hosts:
            return
        gpus = by_host = 0
        if contest.state.evictions_allowed():
            gpus, by_host = evictable_at_most(contest, self.kind, leaf, ANY, outranked, brief=True)
        enough, most = room.free_gpus + gpus, dict[int, int]()
        for key, group in self.queue.leaves[leaf].items():
            inside = self.lets_in(group)
            if not hosts & inside:
                continue
            if not group.single:
                helped = group.gpus <= enough and room.holds(by_host, key.shape.roles, inside)
            else:
                if inside not in most:
                    most[inside] = room.largest(by_host, hosts & inside)
                helped = group.gpus <= most[inside]
            if helped:
                found[group] = None

    def _outranked_at_most(self, leaf: str, gpus: int) -> list[str]:
        """No fewer than ``outranked``, without measuring anything."""
        pool = self.pool.gpus
        if not pool:
            return []
        margin = self.standing.margin(gpus * GPU)
        return [
            sibling
            for child in self.tree.line(leaf)[1:]
            for sibling, level in self.watch.levels.get(child, {}).items()
            if level >= margin and sibling in pool
        ]
