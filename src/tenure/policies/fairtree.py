"""Fair Tree: how Slurm ranks the users of an association tree. Exact, and without a clock.

At each level accounts and users are siblings. Whoever has the larger *level fair share* comes first: the part of the
shares of this level, over the part of its usage. Below each account the same again, so all users of one account come
before all users of a sibling with a smaller level fair share. Who is tied has one rank.

After Slurm's documentation (slurm.schedmd.com/fair_tree.html) and what Slurm 22.05 does, which differs in this: tied
*accounts* are not merged there. One is ranked after the other, in the order of the database, and the first user of the
second shares the rank of the last user of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cmp_to_key

Key = tuple[str, str]
"""An account and a user; no user: the account itself."""
Level = tuple[int, int]
"""A level fair share: numerator and denominator. Neither is negative, and not both are 0."""
INFINITE: Level = (1, 0)
NOTHING: Level = (0, 1)
_NO_VALUE: Level = (0xFFFFFFFE, 1)
"""Slurm gives this to accounts that have no level of their own."""


@dataclass(frozen=True, slots=True)
class Association:
    """An account, or a user in one. ``usage`` is that of all below it; any unit.

    ``shares``: None is Slurm's ``parent``. An account that says so hands its children to the account above; a user
    comes first in its account.
    """

    key: Key
    shares: int | None
    usage: int
    below: tuple[Association, ...] = ()
    """In the order of the database; none below a user."""

    @property
    def is_user(self) -> bool:
        return bool(self.key[1])


@dataclass(frozen=True, slots=True)
class Ranking:
    """``ranks``: user -> rank, the best is ``users``; over ``users`` it is the fair-share factor."""

    users: int
    ranks: dict[Key, int]
    levels: dict[Key, Level]
    """Account or user -> level fair share."""


def rank(below_root: Iterable[Association], usage: int) -> Ranking:
    """Rank all users of a tree whose root has this usage."""
    siblings = tuple(below_root)
    walk = _Walk(sum(1 for _ in _users(siblings)))
    walk.level(siblings, usage, tied=False)
    return Ranking(walk.users, walk.ranks, walk.levels)


def _users(siblings: Iterable[Association]) -> Iterator[Association]:
    for one in siblings:
        if one.is_user:
            yield one
        else:
            yield from _users(one.below)


class _Walk:
    def __init__(self, users: int) -> None:
        self.users = users
        self.ranks: dict[Key, int] = {}
        self.levels: dict[Key, Level] = {}
        self._rank = users
        """Of the last user."""
        self._next = users
        """Of the next one, unless tied with the last."""

    def level(self, siblings: Iterable[Association], usage: int, *, tied: bool) -> None:
        """Rank everybody at this level and below. ``tied``: the first one has the rank of the last user before."""
        here = list(_handed_up(siblings))
        shares = sum(one.shares for one in here if one.shares is not None)
        for one in here:
            self.levels[one.key] = level_of(one, shares, usage)
        here.sort(key=cmp_to_key(self._compare))
        before: Level | None = None
        for one in here:
            found = self.levels[one.key]
            if before is not None:
                tied = _difference(before, found) == 0
            if one.is_user:
                if not tied:
                    self._rank = self._next
                self.ranks[one.key] = self._rank
                self._next -= 1
            elif one.shares is not None:
                self.level(one.below, one.usage, tied=tied)
            before = found

    def _compare(self, one: Association, other: Association) -> int:
        """The larger level fair share first, then users before accounts."""
        return _difference(self.levels[other.key], self.levels[one.key]) or other.is_user - one.is_user


def level_of(one: Association, shares: int, usage: int) -> Level:
    """The level fair share of an association among siblings with these shares, below an account with this usage."""
    if one.shares is None:
        return INFINITE if one.is_user else _NO_VALUE
    if one.shares == 0:
        return NOTHING
    if one.usage == 0 or usage == 0:
        return INFINITE
    return one.shares * usage, shares * one.usage


def _difference(one: Level, other: Level) -> int:
    """Above 0 when ``one`` is larger, 0 when they are the same."""
    return one[0] * other[1] - other[0] * one[1]


def _handed_up(siblings: Iterable[Association]) -> Iterator[Association]:
    """An account that says ``parent`` is followed by its children, as if they were its siblings."""
    for one in siblings:
        yield one
        if one.shares is None and not one.is_user:
            yield from _handed_up(one.below)
