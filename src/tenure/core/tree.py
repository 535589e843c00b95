"""The tree of budgets: paths, implicit ``self`` children, allocations and grants. Exact integers.

An allocation is a numerator over ``SHARE_ONE ** depth``: products of shares stay exact and siblings, which are all
that is ever compared, have one denominator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tenure.core.model import HOUR, SELF, SHARE_ONE, Budget, Grant


@dataclass(frozen=True, slots=True)
class Node:
    """A place in the tree. ``budget`` is None for an implicit ``self``. The root has depth 0."""

    path: str
    parent: str | None
    depth: int
    children: tuple[str, ...]
    budget: Budget | None


def parent_of(path: str) -> str | None:
    head, _, tail = path.rpartition("/")
    return head if tail and head else None


class Tree:
    """An immutable tree. Raises ValueError when a parent is missing or there is not exactly one root."""

    def __init__(self, budgets: Iterable[Budget], grants: Iterable[Grant] = ()) -> None:
        declared = {budget.path: budget for budget in budgets}
        self.grants = tuple(sorted(grants, key=lambda g: (g.start, g.to)))
        self.budgets = declared
        roots = [path for path in declared if "/" not in path]
        if len(roots) != 1:
            raise ValueError(f"a tree has one root, not {len(roots)}: {', '.join(sorted(roots)) or 'none'}")
        self.root = roots[0]
        below: dict[str, list[str]] = {}
        for path in sorted(declared):
            parent = parent_of(path)
            if parent is not None:
                if parent not in declared:
                    raise ValueError(f"budget {path} has no parent {parent}")
                below.setdefault(parent, []).append(path)
        self.nodes: dict[str, Node] = {}
        for path, budget in declared.items():
            children = below.get(path, [])
            if children:
                children = sorted([*children, f"{path}/{SELF}"])
                self.nodes[f"{path}/{SELF}"] = Node(f"{path}/{SELF}", path, path.count("/") + 1, (), None)
            self.nodes[path] = Node(path, parent_of(path), path.count("/"), tuple(children), budget)
        self._lines: dict[str, tuple[str, ...]] = {}
        self._below: dict[str, tuple[str, ...]] = {}
        self.denominators = {path: int(SHARE_ONE**node.depth) for path, node in self.nodes.items()}
        """Node -> what the numerators of its allocations are over."""
        self.siblings = {
            child: tuple(other for other in node.children if other != child)
            for node in self.nodes.values()
            for child in node.children
        }
        """Node -> the other children of its parent, by id; the root has none and is not here."""

    def leaf_of(self, path: str) -> str:
        """Where jobs charged to budget ``path`` are: itself, or its ``self`` when it has children.

        Raises KeyError for an unknown path.
        """
        return f"{path}/{SELF}" if self.nodes[path].children else path

    def leaves(self) -> list[str]:
        return [path for path, node in self.nodes.items() if not node.children]

    def line(self, path: str) -> tuple[str, ...]:
        """The path of nodes from the root down to ``path``."""
        line = self._lines.get(path)
        if line is None:
            line = self._lines[path] = line_of(path)
        return line

    def leaves_below(self, path: str) -> tuple[str, ...]:
        """The leaves at or below ``path``."""
        below = self._below.get(path)
        if below is None:
            inside = f"{path}/"
            below = tuple(leaf for leaf in self.leaves() if leaf == path or leaf.startswith(inside))
            self._below[path] = below
        return below

    def denominator(self, path: str) -> int:
        return self.denominators[path]

    def allocations(self, cluster: str, gpus: int, now: int) -> dict[str, int]:
        """Numerator of each node's allocation on a cluster of ``gpus`` GPUs at ``now``, active grants included."""
        active = [g for g in self.grants if g.cluster == cluster and g.start <= now < g.end]
        allocation = {self.root: 1}
        order = [self.root]
        for path in order:
            node = self.nodes[path]
            if not node.children:
                continue
            shares = self.shares(path, cluster)
            for grant in active:
                if parent_of(grant.to) == path:
                    _move_share(shares, grant, gpus * allocation[path], int(SHARE_ONE**node.depth))
            for child in node.children:
                allocation[child] = allocation[path] * shares[child]
            order.extend(node.children)
        return allocation

    def shares(self, path: str, cluster: str) -> dict[str, int]:
        """Child -> its part of an inner budget on a cluster, parts per million, ``self`` included; without grants."""
        shares: dict[str, int] = {}
        for child in self.nodes[path].children:
            budget = self.nodes[child].budget
            if budget is not None:
                shares[child] = budget.share_on(cluster)
        shares[f"{path}/{SELF}"] = max(0, SHARE_ONE - sum(shares.values()))
        return shares

    def next_change(self, now: int) -> int | None:
        """When a grant next begins or ends after ``now``."""
        times = [t for grant in self.grants for t in (grant.start, grant.end) if t > now]
        return min(times, default=None)


@lru_cache(maxsize=4096)
def line_of(path: str) -> tuple[str, ...]:
    """``a/b/c`` -> (``a``, ``a/b``, ``a/b/c``)."""
    parts = path.split("/")
    return tuple("/".join(parts[: i + 1]) for i in range(len(parts)))


def _move_share(shares: dict[str, int], grant: Grant, parent_gpus: int, denominator: int) -> None:
    """Move the share of ``grant`` from its givers, in proportion to what they have, never below 0.

    ``parent_gpus`` / ``denominator`` is the parent's allocation in GPUs.
    """
    hours_ms = grant.end - grant.start
    if parent_gpus <= 0 or hours_ms <= 0:
        return
    givers = [path for path in grant.taken_from if path in shares]
    total = sum(shares[path] for path in givers)
    if not total:
        return
    wanted = grant.amount * HOUR * SHARE_ONE * denominator // (hours_ms * parent_gpus)
    moved = min(wanted, total)
    left = moved
    for i, path in enumerate(givers):
        take = left if i == len(givers) - 1 else moved * shares[path] // total
        take = min(take, shares[path], left)
        shares[path] -= take
        left -= take
    for path in givers:  # what rounding left over
        take = min(left, shares[path])
        shares[path] -= take
        left -= take
    shares[grant.to] += moved - left


def moves(new: Mapping[str, Budget], old: Mapping[str, Budget]) -> dict[str, str]:
    """old path -> new path of every budget that moves now; those that said so before have moved already."""
    return {
        b.moved_from: path
        for path, b in new.items()
        if b.moved_from is not None and (path not in old or old[path].moved_from != b.moved_from)
    }
