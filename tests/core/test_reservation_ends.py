"""Rule 10: how much is held, for whom, and what makes a reservation fall."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.scenarios import (
    SHARES,
    SLACK,
    SOON,
    after_told,
    gang_of_two,
    reserved,
    started_at,
    until,
)
from support.world import T0, World, hosts
from tenure.core.decisions import ReservationLost, Reserve, Unreserve
from tenure.core.events import PauseScope, Released
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import GPU, HOUR, MINUTE, HostState, Policy
from tenure.core.reasons import Reason

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
        (Policy(reserved_percent=50, reserve_from=16), True),
        (Policy(reserved_percent=50, reserve_from=17), False),
        (Policy(reserved_percent=50, reserve_ahead=5 * HOUR - SOON), True),
        (Policy(reserved_percent=50, reserve_ahead=5 * HOUR - SOON - 1), False),
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
    world = World(hosts(2), {"lab/a": 0.1, "lab/b": 0.9}, policy=Policy(reserved_percent=50))
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
    world = World(hosts(2), SHARES, policy=Policy(reserved_percent=50))
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
    world = World(hosts(2), SHARES, policy=Policy(reserved_percent=50, backoff_first=HOUR, backoff_max=HOUR))
    gang = world.submit("lab/a", replicas=2, retries=1)
    world.submit("lab/b", min_runtime=5 * HOUR)
    world.finish(gang, 1)
    world.advance(HOUR - 1)
    assert not world.made(Reserve)
    world.advance(SOON + 1)
    assert reserved(world, gang).at == T0 + HOUR + SOON


def test_a_lost_host_makes_the_reservation_anew_and_says_so() -> None:
    world = World(hosts(3), SHARES, policy=Policy(reserved_percent=50))
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
    world = World(hosts(3), SHARES, policy=Policy(reserved_percent=50))
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


def test_a_senior_that_comes_back_as_the_reservation_is_made_takes_nothing() -> None:
    """It was there when hosts were held for the other, and alone it outranks nobody: taking them would help nobody."""
    policy = Policy(reserved_percent=100, reserve_from=16, reserve_margin_percent=0, preemption_margin=8 * HOUR)
    world = World(hosts(2), {"lab/a": 0.5, "lab/b": 0.5}, policy=policy)
    small = world.submit("lab/a", hold="ann")
    others = [world.submit("lab/b", min_runtime=HOUR) for _ in range(2)]
    world.advance(HOUR + 10 * MINUTE)
    assert world.running() == set(others)
    gang = world.queue("lab/a", replicas=2)
    world.step(gang, Released(world.now + SOON, small, "ann"), after=SOON)
    (made,) = world.made(Reserve)
    assert (made.job_id, made.told) == (gang.job_id, world.now)
    assert world.job(gang.job_id).attempt is not None  # its hosts were free to it at once
    assert not world.made(Unreserve)
    assert {evicted.because.reason for evicted in world.evictions()} == {Reason.EVICTED_RESERVED}
