"""Compaction takes rows away and leaves every sum and every starting point."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_makers import DAY, NOW, attempt, audit, batch, eviction, job, lead, span

from support.pauses import TOOK, pauses
from tenure.store import Compaction, SpanRow, Store, UsageRow
from tenure.store.retention import by_day

HOUR = 3_600_000
FAR = 1000 * DAY


def roll_up(store: Store, border: int) -> Compaction:
    """Compact spans up to ``border``, as if a snapshot had been taken then and there were no lookback."""
    store.write_snapshot(1, border, b"")
    return store.compact(border, 0)


def test_a_span_is_cut_at_midnight() -> None:
    assert list(by_day(DAY - 1, 2 * DAY + 3, 7)) == [(0, 7), (DAY, 7 * DAY), (2 * DAY, 21)]
    assert list(by_day(5, 5, 7)) == []
    assert list(by_day(DAY, 2 * DAY, 1)) == [(DAY, DAY)]


def test_usage_over_whole_days_stays_to_the_millisecond(store: Store) -> None:
    lead(store, 0)
    rows = [
        span(22 * HOUR, DAY + 2 * HOUR, amount=8000),
        span(DAY, DAY + 1, amount=3, user="bob", leaf="lab/vision", kind="unallocated"),
        span(DAY, 3 * DAY, amount=1000, leaf="lab/vision/x", kind="credit", cluster="c2"),
        span(10, 10),
        span(4 * DAY - HOUR, 4 * DAY + 1, amount=1),
    ]
    store.write(batch(1), spans=rows)
    before = {day: store.usage(None, None, day * DAY, (day + 1) * DAY) for day in range(6)}
    done = roll_up(store, 4 * DAY)
    assert (done.spans, done.rollups) == (4, 5)
    assert [row.end for row in store.spans()] == [4 * DAY + 1]
    assert {day: store.usage(None, None, day * DAY, (day + 1) * DAY) for day in range(6)} == before
    charged = store.usage("c1", "lab/language", 0, 2 * DAY)
    assert charged == [UsageRow("c1", "lab/language/pretrain", "ada", "charged", 8000 * 4 * HOUR)]
    assert [row.amount_ms for row in store.usage(None, "lab/vision", DAY, 2 * DAY)] == [3, 1000 * DAY]


def test_a_day_cannot_be_cut(store: Store) -> None:
    for start, end in ((1, DAY), (0, DAY - 1)):
        with pytest.raises(ValueError, match="whole UTC days"):
            store.usage(None, None, start, end)


def test_what_a_kept_snapshot_looks_back_on_is_not_touched(store: Store) -> None:
    lead(store, 0)
    store.write(batch(1), spans=[span(day * DAY, (day + 1) * DAY) for day in range(30)])
    assert store.compact(30 * DAY, 0).spans == 0
    store.write_snapshot(1, 12 * DAY, b"")
    assert store.compact(9 * DAY, 7 * DAY).spans == 5
    store.write_snapshot(2, 20 * DAY, b"")
    assert store.compact(19 * DAY, 7 * DAY).spans == 0
    assert store.compact(21 * DAY, 7 * DAY).spans == 8
    assert [row.end for row in store.spans()] == [day * DAY for day in range(14, 31)]


def test_sums_may_pass_64_bits(store: Store) -> None:
    lead(store, 0)
    big = span(0, DAY, amount=2**62)
    store.write(batch(1), spans=[big, big])
    expected = [UsageRow("c1", "lab/language/pretrain", "ada", "charged", 2**63 * DAY)]
    assert store.usage("c1", None, 0, DAY) == expected
    assert roll_up(store, DAY).spans == 2
    assert store.usage("c1", None, 0, DAY) == expected


def test_many_spans_go_in_several_transactions(store: Store) -> None:
    lead(store, 0)
    store.write(batch(1), spans=[span(at, at + DAY, amount=at + 1) for at in range(1203)])
    before = store.usage(None, None, 0, 3 * DAY)
    assert roll_up(store, FAR).spans == 1203
    assert list(store.spans()) == []
    assert store.usage(None, None, 0, 3 * DAY) == before


def test_the_engine_gets_its_turn_meanwhile(store: Store, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece is committed, and then nobody holds a lock for as long as it took."""
    lead(store, 0)
    store.write(batch(1), spans=[span(at, at + 5) for at in range(5000)])
    with pauses(store, url, monkeypatch) as during:
        assert roll_up(store, FAR).spans == 5000
        seen = during.take()
    assert seen[0] == "commit", "the snapshot"
    assert seen[1:] == ["commit", TOOK] * (len(seen) // 2) and seen.count(TOOK) >= 10


def test_a_replay_can_still_start(store: Store) -> None:
    lead(store, 700)
    store.write_snapshot(100, NOW + 100, b"100")
    store.write_snapshot(600, NOW + 600, b"600")
    store.write_snapshot(650, NOW + 650, b"650")
    assert store.compact(NOW + 50, 0).batches == 0
    done = store.compact(NOW + 649, 0)
    assert (done.batches, done.snapshots) == (600, 1)
    assert store.first_snapshot() == (600, NOW + 600, b"600")
    assert [row.seq for row in store.batches()] == list(range(601, 701))
    assert store.compact(NOW + 5000, 0).batches == 50
    assert store.first_snapshot() == store.latest_snapshot() == (650, NOW + 650, b"650")


def test_numbers_are_not_given_again(store: Store) -> None:
    lead(store, 3)
    store.write(
        batch(4),
        jobs=[job(7, ended_at=NOW), job(3, ended_at=NOW + 5)],
        evictions=[eviction(7)],
        spans=[span(0, 1)],
    )
    store.write_snapshot(4, NOW + 4, b"")
    assert store.compact(NOW + 5, 0).batches == 3
    assert store.last_batch() == batch(4)
    assert (store.list_jobs(), store.max_job_id()) == ([job(3, ended_at=NOW + 5)], 7)
    assert list(store.spans()) == []
    store.write(batch(5), evictions=[eviction(3)], spans=[span(1, 2)])
    assert [row.id for row in store.evictions_since(1)] == [2]
    assert [row.id for row in store.spans()] == [2]


def test_old_records_go_and_others_stay(store: Store) -> None:
    lead(store, 0)
    store.write(
        batch(1),
        jobs=[job(1, ended_at=NOW - 1), job(2, ended_at=NOW), job(3, submitted_at=0)],
        attempts=[attempt(1, 1), attempt(1, 2), attempt(2, 1), attempt(3, 1)],
        evictions=[eviction(1, at=NOW - 1), eviction(2, at=NOW)],
        audit=[audit("old", at=NOW - 1), audit("new")],
    )
    done = store.compact(before=NOW, lookback=0)
    assert (done.jobs, done.attempts, done.evictions, done.audit) == (1, 2, 1, 1)
    assert [row.id for row in store.list_jobs()] == [3, 2]
    assert store.attempts_of(1) == [] and len(store.attempts_of(2)) == 1
    assert [row.job_id for row in store.evictions()] == [2]
    assert [row.action for row in store.audit_log()] == ["new"]


def test_more_jobs_than_one_transaction_takes(store: Store) -> None:
    lead(store, 0)
    ids = range(1, 1102)
    store.write(batch(1), jobs=[job(id, ended_at=NOW - 1) for id in ids], attempts=[attempt(id, 1) for id in ids])
    done = store.compact(NOW, 0)
    assert (done.jobs, done.attempts) == (1101, 1101)
    assert (store.list_jobs(), store.max_job_id()) == ([], 1101)


spans_of_anybody = st.builds(
    lambda start, length, amount, cluster, leaf, user, kind: SpanRow(
        "1.1", cluster, leaf, user, kind, amount, start, start + length, 1
    ),
    start=st.integers(0, 6 * DAY),
    length=st.one_of(st.integers(0, 4 * DAY), st.sampled_from([0, 1, DAY - 1, DAY, DAY + 1])),
    amount=st.integers(1, 2**62),
    cluster=st.sampled_from(["c1", "c2"]),
    leaf=st.sampled_from(["lab", "lab/a", "lab/a/x", "lab/ab"]),
    user=st.sampled_from(["ada", "bob"]),
    kind=st.sampled_from(["charged", "unallocated", "credit"]),
)


def _brute_force(rows: list[SpanRow], leaf: str, start: int, end: int) -> Counter[tuple[str, str]]:
    sums: Counter[tuple[str, str]] = Counter()
    for row in rows:
        length = min(row.end, end) - max(row.start, start)
        if length > 0 and (row.leaf + "/").startswith(leaf + "/"):
            sums[row.leaf, row.kind] += row.amount * length
    return sums


def _by_leaf_and_kind(rows: list[UsageRow]) -> Counter[tuple[str, str]]:
    sums: Counter[tuple[str, str]] = Counter()
    for row in rows:
        sums[row.leaf, row.kind] += row.amount_ms
    return sums


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(spans_of_anybody, min_size=1, max_size=25),
    snapshots=st.lists(st.integers(0, 11 * DAY), max_size=4).map(sorted),
    compactions=st.lists(st.tuples(st.integers(0, 12 * DAY), st.integers(0, 3 * DAY)), min_size=1, max_size=3),
    window=st.tuples(st.integers(0, 10), st.integers(1, 10)).map(lambda of: (of[0] * DAY, sum(of) * DAY)),
    leaf=st.sampled_from(["lab", "lab/a"]),
)
def test_no_sum_changes_whatever_is_compacted_when(
    sqlite_store: Store,
    rows: list[SpanRow],
    snapshots: list[int],
    compactions: list[tuple[int, int]],
    window: tuple[int, int],
    leaf: str,
) -> None:
    store = sqlite_store
    _empty(store)
    store.write(batch(store.last_seq() + 1, store.take_leadership()), spans=rows)
    for seq, at in enumerate(snapshots, start=1):
        store.write_snapshot(seq, at, b"")
    longest = max(lookback for _, lookback in compactions)  # what any snapshot may look back on
    for before, _ in compactions:
        store.compact(before, longest)
        assert _by_leaf_and_kind(store.usage(None, leaf, *window)) == _brute_force(rows, leaf, *window)
        kept = Counter((row.leaf, row.start, row.end, row.amount) for row in store.spans())
        oldest = store.first_snapshot()
        needed_after = -1 if oldest is None else oldest[1] - longest
        needed = Counter((row.leaf, row.start, row.end, row.amount) for row in rows if row.end > needed_after)
        assert needed <= kept
        if oldest is not None:
            assert all(row.end > min(before, needed_after) for row in store.spans())


def _empty(store: Store) -> None:
    from tenure.store import schema

    with store._write() as connection:
        for table in (schema.spans, schema.rollups, schema.snapshots):
            connection.execute(table.delete())


def test_compaction_killed_halfway_goes_on_where_it_was(
    sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sqlite_store
    lead(store, 0)
    store.write(batch(1), spans=[span(at, at + DAY) for at in range(700)])
    before = store.usage(None, None, 0, 2 * DAY)

    class Killed(BaseException):
        pass

    upsert, calls = store._add, iter((False, True))

    def killed(*args: object) -> None:
        upsert(*args)  # type: ignore[arg-type]
        if next(calls):
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(store, "_add", killed)
        with pytest.raises(Killed):
            roll_up(store, FAR)
    assert len(list(store.spans())) == 200
    assert store.usage(None, None, 0, 2 * DAY) == before
    assert roll_up(store, FAR).spans == 200
    assert store.usage(None, None, 0, 2 * DAY) == before
