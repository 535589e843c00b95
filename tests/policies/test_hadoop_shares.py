"""The Hadoop Fair Scheduler of 2009: values of its own tests, and what its shares promise."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.policies import hadoop_shares, yarn_shares
from tenure.policies.yarn_shares import Queue

HALF = Fraction(1, 2)
SLOT = 1
Row = tuple[int, int, int | Fraction]
"""Demand, minimum, weight: as in its ``FakeSchedulable``."""


def shares(total: int, *rows: Row) -> list[Fraction]:
    pools = [Queue(str(n), weight, 0, demand, least) for n, (demand, least, weight) in enumerate(rows)]
    return list(hadoop_shares.fair_shares(pools, total).values())


# ---- TestComputeFairShares of src/contrib/fairscheduler

MILLION = 1_000_000
COMPUTED = {
    "testEqualSharing": (40, [(100, 0, 1), (50, 0, 1), (30, 0, 1), (20, 0, 1)], [10, 10, 10, 10]),
    "testLowDemands": (40, [(100, 0, 1), (50, 0, 1), (11, 0, 1), (3, 0, 1)], [13, 13, 11, 3]),
    "testMinShares": (40, [(100, 20, 1), (10, 20, 1), (10, 0, 1), (3, 2, 1)], [20, 10, 7, 3]),
    "testWeightedSharing": (45, [(100, 0, 2), (50, 0, 1), (30, 0, 1), (20, 0, HALF)], [20, 10, 10, 5]),
    "testWeightedSharingWithLowDemands": (45, [(10, 0, 2), (11, 0, 1), (30, 0, 1), (20, 0, HALF)], [10, 11, 16, 8]),
    "testWeightedSharingWithMinShares": (45, [(10, 20, 2), (11, 0, 1), (30, 5, 1), (20, 15, HALF)], [10, 10, 10, 15]),
    "testSmallShares": (1, [(10, 0, 1), (5, 0, 1), (3, 0, 1), (2, 0, 1)], [Fraction(1, 4)] * 4),
    "testLargeShares": (40 * MILLION, [(d * MILLION, 0, 1) for d in (100, 50, 30, 20)], [10 * MILLION] * 4),
    "testZeroDemand": (30, [(100, 0, 1), (50, 0, 1), (30, 0, 1), (0, 0, 1)], [10, 10, 10, 0]),
    "testEmptyList": (40, [], []),
}


@pytest.mark.parametrize(("total", "rows", "expected"), COMPUTED.values(), ids=COMPUTED)
def test_shares_are_those_of_its_own_tests(total: int, rows: list[Row], expected: list[int]) -> None:
    assert shares(total, *rows) == expected


def test_minima_that_are_too_large_are_scaled_down_in_proportion() -> None:
    # As the design document says.
    assert shares(30, (100, 40, 1), (100, 20, 9), (100, 0, 9)) == [20, 10, 0]
    assert shares(30, (10, 40, 1), (100, 50, 9)) == [5, 25], "no more of a minimum counts than is wanted"


rows = st.tuples(st.integers(0, 60), st.integers(0, 40), st.integers(1, 9))


@given(st.lists(rows, min_size=1, max_size=7), st.integers(0, 120))
def test_all_that_is_wanted_is_given_out(given_rows: list[Row], total: int) -> None:
    found = shares(total, *given_rows)
    minima = [min(demand, least) for demand, least, _ in given_rows]
    assert sum(found) == min(total, sum(demand for demand, _, _ in given_rows))
    for share, minimum, (demand, _, _) in zip(found, minima, given_rows, strict=True):
        assert share <= demand
        assert share >= minimum or sum(minima) > total
    if sum(minima) <= total:
        between = {s / w for s, m, (d, _, w) in zip(found, minima, given_rows, strict=True) if m < s < d}
        assert len(between) <= 1, "whoever is at no bound has its weight's part"


@given(st.lists(rows, min_size=1, max_size=6), st.integers(0, 120))
def test_who_would_waste_a_part_of_it_leaves_it_to_others(given_rows: list[Row], total: int) -> None:
    """The difference to YARN: nobody who wants all of its share there has less here."""
    pools = [Queue(str(n), w, 0, demand, min(least, demand)) for n, (demand, least, w) in enumerate(given_rows)]
    if sum(pool.min_share for pool in pools) <= total:
        here, there = hadoop_shares.fair_shares(pools, total), yarn_shares.fair_shares(pools, total)
        assert all(here[pool.name] >= min(there[pool.name], pool.demand) for pool in pools)


# ---- TestFairScheduler of src/contrib/fairscheduler


def test_minimum_shares_may_be_taken_by_preemption() -> None:
    """testMinAndFairSharePreemption: another pool has all 4 slots, pool A a minimum of 2: it takes 2, not 2 and 2."""
    a, other = Queue("poolA", 1, 0, 10, 2), Queue("default", 1, 4, 10)
    share = hadoop_shares.fair_shares([a, other], 4)["poolA"]
    assert share == 2
    assert a.needy
    assert hadoop_shares.deficit(a, share, SLOT, of_minimum=False, of_fair_share=False) == 0
    assert hadoop_shares.deficit(a, share, SLOT, of_minimum=True, of_fair_share=True) == 2


def test_fair_shares_may_be_taken_by_who_has_less_than_half() -> None:
    """testFairSharePreemption: of 8 slots pool 1 has 6, pool 2 has 2 and pool 3 none; a share is 8/3, a whole 2."""
    pools = [Queue("pool1", 1, 6, 6), Queue("pool2", 1, 2, 10), Queue("pool3", 1, 0, 10)]
    shared = hadoop_shares.fair_shares(pools, 8)
    assert set(shared.values()) == {Fraction(8, 3)}
    below = {pool.name: yarn_shares.starved(pool, hadoop_shares.half_of(shared[pool.name], SLOT)) for pool in pools}
    assert below == {"pool1": False, "pool2": False, "pool3": True}
    owed = {p.name: hadoop_shares.deficit(p, shared[p.name], SLOT, of_minimum=False, of_fair_share=True) for p in pools}
    assert owed == {"pool1": 0, "pool2": 0, "pool3": 2}


def test_less_than_a_whole_slot_is_no_reason_to_kill() -> None:
    """Three pools of 5 slots: half of 5/3 is less than one."""
    pools = [Queue("a", 1, 3, 9), Queue("b", 1, 2, 9), Queue("c", 1, 0, 9)]
    share = hadoop_shares.fair_shares(pools, 5)["c"]
    assert not yarn_shares.starved(pools[2], hadoop_shares.half_of(share, SLOT))
    assert yarn_shares.starved(pools[2], share / 2)
