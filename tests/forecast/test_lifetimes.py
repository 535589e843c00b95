"""How long things last: Kaplan and Meier by hand, and draws that last longer than so far."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tenure.core.model import HOUR, SECOND
from tenure.forecast.lifetimes import LONGEST, Lifetimes


def test_what_was_cut_off_counts_for_as_long_as_it_lasted() -> None:
    """Of 4, one ends after 1 h (3/4 left); one is cut off at 2 h; of 2 left, one ends at 3 h (3/8), the last at 4 h."""
    curve = Lifetimes([(4 * HOUR, True), (HOUR, True), (3 * HOUR, True), (2 * HOUR, False)])
    rng = Random(1)
    drawn = [curve.draw(rng, 0) for _ in range(4000)]
    part = {hours: sum(one == hours * HOUR for one in drawn) / 4000 for hours in (1, 2, 3, 4)}
    assert part[2] == 0 and sum(part.values()) == 1
    assert abs(part[1] - 2 / 8) < 0.03 and abs(part[3] - 3 / 8) < 0.03 and abs(part[4] - 3 / 8) < 0.03
    assert [curve.beyond(hours * HOUR) for hours in (0, 1, 3, 4)] == [3, 2, 1, 0]


def test_what_has_lasted_a_while_lasts_as_those_that_did() -> None:
    curve = Lifetimes([(HOUR, True)] * 90 + [(10 * HOUR, True)] * 10)
    rng = Random(2)
    assert {curve.draw(rng, 2 * HOUR) for _ in range(100)} == {10 * HOUR}


def test_beyond_all_that_was_seen_it_lasts_twice_as_long_as_often_as_not() -> None:
    curve, rng = Lifetimes([(HOUR, True)] * 5), Random(3)
    drawn = [curve.draw(rng, 8 * HOUR) for _ in range(2000)]
    assert 0.45 < sum(one < 16 * HOUR for one in drawn) / 2000 < 0.55


seen = st.lists(st.tuples(st.integers(0, 10**9), st.booleans()), max_size=30)


@given(seen, st.integers(0, 10**9), st.integers(0, 10**6))
def test_a_draw_is_longer_than_so_far_and_not_for_ever(past: list[tuple[int, bool]], so_far: int, seed: int) -> None:
    drawn = Lifetimes(past).draw(Random(seed), so_far)
    assert so_far + SECOND <= drawn <= max(LONGEST, so_far + SECOND)
    assert drawn == Lifetimes(past[::-1]).draw(Random(seed), so_far)
