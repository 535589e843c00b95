"""Requests from many threads, keys and ids, and what is left when nobody waits any more."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from engine_kit import PATIENCE_S, Rig, rig, spec

from tenure.core.lifecycle import JobState
from tenure.core.model import DAY, SECOND
from tenure.core.reasons import Refusal
from tenure.engine import loop
from tenure.engine.engine import Engine
from tenure.engine.errors import Conflict, EngineStopped, NotFound
from tenure.engine.requests import Asked


def test_a_key_names_one_job_also_after_a_restart(bench: Rig) -> None:
    first = bench.engine.submit(spec(), by="ann", client_key="k")
    again = bench.engine.submit(spec(gpus=1), by="ann", client_key="k")
    assert first[1] and again == (first[0], False)
    bench.restart()
    assert bench.engine.submit(spec(), by="ann", client_key="k") == (first[0], False)
    bench.finish(first[0])
    assert bench.engine.submit(spec(), by="ann", client_key="k") == (first[0], False), "ended jobs keep their keys"
    other, new = bench.engine.submit(spec(user="bob"), by="bob", client_key="k")
    assert new and other != first[0], "keys are each user's own"


def test_a_key_that_many_threads_send_at_once_makes_one_job(bench: Rig) -> None:
    with ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(bench.engine.submit, spec(), by="ann", client_key=f"k{i % 3}") for i in range(48)]
    answers = {one.result() for one in asked}
    assert len({job_id for job_id, _ in answers}) == 3
    assert sum(one.result()[1] for one in asked) == 3


def test_requests_of_many_threads_each_happen_once(bench: Rig) -> None:
    def busy(number: int) -> list[int]:
        mine = [bench.engine.submit(spec(gpus=1 + number % 4), by="ann")[0] for _ in range(5)]
        bench.engine.set_priority(mine[0], number, "ann")
        bench.engine.hold(mine[1], "ann")
        bench.engine.cancel(mine[2], "ann")
        return mine

    with ThreadPoolExecutor(10) as pool:
        ids = [job_id for mine in pool.map(busy, range(10)) for job_id in mine]
    assert sorted(ids) == list(range(1, 51))
    assert len(bench.store.list_jobs(limit=None)) == 50
    bench.turn()
    bench.check_recovery()
    bench.check_replay()


def test_a_refused_submission_leaves_nothing_and_takes_no_id(bench: Rig) -> None:
    before = bench.engine.last_seq
    with pytest.raises(Refusal):
        bench.engine.submit(spec(gpus=5), by="ann", client_key="k")
    assert bench.engine.last_seq == before
    assert bench.engine.submit(spec(), by="ann", client_key="k") == (1, True)


def test_ids_are_never_given_again_after_compaction(bench: Rig) -> None:
    job_id = bench.submit()
    bench.finish(job_id)
    bench.restart()
    bench.advance(10 * DAY)
    done = bench.store.compact(bench.engine.now() - DAY, DAY)
    assert done.jobs == 1 and bench.store.job(job_id) is None
    bench.restart()
    assert bench.submit() == job_id + 1


def test_ids_that_the_executor_remembers_are_not_given_again(bench: Rig) -> None:
    """After a backup was restored: the database knows fewer jobs than have run."""
    bench.engine.stop()
    bench.engine = Engine(bench.config, bench.store, bench.executor, bench.hands.clock, used_ids=41)
    bench.engine.start()
    assert bench.submit() == 42


def test_a_request_that_timed_out_is_not_done_later(bench: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow() -> None:
        def request(_state: object, _now: int) -> Asked:
            entered.set()
            assert leave.wait(PATIENCE_S)
            return Asked([])

        bench.engine._ask(request, "ann")

    blocker = threading.Thread(target=slow)
    blocker.start()
    assert entered.wait(PATIENCE_S)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "REQUEST_TIMEOUT_S", 0.05)
        with pytest.raises(EngineStopped, match="nothing"):
            bench.engine.submit(spec(), by="ann")
    leave.set()
    blocker.join()
    assert bench.submit() == 1, "the first one took no id, and no job"
    assert len(bench.store.list_jobs()) == 1


def test_whoever_waits_for_a_request_under_way_gets_its_answer(bench: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its effect may be committed at any moment, so there is no giving up."""
    writing = bench.store.write
    entered, leave = threading.Event(), threading.Event()

    class Late(Future[None]):
        """Its time is over when the request is under way."""

        def result(self, timeout: float | None = None) -> None:
            if timeout is not None:
                assert entered.wait(PATIENCE_S)
                raise TimeoutError
            super().result()

    def slow_write(*args: object, **more: object) -> None:
        entered.set()
        assert leave.wait(PATIENCE_S)
        writing(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "Future", Late)
    monkeypatch.setattr(bench.store, "write", slow_write)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(bench.engine.submit, spec(), by="ann")
        assert entered.wait(PATIENCE_S)
        with pytest.raises(TimeoutError):
            asked.result(0.3)
        leave.set()
        assert asked.result(PATIENCE_S) == (1, True)


def test_stopping_answers_everybody(tmp_path: Path) -> None:
    with rig(tmp_path) as bench, ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(bench.engine.submit, spec(), by="ann") for _ in range(200)]
        bench.engine.stop()
        done = [one for one in asked if one.exception(PATIENCE_S) is None]
        assert all(isinstance(one.exception(), EngineStopped) for one in asked if one not in done)
        assert {one.result()[0] for one in done} == {row.id for row in bench.store.list_jobs(limit=None)}
        bench.boot()
        bench.turn()
        bench.check_recovery()


def test_stop_orders_go_out_between_requests(bench: Rig) -> None:
    """A flood of requests does not keep a victim's warning back until it is over."""
    victim = bench.submit(gpus=4)
    stopped_at: list[int] = []
    bench.executor.on_stop = lambda _order: stopped_at.append(bench.engine.last_seq)
    flood = 3 * loop.REQUESTS_PER_ROUND
    waits, go = threading.Event(), threading.Event()

    def wait_for_all(_state: object, _now: int) -> Asked:
        waits.set()
        assert go.wait(PATIENCE_S)
        return Asked([])

    def queued(count: int) -> None:
        end = time.monotonic() + PATIENCE_S
        while len(bench.engine._pending) < count:
            assert time.monotonic() < end, f"{count} requests do not come to wait"
            time.sleep(0.01)

    def submit(_: int) -> None:
        bench.engine.submit(spec(gpus=1), by="ann")

    with ThreadPoolExecutor(flood + 2) as pool:
        asked = [pool.submit(bench.engine._ask, wait_for_all, "ann")]
        assert waits.wait(PATIENCE_S)
        asked.append(pool.submit(bench.engine.cancel, victim, "ann"))
        queued(1)
        asked += [pool.submit(submit, i) for i in range(flood)]
        queued(1 + flood)
        go.set()
        assert [one.exception(PATIENCE_S) for one in asked] == [None] * len(asked)
    assert stopped_at and stopped_at[0] < bench.engine.last_seq - loop.REQUESTS_PER_ROUND


def test_what_cannot_be_done_is_told_to_whoever_asked(bench: Rig) -> None:
    queued = bench.engine.submit(spec(), by="ann", hold=True)[0]
    with pytest.raises(NotFound):
        bench.engine.cancel(99, "ann")
    with pytest.raises(Conflict):
        bench.engine.evict(queued, "ann", "why")
    with pytest.raises(Conflict):
        bench.engine.checkpoint(queued, "ann")
    assert bench.state_of(queued) == JobState.QUEUED.value
    bench.engine.release(queued, "ann")
    bench.turn()
    assert bench.state_of(queued) == JobState.RUNNING.value
    bench.advance(SECOND)
    bench.engine.cancel(queued, "ann")
    bench.finish(queued, -15)
    assert bench.state_of(queued) == JobState.CANCELLED.value
    assert [row.action for row in bench.store.audit_log()][:4] == ["cancel", "release", "submit", "apply"]
