"""A past state goes on again: as it is it does what really happened; changed, it says what would have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from whatif_kit import (
    CANCELS,
    HALVES,
    HOSTS,
    START,
    THREE_QUARTERS,
    course_of,
    crowd,
    other,
    rerun,
    rows,
    setup_of,
    sound,
    work,
)

from tenure.core.model import DAY, GPU, HOUR, MINUTE, SECOND, Budget
from tenure.policies import NAMES
from tenure.reports.records import BudgetHourRow, JobRow, Run
from tenure.sim.setup import make_cluster
from tenure.whatif.change import Variant
from tenure.whatif.course import KNOWN, Course
from tenure.whatif.honesty import honesty
from tenure.whatif.rerun import Rerun
from tenure.whatif.runs import AS_IT_IS


def delivered(run: Run) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in run.budget_hours:
        found[row.budget] = found.get(row.budget, 0) + row.delivered + row.free
    return found


@pytest.mark.parametrize("seed", range(2))
def test_as_it_is_it_does_to_the_millisecond_what_happened(tmp_path: Path, seed: int) -> None:
    """Where nobody is evicted because standings drift, which happens at the next pass, whenever that is."""
    setup = setup_of(crowd(seed, 130, protected=True), cancels=CANCELS, hosts=HOSTS)
    course, lived = course_of(tmp_path, setup, 14 * HOUR)
    state = course.fresh()
    assert sum(job.attempt is None for job in state.jobs.values()) > 3 and state.attempts, "nothing is under way"
    again = rerun(course, AS_IT_IS, observe=sound).finish()
    really = rows(lived)
    assert again.jobs
    for row in again.jobs:
        known = really[row.id]
        assert _life(row) == _life(known)
    since = [row for row in lived.attempts if row.ended is None or row.ended >= course.since]
    assert {row.id: (row.started, row.ended, row.slots) for row in again.attempts} == {
        row.id: (row.started, row.ended, row.slots) for row in since
    }
    evicted = [(row.at, row.attempt_id, row.gainer) for row in lived.evictions if row.at >= course.since]
    assert [(row.at, row.attempt_id, row.gainer) for row in again.evictions] == evicted and evicted
    assert course.real is not None
    assert delivered(again) == delivered(course.real)
    found = honesty(course.real, again)
    assert found.close and found.off == 0 and found.within[0] == found.jobs > 20


def _life(row: JobRow) -> tuple[object, ...]:
    return row.submitted, row.started, row.ended, row.state, row.attempts, row.user, row.budget


@pytest.mark.parametrize("seed", range(3))
def test_where_standings_drift_budgets_get_what_they_really_got(tmp_path: Path, seed: int) -> None:
    course, _ = course_of(tmp_path, setup_of(crowd(seed), cancels=CANCELS, hosts=HOSTS), 14 * HOUR)
    again = rerun(course, AS_IT_IS, observe=sound).finish()
    assert course.real is not None
    found = honesty(course.real, again)
    assert found.off <= 0.03 * sum(found.real.values())
    assert found.jobs > 20 and found.starts >= 0.5
    assert abs(found.evictions[0] - found.evictions[1]) <= 2


def test_what_was_read_of_what_happened_is_what_the_simulation_wrote_down(tmp_path: Path) -> None:
    """The tables of the log from the middle on, beside those of the whole."""
    course, lived = course_of(tmp_path, setup_of(crowd(1)), 14 * HOUR)
    assert course.real is not None
    assert [row for row in course.real.hours if row.length == HOUR] == [
        replace(row, withheld=0) for row in lived.hours if row.start >= course.since
    ]
    wanted = [row for row in lived.budget_hours if row.start >= course.since]
    assert list(map(_certain, course.real.budget_hours)) == list(map(_certain, wanted))


def _certain(row: BudgetHourRow) -> BudgetHourRow:
    """Without what is lost, and without ratios: the log has no step where a protection ends and nothing follows."""
    return replace(row, lost=0, ratio_ppm=0, recent_ppm=0)


def test_works_are_what_the_jobs_really_had_to_do(tmp_path: Path) -> None:
    """Over all their attempts, evictions in between: what the simulated people knew from the start."""
    jobs = crowd(2)
    course, lived = course_of(tmp_path, setup_of(jobs), 14 * HOUR)
    interrupted = 0
    for row in lived.jobs:
        if row.id in course.works and row.state in ("succeeded", "failed"):
            true = jobs[row.id - 1][1]
            made = course.works[row.id]
            before = course.done.get(row.id, 0)
            interrupted += row.attempts > 1
            assert made.kind == KNOWN and made.exit_code == true.exit_code
            if not before:  # what was lost before the beginning is not looked for
                assert made.runtime == true.runtime, row
    assert interrupted > 3


def test_a_larger_share_gains_its_budget(busy: Course) -> None:
    before = rerun(busy, AS_IT_IS).finish()
    after = rerun(busy, Variant("changed", wanted=other(busy, budgets=THREE_QUARTERS)), observe=sound).finish()
    more, less = (delivered(after)[name] - delivered(before)[name] for name in ("lab/a", "lab/b"))
    assert more > 20 * GPU * HOUR and less < 0


@pytest.mark.parametrize("policy", NAMES)
def test_any_policy_goes_on_from_the_middle(busy: Course, policy: str) -> None:
    made = rerun(busy, Variant(policy, policy), observe=sound)
    run = made.finish()
    assert len(run.jobs) == len(busy.works) and run.complete
    assert sum(row.ended is not None for row in run.jobs) > 30
    assert (policy == "budgets") == (not made.told.lines() and rows(run) == rows(rerun(busy, AS_IT_IS).finish()))


def test_settings_hold_from_the_beginning_on(busy: Course) -> None:
    made = rerun(busy, Variant("changed", settings=(("max_min_runtime", "30m"),)), observe=sound)
    waiting = {job.id for job in busy.fresh().jobs.values() if job.attempt is None}
    run = made.finish()
    later = [row for row in run.jobs if row.submitted >= busy.since or row.id in waiting]
    assert max(row.min_runtime for row in later) == 30 * MINUTE
    assert max(row.min_runtime for row in run.jobs) == 2 * HOUR, "what runs keeps what it was promised"
    (told,) = made.told.jobs
    long = {
        row.id for row in (busy.real or run).jobs if row.min_runtime > 30 * MINUTE and row.id in {j.id for j in later}
    }
    assert "cut" in told and {int(name) for name in made.told.jobs[told]} == long


def test_jobs_of_a_budget_that_is_gone_are_refused_by_name_or_moved(busy: Course) -> None:
    alone = (HALVES[0], Budget("lab/b", 1_000_000))
    made = rerun(busy, Variant("changed", wanted=other(busy, budgets=alone)), observe=sound)
    run = made.finish()
    assert busy.real is not None
    of_a = {row.id for row in busy.real.jobs if row.budget == "lab/a"}
    assert {int(name) for jobs in made.told.jobs.values() for name in jobs} == of_a
    assert all("lab/a" in what and "--move lab/a=NEW" in what for what in made.told.jobs)
    assert not [row for row in run.jobs if row.budget == "lab/a" and row.ended != busy.since]
    moved = rerun(busy, Variant("changed", wanted=other(busy, budgets=alone), moves={"lab/a": "lab/b"}), observe=sound)
    run = moved.finish()
    assert not moved.told.jobs and len(run.jobs) == len(busy.works)
    assert {row.budget for row in run.jobs} == {"lab/b"}
    assert delivered(run).keys() == {"lab/b"}


def test_a_budget_that_says_where_it_was_takes_its_jobs_along(busy: Course) -> None:
    renamed = (HALVES[0], HALVES[2], Budget("lab/new", 500_000, moved_from="lab/a"))
    made = rerun(busy, Variant("changed", wanted=other(busy, budgets=renamed)), observe=sound)
    run = made.finish()
    assert not made.told.jobs and len(run.jobs) == len(busy.works)
    assert delivered(run).keys() == {"lab/b", "lab/new"}


def test_hosts_that_are_gone_drain_and_new_ones_are_there(busy: Course) -> None:
    fewer = make_cluster(16)
    more = make_cluster(40)
    small = rerun(busy, Variant("changed", wanted=other(busy, clusters=(fewer,))), observe=sound)
    large = rerun(busy, Variant("changed", wanted=other(busy, clusters=(more,))), observe=sound)
    healthy = [[row.healthy // (GPU * HOUR) for row in one.finish().hours] for one in (small, large)]
    # A host that is gone counts until what ran there was exposed or over; of the others one fails for four hours.
    assert 16 < healthy[0][0] < 24 and healthy[0][-1] == 16 and min(healthy[0]) == 8
    assert healthy[1][0] == healthy[1][-1] == 40 and min(healthy[1]) == 32
    assert "in use when the run began" in small.told.lines()[0] and not large.told.lines()


def test_a_used_host_cannot_become_another_one(busy: Course) -> None:
    halved = make_cluster(24)
    halved = replace(halved, hosts=tuple(replace(host, gpus=4) for host in halved.hosts))
    with pytest.raises(ValueError, match=r"hosts\.main-0 = 4 GPUs: something runs there"):
        rerun(busy, Variant("changed", wanted=other(busy, clusters=(halved,))))


def test_jobs_for_a_cluster_that_is_gone_are_told(busy: Course) -> None:
    elsewhere = make_cluster(24, "other")
    made = rerun(busy, Variant("changed", wanted=other(busy, clusters=(elsewhere,))), observe=sound)
    run = made.finish()
    running = {job.id for job in busy.fresh().jobs.values() if job.attempt is not None}
    told = {int(name) for jobs in made.told.jobs.values() for name in jobs}
    assert told == busy.works.keys() - running
    assert all("main" in what for what in made.told.jobs)
    assert {row.job_id for row in run.attempts} == running


def test_contracts_below_a_raised_floor_are_raised(busy: Course) -> None:
    made = rerun(busy, Variant("changed", settings=(("min_runtime_floor", "30m"),)), observe=sound)
    (told,) = made.told.jobs
    assert "raised" in told and all(row.min_runtime != 5 * MINUTE for row in made.finish().jobs if row.attempts == 0)


def test_who_cancels_does_so_when_they_did(tmp_path: Path) -> None:
    """One that waits is cancelled at 3 h; with room for it, it runs, and is stopped at that time."""
    jobs = [
        (0, work(runtime=10 * HOUR, min_runtime=HOUR)),
        (HOUR + SECOND, work(runtime=5 * HOUR, user="bob", min_runtime=6 * HOUR)),
    ]
    setup = setup_of(jobs, gpus=8, cancels=[(3 * HOUR, 1)], duration=8 * HOUR)
    course, lived = course_of(tmp_path, setup, HOUR)
    assert rows(lived)[2].started is None and rows(lived)[2].ended == START + 3 * HOUR
    run = rerun(course, Variant("changed", wanted=other(course, clusters=(make_cluster(16),)))).finish()
    row = rows(run)[2]
    assert row.started == START + HOUR + SECOND and row.state == "cancelled"
    assert row.ended is not None and START + 3 * HOUR <= row.ended <= START + 3 * HOUR + MINUTE


def test_it_ends_where_it_is_told_to(busy: Course) -> None:
    half = busy.since + DAY // 2
    part = Rerun(busy, AS_IT_IS)
    part.advance(half)
    run = part.finish()
    assert run.until == half and not run.complete
    whole = rerun(busy, AS_IT_IS).finish()
    over = [row for row in whole.attempts if row.ended is not None and row.ended <= half]
    assert over and [row for row in run.attempts if row.ended is not None] == over
    assert busy.real is not None
    # What comes after its end does not count.
    assert honesty(busy.real, run).jobs < honesty(busy.real, whole).jobs
    assert honesty(whole, run).off == 0
