"""What jobs keep and lose: worked examples with their numbers, each through the whole simulator."""

from __future__ import annotations

from dataclasses import replace

from sim_kit import Watch, hours_after, setup_of, simulate, work

from tenure.core.model import DAY, GPU, HOUR, MINUTE, SECOND, HostState, Policy
from tenure.sim.hosts import Fault
from tenure.sim.loop import Simulation
from tenure.sim.setup import START

NO_MARGIN = Policy(preemption_margin=0)


def test_a_job_runs_for_its_work_and_its_startup_is_occupied_too() -> None:
    run, script = simulate(setup_of([(0, work(runtime=2 * HOUR, startup=60 * SECOND))]))
    (job,), (attempt,) = run.jobs, run.attempts
    assert job.ended == START + 2 * HOUR + 60 * SECOND
    assert attempt.running == START + 60 * SECOND
    assert job.occupied == 8 * GPU * (2 * HOUR + 60 * SECOND)
    assert (job.state, job.lost, job.started, job.decided) == ("succeeded", 0, START, START)
    assert attempt.protected_until == START + HOUR + 60 * SECOND
    assert script.said == [("started", 0, 1), ("succeeded", 2 * HOUR + 60 * SECOND, 1)]


def test_unallocated_work_killed_in_ten_seconds_falls_back_to_its_last_checkpoint() -> None:
    """It has run 100 min with checkpoints every 30: the last 10 min are lost, and 5 min go into the restart."""
    free = work("lab/b", 16, 3 * HOUR, min_runtime=0, checkpoint_every=30 * MINUTE, restart_cost=5 * MINUTE)
    free = replace(free, spec=replace(free.spec, roles=work("lab/b", 8, replicas=2).spec.roles))
    charged = work("lab/a", 8, HOUR, replicas=2)
    run, script = simulate(setup_of([(0, free), (100 * MINUTE, charged)]))
    first, second = run.jobs
    (eviction,) = run.evictions
    ten = 10 * SECOND
    assert (second.decided, second.started) == (START + 100 * MINUTE, START + 100 * MINUTE + ten)
    assert eviction.because == "evicted_unallocated" and eviction.gainer == 2
    assert eviction.at_risk == 16 * GPU * 10 * MINUTE
    assert eviction.lost == 16 * GPU * (10 * MINUTE + ten)
    resumed = 100 * MINUTE + ten + HOUR
    assert first.ended == START + resumed + 5 * MINUTE + 90 * MINUTE
    assert first.lost == 16 * GPU * (10 * MINUTE + ten + 5 * MINUTE)
    assert ("requeued", 100 * MINUTE + ten, 1) in script.said
    assert [attempt.because for attempt in run.attempts] == ["evicted_unallocated", "succeeded", "succeeded"]


def test_with_enough_grace_the_work_is_saved_and_only_the_saving_is_lost() -> None:
    """Both budgets want everything: b is evicted when its hour is over, warned 5 min before it would be killed."""
    long = work("lab/b", 8, 6 * HOUR, replicas=2, save_time=30 * SECOND)
    short = work("lab/a", 8, HOUR, replicas=2)
    run, _ = simulate(setup_of([(0, long), (2 * HOUR, short)], scheduling=NO_MARGIN))
    (eviction,) = run.evictions
    assert eviction.because == "evicted_standing"
    assert run.jobs[1].started == START + 2 * HOUR + 30 * SECOND
    assert eviction.lost == 16 * GPU * 30 * SECOND
    assert run.jobs[0].ended == START + 3 * HOUR + 30 * SECOND + 4 * HOUR


def test_without_grace_what_was_done_since_the_checkpoint_is_lost() -> None:
    long = work("lab/b", 8, 6 * HOUR, replicas=2, save_time=30 * SECOND, grace=0)
    run, _ = simulate(setup_of([(0, long), (150 * MINUTE, work("lab/a", 8, replicas=2))], scheduling=NO_MARGIN))
    (eviction,) = run.evictions
    assert eviction.lost == eviction.at_risk == 16 * GPU * 30 * MINUTE


def test_a_job_that_cannot_resume_loses_everything_and_ends_as_preempted() -> None:
    lost = work("lab/b", 8, 6 * HOUR, replicas=2, resumable=False)
    run, script = simulate(setup_of([(0, lost), (150 * MINUTE, work("lab/a", 8, replicas=2))], scheduling=NO_MARGIN))
    assert run.jobs[0].state == "preempted"
    assert run.jobs[0].lost == 16 * GPU * 155 * MINUTE  # the five minutes of grace as well
    assert ("preempted", 155 * MINUTE, 1) in script.said


def test_work_that_is_done_before_the_kill_counts_as_done() -> None:
    nearly = work("lab/b", 8, 152 * MINUTE, replicas=2, save_time=4 * MINUTE)
    run, _ = simulate(setup_of([(0, nearly), (150 * MINUTE, work("lab/a", 8, replicas=2))], scheduling=NO_MARGIN))
    assert (run.jobs[0].state, run.jobs[0].ended, run.jobs[0].lost) == ("succeeded", START + 152 * MINUTE, 0)


def test_work_that_fails_after_its_warning_was_evicted_and_has_lost_what_it_did_not_save() -> None:
    """It would have failed 2 min after its warning: it is queued again, resumes at its checkpoint, and fails then."""
    failing = work("lab/b", 8, 152 * MINUTE, replicas=2, save_time=4 * MINUTE, exit_code=1)
    run, _ = simulate(setup_of([(0, failing), (150 * MINUTE, work("lab/a", 8, replicas=2))], scheduling=NO_MARGIN))
    first, _, again = run.attempts
    assert (first.because, first.ended) == ("evicted_standing", START + 152 * MINUTE)
    assert first.lost == 16 * GPU * 32 * MINUTE  # since the checkpoint at 2 h
    assert again.ended == again.started + 32 * MINUTE and run.jobs[0].state == "failed"


def test_a_failing_host_ends_the_attempt_at_once_and_it_resumes_from_its_checkpoint() -> None:
    setup = setup_of([(0, work(runtime=3 * HOUR))], gpus=8)
    simulation = Simulation(setup, Watch())
    simulation._push(START + 90 * MINUTE, Fault(START + 90 * MINUTE, "main", "main-0", True, 2 * HOUR))
    run = simulation.run()
    assert run.attempts[0].because == "host_failed" and run.attempts[0].ended == START + 90 * MINUTE
    assert run.attempts[1].started == START + 210 * MINUTE
    assert run.jobs[0].ended == START + 210 * MINUTE + 2 * HOUR
    assert run.jobs[0].lost == 8 * GPU * 30 * MINUTE
    healthy = [row.healthy // (8 * GPU * MINUTE) for row in run.hours[:4]]
    assert healthy == [60, 30, 0, 30]
    assert simulation.state.clusters["main"].hosts["main-0"].state is HostState.HEALTHY


def test_people_cancel_what_runs_and_what_waits() -> None:
    one = work("lab/a", 8, 10 * HOUR, replicas=2)
    run, script = simulate(setup_of([(0, one), (0, one)], cancels=[(HOUR, 0), (30 * MINUTE, 1)]))
    assert [job.state for job in run.jobs] == ["cancelled", "cancelled"]
    assert run.jobs[1].started is None and run.jobs[1].ended == START + 30 * MINUTE
    assert 1 <= hours_after(run.jobs[0].ended) < 1.01
    assert [job.lost for job in run.jobs] == [0, 0]
    assert [said for said, _, _ in script.said] == ["started", "cancelled", "cancelled"]


def test_a_timeout_ends_an_attempt_and_its_job() -> None:
    run, _ = simulate(setup_of([(0, work(runtime=10 * HOUR, timeout=2 * HOUR))]))
    assert run.jobs[0].state == "timed_out"
    assert 2 <= hours_after(run.jobs[0].ended) < 2.1


def test_hours_add_up_exactly() -> None:
    """One 8-GPU job from 0:30 to 2:00 on 16 GPUs, another that waits for 16 from 1:00 on."""
    jobs = [(30 * MINUTE, work("lab/a", 8, 90 * MINUTE)), (HOUR, work("lab/b", 8, HOUR, replicas=2))]
    run, _ = simulate(setup_of(jobs, duration=4 * HOUR))
    unit = GPU * HOUR
    assert [row.healthy for row in run.hours] == [16 * unit] * 4
    assert [row.funded for row in run.hours] == [4 * unit, 8 * unit, 16 * unit, 0]
    assert [row.unusable for row in run.hours] == [0, 8 * unit, 0, 0]
    assert [row.demand_funded for row in run.hours] == [4 * unit, 24 * unit, 16 * unit, 0]
    by_budget = {(row.budget, (row.start - START) // HOUR): row for row in run.budget_hours}
    assert by_budget["lab/a", 1].delivered == 8 * unit and by_budget["lab/a", 1].demand == 8 * unit
    assert by_budget["lab/b", 1].demand == 16 * unit and by_budget["lab/b", 1].delivered == 0
    assert by_budget["lab/b", 2].entitled == 8 * unit


def test_the_last_part_of_an_hour_counts_too() -> None:
    run, _ = simulate(setup_of([(0, work(runtime=DAY))], duration=90 * MINUTE))
    assert [row.length for row in run.hours] == [HOUR, 30 * MINUTE]
    assert run.jobs[0].state == "running" and run.jobs[0].ended is None
    assert run.jobs[0].occupied == 8 * GPU * 90 * MINUTE
    assert run.attempts[0].ended is None
