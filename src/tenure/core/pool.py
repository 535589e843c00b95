"""What jobs of one kind may evict when they outrank it, counted for every node of the tree and every host.

For charged jobs that is what runs exposed, for unallocated ones those that have had their turn. The attempts
themselves are in the indices of their cluster; here they are numbers, so that asking what evictions could free at most
costs an addition a sibling.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """One attempt as it was counted: nodes from the root to its leaf, priority, GPUs, GPUs per host, set of hosts."""

    line: tuple[str, ...]
    priority: int
    gpus: int
    tally: int
    hosts: int


class Pool:
    """Sums over the attempts in it."""

    def __init__(self) -> None:
        self.gpus: dict[str, int] = {}
        """Node -> GPUs of those below it; none that is 0."""
        self.tallies: dict[str, int] = {}
        """Node -> the same by host (see ``tally``)."""
        self.priorities: dict[str, dict[int, list[int]]] = {}
        """Leaf -> priority -> [GPUs, by host]."""
        self.grown: dict[str, int] = {}
        """Node -> hosts on which something came in below it since the last pass."""
        self.opened: set[str] = set()
        """Nodes below which there is something and was nothing before."""
        self._entries: dict[str, Entry] = {}

    def add(self, attempt_id: str, entry: Entry) -> None:
        self._entries[attempt_id] = entry
        self._count(entry, 1)
        for path in entry.line:
            self.grown[path] = self.grown.get(path, 0) | entry.hosts

    def discard(self, attempt_id: str) -> Entry | None:
        """Take an attempt out; None when it is not here."""
        entry = self._entries.pop(attempt_id, None)
        if entry is not None:
            self._count(entry, -1)
        return entry

    def below(self, leaf: str, priority: int) -> tuple[int, int]:
        """GPUs in ``leaf`` of a lower priority, in all and by host."""
        gpus = tally = 0
        for other, (some, where) in self.priorities.get(leaf, {}).items():
            if other < priority:
                gpus += some
                tally += where
        return gpus, tally

    def _count(self, entry: Entry, sign: int) -> None:
        gpus, tally = sign * entry.gpus, sign * entry.tally
        for path in entry.line:
            before = self.gpus.get(path, 0)
            left = before + gpus
            if not before:
                self.opened.add(path)
            if left:
                self.gpus[path] = left
                self.tallies[path] = self.tallies.get(path, 0) + tally
            else:
                self.gpus.pop(path, None)
                self.tallies.pop(path, None)
        here = self.priorities.setdefault(entry.line[-1], {}).setdefault(entry.priority, [0, 0])
        here[0] += gpus
        here[1] += tally
