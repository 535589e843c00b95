"""Steps of the wall clock under the engine: protection lasts as long as it was promised, and evictions wait."""

from __future__ import annotations

import pytest
from engine_kit import Rig

from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, SECOND
from tenure.engine.clock import SETTLE, SLEW_PPM
from tenure.executors.base import Phase


def exposed(bench: Rig, job_id: int) -> bool:
    with bench.engine.view() as state:
        return any(f"{job_id}.1" in leaf for leaf in state.clusters["main"].exposed.values())


@pytest.mark.parametrize("step", [HOUR, -HOUR])
@pytest.mark.parametrize("down", [False, True])
def test_a_step_neither_exposes_early_nor_late(bench: Rig, step: int, down: bool) -> None:
    job_id = bench.submit(min_runtime=HOUR)
    bench.advance(10 * MINUTE)
    if down:
        bench.engine.stop()
    bench.hands.wall += step
    if down:
        bench.boot()
    bench.advance(50 * MINUTE - 10 * SECOND)
    assert not exposed(bench, job_id)
    bench.advance(20 * SECOND)
    assert exposed(bench, job_id)
    bench.finish(job_id)
    (span,) = bench.store.spans()
    true = HOUR + 10 * SECOND
    assert abs(span.end - span.start - true) <= true * SLEW_PPM // 1_000_000 + 1
    bench.check_recovery()
    bench.check_replay()


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_evictions_stop_until_the_step_has_settled(bench: Rig, step: int) -> None:
    for _ in range(2):
        bench.submit("lab/a", 4, min_runtime=0)
    bench.hands.wall += step
    gainer = bench.submit("lab/b", 4)
    assert bench.engine.clock_alarm
    assert bench.state_of(gainer) == JobState.QUEUED.value
    bench.advance(SETTLE - SECOND)
    assert bench.state_of(gainer) == JobState.QUEUED.value
    bench.restart()
    assert bench.state_of(gainer) == JobState.QUEUED.value, "a restart does not end the alarm"
    bench.advance(SETTLE + SECOND)
    assert not bench.engine.clock_alarm
    assert bench.state_of(gainer) == JobState.CLAIMING.value
    bench.check_recovery()
    bench.check_replay()


def test_starts_and_ends_go_on_in_an_alarm(bench: Rig) -> None:
    first = bench.submit("lab/a", 4)
    bench.hands.wall += HOUR
    second = bench.submit("lab/a", 4)
    assert bench.state_of(second) == JobState.RUNNING.value
    bench.finish(first)
    assert bench.state_of(first) == JobState.SUCCEEDED.value


@pytest.mark.parametrize("step", [HOUR, -HOUR, -1000 * HOUR])
def test_after_a_reboot_time_is_never_earlier_than_what_was_recorded(bench: Rig, step: int) -> None:
    job_id = bench.submit(min_runtime=HOUR)
    bench.advance(MINUTE)
    queued = [bench.submit("lab/b", 4, replicas=2) for _ in range(2)]
    recorded = bench.engine.now()
    bench.engine.stop()
    bench.hands.boot, bench.hands.steady = "boot-2", 5_000
    bench.hands.wall += step
    bench.executor.enter(f"{job_id}.1", Phase.LOST, quiet=True, message="the machine was restarted")
    bench.boot()
    bench.turn()
    assert bench.engine.now() >= max(recorded, bench.hands.wall)
    assert bench.row(job_id).restarts == 0 and bench.state_of(job_id) == JobState.QUEUED.value, "it backs off"
    assert bench.state_of(queued[0]) == JobState.RUNNING.value
    before = bench.engine.now()
    bench.advance(10 * MINUTE)
    assert abs(bench.engine.now() - before - 10 * MINUTE) <= 10 * MINUTE * SLEW_PPM // 1_000_000 + 1
    bench.check_recovery()
    bench.check_replay()


@pytest.mark.parametrize("step", [0, HOUR, -HOUR])
def test_a_checkpoint_is_reported_once_however_long_time_slews(bench: Rig, step: int) -> None:
    job_id = bench.submit(min_runtime=0)
    bench.hands.wall += step
    bench.advance(5 * MINUTE)
    bench.executor.runs[f"{job_id}.1"].checkpoint = bench.hands.steady
    bench.advance(2 * SETTLE)
    with bench.engine.view() as state:
        reported = state.attempts[f"{job_id}.1"].checkpoint_at
    seq = bench.engine.last_seq
    for _ in range(48):
        bench.advance(HOUR)
    assert bench.engine.last_seq == seq, "the same checkpoint again"
    bench.executor.runs[f"{job_id}.1"].checkpoint = bench.hands.steady
    bench.advance(SECOND)
    with bench.engine.view() as state:
        latest = state.attempts[f"{job_id}.1"].checkpoint_at
    assert reported is not None and latest is not None and latest - reported > 47 * HOUR
    bench.check_replay()
