"""The worked examples of the rules, one test each, with their numbers."""

from __future__ import annotations

from fractions import Fraction

import pytest

from support.world import World, budgets, hosts
from tenure.core.decisions import AttemptEnded, Claim, Requeued, Start
from tenure.core.events import HostStateChanged
from tenure.core.fairshare import Standing
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import DAY, GPU, HOUR, MINUTE, SECOND, Budget, Cluster, Grant, HostState, Policy
from tenure.core.reasons import Reason
from tenure.core.state import protected


def entitled_hours(world: World, path: str, window: int = 7 * DAY, floor: int = 0) -> Fraction:
    """A node's entitlement over a window, in GPU-hours, exactly."""
    cluster = world.state.clusters[world.clusters[0].name]
    amount = cluster.ledger.entitlement(path, window, floor, world.now)
    return Fraction(amount, world.state.the_tree().denominator(path) * GPU * HOUR)


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


def test_a_moved_budgets_past_ages_out_where_it_was_charged() -> None:
    world = World(hosts(10), {"lab/p": 0.5, "lab/p/x": 0.5, "lab/q": 0.5})
    done = world.submit("lab/p/x", 8)
    world.advance(HOUR)
    world.finish(done)
    runs = world.submit("lab/p/x", 8, min_runtime=4 * HOUR)
    world.advance(HOUR)
    tree = tuple(b for b in budgets({"lab/p": 0.5, "lab/q": 0.5}))
    world.configure(tree=(*tree, Budget("lab/q/x", 500_000, moved_from="lab/p/x")))
    assert world.job(runs).budget == "lab/q/x"
    world.advance(2 * HOUR)
    assert world.used_hours("lab/p/x") == 8 + 8  # an hour of each job
    assert world.used_hours("lab/p") == 16
    assert world.used_hours("lab/q/x") == 2 * 8  # the running span was split at the move
    assert world.used_hours("lab/q") == 16
    assert world.used_hours("lab") == 32
    world.advance(HOUR)
    assert not protected(world.attempt(runs), world.now)  # the contract went with it: 4 h from its start
    world.finish(runs)
    assert [span.leaf for _, span in world.spans] == ["lab/p/x", "lab/p/x", "lab/q/x"]
    world.step(after=7 * DAY - 4 * HOUR - 30 * MINUTE)  # 7 days after the middle of the first hour
    assert world.used_hours("lab/p") == 8 + 4
    world.step(after=90 * MINUTE)
    assert world.used_hours("lab/p") == 0 and world.used_hours("lab/q") == 3 * 8


def test_a_move_that_stays_declared_happens_once() -> None:
    world = World(hosts(10), {"lab/p": 0.5, "lab/p/x": 0.5, "lab/q": 0.5})
    tree = budgets({"lab/p": 0.5, "lab/q": 0.5})
    moved = Budget("lab/q/x", 500_000, moved_from="lab/p/x")
    world.configure(tree=(*tree, moved))
    world.configure(tree=(*tree, Budget("lab/p/x", 500_000), moved))  # a new budget at the old place
    job = world.submit("lab/p/x", 8)
    world.configure()
    assert world.job(job).budget == "lab/p/x"


def test_a_grant_is_a_change_of_shares_for_its_period_and_ends_exactly() -> None:
    # 10 % of 80 GPUs for 100 h from two siblings with 40 % and 20 %: 800 GPU-hours.
    shares = {"lab/a": 0.2, "lab/b": 0.4, "lab/c": 0.2, "lab/d": 0.1}
    world = World(hosts(10), shares)
    start = world.now + 10 * HOUR
    world.grants = (Grant("lab/a", ("lab/b", "lab/c"), 800, "main", start, start + 100 * HOUR),)
    world.configure()
    tree = world.state.the_tree()
    before = {"a": 200_000, "b": 400_000, "c": 200_000, "d": 100_000, "self": 100_000}
    during = {"a": 300_000, "b": 333_334, "c": 166_666, "d": 100_000, "self": 100_000}
    for at, expected in ((-1, before), (0, during), (100 * HOUR - 1, during), (100 * HOUR, before)):
        found = tree.allocations("main", 80, start + at)
        assert {p: found[f"lab/{p}"] for p in expected} == pytest.approx(expected, abs=1), at
        assert sum(found[f"lab/{p}"] for p in expected) == 1_000_000
    world.advance(200 * HOUR, tick=DAY)
    # What the grant brought is 800 GPU-hours, to the last one, and its givers miss as much.
    assert entitled_hours(world, "lab/a", 200 * HOUR) == 200 * 80 * Fraction(2, 10) + 800
    given = sum(entitled_hours(world, p, 200 * HOUR) for p in ("lab/b", "lab/c"))
    assert given == 200 * 80 * Fraction(6, 10) - 800
    assert entitled_hours(world, "lab/d", 200 * HOUR) == 200 * 80 * Fraction(1, 10)


def test_a_grant_from_siblings_that_have_nothing_moves_nothing() -> None:
    world = World(hosts(10), {"lab/a": 0.5, "lab/b": 0, "lab/c": 0})
    world.grants = (Grant("lab/a", ("lab/b", "lab/c"), 80, "main", world.now, world.now + HOUR),)
    world.configure()
    assert entitled_hours(world, "lab/a", 1) * HOUR == 40


def test_a_grant_never_takes_more_than_there_is() -> None:
    world = World(hosts(10), {"lab/a": 0.5, "lab/b": 0.25})
    world.grants = (Grant("lab/a", ("lab/b",), 10_000, "main", world.now, world.now + HOUR),)
    world.configure()
    allocations = world.state.the_tree().allocations("main", 80, world.now)
    assert (allocations["lab/a"], allocations["lab/b"]) == (750_000, 0)


def test_a_grant_funds_a_budget_without_a_share_for_as_long_as_it_lasts() -> None:
    world = World(hosts(1), {"lab/a": 0, "lab/b": 1})
    job = world.submit("lab/a", 8, min_runtime=15 * MINUTE)
    assert world.why(job).reason is Reason.HELD_NO_SHARE
    start = world.now + HOUR
    world.grants = (Grant("lab/a", ("lab/b",), 4, "main", start, start + HOUR),)
    world.configure()
    world.advance(HOUR - 1)
    assert world.job_state(job) is JobState.QUEUED
    world.advance(1)
    assert world.job_state(job) is JobState.RUNNING
    world.advance(HOUR)
    late = world.submit("lab/a", 8)
    assert world.why(late).reason is Reason.HELD_NO_SHARE
    assert world.job_state(job) is JobState.RUNNING  # nothing stops because a share ends


def test_self_is_a_child_like_any_other() -> None:
    world = World(hosts(2), {"lab/a": 0.75, "lab/a/x": 0.5, "lab/b": 0.25})
    assert world.state.the_tree().leaf_of("lab/a") == "lab/a/self"
    world.step(*(world.queue(path, 8) for path in ("lab/a", "lab/a", "lab/a/x", "lab/a/x")))
    assert sorted(world.job(i).budget for i in world.running()) == ["lab/a", "lab/a/x"]
    assert world.used_hours("lab/a") == 0
    world.advance(HOUR)
    assert world.used_hours("lab/a/self") == world.used_hours("lab/a/x") == 8
    # A first child turns a leaf into an inner budget: its jobs are in `self` from then on.
    world.configure({"lab/a": 0.75, "lab/a/x": 0.5, "lab/a/x/deep": 0.5, "lab/b": 0.25})
    world.advance(HOUR)
    assert world.used_hours("lab/a/x") == 16
    assert world.used_hours("lab/a/x/self") == 8


def test_a_share_that_becomes_0_holds_queued_jobs_and_gives_them_back() -> None:
    world = World(hosts(1), {"lab/a": 0.5, "lab/b": 0.5})
    runs = world.submit("lab/a", 8, min_runtime=15 * MINUTE)
    waits = world.submit("lab/a", 8)
    free = world.submit("lab/a", 8, min_runtime=0)
    world.configure({"lab/a": 0, "lab/b": 0.5})
    because = world.why(waits)
    assert because.reason is Reason.HELD_NO_SHARE
    assert because.numbers == {"budget": "lab/a", "cluster": "main"}
    world.finish(runs)
    assert world.job_state(waits) is JobState.QUEUED
    assert world.job_state(free) is JobState.RUNNING  # unallocated work needs no share
    world.configure({"lab/a": 0.5, "lab/b": 0.5})
    world.advance(MINUTE)
    assert world.job_state(waits) is JobState.RUNNING


def test_shares_of_a_cluster_replace_the_share_there_alone() -> None:
    clusters = (Cluster("big", hosts(4)), Cluster("old", hosts(2, prefix="o")))
    tree = (Budget("lab", 1_000_000), Budget("lab/a", 500_000, (("old", 0),)), Budget("lab/b", 500_000))
    world = World(clusters, tree=tree)
    allocations = {c.name: world.state.the_tree().allocations(c.name, 32, world.now) for c in clusters}
    assert allocations["big"]["lab/a"] == 500_000 and allocations["big"]["lab/self"] == 0
    assert allocations["old"]["lab/a"] == 0 and allocations["old"]["lab/self"] == 500_000
    only_old = world.submit("lab/a", 8, clusters=("old",))
    both = world.submit("lab/a", 8, clusters=("old", "big"))
    assert world.why(only_old).reason is Reason.HELD_NO_SHARE
    assert world.attempt(both).cluster == "big"  # the first of its clusters that can start it


@pytest.mark.parametrize("order", [("aux", "main"), ("main", "aux")])
def test_the_first_cluster_of_a_job_that_can_start_it_takes_it(order: tuple[str, str]) -> None:
    world = World((Cluster("main", hosts(1)), Cluster("aux", hosts(1, prefix="x"))))
    jobs = [world.submit("lab/a", 8, clusters=order) for _ in range(3)]
    assert world.attempt(jobs[0]).cluster == order[0]
    assert world.attempt(jobs[1]).cluster == order[1]
    assert world.job_state(jobs[2]) is JobState.QUEUED
    world.finish(jobs[1])
    assert world.attempt(jobs[2]).cluster == order[1]
    assert len(world.made(Start)) == 3 and world.made(Claim) == []


def test_usage_and_shares_are_per_cluster() -> None:
    world = World((Cluster("main", hosts(1)), Cluster("aux", hosts(1, prefix="x"))), {"lab/a": 0.5, "lab/b": 0.5})
    used = world.submit("lab/a", 8, clusters=("aux",))
    world.advance(5 * HOUR)
    world.finish(used)
    assert world.used_hours("lab/a") == 0  # on main
    ready = [world.queue(path, 8, clusters=("main",)) for path in ("lab/a", "lab/b")]
    world.step(*ready)
    # On main both have used nothing, so the id decides; what a used on aux does not count here.
    assert world.running() == {ready[0].job_id}


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
