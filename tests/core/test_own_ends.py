"""Ends that come from the system that runs a job: queued again there, or cancelled there."""

from __future__ import annotations

from scenarios import became
from support.world import World, hosts
from tenure.core.events import AttemptExited, ExitKind
from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, SECOND, HostState
from tenure.core.reasons import Reason


def ends(world: World, job: int, **how: object) -> None:
    exited = AttemptExited(world.now, world.attempt(job).id, ExitKind.EXITED, **how)  # type: ignore[arg-type]
    world.step(exited)


def test_queued_again_by_its_own_system_it_comes_back_though_it_is_not_resumable() -> None:
    world = World(hosts(1), {"lab/a": 1.0}, auto_up=False, auto_release=False)
    job = world.submit("lab/a", resumable=False)
    world.up(job)
    submitted = world.job(job).submitted
    ends(world, job, again=True, message="in Slurm")
    assert became(world, job) == (JobState.QUEUED, Reason.REQUEUED)
    assert world.job(job).submitted == submitted
    assert world.job(job).not_before == world.now + 10 * SECOND  # in a loop it is held back more and more


def test_queued_again_after_its_warning_it_comes_back_and_was_evicted() -> None:
    world = World(hosts(1), {"lab/a": 1.0}, auto_up=False, auto_release=False)
    job = world.submit("lab/a", resumable=False)
    world.up(job)
    world.evict(job)
    ends(world, job, again=True)
    assert became(world, job) == (JobState.QUEUED, Reason.EVICTED_BY_PERSON)


def test_cancelled_there_it_is_cancelled_whatever_else_was_wanted() -> None:
    world = World(hosts(1), {"lab/a": 1.0}, auto_up=False, auto_release=False)
    starting, running = world.submit("lab/a", 4), world.submit("lab/a", 4)
    world.up(running)
    for job in (starting, running):
        ends(world, job, exit_codes=(-15,), cancelled_by="scancel")
        assert became(world, job) == (JobState.CANCELLED, Reason.CANCELLED)
        assert world.job_state(job) is JobState.CANCELLED


def test_stopped_twice_it_counts_from_the_first_warning_however_late_its_end_is_heard_of() -> None:
    world = World(hosts(2), {"lab/a": 1.0}, auto_up=False, auto_release=False)
    evicted, cancelled = world.submit("lab/a"), world.submit("lab/a")
    for job in (evicted, cancelled):
        world.up(job)
        world.evict(job)
    world.step(after=20 * SECOND)
    world.host(world.attempt(evicted).hosts()[0], HostState.FAILED)
    world.cancel(cancelled)
    for job in (evicted, cancelled):
        ends(world, job, exit_codes=(143,), ended_at=world.now - 10 * SECOND)  # after its warning, before the second
    assert became(world, evicted) == (JobState.QUEUED, Reason.HOST_FAILED)
    assert became(world, cancelled) == (JobState.CANCELLED, Reason.CANCELLED)


def test_one_that_ended_before_any_warning_has_ended_by_itself_whatever_came_after() -> None:
    world = World(hosts(1), {"lab/a": 1.0}, auto_up=False, auto_release=False)
    job = world.submit("lab/a")
    world.up(job)
    world.step(after=20 * SECOND)
    world.evict(job)
    world.cancel(job)
    ends(world, job, exit_codes=(0,), ended_at=world.now - SECOND)
    assert became(world, job) == (JobState.SUCCEEDED, Reason.SUCCEEDED)


def test_a_failure_heard_of_an_hour_late_ends_no_row_of_failures() -> None:
    world = World(hosts(1), {"lab/a": 1.0}, auto_up=False, auto_release=False)
    job = world.submit("lab/a", retries=9)
    for row, ran in ((1, SECOND), (2, SECOND), (1, HOUR)):
        world.up(job)
        ended = world.now + ran
        world.step(after=2 * HOUR)
        ends(world, job, exit_codes=(1,), ended_at=ended)
        assert (world.job(job).failures, world.job(job).not_before - world.now) == (row, row * 10 * SECOND)
        world.step(after=row * 10 * SECOND)
