"""Ranges from scenarios, and what past errors make of them."""

from __future__ import annotations

from random import Random

import pytest

from tenure.core.model import DAY, HOUR, MINUTE
from tenure.forecast.ranges import COVERAGE_PERCENT, ENOUGH, USUAL, Calibration, Judged, Range, base

NOW = 100 * DAY
UNTIL = NOW + 2 * DAY


def test_a_range_holds_the_middle_of_what_scenarios_say() -> None:
    starts = [NOW + hours * HOUR for hours in range(11)]
    assert base(starts, UNTIL, NOW) == Range(NOW + 2 * HOUR, NOW + 5 * HOUR, NOW + 8 * HOUR, UNTIL)
    assert base(starts[::-1], UNTIL, NOW) == base(starts, UNTIL, NOW)


def test_what_does_not_start_in_time_is_later() -> None:
    hour = NOW + HOUR
    assert base([hour, hour, hour, None], UNTIL, NOW) == Range(hour, hour, None, UNTIL)
    assert base([hour, None, None, None], UNTIL, NOW).likely is None
    assert base([None, None], UNTIL, NOW) == Range(UNTIL, None, None, UNTIL)
    with pytest.raises(ValueError, match="no scenario"):
        base([], UNTIL, NOW)


def past(count: int, off: float, name: str = "small", seed: int = 1) -> list[Judged]:
    """Estimates of an hour to two, of jobs that took ``off`` times between one and two hours."""
    rng, found = Random(seed), []
    for i in range(count):
        made = NOW - 2 * DAY - i * MINUTE
        start = made + int(off * rng.uniform(1, 2) * HOUR)
        found.append(Judged(made, name, Range(made + HOUR, None, made + 2 * HOUR, made + 2 * DAY), start))
    return found


RAW = Range(NOW + HOUR, NOW + 90 * MINUTE, NOW + 2 * HOUR, UNTIL)


def test_ranges_that_were_too_early_become_longer() -> None:
    told = Calibration(past(200, 2.0), NOW).widened(RAW, NOW, "small")
    assert told.high is not None and told.likely == RAW.likely
    # Twice as long as said: nearly four hours hold what took up to four.
    assert 3.5 * HOUR < told.high - NOW < 4.1 * HOUR
    assert RAW.low < told.low <= RAW.likely  # type: ignore[operator]  # it was never as early as said


def test_as_many_hold_as_are_meant_to() -> None:
    """Judged by themselves, at least the part of them that is aimed for falls inside; on new ones about as many."""
    known = past(400, 1.7)
    calibration = Calibration(known, NOW)
    for cases, least in ((known, COVERAGE_PERCENT), (past(400, 1.7, seed=2), COVERAGE_PERCENT - 5)):
        inside = 0
        for one in cases:
            assert one.start is not None
            inside += calibration.widened(one.raw, one.made_at, "small").holds(one.start)
        assert 100 * inside / len(cases) >= least


def test_a_class_with_few_is_judged_by_all_and_without_any_by_what_is_usual() -> None:
    many = past(200, 2.0)
    few = past(ENOUGH - 1, 0.1, "large")
    by_all = Calibration([*many, *few], NOW)
    assert by_all.margins("large") != Calibration([*many, *past(ENOUGH, 0.1, "large")], NOW).margins("large")
    assert by_all.margins("large") == by_all.margins("medium")
    assert Calibration(few, NOW).margins("large") == USUAL


def test_those_that_wait_still_count_and_young_and_old_ones_do_not() -> None:
    still = [
        Judged(NOW - 3 * DAY - i, "small", Range(NOW - 2 * DAY, None, NOW - DAY, NOW), None) for i in range(ENOUGH)
    ]
    assert Calibration(still, NOW).margins("small")[1] > 0
    for age in (0, 30 * DAY):
        assert Calibration([Judged(NOW - age, "small", RAW, NOW)] * 200, NOW).margins("small") == USUAL


def test_a_range_never_begins_in_the_past_and_ends_where_nothing_is_known() -> None:
    early = Calibration(past(200, 0.01), NOW).widened(RAW, NOW, "small")
    assert NOW <= early.low <= NOW + 5 * MINUTE
    late = Calibration(past(200, 40.0), NOW).widened(RAW, NOW, "small")
    assert late.high is None
