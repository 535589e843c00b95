"""Usage that counts less the older it is, as integers.

Slurm multiplies everybody's usage by the same factor once in a while. Only how one usage compares with another matters,
so here the past stays as it is and what is new counts for more: each interval weighs as much more than the one before
as that would have decayed. Nothing has to be done for people who run nothing, and sums stay exact.
"""

from __future__ import annotations

from bisect import bisect_right

from tenure.core.model import SECOND
from tenure.core.series import Series

_BITS = 64
"""Binary places of a weight."""


class Weights:
    """What a moment weighs, by the interval it lies in. ``period`` and ``half_life`` in ms; half-life 0: all the same.

    ``start``: when the first interval begins, ms UTC; nothing may be asked for before it.
    """

    def __init__(self, period: int, half_life: int, start: int) -> None:
        self.period = period
        self.start = start
        self._growth = _growth(period, half_life)
        self._weights = [1 << _BITS]
        self._sums = [0]
        """Of the weights of all intervals before each."""

    def until(self, at: int) -> int:
        """The integral of the weight from the start until ``at`` (ms UTC)."""
        n, rest = divmod(at - self.start, self.period)
        while len(self._weights) <= n:
            last = self._weights[-1]
            self._sums.append(self._sums[-1] + last)
            self._weights.append(last * self._growth >> _BITS)
        return self._sums[n] * self.period + self._weights[n] * rest

    def integral(self, series: Series, start: int, end: int) -> int:
        """Rate x weight over [start, end)."""
        times, rates = series.times, series.rates
        if not times or end <= max(start, times[0]):
            return 0
        n = bisect_right(times, start) - 1
        if n < 0:
            n, start = 0, times[0]
        total, before = 0, self.until(start)
        while True:
            following = times[n + 1] if n + 1 < len(times) and times[n + 1] < end else end
            after = self.until(following)
            total += rates[n] * (after - before)
            if following == end:
                return total
            n, before = n + 1, after


def _growth(period: int, half_life: int) -> int:
    """How much more an interval weighs than the one before: Slurm's factor of a second is 1 - 0.693 / half-life."""
    if not half_life:
        return 1 << _BITS
    seconds, rest = divmod(period, SECOND)
    lost, whole = 693 * SECOND, 1000 * half_life
    above, below = int(whole**seconds), int((whole - lost) ** seconds)
    # What is left of the period, less than a second, decays in proportion.
    above, below = above * whole * SECOND, below * (whole * SECOND - lost * rest)
    return (above << _BITS) // below
