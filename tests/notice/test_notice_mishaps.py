"""What cannot be told, or when the wall clock is not the engine's: everybody else is told all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from notice_kit import NOW
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError
from teller_kit import DONE, Log, job_row, reserve, start

from tenure.core.decisions import AttemptEnded
from tenure.core.events import ConfigApplied, ReplicasUp
from tenure.core.model import DAY, HOUR, MINUTE, SHARE_ONE, Budget, Cluster, Policy
from tenure.core.scheduler import Result
from tenure.engine import record
from tenure.engine.clock import Anchor
from tenure.store import EstimateRow, StaleLeader

NO_DATE = 10**18
"""ms that no calendar has a day for."""


def kinds(log: Log) -> list[str]:
    return [kind for kind, _ in log.told()]


def write_unreadable(log: Log) -> None:
    """A batch that this version cannot decode."""
    log.seq += 1
    batch = record.batch_row(log.seq, log.epoch, [], Result((), ()), log.now(), Anchor(0, "boot", 0))
    log.store.write(replace(batch, plans='[{"type": "Start"}]'))


def test_a_batch_that_cannot_be_read_silences_no_other(log: Log) -> None:
    log.write(reserve(1, NOW + HOUR))
    log.told()
    write_unreadable(log)
    log.write(start(1, "1.1"))
    write_unreadable(log)
    assert kinds(log) == ["started"]
    log.write(AttemptEnded(NOW, "no attempt", DONE))  # read, but nothing follows from it
    log.write(start(1, "1.2"))
    assert kinds(log) == ["started", "started"]


def test_timers_come_true_after_a_batch_that_cannot_be_read(log: Log) -> None:
    log.write(reserve(1, NOW + HOUR))
    log.told()
    write_unreadable(log)
    log.clock.now += HOUR
    assert kinds(log) == ["waits_longer"]


def test_timers_come_true_when_nothing_can_be_read(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write(reserve(1, NOW + HOUR))
    log.told()

    def broken(after: int) -> object:
        raise RuntimeError(f"nothing after {after}")

    monkeypatch.setattr(log.store, "batches", broken)
    log.clock.now += HOUR
    with pytest.raises(RuntimeError):
        log.teller.turn()
    assert log.last().kind == "waits_longer"


def test_a_job_that_cannot_be_worded_drops_no_other_of_its_batch(log: Log) -> None:
    log.write(reserve(1, NO_DATE), start(3, "3.1"), jobs=[job_row(3, "ann")])
    assert log.told() == [("started", "Job 3 (job3) has started on 8 GPUs of main")]
    assert log.store.notice_position() == log.seq


def test_shares_that_cannot_be_compared_drop_nothing_else(log: Log) -> None:
    def config(share: int) -> ConfigApplied:
        budgets = (Budget("lab", SHARE_ONE), Budget("lab/language", share))
        return ConfigApplied(NOW, (Cluster("main", ()),), Policy(), budgets, (), "root")

    log.write(events=[config(100_000)], jobs=[job_row(3, "ann", spec="{}"), job_row(4, "ann")])
    log.write(start(1, "1.1"), events=[config(0)])
    assert sorted(kinds(log)) == ["held", "held", "started"]  # jobs 1 and 4; what job 3 wants cannot be read
    log.store.tell(log.epoch, log.seq, facts={"notice_unfunded": "no list"})
    log.write(start(1, "1.2"), events=[config(100_000)])
    assert sorted(kinds(log)) == ["held", "held", "started", "started"]


def test_a_database_that_fails_is_asked_again(log: Log) -> None:
    log.write(reserve(1, NOW + HOUR))
    log.told()
    log.write(start(1, "1.1"), events=[ReplicasUp(NOW, "1.1")])
    before, log.clock.now = log.store.notice_position(), NOW + HOUR
    other = create_engine(log.store.url)
    with other.begin() as connection:
        connection.execute(text("ALTER TABLE attempts RENAME TO elsewhere"))
    with pytest.raises(SQLAlchemyError):
        log.teller.turn()
    assert log.store.notice_position() == before and not log.store.notice_log("ann")
    with other.begin() as connection:
        connection.execute(text("ALTER TABLE elsewhere RENAME TO attempts"))
    other.dispose()
    assert kinds(log) == ["started"]  # and not that it waits longer, which is not true


def test_one_who_was_replaced_stops(log: Log) -> None:
    log.write(start(1, "1.1"))
    log.store.take_leadership()
    with pytest.raises(StaleLeader):
        log.teller.turn()


# ---- engine time against the wall clock


def estimate(job: int, high: int) -> tuple[EstimateRow, None]:
    return EstimateRow(job, NOW - DAY, 1, "small", NOW - DAY, NOW - DAY, high, high + DAY, NOW - DAY, high, 85), None


def test_what_has_not_come_by_engine_time_is_not_true_whatever_the_wall_says(log: Log) -> None:
    """The wall clock was put forward by a day; the engine slews, and is a day behind it for years."""
    log.clock.now, log.ahead = NOW + DAY, -DAY
    log.store.write_estimates([estimate(2, NOW + HOUR)])
    log.person("bob")
    log.write(reserve(1, NOW + HOUR))
    log.clock.now += HOUR - MINUTE
    assert log.told() == log.told("bob") == []
    log.clock.now += MINUTE + 1
    assert kinds(log) == [kind for kind, _ in log.told("bob")] == ["waits_longer"]
    assert log.last().at <= NOW + HOUR + 1 and log.last().due_at <= log.clock.now
    assert log.store.receivers_due(log.clock.now) == [("ann", "webhook"), ("bob", "webhook")]


def test_what_has_come_by_engine_time_is_delivered_though_the_wall_is_behind(log: Log) -> None:
    log.clock.now, log.ahead = NOW - DAY, DAY
    log.store.write_estimates([estimate(1, NOW + HOUR)])
    assert log.told() == []
    log.clock.now += HOUR + 1
    assert kinds(log) == ["waits_longer"]
    assert log.last().due_at == log.clock.now
