"""What fell due while no server was there: nobody was told of it, so it begins when somebody can be."""

from __future__ import annotations

import pytest
from engine_kit import QUEUED, RUNNING, Rig

from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, SECOND, HostState

STOPPING = JobState.STOPPING.value


def out_of_service(bench: Rig) -> list[str]:
    with bench.engine.view() as state:
        hosts = state.clusters["main"].hosts
        return [host for host, record in hosts.items() if record.state is not HostState.HEALTHY]


def away(bench: Rig, ms: int) -> None:
    """No server for so long."""
    bench.engine.stop()
    bench.hands.advance(ms)
    bench.boot()
    bench.turn()


def test_a_time_out_that_passed_meanwhile_leaves_the_whole_grace_and_marks_no_host(bench: Rig) -> None:
    job_id = bench.submit(timeout=2 * HOUR)
    away(bench, 5 * HOUR)
    assert (bench.state_of(job_id), out_of_service(bench)) == (STOPPING, [])
    (order,) = bench.executor.stops
    assert order.grace == 5 * MINUTE
    bench.advance(5 * MINUTE + 30 * SECOND - 1)
    assert out_of_service(bench) == []
    bench.finish(job_id, -15)
    assert bench.state_of(job_id) == JobState.TIMED_OUT.value
    bench.check_recovery()
    bench.check_replay()


def test_what_did_not_go_after_that_marks_its_host(bench: Rig) -> None:
    bench.submit(timeout=2 * HOUR)
    away(bench, 5 * HOUR)
    bench.advance(5 * MINUTE + 30 * SECOND)
    assert out_of_service(bench) == ["h0"]
    bench.check_recovery()
    bench.check_replay()


def test_who_ended_by_itself_past_its_time_out_was_not_stopped(bench: Rig) -> None:
    job_id = bench.submit(timeout=2 * HOUR)
    bench.engine.stop()
    bench.hands.advance(3 * HOUR)
    bench.executor.exit(f"{job_id}.1", 0, quiet=True)
    bench.hands.advance(HOUR)
    bench.boot()
    bench.turn()
    assert bench.state_of(job_id) == JobState.SUCCEEDED.value
    assert [span.end - span.start for span in bench.store.spans()] == [3 * HOUR]
    bench.check_replay()


def test_a_start_time_out_that_passed_meanwhile_marks_no_host(bench: Rig) -> None:
    bench.executor.auto_up = False
    job_id = bench.submit()
    away(bench, 5 * HOUR)
    assert (bench.state_of(job_id), out_of_service(bench)) == (STOPPING, [])
    bench.finish(job_id, -9)
    assert bench.state_of(job_id) == QUEUED
    bench.check_recovery()
    bench.check_replay()


@pytest.mark.parametrize("times", [1, 2])
def test_an_eviction_that_nobody_was_told_of_is_told_now_and_the_claim_comes_true(bench: Rig, times: int) -> None:
    victims = [bench.submit("lab/a", 4, min_runtime=0) for _ in range(2)]
    bench.executor.stop = lambda order: None  # type: ignore[method-assign,assignment]  # it never arrives
    gainer = bench.submit("lab/b", 4)
    del bench.executor.stop
    for _ in range(times):
        away(bench, HOUR)
    (victim,) = (i for i in victims if bench.state_of(i) == STOPPING)
    assert (bench.state_of(gainer), out_of_service(bench)) == (JobState.CLAIMING.value, [])
    assert {(order.attempt_id, order.grace) for order in bench.executor.stops} == {(f"{victim}.1", 10 * SECOND)}
    bench.advance(9 * SECOND)
    bench.finish(victim, -15)
    assert (bench.state_of(gainer), bench.state_of(victim)) == (RUNNING, QUEUED)
    assert bench.row(victim).evictions == 1
    bench.check_recovery()
    bench.check_replay()


def test_what_is_still_there_a_grace_after_the_server_is_back_marks_its_host(bench: Rig) -> None:
    victims = [bench.submit("lab/a", 4, min_runtime=0) for _ in range(2)]
    bench.submit("lab/b", 4)
    stuck = next(i for i in victims if bench.state_of(i) == STOPPING)
    with bench.engine.view() as state:
        (host,) = state.attempts[f"{stuck}.1"].hosts()
    away(bench, HOUR)
    bench.advance(40 * SECOND - 1)
    assert out_of_service(bench) == []
    bench.advance(1)
    assert out_of_service(bench) == [host]
    seq = bench.engine.last_seq
    bench.restart()
    assert bench.engine.last_seq == seq, "nothing is said again of what is known not to go"
    bench.check_recovery()
    bench.check_replay()


def test_an_eviction_whose_time_has_not_passed_goes_on_as_it_was(bench: Rig) -> None:
    job_id = bench.submit()
    bench.engine.evict(job_id, "op", "to see")
    away(bench, 5 * MINUTE - SECOND)
    assert bench.state_of(job_id) == STOPPING
    bench.advance(31 * SECOND)
    assert out_of_service(bench) == ["h0"]
    bench.check_replay()
