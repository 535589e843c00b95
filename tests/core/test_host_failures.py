"""A host that fails: what becomes of its attempts, and what their budgets are given back."""

from __future__ import annotations

import pytest

from scenarios import became
from support.world import World, hosts
from tenure.core.decisions import Credited
from tenure.core.events import ExitKind, HostStateChanged
from tenure.core.lifecycle import JobState
from tenure.core.model import GPU, HOUR, MINUTE, SECOND, HostState
from tenure.core.reasons import Reason

S, X = JobState, ExitKind


MINUTES = 90


@pytest.mark.parametrize(
    ("name", "min_runtime", "checkpoint_after", "caused", "credited"),
    [
        ("since its start", 2 * HOUR, None, False, 90),
        ("since its checkpoint", 2 * HOUR, 60, False, 30),
        ("at most its min_runtime", HOUR, None, False, 60),
        ("nothing when the job caused it", 2 * HOUR, None, True, 0),
        ("nothing for what was free", 0, None, False, 0),
    ],
)
def test_the_credit_of_a_host_failure(
    name: str, min_runtime: int, checkpoint_after: int | None, caused: bool, credited: int
) -> None:
    world = World(hosts(2))
    job = world.submit("lab/a", 8, min_runtime=min_runtime)
    attempt = world.attempt(job)
    if checkpoint_after is not None:
        world.advance(checkpoint_after * MINUTE)
        world.checkpoint(job)
    world.advance(MINUTES * MINUTE - world.now + (attempt.started_at or 0))
    by = attempt.id if caused else ""
    world.step(
        HostStateChanged(world.now, "main", attempt.hosts()[0], HostState.FAILED, "check", "GPU lost", caused_by=by)
    )
    assert became(world, job) == (S.QUEUED, Reason.HOST_FAILED), name
    assert sum(c.amount * (c.end - c.start) for c in world.made(Credited)) == 8 * GPU * credited * MINUTE
    expected = (MINUTES - credited) * 8 / 60 if min_runtime else 0
    assert world.used_hours("lab/a") == pytest.approx(expected)


def test_a_host_that_fails_ends_a_gang_whole_and_one_that_cannot_resume_fails() -> None:
    world = World(hosts(4))
    gang = world.submit("lab/a", 8, replicas=2)
    single = world.submit("lab/b", 8, resumable=False)
    world.advance(MINUTE)
    for job in (gang, single):
        world.host(world.attempt(job).hosts()[-1], HostState.FAILED)
    assert became(world, gang) == (S.QUEUED, Reason.HOST_FAILED)
    assert world.job_state(gang) is S.RUNNING  # whole, elsewhere
    assert became(world, single) == (S.FAILED, Reason.HOST_FAILED)
    assert len(world.made(Credited)) == 2


def test_a_credit_leaves_the_window_with_what_it_credits() -> None:
    world = World(hosts(2))
    job = world.submit("lab/a", 8, min_runtime=2 * HOUR)
    world.advance(HOUR)
    world.host(world.attempt(job).hosts()[0], HostState.FAILED)
    world.cancel(job)
    world.advance(30 * SECOND)
    assert world.used_hours("lab/a") == pytest.approx(8 * 30 / 3600)
    for _ in range(20):
        world.advance(9 * HOUR, tick=9 * HOUR)
        assert 0 <= world.used_hours("lab/a") <= 8 * 30 / 3600
    assert world.used_hours("lab/a") == 0


@pytest.mark.parametrize("how", ["cancel", "time_out"])
def test_a_host_that_fails_does_not_bring_back_what_was_on_its_way_out(how: str) -> None:
    world = World(hosts(2), auto_release=False)
    job = world.submit("lab/a", 8, timeout=2 * HOUR)
    if how == "cancel":
        world.cancel(job)
    else:
        world.advance(2 * HOUR)
    world.host(world.attempt(job).hosts()[0], HostState.FAILED)
    assert world.attempt(job).stop is not None and world.attempt(job).stop.kill_at == world.now
    world.finish(job, kind=X.LOST)
    assert became(world, job)[0] is (S.CANCELLED if how == "cancel" else S.TIMED_OUT)
