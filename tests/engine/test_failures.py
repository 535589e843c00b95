"""When something under the engine breaks: nothing is acted on that is not committed, and everybody is told."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from engine_kit import PATIENCE_S, Rig, rig, spec
from sqlalchemy.exc import OperationalError

from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, SECOND
from tenure.engine.engine import Engine
from tenure.engine.errors import EngineStopped
from tenure.executors.base import Phase, StaleEpoch
from tenure.store import StaleLeader, Store


def failed(bench: Rig) -> BaseException:
    """What ended the engine. Raises when it goes on."""
    bench.engine._thread.join(PATIENCE_S)
    assert not bench.engine._thread.is_alive()
    assert bench.engine.failure is not None
    return bench.engine.failure


def break_store(bench: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_args: object, **_more: object) -> None:
        raise OperationalError("COMMIT", {}, OSError("the disk is full"))

    monkeypatch.setattr(bench.store, "write", write)


def test_a_commit_that_fails_ends_the_engine_before_anything_is_done(
    bench: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = threading.Event()
    bench.engine.on_failure = told.set
    with monkeypatch.context() as patch:
        break_store(bench, patch)
        with pytest.raises(EngineStopped):
            bench.engine.submit(spec(), by="ann")
        assert isinstance(failed(bench), OperationalError)
    assert told.wait(PATIENCE_S)
    assert bench.executor.starts == []
    with pytest.raises(EngineStopped):
        bench.engine.submit(spec(), by="ann")
    with pytest.raises(EngineStopped), bench.engine.view():
        pass
    bench.restart()
    assert bench.store.list_jobs() == []
    assert bench.submit() == 1


def test_requests_that_wait_when_the_engine_fails_are_answered_at_once(
    bench: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those behind a pass that fails for a reason of its own, and those in the same round."""
    break_store(bench, monkeypatch)
    with ThreadPoolExecutor(40) as pool:
        with bench.engine.view():
            asked = [pool.submit(bench.engine.submit, spec(), by="ann") for _ in range(40)]
        errors = [one.exception(PATIENCE_S) for one in asked]
    assert all(isinstance(error, EngineStopped) for error in errors)
    failed(bench)


def test_requests_are_answered_when_polling_fails(bench: Rig) -> None:
    bench.executor.broken = OSError("no more files")
    bench.engine.poke()
    with pytest.raises(EngineStopped):
        while True:
            bench.engine.submit(spec(), by="ann")
    assert isinstance(failed(bench), OSError)
    bench.executor.broken = None


def test_watchers_are_woken_when_the_engine_fails(bench: Rig) -> None:
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(bench.engine.wait_change, bench.engine.last_seq, PATIENCE_S)
        bench.executor.broken = OSError("gone")
        bench.engine.poke()
        assert watching.result(PATIENCE_S / 2) == bench.engine.last_seq


def test_no_snapshot_is_kept_of_a_state_that_is_not_committed(bench: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.submit()
    with monkeypatch.context() as patch:
        break_store(bench, patch)
        with pytest.raises(EngineStopped):
            bench.engine.submit(spec(), by="ann")
        failed(bench)
        bench.engine.stop()
    assert bench.store.latest_snapshot() is None
    bench.boot()
    bench.turn()
    bench.check_recovery()


def test_whoever_was_replaced_neither_writes_nor_acts(bench: Rig, tmp_path: Path) -> None:
    job_id = bench.submit()
    old = bench.engine
    with Store.open(bench.url) as other_store:
        second = Engine(bench.config, other_store, bench.executor, bench.hands.clock)
        second.start()
        starts = len(bench.executor.starts)
        with pytest.raises(EngineStopped):
            old.submit(spec(), by="ann")
        assert isinstance(old.failure, StaleLeader)
        assert second.submit(spec(), by="bob") == (job_id + 1, True)
        second.stop()
        assert all(launch.job_id > job_id for launch in bench.executor.starts[starts + 1 :])
    bench.boot()
    bench.turn()
    bench.check_recovery()


def test_a_server_that_starts_while_another_one_writes_takes_over_all_of_it(bench: Rig) -> None:
    """It reads the state, then takes the lead: what was written in between counts."""
    with Store.open(bench.url) as other_store:
        second = Engine(bench.config, other_store, bench.executor, bench.hands.clock)
        job_id = bench.submit()
        second.start()
        with second.view() as state:
            assert job_id in state.jobs
        assert second.submit(spec(), by="bob")[0] == job_id + 1
        assert len({launch.attempt_id for launch in bench.executor.starts}) == 2
        assert not bench.executor.stops, "an attempt of the first server was taken for an unknown one"
        second.stop()


def test_a_database_from_a_backup_leads_although_the_executor_has_seen_newer_epochs(tmp_path: Path) -> None:
    with rig(tmp_path) as bench:
        bench.executor.newest_epoch = 57
        bench.restart()
        assert bench.engine.epoch >= 57 and bench.executor.newest_epoch == bench.engine.epoch


def test_an_executor_led_by_another_database_meanwhile_is_left_alone(
    bench: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch is refused because somebody took this database over too: no fight for it."""
    bench.engine.stop()
    engine = Engine(bench.config, bench.store, bench.executor, bench.hands.clock)

    def refuse(epoch: int, _on_change: object) -> None:
        bench.store.take_leadership()
        raise StaleEpoch(f"{epoch} is behind")

    with monkeypatch.context() as patch:
        patch.setattr(bench.executor, "open", refuse)
        with pytest.raises(StaleEpoch):
            engine.start()
    bench.boot()


def test_a_start_that_this_machine_refuses_fails_the_attempt(bench: Rig) -> None:
    bench.executor.refuse_start = OSError(28, "No space left on device")
    once = bench.submit(retries=0)
    assert bench.state_of(once) == JobState.FAILED.value
    assert "No space left" in bench.row(once).reason
    twice = bench.submit(retries=1)
    assert bench.state_of(twice) == JobState.QUEUED.value, "it backs off"
    bench.executor.refuse_start = None
    bench.advance(11 * SECOND)
    assert bench.state_of(twice) == JobState.RUNNING.value
    bench.check_recovery()
    bench.check_replay()


def test_what_runs_goes_on_although_it_cannot_be_told_to_start_again(bench: Rig) -> None:
    """After a restart everything is said again; a refusal then says nothing about what runs."""
    job_id = bench.submit()
    bench.engine.stop()
    bench.executor.refuse_start = OSError(24, "Too many open files")
    bench.boot()
    bench.turn()
    assert bench.state_of(job_id) == JobState.RUNNING.value
    bench.executor.refuse_start = None
    bench.finish(job_id)
    assert bench.state_of(job_id) == JobState.SUCCEEDED.value
    assert len(bench.store.attempts_of(job_id)) == 1


def test_a_stop_that_this_machine_refuses_is_said_again(bench: Rig) -> None:
    job_id, other = bench.submit(), bench.submit()
    bench.executor.refuse_stop = OSError(28, "No space left on device")
    bench.engine.cancel(job_id, "ann")
    bench.turn()
    assert bench.executor.stops == [] and bench.state_of(job_id) == JobState.STOPPING.value
    bench.finish(other)
    assert bench.state_of(other) == JobState.SUCCEEDED.value, "the rest goes on"
    bench.executor.refuse_stop = None
    bench.turn()
    assert [order.attempt_id for order in bench.executor.stops] == [f"{job_id}.1"]


def test_unknown_attempts_are_ended_and_then_forgotten(bench: Rig) -> None:
    bench.executor.enter("77.1", Phase.RUNNING)
    bench.turn()
    assert [(order.attempt_id, order.grace) for order in bench.executor.stops][-1] == ("77.1", 0)
    bench.executor.exit("77.1", -9)
    bench.turn()
    assert bench.executor.forgotten == ["77.1"]
    assert bench.store.job(77) is None


def test_ends_are_not_lost_while_the_server_is_down(bench: Rig) -> None:
    ran, failing, lost = (bench.submit(gpus=1, resumable=False) for _ in range(3))
    bench.engine.stop()
    bench.hands.advance(MINUTE)
    bench.executor.exit(f"{ran}.1", 0, quiet=True)
    bench.executor.exit(f"{failing}.1", 3, quiet=True)
    bench.executor.enter(f"{lost}.1", Phase.LOST, quiet=True)
    bench.hands.advance(MINUTE)
    bench.boot()
    bench.turn()
    assert [bench.state_of(i) for i in (ran, failing, lost)] == ["succeeded", "failed", "failed"]
    assert bench.row(failing).exit_code == 3
    ends = {span.attempt_id: span.end - span.start for span in bench.store.spans()}
    assert set(ends.values()) == {MINUTE}, "charged until it ended, not until the server was back"
    assert {bench.row(i).ended_at for i in (ran, failing, lost)} == {span.end for span in bench.store.spans()}
    assert sorted(bench.executor.forgotten) == [f"{i}.1" for i in (ran, failing, lost)]


def test_a_short_job_that_ran_while_the_server_was_down_for_long_has_succeeded(bench: Rig) -> None:
    """It started, ran for 20 minutes and ended; nobody saw it come up before the start time-out of 15."""
    bench.executor.auto_up = False
    job_id = bench.submit()
    bench.engine.stop()
    bench.hands.advance(20 * MINUTE)
    bench.executor.exit(f"{job_id}.1", 0, quiet=True)
    bench.hands.advance(20 * MINUTE)
    bench.boot()
    bench.turn()
    assert bench.state_of(job_id) == JobState.SUCCEEDED.value
    assert len(bench.store.attempts_of(job_id)) == 1


def test_a_job_that_is_done_has_succeeded_although_its_supervisor_was_killed(bench: Rig) -> None:
    job_id = bench.submit()
    bench.executor.enter(f"{job_id}.1", Phase.LOST, done=True)
    bench.turn()
    assert bench.state_of(job_id) == JobState.SUCCEEDED.value


def test_a_supervisor_killed_in_the_grace_ends_an_eviction(bench: Rig) -> None:
    job_id = bench.submit()
    bench.engine.evict(job_id, "op", "to see")
    bench.turn()
    bench.executor.enter(f"{job_id}.1", Phase.LOST)
    bench.turn()
    assert bench.state_of(job_id) == JobState.RUNNING.value, "it was requeued and had room"
    assert bench.row(job_id).restarts == 1
    bench.check_replay()


def test_an_end_before_its_start_was_seen(bench: Rig) -> None:
    bench.executor.auto_up = False
    job_id = bench.submit()
    bench.advance(SECOND)
    bench.finish(job_id, 0)
    assert bench.state_of(job_id) == JobState.SUCCEEDED.value
    (row,) = bench.store.attempts_of(job_id)
    assert row.started_at is not None and row.running_at is not None
    assert row.started_at <= row.running_at <= (row.ended_at or 0)


def test_a_victim_that_ended_while_the_server_was_down_opens_the_claim(bench: Rig) -> None:
    victims = [bench.submit("lab/a", 4, min_runtime=0) for _ in range(2)]
    gainer = bench.submit("lab/b", 4)
    assert bench.state_of(gainer) == JobState.CLAIMING.value
    victim = next(i for i in victims if bench.state_of(i) == JobState.STOPPING.value)
    bench.engine.stop()
    bench.hands.advance(3 * SECOND)
    bench.executor.exit(f"{victim}.1", -15, quiet=True)
    bench.hands.advance(HOUR)
    bench.boot()
    bench.turn()
    assert bench.state_of(gainer) == JobState.RUNNING.value
    assert bench.store.attempts_of(gainer)[0].started_at == bench.hands.wall, "nobody held its GPUs meanwhile"
    assert (bench.store.attempts_of(victim)[0].ended_at or 0) == bench.hands.wall - HOUR
    bench.check_replay()


def test_a_warning_that_a_crash_has_delayed_still_leaves_the_whole_grace(bench: Rig) -> None:
    """The order was committed, and the server killed before it went out."""
    victims = [bench.submit("lab/a", 4, min_runtime=0) for _ in range(2)]
    bench.executor.stop = lambda order: None  # type: ignore[method-assign,assignment]  # it never arrives
    gainer = bench.submit("lab/b", 4)
    del bench.executor.stop
    bench.engine.stop()
    bench.hands.advance(9 * SECOND)
    bench.boot()
    bench.turn()
    (order,) = bench.executor.stops
    assert order.grace == 10 * SECOND
    assert bench.state_of(gainer) == JobState.CLAIMING.value
    assert order.attempt_id in {f"{i}.1" for i in victims}


def test_restarts_in_a_row_change_nothing(bench: Rig) -> None:
    job_id = bench.submit()
    before = bench.engine.last_seq
    for _ in range(5):
        bench.restart()
    assert bench.engine.last_seq == before
    assert bench.state_of(job_id) == JobState.RUNNING.value
    assert {launch.attempt_id for launch in bench.executor.starts} == {f"{job_id}.1"}
    assert bench.executor.stops == []


def test_an_end_before_a_step_that_left_nothing_in_the_log(bench: Rig) -> None:
    """A look in between found nothing new, and moved the time on: what is charged ends before it all the same."""
    job_id = bench.submit()
    bench.advance(SECOND)
    bench.executor.exit(f"{job_id}.1", quiet=True)
    ended = bench.executor.runs.pop(f"{job_id}.1")
    bench.advance(SECOND)
    bench.executor.runs[f"{job_id}.1"] = ended
    bench.advance(SECOND)
    assert bench.state_of(job_id) == JobState.SUCCEEDED.value
    (span,) = bench.store.spans()
    assert span.end - span.start == SECOND
    bench.check_recovery()
    bench.check_replay()
