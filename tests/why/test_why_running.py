"""How safe a running job is: until when it is protected, and who would have it evicted then."""

from __future__ import annotations

import pytest
from why_kit import asked

from support.brute import Brute
from support.past import OLD, past
from support.world import T0, World, hosts
from tenure.core.events import PauseScope
from tenure.core.ledger import Kind
from tenure.core.model import HOUR, MINUTE, HostState, Policy
from tenure.core.reasons import Reason
from tenure.why.records import Evictor, Running
from tenure.why.sentences import sentence

TREE = {"lab/a": 0.5, "lab/b": 0.3, "lab/c": 0.2}


def runs(world: World, job: int) -> Running:
    found = asked(world, job).running
    assert found is not None
    return found


def check_ratios(world: World, evictor: Evictor) -> None:
    """The ratios of an eviction by standing are those of the spans."""
    brute, numbers, policy = Brute(world), evictor.because.numbers, world.policy
    for which in ("first", "second"):
        path = str(numbers[which])
        for key, window in (("ratio", policy.lookback), ("recent", policy.recent)):
            ratio = brute.ratio(path, Kind.CHARGED, window)
            assert ratio is not None and numbers[f"{which}_{key}_ppm"] == ratio * 10**6 // 1


def test_protected_and_then_evicted_by_who_comes_first() -> None:
    world = World(hosts(1), TREE)
    past(world, ("lab/c", 300, OLD, "eve"), ("lab/b", 200, OLD, "bob"))
    job = world.submit("lab/c", 8, min_runtime=HOUR)
    second = world.submit("lab/b", 4)
    first = world.submit("lab/a", 8)
    world.advance(10 * MINUTE)
    found = runs(world, job)
    assert (found.protected, found.protected_until, found.latest) == (True, T0 + HOUR, False)
    assert [evictor.job for evictor in found.evictors] == [first, second]
    for evictor in found.evictors:
        assert evictor.because.reason is Reason.EVICTED_STANDING
        check_ratios(world, evictor)
    said = sentence(asked(world, job))
    assert said.startswith(
        "Runs, protected until 2027-01-15 09:00:00 UTC; after that, as things stand, job 3 of ann in"
    )
    world.advance(HOUR)
    assert first in world.running() and job not in world.running()


def test_who_does_not_come_first_by_the_margin_would_not_evict_it() -> None:
    world = World(hosts(1), {"lab/a": 0.5, "lab/b": 0.5})
    job = world.submit("lab/a", 8, min_runtime=MINUTE * 5)
    world.submit("lab/b", 8)
    assert runs(world, job).evictors == ()
    assert "it runs on, since nobody who waits now comes before it" in sentence(asked(world, job))
    world.advance(7 * MINUTE)
    found = runs(world, job)
    assert not found.protected and found.evictors == ()
    assert sentence(asked(world, job)) == (
        "Runs, exposed since 2027-01-15 08:05:00 UTC; as things stand, nobody who waits now comes before it."
    )


def test_in_ones_own_budget_priority_decides() -> None:
    world = World(hosts(1), TREE)
    job = world.submit("lab/a", 8)
    world.submit("lab/a", 8)
    senior = world.submit("lab/a", 8, priority=1)
    (evictor,) = runs(world, job).evictors
    assert evictor.job == senior and evictor.because.reason is Reason.EVICTED_PRIORITY
    assert evictor.because.numbers["gainer_priority"] == 1


def test_who_would_not_fit_even_then_is_not_named() -> None:
    world = World(hosts(2), TREE)
    past(world, ("lab/c", 300, OLD, "eve"))
    one, other = (world.submit("lab/c", 8, min_runtime=(1 + i) * HOUR) for i in range(2))
    gang = world.submit("lab/a", 8, replicas=2)
    assert runs(world, one).evictors == () == runs(world, other).evictors
    world.advance(HOUR + MINUTE)  # one of them is exposed, and makes way as soon as the other one would
    assert [evictor.job for evictor in runs(world, other).evictors] == [gang]


def test_what_starts_is_protected_until_a_time_that_is_not_known_yet() -> None:
    world = World(hosts(1), TREE, auto_up=False)
    job = world.submit("lab/a", 8, min_runtime=HOUR)
    found = runs(world, job)
    assert found.latest and found.protected_until == T0 + 15 * MINUTE + HOUR
    assert sentence(asked(world, job)).startswith("Starts, protected until 2027-01-15 09:15:00 UTC at the latest;")


def test_an_unallocated_one_is_evictable_by_every_charged_job_that_needs_it() -> None:
    world = World(hosts(1), TREE)
    job = world.submit("lab/a", 8, min_runtime=0, timeout=5 * HOUR)
    found = runs(world, job)
    assert not found.charged and not found.protected and found.protected_until is None
    assert (found.turn_until, found.ends_by, found.evictors) == (T0 + HOUR, T0 + 5 * HOUR, ())
    assert sentence(asked(world, job)) == (
        "Runs unallocated: free, and evictable from its first second; as things stand, nobody needs its GPUs now."
    )
    world.pause(PauseScope.EVICTIONS)
    charged = world.submit("lab/c", 2)
    (evictor,) = runs(world, job).evictors
    assert evictor.job == charged and evictor.because.reason is Reason.EVICTED_UNALLOCATED
    assert "job 2 of ann in lab/c would take its GPUs" in sentence(asked(world, job))


def test_after_its_turn_an_unallocated_one_may_go_for_another_unallocated_job() -> None:
    world = World(hosts(1), TREE)
    past(world, ("lab/a", 300, OLD, "ann"), kind=Kind.UNALLOCATED)
    job = world.submit("lab/a", 8, min_runtime=0)
    waits = world.submit("lab/b", 8, min_runtime=0)
    assert runs(world, job).evictors == ()
    world.pause(PauseScope.EVICTIONS)
    world.advance(HOUR + MINUTE)
    found = runs(world, job)
    assert found.turn_until is None and [evictor.job for evictor in found.evictors] == [waits]


def test_hosts_that_are_held_or_drain_say_who_comes() -> None:
    world = World(hosts(2), TREE, policy=Policy(reserved_percent=100))
    past(world, ("lab/c", 300, OLD, "eve"))
    jobs = [world.submit("lab/c", 8, min_runtime=(1 + i) * HOUR) for i in range(2)]
    gang = world.submit("lab/a", 8, replicas=2)
    world.advance(6 * MINUTE)
    told = world.job(gang).reservation
    assert told is not None
    for job in jobs:
        (evictor,) = runs(world, job).evictors
        assert (evictor.job, evictor.at) == (gang, told.told)
        assert evictor.because.reason is Reason.EVICTED_RESERVED
    world.host("h0", HostState.DRAINING)
    on_h0 = next(job for job in jobs if world.attempt(job).hosts() == ["h0"])
    drain = runs(world, on_h0).evictors[0]
    assert drain.job == 0 and drain.because.reason is Reason.EVICTED_DRAIN
    assert "the drain of its host would have it evicted" in sentence(asked(world, on_h0))


def test_a_claim_names_its_victims_and_when_they_are_gone() -> None:
    world = World(hosts(2), TREE)
    past(world, ("lab/c", 300, OLD, "eve"))
    victims = [world.submit("lab/c", 8, min_runtime=5 * MINUTE, grace=grace * MINUTE) for grace in (1, 4)]
    world.advance(HOUR)
    gang = world.submit("lab/a", 8, replicas=2)
    found = asked(world, gang)
    assert found.claiming is not None and found.running is None
    assert [victim.job for victim in found.claiming.victims] == victims
    assert [victim.warn_at - world.now for victim in found.claiming.victims] == [3 * MINUTE, 0]
    assert {victim.kill_at for victim in found.claiming.victims} == {found.claiming.until} == {world.now + 4 * MINUTE}
    assert sentence(found).startswith("Waiting for its GPUs: 1.1, 2.1 must release them first")
    stopped = asked(world, victims[0])
    assert stopped.running is not None and stopped.running.kill_at == found.claiming.until
    assert stopped.running.evictors == () and sentence(stopped).startswith(f"Evicted for job {gang}: lab/a comes first")


@pytest.mark.parametrize("many", [2, 9])
def test_the_first_few_are_named_in_the_order_in_which_they_would_be_tried(many: int) -> None:
    world = World(hosts(1), TREE)
    past(world, ("lab/c", 300, OLD, "eve"), ("lab/a", 100, OLD, "ann"))
    job = world.submit("lab/c", 8, min_runtime=8 * HOUR)
    waits = [world.submit(("lab/a", "lab/b")[i % 2], 1 + i // 2, priority=i // 2) for i in range(many)]
    found = [evictor.job for evictor in runs(world, job).evictors]
    brute = Brute(world)
    in_turn = [each.id for leaf in ("lab/b", "lab/a") for each in brute.in_leaf(leaf, Kind.CHARGED)]
    assert brute.turn(Kind.CHARGED) == "lab/b"
    assert found == in_turn[:3] and set(found) <= set(waits)
