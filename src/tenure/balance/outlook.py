"""What becomes of a balance as time passes and nothing new is charged: old usage leaves the window, and so does what
was owed in that time, while entitlement goes on to accrue.

Two assumptions about what holds GPUs now, both exact. *To the end of the protection*: attempts stop when their
protection ends; what was promised is used, nothing else. *Going on*: they are charged beyond it, until their timeout.
Claims and reservations use what is promised to them, whenever they begin.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tenure.balance.facts import Facts, Period
from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.core.series import Series

_STEPS = (SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR, 4 * HOUR, DAY)
_MOST_POINTS = 200


@dataclass(frozen=True, slots=True)
class Day:
    """A day of the window, [start, end), which has left it by ``leaves_by``; times in ms.

    Amounts in thousandths of a GPU x ms. ``used`` less credits; ``running``: the part of it that was charged by what
    holds GPUs now. ``left`` and ``left_going_on``: the balance when it has left, under either assumption.
    """

    start: int
    end: int
    entitled: int
    used: int
    running: int
    leaves_by: int
    left: int
    left_going_on: int

    @property
    def unused(self) -> int:
        """Negative: more was used on that day than it was owed."""
        return self.entitled - self.used


@dataclass(frozen=True, slots=True)
class Point:
    """A moment to come, ms: what has come back by then, what is owed, and what is left under either assumption."""

    at: int
    back: int
    entitled: int
    left: int
    left_going_on: int


class Outlook:
    """The balance at any time from now on until a lookback from now. Methods take times in ms."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.until = facts.now + facts.lookback
        self._going_on = _beyond_protection(facts)
        self._denominator = facts.figures.denominator

    # ---- at one time

    def back(self, at: int) -> int:
        """How much of what has been charged until now has left the window by then."""
        return self.facts.used.window(self.facts.since, at - self.facts.lookback)

    def entitled(self, at: int) -> int:
        """E of rule 4 at that time, thousandths of a GPU x ms x the node's denominator."""
        return self._entitled(self._period(at), at)

    def left(self, at: int, *, going_on: bool = False) -> int:
        """The balance, in the same unit."""
        return self._left(self._period(at), at, going_on)

    def _period(self, at: int) -> Period:
        return [period for period in self.facts.periods if period.start <= at][-1]

    def _entitled(self, period: Period, at: int) -> int:
        return max(period.entitled.window(at - self.facts.lookback, at), period.rate * self.facts.floor)

    def _left(self, period: Period, at: int, going_on: bool) -> int:
        # What was promised now is promised or used then: it is in the total already.
        used = self.facts.parts.total - self.back(at)
        if going_on:
            used += self._going_on.window(self.facts.now, at)
        return self._entitled(period, at) - used * self._denominator

    def _whole(self, amount: int) -> int:
        return amount // self._denominator

    # ---- over time

    def days(self) -> Iterator[Day]:
        """The days of the window, in the order in which they leave it. Their entitlements add up to what accrued."""
        facts, accrued = self.facts, self.facts.periods[0].entitled
        for start, end in facts.days:
            by = end + facts.lookback
            before, after = (self._whole(accrued.window(facts.since, at)) for at in (start, end))
            yield Day(
                start,
                end,
                after - before,
                facts.used.window(start, end),
                sum(one.charged(start, end) for one in facts.going),
                by,
                self._whole(self.left(by)),
                self._whole(self.left(by, going_on=True)),
            )

    def points(self) -> Iterator[Point]:
        """Now, and then by equal steps."""
        facts = self.facts
        step = next((one for one in _STEPS if facts.lookback <= _MOST_POINTS * one), _STEPS[-1])
        for at in (*range(facts.now, self.until, step), self.until):
            left, going_on = self.left(at), self.left(at, going_on=True)
            whole = self._whole
            yield Point(at, self.back(at), whole(self.entitled(at)), whole(left), whole(going_on))

    def back_at(self, *, going_on: bool = False) -> int | None:
        """The first moment at which nothing is missing any more: the usage ratio is 1 or less.

        Now, when nothing is missing; None when that is later than a lookback from now.
        """
        periods = self.facts.periods
        for i, period in enumerate(periods):
            end = periods[i + 1].start if i + 1 < len(periods) else self.until
            if self._left(period, period.start, going_on) >= 0:
                return period.start
            for a, b in pairwise(self._knots(period, end, going_on)):
                if self._left(period, b, going_on) >= 0:
                    # Linear but for the floor, so convex: once it is reached here, it stays.
                    found = a + bisect_left(range(a, b), True, key=lambda at: self._left(period, at, going_on) >= 0)
                    if found < end or end == self.until:
                        return found
        return None

    def _knots(self, period: Period, end: int, going_on: bool) -> Iterator[int]:
        """Times from the period's start to ``end`` between which the balance is a line, or rises throughout."""
        back = self.facts.lookback
        found = {period.start, end, *(at + back for at in period.entitled.times), *period.entitled.times}
        if going_on:
            found.update(self._going_on.times)
        outer = sorted(at for at in found if period.start <= at <= end)
        for a, b in pairwise(outer):
            yield a
            rises = self._entitled(period, a) <= self._entitled(period, b)
            if not rises or (going_on and self._going_on.window(a, b)):
                yield from _between(self.facts.used, back, a, b)
        yield end


def _between(used: Series, back: int, a: int, b: int) -> Iterator[int]:
    """When what was charged at another rate begins to leave the window, inside (a, b)."""
    times = used.times
    for i in range(bisect_right(times, a - back), bisect_left(times, b - back)):
        yield times[i] + back


def _beyond_protection(facts: Facts) -> Series:
    """The rate at which attempts are charged that go on after their protection, from now on."""
    changes: list[tuple[int, int]] = []
    for one in facts.going:
        if one.stopping or (one.ends is not None and one.ends <= one.exposed_from):
            continue
        changes.append((one.exposed_from, one.amount))
        if one.ends is not None:
            changes.append((one.ends, -one.amount))
    made = Series()
    made.change(facts.now, 0)
    for at, amount in sorted(changes):
        made.change(at, amount)
    return made
