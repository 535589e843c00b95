"""Dominant resource fairness, flat and for a tree. Exact, and without a clock.

Whoever takes of several resources has a *dominant share*: the largest of its parts of them. The next task goes to
whoever has the smallest one for its weight (A. Ghodsi et al., *Dominant Resource Fairness*, NSDI 2011, algorithm 1).

In a tree (A. A. Bhattacharya et al., *Hierarchical Scheduling for Diverse Datacenter Workloads*, SoCC 2013) the same is
asked at each level from the root down. What a node takes is the sum of its children; but those that can get more are
first scaled down to the one among them that has least, so that what one child has of a resource which the others do not
need is not held against them. A node is *blocked* when nothing below it can get more: it is never chosen, and it is not
scaled unless it only waits for what fits. Resources of which nothing is left count in no share of an inner node.

A resource is a position in a vector; vectors of one call are equally long. Units are the caller's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

Vector = Sequence[int]
"""How much of each resource."""
Parts = tuple[Fraction, ...]
"""Which part of all there is of each resource."""
ZERO = Fraction(0)


def parts(used: Vector, capacity: Vector) -> Parts:
    """Of each resource the part that is used. A resource that there is nothing of counts as unused."""
    return tuple(Fraction(one, whole) if whole else ZERO for one, whole in zip(used, capacity, strict=True))


def rank(weight: Fraction | int, share: Fraction) -> tuple[bool, Fraction]:
    """Sorts by share for its weight, the smallest first; whoever has no weight comes after all who have some."""
    return (False, share / weight) if weight else (True, share)


@dataclass(frozen=True, slots=True)
class Claimant:
    """Somebody who runs tasks that are all alike. ``tasks``: how many it wants, None for as many as it can get."""

    task: tuple[int, ...]
    weight: int = 1
    tasks: int | None = None

    def wants(self, has: int) -> bool:
        return self.tasks is None or has < self.tasks

    def share(self, capacity: Vector) -> Fraction:
        """The dominant share of one task. Raises ValueError when a task takes nothing, or what there is nothing of."""
        if any(one and not whole for one, whole in zip(self.task, capacity, strict=True)) or not any(self.task):
            raise ValueError(f"task = {self.task}: must take something, and of resources that there are ({capacity})")
        return max(parts(self.task, capacity))


def whole_tasks(capacity: Vector, claimants: Sequence[Claimant]) -> list[int]:
    """How many tasks each gets, one task at a time, always to the smallest weighted dominant share; ties in order.

    Whoever's next task does not fit has as many as it gets, and the others go on. (The paper's algorithm ends there.)
    """
    shares = [one.share(capacity) for one in claimants]
    left, got = list(capacity), [0] * len(claimants)
    going = list(range(len(claimants)))
    while going:
        n = min(going, key=lambda i: rank(claimants[i].weight, shares[i] * got[i]))
        task = claimants[n].task
        if not claimants[n].wants(got[n]) or not _fits(task, left):
            going.remove(n)
            continue
        left = [some - one for some, one in zip(left, task, strict=True)]
        got[n] += 1
    return got


def divisible(capacity: Vector, claimants: Sequence[Claimant]) -> list[Fraction]:
    """How many tasks each gets where parts of tasks are of use: all dominant shares grow at once, for their weights.

    Whoever needs a resource of which nothing is left stops growing, as does whoever has all it wants. Weights must be
    more than 0.
    """
    shares = [one.share(capacity) for one in claimants]
    speed = [one.weight / share for one, share in zip(claimants, shares, strict=True)]
    """Tasks by which each grows while shares grow by their weights."""
    left, got = [Fraction(some) for some in capacity], [ZERO] * len(claimants)
    going = list(range(len(claimants)))
    while going:
        drain = [sum((speed[n] * claimants[n].task[r] for n in going), ZERO) for r in range(len(left))]
        steps = [some / out for some, out in zip(left, drain, strict=True) if out]
        for n in going:
            wanted = claimants[n].tasks
            if wanted is not None:
                steps.append((wanted - got[n]) / speed[n])
        step = min(steps)
        left = [some - step * out for some, out in zip(left, drain, strict=True)]
        for n in going:
            got[n] += step * speed[n]
        empty = {r for r, some in enumerate(left) if not some}
        going = [
            n
            for n in going
            if got[n] != claimants[n].tasks and not any(one and r in empty for r, one in enumerate(claimants[n].task))
        ]
    return got


# ---- trees


@dataclass(frozen=True, slots=True)
class Standing:
    """A node of a tree: the parts of all resources that count as its own, its dominant share, whether it is blocked.

    ``waits``: blocked for now only: what it wants does not fit, though something of each resource is left.
    """

    weight: Fraction | int
    parts: Parts
    share: Fraction
    blocked: bool
    waits: bool = False


def leaf(weight: Fraction | int, used: Parts, *, blocked: bool, waits: bool = False) -> Standing:
    return Standing(weight, used, max(used), blocked, blocked and waits)


def inner(weight: Fraction | int, children: Sequence[Standing], gone: Collection[int]) -> Standing:
    """A node with ``children``. ``gone``: the resources of which nothing is left.

    Children without weight are added as they are. Those that wait for what fits are scaled down as those that are not
    blocked, but nobody is scaled down to them.
    """
    able = [child for child in children if not child.blocked and child.weight]
    least = min((child.share / child.weight for child in able), default=None)
    total = [ZERO] * len(children[0].parts)
    for child in children:
        factor: Fraction | int = 1
        if least is not None and child.weight and (child.waits or not child.blocked) and child.share:
            factor = min(Fraction(1), least * child.weight / child.share)
        for r, part in enumerate(child.parts):
            if part and factor:
                total[r] += part * factor
    share = max((part for r, part in enumerate(total) if r not in gone), default=ZERO)
    blocked = all(child.blocked for child in children)
    return Standing(weight, tuple(total), share, blocked, blocked and any(child.waits for child in children))


@dataclass(slots=True, eq=False)
class Branch:
    """A node of a tree of claimants, by name."""

    below: Mapping[str, Branch | Claimant]
    weight: int = 1


@dataclass(slots=True)
class _Filling:
    capacity: Vector
    left: list[int]
    got: dict[str, int] = field(default_factory=dict)
    """Leaf, by its path -> tasks."""
    tasks: dict[str, Parts] = field(default_factory=dict)
    """Leaf -> the parts of all resources that one task takes."""

    def step(self, root: Branch) -> bool:
        """Give one task away; False when nobody can get one."""
        gone = {r for r, some in enumerate(self.left) if not some}
        path, node = "", root
        while True:
            below = {name: self._standing(f"{path}/{name}", child, gone) for name, child in node.below.items()}
            able = {name: one for name, one in below.items() if not one.blocked}
            if not able:
                return False
            chosen = min(able, key=lambda name: rank(able[name].weight, able[name].share))
            path, child = f"{path}/{chosen}", node.below[chosen]
            if isinstance(child, Claimant):
                self.left = [some - one for some, one in zip(self.left, child.task, strict=True)]
                self.got[path] += 1
                return True
            node = child

    def _standing(self, path: str, node: Branch | Claimant, gone: Collection[int]) -> Standing:
        if isinstance(node, Claimant):
            has = self.got[path]
            used = tuple(has * part for part in self.tasks[path])
            return leaf(node.weight, used, blocked=not node.wants(has) or not _fits(node.task, self.left))
        below = [self._standing(f"{path}/{name}", child, gone) for name, child in node.below.items()]
        return inner(node.weight, below, gone)


def whole_tasks_in_tree(capacity: Vector, root: Branch) -> dict[str, int]:
    """How many tasks each claimant of a tree gets, by its path (``/eng/dev``), one task at a time; ties in order."""
    filling = _Filling(capacity, list(capacity))
    for path, claimant in claimants_of(root):
        claimant.share(capacity)
        filling.got[path] = 0
        filling.tasks[path] = parts(claimant.task, capacity)
    while filling.step(root):
        pass
    return filling.got


def claimants_of(root: Branch, path: str = "") -> Iterator[tuple[str, Claimant]]:
    """All claimants of a tree with their paths."""
    for name, node in root.below.items():
        if isinstance(node, Claimant):
            yield f"{path}/{name}", node
        else:
            yield from claimants_of(node, f"{path}/{name}")


def _fits(task: Vector, left: Vector) -> bool:
    return all(one <= some for one, some in zip(task, left, strict=True))
