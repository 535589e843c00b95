"""Window sums and entitlements against brute force, whatever the order of changes, reads and trimming."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.fairshare import Figures, compare, gpu_hours
from tenure.core.ledger import Kind, Ledger, OpenSpan, Promise, Span
from tenure.core.model import HOUR
from tenure.core.series import Series
from tenure.core.snapshot import rebuild

LOOKBACK = 50
steps = st.lists(
    st.tuples(st.integers(0, 30), st.integers(-9, 9), st.sampled_from(["change", "late", "set", "trim", "read"])),
    max_size=400,
)


def brute(changes: list[tuple[int, int]], start: int, end: int) -> int:
    """The integral of a rate over [start, end), one unit of time after the other would give the same."""
    return sum(delta * max(0, end - max(at, start)) for at, delta in changes)


@given(steps, st.integers(0, 60))
def test_any_window_equals_brute_force_for_any_interleaving(todo: list[tuple[int, int, str]], length: int) -> None:
    series, now, rate = Series(), 1000, 0
    changes: list[tuple[int, int]] = []
    for after, delta, what in todo:
        now += after
        if what == "change":
            series.change(now, delta)
            changes.append((now, delta))
            rate += delta
        elif what == "late" and series.times:
            at = max(series.times[0], now - after)
            series.change(at, delta)
            changes.append((at, delta))
            rate += delta
        elif what == "set":
            series.set(now, delta)
            changes.append((now, delta - rate))
            rate = delta
        elif what == "trim":
            series.trim(now - LOOKBACK)
        start = now - min(length, LOOKBACK)
        assert series.rate == rate
        assert series.window(start, now) == brute(changes, start, now)
        assert series.window(start, start) == 0
    times, cums, rates = series.since(now - LOOKBACK)
    again = Series()
    again.times, again.cums, again.rates = times, cums, rates
    for back in range(LOOKBACK + 1):
        assert again.window(now - back, now) == series.window(now - back, now) == brute(changes, now - back, now)


def test_nothing_changes_before_the_first_change() -> None:
    series = Series()
    series.change(10, 1)
    with pytest.raises(ValueError, match="a change at 9, before the first one at 10"):
        series.change(9, 1)


def test_trimming_keeps_a_series_short_however_long_it_goes_on() -> None:
    series = Series()
    for at in range(10_000):
        series.change(at, 1 if at % 2 else -1)
        series.trim(at - LOOKBACK)
    assert len(series.times) < 200


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 40)), max_size=30), st.integers(0, 100))
def test_a_promise_is_the_exact_sum_of_what_is_left(promises: list[tuple[int, int]], now: int) -> None:
    total = Promise()
    for amount, end in promises:
        total.run(amount, end)
    for amount, end in promises:
        if end <= now:  # what has run out is taken away again
            total.run(-amount, end)
    assert total.at(now) == sum(amount * max(0, end - now) for amount, end in promises)


spans = st.lists(
    st.tuples(
        st.sampled_from(["lab/a", "lab/b/x", "lab/b/self"]),
        st.sampled_from(["ann", "bob"]),
        st.sampled_from(list(Kind)),
        st.integers(1, 8000),
        st.integers(0, 100),
        st.integers(0, 60),
    ),
    max_size=25,
)


@given(spans, st.integers(0, 200), st.integers(1, 120))
def test_the_window_of_every_node_and_person_equals_its_spans(
    made: list[tuple[str, str, Kind, int, int, int]], now: int, window: int
) -> None:
    closed = [Span(f"{i}.1", leaf, user, kind, n, at, at + d) for i, (leaf, user, kind, n, at, d) in enumerate(made)]
    ledger = rebuild([span for span in closed if span.end <= now], {})
    done = [span for span in closed if span.end <= now]

    def worth(chosen: list[Span], kind: Kind) -> int:
        signs = {kind: 1, **({Kind.CREDIT: -1} if kind is Kind.CHARGED else {})}
        start = now - window
        return sum(signs.get(s.kind, 0) * s.amount * max(0, min(s.end, now) - max(s.start, start)) for s in chosen)

    for kind in (Kind.CHARGED, Kind.UNALLOCATED):
        for path, account in ledger.accounts.items():
            below = [s for s in done if s.leaf == path or s.leaf.startswith(f"{path}/")]
            assert account.usage(kind, now - window, now) == worth(below, kind)
        for (leaf, user), account in ledger.people.items():
            mine = [s for s in done if (s.leaf, s.user) == (leaf, user)]
            assert account.usage(kind, now - window, now) == worth(mine, kind)
        children = sum(ledger.account(p).usage(kind, now - window, now) for p in ("lab/a", "lab/b"))
        assert ledger.account("lab").usage(kind, now - window, now) == children


def test_an_attempt_has_one_open_span() -> None:
    ledger = Ledger()
    ledger.open_span("1.1", OpenSpan("lab/a", "ann", Kind.CHARGED, 1, 0))
    with pytest.raises(ValueError, match=r"1\.1 has an open span"):
        ledger.open_span("1.1", OpenSpan("lab/a", "ann", Kind.CHARGED, 1, 5))
    ledger.close_span("1.1", 7)
    with pytest.raises(KeyError):
        ledger.close_span("1.1", 8)


# ---- comparing

figures = st.builds(Figures, st.integers(0, 60), st.integers(0, 50), st.integers(0, 30), st.integers(0, 30), st.just(1))


@given(figures, figures, figures)
def test_the_order_of_siblings_is_an_order(a: Figures, b: Figures, c: Figures) -> None:
    assert compare(a, b) == -compare(b, a)
    if compare(a, b) <= 0 and compare(b, c) <= 0:
        assert compare(a, c) <= 0


@given(figures, figures, st.integers(0, 20))
def test_who_outranks_by_a_margin_comes_first_without_it_and_never_both_ways(a: Figures, b: Figures, m: int) -> None:
    if compare(a, b, m, -m) < 0:
        assert compare(a, b) < 0
        assert not compare(b, a, m, -m) < 0


@given(figures, figures)
def test_ratios_are_compared_exactly(a: Figures, b: Figures) -> None:
    if a.entitled and b.entitled and a.below_recent() == b.below_recent():
        left, right = Fraction(a.used, a.entitled), Fraction(b.used, b.entitled)
        assert compare(a, b) == (left > right) - (left < right)


def test_an_entitlement_of_nothing_comes_last_and_is_never_below() -> None:
    none, over = Figures(0, 0, 0, 0, 1), Figures(10**9, 1, 10**9, 1, 1)
    assert compare(none, over) == 1 and compare(over, none) == -1 and compare(none, none) == 0
    assert not none.below_recent() and none.ratio_ppm() == -1


@pytest.mark.parametrize(
    ("amount", "shown"), [(0, "0.00"), (48_000 * HOUR, "48.00"), (1_999 * HOUR, "1.99"), (-500 * HOUR, "-0.50")]
)
def test_gpu_hours_for_people(amount: int, shown: str) -> None:
    assert gpu_hours(amount) == shown
