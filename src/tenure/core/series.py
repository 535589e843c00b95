"""A rate over time and its exact integral over any window.

The cumulative sum is linear between changes, so a window is the difference of two reads, each one bisection.
A change costs O(1), a read O(log changes inside the lookback), whatever the length of the history. A change that is
heard of late costs what came since.
"""

from __future__ import annotations

from bisect import bisect_right


class Series:
    """Breakpoints of a piecewise constant rate. All integers."""

    __slots__ = ("cums", "rates", "times")

    def __init__(self) -> None:
        self.times: list[int] = []
        self.cums: list[int] = []
        self.rates: list[int] = []

    @property
    def rate(self) -> int:
        return self.rates[-1] if self.rates else 0

    def change(self, at: int, delta: int) -> None:
        """Add ``delta`` to the rate from ``at`` on. Raises ValueError when ``at`` lies before the first change kept."""
        if not self.times:
            self.times.append(at)
            self.cums.append(0)
            self.rates.append(delta)
            return
        last = self.times[-1]
        if at == last:
            self.rates[-1] += delta
            return
        if at < last:
            self._change_the_past(at, delta)
            return
        self.cums.append(self.cums[-1] + self.rates[-1] * (at - last))
        self.rates.append(self.rates[-1] + delta)
        self.times.append(at)

    def _change_the_past(self, at: int, delta: int) -> None:
        times, cums, rates = self.times, self.cums, self.rates
        i = bisect_right(times, at)
        if not i:
            raise ValueError(f"a change at {at}, before the first one at {times[0]}")
        if times[i - 1] < at:
            cums.insert(i, cums[i - 1] + rates[i - 1] * (at - times[i - 1]))
            rates.insert(i, rates[i - 1])
            times.insert(i, at)
            i += 1
        rates[i - 1] += delta
        for later in range(i, len(times)):
            cums[later] += delta * (times[later] - at)
            rates[later] += delta

    def set(self, at: int, rate: int) -> None:
        """Make the rate ``rate`` from ``at`` on."""
        if rate != self.rate:
            self.change(at, rate - self.rate)

    def cumulative(self, at: int) -> int:
        """The integral from the beginning until ``at``."""
        times = self.times
        if not times:
            return 0
        last = times[-1]
        if at >= last:
            return self.cums[-1] + self.rates[-1] * (at - last)
        i = bisect_right(times, at) - 1
        if i < 0:
            return self.cums[0]
        return self.cums[i] + self.rates[i] * (at - times[i])

    def window(self, start: int, end: int) -> int:
        """The integral over [start, end)."""
        return self.cumulative(end) - self.cumulative(start)

    def until(self, start: int, amount: int) -> int | None:
        """The last time until which the integral from ``start`` on is at most ``amount``; None: it stays so.

        For rates that are never negative, and an ``amount`` that is not.
        """
        if not self.times:
            return None
        target = self.cumulative(start) + amount
        i = bisect_right(self.cums, target) - 1
        rate = self.rates[i]
        return self.times[i] + (target - self.cums[i]) // rate if rate else None

    def since(self, before: int) -> list[list[int]]:
        """Times, sums and rates that windows starting at or after ``before`` read, however much was trimmed."""
        keep = max(bisect_right(self.times, before) - 1, 0)
        return [self.times[keep:], self.cums[keep:], self.rates[keep:]]

    def trim(self, before: int) -> None:
        """Forget breakpoints that no window starting at or after ``before`` reads. Amortised O(1) a change."""
        keep = bisect_right(self.times, before) - 1
        if keep > 64 and keep * 2 > len(self.times):
            del self.times[:keep], self.cums[:keep], self.rates[:keep]
