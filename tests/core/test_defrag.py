"""Defragmentation: exposed, resumable attempts move together when a gang in turn gains more than is lost."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from core.scenarios import RECENT, past, victims
from support.invariants import restored, saved
from support.world import T0, World, hosts
from tenure.core.decisions import Claim
from tenure.core.lifecycle import JobState
from tenure.core.model import GPU, HOUR, MINUTE, Policy
from tenure.core.reasons import Reason

SHARES = {"lab/a": 0.2, "lab/b": 0.8}
LOOK = 5 * MINUTE
MOVES = Policy(moves_per_hour=10, headroom_percent=0, reserved_percent=0)


@dataclass(frozen=True)
class Pieces:
    """Two hosts of 8, on each of which a 4-GPU job of b runs exposed, and a gang of a's that needs a whole one.

    The gang's budget is over-served: it outranks nobody.
    """

    world: World
    first: int
    second: int
    gang: int


def pieces(
    policy: Policy = MOVES,
    *,
    resumable: bool = True,
    ran: int = HOUR,
    gang_min: int = 8 * HOUR,
    third: int | None = None,
    kept: int = HOUR,
) -> Pieces:
    world = World(hosts(2), SHARES, policy=policy)
    past(world, ("lab/a", 300, RECENT))
    first, one, second, two = (world.submit("lab/b", 4, min_runtime=kept, resumable=resumable) for _ in range(4))
    for job in (one, two):
        world.finish(job)
    assert (world.attempt(first).hosts(), world.attempt(second).hosts()) == (["h0"], ["h1"])
    if third is not None:
        world.submit("lab/b", third, min_runtime=8 * HOUR)
    world.advance(ran)
    gang = world.submit("lab/a", 8, min_runtime=gang_min)
    return Pieces(world, first, second, gang)


def test_what_runs_exposed_moves_beside_the_other_and_the_gang_gets_a_whole_host() -> None:
    made = pieces()
    world = made.world
    assert world.job_state(made.gang) is JobState.QUEUED
    assert not world.evictions()
    world.advance(LOOK)  # moves are looked for on the grid of look_every
    (eviction,) = world.evictions()
    assert eviction.attempt_id == f"{made.first}.1"  # both would lose as much
    (claim,) = world.made(Claim)
    ran = claim.at - T0
    assert HOUR < ran <= HOUR + LOOK
    assert (eviction.gainer, eviction.because.reason) == (made.gang, Reason.EVICTED_MOVED)
    assert (eviction.gained, eviction.at_risk) == (8 * GPU * 8 * HOUR, 4 * GPU * ran)
    lost = 4 * GPU * (ran + 5 * MINUTE + 5 * MINUTE)  # with its grace, and coming up again
    assert eviction.because.numbers == {"gainer": made.gang, "gained": 8 * GPU * 8 * HOUR, "lost": lost}
    world.advance(10 * MINUTE)
    assert world.attempt(made.gang).hosts() == ["h0"]
    assert world.attempt(made.first).hosts() == world.attempt(made.second).hosts() == ["h1"]


@pytest.mark.parametrize(
    ("why", "made"),
    [
        ("moves are off, as by default", {"policy": Policy(headroom_percent=0, reserved_percent=0)}),
        ("neither can resume", {"resumable": False}),
        ("both are protected", {"kept": 8 * HOUR}),
        ("less would be gained than is lost", {"ran": 18 * HOUR}),
        ("the gang would gain 8 x 37 min, where 4 x 75 min are lost", {"gang_min": 37 * MINUTE}),
        ("what moves would have no place", {"third": 1}),
    ],
)
def test_nothing_moves_when(why: str, made: dict[str, object]) -> None:
    there = pieces(**made)  # type: ignore[arg-type]
    there.world.advance(2 * LOOK)
    assert not there.world.evictions(), why
    assert there.world.job_state(there.gang) is JobState.QUEUED


def test_the_gang_has_to_gain_more_than_is_lost() -> None:
    made = pieces(gang_min=38 * MINUTE)
    made.world.advance(LOOK)
    (eviction,) = made.world.evictions()
    assert eviction.because.numbers == {"gainer": made.gang, "gained": 304 * GPU * MINUTE, "lost": 300 * GPU * MINUTE}


def test_nothing_moves_that_would_not_fit_into_what_is_free_elsewhere() -> None:
    world = World(hosts(3), SHARES, policy=MOVES)
    past(world, ("lab/a", 300, RECENT))
    for gpus in (5, 5, 6):  # 3, 3 and 2 are free
        world.submit("lab/b", gpus, min_runtime=HOUR)
    world.advance(HOUR)
    gang = world.submit("lab/a", 8, min_runtime=8 * HOUR)
    world.advance(2 * LOOK)
    assert world.job_state(gang) is JobState.QUEUED
    assert not world.evictions()


def test_a_job_that_fits_by_evicting_whom_it_outranks_moves_nobody() -> None:
    made = pieces(ran=2 * HOUR)
    world = made.world
    world.cancel(made.gang)
    free = world.submit("lab/b", 4, min_runtime=0)  # unallocated, in the free half of one of them
    gang = world.submit("lab/b", 4, min_runtime=HOUR)
    world.advance(LOOK)
    assert world.attempt(gang).hosts() != world.attempt(free).hosts()
    assert victims(world) == []


def test_the_cap_per_hour_holds_over_a_restart_and_a_new_configuration() -> None:
    made = pieces(Policy(moves_per_hour=1, headroom_percent=0, reserved_percent=0))
    world = made.world
    world.advance(LOOK)
    assert len(world.evictions()) == 1
    known = [world.evictions()[0].warn_at]
    assert list(world.state.clusters["main"].recent_moves) == known
    assert list(restored(saved(world.state), world.spans).clusters["main"].recent_moves) == known
    world.configure()
    assert list(world.state.clusters["main"].recent_moves) == known


@pytest.mark.parametrize(("moves", "moved"), [(1, 0), (2, 2), (9, 2)])
def test_a_gang_moves_no_more_than_the_cap_lets(moves: int, moved: int) -> None:
    """Of four hosts, two with one small job each have to be cleared for a gang of two hosts; two others take them."""
    policy = Policy(moves_per_hour=moves, headroom_percent=0, reserved_percent=0)
    world = World(hosts(4), SHARES, policy=policy)
    past(world, ("lab/a", 300, RECENT))
    small = [world.submit("lab/b", 4, min_runtime=HOUR) for _ in range(8)]  # two on each
    for job in small[::2]:
        world.finish(job)
    world.advance(HOUR + MINUTE)
    gang = world.submit("lab/a", 8, replicas=2, min_runtime=8 * HOUR)
    assert world.job_state(gang) is JobState.QUEUED
    world.advance(LOOK)
    assert len(world.evictions()) == moved
    assert all(e.because.reason is Reason.EVICTED_MOVED for e in world.evictions())
    world.advance(15 * MINUTE)
    assert (world.job_state(gang) is JobState.RUNNING) == bool(moved)
    if moved:
        running = [world.job_state(job) for job in small[1::2]]
        assert running == [JobState.RUNNING] * 4
