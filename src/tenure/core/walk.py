"""Rule 5's walk down the tree over what a pass has left to try."""

from __future__ import annotations

from collections.abc import Iterable

from tenure.core.ledger import Kind
from tenure.core.preemption import Contest
from tenure.core.queue import Group


class Walk:
    """Rule 5's walk from the root over the leaves that have something left to try."""

    def __init__(self, contest: Contest, kind: Kind, groups: Iterable[Group]) -> None:
        self.contest = contest
        self.kind = kind
        self.awake: dict[str, dict[Group, None]] = {}
        """Leaf -> its groups that are left to try."""
        self.live: dict[str, int] = {}
        """Node -> how many of them there are below it."""
        self.add(groups)

    def first_leaf(self) -> str | None:
        tree = self.contest.state.the_tree()
        path = tree.root
        if not self.live.get(path):
            return None
        while children := tree.nodes[path].children:
            live = [child for child in children if self.live.get(child)]
            path = self.contest.standing(self.kind).first(live) if len(live) > 1 else live[0]
        return path

    def add(self, groups: Iterable[Group]) -> None:
        for group in groups:
            here = self.awake.setdefault(group.key.leaf, {})
            if group not in here:
                here[group] = None
                self._count(group, 1)

    def drop(self, group: Group) -> None:
        if group in self.awake[group.key.leaf]:
            del self.awake[group.key.leaf][group]
            self._count(group, -1)

    def _count(self, group: Group, change: int) -> None:
        for path in self.contest.state.the_tree().line(group.key.leaf):
            self.live[path] = self.live.get(path, 0) + change
