"""Batches and snapshots by time, on both databases."""

from __future__ import annotations

import random

import pytest
from store_makers import DAY, NOW, batch, eviction, job, lead, span

from tenure.store import Store


def test_the_newest_batch_of_a_moment_is_found(store: Store) -> None:
    chance = random.Random(3)
    assert store.seq_at(NOW) == 0 and store.batches_at(NOW) == [] and store.kept_since() is None
    epoch = store.take_leadership()
    times = [NOW]
    for seq in range(1, 60):
        times.append(times[-1] + chance.choice((0, 0, 1, 1000)))
        store.write(batch(seq, epoch, at=times[-1]))
    for at in sorted({each + step for each in times for step in (-1, 0, 1)}):
        expected = max((seq for seq, each in enumerate(times[1:], 1) if each <= at), default=0)
        assert store.seq_at(at) == expected, at
        assert [row.seq for row in store.batches_at(at)] == [s for s, t in enumerate(times[1:], 1) if t == at]


def test_snapshots_of_a_moment_and_since_when_history_is_kept(store: Store) -> None:
    lead(store, 5)
    assert store.kept_since() == NOW + 1, "its first batch"
    assert store.snapshot_at(NOW + DAY) is None and store.snapshot_seq_at(NOW + DAY) == 0
    for seq, at in ((2, NOW + 2), (4, NOW + 100)):  # written a while after its batch
        store.write_snapshot(seq, at, f"state {seq}".encode())
    assert store.snapshot_at(NOW + 1) is None
    assert store.snapshot_at(NOW + 99) == (2, NOW + 2, b"state 2") and store.snapshot_seq_at(NOW + 99) == 2
    assert store.snapshot_at(NOW + 100) == (4, NOW + 100, b"state 4") and store.snapshot_seq_at(NOW + 100) == 4
    store.compact(NOW + 2, 0)
    assert [row.seq for row in store.batches()] == [3, 4, 5]
    assert store.kept_since() == NOW + 2 and store.seq_at(NOW + 1) == 0 and store.seq_at(NOW + 4) == 4
    store.compact(NOW + DAY, 0)
    assert store.kept_since() == NOW + 100 and [row.seq for row in store.batches()] == [5]
    assert store.seq_at(NOW + 4) == 0 and store.seq_at(NOW + DAY) == 5


@pytest.mark.parametrize("length", [3, 1200])
def test_batches_that_name_an_attempt_are_found_in_order(store: Store, length: int) -> None:
    epoch = store.take_leadership()
    named = {2, length}
    for seq in range(1, length + 1):
        attempt = "1.1" if seq in named else ("11.1", "1.11", "1_1", "x")[seq % 4]
        store.write(batch(seq, epoch, events=f'{{"list":[{{"attempt_id":"{attempt}"}}]}}'))
    assert [row.seq for row in store.batches_naming("1.1", 0)] == sorted(named)
    assert [row.seq for row in store.batches_naming("1.1", 2)] == [length]
    assert [row.seq for row in store.batches_naming("1.1", length)] == []
    assert next(store.batches_naming("1.1", 0)).seq == 2


def test_spans_are_found_by_their_end(store: Store) -> None:
    lead(store, 0)
    spans = [span(0, 5), span(5, 9), span(4, 9, kind="credit"), span(0, 9, attempt_id="2.1")]
    store.write(batch(1), jobs=[job(1)], spans=spans, evictions=[eviction(1)])
    assert [(found.start, found.kind) for found in store.spans_ending("1.1", 9)] == [(5, "charged"), (4, "credit")]
    assert store.spans_ending("1.1", 8) == []
