"""From batches of the log to the outbox: who is told what, once, and what comes true only when nothing happens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from notice_kit import NOW
from teller_kit import DONE, EVICTED, FREE, Log, job_row, reserve, start

from tenure.core import codec
from tenure.core.decisions import (
    AttemptEnded,
    Claim,
    ClaimOpened,
    Decision,
    Evict,
    JobEnded,
    Requeued,
    ReservationLost,
    Stop,
    Stopping,
    Unreserve,
)
from tenure.core.events import ConfigApplied, Held, ReplicasUp
from tenure.core.model import HOUR, MINUTE, SECOND, SHARE_ONE, Budget, Cluster, Policy
from tenure.core.reasons import Because, Reason
from tenure.core.scheduler import Result
from tenure.engine import record
from tenure.engine.clock import Anchor
from tenure.store import AttemptRow, Store


def victim(attempt: str, why: Because = EVICTED) -> Evict:
    return Evict(attempt, why, 2, 0, 0, NOW + 5 * SECOND, NOW + 65 * SECOND, NOW + 95 * SECOND)


def test_the_life_of_a_job(log: Log) -> None:
    log.write(start(1, "1.1"))
    log.write(Claim(NOW, 2, "2.1", "main", (), 8000, (victim("1.1"),), FREE))
    log.write(AttemptEnded(NOW, "1.1", EVICTED), Requeued(NOW, 1, EVICTED))
    log.write(ClaimOpened(NOW, "2.1", FREE))
    log.write(start(1, "1.2"))
    log.write(AttemptEnded(NOW, "1.2", DONE), JobEnded(NOW, 1, "succeeded", DONE))
    assert log.told() == [
        ("started", "Job 1 (job1) has started on 8 GPUs of main"),
        ("will_be_preempted", "Job 1 (job1) will be preempted: it has until 2026-09-21 14:14:25 UTC"),
        ("preempted", "Job 1 (job1) was preempted and is queued again"),
        ("started", "Job 1 (job1) has started again on 8 GPUs of main"),
        ("ended", "Job 1 (job1) has succeeded"),
    ]
    assert log.told("bob") == []  # who has not asked
    warned = next(row for row in log.store.notice_log("ann") if row.kind == "will_be_preempted")
    assert json.loads(warned.data)["by"] == "2026-09-21T14:14:25Z"
    assert "Job 2 (job2) is of bob and charged to lab/vision." in warned.body


FAILED = Because(Reason.FAILED, {"exit_codes": (3,)})
CASES = [
    ([JobEnded(NOW, 1, "failed", FAILED)], "failed", "has failed"),
    ([Requeued(NOW, 1, FAILED, NOW + MINUTE)], "failed", "has failed and is tried again"),
    ([Requeued(NOW, 1, Because(Reason.START_TIMED_OUT, {}), 0)], "failed", "has failed and is tried again"),
    ([Requeued(NOW, 1, Because(Reason.HOST_FAILED, {"host": "n1"}))], "preempted", "was preempted and is queued again"),
    ([JobEnded(NOW, 1, "failed", Because(Reason.HOST_FAILED, {"host": "n1"}))], "failed", "has failed"),
    ([JobEnded(NOW, 1, "timed_out", Because(Reason.TIMED_OUT, {"timeout": HOUR}))], "failed", "reached its timeout"),
    ([JobEnded(NOW, 1, "cancelled", Because(Reason.CANCELLED, {"by": "bob"}))], "ended", "was cancelled by bob"),
    (
        [JobEnded(NOW, 1, "cancelled", Because(Reason.DEPENDENCY_FAILED, {"job": "9", "state": "failed"}))],
        "failed",
        "was cancelled, since a job that it waited for did not succeed",
    ),
    (
        [JobEnded(NOW, 1, "preempted", Because(Reason.PREEMPTED, {"evicted_by": "evicted_unallocated", "gainer": 2}))],
        "preempted",
        "was preempted and has ended",
    ),
]


@pytest.mark.parametrize(("decisions", "kind", "words"), CASES)
def test_how_attempts_and_jobs_end(log: Log, decisions: list[Decision], kind: str, words: str) -> None:
    log.write(AttemptEnded(NOW, "1.1", decisions[0].because), *decisions)  # type: ignore[union-attr]
    assert [(one, words in title) for one, title in log.told()] == [(kind, True)]


@pytest.mark.parametrize(
    "decisions",
    [
        [JobEnded(NOW, 1, "cancelled", Because(Reason.CANCELLED, {"by": "ann"}))],
        [AttemptEnded(NOW, "1.1", FAILED), Requeued(NOW, 1, Because(Reason.REQUEUED, {}))],
        [Stopping(NOW, victim("1.1", Because(Reason.TIMED_OUT, {"timeout": HOUR})))],
    ],
)
def test_what_is_their_own_doing_is_not_told(log: Log, decisions: list[Decision]) -> None:
    log.write(*decisions, events=[Held(NOW, 1, "ann")])
    assert log.told() == []


def test_a_drain_and_a_persons_action_are_warned_of(log: Log) -> None:
    log.write(Stop(NOW, victim("1.1", Because(Reason.EVICTED_DRAIN, {"host": "n1"}))))
    why = Because(Reason.EVICTED_BY_PERSON, {"by": "root", "why": "a\nb", "protected": 1})
    log.write(Stopping(NOW, victim("1.1", why)))
    assert [kind for kind, _ in log.told()] == ["will_be_preempted", "will_be_preempted"]
    assert log.last().body.startswith("Evicted by root: a b, although it was protected.\n")


def test_reading_again_tells_nothing_twice(log: Log) -> None:
    log.write(start(1, "1.1"))
    first = log.told()
    log.teller = log.another()
    assert log.told() == first and len(first) == 1
    # As if the position had been lost with what was written meanwhile kept, which no crash can do.
    log.store.tell(log.epoch, 0)
    log.teller = log.another()
    assert log.told() == first


def test_a_first_reader_does_not_tell_the_past(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path / 'tenure.db'}") as store:
        epoch = store.take_leadership()
        result = Result((), (start(1, "1.1"),))
        batch = record.batch_row(1, epoch, [], result, NOW, Anchor(0, "boot", 0))
        store.write(batch, jobs=[job_row(1, "ann")])
        late = Log(store, tmp_path)
        late.seq = 1
        late.person("ann")
        assert late.told() == []
        late.write(AttemptEnded(NOW, "1.1", DONE), JobEnded(NOW, 1, "succeeded", DONE))
        assert [kind for kind, _ in late.told()] == ["ended"]


def test_what_happened_before_they_asked_is_not_told(log: Log) -> None:
    log.person("bob", since=NOW + 1)
    log.write(start(2, "2.1"))
    log.clock.now += 1
    log.write(AttemptEnded(NOW + 1, "2.1", DONE), JobEnded(NOW + 1, 2, "succeeded", DONE))
    assert [kind for kind, _ in log.told("bob")] == ["ended"]


def test_it_waits_longer_than_told_only_when_it_does(log: Log) -> None:
    log.write(reserve(1, NOW + 2 * HOUR))
    assert log.told() == []
    log.clock.now += 2 * HOUR - 1
    assert log.told() == []
    log.clock.now += 1
    title = "Job 1 (job1) has not started by 2026-09-21 16:13:20 UTC, as it was told"
    assert log.told() == [("waits_longer", title)]
    log.clock.now += HOUR
    assert len(log.told()) == 1


@pytest.mark.parametrize(
    "meanwhile",
    [
        start(1, "1.1"),
        ClaimOpened(NOW, "1.1", FREE),
        JobEnded(NOW, 1, "cancelled", Because(Reason.CANCELLED, {"by": "ann"})),
        ReservationLost(NOW, 1, Because(Reason.HELD_BY_PERSON, {"by": "ann"})),
    ],
)
def test_a_promise_that_was_kept_or_is_void_is_not_told(log: Log, meanwhile: Decision) -> None:
    log.write(reserve(1, NOW + HOUR))
    log.told()
    log.write(meanwhile)
    log.clock.now += 2 * HOUR
    assert "waits_longer" not in [kind for kind, _ in log.told()]


def test_a_promise_made_and_kept_in_batches_that_are_read_late(log: Log) -> None:
    log.write(reserve(1, NOW + HOUR))
    log.clock.now += 2 * HOUR
    log.write(start(1, "1.1"))
    assert [kind for kind, _ in log.told()] == ["started"]


def test_a_reservation_that_goes_to_another_job_is_told_at_once(log: Log) -> None:
    log.write(reserve(1, NOW + HOUR))
    why = Because(Reason.RESERVATION_DISPLACED, {"by": 2, "budget": "lab/vision", "starts_by": NOW + HOUR})
    log.write(Unreserve(NOW, 1, why))
    log.clock.now += 2 * HOUR
    assert log.told() == [("waits_longer", "Job 1 (job1) waits longer than it was told")]
    assert "Job 2 (job2) is of bob" in log.last().body and "16:13" not in log.last().title


def test_a_reservation_made_anew_has_a_new_time(log: Log) -> None:
    log.write(reserve(1, NOW + HOUR))
    lost = ReservationLost(NOW, 1, Because(Reason.RESERVED_HOST_LOST, {"cluster": "main", "host": "n1"}))
    log.write(lost, reserve(1, NOW + 2 * HOUR))
    assert [kind for kind, _ in log.told()] == ["waits_longer"]
    log.clock.now += HOUR
    assert len(log.told()) == 1
    log.clock.now += HOUR
    assert len(log.told()) == 2


def running(attempt: str, until: int) -> AttemptRow:
    job = int(attempt.partition(".")[0])
    return AttemptRow(
        attempt, job, 1, "main", "lab/language", "ann", True, 8000, "[]", NOW, NOW, NOW, None, HOUR, until, "running",
        codec.dumps(codec.plain(FREE)), "[]",
    )  # fmt: skip


def test_an_end_of_protection_is_told_ten_minutes_before(log: Log) -> None:
    row = running("1.1", NOW + HOUR)
    log.write(events=[ReplicasUp(NOW, "1.1")], attempts=[row])
    log.clock.now += 50 * MINUTE - 1
    assert log.told() == []
    log.clock.now += 1
    title = "Job 1 (job1) is protected until 2026-09-21 15:13:20 UTC, and may be preempted after that"
    assert log.told() == [("exposed", title)]


def test_one_that_ends_before_is_not_told_of_it(log: Log) -> None:
    log.write(events=[ReplicasUp(NOW, "1.1")], attempts=[running("1.1", NOW + HOUR)])
    log.told()
    log.write(AttemptEnded(NOW, "1.1", DONE), JobEnded(NOW, 1, "succeeded", DONE))
    log.clock.now += 2 * HOUR
    assert [kind for kind, _ in log.told()] == ["ended"]


def test_a_timer_that_comes_true_at_night_waits_for_the_morning(log: Log) -> None:
    log.person("ann", quiet="14:00-18:00")
    log.write(reserve(1, NOW + HOUR))  # at 15:13 UTC
    log.told()
    log.clock.now += HOUR
    log.told()
    row = log.last()
    assert (row.kind, row.state) == ("waits_longer", "waiting")
    assert row.due_at == NOW + 3 * HOUR + 46 * MINUTE + 40 * SECOND


def config(*, language: int, vision: int) -> ConfigApplied:
    budgets = (Budget("lab", SHARE_ONE), Budget("lab/language", language), Budget("lab/vision", vision))
    return ConfigApplied(NOW, (Cluster("main", ()),), Policy(), budgets, (), "root")


def test_a_share_that_becomes_0_is_told_to_those_who_wait(log: Log) -> None:
    log.person("bob")
    log.write(events=[config(language=500_000, vision=0)])
    log.write(events=[config(language=0, vision=0)])
    assert log.told() == [("held", "Job 1 (job1) is held: its budget has no share any more")]
    assert [kind for kind, _ in log.told("bob")] == ["held"]  # the first configuration: it had none from the start
    log.write(events=[config(language=0, vision=0)])
    assert len(log.told()) == 1
    log.write(events=[config(language=100_000, vision=0)])
    log.write(events=[config(language=0, vision=0)])
    assert len(log.told()) == 2


def test_each_way_to_reach_somebody_is_told_once(log: Log) -> None:
    log.person("ann", email="ann@lab.example")
    log.write(start(1, "1.1"))
    log.told()
    assert sorted(row.channel for row in log.store.notice_log("ann")) == ["email", "webhook"]
    assert log.pokes == 1


def test_a_scheduler_whose_time_is_ahead_does_not_keep_it_to_itself(log: Log) -> None:
    """After a reboot with a wrong clock its time is the last one recorded, which the wall clock has yet to reach."""
    log.clock.now -= 24 * HOUR
    log.ahead = 24 * HOUR
    log.write(reserve(1, NOW - HOUR))
    assert [kind for kind, _ in log.told()] == ["waits_longer"]
    assert log.last().due_at == log.clock.now


def test_very_many_are_written_in_pieces_and_once(log: Log) -> None:
    jobs = [job_row(number, "ann") for number in range(1000, 2203)]
    log.write(*(start(job.id, f"{job.id}.1") for job in jobs), jobs=jobs)
    log.teller.turn()
    assert log.store.notices_waiting() == 1203 and log.store.notice_position() == log.seq
    # Killed after the first piece: the position is the old one, and all is read again.
    log.store.tell(log.epoch, log.seq - 1)
    log.teller = log.another()
    log.teller.turn()
    assert log.store.notices_waiting() == 1203 and log.store.notice_position() == log.seq


def test_a_job_of_an_array_is_called_by_its_index(log: Log) -> None:
    made = job_row(7, "ann", array_id=5, array_index=2, name="a\x1b[31m\nb")
    log.write(start(7, "7.1"), jobs=[made])
    assert log.told() == [("started", "Job 5_2 (a [31m b) has started on 8 GPUs of main")]


def test_what_concerns_nobody_costs_no_write(log: Log) -> None:
    for number in range(20):
        log.write(start(2, f"2.{number + 1}"), AttemptEnded(NOW, "2.1", DONE))
    before = log.store.notice_position()
    assert log.told("bob") == [] and log.store.notice_position() == before
    log.write(start(1, "1.1"))
    assert len(log.told()) == 1 and log.store.notice_position() == log.seq
