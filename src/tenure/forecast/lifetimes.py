"""How long something lasts, from what has been seen of it, some of which has not ended yet. Durations in ms."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from random import Random

from tenure.core.model import DAY, SECOND

LONGEST = 60 * DAY
"""Nothing is guessed to last longer."""


class Lifetimes:
    """A survival curve by Kaplan and Meier: what was cut off counts for as long as it lasted.

    Beyond what has been seen, what has lasted t lasts another t as often as not.
    """

    def __init__(self, seen: Iterable[tuple[int, bool]]) -> None:
        """``seen``: durations, and whether they ended by themselves."""
        self._times: list[int] = []
        self._left: list[float] = []
        """The part that lasts longer than the time at the same place."""
        self.last = 0
        ordered = sorted(seen, key=lambda each: (each[0], not each[1]))
        at_risk, left = len(ordered), 1.0
        for duration, ended in ordered:
            if ended:
                left *= 1 - 1 / at_risk
                self._times.append(duration)
                self._left.append(left)
            at_risk -= 1
            self.last = duration

    def beyond(self, so_far: int) -> int:
        """How many were seen to end after ``so_far``."""
        return len(self._times) - bisect_right(self._times, so_far)

    def draw(self, rng: Random, so_far: int) -> int:
        """A duration longer than ``so_far``, as one of those that last as long."""
        i = bisect_right(self._times, so_far)
        now = self._left[i - 1] if i else 1.0
        part = 1 - rng.random()  # above 0
        wanted = part * now
        # The first time after which no more than this part is left.
        low, high = i, len(self._times)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._left[middle] > wanted else (low, middle)
        if low < len(self._times):
            return max(self._times[low], so_far + SECOND)
        rest = self._left[-1] if self._left else 1.0
        fold = rest / wanted if wanted else 1 / part
        tail = int(max(self.last, so_far, SECOND) * min(fold, LONGEST / SECOND))
        return max(min(tail, LONGEST), so_far + SECOND)
