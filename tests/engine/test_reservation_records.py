"""What is held survives a server, is in the log, and evicts by its own reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_kit import QUEUED, RUNNING, Rig, config_of, rig

from tenure.api import feed
from tenure.core.model import HOUR, MINUTE, Policy
from tenure.core.state import Reservation
from tenure.engine import record

LONG = 10**6


def held(bench: Rig, job_id: int) -> Reservation | None:
    with bench.engine.view() as state:
        return state.jobs[job_id].reservation


def kinds(bench: Rig) -> list[str]:
    """What the feed says of plans and outcomes about holding, oldest first."""
    entries = [e for row in bench.store.batches(0, LONG) for e in feed.batch_view(row).entries]
    return [entry.kind for entry in entries if entry.kind in ("reserve", "unreserve", "headroom")]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path, config_of(tmp_path, Policy(reserved_percent=50))) as made:
        yield made


@pytest.fixture
def gang(bench: Rig) -> int:
    """Both hosts are protected, for 4 h and for 6 h; a gang of the other budget holds a reservation of both."""
    bench.executor.on_stop = lambda order: bench.executor.exit(order.attempt_id, 143)
    bench.submit("lab/a", min_runtime=4 * HOUR)
    bench.submit("lab/a", min_runtime=6 * HOUR)
    job_id = bench.submit("lab/b", replicas=2)
    bench.advance(5 * MINUTE)
    return job_id


def test_a_reservation_is_in_the_log_and_outlives_the_server(bench: Rig, gang: int) -> None:
    made = held(bench, gang)
    assert made is not None and made.hosts == ("h0", "h1") and kinds(bench) == ["reserve"]
    # told: the later of the two protections; then 15 min, the start-up, two graces and kills
    assert made.told - made.made_at in range(6 * HOUR - 5 * MINUTE, 6 * HOUR)
    assert made.starts_by - made.told == 15 * MINUTE + 15 * MINUTE + 2 * (5 * MINUTE + MINUTE // 2)
    plans = [plan for row in bench.store.batches(0, LONG) for plan in record.plans_of(row)]
    assert "Reserve" in [type(plan).__name__ for plan in plans]
    bench.check_recovery()
    bench.check_replay()
    bench.restart()
    assert held(bench, gang) == made and bench.state_of(gang) == QUEUED
    with bench.engine.view() as state:
        cluster = state.clusters["main"]
        assert cluster.held == {"h0": gang, "h1": gang} and cluster.held_gpus == 8
    assert kinds(bench) == ["reserve"]


def test_its_time_evicts_what_is_exposed_and_is_recorded_as_such(bench: Rig, gang: int) -> None:
    bench.advance(6 * HOUR)
    bench.turn()
    rows = bench.store.evictions(limit=10)
    assert [row.reason for row in rows] == ["evicted_reserved"] * 2 and {row.gainer for row in rows} == {gang}
    assert all(row.gained > 0 and row.gainer_leaf == "lab/b" for row in rows)
    assert json.loads(rows[0].numbers)["gainer"] == gang
    for _ in range(3):
        bench.turn()
    assert bench.state_of(gang) == RUNNING and held(bench, gang) is None
    assert kinds(bench) == ["reserve"]  # to start is not to lose it
    bench.check_replay()


def test_a_cancelled_job_gives_its_hosts_back(bench: Rig, gang: int) -> None:
    bench.engine.cancel(gang, by="ann")
    bench.turn()
    assert kinds(bench) == ["reserve", "unreserve"]
    with bench.engine.view() as state:
        assert not state.clusters["main"].held and not state.clusters["main"].reservations
    bench.check_recovery()
    bench.check_replay()


def test_headroom_is_in_the_log_and_outlives_the_server(tmp_path: Path) -> None:
    with rig(tmp_path, config_of(tmp_path, Policy(headroom_percent=50, reserved_percent=0))) as bench:
        bench.executor.on_stop = lambda order: bench.executor.exit(order.attempt_id, 143)
        for _ in range(2):
            bench.submit("lab/a", min_runtime=30 * MINUTE)
        bench.advance(25 * MINUTE)
        bench.submit("lab/a", min_runtime=8 * HOUR)  # somebody waits, so that passes look
        bench.submit("lab/a", gpus=4, min_runtime=15 * MINUTE)
        bench.advance(5 * MINUTE)
        bench.advance(5 * MINUTE)
        assert "headroom" in kinds(bench)
        with bench.engine.view() as state:
            kept = state.clusters["main"].headroom
        assert len(kept) == 1
        rows = bench.store.evictions(limit=10)
        assert [(row.reason, row.gainer, row.gained) for row in rows] == [("evicted_headroom", 0, 0)]
        bench.check_recovery()
        bench.check_replay()
        bench.restart()
        with bench.engine.view() as state:
            assert state.clusters["main"].headroom == kept
