"""A trace as a workload."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sim_kit import setup_of

from tenure.core.admission import check_job
from tenure.core.events import ConfigApplied
from tenure.core.model import DAY, HOUR, MINUTE, SECOND, Budget, Contract, Policy, Role
from tenure.core.scheduler import step
from tenure.core.state import State
from tenure.sim.loop import Simulation
from tenure.sim.setup import START, make_cluster
from tenure.sim.traces import End, TraceJob, TraceOptions, TraceWorkload
from tenure.sim.work import Submit, Wake, Work, Workload

JOB = TraceJob("j", 0, 3 * HOUR, 1, "t", "ada")
BUDGETS = (Budget("lab", 1_000_000), Budget("lab/t", 1_000_000))


def workload(found: list[TraceJob], **options: Any) -> TraceWorkload:
    return TraceWorkload(found, {"t": "lab/t", "u": "lab/u"}, ("main", "spare"), TraceOptions(**options))


def played(load: Workload, start: int) -> list[tuple[int, Submit]]:
    """All submissions, and when each was handed out."""
    found: list[tuple[int, Submit]] = []
    todo = [(start, action) for action in load.begin(start)]
    for at, action in todo:
        if isinstance(action, Wake):
            assert action.at >= at
            todo += [(action.at, further) for further in load.wake(action.at, action.token)]
        else:
            assert isinstance(action, Submit)
            assert action.at >= at
            found.append((at, action))
    return found


def work(**changes: Any) -> Work:
    return workload([]).work(replace(JOB, **changes))


def test_every_job_is_submitted_at_its_time_and_few_are_ahead() -> None:
    found = [replace(JOB, id=str(i), submitted=i // 7 * MINUTE) for i in range(1000)]
    submits = played(workload(found), DAY)
    assert [(submit.at, submit.work.spec.name, submit.token) for _, submit in submits] == [
        (DAY + job.submitted, job.id, i) for i, job in enumerate(found)
    ]
    times = range(DAY, DAY + 143 * MINUTE, MINUTE)
    ahead = [sum(handed <= at < submit.at for handed, submit in submits) for at in times]
    assert 0 < max(ahead) <= 64


def test_an_empty_trace_does_nothing() -> None:
    assert list(workload([]).begin(0)) == []


def test_the_job_as_somebody_submits_it() -> None:
    made = work(gpus=24, runtime=DAY, timeout=2 * DAY)
    spec = made.spec
    assert spec.roles == (Role("main", 3, 8, 0, 0),)
    assert (spec.name, spec.user, spec.budget, spec.clusters) == ("j", "ada", "lab/t", ("main", "spare"))
    assert spec.contract == Contract(2 * HOUR, True)
    assert (spec.timeout, made.runtime, made.kind, made.exit_code) == (2 * DAY, DAY, "trace", 0)
    assert made.checkpoint_every > 0
    assert work(gpus=5).spec.roles == (Role("main", 1, 5, 0, 0),)
    short = work(runtime=MINUTE, synthetic=True)
    assert (short.kind, short.checkpoint_every) == ("debug-synthetic", 0)
    assert not workload([], unallocated=1_000_000).work(JOB).funded


def test_owners_are_numbered() -> None:
    found = [replace(JOB, id=str(i), user=user, team=team) for i, (user, team) in enumerate(("at", "bt", "at", "au"))]
    assert [submit.work.owner for _, submit in played(workload(found), 0)] == [0, 1, 0, 2]


def test_how_it_ended() -> None:
    assert work(end=End.FAILED, exit_code=3).exit_code == 3
    assert work(end=End.CANCELLED).exit_code == 143
    assert work(end=End.CANCELLED, exit_code=9).exit_code == 9
    cut = work(end=End.TIMEOUT, timeout=3 * HOUR)
    assert (cut.runtime, cut.spec.timeout) == (3 * HOUR + 10 * MINUTE, 3 * HOUR)


@pytest.mark.parametrize(
    ("runtime", "timeout", "end", "min_runtime", "limit"),
    [
        (3 * HOUR, 2 * HOUR, End.COMPLETED, HOUR, 190 * MINUTE),  # it ran past its limit there, so it may here
        (3 * HOUR, 3 * HOUR, End.COMPLETED, HOUR, 190 * MINUTE),  # a log that gives what it ran as its limit
        (3 * HOUR, 2 * HOUR, End.TIMEOUT, HOUR, 2 * HOUR),
        (20 * MINUTE, 30 * MINUTE, End.COMPLETED, 30 * MINUTE, 30 * MINUTE),
        (MINUTE, MINUTE, End.TIMEOUT, 5 * MINUTE, 5 * MINUTE),
    ],
)
def test_contracts_and_limits_go_together(runtime: int, timeout: int, end: End, min_runtime: int, limit: int) -> None:
    spec = work(runtime=runtime, timeout=timeout, end=end).spec
    assert (spec.contract.min_runtime, spec.timeout) == (min_runtime, limit)


def test_admission_takes_what_the_workload_makes() -> None:
    state = State()
    clusters = (make_cluster(64, "main"), make_cluster(64, "spare"))
    step(state, [ConfigApplied(0, clusters, Policy(), BUDGETS, (), "me")], 0)
    for gpus in (1, 5, 8, 16, 64):
        for runtime in (SECOND, 10 * MINUTE, HOUR, DAY):
            for timeout in (None, SECOND, 20 * MINUTE, 2 * DAY):
                for end in (End.COMPLETED, End.TIMEOUT):
                    made = work(gpus=gpus, runtime=runtime, timeout=timeout, end=end)
                    check_job(state, made.spec)


def test_a_trace_in_the_simulator() -> None:
    found = [replace(JOB, id=str(i), submitted=i * 5 * MINUTE, gpus=8, runtime=HOUR) for i in range(150)]
    found.append(replace(JOB, id="cut", submitted=DAY, gpus=16, runtime=2 * HOUR, timeout=2 * HOUR, end=End.TIMEOUT))
    found.append(replace(JOB, id="wrong", submitted=DAY, end=End.FAILED, exit_code=7))

    def fresh(seed: int) -> TraceWorkload:
        return TraceWorkload(found, {"t": "lab/t"}, ("main",), TraceOptions())

    setup = replace(setup_of([], gpus=104), budgets=BUDGETS, workload=fresh, duration=2 * DAY)
    run = Simulation(setup).run()
    assert [row.submitted - START for row in run.jobs] == [job.submitted for job in found]
    *rows, cut, wrong = run.jobs
    assert {row.state for row in rows} == {"succeeded"}
    assert all(row.ended is not None and row.ended - row.submitted == HOUR + 20 * SECOND for row in rows)
    assert (cut.state, wrong.state) == ("timed_out", "failed")
    assert cut.ended is not None
    assert 0 <= cut.ended - cut.submitted - 2 * HOUR <= MINUTE  # it starts up before, and saves its state after


def test_refusals_are_counted_and_nothing_else_is_answered() -> None:
    load = workload([])
    for i in range(7):
        assert list(load.refused(0, i, work(id=str(i)), "no room")) == []
    assert load.refused_jobs == 7
    assert load.refusals == [(str(i), "no room") for i in range(5)]
    one = work()
    answers = (
        load.accepted(0, 0, 1, one),
        load.started(0, 1, one, 0),
        load.requeued(0, 1, one),
        load.ended(0, 1, one, "succeeded"),
    )
    assert all(list(answer) == [] for answer in answers)
