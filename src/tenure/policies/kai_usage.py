"""Past usage of queues as KAI Scheduler asks its database for it: a window, and a decay by half-life within it."""

from __future__ import annotations

from functools import lru_cache
from math import isqrt

from tenure.core.ledger import OCCUPANCY, Account

STEPS = 8
"""A half-life in so many steps; within one all usage counts alike."""
_BITS = 32
_DEEPEST = 12
"""Half-lives after which usage counts for nothing: less than a four-thousandth."""


def window_of(now: int, size: int, first: int, *, tumbling: bool) -> tuple[int, int]:
    """The window at ``now``, ms UTC: the last ``size`` ms; tumbling, since the last of those that began at ``first``.

    Never before ``first``, from which there are data.
    """
    start = now - (now - first) % size if tumbling else now - size
    return max(first, start), now


def used(account: Account, window: tuple[int, int], half_life: int) -> int:
    """Amount x ms of everything that ran in a window, times its weight (see ``capacity``)."""
    total, pieces = 0, _pieces(window, half_life)
    for kind in OCCUPANCY:
        series = account.used[kind]
        if series.times:
            until = series.cumulative(window[1])
            for weight, start, _ in pieces:
                before = series.cumulative(start)
                total += weight * (until - before)
                until = before
    return total


def capacity(amount: int, window: tuple[int, int], half_life: int) -> int:
    """The same of a queue that had ``amount`` all the time, at least 1."""
    return max(1, sum(weight * amount * (end - start) for weight, start, end in _pieces(window, half_life)))


@lru_cache(maxsize=8)
def _pieces(window: tuple[int, int], half_life: int) -> tuple[tuple[int, int, int], ...]:
    """(weight, start, end) from now back: half as much for each half-life; all the same where that is 0."""
    first, now = window
    if not half_life:
        return ((1, first, now),)
    found, table = [], _table()
    for n in range(STEPS * _DEEPEST):
        end, start = now - half_life * n // STEPS, now - half_life * (n + 1) // STEPS
        if end <= first:
            break
        found.append((table[n % STEPS] >> n // STEPS, max(first, start), end))
    return tuple(found)


@lru_cache(maxsize=1)
def _table() -> tuple[int, ...]:
    """2 to the power of -n / STEPS, for n from 0 on, as multiples of 2 to the power of -_BITS; each rounded down."""
    root = 1 << 2 * _BITS - 1  # a half, with twice as many binary places
    for _ in range(STEPS.bit_length() - 1):
        root = isqrt(root << 2 * _BITS)
    found = [1 << 2 * _BITS]
    for _ in range(STEPS - 1):
        found.append(found[-1] * root >> 2 * _BITS)
    return tuple(each >> _BITS for each in found)
