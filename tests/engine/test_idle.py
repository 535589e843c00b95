"""An engine with nothing to do does nothing: counted, not timed."""

from __future__ import annotations

import threading
import time

import pytest
from engine_kit import PATIENCE_S, Rig

from tenure.core.model import HOUR, MINUTE, SECOND


@pytest.mark.parametrize(("min_runtime", "sleeps_s"), [(0, 14 * 60), (HOUR, 299)])
def test_an_idle_engine_writes_nothing_and_sleeps_until_something_is_due(
    bench: Rig, min_runtime: int, sleeps_s: int
) -> None:
    """Only a charged job that waits makes it look every 5 minutes whether something can be held."""
    running = bench.submit("lab/a", 4)
    waiting = bench.submit("lab/a", 4, replicas=2, min_runtime=min_runtime)
    bench.advance(5 * MINUTE)  # a look that was set while the first one waited
    seq, polls = bench.engine.last_seq, bench.executor.polls
    naps: list[float | None] = []
    slept = threading.Event()

    def wait(seconds: float | None = None) -> bool:
        naps.append(seconds)
        slept.set()
        return woken(seconds)

    woken = bench.engine._wake.wait
    bench.engine._wake.wait = wait  # type: ignore[method-assign]
    bench.engine.poke()
    assert slept.wait(PATIENCE_S)
    bench.turn()
    assert bench.engine.last_seq == seq
    assert bench.executor.polls <= polls + 4, "it polls when it is told of news, and not otherwise"
    assert naps and all(nap is not None and nap > sleeps_s for nap in naps), "to the next due time or slow tick"
    assert bench.state_of(running) == "running" and bench.state_of(waiting) == "queued"


def test_the_slow_tick_polls_once(bench: Rig) -> None:
    """Also when the executor said nothing: a lost datagram costs one slow tick."""
    job_id = bench.submit()
    bench.executor.exit(f"{job_id}.1", 0, quiet=True)
    polls = bench.executor.polls
    bench.hands.advance(HOUR)
    end = time.monotonic() + PATIENCE_S
    while bench.executor.polls <= polls:  # it may not have been asleep yet
        assert time.monotonic() < end, "the engine does not poll"
        with bench.engine._wake:
            bench.engine._wake.notify()
        time.sleep(0.01)
    assert bench.engine.wait_change(bench.engine.last_seq - 1, PATIENCE_S)
    bench.turn()
    assert bench.state_of(job_id) == "succeeded"


def test_a_due_time_that_changes_no_record_is_not_written(bench: Rig) -> None:
    """A protection ends and nobody waits for the GPUs: exposed, and nothing to write down."""
    job_id = bench.submit(min_runtime=SECOND)
    seq = bench.engine.last_seq
    bench.advance(2 * SECOND)
    with bench.engine.view() as state:
        assert state.clusters["main"].exposed["lab/a"].keys() == {f"{job_id}.1"}
    assert bench.engine.last_seq == seq
    bench.check_recovery()


def test_time_alone_exposes_and_the_next_in_turn_gets_the_gpus(bench: Rig) -> None:
    """No event, only a due time: the engine wakes for it."""
    for _ in range(2):
        bench.submit("lab/a", 4, min_runtime=MINUTE)
    bench.advance(2 * HOUR)
    gainer = bench.submit("lab/b", 4, min_runtime=MINUTE)
    assert bench.state_of(gainer) == "claiming"
