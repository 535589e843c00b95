"""Usage that decays: sums over pieces, and what a half-life means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.core.series import Series
from tenure.policies.decay import Weights

START = 1_800_000_000_000


def series(*changes: tuple[int, int]) -> Series:
    """(when, rate from then on), after START."""
    made = Series()
    for at, rate in changes:
        made.set(START + at, rate)
    return made


@pytest.mark.parametrize("half_life", [HOUR, DAY, 7 * DAY, 30 * DAY])
def test_what_is_a_half_life_older_weighs_half(half_life: int) -> None:
    weights = Weights(MINUTE, half_life, START)
    used = series((0, 8), (MINUTE, 0), (half_life, 8), (half_life + MINUTE, 0))
    old = weights.integral(used, START, START + HOUR)
    new = weights.integral(used, START + half_life, START + half_life + HOUR)
    assert 1.98 < new / old < 2.01  # Slurm writes 0.693 for ln 2, and takes 1 - x for exp(-x)


def test_each_second_decays_as_in_slurm() -> None:
    """Slurm: usage x (1 - 0.693 / half-life) ** seconds."""
    weights = Weights(5 * MINUTE, 7 * DAY, START)
    used = series((0, 1), (5 * MINUTE, 0), (DAY, 1), (DAY + 5 * MINUTE, 0))
    old = weights.integral(used, START, START + HOUR)
    new = weights.integral(used, START + DAY, START + 2 * DAY)
    assert old / new == pytest.approx((1 - 0.693 / (7 * 86_400)) ** 86_400, rel=1e-12)


def test_without_a_half_life_nothing_decays() -> None:
    weights = Weights(MINUTE, 0, START)
    used = series((0, 3), (100 * DAY, 0))
    assert weights.integral(used, START, START + DAY) == weights.integral(used, START + 99 * DAY, START + 200 * DAY)


changes = st.lists(st.tuples(st.integers(0, 3 * HOUR), st.integers(0, 9)), max_size=8).map(sorted)
times = st.integers(0, 4 * HOUR)


@given(changes, times, times, times, st.sampled_from([SECOND, 7 * SECOND + 1, 5 * MINUTE]))
def test_pieces_add_up_to_the_whole(given_changes: list[tuple[int, int]], a: int, b: int, c: int, period: int) -> None:
    first, middle, last = (START + at for at in sorted((a, b, c)))
    used = series(*given_changes)
    weights = Weights(period, HOUR, START)
    pieces = weights.integral(used, first, middle) + weights.integral(used, middle, last)
    assert pieces == weights.integral(used, first, last) == Weights(period, HOUR, START).integral(used, first, last)


@given(changes, times, times)
def test_it_is_the_sum_over_all_moments(given_changes: list[tuple[int, int]], a: int, b: int) -> None:
    first, last = (START + at // 1000 for at in sorted((a, b)))
    used = series(*((at // 1000, rate) for at, rate in given_changes))
    weights = Weights(700, HOUR, START)
    total = 0
    for at in range(first, last):
        rate = next((r for t, r in zip(reversed(used.times), reversed(used.rates), strict=True) if t <= at), 0)
        total += rate * (weights.until(at + 1) - weights.until(at))
    assert weights.integral(used, first, last) == total
