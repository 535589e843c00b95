"""Arrays and dependencies: who is let into the queue, when, and who ends because others did."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from support import invariants
from support.world import T0, World, hosts
from tenure.core import codec, scheduler, snapshot
from tenure.core.decisions import JobEnded
from tenure.core.events import CancelRequested, Event, ExitKind, Held, Released, Submitted
from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, After, Array, Broken
from tenure.core.reasons import Because, Reason

S = JobState


def array(world: World, indices: tuple[int, ...], throttle: int = 0, gpus: int = 1, **more: object) -> list[int]:
    """Submit an array and return the ids of its jobs."""
    first = world.submit("lab/a", gpus, array=Array(indices, throttle), **more)
    return list(range(first, first + len(indices)))


def states(world: World, jobs: list[int]) -> str:
    """One letter a job: r(unning), q(ueued), and ended ones in capitals."""
    return "".join((state.value[0].upper() if state.ended else state.value[0]) for state in map(world.job_state, jobs))


# ---- arrays


def test_an_array_is_a_job_for_each_index() -> None:
    world = World(hosts(1))
    jobs = array(world, (3, 5, 9), user="bob")
    assert states(world, jobs) == "rrr"
    assert [(world.job(i).array, world.job(i).index, world.job(i).label) for i in jobs] == [
        (1, 3, "1_3"),
        (1, 5, "1_5"),
        (1, 9, "1_9"),
    ]
    assert world.submit("lab/b", 1) == 4
    for i in jobs:
        world.finish(i)
    assert not world.state.arrays and states(world, jobs) == "SSS"


def test_a_throttle_lets_in_so_many_at_a_time_lowest_index_first() -> None:
    world = World(hosts(1))
    jobs = array(world, (0, 1, 2, 3), throttle=2)
    assert states(world, jobs) == "rrqq"
    assert world.why(jobs[2]) == Because(Reason.WAITING_THROTTLE, {"array": 1, "throttle": 2})
    world.finish(jobs[1], 1)
    assert states(world, jobs) == "rFrq"
    world.cancel(jobs[3])
    world.finish(jobs[0])
    assert states(world, jobs) == "SFrC"


def test_a_requeue_keeps_the_place() -> None:
    world = World(hosts(1))
    jobs = array(world, (0, 1), throttle=1, retries=1)
    world.finish(jobs[0], 1)
    assert states(world, jobs) == "qq" and world.why(jobs[0]).reason is Reason.BACKING_OFF
    world.advance(MINUTE)
    assert states(world, jobs) == "rq"
    world.evict(jobs[0])
    world.advance(6 * MINUTE)
    assert states(world, jobs) == "rq" and world.job(jobs[0]).starts == 3
    world.finish(jobs[0])
    assert states(world, jobs) == "Sr"


def test_a_held_job_gives_its_place_away_and_asks_for_one_again() -> None:
    world = World(hosts(1), auto_up=False)
    blocker = world.submit("lab/b", 8)
    jobs = array(world, (0, 1, 2), throttle=1, gpus=8)
    world.hold(jobs[0])
    assert [world.job(i).behind for i in jobs] == [True, False, True]
    assert world.why(jobs[0]).reason is Reason.HELD_BY_PERSON
    world.release(jobs[0])
    assert world.why(jobs[0]).reason is Reason.WAITING_THROTTLE
    world.finish(blocker)
    assert world.job_state(jobs[1]) is S.STARTING
    world.finish(jobs[1])
    assert world.job_state(jobs[0]) is S.STARTING  # lower than 2, so first


def test_a_running_job_that_is_held_gives_its_place_away_when_it_is_back() -> None:
    world = World(hosts(1))
    jobs = array(world, (0, 1), throttle=1)
    world.hold(jobs[0])
    assert states(world, jobs) == "rq"
    world.evict(jobs[0])
    world.advance(6 * MINUTE)
    assert states(world, jobs) == "qr" and world.why(jobs[0]).reason is Reason.HELD_BY_PERSON
    world.release(jobs[0])
    world.finish(jobs[1])
    assert states(world, jobs) == "rS"


def test_an_array_submitted_held_is_let_in_as_it_is_released() -> None:
    world = World(hosts(1))
    jobs = array(world, (0, 1, 2), throttle=2, hold="ann")
    assert states(world, jobs) == "qqq"
    world.step(*(Released(world.now, i, "ann") for i in reversed(jobs)))
    assert states(world, jobs) == "qrr"  # the first to be released took the places


def test_cancelling_a_whole_array_in_one_step_starts_nothing() -> None:
    world = World(hosts(1))
    jobs = array(world, tuple(range(50)), throttle=3)
    world.step(*(CancelRequested(world.now, i, "ann") for i in jobs))
    world.advance(6 * MINUTE)
    assert states(world, jobs) == "C" * 50
    assert sum(world.job(i).starts for i in jobs) == 3 and not world.state.arrays and not world.state.places


# ---- dependencies


def ended(world: World, job: int, how: str) -> None:
    """Let a running job end in one of the ways there are."""
    if how == "succeeded":
        world.finish(job)
    elif how == "failed":
        world.finish(job, 3)
    elif how == "cancelled":
        world.cancel(job)
        world.advance(MINUTE)
    elif how == "lost":
        world.finish(job, kind=ExitKind.LOST)
    elif how == "timed_out":
        world.advance(2 * HOUR)
    else:
        world.evict(job)
        world.advance(6 * MINUTE)


@pytest.mark.parametrize(
    ("how", "ok", "any_way"),
    [
        ("succeeded", S.RUNNING, S.RUNNING),
        ("failed", S.CANCELLED, S.RUNNING),
        ("cancelled", S.CANCELLED, S.RUNNING),
        ("lost", S.CANCELLED, S.RUNNING),
        ("timed_out", S.CANCELLED, S.RUNNING),
        ("preempted", S.CANCELLED, S.RUNNING),
    ],
)
def test_what_an_end_means_for_those_that_wait(how: str, ok: JobState, any_way: JobState) -> None:
    world = World(hosts(1))
    first = world.submit("lab/a", 1, resumable=False, timeout=HOUR)
    wants = world.submit("lab/a", 1, after=(After(first, False, True),))
    takes = world.submit("lab/a", 1, after=(After(first, False, False),))
    assert world.why(wants) == Because(Reason.WAITING_DEPENDENCY, {"left": 1, "ok": (str(first),)})
    assert world.why(takes) == Because(Reason.WAITING_DEPENDENCY, {"left": 1, "any": (str(first),)})
    ended(world, first, how)
    assert (world.job_state(wants), world.job_state(takes)) == (ok, any_way)
    if ok is S.CANCELLED:
        state = world.job_state(first).value
        assert world.job(wants).last == Because(Reason.DEPENDENCY_FAILED, {"job": str(first), "state": state})
    assert not world.state.pending and not world.state.dependents


def test_a_requeue_is_no_end() -> None:
    world = World(hosts(1))
    first = world.submit("lab/a", 8)
    second = world.submit("lab/a", 8, after=(After(first, False, False),))
    world.evict(first)
    world.advance(6 * MINUTE)
    assert world.job(first).starts == 2 and world.why(second).reason is Reason.WAITING_DEPENDENCY
    world.finish(first)
    assert world.job_state(second) is S.RUNNING


def test_all_conditions_have_to_hold() -> None:
    world = World(hosts(1))
    a, b, c = (world.submit("lab/a", 1) for _ in range(3))
    after = (After(a, False, True), After(b, False, False), After(c, False, True))
    last = world.submit("lab/a", 1, after=after)
    world.finish(a)
    world.finish(b, 1)
    assert world.why(last) == Because(Reason.WAITING_DEPENDENCY, {"left": 1, "ok": (str(c),)})
    world.finish(c)
    assert world.job_state(last) is S.RUNNING


def test_a_chain_falls_whole_and_what_waits_for_any_end_goes_on() -> None:
    world = World(hosts(1))
    chain = [world.submit("lab/a", 1)]
    for _ in range(500):
        chain.append(world.submit("lab/a", 1, after=(After(chain[-1], False, True),)))
    cleanup = world.submit("lab/a", 1, after=(After(chain[-1], False, False),))
    world.finish(chain[0], 1)
    assert states(world, chain) == "F" + "C" * 500 and world.job_state(cleanup) is S.RUNNING
    assert world.job(chain[2]).last.numbers == {"job": str(chain[1]), "state": "cancelled"}
    assert [d.job_id for d in world.made(JobEnded)] == chain


def test_whoever_waits_may_be_held_and_cancelled() -> None:
    world = World(hosts(1))
    first = world.submit("lab/a", 1)
    held = world.submit("lab/a", 1, after=(After(first, False, True),))
    gone = world.submit("lab/a", 1, after=(After(first, False, True),))
    world.hold(held)
    world.cancel(gone)
    assert world.job(gone).last.reason is Reason.CANCELLED
    world.finish(first)
    assert world.why(held).reason is Reason.HELD_BY_PERSON
    world.release(held)
    assert world.job_state(held) is S.RUNNING
    again = world.submit("lab/a", 1, after=(After(held, False, True),))
    world.hold(again)
    world.release(again)
    assert world.why(again).reason is Reason.WAITING_DEPENDENCY


def test_waiting_for_an_array_waits_for_all_of_it() -> None:
    world = World(hosts(1))
    jobs = array(world, (0, 1, 2), throttle=1)
    ok = world.submit("lab/a", 1, after=(After(jobs[0], True, True),))
    first_only = world.submit("lab/a", 1, after=(After(jobs[0], False, True),))
    world.finish(jobs[0])
    assert world.job_state(first_only) is S.RUNNING and world.job_state(ok) is S.QUEUED
    world.finish(jobs[1])
    world.finish(jobs[2])
    assert world.job_state(ok) is S.RUNNING


def test_the_first_of_an_array_that_fails_decides_for_those_that_want_success() -> None:
    world = World(hosts(1))
    jobs = array(world, (4, 5, 6))
    ok = world.submit("lab/a", 1, after=(After(jobs[0], True, True),))
    any_way = world.submit("lab/a", 1, after=(After(jobs[0], True, False),))
    world.finish(jobs[1], 1)
    assert world.job(ok).last == Because(Reason.DEPENDENCY_FAILED, {"job": "1_5", "state": "failed"})
    late = world.submit("lab/a", 1, after=(After(jobs[0], True, True),))
    assert world.job(late).last == world.job(ok).last and world.job(late).state is S.CANCELLED
    world.finish(jobs[0])
    assert world.job_state(any_way) is S.QUEUED
    world.finish(jobs[2], 1)
    assert world.job_state(any_way) is S.RUNNING


def test_an_array_that_waits_keeps_its_throttle() -> None:
    world = World(hosts(1))
    first = world.submit("lab/a", 1)
    jobs = array(world, (0, 1, 2), throttle=2, after=(After(first, False, True),))
    assert {world.why(i).reason for i in jobs} == {Reason.WAITING_DEPENDENCY}
    world.cancel(jobs[0])
    world.hold(jobs[1])
    world.finish(first)
    assert states(world, jobs) == "Cqr"
    world.release(jobs[1])
    assert states(world, jobs) == "Crr"


def test_what_failed_before_cancels_at_once() -> None:
    world = World(hosts(1))
    event = Submitted(world.now, 7, world.spec("lab/a"), array=Array((0, 1)), broken=Broken("3", "failed"))
    world.next_id = 9
    world.step(event)
    assert states(world, [7, 8]) == "CC" and not world.state.arrays
    assert world.job(8).last == Because(Reason.DEPENDENCY_FAILED, {"job": "3", "state": "failed"})


# ---- what a restart brings back, and what it costs


def run(world: World) -> list[list[int]]:
    first = world.submit("lab/a", 1)
    jobs = array(world, (0, 1, 2, 3), throttle=2, after=(After(first, False, True),))
    last = world.submit("lab/b", 1, after=(After(jobs[0], True, False), After(jobs[1], False, True)))
    world.step(after=1)
    return [[first], jobs, [last]]


@pytest.mark.parametrize(
    "then",
    [
        lambda w, first, jobs, last: w.finish(first[0]),
        lambda w, first, jobs, last: w.finish(first[0], 1),
        lambda w, first, jobs, last: (w.hold(jobs[0]), w.finish(first[0])),
        lambda w, first, jobs, last: (w.finish(first[0]), w.hold(jobs[1]), w.prioritise(jobs[2], 3), w.finish(jobs[0])),
        lambda w, first, jobs, last: (w.finish(first[0]), w.finish(jobs[1], 1)),
        lambda w, first, jobs, last: (w.finish(first[0]), [w.finish(i) for i in jobs]),
    ],
)
def test_a_restart_at_any_moment_changes_nothing(then: Callable[..., object]) -> None:
    world = World(hosts(1))
    parts = run(world)
    before = len(world.log)
    twin = invariants.restored(invariants.saved(world.state), world.spans)
    then(world, *parts)
    for now, events, result in world.log[before:]:
        assert invariants.fingerprint(scheduler.step(twin, events, now)) == invariants.fingerprint(result)
        # Another restart after every step.
        twin = invariants.restored(invariants.saved(twin), world.spans)
    assert invariants.saved(twin) == invariants.saved(world.state)
    assert invariants.saved(invariants.check_replay(world.log)) == invariants.saved(world.state)


def test_a_snapshot_has_what_an_array_shares_once() -> None:
    world = World(hosts(1))
    jobs = array(world, tuple(range(1000)), throttle=1)
    world.prioritise(jobs[5], 9)
    data = invariants.saved(world.state)
    assert data.count('"command"') == 2 and len(data) < 1000 * 700
    back = invariants.restored(data, world.spans)
    assert back.jobs[jobs[7]].spec is back.jobs[jobs[8]].spec
    assert back.jobs[jobs[5]].spec.priority == 9 and back.jobs[jobs[7]].spec == world.job(jobs[7]).spec


def test_logs_and_snapshots_of_older_releases_are_read() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 1)
    plain = codec.tagged(world.queue("lab/a", 1))
    for name in ("array", "after", "broken"):
        del plain[name]
    event = codec.event(plain)
    assert isinstance(event, Submitted) and event.array is None and event.after == ()
    data = json.loads(invariants.saved(world.state))
    del data["arrays"], data["pending"]
    for saved in data["jobs"]:
        for name in ("array", "index", "behind"):
            del saved[name]
    state = snapshot.load(data, {})
    assert state.jobs[job].label == str(job)
    assert invariants.saved(state) == invariants.saved(world.state)


def test_what_waits_costs_a_pass_nothing() -> None:
    world = World(hosts(1))
    blocker = world.submit("lab/a", 8)
    first = world.next_id
    event = world.queue("lab/a", 8, array=Array(tuple(range(10_000)), 4))
    result = scheduler.step(world.state, (event,), world.now)
    assert not result.plans
    waiting = world.queue("lab/a", 8, array=Array(tuple(range(10_000))), after=(After(first, True, True),))
    scheduler.step(world.state, (waiting,), world.now)
    queued = [
        job
        for queue in world.state.clusters["main"].queues.values()
        for groups in queue.leaves.values()
        for group in groups.values()
        for jobs in group.people.values()
        for _, job in jobs
    ]
    assert queued == [first, first + 1, first + 2, first + 3] and blocker not in queued
    assert len(world.state.jobs) == 20_001


def test_events_of_one_moment_happen_in_their_order() -> None:
    world = World(hosts(1))
    first = world.queue("lab/a", 1)
    second = world.queue("lab/a", 1, after=(After(first.job_id, False, True),))
    events: tuple[Event, ...] = (
        first,
        second,
        Held(T0, second.job_id, "x"),
        CancelRequested(T0, first.job_id, "x"),
    )
    world.step(*events)
    assert states(world, [first.job_id, second.job_id]) == "CC"
