"""The parts of what a budget has used and promised, and how they are taken from the accounts of the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tenure.core.ledger import Account, Kind


@dataclass(frozen=True, slots=True)
class Parts:
    """What was used and is promised, in thousandths of a GPU x ms over the lookback.

    ``settled``: charged by what has ended, less credits. ``running``: charged so far by what holds GPUs now.
    ``committed``: protection left of what claims, starts and runs. ``reserved``: promised to reservations.
    ``unallocated``: used free of charge, and in none of the others.
    """

    settled: int = 0
    running: int = 0
    committed: int = 0
    reserved: int = 0
    unallocated: int = 0

    @property
    def used(self) -> int:
        """U of rule 4."""
        return self.settled + self.running

    @property
    def total(self) -> int:
        """U + C of rule 4."""
        return self.settled + self.running + self.committed + self.reserved

    def __add__(self, other: Parts) -> Parts:
        return Parts(
            self.settled + other.settled,
            self.running + other.running,
            self.committed + other.committed,
            self.reserved + other.reserved,
            self.unallocated + other.unallocated,
        )

    def __sub__(self, other: Parts) -> Parts:
        return Parts(
            self.settled - other.settled,
            self.running - other.running,
            self.committed - other.committed,
            self.reserved - other.reserved,
            self.unallocated - other.unallocated,
        )


NOTHING = Parts()


def parts_of(accounts: Iterable[Account], running: int, reserved: int, since: int, now: int) -> Parts:
    """The parts over [since, now) of these accounts together.

    ``running`` and ``reserved`` are not known to an account: what its open spans have been charged, and what its
    reservations promise. The rest of its usage is settled, the rest of its promises committed.
    """
    used = promised = unallocated = 0
    for account in accounts:
        used += account.usage(Kind.CHARGED, since, now)
        promised += account.promised[Kind.CHARGED].at(now)
        unallocated += account.usage(Kind.UNALLOCATED, since, now)
    return Parts(used - running, running, promised - reserved, reserved, unallocated)


def below(leaf: str, path: str) -> bool:
    """Whether a leaf is ``path``, or below it."""
    return leaf == path or leaf.startswith(path + "/")
