"""Rule 13's drains: hosts give up what is exposed, gangs only when they can go on elsewhere or at the deadline."""

from __future__ import annotations

import pytest

from scenarios import OLD, past, victims
from support.world import World, hosts
from tenure.core.decisions import Stop
from tenure.core.events import PauseScope
from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, SECOND, HostState, Policy, Role
from tenure.core.reasons import Reason

S = JobState


def test_an_unallocated_attempt_goes_at_once_with_its_10_seconds() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 8, min_runtime=0)
    world.host("h0", HostState.DRAINING)
    stop = world.made(Stop)[0].victim
    assert victims(world) == [job] and stop.kill_at == world.now + 10 * SECOND
    assert (stop.because.reason, stop.because.numbers) == (Reason.EVICTED_DRAIN, {"host": "h0", "why": "test"})
    assert (stop.gainer, stop.gained) == (0, 0)
    world.advance(HOUR)
    assert world.job_state(job) is S.QUEUED
    assert world.why(job).reason is Reason.WAITING_HOST_STATE
    world.host("h0", HostState.HEALTHY)
    assert world.job_state(job) is S.RUNNING


def test_an_exposed_attempt_goes_at_once_and_a_protected_one_when_it_is_exposed() -> None:
    world = World(hosts(1))
    exposed = world.submit("lab/a", 4, min_runtime=15 * MINUTE)
    kept = world.submit("lab/a", 4, min_runtime=HOUR)
    world.advance(30 * MINUTE)
    world.host("h0", HostState.DRAINING)
    assert victims(world) == [exposed]
    world.advance(30 * MINUTE - 1)
    assert victims(world) == [exposed]
    world.advance(1)
    assert victims(world) == [exposed, kept]
    world.advance(5 * MINUTE)
    assert world.state.clusters["main"].on_host["h0"] == set()


def test_a_gang_over_other_hosts_goes_when_it_can_restart_elsewhere() -> None:
    world = World(hosts(4))
    gang = world.submit("lab/a", 8, replicas=2, min_runtime=15 * MINUTE)
    blocks = world.submit("lab/b", 8, replicas=2, min_runtime=8 * HOUR)
    drained = world.attempt(gang).hosts()[0]
    world.advance(HOUR)
    world.host(drained, HostState.DRAINING)
    world.advance(HOUR)
    assert victims(world) == [] and world.job_state(gang) is S.RUNNING
    world.finish(blocks)
    assert victims(world) == [gang]
    world.advance(5 * MINUTE)
    assert world.job_state(gang) is S.RUNNING and drained not in world.attempt(gang).hosts()


def test_a_gang_goes_at_the_drains_deadline_in_any_case() -> None:
    world = World(hosts(2))
    gang = world.submit("lab/a", 8, replicas=2, min_runtime=15 * MINUTE)
    world.advance(HOUR)
    world.host("h0", HostState.DRAINING, deadline=world.now + 2 * HOUR)
    world.advance(2 * HOUR - 1)
    assert victims(world) == []
    world.advance(1)
    assert victims(world) == [gang]
    world.advance(5 * MINUTE)
    assert world.job_state(gang) is S.QUEUED


def test_a_deadline_does_not_touch_what_is_protected() -> None:
    world = World(hosts(2))
    gang = world.submit("lab/a", 8, replicas=2, min_runtime=4 * HOUR)
    world.host("h0", HostState.DRAINING, deadline=world.now + HOUR)
    world.advance(4 * HOUR - 1)
    assert victims(world) == []
    world.advance(1)
    assert victims(world) == [gang]


def test_a_host_that_is_healthy_again_keeps_what_it_has() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 8, min_runtime=HOUR)
    world.host("h0", HostState.DRAINING, deadline=world.now + 10 * MINUTE)
    world.advance(MINUTE)
    world.host("h0", HostState.HEALTHY)
    world.advance(5 * HOUR)
    assert victims(world) == [] and world.job_state(job) is S.RUNNING


def test_paused_evictions_hold_drains_as_well() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 8, min_runtime=0)
    world.pause(PauseScope.EVICTIONS)
    world.host("h0", HostState.DRAINING)
    world.advance(HOUR)
    assert victims(world) == []
    world.resume(PauseScope.EVICTIONS)
    assert victims(world) == [job]


def test_a_claim_under_way_on_a_host_that_drains_comes_true_and_is_protected() -> None:
    world = World(hosts(1))
    past(world, ("lab/b", 600, OLD))
    world.submit("lab/b", 8, min_runtime=5 * MINUTE)
    world.advance(HOUR)
    claim = world.submit("lab/a", 8, min_runtime=HOUR)
    world.host("h0", HostState.DRAINING)
    world.advance(5 * MINUTE)
    assert world.job_state(claim) is S.RUNNING
    world.advance(HOUR - 1)
    assert claim not in victims(world)
    world.advance(1)
    assert claim in victims(world)


@pytest.mark.parametrize("state", [HostState.REPAIRING, HostState.VERIFYING, HostState.FAILED])
def test_nothing_starts_on_a_host_that_is_not_healthy(state: HostState) -> None:
    world = World(hosts(1))
    world.host("h0", state)
    job = world.submit("lab/a", 8)
    world.advance(HOUR)
    because = world.why(job)
    assert because.reason is Reason.WAITING_HOST_STATE and because.numbers["hosts"] == ("h0",)
    assert world.state.clusters["main"].healthy_gpus() == 0
    world.host("h0", HostState.HEALTHY)
    assert world.job_state(job) is S.RUNNING


def test_of_two_gangs_with_one_place_to_go_to_one_stays_until_there_is_another() -> None:
    world = World(hosts(3))
    halves = (Role("main", 2, 4, 0, 0, ("true",), apart=True),)
    gangs = [world.submit("lab/a", roles=halves, min_runtime=15 * MINUTE) for _ in range(2)]
    assert [world.attempt(gang).hosts() for gang in gangs] == [["h0", "h1"], ["h0", "h1"]]
    blocks = [world.submit("lab/b", 4, min_runtime=8 * HOUR) for _ in range(2)]
    world.advance(HOUR)
    world.host("h0", HostState.DRAINING)
    assert victims(world) == []
    world.finish(blocks[0])
    assert victims(world) == gangs[:1]
    world.advance(5 * MINUTE)
    assert world.attempt(gangs[0]).hosts() == ["h1", "h2"]
    world.advance(HOUR)
    assert victims(world) == gangs[:1] and world.job_state(gangs[1]) is S.RUNNING
    world.finish(blocks[1])
    assert victims(world) == gangs
    world.advance(5 * MINUTE)
    assert world.attempt(gangs[1]).hosts() == ["h1", "h2"]


def test_a_gang_has_nowhere_to_go_on_hosts_that_are_kept_for_short_contracts() -> None:
    world = World(hosts(4), policy=Policy(headroom_percent=25))
    gang = world.submit("lab/a", 8, replicas=2, min_runtime=15 * MINUTE)
    block = world.submit("lab/b", 8, min_runtime=8 * HOUR)
    short = world.submit("lab/b", 8, min_runtime=15 * MINUTE)
    waits = world.submit("lab/b", 8, replicas=4, min_runtime=8 * HOUR)
    world.advance(14 * MINUTE)
    assert world.state.clusters["main"].headroom == ("h3",) and world.attempt(short).hosts() == ["h3"]
    world.finish(short)
    world.host("h0", HostState.DRAINING)
    world.advance(6 * MINUTE)
    assert victims(world) == [] and world.state.clusters["main"].headroom == ("h3",)
    world.finish(block)  # on h2
    assert victims(world) == [gang] and world.job_state(waits) is S.QUEUED
