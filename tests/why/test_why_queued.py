"""Why a job waits: who comes first on each level, who is ahead in its budget, and what is in its way until when."""

from __future__ import annotations

import pytest
from why_kit import asked

from support.past import OLD, RECENT, past
from support.world import T0, World, hosts
from tenure.core.events import PauseScope
from tenure.core.ledger import Kind
from tenure.core.model import HOUR, MINUTE, After, Cluster, HostState, Policy, Role
from tenure.core.reasons import Reason
from tenure.why import answer
from tenure.why.records import Blocking, Part, Place
from tenure.why.sentences import sentence

TREE = {"lab/a": 0.5, "lab/a/x": 0.6, "lab/a/y": 0.4, "lab/b": 0.3, "lab/c": 0.2}


def full(world: World, budget: str = "lab/c") -> list[int]:
    """Fill every host with a job of its own, protected for a different time each: 1 h, 2 h, ..."""
    count = len(world.clusters[0].hosts)
    return [world.submit(budget, 8, min_runtime=(i + 1) * HOUR, user=f"u{i}") for i in range(count)]


def test_each_level_has_all_siblings_and_says_who_comes_first_and_by_which_part() -> None:
    world = World(hosts(3), TREE)
    past(world, ("lab/a/x", 300, OLD, "ann"), ("lab/b", 20, RECENT, "bob"), ("lab/c", 80, RECENT, "eve"))
    full(world)
    world.advance(10 * MINUTE)
    for budget in ("lab/b", "lab/c", "lab/a/y"):
        world.submit(budget, 8)
    waits = world.submit("lab/a/x", 8)
    (place,) = asked(world, waits).places
    top, below = place.levels
    assert (top.parent, top.child, top.first, top.against, top.by) == ("lab", "lab/a", "lab/b", "lab/b", Part.RATIO)
    assert [each.path for each in top.siblings] == ["lab/b", "lab/a", "lab/c", "lab/self"]
    assert (below.first, below.against, below.by) == ("lab/a/y", "lab/a/y", Part.RATIO)
    assert {each.path: each.waiting_gpus for each in top.siblings}["lab/a"] == 16


def test_below_the_last_days_allocation_comes_before_the_lower_ratio() -> None:
    world = World(hosts(2), {"lab/a": 0.5, "lab/b": 0.5})
    past(world, ("lab/a", 400, OLD), ("lab/b", 200, RECENT))  # a day is worth 192
    full(world, "lab/a")
    world.submit("lab/a", 8)
    waits = world.submit("lab/b", 8)
    level = asked(world, waits).places[0].levels[0]
    mine = next(each for each in level.siblings if each.path == "lab/b")
    assert not mine.below and mine.ratio_ppm < level.siblings[0].ratio_ppm
    assert (level.first, level.by) == ("lab/a", Part.LAST_DAY)


def test_a_tie_is_decided_by_the_name_and_who_is_alone_has_nobody_to_be_compared_with() -> None:
    world = World(hosts(1), {"lab/a": 0.4, "lab/b": 0.4, "lab/c": 0.2})
    full(world)
    one = world.submit("lab/b", 8)
    level = asked(world, one).places[0].levels[0]
    assert (level.first, level.against, level.by) == ("lab/b", "", None)
    other = world.submit("lab/a", 8)
    assert asked(world, one).places[0].levels[0].by is Part.ID
    assert asked(world, other).places[0].levels[0].first == "lab/a"


def test_ratios_after_a_raise_of_the_share_in_mid_window() -> None:
    world = World(hosts(2), {"lab/a": 0.25, "lab/b": 0.75})
    old = world.tree
    full(world, "lab/b")
    waits = world.submit("lab/a", 8)
    world.advance(5 * HOUR, tick=HOUR)
    raised_at = world.now
    world.configure({"lab/a": 0.5, "lab/b": 0.5})
    world.advance(6 * HOUR, tick=HOUR)
    if waits in world.running():
        waits = world.submit("lab/b", 8, replicas=2)
    asked(world, waits, past=((raised_at, old, 16),))


def test_who_is_ahead_in_the_budget_by_priority_by_person_and_by_age() -> None:
    world = World(hosts(1), {"lab/a": 1})
    past(world, ("lab/a", 30, OLD, "ann"), ("lab/a", 10, OLD, "bob"), ("lab/a", 90, OLD, "eve"))
    full(world, "lab/a")
    first = [
        world.submit("lab/a", 4, user="eve", priority=3),
        world.submit("lab/a", 2, user="bob"),
        world.submit("lab/a", 8, user="bob"),
        world.submit("lab/a", 1, user="ann"),
    ]
    waits = world.submit("lab/a", 8, user="ann")
    world.submit("lab/a", 8, user="eve")
    ahead = asked(world, waits).places[0].ahead
    assert ahead is not None and (ahead.jobs, ahead.gpus) == (4, 15)
    assert [each.job for each in ahead.first] == first
    assert [each.by for each in ahead.first] == [Part.PRIORITY, Part.PERSON, Part.PERSON, Part.SENIORITY]


def test_of_many_ahead_the_first_few_are_named() -> None:
    world = World(hosts(1), {"lab/a": 1})
    full(world, "lab/a")
    jobs = [world.submit("lab/a", 1 + i % 3, user=f"p{i % 4}", priority=i % 2) for i in range(30)]
    for job in jobs[::7]:
        ahead = asked(world, job).places[0].ahead
        assert ahead is not None and len(ahead.first) == min(5, ahead.jobs)


def test_protected_attempts_in_the_way_are_named_until_enough_is_free() -> None:
    world = World(hosts(4), TREE)
    past(world, ("lab/c", 600, OLD, "eve"))  # so that everybody outranks it
    runs = full(world)
    waits = world.submit("lab/a/x", 8, replicas=2)
    world.advance(MINUTE)
    space = asked(world, waits).places[0].space
    assert space is not None and (space.gpus, space.whole_hosts, space.free_gpus) == (16, 2, 0)
    assert [blocker.job for blocker in space.blockers] == runs[:2]
    assert [blocker.why for blocker in space.blockers] == [Blocking.PROTECTED] * 2
    assert [(blocker.until, blocker.whole_hosts) for blocker in space.blockers] == [(T0 + HOUR, 1), (T0 + 2 * HOUR, 2)]
    assert space.enough_at == T0 + 2 * HOUR
    world.advance(space.enough_at - world.now - 1)
    assert waits not in world.running()
    world.advance(10 * MINUTE)
    assert waits in world.running()


def test_a_part_of_a_host_waits_for_the_part_that_ends_first() -> None:
    world = World(hosts(2), TREE)
    past(world, ("lab/c", 600, OLD, "eve"))
    for _ in range(2):
        world.submit("lab/c", 4, min_runtime=5 * HOUR)
    later = world.submit("lab/c", 4, min_runtime=3 * HOUR)
    soon = world.submit("lab/c", 2, min_runtime=HOUR)
    waits = world.submit("lab/b", 4)
    space = asked(world, waits).places[0].space
    assert space is not None and space.free_gpus == 2
    assert [blocker.job for blocker in space.blockers] == [soon] and space.enough_at == T0 + HOUR
    whole = world.submit("lab/b", 8)
    space = asked(world, whole).places[0].space
    assert space is not None and space.enough_at == T0 + 3 * HOUR
    assert [blocker.job for blocker in space.blockers] == [soon, later]


def test_what_may_be_evicted_is_not_in_the_way() -> None:
    world = World(hosts(2), TREE)
    past(world, ("lab/c", 600, OLD, "eve"))
    world.submit("lab/c", 8, min_runtime=5 * MINUTE)
    held = world.submit("lab/c", 8, min_runtime=2 * HOUR)
    world.advance(HOUR)
    waits = world.submit("lab/a/x", 8, replicas=2)
    space = asked(world, waits).places[0].space
    assert space is not None and (space.free_gpus, space.evictable_gpus, space.free_hosts) == (8, 8, 1)
    assert [blocker.job for blocker in space.blockers] == [held]


def test_what_comes_first_ends_by_its_time_out_or_nobody_knows_when() -> None:
    world = World(hosts(1), TREE)
    past(world, ("lab/a/x", 600, OLD, "ann"))
    world.submit("lab/b", 8, min_runtime=HOUR, timeout=3 * HOUR)
    waits = world.submit("lab/a/x", 8)
    space = asked(world, waits).places[0].space
    assert space is not None and [blocker.why for blocker in space.blockers] == [Blocking.FIRST]
    assert space.enough_at == T0 + 3 * HOUR + 5 * MINUTE  # and its grace
    other = World(hosts(1), TREE)
    past(other, ("lab/a/x", 600, OLD, "ann"))
    other.submit("lab/b", 8, min_runtime=HOUR)
    waits = other.submit("lab/a/x", 8)
    space = asked(other, waits).places[0].space
    assert space is not None and space.enough_at is None and space.blockers[0].until is None
    assert space.blockers[0].protected_until == T0 + HOUR


def test_of_those_without_an_end_so_many_are_named_as_will_do() -> None:
    world = World(hosts(3), TREE)
    past(world, ("lab/a/x", 600, OLD, "ann"))
    for _ in range(3):
        world.submit("lab/b", 8, min_runtime=HOUR)
    space = asked(world, world.submit("lab/a/x", 8)).places[0].space
    assert space is not None and space.enough_at is None
    (blocker,) = space.blockers
    assert (blocker.free_gpus, blocker.whole_hosts, blocker.rule) == (8, 1, "order")
    assert (space.blocking, space.others) == (1, 2)


def test_in_its_own_budget_it_is_the_priority_that_lets_others_stay() -> None:
    world = World(hosts(1), TREE)
    world.submit("lab/b", 8, min_runtime=HOUR)
    space = asked(world, world.submit("lab/b", 8)).places[0].space
    assert space is not None and [blocker.rule for blocker in space.blockers] == ["priority"]


def test_who_comes_first_by_less_than_the_margin_may_not_evict() -> None:
    world = World(hosts(1), {"lab/a": 0.5, "lab/b": 0.5})
    past(world, ("lab/b", 4, OLD))  # and the 8 GPUs have run for 10 min: less than the margin of 8 GPU-hours
    world.submit("lab/b", 8, min_runtime=5 * MINUTE)
    world.advance(10 * MINUTE)
    waits = world.submit("lab/a", 8)
    (place,) = asked(world, waits).places
    (level,) = place.levels
    assert level.first == "lab/a" and [each.outranked for each in level.siblings[:2]] == [False, False]
    assert place.space is not None and place.space.evictable_gpus == 0
    assert [(blocker.why, blocker.rule) for blocker in place.space.blockers] == [(Blocking.FIRST, "margin")]
    assert place.margin == 8 * 1000 * HOUR


def test_what_starts_is_in_the_way_until_the_latest_that_it_can_be_protected() -> None:
    world = World(hosts(1), TREE, auto_up=False)
    past(world, ("lab/c", 600, OLD, "eve"))
    world.submit("lab/c", 8, min_runtime=HOUR)
    space = asked(world, world.submit("lab/b", 8)).places[0].space
    assert space is not None and space.blockers[0].why is Blocking.STARTING
    assert space.enough_at == T0 + 15 * MINUTE + HOUR


def test_what_is_leaving_is_in_the_way_until_it_is_killed() -> None:
    world = World(hosts(2), TREE)
    past(world, ("lab/c", 600, OLD, "eve"))
    victims = [world.submit("lab/c", 8, min_runtime=5 * MINUTE) for _ in range(2)]
    world.advance(HOUR)
    claims = world.submit("lab/a/x", 8)
    world.cancel(next(job for job in victims if job in world.running()))
    waits = world.submit("lab/b", 8)
    space = asked(world, waits).places[0].space
    assert space is not None and Blocking.LEAVING in [blocker.why for blocker in space.blockers]
    assert claims not in world.running()


def test_an_unallocated_job_waits_for_the_turn_of_its_peer() -> None:
    world = World(hosts(1), TREE)
    past(world, ("lab/b", 100, OLD, "bob"), kind=Kind.UNALLOCATED)
    world.submit("lab/b", 8, min_runtime=0)
    waits = world.submit("lab/c", 8, min_runtime=0)
    world.advance(10 * MINUTE)
    space = asked(world, waits).places[0].space
    assert space is not None and space.blockers[0].why is Blocking.TURN
    assert space.enough_at == T0 + HOUR
    world.advance(space.enough_at - world.now + MINUTE)
    assert waits in world.running()


def test_a_job_with_a_reservation_is_told_what_is_on_its_hosts() -> None:
    world = World(hosts(3), TREE, policy=Policy(reserved_percent=100))
    past(world, ("lab/c", 600, OLD, "eve"))
    runs = full(world)
    waits = world.submit("lab/a/x", 8, replicas=2)
    world.advance(6 * MINUTE)
    found = asked(world, waits)
    held = found.reservation
    assert held is not None and found.because.reason is Reason.WAITING_RESERVATION
    assert (held.hosts, held.gpus) == (("h0", "h1"), 16)
    space = found.places[0].space
    assert space is not None and [blocker.job for blocker in space.blockers] == runs[:2]
    assert space.enough_at == held.told == T0 + 2 * HOUR < held.starts_by


def test_every_accepted_cluster_is_explained_the_one_of_the_reason_first() -> None:
    clusters = (Cluster("aux", hosts(1, prefix="x")), Cluster("main", hosts(1)))
    world = World(clusters, {"lab/a": 0.5, "lab/b": 0.5})
    world.tree = tuple(type(b)(b.path, b.share, (("aux", 0),)) if b.path == "lab/a" else b for b in world.tree)
    world.configure(tree=world.tree)
    for name in ("aux", "main"):
        world.submit("lab/b", 8, min_runtime=2 * HOUR, clusters=(name,))
    waits = world.submit("lab/a", 8)
    found = asked(world, waits)
    assert [place.cluster for place in found.places] == ["main", "aux"]
    assert found.places[1].because.reason is Reason.HELD_NO_SHARE
    assert found.places[1].ahead is None and found.places[1].space is None
    assert found.places[0].space is not None and found.places[0].because == found.because


def test_with_hosts_out_of_service_nothing_that_runs_is_in_the_way() -> None:
    world = World(hosts(2), TREE)
    world.host("h1", HostState.REPAIRING)
    waits = world.submit("lab/a/x", 8, replicas=2)
    (place,) = asked_unchecked(world, waits)
    assert place.because.reason is Reason.WAITING_HOST_STATE
    assert place.space is not None and (place.space.blockers, place.space.enough_at) == ((), None)


def asked_unchecked(world: World, job: int) -> tuple[Place, ...]:
    """The places of an answer, where brute force does not know enough: hosts that are not healthy, several roles."""
    return answer(world.state, world.job(job)).places


def test_two_roles_wait_for_what_both_need() -> None:
    world = World(hosts(2), TREE)
    past(world, ("lab/c", 600, OLD, "eve"))
    runs = full(world)
    waits = world.submit("lab/a/x", roles=(Role("actor", 2, 3, 0, 0), Role("learner", 1, 4, 0, 0)))
    (place,) = asked_unchecked(world, waits)
    assert place.space is not None and [blocker.job for blocker in place.space.blockers] == runs
    assert (place.space.gpus, place.space.enough_at) == (10, T0 + 2 * HOUR)


@pytest.mark.parametrize("how", ["held", "backing off", "after another"])
def test_a_job_that_no_pass_looks_at_has_its_reason_alone(how: str) -> None:
    world = World(hosts(1), TREE)
    if how == "held":
        event = world.queue("lab/b", 8, hold="mia")
        world.step(event)
        waits = event.job_id
    elif how == "backing off":
        waits = world.submit("lab/b", 8, retries=3)
        world.finish(waits, 1)
    else:
        runs = world.submit("lab/b", 8)
        event = world.queue("lab/b", 8, after=(After(runs, False, True),))
        world.step(event)
        waits = event.job_id
    found = asked(world, waits)
    assert found.places == () and found.running is None and found.claiming is None
    assert sentence(found).split()[0] in ("Held", "Backing", "Waiting")


def test_while_all_starts_are_paused_it_is_told_that_it_would_fit() -> None:
    world = World(hosts(1), TREE)
    world.pause(PauseScope.STARTS)
    found = asked(world, world.submit("lab/b", 8))
    assert sentence(found) == "Waiting: all starts are paused by op."
    space = found.places[0].space
    assert space is not None and space.enough_at == world.now
