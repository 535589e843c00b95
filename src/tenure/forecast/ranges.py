"""From scenarios to a range, wide enough for what happened in the past. All times ms UTC, all durations ms.

A range is widened, or narrowed, on each side by what would have made enough of the past ranges of the same size class
right: conformal prediction, on the logarithm of the wait, where an hour more or less weighs less the longer it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, exp, inf, log

from tenure.core.model import DAY, MINUTE

COVERAGE_PERCENT = 85
"""How many of a hundred starts are meant to fall inside their range."""
BASE_PERCENT = 60
"""The part of the scenarios that a range holds before it is widened: steadier than a larger one."""
ENOUGH = 40
"""Past ranges of a size class, before it is judged by itself; below, by all classes, then by what is usual."""
SETTLED = DAY
"""Ranges younger than this are not judged: those that came true already are the short ones."""
JUDGED = 14 * DAY
"""Nor are those that are older."""
USUAL = (0.9, 0.7)
"""What is added below and above before anything is known, in the logarithm: as on simulated days."""
_FLOOR = MINUTE
"""Waits are compared as if they were so much longer: seconds do not count."""


@dataclass(frozen=True, slots=True)
class Range:
    """When a job starts: between ``low`` and ``high``, about ``likely``; None: later than ``until``."""

    low: int
    likely: int | None
    high: int | None
    until: int

    def holds(self, start: int) -> bool:
        return self.low <= start and (self.high is None or start <= self.high)


def base(starts: Sequence[int | None], until: int, begin: int) -> Range:
    """What scenarios say, None where a job had not started by ``until``. Raises ValueError without a scenario."""
    if not starts:
        raise ValueError("no scenario was run")
    ordered = sorted(inf if start is None else start for start in starts)
    edge = (100 - BASE_PERCENT) / 200
    low, likely, high = (_quantile(ordered, part) for part in (edge, 0.5, 1 - edge))
    return Range(
        min(until, int(low)) if low < inf else until,
        int(likely) if likely < inf else None,
        int(high) if high < inf else None,
        until,
    )


def _quantile(ordered: Sequence[float], part: float) -> float:
    """Between the values, as if each stood for an equal part; infinite where either of two is."""
    at = part * (len(ordered) - 1)
    i = int(at)
    if i + 1 >= len(ordered) or at == i:
        return ordered[i]
    if ordered[i + 1] == inf:
        return inf
    return ordered[i] + (ordered[i + 1] - ordered[i]) * (at - i)


@dataclass(frozen=True, slots=True)
class Judged:
    """A range that scenarios gave at ``made_at``, and the start; None: still waiting."""

    made_at: int
    size_class: str
    raw: Range
    start: int | None


class Calibration:
    """What past ranges say of those to come."""

    def __init__(self, past: Iterable[Judged], now: int) -> None:
        self._scores: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for one in past:
            if now - JUDGED <= one.made_at <= now - SETTLED:
                both = _scores(one, now)
                self._scores[one.size_class].append(both)
                self._scores[""].append(both)
        self._known: dict[str, tuple[float, float]] = {}

    def widened(self, raw: Range, made_at: int, size_class: str) -> Range:
        """The range that people are told."""
        below, above = self.margins(size_class)
        low_at, high_at = _scale(raw.low - made_at), _high(raw, made_at)
        low, high = _unscale(low_at - below) + made_at, _unscale(high_at + above) + made_at
        likely = raw.likely if raw.likely is not None else inf
        low = max(made_at, min(low, raw.until, likely))
        high = max(high, low, likely if likely < inf else 0)
        return Range(int(low), raw.likely, None if high > raw.until else int(high), raw.until)

    def margins(self, size_class: str) -> tuple[float, float]:
        """What is added below and above, in the logarithm; negative: taken away."""
        for name in (size_class, ""):
            scores = self._scores.get(name, ())
            if len(scores) >= ENOUGH:
                if name not in self._known:
                    self._known[name] = _enough(s[0] for s in scores), _enough(s[1] for s in scores)
                return self._known[name]
        return USUAL


def _scores(one: Judged, now: int) -> tuple[float, float]:
    """By how much the start was outside, below and above; negative: inside."""
    wait = (one.start if one.start is not None else max(now, one.raw.until)) - one.made_at
    return _scale(one.raw.low - one.made_at) - _scale(wait), _scale(wait) - _high(one.raw, one.made_at)


def _enough(scores: Iterable[float]) -> float:
    """What would have been enough for as many as it is meant for: half of those outside on each side."""
    ordered = sorted(scores)
    place = ceil((len(ordered) + 1) * (100 + COVERAGE_PERCENT) / 200)
    return ordered[min(place, len(ordered)) - 1]


def _high(raw: Range, made_at: int) -> float:
    if raw.high is not None:
        return _scale(raw.high - made_at)
    return _scale(2 * (raw.until - made_at))


def _scale(wait: float) -> float:
    return log((max(0.0, wait) + _FLOOR) / _FLOOR)


def _unscale(value: float) -> float:
    return (exp(min(value, 50.0)) - 1) * _FLOOR
