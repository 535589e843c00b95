"""Weighted max-min sharing, down a tree: what an ideal fluid scheduler would hand out in one hour.

At every node the children get min(want, lambda x weight), with lambda such that all is handed out: what one child does
not want goes to its siblings by their weights. This is progressive filling (D. Bertsekas and R. Gallager, *Data
Networks*, 2nd ed., 1992, section 6.5.2), solved at once by going through the children in the order of want / weight.

Everything is in whole units (amount x ms), and exact: nothing gets lost, and what cannot be divided goes unit by unit
to the largest remainders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from tenure.core.tree import line_of, parent_of


def fill(capacity: int, wants: Sequence[tuple[int, int]]) -> list[int]:
    """Parts of ``capacity`` for (want, weight) each, in order. They add up to min(capacity, all wants with a weight).

    A weight of 0 gets nothing. Nobody gets more than it wants.
    """
    parts = [0] * len(wants)
    order = [i for i, (want, weight) in enumerate(wants) if weight > 0 and want > 0]
    order.sort(key=lambda i: (Fraction(wants[i][0], wants[i][1]), i))
    left = capacity
    weights = sum(wants[i][1] for i in order)
    for place, i in enumerate(order):
        want, weight = wants[i]
        if want * weights > left * weight:
            _divide(left, weights, [(j, wants[j][1]) for j in order[place:]], parts)
            break
        parts[i] = want
        left -= want
        weights -= weight
    return parts


def _divide(left: int, weights: int, among: list[tuple[int, int]], parts: list[int]) -> None:
    """Divide ``left`` by weight among those who all want more than that; the rest goes to the largest remainders."""
    remainders = []
    for i, weight in among:
        parts[i], rest = divmod(left * weight, weights)
        remainders.append((-rest, i))
    over = left - sum(parts[i] for i, _ in among)
    for _, i in sorted(remainders)[:over]:
        parts[i] += 1


class Shape:
    """The inner nodes above a set of leaves, which does not change from hour to hour."""

    def __init__(self, leaves: Iterable[str]) -> None:
        self.leaves = sorted(leaves)
        self.lines = {leaf: line_of(leaf) for leaf in self.leaves}
        nodes = sorted({path for line in self.lines.values() for path in line})
        self.children: dict[str, list[str]] = {}
        self.roots: list[str] = []
        for path in nodes:
            parent = parent_of(path)
            if parent is None:
                self.roots.append(path)
            else:
                self.children.setdefault(parent, []).append(path)

    def fill(self, capacity: int, wants: Mapping[str, int], weights: Mapping[str, int]) -> dict[str, int]:
        """Leaf -> its part of ``capacity``. An inner node wants and weighs what its leaves do together."""
        want = dict.fromkeys((p for line in self.lines.values() for p in line), 0)
        weight = dict(want)
        for leaf in self.leaves:
            heavy, wanted = weights.get(leaf, 0), wants.get(leaf, 0)
            if heavy > 0:
                for path in self.lines[leaf]:
                    want[path] += wanted
                    weight[path] += heavy
        filled: dict[str, int] = {}
        levels = [(capacity, self.roots)]
        for amount, paths in levels:
            parts = fill(amount, [(want[path], weight[path]) for path in paths])
            for path, part in zip(paths, parts, strict=True):
                if path in self.children:
                    levels.append((part, self.children[path]))
                else:
                    filled[path] = part
        return filled
