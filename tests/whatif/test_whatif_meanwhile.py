"""What operators did meanwhile: hosts that were drained and repaired, configurations that were applied."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from whatif_kit import HALVES, START, course_of, going, other, rerun, rows, setup_of, sound, work

from support.lived import site
from tenure.core.events import ConfigApplied, Submitted
from tenure.core.model import GPU, HOUR, MINUTE, SECOND, Broken, Budget, Cluster, HostState, Policy
from tenure.sim.setup import make_cluster
from tenure.store import Store
from tenure.whatif import runs
from tenure.whatif.change import Variant
from tenure.whatif.course import Course, NothingKept, then
from tenure.whatif.runs import AS_IT_IS, LATER

STARTUP = 20 * SECOND
LATE = LATER.later + SECOND


def applied(after: int, *clusters: Cluster, budgets: tuple[Budget, ...] = HALVES) -> ConfigApplied:
    return ConfigApplied(START + after, clusters, Policy(), budgets, (), "ada")


def test_nobody_repairs_a_drained_host_before_it_is_empty(tmp_path: Path) -> None:
    """Its job ends a moment later here than it did, and is not killed for a repair that began at its end."""
    over = HOUR + STARTUP + 2 * HOUR
    hosts = [
        (2 * HOUR, "main-0", HostState.DRAINING),
        (over + SECOND, "main-0", HostState.REPAIRING),
        (over + HOUR, "main-0", HostState.HEALTHY),
        (over + 4 * HOUR, "main-0", HostState.DRAINING),
        (over + 5 * HOUR, "main-0", HostState.HEALTHY),
    ]
    jobs = [
        (HOUR, work(runtime=2 * HOUR, min_runtime=4 * HOUR, resumable=False)),
        (2 * HOUR, work(runtime=HOUR)),
        (over + 4 * HOUR + MINUTE, work(runtime=HOUR)),
    ]
    course, lived = course_of(tmp_path, setup_of(jobs, gpus=8, hosts=hosts, duration=12 * HOUR), HOUR // 2)
    assert rows(lived)[2].started == START + over + HOUR and rows(lived)[3].started == START + over + 5 * HOUR
    assert rows(rerun(course, AS_IT_IS, observe=sound).finish())[2].started == rows(lived)[2].started
    run = rerun(course, LATER, observe=sound).finish()
    first, second, third = (rows(run)[job_id] for job_id in (1, 2, 3))
    assert first.state == "succeeded" and first.ended == START + over + LATE
    assert second.started == START + over + LATE + HOUR - SECOND, "the repair takes as long as it took"
    assert third.started == rows(lived)[3].started, "what comes after that is at its time again"


def test_a_host_that_the_change_takes_away_does_not_come_back(busy: Course) -> None:
    """It fails, and is repaired, in the time that is run again."""
    whole = make_cluster(24)
    without = replace(whole, hosts=tuple(host for host in whole.hosts if host.name != "main-1"))
    assert busy.fresh().clusters["main"].on_host["main-1"]
    made = rerun(busy, Variant("changed", wanted=other(busy, clusters=(without,))), observe=sound)
    assert made.finish().hours[-1].healthy == 16 * GPU * HOUR


def test_what_waits_keeps_what_it_signed_when_a_maximum_falls(tmp_path: Path) -> None:
    jobs = [(0, work(runtime=3 * HOUR, min_runtime=3 * HOUR)), (HOUR, work(runtime=6 * HOUR, min_runtime=4 * HOUR))]
    lower = applied(2 * HOUR, replace(make_cluster(8), min_runtime_max=HOUR))
    course, lived = course_of(tmp_path, setup_of(jobs, gpus=8, duration=12 * HOUR), HOUR // 2, also=[lower])
    made = rerun(course, AS_IT_IS, observe=sound)
    assert not made.lines()
    promised = [[row.protected_until for row in run.attempts] for run in (lived, made.finish())]
    assert promised[0] == promised[1] and promised[0][1] == START + 3 * HOUR + 2 * STARTUP + 4 * HOUR


def test_a_host_that_was_changed_when_it_was_empty_stays_while_it_is_in_use(tmp_path: Path) -> None:
    """Here its job ends a moment later, and two other hosts that were taken away then are in use, and drain."""
    jobs = [(HOUR + i, work(runtime=HOUR, user=f"u{i}", resumable=False)) for i in range(2)]
    halved = make_cluster(16)
    halved = replace(halved, hosts=(replace(halved.hosts[0], gpus=4),))
    smaller = applied(2 * HOUR + STARTUP + SECOND, halved)
    again = applied(4 * HOUR, make_cluster(16))
    course, _ = course_of(tmp_path, setup_of(jobs, gpus=16, duration=6 * HOUR), HOUR // 2, also=[smaller, again])
    made = rerun(course, LATER, observe=sound)
    assert [line.partition(" ")[0] for line in made.lines()] == ["main-0", "1"]
    assert {row.state for row in made.finish().jobs} == {"succeeded"}
    cluster = made.state.clusters["main"]
    assert cluster.hosts["main-1"].state is HostState.HEALTHY, "it is there again"


def test_a_rehearsal_knows_of_budgets_that_came_meanwhile(tmp_path: Path) -> None:
    jobs = [(HOUR, work()), (3 * HOUR, work("lab/new", min_runtime=0))]
    more = applied(2 * HOUR, make_cluster(8), budgets=(*HALVES, Budget("lab/new", 0)))
    course, _ = course_of(tmp_path, setup_of(jobs, gpus=8, duration=6 * HOUR), HOUR // 2, also=[more])
    variants = [Variant("fifo", "fifo"), Variant("changed", wanted=other(course, budgets=HALVES))]
    fifo, changed = map(runs.rehearse, runs.begin(course, variants).changed)
    assert fifo == [] == rerun(course, variants[0], observe=sound).lines()
    assert changed == rerun(course, variants[1], observe=sound).lines()
    assert changed[0].startswith("1 change of the configuration") and "lab/new" in changed[1]


def test_a_moment_later_is_later_for_who_waited_already_too(tmp_path: Path) -> None:
    """Else chance would be none wherever nobody submits any more."""
    jobs = [(0, work(runtime=HOUR)) for _ in range(6)]
    course, _ = course_of(tmp_path, setup_of(jobs, gpus=8, duration=6 * HOUR), HOUR // 2)
    starts = [[row.started or 0 for row in rerun(course, one).finish().jobs] for one in (AS_IT_IS, LATER)]
    assert [after - before for before, after in zip(*starts, strict=True)] == [0, 0, *(i * SECOND for i in range(1, 5))]


def test_what_had_failed_and_here_has_not_is_waited_for(tmp_path: Path) -> None:
    """Somebody submits a job that waits for the success of others; in life all had been evicted for good by then."""
    free = work(runtime=4 * HOUR, min_runtime=0, resumable=False)
    course, _ = course_of(tmp_path, setup_of([(HOUR, free), (HOUR, free)], gpus=24, duration=12 * HOUR), HOUR // 2)
    over = START + HOUR + STARTUP + 4 * HOUR
    more = {10: (2 * HOUR, "1"), 11: (6 * HOUR, "2"), 12: (3 * HOUR, "7"), 13: (3 * HOUR, "7_2")}
    made = replace(
        course,
        works={**course.works, **dict.fromkeys(more, work())},
        events=[
            *course.events,
            *(Submitted(START + at, i, work().spec, broken=Broken(name, "x")) for i, (at, name) in more.items()),
        ],
    )
    found = rows(rerun(made, AS_IT_IS, observe=sound).finish())
    assert found[10].started == over and found[11].started == START + 6 * HOUR
    assert [(found[i].state, found[i].started) for i in (12, 13)] == [("cancelled", None)] * 2


def test_jobs_that_came_after_the_end_are_none_of_its(tmp_path: Path) -> None:
    jobs = [(HOUR, work(runtime=20 * HOUR)), (4 * HOUR, work(runtime=20 * HOUR))]
    course, _ = course_of(tmp_path, setup_of(jobs, gpus=8, duration=6 * HOUR), HOUR // 2, until=3 * HOUR)
    assert course.works.keys() == {1}
    assert course.notes[0].startswith("1 of 1 job has not ended by itself: how long it runs in all")


def test_a_log_that_is_compacted_while_it_is_read_is_told(tmp_path: Path) -> None:
    jobs = [(i * HOUR, work(runtime=HOUR // 2)) for i in range(8)]
    site(tmp_path, setup_of(jobs, gpus=8, duration=10 * HOUR))
    path = tmp_path / ".tenure" / "tenure.db"
    with Store.open_to_read(f"sqlite:///{path}") as store:
        since = START + 3 * HOUR
        first = store.seq_at(since)

        def compacted(what: str, done: int, total: int) -> bool:
            if what == "the state of then" and done == total:
                with closing(sqlite3.connect(path)) as database:
                    database.execute("delete from batches where seq <= ?", (first + 3,))
                    database.commit()
            return going(what, done, total)

        with pytest.raises(NothingKept, match="compacted while it was read"):
            then(store, since, None, 0, compacted)
