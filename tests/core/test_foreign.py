"""Jobs around Tenure: what they use is occupied while they do, charged to nobody, and said to who waits."""

from __future__ import annotations

import pytest
from placement_helpers import hold, hosts_of, placed, role, where

from core.scenarios import SHARES, SOON
from support import invariants
from support.world import World, hosts
from tenure.core.decisions import ClaimDropped, ReservationLost
from tenure.core.events import ForeignUse
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, Policy
from tenure.core.placement import Room
from tenure.core.reasons import Reason
from tenure.words import sentence


def others(world: World, host: str, gpus: int, cpus: int = 0, mem: int = 0, what: str = "job 7 of eve") -> None:
    world.step(ForeignUse(world.now, "main", host, gpus, cpus, mem, what))


def test_what_others_use_is_counted_and_given_back() -> None:
    room = Room(hosts_of(2))
    room.occupy("h0", 3, 8_000, 100)
    assert (room.free_count("h0"), room.free_gpus, room.whole_free()) == (5, 13, 1)
    assert where(placed(room, [role(1, 5)])) == [("h0", (0, 1, 2, 3, 4))]
    room.take([hold("h0", 0, 1, 2, 3, 4)])
    assert room.free_count("h0") == 0
    room.occupy("h0", 2, 0, 0)  # more than there are: it happens when others were quicker
    assert room.free_count("h0") == 0
    room.give([hold("h0", 0, 1, 2, 3, 4)])
    assert room.free_count("h0") == 3
    room.gained = 0
    room.occupy("h0", -5, -8_000, -100)
    assert (room.free_gpus, room.whole_free(), room.gained) == (16, 2, 1)


def test_cpus_and_memory_of_others_are_missing_too() -> None:
    room = Room(hosts_of(1))
    free = room.hosts[0].cpus
    room.occupy("h0", 0, free - 1_000, 0)
    assert room.can_fit([role(1, 1, cpus=1_000)], ())
    assert not room.can_fit([role(1, 1, cpus=1_001)], ())


def test_a_closed_host_is_not_opened_by_others() -> None:
    room = Room(hosts_of(2))
    room.set_open("h0", False)
    room.occupy("h0", 3, 0, 0)
    assert room.free_gpus == 8
    room.set_open("h0", True)
    assert room.free_gpus == 13


def test_jobs_go_where_others_are_not_and_start_when_they_have_gone() -> None:
    world = World(hosts(2))
    others(world, "h0", 1)
    first, second = world.submit("lab/a", 8), world.submit("lab/b", 8)
    assert [slot.host for slot in world.attempt(first).slots] == ["h1"]
    because = world.why(second)
    assert because.reason is Reason.WAITING_OTHERS
    assert because.numbers == {"cluster": "main", "gpus": 8, "free_gpus": 7, "others": 1, "hosts": ("h0",)}
    assert sentence(because) == (
        "Waiting: jobs that Tenure did not start use 1 GPU on h0: it needs 8, and 7 are free at most."
    )
    others(world, "h0", 0, what="")
    assert world.job_state(second) is JobState.RUNNING
    assert world.state.clusters["main"].foreign == {}


def test_small_jobs_run_beside_them_and_nobody_pays_for_theirs() -> None:
    world = World(hosts(1))
    others(world, "h0", 5)
    job = world.submit("lab/a", 3)
    world.advance(HOUR)
    assert world.job_state(job) is JobState.RUNNING
    assert world.used_hours("lab", Kind.CHARGED) == 3
    assert world.state.clusters["main"].healthy_gpus() == 8


def test_more_than_there_is_stops_nothing_that_runs() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 8)
    others(world, "h0", 8, 64_000)
    assert world.job_state(job) is JobState.RUNNING
    later = world.submit("lab/b", 1, min_runtime=0)
    world.finish(job)
    assert world.why(later).reason is Reason.WAITING_OTHERS
    others(world, "h0", 0)
    assert world.job_state(later) is JobState.RUNNING


@pytest.mark.parametrize(("more", "kept"), [(1, False), (0, True)])
def test_a_claim_that_has_lost_its_room_is_dropped(more: int, kept: bool) -> None:
    """Eight GPUs, two of them free: a claim of all eight evicts the six; others come and take what was free."""
    world = World(hosts(1))
    world.submit("lab/a", 6, min_runtime=0)
    claiming = world.submit("lab/b", 8 - 2 * kept)
    assert world.job_state(claiming) is JobState.CLAIMING
    others(world, "h0", 1 + more)
    if kept:  # it leaves two to them
        assert world.job_state(claiming) is JobState.CLAIMING
        world.advance(MINUTE)
        assert world.job_state(claiming) is JobState.RUNNING
        return
    (dropped,) = world.made(ClaimDropped)
    assert (dropped.because.reason, dropped.because.numbers["why"]) == (Reason.CLAIM_DROPPED, "waiting_others")
    assert "(host h0)" in sentence(dropped.because)
    assert world.job_state(claiming) is JobState.QUEUED
    world.advance(MINUTE)
    assert world.why(claiming).reason is Reason.WAITING_OTHERS
    others(world, "h0", 0)
    assert world.job_state(claiming) is not JobState.QUEUED


def test_hosts_that_others_use_are_not_held_and_a_reservation_there_is_made_anew() -> None:
    world = World(hosts(4), SHARES, policy=Policy(reserved_percent=50, headroom_percent=0))
    running = [world.submit("lab/b", min_runtime=h * HOUR) for h in (1, 2, 3, 4)]
    gang = world.submit("lab/a", replicas=2)
    world.step(after=SOON)
    held = world.job(gang).reservation
    assert held is not None and held.hosts == ("h0", "h1")
    others(world, "h0", 1)
    (lost,) = world.made(ReservationLost)
    assert (lost.because.reason, lost.because.numbers["host"]) == (Reason.RESERVED_HOST_LOST, "h0")
    world.step(after=SOON)
    anew = world.job(gang).reservation
    assert anew is not None and anew.hosts == ("h1", "h2")
    assert all(world.job_state(job) is JobState.RUNNING for job in running)


def test_it_survives_a_restart_and_an_old_snapshot_has_none() -> None:
    world = World(hosts(2))
    others(world, "h0", 3, 1_000, 64)
    data = invariants.saved(world.state)
    again = invariants.restored(data, world.spans)
    assert again.clusters["main"].foreign == world.state.clusters["main"].foreign
    assert again.clusters["main"].room.free_gpus == 13
    world.configure({"lab/a": 0.3})
    assert world.state.clusters["main"].room.free_gpus == 13
    old = data.replace('"foreign":{"h0":{"cpus":1000,"gpus":3,"mem":64,"what":"job 7 of eve"}},', "")
    assert old != data
    assert invariants.restored(old, world.spans).clusters["main"].room.free_gpus == 16
