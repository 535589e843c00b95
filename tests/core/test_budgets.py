"""Budgets that move, are granted time, lose their share, or have other shares on other clusters."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scenarios import entitled_hours
from support.world import World, budgets, hosts
from tenure.core.decisions import Claim, Start
from tenure.core.lifecycle import JobState
from tenure.core.model import DAY, HOUR, MINUTE, Budget, Cluster, Grant
from tenure.core.reasons import Reason
from tenure.core.state import protected


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


def test_time_without_a_share_counts_as_such_although_it_was_the_first_that_there_was() -> None:
    """Only what lies before the cluster's first record is filled in with today's share."""
    world = World(hosts(1), {"lab/a": 0.0, "lab/b": 1.0})
    world.advance(3 * DAY, tick=DAY)
    world.configure({"lab/a": 0.5, "lab/b": 0.5})
    assert entitled_hours(world, "lab/a") == 4 * 24 * 4  # 4 days filled in with 4 GPUs, 3 days of nothing
    assert entitled_hours(world, "lab/a", DAY) == 0
    assert entitled_hours(world, "lab/b") == 4 * 24 * 4 + 3 * 24 * 8
    world.advance(2 * DAY, tick=DAY)
    assert entitled_hours(world, "lab/a") == 2 * 24 * 4 + 2 * 24 * 4
    assert entitled_hours(world, "lab/a", DAY) == 24 * 4
    world.advance(5 * DAY, tick=DAY)
    assert entitled_hours(world, "lab/a") == 7 * 24 * 4


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
