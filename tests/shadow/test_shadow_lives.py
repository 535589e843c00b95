"""From looks to lives: starts, ends, requeues, ids that are given again, and the file that all of it is kept in."""

from __future__ import annotations

from pathlib import Path

import pytest
from shadow_kit import BEGIN, SITE, ended, runs, waits

from tenure.executors import procs
from tenure.shadow.journal import FILE, Journal, RecordError, jobs_line, read_record
from tenure.shadow.lives import Life, Lives
from tenure.shadow.seen import Seen


def lives(*looks: tuple[int, Seen]) -> list[Life]:
    found = Lives()
    for at, seen in looks:
        found.see(BEGIN + at, seen)
    return found.all


def spans(life: Life) -> list[tuple[int, int]]:
    return [(run.started - BEGIN, run.ended - BEGIN if run.ended else 0) for run in life.runs]


def test_waits_runs_and_ends() -> None:
    (life,) = lives((1, waits("1", 0)), (12, runs("1", 0, 10, "n1")), (35, ended("1", 0, 10, 30, "n1")))
    assert spans(life) == [(10, 30)]
    assert life.over


def test_eligible_is_when_nothing_else_kept_it() -> None:
    (life,) = lives((1, waits("1", 0, eligible=0)), (50, waits("1", 0, eligible=BEGIN + 40)))
    assert (life.submitted, life.eligible) == (BEGIN, BEGIN + 40)


def test_a_requeue_ends_the_run_and_keeps_the_first_submission() -> None:
    (life,) = lives(
        (12, runs("1", 0, 10, "n1")),
        (35, waits("1", 30, restarts=1)),
        (60, runs("1", 30, 50, "n2", restarts=1)),
        (95, ended("1", 30, 50, 90, "n2", restarts=1)),
    )
    assert spans(life) == [(10, 30), (50, 90)]
    assert life.submitted == BEGIN


def test_a_requeue_between_two_looks() -> None:
    (life,) = lives((12, runs("1", 0, 10, "n1")), (60, runs("1", 30, 50, "n2", restarts=1)))
    assert spans(life) == [(10, 50), (50, 0)]  # the end of the first nobody saw


def test_accounting_tells_of_all_runs() -> None:
    first = ended("1", 0, 10, 30, "n1", state="REQUEUED")
    (life,) = lives((99, first), (99, ended("1", 30, 50, 90, "n2")))
    assert spans(life) == [(10, 30), (50, 90)]
    assert life.over


def test_cancelled_while_it_waited() -> None:
    gone = waits("1", 0, state="CANCELLED", started=BEGIN + 20, ended=BEGIN + 20)
    (life,) = lives((1, waits("1", 0)), (22, gone))
    assert life.runs == []
    assert life.gave_up == BEGIN + 20


def test_an_id_that_is_given_again_is_another_job() -> None:
    first, second = lives((35, ended("1", 0, 10, 30, "n1")), (60, waits("1", 55)))
    assert (first.key, second.key) == ("1", "1#2")
    first, second = lives((35, waits("1", 0)), (60, waits("1", 55, user="alan")))
    assert (first.key, second.key) == ("1", "1#2")


def test_what_is_gone_has_ended_when_it_was_missed() -> None:
    found = Lives()
    found.see(BEGIN + 12, runs("1", 0, 10, "n1"))
    found.see(BEGIN + 12, waits("2", 0))
    assert found.live().keys() == {"1", "2"}
    ran, waited = found.gone(BEGIN + 40, "1"), found.gone(BEGIN + 40, "2")
    assert ran is not None
    assert waited is not None
    assert spans(ran) == [(10, 40)]
    assert ran.runs[0].guessed
    assert waited.gave_up == BEGIN + 40
    assert found.live() == {}


def test_the_file_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write({"at": BEGIN, "site": SITE})
    journal.write(jobs_line(BEGIN + 12, [runs("1", 0, 10, "n1")], look=True))
    journal.close()
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"at":1780272020,"jobs":[{"id":"2","us')
    assert [life.key for life in read_record(tmp_path).lives.all] == ["1"]
    journal = Journal(tmp_path)
    journal.write(jobs_line(BEGIN + 35, [ended("1", 0, 10, 30, "n1")], look=True))
    journal.close()
    record = read_record(tmp_path)
    assert [spans(life) for life in record.lives.all] == [[(10, 30)]]
    assert (record.since, record.until, record.gaps) == (BEGIN + 12, BEGIN + 35, [])


def test_a_time_without_looks_is_a_gap_unless_accounting_fills_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write({"at": BEGIN, "site": SITE})
    journal.write(jobs_line(BEGIN, [], look=True))
    journal.write(jobs_line(BEGIN + 3600, [], look=True))
    assert journal.record.gaps == [(BEGIN, BEGIN + 3600)]
    journal.write({"at": BEGIN + 7200, "history": BEGIN + 3600})
    journal.write(jobs_line(BEGIN + 7201, [], look=True))
    journal.close()
    assert read_record(tmp_path).gaps == [(BEGIN, BEGIN + 3600)]


def test_one_watch_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procs, "LOCK_WITHIN_S", 0)
    journal = Journal(tmp_path)
    with pytest.raises(RecordError, match="another watch"):
        Journal(tmp_path)
    journal.close()
    Journal(tmp_path).close()


def test_a_lock_that_a_killed_watch_left_for_a_moment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, tried = Journal(tmp_path), []

    def lets_go(seconds: float) -> None:
        tried.append(seconds)
        first.close()

    monkeypatch.setattr(procs.time, "sleep", lets_go)
    Journal(tmp_path).close()
    assert len(tried) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "nothing was recorded there"),
        ("", "is empty"),
        ('{"tenure_shadow":9,"at":1}\n', "format 9|not a record"),
        ("what is this\n", "line 1: cannot be read"),
        ('{"tenure_shadow":1,"at":1}\n{"at":2,"jobs":[{"id":"1","gpus":"x"}]}\n', "line 2: cannot be read"),
    ],
)
def test_a_file_that_is_no_record(tmp_path: Path, text: str | None, says: str) -> None:
    if text is not None:
        (tmp_path / FILE).write_text(text)
    with pytest.raises(RecordError, match=says):
        read_record(tmp_path)
