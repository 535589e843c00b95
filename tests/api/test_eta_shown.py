"""What of an estimate is shown as time goes by: only what may still come true."""

from __future__ import annotations

from tenure.api.eta_models import EstimateView
from tenure.api.eta_shown import Shown, shown
from tenure.cli.eta import range_lines
from tenure.core.model import HOUR

MADE = 1_790_000_000_000


def view(low: int, likely: int | None, high: int | None, latest: int | None = None) -> EstimateView:
    """In hours after it was made, open after 48."""
    said = (low, likely, high, latest)
    low_at, likely_at, high_at, latest_at = (None if h is None else MADE + h * HOUR for h in said)
    assert low_at is not None
    return EstimateView(
        made_at=MADE, age_ms=0, low=low_at, likely=likely_at, high=high_at, until=MADE + 48 * HOUR, latest=latest_at,
        percent=85,
    )  # fmt: skip


def hours(found: Shown) -> tuple[int | None, ...]:
    times = (found.low, found.likely, found.high, found.passed)
    return tuple(None if at is None else (at - MADE) // HOUR for at in times)


def test_nothing_is_before_now() -> None:
    found = view(1, 3, 5)
    assert hours(shown(found, MADE)) == (1, 3, 5, None)
    assert hours(shown(found, MADE + 2 * HOUR)) == (2, 3, 5, None)
    assert hours(shown(found, MADE + 4 * HOUR)) == (4, None, 5, None)
    assert hours(shown(found, MADE + 5 * HOUR)) == (5, None, 5, None)
    assert shown(found, MADE + 5 * HOUR + 1).passed == MADE + 5 * HOUR
    assert hours(shown(view(1, None, None), MADE + 9 * HOUR)) == (9, None, None, None)


def test_nothing_is_later_than_what_is_decided() -> None:
    assert hours(shown(view(1, 3, 5, latest=4), MADE)) == (1, 3, 4, None)
    assert hours(shown(view(1, 3, None, latest=2), MADE)) == (1, None, 2, None)
    assert hours(shown(view(3, 4, 5, latest=2), MADE + HOUR)) == (1, None, 2, None)  # made before that was decided
    assert hours(shown(view(1, 2, 3, latest=6), MADE + 4 * HOUR)) == (4, None, 6, None)  # it has not passed
    assert hours(shown(view(1, 2, 3, latest=2), MADE + 4 * HOUR)) == (4, None, 4, None)


def test_the_command_line_says_so() -> None:
    (line,) = range_lines(view(1, 3, 5), MADE + 6 * HOUR, "it starts ")
    assert line.startswith("it should have started by ") and line.endswith(", by the estimate of 6h ago")
    (line,) = range_lines(view(1, 3, 5), MADE + 2 * HOUR, "it starts ")
    assert line.startswith("it starts from now to ") and "most likely about" in line
    assert list(range_lines(None, MADE)) == []
