"""YARN's Fair Scheduler: values of its own tests, and what its comparator and its shares promise."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cmp_to_key
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.policies.yarn_shares import Queue, deficit, fair_shares, order, starved

HALF = Fraction(1, 2)
Row = tuple[int, int | None, int | Fraction]
"""Minimum, maximum, weight."""


def shares(total: int, *rows: Row) -> list[Fraction]:
    queues = [Queue(str(n), weight, 0, 0, least, most) for n, (least, most, weight) in enumerate(rows)]
    return list(fair_shares(queues, total).values())


# ---- TestComputeFairShares of hadoop-yarn-server-resourcemanager

MILLION = 1_000_000
COMPUTED = {
    "testEqualSharing": (40, [(0, None, 1)] * 4, [10, 10, 10, 10]),
    "testLowMaxShares": (40, [(0, 100, 1), (0, 50, 1), (0, 11, 1), (0, 3, 1)], [13, 13, 11, 3]),
    "testMinShares": (40, [(20, None, 1), (18, None, 1), (0, None, 1), (2, None, 1)], [20, 18, 0, 2]),
    "testWeightedSharing": (45, [(0, None, 2), (0, None, 1), (0, None, 1), (0, None, HALF)], [20, 10, 10, 5]),
    "testWeightedSharingWithMaxShares": (45, [(0, 10, 2), (0, 11, 1), (0, 30, 1), (0, 20, HALF)], [10, 11, 16, 8]),
    "testWeightedSharingWithMinShares": (
        45,
        [(20, None, 2), (0, None, 1), (5, None, 1), (15, None, HALF)],
        [20, 5, 5, 15],
    ),
    "testLargeShares": (40 * MILLION, [(0, None, 1)] * 4, [10 * MILLION] * 4),
    "testEmptyList": (40, [], []),
    # It only has to end there: minima that add up to more than there is.
    "testResourceUsedWithWeightToResourceRatio": (2**31 - 1, [(2**31 - 1, None, 1)] * 2, [2**31 - 1] * 2),
}


@pytest.mark.parametrize(("total", "rows", "expected"), COMPUTED.values(), ids=COMPUTED)
def test_shares_are_those_of_yarns_own_tests(total: int, rows: list[Row], expected: list[int]) -> None:
    assert shares(total, *rows) == expected


def test_shares_of_a_tree_are_those_of_yarns_own_tests() -> None:
    """TestFairSchedulerFairShare, testFairShareMultipleActiveQueuesUnderDifferentParent: only who is active counts."""
    top = fair_shares([Queue("parentA", 8), Queue("parentB", 1), Queue("default", 1)], 16 * 1024)
    below = fair_shares([Queue("childA1"), Queue("childA2")], top["parentA"])
    assert [below["childA1"], below["childA2"], top["parentB"]] == [
        part * 1024 * 16 / Fraction(100) for part in (40, 40, 10)
    ]


def test_shares_that_are_not_whole_are_exact() -> None:
    assert shares(10, (0, None, 1), (0, None, 1), (0, None, 1)) == [Fraction(10, 3)] * 3
    assert shares(10, (4, None, 1), (0, None, 2), (0, 1, 5)) == [4, 5, 1]


def test_bounds_hold_before_the_sum_does() -> None:
    assert shares(10, (8, None, 1), (8, None, 1)) == [8, 8]
    assert shares(10, (0, 2, 1), (1, 3, 7)) == [2, 3]
    assert shares(10, (8, 4, 1), (0, None, 1)) == [4, 6], "a maximum below the minimum holds"
    assert shares(10, (2, None, 0), (0, None, 3)) == [2, 8], "a weight of 0 has its minimum"
    assert shares(10, (2, None, 0), (0, 5, 3)) == [2, 5]


weights = st.one_of(st.integers(1, 9), st.fractions(Fraction(1, 9), 9))
rows = st.tuples(st.integers(0, 40), st.one_of(st.none(), st.integers(0, 60)), weights)


@given(st.lists(rows, min_size=1, max_size=7), st.integers(0, 120))
def test_everything_is_given_out_within_the_bounds_by_one_ratio(given_rows: list[Row], total: int) -> None:
    found = shares(total, *given_rows)
    ceilings = [most for _, most, _ in given_rows]
    floors = [least if most is None else min(least, most) for least, most, _ in given_rows]
    most_at_all = None if None in ceilings else sum(m for m in ceilings if m is not None)
    expected = max(total, sum(floors))
    assert sum(found) == (expected if most_at_all is None else min(expected, most_at_all))
    between = []
    for share, floor, ceiling, (_, _, weight) in zip(found, floors, ceilings, given_rows, strict=True):
        assert floor <= share and (ceiling is None or share <= ceiling)
        if floor < share and (ceiling is None or share < ceiling):
            between.append(share / weight)
    assert len(set(between)) <= 1, "whoever is at no bound has its weight's part"
    if between:
        # Whoever is at its minimum would have less by its weight, whoever is at its maximum more.
        for share, floor, ceiling, (_, _, weight) in zip(found, floors, ceilings, given_rows, strict=True):
            assert share == floor or share <= weight * between[0]
            assert share == ceiling or share >= weight * between[0]


@given(st.lists(rows, min_size=2, max_size=6), st.integers(0, 120), weights)
def test_more_weight_is_never_less_for_oneself_nor_more_for_others(
    given_rows: list[Row], total: int, more: int | Fraction
) -> None:
    least, most, weight = given_rows[0]
    before, after = shares(total, *given_rows), shares(total, (least, most, weight + more), *given_rows[1:])
    assert after[0] >= before[0]
    assert all(now <= then for now, then in zip(after[1:], before[1:], strict=True))


@given(st.lists(rows, min_size=1, max_size=6), st.integers(0, 120), st.integers(1, 30))
def test_more_to_share_is_less_for_nobody(given_rows: list[Row], total: int, more: int) -> None:
    for now, then in zip(shares(total + more, *given_rows), shares(total, *given_rows), strict=True):
        assert now >= then


@given(st.lists(rows, min_size=1, max_size=6), st.integers(0, 120))
def test_bisection_as_in_the_source_comes_to_the_same(given_rows: list[Row], total: int) -> None:
    """``computeSharesInternal`` with doubles, but 200 steps and no cutting off: within its error of what is exact."""

    def used(ratio: float) -> list[float]:
        ends = [float("inf") if most is None else most for _, most, _ in given_rows]
        return [min(max(float(w) * ratio, least), end) for (least, _, w), end in zip(given_rows, ends, strict=True)]

    most_at_all = sum(float("inf") if most is None else most for _, most, _ in given_rows)
    wanted, right, left = min(total, most_at_all), 1.0, 0.0
    while sum(used(right)) < wanted:
        right *= 2
    for _ in range(200):
        middle = (left + right) / 2
        left, right = (middle, right) if sum(used(middle)) < wanted else (left, middle)
    assert used(right) == pytest.approx([float(share) for share in shares(total, *given_rows)], abs=1e-6)


# ---- the comparator


def first_of(*queues: Queue) -> str:
    return min(queues, key=order).name


def test_who_wants_nothing_comes_last() -> None:
    assert first_of(Queue("a"), Queue("b", usage=9, demand=9)) == "b"


def test_the_needy_come_first_by_the_part_of_their_minimum_that_they_have() -> None:
    # The example of the source: 8 of 10 against 50 of 100.
    a, b = Queue("a", 1, 8, 99, 10), Queue("b", 1, 50, 999, 100)
    assert first_of(a, b) == "b"
    assert first_of(a, Queue("c", 100, 0, 50)) == "a", "needy, although the other has nothing and all the weight"
    # Whoever wants less than its minimum is needy below what it wants only.
    assert not Queue("d", 1, 4, 4, 10).needy
    assert Queue("e", 1, 3, 4, 10).needy
    assert first_of(Queue("e", 1, 3, 4, 10), Queue("f", 1, 7, 99, 10)) == "f", "3 of 4 against 7 of 10"


def test_the_others_come_by_usage_over_weight_then_by_start_then_by_name() -> None:
    assert first_of(Queue("a", 1, 4, 9), Queue("b", 3, 9, 9)) == "b"
    assert first_of(Queue("a", 2, 4, 9, started=7), Queue("b", 3, 6, 9, started=6)) == "b"
    assert first_of(Queue("b", 2, 4, 9), Queue("a", 3, 6, 9)) == "a"


def test_a_weight_of_0_comes_after_all_others_by_usage() -> None:
    none, less, some = Queue("a", 0, 0, 9), Queue("b", 0, 4, 9), Queue("c", HALF, 90, 99)
    assert sorted((less, none, some), key=order) == [some, none, less]


def compare(one: Queue, other: Queue) -> int:
    """``FairSharePolicy.FairShareComparator`` of Hadoop 3.3, line by line."""
    for mine, theirs in ((one, other), (other, one)):
        if mine.demand == 0 and theirs.demand > 0:
            return 1 if mine is one else -1
    least, least_other = min(one.min_share, one.demand), min(other.min_share, other.demand)
    needy, needy_other = one.usage < least, other.usage < least_other
    if needy != needy_other:
        return -1 if needy else 1
    ratio, ratio_other = Fraction(0), Fraction(0)
    if needy:
        ratio, ratio_other = Fraction(one.usage) / max(least, 1), Fraction(other.usage) / max(least_other, 1)
    if ratio == ratio_other:
        if one.weight > 0 and other.weight > 0:
            ratio, ratio_other = Fraction(one.usage) / one.weight, Fraction(other.usage) / other.weight
        elif one.weight == other.weight:
            ratio, ratio_other = Fraction(one.usage), Fraction(other.usage)
        else:
            ratio, ratio_other = Fraction(-one.weight), Fraction(-other.weight)
    left, right = (ratio, one.started, one.name), (ratio_other, other.started, other.name)
    return (left > right) - (left < right)


few = st.integers(0, 4)
queues = st.builds(Queue, st.sampled_from("abc"), few, few, few, few, st.none(), few).map(
    lambda queue: replace(queue, demand=queue.usage + queue.demand)
)


@given(queues, queues)
def test_the_order_is_that_of_the_source(one: Queue, other: Queue) -> None:
    assert (order(one) > order(other)) - (order(one) < order(other)) == compare(one, other)


@given(st.lists(queues, max_size=6))
def test_the_order_is_total(given_queues: list[Queue]) -> None:
    assert sorted(given_queues, key=order) == sorted(given_queues, key=cmp_to_key(compare))
    for one, other in product(given_queues, given_queues):
        assert compare(one, other) == -compare(other, one)
        assert (order(one) == order(other)) == (compare(one, other) == 0)
        assert one.name == other.name or order(one) != order(other)


def test_the_order_is_transitive_where_yarns_own_test_looks() -> None:
    """TestSchedulingPolicy, testFairShareComparatorTransitivity: with fewer names and start times than there."""
    some = [
        Queue(name, weight, usage, 4, 0, None, started)
        for name, started, usage, weight in product("AB", (1, 2), (0, 2, 4), (0, 1, 2))
    ]
    for a, b, c in product(some, some, some):
        if compare(a, b) <= 0 and compare(b, c) <= 0:
            assert compare(a, c) <= 0
            assert order(a) <= order(b) <= order(c)


# ---- what may be preempted


def test_a_queue_takes_its_minimum_first_and_its_fair_share_later() -> None:
    """TestFairSchedulerPreemption, testPreemptionDecision: C has nothing of 6144, minimum 1024, four equal queues."""
    c = Queue("queueC", Fraction(1, 4), 0, 3 * 1024, 1024)
    others = [replace(c, name=name) for name in ("queueA", "queueB", "queueD")]
    share = fair_shares([c, *others], 6 * 1024)["queueC"]
    assert starved(c, c.min_share) and starved(c, share / 2)
    assert deficit(c, share, of_minimum=False, of_fair_share=False) == 0
    assert deficit(c, share, of_minimum=True, of_fair_share=False) == 1024
    assert deficit(c, share, of_minimum=True, of_fair_share=True) == 1536


def test_shares_below_a_parent_are_what_a_queue_may_take() -> None:
    """TestFairSchedulerPreemption, testPreemptionIsNotDelayedToNextRound: A2 below A (weight 8, B has 2) on 8 GB."""
    a = fair_shares([Queue("queueA", 8), Queue("queueB", 2)], 8 * 1024)["queueA"]
    a2 = Queue("queueA2", 1, 0, 7 * 1024)
    share = fair_shares([Queue("queueA1", 1, 7 * 1024, 7 * 1024), a2], a)["queueA2"]
    assert round(deficit(a2, share, of_minimum=False, of_fair_share=True)) == 3277


def test_a_queue_is_starved_below_a_part_of_its_share_that_it_wants() -> None:
    """TestFSLeafQueue, testIsStarvedForFairShare: 10 GB; A (2) has 4; B1 and B2 below B (8) have 2 and want 3 each."""
    top = fair_shares([Queue("queueA", 2, 4 * 1024, 4 * 1024), Queue("queueB", 8)], 10 * 1024)
    below = [Queue(name, 1, 2 * 1024, 3 * 1024) for name in ("queueB1", "queueB2")]
    share = fair_shares(below, top["queueB"])
    assert not starved(below[0], share["queueB1"] * 4 / 10), "less than 40 %"
    assert starved(below[1], share["queueB2"] * 6 / 10), "less than 60 %"
    assert not starved(replace(below[1], usage=3 * 1024), share["queueB2"] * 6 / 10)
    assert not starved(Queue("c", 1, 3, 3), 10), "it wants no more"


@given(queues, st.fractions(0, 9))
def test_what_is_taken_never_passes_what_is_wanted_or_owed(queue: Queue, share: Fraction) -> None:
    small = deficit(queue, share, of_minimum=True, of_fair_share=False)
    large = deficit(queue, share, of_minimum=True, of_fair_share=True)
    assert 0 <= small <= large <= queue.demand - queue.usage
    assert queue.usage + large <= max(queue.usage, queue.min_share, share)
    assert (small > 0) == starved(queue, queue.min_share) == queue.needy
