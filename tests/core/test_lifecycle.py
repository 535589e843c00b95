"""What becomes of jobs: exits, stops, time-outs, backing off, and what people may do to them in every state."""

from __future__ import annotations

import pytest

from scenarios import OLD, Fate, became, past, victims
from support.world import World, hosts
from tenure.core.decisions import AttemptEnded, ClaimDropped, JobEnded, Stopping
from tenure.core.events import (
    AttemptExited,
    CancelRequested,
    ExitKind,
    Held,
    PriorityChanged,
    Released,
    ReplicasUp,
)
from tenure.core.ledger import Kind
from tenure.core.lifecycle import TABLE, JobState, LifecycleError, Step, advance
from tenure.core.model import HOUR, MINUTE, SECOND
from tenure.core.reasons import Reason

S, X = JobState, ExitKind

# ---- the table


def test_every_pair_that_is_not_in_the_table_raises_with_the_jobs_history() -> None:
    for state in JobState:
        for step in Step:
            if (state, step) in TABLE:
                assert advance(7, state, step, []) is TABLE[state, step]
            else:
                with pytest.raises(LifecycleError, match=r"job 7 is .*: 5 claim: started_by_eviction"):
                    advance(7, state, step, ["5 claim: started_by_eviction"])


def test_nothing_leaves_an_end_and_every_other_state_has_a_way_to_one() -> None:
    ways = {state: {to for (source, _), to in TABLE.items() if source is state} for state in JobState}
    for state in JobState:
        seen, todo = set(), {state}
        while todo:
            seen |= todo
            todo = {to for source in todo for to in ways[source]} - seen
        assert (not ways[state]) if state.ended else any(to.ended for to in seen)


# ---- exits

# (how it ended, its codes, done marker) -> without a stop, when resumable and when not.
BY_ITSELF = [
    (X.EXITED, 0, False, (S.SUCCEEDED, Reason.SUCCEEDED), (S.SUCCEEDED, Reason.SUCCEEDED)),
    (X.EXITED, 0, True, (S.SUCCEEDED, Reason.SUCCEEDED), (S.SUCCEEDED, Reason.SUCCEEDED)),
    (X.EXITED, 1, False, (S.FAILED, Reason.FAILED), (S.FAILED, Reason.FAILED)),
    (X.EXITED, 1, True, (S.SUCCEEDED, Reason.SUCCEEDED), (S.SUCCEEDED, Reason.SUCCEEDED)),
    (X.EXITED, -15, False, (S.FAILED, Reason.FAILED), (S.FAILED, Reason.FAILED)),
    (X.LOST, 0, False, (S.QUEUED, Reason.EXECUTOR_LOST), (S.FAILED, Reason.EXECUTOR_LOST)),
    (X.NOT_STARTED, 0, False, (S.FAILED, Reason.NOT_STARTED), (S.FAILED, Reason.NOT_STARTED)),
]
# The same after the warning of an eviction: it was evicted, whatever its exit code, unless it said that it was done.
AFTER_WARNING = [
    (X.EXITED, 0, False, (S.QUEUED, Reason.EVICTED_STANDING), (S.SUCCEEDED, Reason.SUCCEEDED)),
    (X.EXITED, 0, True, (S.SUCCEEDED, Reason.SUCCEEDED), (S.SUCCEEDED, Reason.SUCCEEDED)),
    (X.EXITED, 1, False, (S.QUEUED, Reason.EVICTED_STANDING), (S.PREEMPTED, Reason.PREEMPTED)),
    (X.EXITED, 1, True, (S.SUCCEEDED, Reason.SUCCEEDED), (S.SUCCEEDED, Reason.SUCCEEDED)),
    (X.EXITED, -9, False, (S.QUEUED, Reason.EVICTED_STANDING), (S.PREEMPTED, Reason.PREEMPTED)),
    (X.LOST, 0, False, (S.QUEUED, Reason.EVICTED_STANDING), (S.PREEMPTED, Reason.PREEMPTED)),
]


@pytest.mark.parametrize(("kind", "code", "done", "if_resumable", "if_not"), BY_ITSELF)
@pytest.mark.parametrize("resumable", [True, False])
def test_an_attempt_that_ends_by_itself(
    kind: X, code: int, done: bool, if_resumable: Fate, if_not: Fate, resumable: bool
) -> None:
    world = World()
    job = world.submit("lab/a", 8, resumable=resumable)
    world.advance(MINUTE)
    world.finish(job, code, done=done, kind=kind)
    assert became(world, job) == (if_resumable if resumable else if_not)
    assert len(world.made(AttemptEnded)) == 1


@pytest.mark.parametrize("warned", [True, False])
@pytest.mark.parametrize("row", range(len(AFTER_WARNING)))
@pytest.mark.parametrize("resumable", [True, False])
def test_an_attempt_that_ends_while_it_is_being_evicted(warned: bool, row: int, resumable: bool) -> None:
    """The other victim has a grace of 5 minutes, this one of 1: it is warned after 4."""
    world = World(hosts(1), auto_release=False)
    past(world, ("lab/b", 600, OLD))
    job = world.submit("lab/b", 4, min_runtime=5 * MINUTE, grace=MINUTE, resumable=resumable)
    world.submit("lab/b", 4, min_runtime=5 * MINUTE)
    world.advance(HOUR)
    world.submit("lab/a", 8)
    assert job in victims(world)
    world.step(after=4 * MINUTE - (0 if warned else 1))
    kind, code, done, if_resumable, if_not = AFTER_WARNING[row]
    if not warned:
        same = next(r for r in BY_ITSELF if r[:3] == (kind, code if code >= -1 else -15, done))
        if_resumable, if_not = same[3:]
    world.finish(job, code, done=done, kind=kind)
    assert became(world, job) == (if_resumable if resumable else if_not)


def test_an_exit_that_is_reported_late_counts_when_it_happened() -> None:
    world = World(hosts(1), auto_release=False)
    job = world.submit("lab/a", 8)
    world.advance(MINUTE)
    exited = AttemptExited(world.now, world.attempt(job).id, X.EXITED, (0,))
    world.step(after=1)
    world.evict(job)
    world.step(exited, after=SECOND)  # it had ended before it was warned
    assert became(world, job) == (S.SUCCEEDED, Reason.SUCCEEDED)


def test_a_short_process_that_nobody_saw_running() -> None:
    world = World(auto_up=False)
    job = world.submit("lab/a", 8)
    world.step(after=3 * SECOND)
    world.finish(job)
    assert became(world, job) == (S.SUCCEEDED, Reason.SUCCEEDED)
    assert world.used_hours("lab/a") * HOUR == pytest.approx(8 * 3 * SECOND)


def test_news_of_what_is_over_changes_nothing() -> None:
    world = World()
    job = world.submit("lab/a", 8)
    old = world.attempt(job).id
    world.evict(job)
    world.advance(5 * MINUTE)
    assert world.attempt(job).number == 2
    before = len(world.decisions)
    world.step(
        AttemptExited(world.now, old, X.EXITED, (0,)), ReplicasUp(world.now, old), CancelRequested(world.now, 99, "x")
    )
    assert len(world.decisions) == before and world.job_state(job) is S.RUNNING


# ---- time-outs, retries, backing off


def test_a_start_that_takes_too_long_fails_the_attempt_and_not_the_job() -> None:
    world = World(hosts(1), auto_up=False)
    job = world.submit("lab/a", 8, resumable=False)
    world.advance(15 * MINUTE - 1)
    assert world.job_state(job) is S.STARTING
    world.advance(1)
    assert became(world, job) == (S.QUEUED, Reason.START_TIMED_OUT)
    assert world.used_hours("lab/a") == 8 / 4  # occupied, so charged
    because = world.why(job)
    assert because.reason is Reason.BACKING_OFF
    assert because.numbers == {"until": world.now + 10 * SECOND, "failures": 1, "last": "start_timed_out"}
    world.advance(10 * SECOND)
    assert world.job_state(job) is S.STARTING


def test_a_start_time_out_that_is_changed_holds_for_what_is_starting() -> None:
    from dataclasses import replace

    world = World(hosts(1), auto_up=False)
    job = world.submit("lab/a", 8)
    world.clusters = (replace(world.clusters[0], start_timeout=HOUR),)
    world.configure()
    world.advance(HOUR - 1)
    assert world.job_state(job) is S.STARTING
    world.clusters = (replace(world.clusters[0], start_timeout=30 * MINUTE),)
    world.configure()  # already over
    assert became(world, job) == (S.QUEUED, Reason.START_TIMED_OUT)


def test_a_timeout_is_counted_from_when_all_replicas_run_and_ends_the_job() -> None:
    world = World(hosts(1), auto_up=False)
    job = world.submit("lab/a", 8, timeout=2 * HOUR, grace=2 * MINUTE)
    world.step(after=10 * MINUTE)
    world.up(job)
    world.step(after=2 * HOUR - 1)
    assert world.job_state(job) is S.RUNNING
    world.step(after=1)
    stop = world.made(Stopping)[0].victim
    assert (stop.because.reason, stop.warn_at, stop.kill_at) == (Reason.TIMED_OUT, world.now, world.now + 2 * MINUTE)
    world.step(after=2 * MINUTE)
    assert became(world, job) == (S.TIMED_OUT, Reason.TIMED_OUT)


def test_a_job_that_was_done_when_its_time_was_out_has_succeeded() -> None:
    world = World(hosts(1), auto_release=False)
    job = world.submit("lab/a", 8, timeout=2 * HOUR)
    world.advance(2 * HOUR)
    world.finish(job, -15, done=True)
    assert became(world, job) == (S.SUCCEEDED, Reason.SUCCEEDED)


def test_each_attempt_has_the_whole_timeout() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 8, timeout=2 * HOUR)
    world.advance(HOUR)
    world.evict(job)
    world.advance(5 * MINUTE)
    world.advance(2 * HOUR - 1)
    assert world.job_state(job) is S.RUNNING
    world.advance(1)
    assert world.job_state(job) is S.STOPPING


def test_retries_back_off_longer_each_time_and_are_counted() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 8, retries=12)
    delays = []
    for _ in range(12):
        world.finish(job, 1)
        until = world.job(job).not_before
        delays.append((until - world.now) // SECOND)
        world.step(after=until - world.now - 1)
        assert world.job_state(job) is S.QUEUED and world.why(job).reason is Reason.BACKING_OFF
        world.step(after=1)
        assert world.job_state(job) is S.RUNNING
    assert delays == [10, 20, 40, 80, 160, 320, 640, 1280, 1800, 1800, 1800, 1800]
    world.finish(job, 1)
    assert became(world, job) == (S.FAILED, Reason.FAILED)
    assert world.job(job).attempts == 13


def test_a_lost_attempt_that_cannot_resume_uses_up_a_retry() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 8, resumable=False, retries=1)
    world.finish(job, kind=X.LOST)
    world.advance(MINUTE)
    assert world.job_state(job) is S.RUNNING
    world.finish(job, kind=X.LOST)
    assert became(world, job) == (S.FAILED, Reason.EXECUTOR_LOST)


def test_a_lost_attempt_that_can_resume_uses_up_no_retry() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 8, resumable=True, retries=1)
    world.finish(job, kind=X.LOST)
    world.advance(MINUTE)
    world.finish(job, 1)
    assert world.job_state(job) is S.QUEUED


def test_an_hour_that_went_well_ends_a_row_of_failures() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 8, retries=5)
    for _ in range(3):
        world.finish(job, 1)
        world.advance(world.job(job).not_before - world.now)
    assert world.job(job).failures == 3
    world.advance(HOUR)
    world.finish(job, 1)
    assert world.job(job).not_before == world.now + 10 * SECOND


def test_an_eviction_is_no_failure() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 8, retries=0)
    for _ in range(3):
        world.evict(job)
        world.advance(5 * MINUTE)
        assert world.job_state(job) is S.RUNNING
    assert (world.job(job).evictions, world.job(job).failures, world.job(job).attempts) == (3, 0, 4)
    assert world.job(job).evictions_since_checkpoint == 3
    world.checkpoint(job)
    assert (world.job(job).evictions, world.job(job).evictions_since_checkpoint) == (3, 0)


def test_an_evicted_job_is_protected_anew_when_it_starts_again() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 8, min_runtime=HOUR)
    world.advance(3 * HOUR)
    world.evict(job)
    world.advance(5 * MINUTE)
    assert world.attempt(job).protected_until == world.now + HOUR


# ---- people


def in_state(state: JobState) -> tuple[World, int]:
    """A world with a job in that state. Queued ones wait for a host that somebody else holds."""
    world = World(hosts(1), auto_up=False, auto_release=False)
    past(world, ("lab/b", 600, OLD))
    if state in (S.QUEUED, S.CLAIMING):
        other = world.submit("lab/b", 8, min_runtime=5 * MINUTE)
        world.up(other)
        world.step(after=HOUR if state is S.CLAIMING else MINUTE)
    job = world.submit("lab/a", 8)
    if state in (S.RUNNING, S.STOPPING):
        world.up(job)
    if state is S.STOPPING:
        world.evict(job)
    assert world.job_state(job) is state
    return world, job


LIVE = [S.QUEUED, S.CLAIMING, S.STARTING, S.RUNNING, S.STOPPING]


@pytest.mark.parametrize("state", LIVE)
def test_cancelling_in_every_state(state: JobState) -> None:
    world, job = in_state(state)
    world.cancel(job)
    if state in (S.QUEUED, S.CLAIMING):
        assert became(world, job) == (S.CANCELLED, Reason.CANCELLED)
        assert len(world.made(ClaimDropped)) == (state is S.CLAIMING)
        return
    stop = world.made(Stopping)[-1].victim
    assert (stop.because.reason, stop.kill_at) == (Reason.CANCELLED, world.now + 30 * SECOND)
    world.cancel(job)  # again: nothing more
    assert len(world.made(Stopping)) == (2 if state is S.STOPPING else 1)
    world.step(after=5 * SECOND)
    world.finish(job, 0, done=True)
    assert became(world, job) == (S.CANCELLED, Reason.CANCELLED)
    world.cancel(job)
    assert len(world.made(JobEnded)) == 1


def test_cancelling_never_gives_more_time_than_is_left() -> None:
    world, job = in_state(S.STOPPING)  # evicted, to be killed in 5 minutes
    world.step(after=5 * MINUTE - 3 * SECOND)
    world.cancel(job)
    assert world.made(Stopping)[-1].victim.kill_at == world.now + 3 * SECOND


@pytest.mark.parametrize("state", LIVE)
def test_holding_and_releasing_in_every_state(state: JobState) -> None:
    world, job = in_state(state)
    world.hold(job)
    # What has GPUs keeps them; a claim has none yet.
    assert world.job_state(job) is (S.QUEUED if state is S.CLAIMING else state)
    if state in (S.QUEUED, S.CLAIMING):
        assert (world.why(job).reason, world.why(job).numbers) == (Reason.HELD_BY_PERSON, {"by": "ann"})
    else:
        world.evict(job)
        world.step(after=5 * MINUTE)
        world.finish(job, -9)
        assert world.job_state(job) is S.QUEUED and world.why(job).reason is Reason.HELD_BY_PERSON
    if state is S.CLAIMING:
        world.cancel(victims(world)[0])
        world.finish(victims(world)[0], -9)
    world.step(after=HOUR)
    assert world.job_state(job) is S.QUEUED
    world.release(job)
    assert world.job_state(job) is (S.CLAIMING if state is S.QUEUED else S.STARTING)


def test_a_job_may_be_held_from_its_submission_and_while_it_backs_off() -> None:
    world = World(hosts(1))
    event = world.queue("lab/a", 8, hold="bob", retries=1)
    world.step(event)
    job = event.job_id
    assert world.why(job).numbers == {"by": "bob"}
    world.release(job)
    world.finish(job, 1)
    world.hold(job)
    world.advance(MINUTE)
    assert world.job_state(job) is S.QUEUED
    world.release(job)
    assert world.job_state(job) is S.RUNNING


def test_releasing_does_not_shorten_backing_off() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 8, retries=1)
    world.finish(job, 1)
    world.hold(job)
    world.release(job)
    world.prioritise(job, 3)
    assert world.job_state(job) is S.QUEUED and world.why(job).reason is Reason.BACKING_OFF
    world.advance(10 * SECOND)
    assert world.job_state(job) is S.RUNNING


@pytest.mark.parametrize("state", LIVE)
def test_a_change_of_priority_in_every_state(state: JobState) -> None:
    world, job = in_state(state)
    world.prioritise(job, 7)
    assert world.job(job).spec.priority == 7 and world.job_state(job) is state


def test_a_change_of_priority_reorders_those_that_wait() -> None:
    world = World(hosts(1))
    runs = world.submit("lab/a", 8)
    first, second = world.submit("lab/a", 8), world.submit("lab/a", 8)
    world.prioritise(second, 1)
    world.finish(runs)
    assert world.running() == {second} and world.job_state(first) is S.QUEUED


def test_several_events_of_one_moment_happen_in_their_order() -> None:
    world = World(hosts(1))
    event = world.queue("lab/a", 8)
    job = event.job_id
    world.step(
        event,
        Held(world.now, job, "x"),
        PriorityChanged(world.now, job, 2, "x"),
        Released(world.now, job, "x"),
        CancelRequested(world.now, job, "x"),
    )
    assert became(world, job) == (S.CANCELLED, Reason.CANCELLED) and world.job(job).attempts == 0


def test_a_forced_eviction_may_hit_what_is_protected_and_is_recorded() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 8, min_runtime=8 * HOUR)
    world.advance(HOUR)
    world.evict(job)
    why = world.made(Stopping)[0].victim.because
    assert why.reason is Reason.EVICTED_BY_PERSON
    assert why.numbers == {"by": "op", "why": "test", "protected": 1}
    # Its promise is void at once, what it used stays charged.
    assert world.state.clusters["main"].ledger.account("lab/a").promised[Kind.CHARGED].at(world.now) == 0
    world.advance(5 * MINUTE)
    assert became(world, job) == (S.QUEUED, Reason.EVICTED_BY_PERSON)
    assert world.used_hours("lab/a") == pytest.approx(8 * (1 + 5 / 60))
    world.advance(9 * HOUR)
    world.evict(job)
    assert world.made(Stopping)[1].victim.because.numbers["protected"] == 0


def test_an_end_that_is_heard_of_late_is_charged_until_it_was() -> None:
    """Steps have followed it: what was decided stands, what is charged is what was used."""
    world = World(hosts(1), {"lab/a": 1.0})
    job = world.submit("lab/a", gpus=4)
    started = world.now
    world.advance(HOUR)
    ended = world.now
    world.step(after=MINUTE)
    world.step(AttemptExited(world.now, f"{job}.1", ExitKind.EXITED, (0,), ended_at=ended))
    assert [(span.start, span.end) for _, span in world.spans] == [(started, ended)]
    assert world.made(AttemptEnded)[-1].at == ended
    assert world.used_hours("lab/a") == 4
    assert world.made(JobEnded)[-1].at == ended + MINUTE
