"""Rule 10: which hosts are held for a job in turn, what may run on them meanwhile, and by when the job starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.scenarios import placed, victims
from support.world import T0, World, hosts
from tenure.core.decisions import Claim, ReservationLost, Reserve, Unreserve
from tenure.core.events import PauseScope
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import DAY, GPU, HOUR, MINUTE, SECOND, Cluster, HostState, Policy
from tenure.core.reasons import Reason

SHARES = {"lab/a": 0.4, "lab/b": 0.4, "lab/c": 0.2}
SLACK = 5 * MINUTE + 30 * SECOND
"""The longest grace and the kill time-out."""
SOON = 5 * MINUTE
"""When passes look for jobs in turn."""


def after_told(told: int) -> int:
    """By when a job starts whose hosts are free at ``told``: short contracts, a start-up, two graces."""
    return told + 15 * MINUTE + 15 * MINUTE + 2 * SLACK


def reserved(world: World, job: int) -> Reserve:
    """The last reservation that the job was given."""
    return [plan for plan in world.made(Reserve) if plan.job_id == job][-1]


def started_at(world: World, job: int) -> int:
    at = world.job(job).first_started
    assert at is not None
    return at


def gang_of_two(hosts_count: int = 2, **policy: int) -> tuple[World, int, int]:
    """b's job is protected on h0 for 5 h; the other hosts are free and held for a's gang of all of them."""
    world = World(hosts(hosts_count), SHARES, policy=Policy(**policy))
    busy = world.submit("lab/b", min_runtime=5 * HOUR)
    gang = world.submit("lab/a", replicas=hosts_count)
    world.step(after=SOON)
    assert reserved(world, gang).told == T0 + 5 * HOUR
    assert world.attempt(busy).protected_until == T0 + 5 * HOUR
    return world, gang, T0 + 5 * HOUR


def until(world: World, at: int) -> None:
    world.advance(at - world.now, tick=HOUR)


# ---- the worked example


def test_a_gang_of_four_hosts_is_told_the_fourth_earliest_protection_end_and_others_use_its_hosts_meanwhile() -> None:
    world = World(hosts(5), SHARES)
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
    world = World(hosts(3), {"lab/a": 0.25, "lab/b": 0.25, "lab/c": share})
    world.submit("lab/b", min_runtime=8 * HOUR)
    gang = world.submit("lab/a", replicas=3)
    world.step(after=SOON)
    assert world.job(gang).reservation is not None
    jobs = [world.submit("lab/c", 4, min_runtime=15 * MINUTE) for _ in range(4)]
    assert [job in world.running() for job in jobs] == [i < expected for i in range(4)]
    assert world.why(jobs[-1]).reason is Reason.WAITING_RESERVED
    world.finish(jobs[0])  # and its budget may hold that much again
    assert jobs[expected] in world.running()


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


# ---- how much is held, and for whom


@pytest.mark.parametrize(("percent", "held"), [(0, 0), (25, 1), (50, 2), (100, 4)])
def test_no_more_is_held_once_the_limit_is_reached(percent: int, held: int) -> None:
    world = World(hosts(4), SHARES, policy=Policy(reserved_percent=percent))
    for _ in range(4):
        world.submit("lab/b", min_runtime=5 * HOUR)
    jobs = [world.submit("lab/a") for _ in range(4)]
    world.advance(20 * MINUTE)
    assert [world.job(job).reservation is not None for job in jobs] == [i < held for i in range(4)]
    assert world.state.clusters["main"].held_gpus == 8 * held


@pytest.mark.parametrize(
    ("policy", "held"),
    [
        (Policy(reserve_from=16), True),
        (Policy(reserve_from=17), False),
        (Policy(reserve_ahead=5 * HOUR - SOON), True),
        (Policy(reserve_ahead=5 * HOUR - SOON - 1), False),
    ],
)
def test_small_jobs_and_distant_times_get_no_reservation(policy: Policy, held: bool) -> None:
    world = World(hosts(2), SHARES, policy=policy)
    world.submit("lab/b", min_runtime=5 * HOUR)
    gang = world.submit("lab/a", replicas=2)
    world.step(after=SOON)
    assert (world.job(gang).reservation is not None) == held


@pytest.mark.parametrize(("timeout", "told"), [(None, None), (6 * HOUR, 6 * HOUR + SLACK)])
def test_who_may_not_be_evicted_is_bounded_by_its_timeout_alone(timeout: int | None, told: int | None) -> None:
    world = World(hosts(2), {"lab/a": 0.1, "lab/b": 0.9})
    busy = world.submit("lab/b", min_runtime=HOUR, timeout=timeout)
    gang = world.submit("lab/a", replicas=2)
    world.step(after=SOON)
    assert (world.job(gang).reservation is not None) == (told is not None)
    if told is None:
        return
    plan = reserved(world, gang)
    assert (plan.told, plan.bounded) == (T0 + told, (f"{busy}.1",))
    until(world, T0 + 6 * HOUR - 1)
    assert world.job_state(busy) is JobState.RUNNING
    until(world, T0 + told)
    assert T0 + 6 * HOUR <= started_at(world, gang) <= T0 + told


# ---- what makes it fall


def test_nothing_is_held_for_a_job_that_is_cancelled_or_held() -> None:
    world, gang, _ = gang_of_two()
    world.hold(gang)
    assert [lost.because.reason for lost in world.made(ReservationLost)] == [Reason.HELD_BY_PERSON]
    world.advance(10 * MINUTE)
    assert not world.state.clusters["main"].held
    world.release(gang)
    world.advance(10 * MINUTE)
    assert world.job(gang).reserved == 2
    world.cancel(gang)
    assert [lost.because.reason for lost in world.made(ReservationLost)][1:] == [Reason.CANCELLED]
    assert not world.state.clusters["main"].held
    world.submit("lab/c", min_runtime=8 * HOUR)
    assert len(world.running()) == 2


def test_nothing_is_held_while_starts_are_paused_and_what_is_held_stays() -> None:
    world = World(hosts(2), SHARES)
    world.submit("lab/b", min_runtime=5 * HOUR)
    world.pause(PauseScope.STARTS)
    gang = world.submit("lab/a", replicas=2)
    world.advance(10 * MINUTE)
    assert not world.made(Reserve)
    world.resume(PauseScope.STARTS)
    world.advance(10 * MINUTE)
    plan = reserved(world, gang)
    world.pause(PauseScope.STARTS)
    until(world, plan.starts_by + MINUTE)
    assert world.job_state(gang) is JobState.QUEUED
    world.resume(PauseScope.STARTS)
    assert world.job_state(gang) is JobState.CLAIMING


def test_nothing_is_held_for_a_budget_without_a_share() -> None:
    world, gang, _ = gang_of_two()
    world.configure({"lab/a": 0.0, "lab/b": 0.4, "lab/c": 0.6})
    world.advance(SOON)
    (plan,) = world.made(Unreserve)
    assert plan.because.reason is Reason.HELD_NO_SHARE
    assert not world.state.clusters["main"].held
    world.advance(HOUR)
    assert world.job(gang).reserved == 1
    world.configure(SHARES)
    world.advance(SOON)
    assert world.job(gang).reserved == 2


def test_nothing_is_held_for_a_job_that_backs_off() -> None:
    world = World(hosts(2), SHARES, policy=Policy(backoff_first=HOUR, backoff_max=HOUR))
    gang = world.submit("lab/a", replicas=2, retries=1)
    world.submit("lab/b", min_runtime=5 * HOUR)
    world.finish(gang, 1)
    world.advance(HOUR - 1)
    assert not world.made(Reserve)
    world.advance(SOON + 1)
    assert reserved(world, gang).at == T0 + HOUR + SOON


def test_a_lost_host_makes_the_reservation_anew_and_says_so() -> None:
    world = World(hosts(3), SHARES)
    world.submit("lab/b", min_runtime=5 * HOUR)
    world.submit("lab/b", min_runtime=6 * HOUR)
    gang = world.submit("lab/a", replicas=2)
    world.step(after=SOON)
    assert reserved(world, gang).hosts == ("h0", "h2")
    assert reserved(world, gang).told == T0 + 5 * HOUR
    world.host("h2", HostState.DRAINING)
    (lost,) = world.made(ReservationLost)
    assert lost.because.reason is Reason.RESERVED_HOST_LOST
    assert lost.because.numbers["host"] == "h2"
    assert world.job(gang).last == lost.because
    world.advance(SOON)
    assert reserved(world, gang).hosts == ("h0", "h1")
    assert reserved(world, gang).told == T0 + 6 * HOUR
    assert world.job(gang).first_starts_by == after_told(T0 + 5 * HOUR)


@pytest.mark.parametrize("change", ["removed", "smaller"])
def test_a_configuration_that_takes_or_changes_a_held_host_makes_the_reservation_anew_and_says_so(change: str) -> None:
    world = World(hosts(3), SHARES)
    world.submit("lab/b", min_runtime=8 * HOUR)
    gang = world.submit("lab/a", replicas=3)
    world.advance(SOON)
    assert reserved(world, gang).hosts == ("h0", "h1", "h2")
    (main,) = world.clusters
    kept = [host for host in main.hosts if host.name != "h2"]
    if change == "smaller":
        kept.append(replace(main.hosts[2], gpus=4))
    world.clusters = (replace(main, hosts=(*kept, *hosts(1, prefix="n"))),)
    world.configure()
    (lost,) = world.made(ReservationLost)
    assert (lost.because.reason, lost.because.numbers["host"]) == (Reason.RESERVED_HOST_LOST, "h2")
    world.advance(SOON)
    assert reserved(world, gang).hosts == ("h0", "h1", "n0")


def test_a_configuration_that_touches_no_held_host_keeps_the_reservation_and_a_move_takes_its_promise_along() -> None:
    world, gang, _ = gang_of_two()
    before = world.job(gang).reservation
    (main,) = world.clusters
    world.clusters = (replace(main, hosts=(*main.hosts, *hosts(1, gpus=4, prefix="n"))),)
    world.configure(SHARES | {"lab/d": 0.0})
    assert world.job(gang).reservation == before
    moved = [replace(b, path="lab/d", moved_from="lab/a") if b.path == "lab/a" else b for b in world.tree]
    world.configure(tree=tuple(b for i, b in enumerate(moved) if b.path != "lab/d" or i != len(moved) - 1))
    assert world.job(gang).reservation == before
    ledger = world.state.clusters["main"].ledger
    assert ledger.account("lab/d").promised[Kind.CHARGED].at(world.now) == 16 * GPU * HOUR
    assert ledger.account("lab/a").promised[Kind.CHARGED].at(world.now) == 0
    assert not world.made(ReservationLost)


def test_switching_reservations_off_lets_go_of_every_host_and_says_so() -> None:
    world, _, _ = gang_of_two()
    world.policy = Policy(reserved_percent=0)
    world.configure()
    assert [lost.because.reason for lost in world.made(ReservationLost)] == [Reason.RESERVATIONS_OFF]
    world.advance(HOUR)
    assert len(world.made(Reserve)) == 1
    world.submit("lab/c", min_runtime=8 * HOUR)
    assert len(world.running()) == 2


def test_a_job_that_came_later_and_sorts_before_it_displaces_it_and_an_older_one_does_not() -> None:
    world, gang, told = gang_of_two()
    world.prioritise(gang, 1)  # it keeps what it has
    assert world.job(gang).reservation is not None
    equal = world.submit("lab/a", replicas=2, priority=1)
    world.advance(SOON)
    assert world.job(equal).reservation is None
    urgent = world.submit("lab/a", replicas=2, priority=2)
    world.advance(SOON)
    (plan,) = world.made(Unreserve)
    assert (plan.job_id, plan.because.reason) == (gang, Reason.RESERVATION_DISPLACED)
    assert plan.because.numbers == {"by": urgent, "budget": "lab/a", "starts_by": after_told(told)}
    assert world.job(gang).reservation is None
    assert reserved(world, urgent).told == told
    world.prioritise(gang, 3)  # it was there before: nothing is taken from the other
    world.advance(2 * SOON)
    assert len(world.made(Unreserve)) == 1


# ---- rule 7 in one budget, rule 14


@pytest.mark.parametrize("first", ["waiting", "running"])
def test_of_equals_in_one_budget_who_was_submitted_first_may_evict_with_a_reservation(first: str) -> None:
    world = World(hosts(2), SHARES)
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
