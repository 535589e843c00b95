"""Batches, snapshots, spans and the leader epoch, on both databases."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy.exc import IntegrityError, OperationalError
from store_makers import NOW, attempt, audit, batch, eviction, job, lead, span

from tenure import faults
from tenure.store import StaleLeader, Store


def test_a_batch_comes_back_as_it_was_written(store: Store) -> None:
    epoch = store.take_leadership()
    one = batch(1, epoch, events='["\\u0000 \N{SNOWMAN}"]')
    store.write(
        one,
        jobs=[job(1, client_key="k")],
        attempts=[attempt(1, 1)],
        spans=[span(NOW, NOW + 5)],
        evictions=[eviction(1)],
        audit=[audit("cancel")],
    )
    assert list(store.batches()) == [one]
    assert store.last_batch() == one
    assert store.job(1) == job(1, client_key="k")
    assert store.attempts_of(1) == [attempt(1, 1)]
    assert list(store.spans()) == [span(NOW, NOW + 5, id=1)]
    assert store.evictions() == [eviction(1, id=1)]
    assert store.audit_log() == [audit("cancel", id=1)]


def test_an_empty_database_has_nothing(store: Store) -> None:
    assert store.last_batch() is None
    assert store.latest_snapshot() is None
    assert store.first_snapshot() is None
    assert (store.last_seq(), store.max_job_id(), store.epoch()) == (0, 0, 0)
    assert [*store.batches(), *store.spans(), *store.list_jobs(), *store.evictions(), *store.audit_log()] == []


def test_jobs_and_attempts_are_replaced_and_spans_appended(store: Store) -> None:
    lead(store, 0)
    store.write(batch(1), jobs=[job(1), job(2)], attempts=[attempt(1, 1)], spans=[span(0, 1)])
    ended = job(1, state="succeeded", ended_at=NOW, exit_code=0)
    over = attempt(1, 1, ended_at=NOW, state="ended", exit_codes="[0]")
    store.write(batch(2), jobs=[ended], attempts=[over, attempt(1, 2)], spans=[span(0, 1)])
    assert store.list_jobs() == [job(2), ended]
    assert store.attempts_of(1) == [over, attempt(1, 2)]
    assert list(store.spans()) == [span(0, 1, id=1), span(0, 1, id=2)]


def test_a_batch_is_written_once_and_a_refused_one_leaves_nothing(store: Store) -> None:
    lead(store, 1)
    with pytest.raises(IntegrityError):
        store.write(batch(1), jobs=[job(1)], spans=[span(0, 1)])
    with pytest.raises(IntegrityError):
        store.write(batch(2), jobs=[job(1, client_key="k"), job(2, client_key="k")], spans=[span(0, 1)])
    assert [row.seq for row in store.batches()] == [1]
    assert store.list_jobs() == []
    assert list(store.spans()) == []


def test_who_was_replaced_can_no_longer_write(url: str) -> None:
    with Store.open(url) as old, Store.open(url) as new:
        assert old.take_leadership() == 1
        old.write(batch(1, 1))
        assert new.take_leadership() == 2
        with pytest.raises(StaleLeader, match=r"epoch 1.*epoch 2"):
            old.write(batch(2, 1), jobs=[job(1)])
        new.write(batch(2, 2))
        assert [row.epoch for row in old.batches()] == [1, 2]
        assert old.job(1) is None


def test_nobody_takes_over_in_the_middle_of_a_write(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[str] = []

    def try_to_take_over(name: str) -> None:
        if name != "store.before_commit":
            return
        with pytest.raises(OperationalError, match="lock"), other._engine.connect() as connection:
            if other.dialect == "sqlite":
                connection.exec_driver_sql("PRAGMA busy_timeout = 0")
                connection.exec_driver_sql("UPDATE meta SET value = '2' WHERE key = 'epoch'")
            else:
                connection.exec_driver_sql("SELECT 1 FROM meta WHERE key = 'epoch' FOR UPDATE NOWAIT")
        refused.append(name)

    with Store.open(url) as store, Store.open(url) as other:
        lead(store, 0)
        monkeypatch.setattr(faults, "point", try_to_take_over)
        store.write(batch(1))
    assert refused == ["store.before_commit"]


def test_an_epoch_that_was_never_taken_is_refused(store: Store) -> None:
    lead(store, 0)
    with pytest.raises(StaleLeader):
        store.write(batch(1, 2))


def test_leadership_can_start_above_what_executors_have_seen(store: Store) -> None:
    assert store.take_leadership(above=41) == 42
    assert store.take_leadership(above=7) == 43
    assert store.epoch() == 43


def test_every_leader_gets_an_epoch_of_its_own(url: str) -> None:
    with Store.open(url) as one, Store.open(url) as other, ThreadPoolExecutor(8) as pool:
        takes = [pool.submit(store.take_leadership) for store in (one, other) * 8]
        assert sorted(take.result() for take in takes) == list(range(1, 17))


def test_batches_come_in_order_over_page_borders(store: Store) -> None:
    lead(store, 0)
    for seq in range(1, 406):
        store.write(batch(seq))
    assert [row.seq for row in store.batches()] == list(range(1, 406))
    assert [row.seq for row in store.batches(after=3, limit=300)] == list(range(4, 304))
    assert [row.seq for row in store.batches(after=400, limit=50)] == list(range(401, 406))
    assert list(store.batches(limit=0)) == []


def test_snapshots_keep_every_byte(store: Store) -> None:
    state = bytes(range(256)) * 1000
    store.write_snapshot(4, NOW, b"{}")
    store.write_snapshot(9, NOW + 1, state)
    store.write_snapshot(9, NOW + 2, b"written twice")
    assert store.first_snapshot() == (4, NOW, b"{}")
    assert store.latest_snapshot() == (9, NOW + 1, state)
    assert store.last_seq() == 9


def test_spans_by_cluster_time_and_batch(store: Store) -> None:
    lead(store, 0)
    rows = [
        span(0, 10, seq=1),
        span(5, 20, seq=2),
        span(0, 30, seq=2, cluster="c2"),
        span(25, 40, seq=3, amount=2**62),
    ]
    store.write(batch(1), spans=rows)

    def ends(cluster: str | None = None, after: int | None = None, seq: int | None = None) -> list[int]:
        return [row.end for row in store.spans(cluster, after, seq)]

    assert ends() == [10, 20, 30, 40]
    assert ends("c1") == [10, 20, 40]
    assert ends(after=10) == [20, 30, 40]
    assert ends("c1", 10, 2) == [20]


def test_facts(store: Store) -> None:
    assert store.meta("boot_id") is None
    assert store.meta("epoch") == str(store.epoch())


def test_readers_never_see_half_a_batch(store: Store) -> None:
    lead(store, 0)
    stop = threading.Event()
    torn: list[int] = []

    def read() -> int:
        reads = 0
        while not stop.is_set() or not reads:
            newest = store.list_jobs(limit=1)
            if newest:
                reads += 1
                known = {row.id for row in store.list_jobs(limit=None)}
                if set(range(1, newest[0].id + 1)) - known or newest[0].id % 3:
                    torn.append(newest[0].id)
        return reads

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        for seq in range(1, 60):
            store.write(batch(seq), jobs=[job(3 * seq - 2), job(3 * seq - 1), job(3 * seq)])
        stop.set()
        assert all(reader.result() for reader in readers)
    assert not torn


def test_the_points_where_a_crash_is_tried(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []
    lead(store, 0)
    monkeypatch.setattr(faults, "point", lambda name: seen.append((name, store.last_seq())))
    store.write(batch(1))
    assert seen == [("store.before_commit", 0), ("store.after_commit", 1)]
