"""Looking ahead: the state of now, and what was submitted lately, again."""

from __future__ import annotations

import time

import pytest
from whatif_kit import crowd, going, rerun, setup_of, sound

from support.lived import site
from tenure.core.events import Submitted
from tenure.core.model import DAY, HOUR
from tenure.store import Store
from tenure.whatif.ahead import MOST_TIMES, ahead
from tenure.whatif.change import Variant
from tenure.whatif.course import ESTIMATED, KNOWN, Course, NothingKept
from tenure.whatif.runs import AS_IT_IS


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A server that began two days ago, and still is full."""
    start = int(time.time()) * 1000 - 2 * DAY
    directory = tmp_path_factory.mktemp("ahead")
    site(directory, setup_of(crowd(4, 110, 47), duration=2 * DAY, start=start))
    return f"sqlite:///{directory / '.tenure' / 'tenure.db'}"


def looked(url: str, length: int) -> Course:
    with Store.open_to_read(url) as store:
        return ahead(store, length, 0, going)


def submitted(course: Course) -> list[Submitted]:
    return [event for event in course.events if isinstance(event, Submitted)]


def test_what_was_submitted_comes_again_a_day_later(lived: str) -> None:
    course = looked(lived, DAY)
    assert course.until - course.since == DAY and course.real is None
    with Store.open_to_read(lived) as store:
        lately = {row.id: row for row in store.list_jobs(since=course.since - DAY, limit=None)}
    again = submitted(course)
    assert len(again) == len(lately) > 30
    offset = again[0].job_id - min(lately)
    assert offset > max(lately)
    for event in again:
        row = lately[event.job_id - offset]
        assert event.at == row.submitted_at + DAY and event.spec.budget == row.budget
        assert course.works[event.job_id].kind in (KNOWN, ESTIMATED)
    assert {work.kind for work in course.works.values()} == {KNOWN, ESTIMATED}


def test_a_short_history_comes_again_and_again(lived: str) -> None:
    course = looked(lived, 5 * DAY)
    ids = [event.job_id for event in submitted(course)]
    assert len(ids) == len(set(ids)) and not set(ids) & course.fresh().jobs.keys()
    assert max(event.at for event in course.events) > course.since + 4 * DAY
    assert "comes again, as often as it takes for 5.0 d" in course.notes[0]
    with pytest.raises(NothingKept, match=f"comes again at most {MOST_TIMES} times"):
        looked(lived, 200 * DAY)


def test_it_runs_on_from_now_and_a_change_refuses_what_it_would(lived: str) -> None:
    course = looked(lived, 12 * HOUR)
    state = course.fresh()
    before = set(state.attempts)
    assert before and state.now == course.since
    run = rerun(course, AS_IT_IS, observe=sound).finish()
    assert {row.id for row in run.attempts} > before and run.complete
    assert sum(row.ended is not None for row in run.jobs) > 10
    made = rerun(course, Variant("changed", settings=(("max_min_runtime", "30m"),)), observe=sound)
    assert any("cut" in line for line in made.told.lines())
