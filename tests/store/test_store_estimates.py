"""Estimates are kept, replaced, come true, and are forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from store_makers import DAY, NOW, batch, job, lead

from support.pauses import TOOK, pauses
from tenure.store import EstimateRow, Store

HOUR = 3_600_000


def estimate(job_id: int, made_at: int = NOW, **changes: Any) -> EstimateRow:
    row = EstimateRow(
        job_id, made_at, 7, "small", made_at + HOUR, made_at + 2 * HOUR, made_at + 4 * HOUR, made_at + 2 * DAY,
        made_at + HOUR, made_at + 3 * HOUR, 85,
    )  # fmt: skip
    return replace(row, **changes)


def test_an_estimate_comes_back_as_it_was_and_the_newest_counts(store: Store) -> None:
    later = estimate(1, NOW + 5, likely=None, high=None, raw_high=None)
    assert store.newest_estimate(1) is None
    store.write_estimates([(estimate(1), None), (later, None), (estimate(2, 2**41), None)])
    assert store.newest_estimate(1) == later
    assert store.open_estimates() == [estimate(1), later, estimate(2, 2**41)]


def test_one_takes_the_place_of_another(store: Store) -> None:
    store.write_estimates([(estimate(job), None) for job in range(1, 451)])
    store.write_estimates([(estimate(job, NOW + 1), NOW if job % 2 else None) for job in range(1, 451)])
    rows = store.open_estimates()
    assert len(rows) == 450 + 225
    assert {row.job_id for row in rows if row.made_at == NOW} == set(range(2, 451, 2))
    again = estimate(1, NOW + 1, low=NOW + 9)
    store.write_estimates([(again, None)])
    assert store.newest_estimate(1) == again


def test_a_start_settles_those_from_before_and_an_end_drops_the_open_ones(store: Store) -> None:
    rows = [estimate(1), estimate(1, NOW + 10), estimate(2)]
    store.write_estimates((row, None) for row in rows)
    store.estimates_came_true([(1, NOW + 20), (3, NOW)])
    assert store.past_estimates(NOW, NOW + 99, "small", 10, started=True) == [
        estimate(1, started_at=NOW + 20),
        estimate(1, NOW + 10, started_at=NOW + 20),
    ]
    store.write_estimates([(estimate(1, NOW + 30), None)])
    store.estimates_came_true([(1, NOW + 40)])
    newest = store.newest_estimate(1)
    assert newest is not None and newest.started_at == NOW + 40
    store.drop_estimates([1, 2])
    assert [row.job_id for row in store.past_estimates(0, NOW + 99, "small", 10)] == [1, 1, 1]
    assert store.open_estimates() == []


def test_what_was_estimated_after_a_start_that_nobody_saw_yet_goes(store: Store) -> None:
    """A step has its own time and is there only with its commit: whoever reads in between knows nothing of it."""
    store.write_estimates([(estimate(1), None), (estimate(1, NOW + 30), None), (estimate(2, NOW + 30), None)])
    store.estimates_came_true([(1, NOW + 29), (2, NOW + 29)])
    assert store.open_estimates() == []
    assert store.past_estimates(0, NOW + 99, "small", 10) == [estimate(1, started_at=NOW + 29)]


def test_whoever_else_writes_gets_a_turn_after_each_transaction(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pauses(store, url, monkeypatch) as during:
        store.write_estimates((estimate(job), None) for job in range(450))
        assert during.take() == ["commit", TOOK] * 3
        store.estimates_came_true([(job, NOW + 1) for job in range(210)])
        assert during.take() == ["commit", TOOK] * 2
        store.drop_estimates(range(210, 450))
        assert during.take() == ["commit", TOOK] * 2


def test_past_ones_are_the_newest_of_a_class_and_a_time(store: Store) -> None:
    rows = [estimate(job, NOW + job, size_class="large" if job == 5 else "small") for job in range(10)]
    store.write_estimates((row, None) for row in rows)
    assert [row.job_id for row in store.past_estimates(NOW + 2, NOW + 8, "small", 4)] == [3, 4, 6, 7]


def test_who_is_late_is_found_once_by_whoever_asks_from_where_they_stopped(store: Store) -> None:
    lead(store, 0)
    store.write(batch(1), jobs=[job(number) for number in range(1, 6)])
    store.write_estimates((estimate(number, high=NOW + number), None) for number in range(1, 6))
    assert store.overdue_estimates(NOW + 2) == [(1, NOW + 1)]
    assert store.overdue_estimates(NOW + 5, since=NOW + 2) == [(2, NOW + 2), (3, NOW + 3), (4, NOW + 4)]
    assert store.overdue_estimates(NOW + 5, since=NOW + 5) == []


def test_what_is_old_is_taken_away(store: Store) -> None:
    store.write_estimates((estimate(job % 7, NOW + job), None) for job in range(1200))
    assert store.compact(NOW + 1100, 0).estimates == 1100
    assert [row.made_at for row in store.open_estimates()] == [NOW + job for job in range(1100, 1200)]
