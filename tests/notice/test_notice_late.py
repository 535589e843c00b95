"""Who waits longer than was told first: looked for every few seconds, told once, through kills and failures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from notice_kit import NOW
from sqlalchemy.exc import OperationalError
from teller_kit import Log, job_row, reserve, start

from tenure import words
from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.notice.teller import LOOK_WITHIN_S
from tenure.store import EstimateRow, Store

LOOK = round(LOOK_WITHIN_S * SECOND)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Store.open(f"sqlite:///{tmp_path / 'tenure.db'}") as store:
        made = Log(store, tmp_path)
        made.person("ann")
        made.write(jobs=[job_row(1, "ann")])
        yield made


def estimate(job: int, made_at: int, high: int | None) -> tuple[EstimateRow, None]:
    """Of the outbox only the end of the range matters."""
    return EstimateRow(job, made_at, 1, "small", made_at, made_at, high, made_at + 2 * DAY, made_at, high, 85), None


def test_who_waits_longer_than_was_estimated_first_is_told_once(log: Log) -> None:
    log.store.write_estimates([estimate(1, NOW, NOW + HOUR), estimate(1, NOW + MINUTE, NOW + 2 * HOUR)])
    log.store.write_estimates([estimate(3, NOW, NOW + HOUR)])  # of a job that is not there any more
    log.clock.now = NOW + HOUR
    assert log.told() == []
    log.clock.now += LOOK
    by = words.moment(NOW + HOUR)
    assert log.told() == [("waits_longer", f"Job 1 (job1) has not started by {by}, as it was told")]
    log.teller = log.another()  # and not again after a restart
    log.clock.now = NOW + 3 * HOUR
    assert len(log.told()) == 1


def test_it_looks_for_what_is_late_every_few_seconds_and_only_for_what_is_so_since(log: Log) -> None:
    asked: list[tuple[int, int | None]] = []
    find = log.store.overdue_estimates

    def asks(now: int, since: int | None) -> list[tuple[int, int]]:
        asked.append((now, since))
        return find(now, since)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log.store, "overdue_estimates", asks)
        log.store.write_estimates([estimate(1, NOW, NOW + 10)])
        for now in (NOW, NOW + LOOK - 1, NOW + LOOK, NOW + LOOK + 100, NOW + 2 * LOOK):
            log.clock.now = now
            log.teller.turn()
        assert asked == [(NOW, None), (NOW + LOOK, NOW), (NOW + 2 * LOOK, NOW + LOOK)]
        assert [kind for kind, _ in log.told()] == ["waits_longer"]
        log.clock.now = NOW - HOUR  # somebody set the clock back
        log.teller.turn()
        log.clock.now += LOOK
        log.teller.turn()
        assert asked[3:] == [(NOW - HOUR, NOW + 2 * LOOK), (NOW - HOUR + LOOK, NOW - HOUR)]


def test_who_is_late_when_the_database_fails_is_told_later(log: Log) -> None:
    log.told()
    log.store.write_estimates([estimate(1, NOW, NOW + 10)])
    log.clock.now += LOOK

    def fails(*_args: object) -> None:
        raise OperationalError("", {}, Exception("disk full"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log.store, "tell", fails)
        with pytest.raises(OperationalError):
            log.teller.turn()
    assert [kind for kind, _ in log.told()] == ["waits_longer"]


def test_timers_that_come_true_in_pieces_are_each_told_once_through_a_kill(log: Log) -> None:
    jobs = [job_row(number, "ann") for number in range(1000, 1700)]
    log.write(*(reserve(job.id, NOW + HOUR) for job in jobs), jobs=jobs)
    log.told()
    log.clock.now += HOUR

    class Killed(BaseException):
        pass

    def killed(_seconds: float) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tenure.store.database.time.sleep", killed)
        with pytest.raises(Killed):
            log.teller.turn()
    assert 0 < log.store.notices_waiting() < 700
    log.teller = log.another()
    log.teller.turn()
    told = [row.job_id for row in log.store.notice_log("ann", 2000)]
    assert sorted(told) == [job.id for job in jobs]


def test_a_timer_that_is_left_when_another_of_its_job_came_true_is_still_taken_back(log: Log) -> None:
    log.store.write_estimates([estimate(1, NOW, NOW + MINUTE)])
    log.write(reserve(1, NOW + HOUR))
    log.told()
    log.clock.now += 2 * MINUTE
    assert [kind for kind, _ in log.told()] == ["waits_longer"]
    log.write(start(1, "1.1"))
    log.clock.now += 2 * HOUR
    assert [kind for kind, _ in log.told()] == ["waits_longer", "started"]


def test_what_is_estimated_to_start_some_day_is_never_late(log: Log) -> None:
    log.store.write_estimates([estimate(1, NOW, None)])
    log.clock.now = NOW + 10 * DAY
    assert log.told() == []
    log.write(jobs=[job_row(1, "ann", state="running")])
    log.store.write_estimates([estimate(1, NOW - 1, log.clock.now)])
    log.clock.now += LOOK
    assert log.told() == []  # it has started


def test_of_an_array_that_is_late_one_message_is_sent(log: Log) -> None:
    """Its first job; not the others of it later, nor after a restart, and none that is held."""
    jobs = [job_row(number, "ann", array_id=5, array_index=number - 5) for number in range(5, 10)]
    alone, held = job_row(20, "ann", array_id=20, array_index=0, held=True), job_row(21, "ann", held=True)
    log.write(jobs=[*jobs, alone, held])
    ends = {5: 2 * HOUR, 6: HOUR, 7: HOUR, 8: 3 * HOUR, 9: HOUR, 20: HOUR, 21: HOUR, 1: HOUR}
    log.store.write_estimates([estimate(job, NOW, NOW + end) for job, end in ends.items()])
    for hour in (1, 2, 3, 4):
        log.clock.now = NOW + hour * HOUR + 1
        told = [title.partition(" has")[0] for _, title in log.told()]
        assert told == ["Job 1 (job1)", "Job 5_1 (job6)"]
        log.teller = log.another()
