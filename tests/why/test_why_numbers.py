"""Every number of every answer in a busy lab, reckoned anew by brute force."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from why_kit import asked

from support.brute import Brute
from support.world import World, hosts
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, Policy
from tenure.core.state import protected

TREE = {"lab/a": 0.5, "lab/a/x": 0.6, "lab/a/y": 0.3, "lab/b": 0.3, "lab/b/x": 0.5, "lab/c": 0.2}
LEAVES = ("lab/a/x", "lab/a/y", "lab/a", "lab/b/x", "lab/b", "lab/c")
SIZES = ((1, 1), (2, 1), (4, 1), (8, 1), (8, 1), (8, 2), (4, 3), (8, 4))


def busy(seed: int) -> World:
    """Half a day of jobs of all sizes and contracts, some of which end by themselves; all hosts are healthy."""
    draw = Random(seed)
    world = World(hosts(5), TREE, policy=Policy(headroom_percent=0))
    for _ in range(25):
        for _ in range(draw.randrange(4)):
            gpus, replicas = draw.choice(SIZES)
            world.submit(
                draw.choice(LEAVES),
                gpus,
                replicas=replicas,
                user=draw.choice(("ann", "bob", "eve")),
                min_runtime=draw.choice((0, 15 * MINUTE, HOUR, 2 * HOUR, 5 * HOUR)),
                priority=draw.choice((0, 0, 0, 2)),
                timeout=draw.choice((None, None, 6 * HOUR)),
                grace=draw.choice((MINUTE, 5 * MINUTE)),
            )
        done = [job for job in world.running() if world.attempt(job).stop is None and draw.random() < 0.1]
        for job in done:
            if job in world.running():
                world.finish(job)
        world.advance(draw.randrange(1, 40) * MINUTE)
    return world


@pytest.mark.parametrize("seed", range(6))
def test_every_number_of_an_answer_is_what_the_spans_say(seed: int) -> None:
    world, met = busy(seed), Counter[str]()
    for job_id, job in world.state.jobs.items():
        found = asked(world, job_id)
        met[found.state] += 1
        for place in found.places:
            if place.space is not None:
                met.update(f"in the way: {blocker.why}" for blocker in place.space.blockers)
        if found.running is not None:
            check_evictors(world, job_id, [evictor.job for evictor in found.running.evictors])
            assert found.running.protected == protected(world.attempt(job_id), world.now)
        assert job.state.value == found.state
    assert met["queued"] > 5 and met["running"] > 2, met
    assert met["in the way: protected"] + met["in the way: first"] > 5, met


def check_evictors(world: World, victim: int, named: list[int]) -> None:
    """They outrank it and fit when it and all else that they may evict is gone; whoever does is named, or is behind."""
    brute, attempt = Brute(world), world.attempt(victim)
    could = [job for kind in (Kind.CHARGED, Kind.UNALLOCATED) for job in brute.waiting(kind)]
    could = [job for job in could if brute.outranks(job, attempt) and not in_turn(world, victim, job.kind)]
    gone = {job.id: [a.id for a in brute.attempts() if brute.evictable(job, a)] for job in could}
    fit = {job.id for job in could if brute.fits(job, [*gone[job.id], attempt.id])}
    assert set(named) <= fit and bool(named) == bool(fit)


def in_turn(world: World, victim: int, kind: Kind) -> bool:
    """Whether unallocated jobs leave it alone for now."""
    attempt = world.attempt(victim)
    if attempt.charged or kind is Kind.CHARGED:
        return kind is Kind.UNALLOCATED
    return attempt.started_at is not None and world.now < attempt.started_at + world.policy.unallocated_turn


def test_while_it_claims_its_promise_counts_in_full() -> None:
    world = World(hosts(1), TREE)
    world.submit("lab/c", 8, min_runtime=0)
    claims = world.submit("lab/a/x", 8, min_runtime=2 * HOUR)
    assert world.job_state(claims) is JobState.CLAIMING
    top = asked(world, claims).places[0].levels[0]
    mine = next(each for each in top.siblings if each.path == "lab/a")
    assert mine.committed == mine.used == 16 * 1000 * HOUR
