"""Arrays and dependencies through the engine: one request, one transaction, keys, ids, and what a restart finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from engine_kit import Rig, rig, spec
from sqlalchemy import event

from tenure import faults
from tenure.core.events import CancelRequested, Held, Released
from tenure.core.model import DAY, HOUR, After, Array, Broken
from tenure.core.reasons import Reason, Refusal
from tenure.engine.errors import Conflict
from tenure.engine.wishes import Lookup, Waits, Wish


def array(bench: Rig, count: int, throttle: int = 0, **more: object) -> int:
    job_id, new = bench.engine.submit(spec(gpus=1), by="ann", array=Array(tuple(range(count)), throttle), **more)  # type: ignore[arg-type]
    assert new
    bench.turn()
    return job_id


def ok(job_id: int, index: int | None = None) -> Wish:
    return Wish(job_id, index, True, "after_ok")


def end(job_id: int, index: int | None = None) -> Wish:
    return Wish(job_id, index, False, "after_any")


@contextmanager
def queries(bench: Rig) -> Iterator[list[str]]:
    """What the store is asked meanwhile."""
    asked: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    event.listen(bench.store._engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(bench.store._engine, "before_cursor_execute", note)


def states(bench: Rig, first: int, count: int) -> str:
    return "".join(bench.state_of(i)[0] for i in range(first, first + count))


def test_an_array_is_one_batch_with_its_own_ids(bench: Rig) -> None:
    before = bench.engine.last_seq
    first = array(bench, 5, 2)
    batch = next(iter(bench.store.batches(after=before)))
    assert len(json.loads(batch.events)["list"]) == 1
    assert [row.id for row in bench.store.list_jobs(array=first)] == [5, 4, 3, 2, 1]
    assert [row.array_index for row in bench.store.list_jobs(array=first, indices=(1, 3))] == [3, 1]
    assert bench.submit() == first + 5
    assert states(bench, first, 5) == "rrqqq"
    launches = [launch.array for launch in bench.executor.starts if launch.array is not None]
    assert [(a.id, a.index, a.count, a.first, a.last, a.step) for a in launches] == [
        (first, 0, 5, 0, 4, 1),
        (first, 1, 5, 0, 4, 1),
    ]


def test_what_an_array_shares_is_stored_once_and_read_everywhere(bench: Rig) -> None:
    first = array(bench, 3)
    single = bench.submit(gpus=1)
    rows = [bench.row(first + 2), *bench.store.list_jobs(array=first)]
    assert {row.spec for row in rows} == {bench.row(single).spec}
    with bench.store._read() as connection:
        kept = connection.exec_driver_sql("SELECT count(*) FROM jobs WHERE spec <> ''").scalar_one()
    assert kept == 1


def test_a_key_covers_the_whole_array(bench: Rig) -> None:
    made = bench.engine.submit(spec(gpus=1), by="ann", client_key="k", array=Array((0, 1, 2)))
    again = bench.engine.submit(spec(gpus=1), by="ann", client_key="k", array=Array((0, 1, 2)))
    assert made == (1, True) and again == (1, False)
    bench.restart()
    assert bench.engine.submit(spec(gpus=1), by="ann", client_key="k") == (1, False)
    assert len(bench.store.list_jobs(limit=None)) == 3


@pytest.mark.parametrize("point", ["store.before_commit", "store.after_commit"])
def test_a_server_that_dies_in_the_middle_of_an_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    with rig(tmp_path) as bench:

        def die(name: str) -> None:
            if name == point:
                raise RuntimeError("the power is gone")

        with monkeypatch.context() as patch:
            patch.setattr(faults, "point", die)
            with pytest.raises(Exception, match="must be restarted"):
                bench.engine.submit(spec(gpus=1), by="ann", client_key="k", array=Array((0, 1, 2), 1))
        bench.boot()
        bench.turn()
        found = len(bench.store.list_jobs(limit=None))
        assert found == (3 if point == "store.after_commit" else 0)
        again = bench.engine.submit(spec(gpus=1), by="ann", client_key="k", array=Array((0, 1, 2), 1))
        assert again == (1, found == 0)
        bench.turn()
        assert states(bench, 1, 3) == "rqq"
        bench.check_recovery()
        bench.check_replay()


def test_a_restart_in_between_changes_nothing(bench: Rig) -> None:
    first = array(bench, 4, 2)
    after, _ = bench.engine.submit(spec(gpus=1), by="ann", after=[ok(first), end(first, 3)])
    bench.finish(first)
    bench.restart()
    bench.configure()
    assert states(bench, first, 5) == "srrqq"
    for job_id in (first + 1, first + 2, first + 3):
        bench.finish(job_id)
        bench.check_recovery()
        bench.restart()
    assert bench.state_of(after) == "running"
    bench.check_replay()


def test_a_change_of_an_array_is_one_step(bench: Rig) -> None:
    first = array(bench, 6, 2)
    before = bench.engine.last_seq
    bench.engine.change_array(first, {3, 4}, Held, "ann")
    assert bench.engine.last_seq == before + 1
    with bench.engine.view() as state:
        assert [bool(state.jobs[first + i].held_by) for i in range(6)] == [False] * 3 + [True] * 2 + [False]
    bench.engine.change_array(first, None, Released, "ann")
    with bench.engine.view() as state:
        assert not any(job.held_by for job in state.jobs.values())
    bench.engine.change_array(first, None, CancelRequested, "ann")
    assert states(bench, first, 6)[2:] == "cccc"
    with pytest.raises(Conflict, match="these jobs have ended"):
        bench.engine.change_array(first, {3}, CancelRequested, "ann")
    with pytest.raises(Conflict, match="all of its jobs have ended"):
        bench.engine.change_array(99, None, Held, "ann")


# ---- what is waited for


def test_what_has_ended_is_decided_from_the_store(bench: Rig) -> None:
    good, bad = bench.submit(gpus=1), bench.submit(gpus=1)
    first = array(bench, 2)
    bench.finish(good)
    bench.finish(bad, 3)
    bench.finish(first)
    bench.finish(first + 1, 1)

    def outcome(*wishes: Wish) -> tuple[str, dict[str, object]]:
        job_id, _ = bench.engine.submit(spec(gpus=1), by="ann", after=wishes)
        bench.turn()
        state, numbers = bench.state_of(job_id), json.loads(bench.row(job_id).reason)["numbers"]
        if state != "cancelled":
            bench.engine.cancel(job_id, "ann")
            bench.executor.exit(bench.attempt_of(job_id), -15)
            bench.turn()
        return state, numbers

    assert outcome(ok(good))[0] == "running"
    assert outcome(end(bad))[0] == "running"
    assert outcome(ok(good), ok(bad)) == ("cancelled", {"job": str(bad), "state": "failed"})
    assert outcome(ok(first)) == ("cancelled", {"job": f"{first}_1", "state": "failed"})
    assert outcome(ok(first, 0), end(first), end(first, 1))[0] == "running"
    assert outcome(ok(first, 1)) == ("cancelled", {"job": f"{first}_1", "state": "failed"})
    bench.check_replay()


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        (ok(99), "after_ok = 99: there is no such job"),
        (end(1, 4), "after_any = 1_4: there is no array 1"),
        (ok(2, 7), "after_ok = 2_7: array 2 has 3 jobs, with indices from 0 to 2"),
    ],
)
def test_waiting_for_what_there_is_not_is_refused(bench: Rig, wish: Wish, text: str) -> None:
    bench.submit(gpus=1)
    array(bench, 3)
    before = bench.engine.last_seq
    with pytest.raises(Refusal, match=text) as refused:
        bench.engine.submit(spec(gpus=1), by="ann", after=[wish])
    assert refused.value.reason is Reason.UNKNOWN_JOB and bench.engine.last_seq == before


def test_what_ends_between_the_look_and_the_request_is_looked_at_again(bench: Rig) -> None:
    good, bad, lives = (bench.submit(gpus=1) for _ in range(3))
    fine, broken = array(bench, 2), array(bench, 2)
    wishes = [ok(good), ok(lives), end(bad), ok(fine), ok(fine, 1), end(broken), end(lives)]
    late, vain, doomed = (Lookup(bench.store, more) for more in (wishes, [*wishes, ok(bad)], [*wishes, ok(broken)]))
    known = Lookup(bench.store, wishes)
    with bench.engine.view() as state, queries(bench) as asked:
        assert [(wait.job_id, wait.whole) for wait in known.waits(state).after] == [
            *((good, False), (lives, False), (bad, False), (fine, True), (fine + 1, False), (broken, True)),
            (lives, False),
        ]
    assert not asked, "all live"
    for job_id, code in ((good, 0), (bad, 1), (fine, 0), (fine + 1, 0), (broken, 0), (broken + 1, 1)):
        bench.finish(job_id, code)
    with bench.engine.view() as state:
        left = (After(lives, False, True), After(lives, False, False))
        assert late.waits(state) == Waits(left)
        assert vain.waits(state) == Waits(left, Broken(str(bad), "failed"))
        assert doomed.waits(state) == Waits(left, Broken(f"{broken}_1", "failed"))
    again = Lookup(bench.store, [*wishes, ok(broken)])
    with bench.engine.view() as state, queries(bench) as asked:
        assert again.waits(state) == Waits(left, Broken(f"{broken}_1", "failed"))
    assert not asked, "what has ended is known"


def test_however_much_is_waited_for_few_questions_are_asked(bench: Rig) -> None:
    jobs = [bench.submit(gpus=1) for _ in range(8)]
    first = array(bench, 8)
    for job_id in (*jobs, *range(first, first + 8)):
        bench.finish(job_id)

    def asked_for(count: int) -> int:
        wishes = [wish for i in range(count) for wish in (ok(jobs[i]), end(first, i), ok(first, i), ok(first))]
        with queries(bench) as asked:
            bench.engine.submit(spec(gpus=1), by="ann", hold=True, after=wishes)
        return len([text for text in asked if text.startswith("SELECT")])

    assert asked_for(8) == asked_for(1)


def test_the_history_of_an_array_goes_with_its_last_job(bench: Rig) -> None:
    first = array(bench, 2)
    bench.finish(first)
    bench.finish(first + 1, 1)
    bench.advance(2 * DAY)
    bench.store.compact(bench.engine.now(), HOUR)
    assert bench.store.array(first) is None and bench.store.job(first) is None
    with pytest.raises(Refusal, match="its history is gone"):
        bench.engine.submit(spec(gpus=1), by="ann", after=[ok(first)])


def test_ten_thousand_jobs_at_once(bench: Rig) -> None:
    first = array(bench, 10_000, 4)
    assert states(bench, first, 6) == "rrrrqq"
    waiting, _ = bench.engine.submit(spec(gpus=1), by="ann", array=Array(tuple(range(10_000))), after=[ok(first)])
    bench.finish(first + 2, 1)
    assert bench.state_of(first + 4) == "running"
    assert bench.store.array_states(waiting) == {"cancelled": 10_000}
    bench.restart()
    bench.check_recovery()
    bench.engine.change_array(first, None, CancelRequested, "ann")
    assert bench.store.array_states(first) == {"cancelled": 9995, "failed": 1, "stopping": 4}
