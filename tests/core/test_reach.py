"""``reach`` is ``compare`` solved for the margin."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenure.core.fairshare import FAR, Figures, compare, reach

used = st.integers(-50, 200)
entitled = st.integers(0, 120)


@st.composite
def siblings(draw: st.DrawFn) -> tuple[Figures, Figures]:
    denominator = draw(st.sampled_from([1, 3, 10]))
    return (
        Figures(draw(used), draw(entitled), draw(used), draw(entitled), denominator),
        Figures(draw(used), draw(entitled), draw(used), draw(entitled), denominator),
    )


@given(siblings(), st.integers(0, 500))
def test_a_margin_is_within_reach_exactly_when_the_order_holds_with_it(
    pair: tuple[Figures, Figures], margin: int
) -> None:
    a, b = pair
    assert (compare(a, b, margin, -margin) < 0) == (margin <= reach(a, b))


def test_who_is_entitled_to_nothing_reaches_nobody_and_is_reached_by_all() -> None:
    some, nothing = Figures(10, 5, 10, 5, 1), Figures(0, 0, 0, 0, 1)
    assert reach(nothing, some) == -1
    assert reach(some, nothing) == FAR
    assert reach(nothing, nothing) == -1


def test_a_tie_is_out_of_reach() -> None:
    same = Figures(10, 10, 10, 10, 1)
    assert reach(same, same) < 0


def test_the_reach_of_equal_budgets_is_half_of_what_lies_between_them() -> None:
    # Both over their last day, so ratios decide: 10 + m < 30 - m holds up to 9.
    assert reach(Figures(10, 5, 10, 5, 1), Figures(30, 5, 30, 5, 1)) == 9
