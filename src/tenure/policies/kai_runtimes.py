"""How long KAI Scheduler leaves an attempt alone, by queue: ``plugins/minruntime``, its resolver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenure.core.tree import line_of

LCA, QUEUE = "lca", "queue"


@dataclass(frozen=True, slots=True)
class Runtimes:
    """Minimum runtimes, ms: of all queues, and of those that have their own, by path.

    A queue without one has that of its nearest ancestor that does, else the default. ``method``: where the search
    begins when another queue reclaims: ``lca``, where the ways of the two part, or ``queue``, at the victim's queue.
    """

    preempt: int = 0
    reclaim: int = 0
    preempt_of: Mapping[str, int] = field(default_factory=dict)
    reclaim_of: Mapping[str, int] = field(default_factory=dict)
    method: str = LCA
    _least: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def preempted(self, leaf: str) -> int:
        """Before a job of the same queue may have an attempt of ``leaf`` evicted."""
        return _nearest(self.preempt_of, line_of(leaf), self.preempt)

    def reclaimed(self, leaf: str, by: str) -> int:
        """Before a job of the queue ``by`` may have an attempt of ``leaf`` evicted."""
        line = line_of(leaf)
        if self.method == LCA:
            common = sum(mine == theirs for mine, theirs in zip(line, line_of(by), strict=False))
            line = line[: common + 1]
        return _nearest(self.reclaim_of, line, self.reclaim)

    def least(self, leaf: str) -> int:
        """Before anybody at all may have an attempt of ``leaf`` evicted."""
        if leaf not in self._least:
            line = line_of(leaf)
            first = 2 if self.method == LCA else len(line)  # others part from its way below the root, or further down
            lines = [line[:depth] for depth in range(first, len(line) + 1)] or [line]
            reclaims = (_nearest(self.reclaim_of, each, self.reclaim) for each in lines)
            self._least[leaf] = min(self.preempted(leaf), *reclaims)
        return self._least[leaf]


def _nearest(own: Mapping[str, int], line: tuple[str, ...], default: int) -> int:
    """The value of the last of ``line``, from the root down, that has its own."""
    return next((own[path] for path in reversed(line) if path in own), default)
