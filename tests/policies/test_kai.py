"""KAI Scheduler's time-based fair share over simulated clusters, as scenarios."""

from __future__ import annotations

import re

import pytest
from policy_kit import Under

from support.world import hosts
from tenure.core.events import PauseScope
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import DAY, HOUR, MINUTE
from tenure.core.reasons import Reason
from tenure.policies import by_name, kai_usage
from tenure.policies.base import Setting
from tenure.policies.kai_reclaim import Fair, may_lose, stays_lower

SHARES = {"lab/a": 0.5, "lab/b": 0.5}
FREE = 0


def under(count: int = 2, shares: dict[str, float] | None = None, **settings: Setting) -> Under:
    return Under(by_name("kai", **settings), hosts(count), shares or SHARES)


# ---- reclaimable_test.go: "Single department" and "Multiple departments"; what p1 needs is 1 GPU, and p2 loses 1


@pytest.mark.parametrize(
    ("mine", "held", "theirs", "left", "goes"),
    [
        (Fair(3, 3), 2, Fair(2, 2), 3, True),  # reclaimer is below fair share, reclaimee above fair share
        (Fair(3, 3), 2, Fair(2, 2), 2, False),  # reclaimer below fair share, reclaimee exactly at fair share
        (Fair(3, 3), 2, Fair(2, 2), 1, False),  # reclaimer and reclaimee are below fair share
        (Fair(3, 3), 2, Fair(3, 2), 3, True),  # reclaimer below deserved, reclaimee above deserved within fair share
        (Fair(3, 3), 3, Fair(2, 2), 3, False),  # reclaimer at fair share, reclaimee above fair share
        (Fair(3, 3), 1, Fair(4, 2), 3, True),  # departments: below deserved; above deserved but within fair share
        (Fair(3, 3), 2, Fair(4, 2), 2, False),  # departments: the reclaimee goes below what it deserves
    ],
)
def test_who_may_lose_a_gpu_to_whom(mine: Fair, held: int, theirs: Fair, left: int, goes: bool) -> None:
    found = may_lose(mine, held + 1, theirs, left) and stays_lower(mine.share, held + 1, theirs.share, left - 1)
    assert found is goes


# ---- order, quotas


def test_queues_below_their_quota_come_first_then_who_has_least_of_what_he_may_have() -> None:
    world = under(4, {"lab/a": 0.5, "lab/b": 0.25, "lab/c": 0.25})
    world.pause()
    jobs = [world.submit(f"lab/{leaf}", 8) for leaf in "bbaaac"]
    world.resume()
    # With a host a would have half of its quota, b and c all of theirs. With another one so would a, which holds one.
    assert world.placed() == [jobs[2], jobs[0], jobs[5], jobs[3]]
    assert world.parked(jobs[1]) is Reason.WAITING_CAPACITY


def test_who_fits_starts_whatever_the_quota() -> None:
    world = under(4)
    jobs = [world.submit("lab/a", 8) for _ in range(4)]
    assert world.running() == set(jobs)


def test_a_queue_takes_back_its_quota_and_in_quota_nobody_goes() -> None:
    world = under(4)
    there = [world.submit("lab/a", 8) for _ in range(4)]
    world.wait(HOUR)
    mine = [world.submit("lab/b", 8) for _ in range(3)]
    assert world.victims() == [there[3], there[2]], "who came last goes first"
    world.wait(20 * MINUTE)
    assert world.running() == {*there[:2], *mine[:2]}
    assert world.evictions()[0].because.numbers == {"gainer": mine[0], "first": "lab/b", "second": "lab/a"}
    world.wait(2 * DAY)
    assert len(world.victims()) == 2, "what is in quota is nobody else's, whoever has used what"


def test_nobody_goes_before_the_minimum_runtime() -> None:
    world = under(reclaim_min_runtime=2 * HOUR)
    there = [world.submit("lab/a", 8) for _ in range(2)]
    world.wait(HOUR)
    mine = world.submit("lab/b", 8)
    world.wait(50 * MINUTE)
    assert world.victims() == []
    world.wait(20 * MINUTE)
    assert world.victims() == [there[1]]
    world.wait(10 * MINUTE)
    assert world.running() == {there[0], mine}


@pytest.mark.parametrize("safe", ["lab/a", "lab/b"])
def test_the_attempts_of_one_queue_are_safe_for_four_hours_and_those_of_another_are_not(safe: str) -> None:
    shares = {"lab/a": 0.25, "lab/b": 0.25, "lab/c": 0.5}
    world = under(4, shares, reclaim_min_runtime=HOUR, reclaim_min_runtime_of=((safe, 4 * HOUR),))
    there = {leaf: [world.submit(leaf, 8) for _ in range(2)] for leaf in ("lab/a", "lab/b")}
    other = next(leaf for leaf in there if leaf != safe)
    mine = [world.submit("lab/c", 8) for _ in range(2)]
    world.wait(50 * MINUTE)
    assert world.victims() == []
    world.wait(2 * HOUR)
    assert world.victims() == [there[other][1]], "what is in quota stays"
    world.wait(HOUR)
    assert world.victims() == [there[other][1]]
    world.wait(20 * MINUTE)
    assert world.victims() == [there[other][1], there[safe][1]]
    world.wait(20 * MINUTE)
    assert world.running() == {there[safe][0], there[other][0], *mine}


@pytest.mark.parametrize(("method", "hours"), [("lca", 1), ("queue", 4)])
def test_what_a_queue_has_of_its_own_holds_towards_others_further_away_only_by_queue(method: str, hours: int) -> None:
    """The purpose of lca by KAI's page: what is set within a budget binds its own queues, not those beside it."""
    shares = {"lab/p": 0.5, "lab/p/x": 0.5, "lab/p/y": 0.5, "lab/q": 0.5}
    own = (("lab/p", HOUR), ("lab/p/x", 4 * HOUR))
    world = under(2, shares, reclaim_min_runtime_of=own, reclaim_resolve_method=method)
    of_x = [world.submit("lab/p/x", 8) for _ in range(2)]
    world.submit("lab/q", 8)
    world.wait(hours * HOUR - 10 * MINUTE)
    assert world.victims() == []
    world.wait(20 * MINUTE)
    assert world.victims() == [of_x[1]]


def test_between_queues_of_a_budget_its_own_value_holds() -> None:
    shares = {"lab/p": 1.0, "lab/p/x": 0.5, "lab/p/y": 0.5}
    world = under(2, shares, reclaim_min_runtime_of=(("lab/p", HOUR), ("lab/p/x", 4 * HOUR)))
    of_x = [world.submit("lab/p/x", 8) for _ in range(2)]
    world.submit("lab/p/y", 8)
    world.wait(4 * HOUR - 10 * MINUTE)
    assert world.victims() == []
    world.wait(20 * MINUTE)
    assert world.victims() == [of_x[1]]


def test_within_a_queue_its_own_minimum_runtime_holds() -> None:
    own = (("lab", 2 * HOUR), ("lab/b", 0))
    world = under(2, preempt_min_runtime=DAY, preempt_min_runtime_of=own)
    low = {leaf: world.submit(leaf, 8) for leaf in SHARES}
    for leaf in SHARES:
        world.submit(leaf, 8, priority=1)
    assert world.victims() == [low["lab/b"]]
    world.wait(2 * HOUR - 10 * MINUTE)
    assert world.victims() == [low["lab/b"]]
    world.wait(20 * MINUTE)
    assert world.victims() == [low["lab/b"], low["lab/a"]]


def test_between_budgets_it_is_decided_where_their_ways_part() -> None:
    shares = {"lab/p": 0.5, "lab/p/x": 0.5, "lab/p/y": 0.5, "lab/q": 0.5}
    world = under(4, shares)
    of_x = [world.submit("lab/p/x", 8) for _ in range(4)]
    of_y = world.submit("lab/p/y", 8)
    assert world.victims() == [of_x[3]], "x has more than half of what p has"
    world.wait(20 * MINUTE)
    of_q = [world.submit("lab/q", 8) for _ in range(2)]
    world.wait(20 * MINUTE)
    assert world.running() == {of_x[0], of_y, *of_q}


def test_gangs_reclaim_whole_or_not_at_all() -> None:
    world = under(4)
    there = [world.submit("lab/a", 8) for _ in range(4)]
    too_large = world.submit("lab/b", 8, replicas=3)
    assert world.victims() == [], "it would have more than its fair share"
    gang = world.submit("lab/b", 8, replicas=2)
    assert sorted(world.victims()) == there[2:]
    world.wait(20 * MINUTE)
    assert gang in world.running() and world.job_state(too_large) is JobState.QUEUED


# ---- within a queue


def test_within_a_queue_charged_jobs_preempt_unallocated_ones_and_higher_priorities_lower_ones() -> None:
    world = under(2, {"lab/a": 1.0}, preempt_min_runtime=HOUR)
    free = [world.submit("lab/a", 8, min_runtime=FREE, priority=2) for _ in range(2)]
    low = world.submit("lab/a", 8)
    world.wait(50 * MINUTE)
    assert world.victims() == []
    world.wait(20 * MINUTE)
    assert world.victims() == [free[1]]
    assert world.evictions()[0].because.reason is Reason.EVICTED_UNALLOCATED
    high = world.submit("lab/a", 8, priority=1)
    world.wait(20 * MINUTE)
    assert world.running() == {low, high}
    higher = world.submit("lab/a", 8, priority=2)
    world.wait(2 * HOUR)
    assert world.victims()[2:] == [low] and world.running() == {high, higher}
    assert world.evictions()[2].because.numbers == {"gainer": higher, "gainer_priority": 2, "victim_priority": 0}


def test_equals_do_not_preempt_each_other() -> None:
    world = under(1, {"lab/a": 1.0})
    first = world.submit("lab/a", 8)
    world.submit("lab/a", 8)
    world.wait(DAY)
    assert world.running() == {first} and world.victims() == []


def test_while_evictions_are_paused_nobody_goes() -> None:
    world = under(1)
    first = world.submit("lab/a", 8, min_runtime=FREE)
    world.pause(PauseScope.EVICTIONS)
    world.submit("lab/a", 8)
    assert world.victims() == []
    world.resume(PauseScope.EVICTIONS)
    assert world.victims() == [first]


# ---- past usage


@pytest.mark.parametrize(("k_percent", "half"), [(0, False), (1_000, True)])
def test_two_queues_that_each_want_everything_take_turns_under_k_only(k_percent: int, half: bool) -> None:
    """The example of KAI's page: 16 GPUs, no quotas, equal weights, jobs of 16 GPUs."""
    world = under(2, k_percent=k_percent, quota_percent=0, reclaim_min_runtime=HOUR)
    for leaf in ("lab/a", "lab/b"):
        world.submit(leaf, 8, replicas=2)
    world.wait(6 * DAY)
    hours = [world.used_hours(leaf) for leaf in ("lab/a", "lab/b")]
    assert sum(hours) > 15.5 * 6 * 24
    if half:
        assert 0.45 < hours[0] / sum(hours) < 0.55 and len(world.victims()) > 3
    else:
        assert hours[1] == 0 and world.victims() == [], "each has a fair share of half a job"


def test_weights_say_how_long_the_turns_are() -> None:
    world = under(2, {"lab/a": 0.75, "lab/b": 0.25}, k_percent=1_000, quota_percent=0, reclaim_min_runtime=HOUR)
    for leaf in ("lab/a", "lab/b"):
        world.submit(leaf, 8, replicas=2)
    world.wait(6 * DAY)
    hours = [world.used_hours(leaf) for leaf in ("lab/a", "lab/b")]
    assert 0.68 < hours[0] / sum(hours) < 0.8


def test_usage_is_a_part_of_what_the_cluster_had_in_the_window() -> None:
    """The example of KAI's page: in 10 h on 10 GPUs 24 GPU-hours are 0.24, whether 8 for 3 h or 12 for 2 h."""
    world = under(1)
    job = world.submit("lab/a", 8)
    world.wait(3 * HOUR)
    world.finish(job)
    world.wait(7 * HOUR)
    ledger = world.state.clusters["main"].ledger
    window = kai_usage.window_of(world.now, 7 * DAY, world.now - 10 * HOUR, tumbling=False)
    assert window == (world.now - 10 * HOUR, world.now)
    assert kai_usage.used(ledger.account("lab/a"), window, 0) == 24_000 * HOUR
    assert kai_usage.capacity(10_000, window, 0) == 100_000 * HOUR
    assert ledger.account("lab/a").usage(Kind.CHARGED, *window) == 24_000 * HOUR


def test_what_was_used_a_half_life_ago_counts_half() -> None:
    world = under(1)
    job = world.submit("lab/a", 8)
    world.wait(HOUR)
    world.finish(job)
    account = world.state.clusters["main"].ledger.account("lab/a")
    at_once = kai_usage.used(account, (world.now - DAY, world.now), 4 * HOUR)
    world.wait(4 * HOUR)
    later = kai_usage.used(account, (world.now - DAY, world.now), 4 * HOUR)
    assert later == pytest.approx(at_once / 2, rel=1e-8)
    assert kai_usage.used(account, (world.now - 4 * HOUR, world.now), 4 * HOUR) == 0


def test_a_tumbling_window_begins_anew() -> None:
    begin = 1_800_000_000_000
    for hours, since in ((0, 0), (5, 0), (11, 0), (12, 12), (30, 24)):
        now = begin + hours * HOUR
        assert kai_usage.window_of(now, 12 * HOUR, begin, tumbling=True) == (begin + since * HOUR, now)
        slides = kai_usage.window_of(now, 12 * HOUR, begin, tumbling=False)
        assert slides == (max(begin, now - 12 * HOUR), now)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"window": 59_000}, "window = 59000: must be at least 1 min"),
        ({"half_life": 1}, "half_life = 1: must be at least 1 min, or 0 for no decay"),
        ({"tumbling": 2}, "tumbling = 2: must be on or off"),
        ({"k_percent": -1}, "k_percent = -1: must be 0 or more"),
        ({"quota_percent": -1}, "quota_percent = -1: must be 0 or more"),
        ({"preempt_min_runtime": -1}, "preempt_min_runtime = -1: must be 0 or more"),
        ({"reclaim_min_runtime": -1}, "reclaim_min_runtime = -1: must be 0 or more"),
        ({"reclaim_min_runtime_of": (("lab/a", -1),)}, "reclaim_min_runtime_of = lab/a:-1: must be 0 or more"),
        ({"preempt_min_runtime_of": (("x", 1), ("x", 2))}, "preempt_min_runtime_of = x: give each queue one value"),
        ({"reclaim_resolve_method": "leaf"}, "reclaim_resolve_method = leaf: must be lca or queue"),
    ],
)
def test_settings_that_are_not_possible(settings: dict[str, Setting], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        by_name("kai", **settings)
