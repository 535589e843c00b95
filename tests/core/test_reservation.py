"""Rule 10: which hosts are held for a job in turn, what may run on them meanwhile, and by when the job starts."""

from __future__ import annotations

import pytest

from core.scenarios import (
    SHARES,
    SLACK,
    SOON,
    after_told,
    gang_of_two,
    placed,
    reserved,
    started_at,
    until,
    victims,
)
from support.world import T0, World, hosts
from tenure.core.decisions import Claim, Reserve
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import DAY, GPU, HOUR, MINUTE, Cluster, Policy
from tenure.core.reasons import Reason

# ---- the worked example


def test_a_gang_of_four_hosts_is_told_the_fourth_earliest_protection_end_and_others_use_its_hosts_meanwhile() -> None:
    world = World(hosts(5), SHARES, policy=Policy(reserved_percent=50))
    first, *_ = [world.submit("lab/b", min_runtime=h * HOUR) for h in (1, 2, 3, 4, 5)]
    gang = world.submit("lab/a", replicas=4)
    world.step(after=SOON)
    plan, told = reserved(world, gang), T0 + 4 * HOUR
    assert plan.hosts == ("h0", "h1", "h2", "h3")
    assert (plan.told, plan.starts_by) == (told, after_told(told))
    assert world.why(gang).reason is Reason.WAITING_RESERVATION
    assert world.why(gang).numbers["starts_by"] == after_told(told)
    assert world.used_hours("lab/a") == 0
    promised = world.state.clusters["main"].ledger.account("lab/a").promised[Kind.CHARGED].at(world.now)
    assert promised == 32 * GPU * HOUR

    world.finish(first)  # h0 is free and held
    free = world.submit("lab/c", min_runtime=0)
    assert world.attempt(free).hosts() == ["h0"]
    short = world.submit("lab/c", min_runtime=15 * MINUTE)
    assert victims(world) == [free]
    world.advance(MINUTE)
    assert world.attempt(short).hosts() == ["h0"]
    world.advance(15 * MINUTE)
    world.finish(short)
    long = world.submit("lab/c", min_runtime=3 * HOUR)
    assert world.attempt(long).hosts() == ["h0"]  # exposed again well before
    until(world, told - 1)
    assert world.job_state(gang) is JobState.QUEUED
    until(world, told + MINUTE)
    assert world.attempt(gang).hosts() == ["h0", "h1", "h2", "h3"]
    until(world, told + 10 * MINUTE)
    assert started_at(world, gang) == told + 5 * MINUTE  # one grace of those who ran exposed
    assert started_at(world, gang) <= plan.starts_by
    mine = [e for e in world.evictions() if e.gainer == gang]
    assert len(mine) == 4  # three of b and the long one; what is unallocated there has a reason of its own
    assert {e.because.reason for e in mine} == {Reason.EVICTED_RESERVED}


@pytest.mark.parametrize("min_runtime", [HOUR, 2 * HOUR])
@pytest.mark.parametrize("late", [0, 1])
def test_a_charged_job_starts_on_held_hosts_if_it_is_exposed_again_by_the_time_told(
    min_runtime: int, late: int
) -> None:
    world, _, told = gang_of_two()
    until(world, told - min_runtime - SLACK + late)
    job = world.submit("lab/c", min_runtime=min_runtime)
    assert (job in world.running()) == (not late)
    if late:
        because = world.why(job)
        assert because.reason is Reason.WAITING_RESERVED
        assert because.numbers["for"] == (("2", told),)


@pytest.mark.parametrize("late", [0, 1])
def test_a_short_contract_starts_on_held_hosts_until_the_time_told_and_not_after(late: int) -> None:
    world, gang, told = gang_of_two()
    until(world, told - 1)
    keeps_it = world.submit("lab/c", 4, min_runtime=15 * MINUTE)
    assert keeps_it in world.running()
    until(world, told + late)
    job = world.submit("lab/c", 4, min_runtime=15 * MINUTE)
    assert (job in world.running()) == (not late)
    until(world, told + HOUR)
    assert told + 15 * MINUTE <= started_at(world, gang) <= after_told(told)


def test_a_chain_of_14_minute_jobs_of_an_over_served_budget_does_not_keep_a_gang_out() -> None:
    world, gang, told = gang_of_two()
    job, chain = world.submit("lab/b", min_runtime=14 * MINUTE), 1
    while world.job_state(gang) is JobState.QUEUED:
        world.advance(MINUTE, tick=MINUTE)
        if job in world.running() and world.now >= (world.attempt(job).protected_until or 0):
            world.finish(job)
        if job not in world.state.jobs:
            job, chain = world.submit("lab/b", min_runtime=14 * MINUTE), chain + 1
    world.advance(10 * MINUTE)
    assert chain >= 20
    assert told <= started_at(world, gang) <= after_told(told)


@pytest.mark.parametrize(("share", "expected"), [(0.2, 2), (0.5, 3)])
def test_short_contracts_of_a_budget_hold_at_most_8_gpus_or_its_allocation_of_held_hosts(
    share: float, expected: int
) -> None:
    world = World(hosts(3), {"lab/a": 0.25, "lab/b": 0.25, "lab/c": share}, policy=Policy(reserved_percent=50))
    world.submit("lab/b", min_runtime=8 * HOUR)
    gang = world.submit("lab/a", replicas=3)
    world.step(after=SOON)
    assert world.job(gang).reservation is not None
    jobs = [world.submit("lab/c", 4, min_runtime=15 * MINUTE) for _ in range(4)]
    assert [job in world.running() for job in jobs] == [i < expected for i in range(4)]
    assert world.why(jobs[-1]).reason is Reason.WAITING_RESERVED
    world.finish(jobs[0])  # and its budget may hold that much again
    assert jobs[expected] in world.running()


def test_the_time_told_holds_when_everything_takes_as_long_as_it_may() -> None:
    """A short contract is let in at the last moment, by eviction; it comes up late; both graces are used up."""
    world = World(hosts(2), SHARES, auto_up=False, auto_release=False, policy=Policy(reserved_percent=50))
    busy = world.submit("lab/b", min_runtime=5 * HOUR)
    world.up(busy)
    gang = world.submit("lab/a", replicas=2)
    world.step(after=SOON)
    told = reserved(world, gang).told
    until(world, told - HOUR - SLACK)
    long = world.submit("lab/c", min_runtime=HOUR)
    world.up(long)
    until(world, told - 1)
    short = world.submit("lab/c", min_runtime=15 * MINUTE, priority=1)
    assert world.job_state(short) is JobState.CLAIMING
    world.advance(SLACK - 1)
    world.finish(long, 1)
    world.advance(15 * MINUTE - 1)
    world.up(short)
    world.advance(15 * MINUTE)
    assert world.job_state(gang) is JobState.CLAIMING
    world.advance(SLACK - 1)
    world.finish(busy, 1)
    world.finish(short, 1)
    assert started_at(world, gang) == after_told(told) - 4


def test_who_goes_already_when_the_time_has_come_is_waited_for_with_the_others() -> None:
    world, gang, told = gang_of_two()
    until(world, told - HOUR - SLACK)
    late = world.submit("lab/c", min_runtime=HOUR)
    until(world, told - MINUTE)
    world.evict(late)  # a grace of 5 min
    until(world, told)
    (claim,) = [plan for plan in world.made(Claim) if plan.job_id == gang]
    assert claim.leaving == (f"{late}.1",)
    assert [e.attempt_id for e in claim.victims] == ["1.1"]
    until(world, told + 10 * MINUTE)
    assert started_at(world, gang) == told + 5 * MINUTE


# ---- rule 7 in one budget, rule 14


@pytest.mark.parametrize("first", ["waiting", "running"])
def test_of_equals_in_one_budget_who_was_submitted_first_may_evict_with_a_reservation(first: str) -> None:
    world = World(hosts(2), SHARES, policy=Policy(reserved_percent=50))
    world.submit("lab/b", min_runtime=5 * HOUR)
    older = world.queue("lab/a", hold="ann" if first == "waiting" else "")
    world.step(older, after=1)
    younger = world.queue("lab/a", hold="ann" if first == "running" else "")
    world.step(younger, after=1)
    running, waiting = (younger, older) if first == "waiting" else (older, younger)
    until(world, T0 + 2 * HOUR)  # it runs exposed
    world.release(waiting.job_id)
    assert waiting.job_id not in placed(world)
    world.advance(SOON)
    if first == "running":
        assert running.job_id in world.running()
        return
    assert victims(world) == [running.job_id]
    assert world.evictions()[0].because.reason is Reason.EVICTED_RESERVED
    world.advance(2 * SOON)
    assert waiting.job_id in world.running()
    assert running.job_id not in world.running()


TWO = (Cluster("main", hosts(1)), Cluster("aux", hosts(1, prefix="x")))


@pytest.mark.parametrize(
    ("main", "aux", "order", "where"),
    [
        (5, 3, ("main", "aux"), "aux"),
        (3, 5, ("aux", "main"), "main"),
        (4, 4, ("main", "aux"), "main"),
        (4, 4, ("aux", "main"), "aux"),
    ],
)
def test_a_job_on_several_clusters_is_reserved_where_it_starts_earliest(
    main: int, aux: int, order: tuple[str, ...], where: str
) -> None:
    world = World(TWO, SHARES, policy=Policy(reserved_percent=100))
    world.submit("lab/b", min_runtime=main * HOUR, clusters=("main",))
    world.submit("lab/b", min_runtime=aux * HOUR, clusters=("aux",))
    job = world.submit("lab/a", clusters=order)
    world.step(after=SOON)
    (plan,) = world.made(Reserve)
    assert (plan.job_id, plan.cluster, plan.told) == (job, where, T0 + min(main, aux) * HOUR)
    other = "aux" if where == "main" else "main"
    assert not world.state.clusters[other].held
    second = world.submit("lab/a", clusters=order)  # there it is held now
    world.advance(SOON)
    assert reserved(world, second).cluster == other
    until(world, plan.told + 10 * MINUTE)
    assert world.attempt(job).cluster == where


def test_every_cluster_s_limit_counts_for_a_job_on_several() -> None:
    clusters = (Cluster("main", hosts(1)), Cluster("aux", hosts(2, prefix="x")))
    world = World(clusters, SHARES, policy=Policy(reserved_percent=50))
    world.submit("lab/b", min_runtime=5 * HOUR, clusters=("main",))
    for _ in range(2):
        world.submit("lab/b", min_runtime=3 * HOUR, clusters=("aux",))
    jobs = [world.submit("lab/a", clusters=("main", "aux")) for _ in range(3)]
    world.step(after=SOON)
    held = [world.job(job).reservation for job in jobs]
    assert [r.cluster if r is not None else "" for r in held] == ["aux", "main", ""]


# ---- no livelock


@pytest.mark.parametrize(
    "shares",
    [
        {"lab/a": 0.5, "lab/b": 0.5},
        {"lab/a": 0.25, "lab/b": 0.25, "lab/c": 0.25, "lab/d": 0.25},
        {"lab/a": 0.5, "lab/b": 0.5, "lab/a/x": 0.5, "lab/a/y": 0.5},
    ],
)
@pytest.mark.parametrize("margin", [10 * MINUTE, HOUR])
def test_equal_budgets_of_gangs_do_not_evict_each_other_in_turn(shares: dict[str, float], margin: int) -> None:
    """At most one eviction for each min_runtime and margin of the smallest gang."""
    world = World(hosts(4), shares, policy=Policy(reserved_percent=100, preemption_margin=margin))
    leaves = [path for path in shares if not any(other.startswith(path + "/") for other in shares)]
    for leaf in leaves:
        for replicas in (2, 3, 2, 3):
            world.submit(leaf, replicas=replicas, min_runtime=2 * HOUR)
    world.advance(DAY, tick=HOUR)
    hours = 4 * 8 * 24
    assert world.made(Reserve)
    assert 0 < len(world.evictions()) <= hours * HOUR // (16 * (2 * HOUR + margin))
    for eviction in world.evictions():  # none before it was exposed
        assert eviction.at_risk >= 16 * GPU * 2 * HOUR
