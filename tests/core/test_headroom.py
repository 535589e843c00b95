"""Rule 10's headroom: hosts kept for short contracts alone, by how much of them arrived lately."""

from __future__ import annotations

import pytest

from core.scenarios import RECENT, past, victims
from support.world import T0, World, hosts
from tenure.core.decisions import Headroom, Reserve, Stop
from tenure.core.events import CancelRequested
from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, HostState, Policy
from tenure.core.reasons import Reason

SHARES = {"lab/a": 0.4, "lab/b": 0.4, "lab/c": 0.2}
LOOK = 5 * MINUTE
SHORT = 15 * MINUTE
ALONE = Policy(headroom_percent=50, reserved_percent=0)


def kept(world: World) -> tuple[str, ...]:
    return world.state.clusters["main"].headroom


def full(count: int, policy: Policy, first: int = 8 * HOUR) -> tuple[World, list[int]]:
    """Hosts full of protected jobs of c, the first of them for a shorter time."""
    world = World(hosts(count), SHARES, policy=policy)
    jobs = [world.submit("lab/c", min_runtime=first if i == 0 else 8 * HOUR) for i in range(count)]
    return world, jobs


def arrive(world: World, count: int, gpus: int = 8) -> None:
    """Short contracts that come and are cancelled before they could start."""
    events = [world.queue("lab/a", gpus, min_runtime=SHORT) for _ in range(count)]
    world.step(*events)
    world.step(*(CancelRequested(world.now, event.job_id, "ann") for event in events))


@pytest.mark.parametrize(
    ("percent", "shorts", "gpus", "wanted", "hosts_kept"),
    [
        (0, 9, 4, 0, 0),
        (50, 0, 4, 0, 0),
        (50, 1, 1, 1, 1),  # half of it, rounded up
        (50, 1, 4, 2, 1),
        (50, 4, 4, 8, 1),
        (50, 5, 4, 10, 2),
        (50, 8, 4, 16, 2),
        (50, 20, 4, 16, 2),  # the limit: half of 32 GPUs
        (25, 20, 4, 8, 1),
        (20, 20, 4, 8, 1),
    ],
)
def test_half_of_what_arrived_in_the_last_hour_is_kept_up_to_the_limit(
    percent: int, shorts: int, gpus: int, wanted: int, hosts_kept: int
) -> None:
    world, _ = full(4, Policy(headroom_percent=percent, reserved_percent=0), first=2 * HOUR)
    world.submit("lab/a", min_runtime=HOUR)  # waits, and is not short
    arrive(world, shorts, gpus)
    world.step(after=LOOK)
    assert kept(world) == ("h0", "h1")[:hosts_kept]  # whose protection ends first
    if hosts_kept:
        (plan,) = world.made(Headroom)
        assert plan.because.numbers == {"wanted": wanted, "hosts": hosts_kept}
    world.advance(HOUR - LOOK - 1)
    assert len(kept(world)) == hosts_kept
    world.advance(1)  # an hour ago
    assert kept(world) == ()


def test_what_is_not_short_does_not_count() -> None:
    world, _ = full(4, ALONE)
    world.submit("lab/a", min_runtime=SHORT + 1)
    world.submit("lab/a", replicas=2, min_runtime=SHORT)
    world.submit("lab/a", min_runtime=0)
    world.advance(2 * LOOK)
    assert not world.made(Headroom)


def test_kept_hosts_let_in_short_contracts_and_unallocated_jobs_and_no_other_charged_ones() -> None:
    world, jobs = full(2, ALONE)
    arrive(world, 1)
    world.submit("lab/b", replicas=2)  # something waits
    world.step(after=LOOK)
    assert kept(world) == ("h0",)
    world.finish(jobs[0])
    long = world.submit("lab/a", min_runtime=HOUR)
    assert world.job_state(long) is JobState.QUEUED
    assert world.why(long).reason is Reason.WAITING_RESERVED
    free = world.submit("lab/a", min_runtime=0)
    assert world.attempt(free).hosts() == ["h0"]
    short = world.submit("lab/a", min_runtime=SHORT)
    assert victims(world) == [free]
    world.advance(MINUTE)
    assert world.attempt(short).hosts() == ["h0"]
    world.finish(short)
    world.advance(2 * HOUR)  # none have arrived lately
    assert world.attempt(long).hosts() == ["h0"]


@pytest.mark.parametrize(("shorts", "cleared"), [(1, False), (2, True)])
def test_what_runs_exposed_is_cleared_only_while_less_than_wanted_is_ready(shorts: int, cleared: bool) -> None:
    world = World(hosts(2), SHARES, policy=ALONE)
    half = world.submit("lab/b", 4, min_runtime=HOUR)
    world.submit("lab/c", min_runtime=8 * HOUR)
    world.submit("lab/b", replicas=2)
    assert world.attempt(half).hosts() == ["h0"]
    world.advance(50 * MINUTE)
    arrive(world, shorts)  # 4 GPUs each are wanted, and 4 are free
    world.advance(10 * MINUTE - 1)
    assert kept(world) == ("h0",)
    assert not world.evictions()  # it is protected
    world.advance(1)
    stops = world.made(Stop)
    assert [stop.victim.attempt_id for stop in stops] == ([f"{half}.1"] if cleared else [])
    if cleared:
        assert stops[0].victim.because.reason is Reason.EVICTED_HEADROOM
        assert stops[0].victim.because.numbers == {"hosts": 1, "wanted": 8}
    world.advance(10 * MINUTE)
    assert (world.job_state(half) is JobState.RUNNING) == (not cleared)


@pytest.mark.parametrize("arrived", [0, 1])
def test_a_short_contract_may_evict_what_runs_exposed_on_kept_hosts_whoever_it_is(arrived: int) -> None:
    world = World(hosts(2), SHARES, policy=ALONE)
    past(world, ("lab/a", 200, RECENT))  # over-served: it outranks nobody
    first, _ = [world.submit("lab/b", min_runtime=58 * MINUTE) for _ in range(2)]
    world.submit("lab/b", replicas=2)
    world.advance(50 * MINUTE)
    arrive(world, arrived)
    world.advance(9 * MINUTE)
    assert kept(world) == ("h0",)[:arrived]
    short = world.submit("lab/a", min_runtime=SHORT)
    assert [e.attempt_id for e in world.evictions()] == [f"{first}.1"][:arrived]
    for eviction in world.evictions():
        assert (eviction.gainer, eviction.because.reason) == (short, Reason.EVICTED_HEADROOM)


def test_a_reservation_takes_kept_hosts_like_any_other() -> None:
    policy = Policy(headroom_percent=50, reserved_percent=100)
    world, jobs = full(2, policy, first=HOUR)
    arrive(world, 1)
    world.submit("lab/a", 4)  # waits, and is too small to hold anything
    world.step(after=LOOK)
    gang = world.submit("lab/b", min_runtime=HOUR)
    world.advance(2 * LOOK)
    assert kept(world) == ("h0",)
    (plan,) = world.made(Reserve)
    assert (plan.job_id, plan.hosts, plan.told) == (gang, ("h0",), T0 + HOUR)
    world.advance(T0 + HOUR + 6 * MINUTE - world.now)
    assert victims(world) == [jobs[0]]
    assert world.attempt(gang).hosts() == ["h0"]


def test_a_kept_host_that_drains_is_replaced() -> None:
    world, _ = full(3, ALONE)
    arrive(world, 1)
    world.submit("lab/b", replicas=3)
    world.advance(LOOK)
    assert kept(world) == ("h0",)
    world.host("h0", HostState.DRAINING)
    world.advance(LOOK)
    assert kept(world) == ("h1",)


def test_headroom_that_is_switched_off_lets_everybody_in() -> None:
    world, jobs = full(2, ALONE)
    arrive(world, 1)
    world.submit("lab/b", replicas=2)
    world.step(after=LOOK)
    world.finish(jobs[0])
    long = world.submit("lab/a", min_runtime=HOUR)
    assert world.job_state(long) is JobState.QUEUED
    world.policy = Policy(headroom_percent=0, reserved_percent=0)
    world.configure()
    assert kept(world) == ()
    assert world.attempt(long).hosts() == ["h0"]


def test_headroom_keeps_nobody_out_who_could_not_run_without_its_hosts() -> None:
    world, jobs = full(2, ALONE)
    arrive(world, 1)
    gang = world.submit("lab/b", replicas=2, min_runtime=HOUR)  # the whole cluster
    world.step(after=LOOK)
    assert kept(world) == ("h0",)
    for job in jobs:
        world.finish(job)
    world.advance(MINUTE)
    assert world.attempt(gang).hosts() == ["h0", "h1"]
