"""The worked examples of the rules, one test each, with their numbers."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scenarios import entitled_hours
from support.world import World, hosts
from tenure.core.decisions import AttemptEnded, Requeued
from tenure.core.events import HostStateChanged
from tenure.core.fairshare import Standing
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import DAY, GPU, HOUR, MINUTE, SECOND, HostState, Policy
from tenure.core.reasons import Reason
from tenure.core.state import protected


def standing(world: World) -> Standing:
    cluster = world.state.clusters[world.clusters[0].name]
    return Standing(cluster.ledger, world.state.the_tree(), world.policy, Kind.CHARGED, world.now)


def test_70_percent_of_50_percent_is_a_claim_of_35_percent() -> None:
    world = World(hosts(10), {"lab/language": 0.5, "lab/language/pretrain": 0.7, "lab/vision": 0.5})
    allocations = world.state.the_tree().allocations("main", 80, world.now)
    assert Fraction(allocations["lab/language/pretrain"], 10**12) == Fraction(35, 100)
    assert Fraction(allocations["lab/language/self"], 10**12) == Fraction(15, 100)
    # Whatever queues elsewhere: vision's demand changes nothing about it.
    for _ in range(30):
        world.submit("lab/vision")
    world.advance(10 * HOUR)
    assert entitled_hours(world, "lab/language/pretrain", 10 * HOUR) == 80 * 10 * Fraction(35, 100)


def test_ten_hours_on_8_gpus_read_7_days_4_hours_after_the_start_count_48_gpu_hours() -> None:
    world = World()
    job = world.submit("lab/a", 8)
    world.advance(10 * HOUR)
    world.finish(job)
    assert world.used_hours("lab/a") == 80
    world.advance(7 * DAY + 4 * HOUR - 10 * HOUR, tick=DAY)
    assert world.used_hours("lab/a") == 48
    assert world.used_hours("lab") == 48


def test_the_window_ends_exactly_at_7_days() -> None:
    world = World()
    job = world.submit("lab/a", 8)
    world.advance(HOUR)
    world.finish(job)
    account = world.state.clusters["main"].ledger.account("lab/a")
    world.step(after=7 * DAY - HOUR)  # now the span starts exactly at the edge: all of it counts
    assert account.usage(Kind.CHARGED, world.now - 7 * DAY, world.now) == 8 * GPU * HOUR
    world.step(after=1)
    assert account.usage(Kind.CHARGED, world.now - 7 * DAY, world.now) == 8 * GPU * (HOUR - 1)
    world.step(after=HOUR - 2)
    assert account.usage(Kind.CHARGED, world.now - 7 * DAY, world.now) == 8 * GPU
    world.step(after=1)
    assert account.usage(Kind.CHARGED, world.now - 7 * DAY, world.now) == 0


def test_min_runtime_2_h_that_runs_5_h_is_charged_5_h_protected_2_h_exposed_3_h() -> None:
    world = World()
    job = world.submit("lab/a", 8, min_runtime=2 * HOUR)
    exposed = 0
    for _ in range(5 * 60):
        world.step(after=MINUTE)
        attempt = world.attempt(job)
        # The minute that has just passed was exposed when its beginning was.
        exposed += not protected(attempt, world.now - MINUTE)
    assert exposed == 3 * 60
    world.finish(job)
    assert world.used_hours("lab/a") == 5 * 8
    assert world.used_hours("lab/a", Kind.UNALLOCATED) == 0


@pytest.mark.parametrize("first", ["lab/a", "lab/b"])
def test_two_equal_budgets_with_four_jobs_each_on_16_free_gpus_start_one_each(first: str) -> None:
    world = World(hosts(2))
    second = "lab/b" if first == "lab/a" else "lab/a"
    world.step(*(world.queue(path, 8) for path in (first,) * 4 + (second,) * 4))
    assert sorted(world.job(i).budget for i in world.running()) == ["lab/a", "lab/b"]


def test_a_debug_job_evicts_an_unallocated_one_although_its_budget_is_over_served() -> None:
    world = World(hosts(2), {"lab/a": 0.01, "lab/b": 0.99})
    first = world.submit("lab/a", 8, min_runtime=8 * HOUR)
    free = world.submit("lab/b", 8, min_runtime=0)
    world.advance(8 * HOUR, tick=HOUR)
    assert standing(world).figures("lab/a").ratio_ppm() > 1_000_000
    debug = world.submit("lab/a", 1, min_runtime=15 * MINUTE)
    assert world.job_state(debug) is JobState.CLAIMING
    assert [e.because.reason for e in world.evictions()] == [Reason.EVICTED_UNALLOCATED]
    assert world.job_state(free) is JobState.STOPPING
    assert world.job_state(first) is JobState.RUNNING
    world.advance(10 * SECOND)  # an unallocated attempt's grace
    assert world.job_state(debug) is JobState.RUNNING
    assert world.job_state(free) is JobState.QUEUED


def test_an_exposed_job_stays_because_nobody_outranks_it() -> None:
    world = World(hosts(1), {"lab/a": 0.75, "lab/b": 0.25})
    served = world.submit("lab/b", 8, min_runtime=HOUR)
    world.advance(2 * HOUR)
    world.finish(served)
    stays = world.submit("lab/a", 8, min_runtime=HOUR)
    world.advance(90 * MINUTE)
    assert not protected(world.attempt(stays), world.now)
    waits = world.submit("lab/b", 8)
    world.advance(90 * MINUTE)
    assert world.job_state(stays) is JobState.RUNNING
    assert world.evictions() == []
    because = world.why(waits)
    assert because.reason is Reason.WAITING_STANDING
    # a: 3 h x 8 = 24 GPU-hours of 75 % x 8 x 8 h (the floor of the entitlement) = 48; b: 16 of 16.
    assert because.numbers["first"] == "lab/a"
    assert because.numbers["first_recent_ppm"] == 24 * 10**6 // (24 * 6)
    assert because.numbers["second_recent_ppm"] == 16 * 10**6 // (24 * 2)


def test_a_raise_of_a_share_in_mid_window_counts_from_then_on() -> None:
    world = World(hosts(10), {"lab/a": 0.25, "lab/b": 0.5})
    world.advance(10 * DAY, tick=DAY)
    assert entitled_hours(world, "lab/a") == 80 * 168 / Fraction(4)
    world.configure({"lab/a": 0.5, "lab/b": 0.5})
    assert entitled_hours(world, "lab/a") == 80 * 168 / Fraction(4)  # nothing at once
    world.advance(3 * DAY, tick=DAY)
    assert entitled_hours(world, "lab/a") == 80 * (96 * Fraction(1, 4) + 72 * Fraction(1, 2))
    assert entitled_hours(world, "lab/self") == 80 * 96 * Fraction(1, 4)
    world.advance(4 * DAY, tick=DAY)
    assert entitled_hours(world, "lab/a") == 80 * 168 * Fraction(1, 2)


def test_before_the_first_record_todays_values_count() -> None:
    world = World(hosts(10), {"lab/a": 0.25})
    assert entitled_hours(world, "lab/a") == 80 * 168 * Fraction(1, 4)
    world.advance(DAY)
    world.configure({"lab/a": 0.5})
    # One recorded day at 25 %, the six days before it with what holds today.
    assert entitled_hours(world, "lab/a") == 80 * (24 * Fraction(1, 4) + 144 * Fraction(1, 2))


def test_a_share_that_was_0_gets_no_back_pay_when_it_is_raised() -> None:
    world = World(hosts(10), {"lab/a": 0.0, "lab/b": 0.5})
    world.advance(10 * DAY, tick=DAY)
    world.configure({"lab/a": 0.5, "lab/b": 0.5})
    assert entitled_hours(world, "lab/a") == 0
    world.advance(DAY, tick=DAY)
    assert entitled_hours(world, "lab/a") == 80 * 24 * Fraction(1, 2)


def test_a_host_drains_around_a_protection_of_3_hours() -> None:
    world = World(hosts(2))
    kept = world.submit("lab/a", 8, min_runtime=3 * HOUR)
    host = world.attempt(kept).hosts()[0]
    world.advance(HOUR)
    world.host(host, HostState.DRAINING)
    world.advance(2 * HOUR - 1)
    assert world.job_state(kept) is JobState.RUNNING and world.evictions() == []
    later = world.submit("lab/b", 8)
    assert world.attempt(later).hosts() != [host]  # no new attempts
    assert world.state.clusters["main"].healthy_gpus() == 16  # counts while it is occupied
    world.advance(1)
    assert [e.because.reason for e in world.evictions()] == [Reason.EVICTED_DRAIN]
    world.advance(5 * MINUTE)
    assert world.job_state(kept) is JobState.QUEUED
    assert world.state.clusters["main"].healthy_gpus() == 8
    world.step(after=1)
    assert entitled_hours(world, "lab/a", 1) * 2 == Fraction(8, HOUR)  # from then on 8 GPUs are to be shared


def test_a_team_that_was_idle_for_three_days_bursts_past_its_allocation() -> None:
    world = World(hosts(4), {"lab/a": 0.5, "lab/b": 0.5})
    for _ in range(12):
        world.submit("lab/b", 8, min_runtime=HOUR)
    world.advance(3 * DAY, tick=HOUR)
    assert world.used_hours("lab/b") == 3 * 24 * 32
    for _ in range(12):
        world.submit("lab/a", 8, min_runtime=HOUR)
    world.advance(12 * HOUR)
    # Its half of 32 GPUs would be 192 GPU-hours; it gets all but the grace of those it has evicted (5 min x 32).
    assert world.used_hours("lab/a", window=12 * HOUR) == pytest.approx(12 * 32 - 32 / 12)
    world.advance(12 * HOUR)
    # By then both have had half of the last day, give or take the margin of an 8-GPU job and what it runs over.
    assert world.used_hours("lab/a", window=DAY) == pytest.approx(24 * 16, abs=4 * 8)


def test_two_equal_budgets_do_not_evict_each_other_in_turn() -> None:
    world = World(hosts(1), {"lab/a": 0.5, "lab/b": 0.5})
    world.step(*(world.queue(path, 8, min_runtime=15 * MINUTE) for path in ("lab/a", "lab/b")))
    world.advance(2 * DAY)
    evictions = len(world.evictions())
    # A margin of 8 GPUs x 1 h on both sides: a turn takes 2 h of lead on top of catching up, not 15 minutes.
    assert 0 < evictions <= 2 * 24 / 2
    assert world.used_hours("lab/a") + world.used_hours("lab/b") == 2 * 24 * 8
    assert abs(world.used_hours("lab/a") - world.used_hours("lab/b")) <= 8 * 4


@pytest.mark.parametrize("min_runtime", [0, 15 * MINUTE], ids=["unallocated", "charged"])
def test_four_equal_budgets_with_short_contracts_evict_rarely_and_get_the_same(min_runtime: int) -> None:
    paths = ("lab/a", "lab/b", "lab/c", "lab/d")
    world = World(hosts(2), dict.fromkeys(paths, 0.25))
    sizes = (4, 1, 2, 8)
    events = [world.queue(path, gpus, min_runtime=min_runtime) for gpus in sizes * 2 for path in paths]
    world.step(*events)
    world.advance(12 * HOUR, tick=HOUR)
    delivered = 12 * 16
    kind = Kind.CHARGED if min_runtime else Kind.UNALLOCATED
    # Each eviction for 1 GPU or more swings a lead of at least 2 GPU-hours.
    assert len(world.evictions()) <= delivered / 2
    for path in paths:
        assert world.used_hours(path, kind) == pytest.approx(delivered / 4, rel=0.25)


def test_without_a_margin_they_would() -> None:
    world = World(hosts(1), policy=Policy(preemption_margin=0))
    world.step(*(world.queue(path, 8, min_runtime=15 * MINUTE) for path in ("lab/a", "lab/b")))
    world.advance(DAY)
    assert len(world.evictions()) > 24


def test_a_new_budget_gets_no_back_pay() -> None:
    world = World(hosts(10), {"lab/a": 0.5})
    world.advance(10 * DAY, tick=DAY)
    world.configure({"lab/a": 0.5, "lab/new": 0.5})
    assert entitled_hours(world, "lab/new") == 0
    floor = entitled_hours(world, "lab/new", floor=8 * HOUR)
    assert floor == 8 * 80 * Fraction(1, 2)  # 8 h of today's allocation, so that it can begin
    world.advance(DAY)
    assert entitled_hours(world, "lab/new") == 24 * 80 * Fraction(1, 2)
    assert entitled_hours(world, "lab/a") == 168 * 80 * Fraction(1, 2)


def test_deleted_and_made_anew_is_no_amnesty() -> None:
    world = World(hosts(10), {"lab/a": 0.5, "lab/b": 0.5})
    world.advance(8 * DAY, tick=DAY)
    job = world.submit("lab/a", 8)
    world.advance(DAY)
    world.finish(job)
    assert world.used_hours("lab/a") == 24 * 8
    world.configure({"lab/b": 0.5})
    world.advance(DAY)
    world.configure({"lab/a": 0.5, "lab/b": 0.5})
    assert world.used_hours("lab/a") == 24 * 8  # what it used still counts
    assert entitled_hours(world, "lab/a") == 6 * 24 * 40  # and for a day it was entitled to nothing
    assert entitled_hours(world, "lab/b") == 7 * 24 * 40


def test_a_host_failure_ends_at_once_and_credits_the_charge() -> None:
    world = World(hosts(2))
    job = world.submit("lab/a", 8, min_runtime=3 * HOUR)
    host = world.attempt(job).hosts()[0]
    world.advance(HOUR)
    world.checkpoint(job)
    world.advance(30 * MINUTE)
    assert world.used_hours("lab/a") == 12
    world.step(HostStateChanged(world.now, "main", host, HostState.FAILED, "check", "GPU lost"))
    assert world.used_hours("lab/a") == 8  # the half hour since its checkpoint is given back
    assert [d.because.reason for d in world.made(AttemptEnded)] == [Reason.HOST_FAILED]
    assert [d.because.reason for d in world.made(Requeued)] == [Reason.HOST_FAILED]
    assert world.job_state(job) is JobState.RUNNING  # whole, on the other host
    assert world.attempt(job).hosts() != [host]
