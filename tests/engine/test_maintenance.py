"""Replay, compaction, backup and restore: history shrinks, and everything that stands on it stays exact."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_kit import BUDGETS, Rig, config_of, rig

from tenure.core.model import DAY, HOUR, MINUTE, Policy
from tenure.engine import maintenance, recovery
from tenure.store import Store, StoreError

LOOKBACK = 2 * DAY
RETENTION = 5 * DAY


def usage(store: Store, until: int) -> dict[str, int]:
    day = until // DAY * DAY + 2 * DAY
    sums: dict[str, int] = {}
    for row in store.usage(None, None, day - 60 * DAY, day):
        sums[row.leaf] = sums.get(row.leaf, 0) + row.amount_ms
    return sums


def work(bench: Rig, budget: str, duration: int) -> None:
    job_id = bench.submit(budget, 4)
    bench.advance(duration)
    bench.finish(job_id)


@pytest.fixture
def bench(tmp_path: Path):  # type: ignore[no-untyped-def]
    with rig(tmp_path, config_of(tmp_path, Policy(lookback=LOOKBACK))) as made:
        yield made


def test_replay_after_compaction_needs_what_the_oldest_snapshot_looks_back_on(bench: Rig) -> None:
    """Who comes first after the snapshot follows from work before it that is older than the retention."""
    work(bench, "lab/a", 30 * HOUR)
    bench.advance(HOUR)
    bench.restart()  # a snapshot: an hour after the work of a, which the next two days see
    blocker = [bench.submit("lab/b", 4, min_runtime=MINUTE) for _ in range(2)]
    waiting = {bench.submit(budget, 4, min_runtime=HOUR): budget for budget in ("lab/a", "lab/b")}
    bench.advance(MINUTE)
    for job_id in blocker:
        if bench.state_of(job_id) in ("running", "starting"):
            bench.finish(job_id)
            break
    bench.advance(RETENTION + DAY)
    before, sums = recovery.replay(bench.store), usage(bench.store, bench.engine.now())
    done = maintenance.compact(bench.url, bench.engine.now(), RETENTION, LOOKBACK)
    assert done.batches > 0
    after = recovery.replay(bench.store)
    assert before.mismatches == after.mismatches == ()
    assert after.first_seq == done.batches + 1 and after.batches > 0
    assert after.decisions > 0
    assert usage(bench.store, bench.engine.now()) == sums
    assert any(bench.row(job_id).first_start_at for job_id in waiting)
    bench.check_recovery()


def test_compaction_again_and_again_beside_the_engine(bench: Rig) -> None:
    sums = {}
    for day in range(12):
        work(bench, BUDGETS[1 + day % 2].path, 7 * HOUR)
        bench.restart()
        bench.advance(17 * HOUR)
        sums = usage(bench.store, bench.engine.now())
        maintenance.compact(bench.url, bench.engine.now(), 3 * DAY, LOOKBACK)
        assert usage(bench.store, bench.engine.now()) == sums
        bench.check_recovery()
        bench.check_replay()
    assert sums == {"lab/a": 6 * 7 * HOUR * 4000, "lab/b": 6 * 7 * HOUR * 4000}
    assert len(list(bench.store.spans())) < 12
    assert len(list(bench.store.batches())) < bench.engine.last_seq


def test_the_clock_and_the_numbers_go_on_when_compaction_has_taken_nearly_everything(bench: Rig) -> None:
    work(bench, "lab/a", HOUR)
    bench.restart()
    seq = bench.engine.last_seq
    bench.advance(60 * DAY)
    now = bench.engine.now()
    maintenance.compact(bench.url, now, RETENTION, LOOKBACK)
    bench.engine.stop()
    # The machine comes up again with a wall clock that forgot the time.
    bench.hands.boot, bench.hands.steady, bench.hands.wall = "boot-2", 1000, 0
    bench.boot()
    with bench.engine.view() as state:
        assert bench.engine.now() >= state.now
    recorded = bench.engine.now()
    bench.advance(HOUR)
    assert 0 <= HOUR - (bench.engine.now() - recorded) <= HOUR // 1000, "time goes on"
    work(bench, "lab/b", HOUR)
    assert bench.engine.last_seq > seq
    bench.check_replay()


def test_a_backup_taken_while_it_runs_restores_to_the_same_history(bench: Rig, tmp_path: Path) -> None:
    work(bench, "lab/a", HOUR)
    running = bench.submit("lab/b", 4)
    copy = tmp_path / "copy.db"
    maintenance.backup(bench.url, copy)
    bench.finish(running)
    restored = tmp_path / "restored" / "tenure.db"
    restored.parent.mkdir()
    maintenance.restore(copy, restored)
    with Store.open(f"sqlite:///{restored}") as store:
        assert recovery.replay(store).mismatches == ()
        assert running in recovery.restore(store).state.jobs
    assert maintenance.replay(bench.url).mismatches == ()


def test_where_there_is_no_database_none_is_made(tmp_path: Path) -> None:
    """It would be of whoever looks: as root the server could not use it any more."""
    path = tmp_path / "tenure.db"
    url = f"sqlite:///{path}"
    for command in (
        lambda: maintenance.backup(url, tmp_path / "copy.db"),
        lambda: maintenance.replay(url),
        lambda: maintenance.compact(url, 0, RETENTION, LOOKBACK),
    ):
        with pytest.raises(StoreError, match=f"there is no database at {path}: has this server ever run"):
            command()
    assert list(tmp_path.iterdir()) == []


def test_replay_tells_which_batch_came_out_differently(bench: Rig) -> None:
    work(bench, "lab/a", HOUR)
    with bench.store._write() as connection:
        connection.exec_driver_sql("UPDATE batches SET plans = '[]' WHERE seq = 2")
    report = recovery.replay(bench.store)
    assert [line.split(":")[0] for line in report.mismatches] == ["batch 2"]
