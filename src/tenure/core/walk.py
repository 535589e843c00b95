"""Rule 5's walk down the tree over what a pass has left to try."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tenure.core.ledger import Kind
from tenure.core.preemption import Contest
from tenure.core.queue import Group
from tenure.core.state import Job


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


def head_of(contest: Contest, group: Group) -> tuple[int, int, int]:
    """Rule 5 in the leaf, one priority: person least charged, oldest first submission, id of the job."""
    standing, leaf = contest.standing(group.kind), group.key.leaf
    return min((standing.person_used(leaf, user), *job) for user, job in group.heads())


def in_turn(
    contest: Contest, least: int, head: Callable[[Group], tuple[int, int, int]], *, reserved: bool
) -> Iterator[tuple[Group, Job]]:
    """The charged jobs of at least so many GPUs that wait, in rule 5's order; of a group all until one stays.

    ``head``: rule 5 in the leaf for the first job of a group, its id last. ``reserved``: those as well that hosts are
    held for; nobody may take these away meanwhile.
    """
    walk = waiting(contest, least, reserved=reserved)
    while found := walk.first_leaf():
        group = first_group(walk, found, head)
        job_id = head(group)[2]
        yield group, contest.state.jobs[job_id]
        if not group.people or head(group)[2] == job_id:
            walk.drop(group)


def waiting(contest: Contest, least: int, *, reserved: bool) -> Walk:
    """A walk over the charged groups of at least so many GPUs that wait."""
    walk = Walk(contest, Kind.CHARGED, ())
    for leaf, groups in contest.cluster.queues[Kind.CHARGED].leaves.items():
        if contest.charged.entitled(leaf):
            walk.add(each for each in groups.values() if each.gpus >= least and (reserved or not each.key.reserved))
    return walk


def first_group(walk: Walk, leaf: str, head: Callable[[Group], tuple[int, int, int]]) -> Group:
    """Of the groups of a leaf that are left the one that comes first."""
    top = max(group.key.priority for group in walk.awake[leaf])
    return min((group for group in walk.awake[leaf] if group.key.priority == top), key=head)
