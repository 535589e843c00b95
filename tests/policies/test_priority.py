"""Priority with per-team caps on protected GPUs and optional preemptibility, as tables of scenarios."""

from __future__ import annotations

import pytest
from policy_kit import Under

from support.world import hosts
from tenure.core.decisions import Claim, Start, Stop
from tenure.core.events import PauseScope
from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, SECOND, Cluster, HostState
from tenure.core.reasons import Reason
from tenure.policies.priority import HIGH, LOW, NORMAL, PriorityCaps

FREE = 0
"""The min_runtime of preemptible work."""


def under(count: int = 2, shares: dict[str, float] | None = None, **settings: int) -> Under:
    return Under(PriorityCaps(**settings), hosts(count), shares or {"lab/a": 0.5, "lab/b": 0.5})


def test_levels_come_first_then_age() -> None:
    world = under(1)
    blocks = world.submit("lab/a", 8, min_runtime=HOUR)
    low, normal, high, second = (
        world.submit("lab/a", 8, min_runtime=FREE, priority=p) for p in (LOW, NORMAL, HIGH, HIGH)
    )
    for _ in range(4):
        world.finish(world.placed()[-1])
    assert world.placed() == [blocks, high, second, normal, low]
    assert world.victims() == []


def test_what_does_not_fit_is_skipped() -> None:
    world = under(2)
    world.submit("lab/a", 8)
    gang = world.submit("lab/b", 8, replicas=2, min_runtime=FREE, priority=HIGH)
    small = world.submit("lab/b", 4, min_runtime=FREE, priority=LOW)
    assert world.placed()[1:] == [small]
    assert world.parked(gang) is Reason.WAITING_CAPACITY


# ---- caps: each of two teams has half of 32 GPUs


@pytest.mark.parametrize(
    ("settings", "running", "asks", "starts"),
    [
        ({}, (8, 4), 4, True),
        ({}, (8, 8), 1, False),
        ({}, (8, 4), 8, False),
        ({"cap_percent": 150}, (8, 8), 8, True),
        ({"cap_percent": 150}, (8, 8, 8), 1, False),
        ({"cap_percent": 0}, (4,), 4, True),  # never less than 8 GPUs
        ({"cap_percent": 0}, (4, 4), 1, False),
        ({"cap_percent": 0, "cap_least": 4}, (4,), 1, False),
        ({"cap_percent": 0, "cap_least": 4}, (), 8, True),  # larger than the cap, and nothing else runs
        ({"cap_percent": 0, "cap_least": 4}, (1,), 8, False),
    ],
)
def test_a_team_runs_protected_work_up_to_its_cap(
    settings: dict[str, int], running: tuple[int, ...], asks: int, starts: bool
) -> None:
    world = under(4, **settings)
    for gpus in running:
        world.submit("lab/a", gpus)
    other, preemptible = world.submit("lab/b", 1), world.submit("lab/a", 1, min_runtime=FREE)
    job = world.submit("lab/a", asks, priority=HIGH)
    assert {other, preemptible} <= world.running(), "others and preemptible work are not held back"
    assert (job in world.running()) == starts
    if not starts:
        assert world.parked(job) is Reason.WAITING_TEAM_CAP
        assert world.why(job).reason is Reason.WAITING_TEAM_CAP


def test_gpus_that_a_cap_keeps_idle_are_withheld() -> None:
    world = under(4)
    first, other = world.submit("lab/a", 8, replicas=2), world.submit("lab/b", 8)
    kept = [world.submit("lab/a", 2, user=user) for user in ("ann", "bob")]
    assert world.rules.withheld(world.state) == 4
    more = [world.submit("lab/a", 8), world.submit("lab/a", 8)]
    assert world.rules.withheld(world.state) == 8, "no more than there are"
    world.finish(other)
    assert not world.running().intersection(kept + more), "the end of another team's job does not help"
    assert world.rules.withheld(world.state) == 16
    world.finish(first)
    assert world.running() == {*kept, more[0]} and world.parked(more[1]) is Reason.WAITING_TEAM_CAP
    world.pause()
    assert world.rules.withheld(world.state) == 0, "what keeps it waiting is not its cap alone"


def test_a_job_starts_as_soon_as_just_enough_of_its_team_has_ended() -> None:
    world = under(4)
    kept, ends = world.submit("lab/a", 8), world.submit("lab/a", 4)
    job = world.submit("lab/a", 8)
    assert world.parked(job) is Reason.WAITING_TEAM_CAP
    world.finish(ends)
    assert world.running() == {kept, job}


def test_what_is_too_large_for_the_free_gpus_is_not_withheld() -> None:
    world = under(2)
    world.submit("lab/a", 8)
    world.submit("lab/b", 4)
    world.submit("lab/a", 8)
    assert world.rules.withheld(world.state) == 0


def test_caps_follow_the_healthy_gpus_and_count_clusters_apart() -> None:
    clusters = [Cluster("main", hosts(4)), Cluster("aux", hosts(4, prefix="x"))]
    world = Under(PriorityCaps(), clusters, {"lab/a": 0.5, "lab/b": 0.5})
    world.submit("lab/a", 8, replicas=2)
    second = world.submit("lab/a", 8)
    assert world.attempt(second).cluster == "aux", "the first cluster that can start it takes it"
    world.host("x3", HostState.FAILED)
    third = world.submit("lab/a", 8)  # half of 24 is 12
    assert world.job_state(third) is JobState.QUEUED
    world.host("x3", HostState.HEALTHY)
    assert world.attempt(third).cluster == "aux"


# ---- evictions: two hosts full of preemptible work


@pytest.mark.parametrize(
    ("running", "asks", "evicted"),
    [
        # (GPUs, level) in the order of their start; (GPUs, level) of who comes; who goes
        ([(8, LOW), (8, LOW)], (8, NORMAL), [1]),  # the one that was started last
        ([(8, LOW), (8, NORMAL)], (8, HIGH), [0]),  # LOW before NORMAL
        ([(8, NORMAL), (8, NORMAL)], (8, NORMAL), []),  # equals stay
        ([(8, HIGH), (8, HIGH)], (8, HIGH), []),
        ([(8, NORMAL), (8, HIGH)], (8, LOW), []),
        ([(4, LOW), (4, LOW), (4, LOW), (4, LOW)], (8, HIGH), [2, 3]),  # together on one host
        ([(8, LOW), (4, LOW), (4, LOW)], (4, HIGH), [2]),  # nobody more than needed
        ([(8, LOW), (2, NORMAL), (2, LOW), (4, HIGH)], (4, HIGH), [0]),  # rather all of one than some of two levels
        ([(4, LOW), (4, HIGH), (4, LOW), (4, HIGH)], (8, HIGH), []),  # a replica never spans hosts
    ],
)
def test_who_goes_for_whom(running: list[tuple[int, int]], asks: tuple[int, int], evicted: list[int]) -> None:
    world = under(2)
    there = []
    for gpus, level in running:
        there.append(world.submit("lab/a", gpus, min_runtime=FREE, priority=level))
        world.wait(MINUTE)
    job = world.submit("lab/b", asks[0], min_runtime=HOUR, priority=asks[1])
    assert sorted(world.victims()) == [there[i] for i in evicted]
    world.wait(5 * MINUTE)
    assert (world.job_state(job) is JobState.RUNNING) == bool(evicted)
    assert all(world.job_state(there[i]) is JobState.QUEUED for i in evicted)


def test_nothing_protected_is_evicted_however_low_and_long_it_runs() -> None:
    world = under(1)
    low = world.submit("lab/a", 8, min_runtime=15 * MINUTE, priority=LOW)
    high = world.submit("lab/b", 8, min_runtime=HOUR, priority=HIGH)
    world.wait(24 * HOUR)
    assert world.running() == {low} and world.parked(high) is Reason.WAITING_CAPACITY
    world.finish(low)
    assert world.running() == {high}


def test_an_eviction_says_why_and_leaves_the_grace_of_unallocated_work() -> None:
    world = under(1)
    low = world.submit("lab/a", 4, min_runtime=FREE, priority=LOW, grace=2 * MINUTE)
    normal = world.submit("lab/a", 4, min_runtime=FREE, priority=NORMAL, grace=4 * SECOND)
    high = world.submit("lab/b", 8, min_runtime=HOUR, priority=HIGH)
    first, second = world.evictions()
    assert [int(e.attempt_id[0]) for e in (first, second)] == [low, normal]
    assert first.because.reason is second.because.reason is Reason.EVICTED_LEVEL
    assert first.because.numbers == {"gainer": high, "gainer_priority": HIGH, "victim_priority": LOW}
    assert (first.warn_at, second.warn_at) == (world.now, world.now + 6 * SECOND)
    assert first.kill_at == second.kill_at == world.now + 10 * SECOND, "not what the job asks for, as it is more"
    assert first.gained + second.gained == 8 * 1000 * HOUR
    (plan,) = world.made(Claim)
    assert plan.because.numbers == {"victims": 2, "kill_at": first.kill_at}
    world.wait(10 * SECOND)
    assert world.job_state(high) is JobState.RUNNING


def test_gangs_evict_whole_hosts_and_start_whole() -> None:
    world = under(4)
    low = [world.submit("lab/a", 8, min_runtime=FREE) for _ in range(3)]
    gang = world.submit("lab/b", 8, replicas=3, min_runtime=FREE, priority=NORMAL)
    assert sorted(world.victims()) == low[1:]
    world.wait(5 * MINUTE)
    assert len(set(world.attempt(gang).hosts())) == 3 and world.job_state(gang) is JobState.RUNNING


def test_what_is_on_its_way_is_not_evicted_for_again() -> None:
    world = under(1)
    low = world.submit("lab/a", 8, min_runtime=FREE, priority=LOW)
    first = world.submit("lab/b", 1, min_runtime=HOUR, priority=HIGH)
    second = world.submit("lab/b", 1, min_runtime=HOUR, priority=HIGH)
    equal = world.submit("lab/a", 1, min_runtime=FREE, priority=LOW)
    assert world.victims() == [low]
    assert world.made(Claim)[1].victims == () and world.made(Claim)[1].leaving == (f"{low}.1",)
    assert world.parked(equal) is Reason.WAITING_CAPACITY, "it could not have evicted it"
    world.wait(5 * MINUTE)
    assert world.running() == {first, second, equal}


def test_preemptible_work_evicts_what_is_below_it() -> None:
    world = under(1)
    low = world.submit("lab/a", 8, min_runtime=FREE, priority=LOW)
    normal = world.submit("lab/a", 8, min_runtime=FREE, priority=NORMAL)
    world.wait(5 * MINUTE)
    assert world.running() == {normal}
    high = world.submit("lab/a", 8, min_runtime=FREE, priority=HIGH)
    world.wait(5 * MINUTE)
    assert world.running() == {high} and world.victims() == [low, normal]


def test_while_evictions_are_paused_nobody_goes() -> None:
    world = under(1)
    low = world.submit("lab/a", 8, min_runtime=FREE)
    world.pause(PauseScope.EVICTIONS)
    high = world.submit("lab/b", 8, priority=HIGH)
    assert world.running() == {low} and world.parked(high) is Reason.PAUSED_EVICTIONS
    world.resume(PauseScope.EVICTIONS)
    assert world.victims() == [low]


def test_under_pressure_the_lowest_level_gets_nothing() -> None:
    world = under(1)
    low = world.submit("lab/a", 8, min_runtime=FREE, priority=LOW)
    for _ in range(48):
        world.submit("lab/b", 8, min_runtime=FREE, priority=HIGH)
    world.wait(5 * MINUTE)
    ran: list[int] = []
    for _ in range(48):
        (running,) = world.running()
        ran.append(running)
        world.wait(HOUR)
        world.finish(running)
    assert low not in ran and len(set(ran)) == 48
    assert world.running() == {low}, "only when nobody else is left"


# ---- drains


def test_draining_hosts_are_emptied_of_what_is_preemptible() -> None:
    world = under(2)
    protected, preemptible = world.submit("lab/a", 4), world.submit("lab/a", 4, min_runtime=FREE)
    gang = world.submit("lab/b", 4, replicas=2, min_runtime=FREE)
    assert world.attempt(protected).hosts() == world.attempt(preemptible).hosts() == ["h0"]
    world.host("h0", HostState.DRAINING)
    assert world.victims() == [preemptible]
    (stop,) = world.made(Stop)
    assert stop.victim.because.reason is Reason.EVICTED_DRAIN
    assert stop.victim.kill_at == world.now + 10 * SECOND
    world.host("h1", HostState.DRAINING)
    assert world.victims() == [preemptible, gang]
    world.wait(24 * HOUR)
    assert world.running() == {protected}
    world.finish(protected)
    assert world.state.clusters["main"].on_host == {"h0": set(), "h1": set()}
    world.host("h1", HostState.HEALTHY)
    assert world.running() == {preemptible}


# ---- several clusters


def test_the_first_cluster_that_can_start_a_job_takes_it() -> None:
    clusters = [Cluster("main", hosts(1)), Cluster("aux", hosts(1, prefix="x"))]
    world = Under(PriorityCaps(), clusters, {"lab/a": 0.5, "lab/b": 0.5})
    wishes = [("aux", "main"), ("aux", "main"), ("main", "aux")]
    jobs = [world.submit("lab/a", 8, min_runtime=FREE, clusters=wish, grace=SECOND) for wish in wishes]
    assert [d.cluster for d in world.made(Start)] == ["aux", "main"]
    assert world.parked(jobs[2], "aux") is world.parked(jobs[2], "main") is Reason.WAITING_CAPACITY
    world.finish(jobs[0])
    assert world.attempt(jobs[2]).cluster == "aux"
    high = world.submit("lab/b", 8, priority=HIGH, clusters=("main", "aux"))
    assert world.victims() == [jobs[1]] and world.attempt(high).cluster == "main"


@pytest.mark.parametrize("settings", [{"cap_percent": -1}, {"cap_least": -1}])
def test_impossible_settings_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be 0 or more"):
        PriorityCaps(**settings)
