"""Claims come true whole or are made anew; brakes: the cap per minute, pauses, the clock alarm."""

from __future__ import annotations

from scenarios import OLD, past, victims
from support.world import World, hosts
from tenure.core.decisions import ClaimDropped, ClaimOpened, HostMarked
from tenure.core.events import ClockAlarm, PauseScope
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import GPU, HOUR, MINUTE, SECOND, HostState, Policy
from tenure.core.reasons import Reason

S = JobState


# ---- claims


def test_all_spans_of_a_claim_open_when_the_last_victim_has_released() -> None:
    world = World(hosts(2), auto_release=False, auto_up=False)
    past(world, ("lab/b", 400, OLD))
    olds = [world.submit("lab/b", 8, min_runtime=5 * MINUTE) for _ in range(2)]
    for old in olds:
        world.up(old)
    world.step(after=HOUR)
    j = world.submit("lab/a", 8, replicas=2, min_runtime=2 * HOUR)
    ledger = world.state.clusters["main"].ledger
    assert world.job_state(j) is S.CLAIMING and len(ledger.open) == 2
    assert ledger.account("lab/a").promised[Kind.CHARGED].at(world.now) == 16 * GPU * 2 * HOUR  # counts in C
    world.step(after=MINUTE)
    world.finish(olds[0], -15)
    small = world.submit("lab/a", 1, min_runtime=5 * MINUTE)
    assert world.job_state(j) is S.CLAIMING and world.used_hours("lab/a") == 0
    assert world.job_state(small) is S.QUEUED  # what came free is withheld
    assert world.why(j).numbers["victims"] == (f"{olds[1]}.1",)
    world.step(after=MINUTE)
    world.finish(olds[1], -15)
    assert world.job_state(j) is S.STARTING
    assert [d.attempt_id for d in world.made(ClaimOpened)] == [f"{j}.1"]
    assert ledger.open[f"{j}.1"].amount == 16 * GPU and ledger.open[f"{j}.1"].start == world.now
    world.up(j)
    world.step(after=2 * HOUR)
    assert world.used_hours("lab/a") == 32


def test_a_victim_that_ends_by_itself_makes_room_as_well() -> None:
    world = World(hosts(1))
    past(world, ("lab/b", 400, OLD))
    victim = world.submit("lab/b", 8, min_runtime=5 * MINUTE, resumable=False)
    world.advance(HOUR)
    j = world.submit("lab/a", 8)
    world.finish(victim, 0)
    assert world.job_state(victim) is S.SUCCEEDED and world.job_state(j) is S.RUNNING


def test_a_claim_on_a_host_that_fails_is_dropped_and_planned_anew() -> None:
    world = World(hosts(2))
    past(world, ("lab/b", 400, OLD))
    olds = [world.submit("lab/b", 8, min_runtime=5 * MINUTE) for _ in range(2)]
    world.advance(HOUR)
    j = world.submit("lab/a", 8)
    host = world.attempt(j).hosts()[0]
    world.advance(MINUTE)
    world.host(host, HostState.FAILED)
    dropped = world.made(ClaimDropped)
    assert [d.attempt_id for d in dropped] == [f"{j}.1"]
    assert dropped[0].because.numbers["why"] == "host_failed"
    assert world.job_state(j) is S.CLAIMING and world.attempt(j).number == 2
    assert sorted(victims(world)) == sorted([*olds, victims(world)[0]])  # the failed one was stopped once more
    world.advance(5 * MINUTE)
    assert world.job_state(j) is S.RUNNING and world.attempt(j).hosts() != [host]
    assert (world.job(j).attempts, world.job(j).starts) == (2, 1)


def test_gpus_that_are_not_released_drain_their_host_and_the_plan_is_made_anew() -> None:
    world = World(hosts(2), auto_release=False)
    past(world, ("lab/b", 400, OLD))
    olds = [world.submit("lab/b", 8, min_runtime=5 * MINUTE) for _ in range(2)]
    world.advance(HOUR)
    j = world.submit("lab/a", 8)
    stuck = victims(world)[0]
    host = world.attempt(stuck).hosts()[0]
    world.advance(5 * MINUTE + 30 * SECOND - 1)
    assert world.made(HostMarked) == []
    world.advance(1)
    assert [(d.host, d.state, d.because.reason) for d in world.made(HostMarked)] == [
        (host, HostState.DRAINING, Reason.NOT_RELEASED)
    ]
    assert [d.because.numbers["why"] for d in world.made(ClaimDropped)] == ["not_released"]
    assert world.attempt(j).hosts() != [host] and world.attempt(j).number == 2
    other = next(job for job in olds if job != stuck)
    world.advance(5 * MINUTE)
    world.finish(other, -9)
    assert world.job_state(j) is S.RUNNING
    world.finish(stuck, -9)  # it ends at last: requeued, and its host still drains
    assert world.job_state(stuck) is S.QUEUED
    assert world.state.clusters["main"].hosts[host].state is HostState.DRAINING
    assert len(world.made(HostMarked)) == 1


# ---- brakes


def test_evictions_are_capped_per_minute() -> None:
    world = World(hosts(4), policy=Policy(evictions_per_minute=2))
    past(world, ("lab/b", 900, OLD))
    for _ in range(4):
        world.submit("lab/b", 8, min_runtime=5 * MINUTE)
    world.advance(HOUR)
    jobs = [world.queue("lab/a", 8) for _ in range(4)]
    world.step(*jobs)
    assert len(victims(world)) == 2
    because = world.why(jobs[3].job_id)
    assert because.reason is Reason.WAITING_EVICTION_CAP
    assert (because.numbers["cap"], because.numbers["recent"]) == (2, 2)
    world.advance(MINUTE - 1)
    assert len(victims(world)) == 2
    world.advance(1)
    assert len(victims(world)) == 4


def test_a_plan_goes_whole_even_over_the_cap_so_that_small_ones_cannot_starve_it() -> None:
    world = World(hosts(2), policy=Policy(evictions_per_minute=2))
    past(world, ("lab/b", 900, OLD))
    for _ in range(16):
        world.submit("lab/b", 1, min_runtime=5 * MINUTE)
    world.advance(HOUR)
    first = world.submit("lab/a", 2)
    assert len(victims(world)) == 2 and world.job_state(first) is S.CLAIMING  # the cap is reached
    gang, small = world.submit("lab/a", 8), world.submit("lab/a", 1)
    assert world.why(gang).reason is world.why(small).reason is Reason.WAITING_EVICTION_CAP
    world.advance(MINUTE)
    # The gang came first, and takes what it needs although that is more than two; then the cap holds again.
    assert len(victims(world)) == 2 + 8
    assert world.job_state(gang) is S.CLAIMING and world.job_state(small) is S.QUEUED


def test_an_unallocated_claim_lets_charged_jobs_choose_first_when_it_is_complete() -> None:
    world = World(hosts(1))
    past(world, ("lab/b", 900, OLD), kind=Kind.UNALLOCATED)
    runs = world.submit("lab/b", 8, min_runtime=0)
    world.advance(HOUR)
    claims = world.submit("lab/a", 8, min_runtime=0)
    assert world.job_state(claims) is S.CLAIMING and world.job_state(runs) is S.STOPPING
    charged = world.submit("lab/b", 8)
    world.advance(10 * SECOND)  # the grace of what was evicted, and not a second more
    assert world.job_state(charged) is S.RUNNING
    assert world.job_state(claims) is S.QUEUED
    world.finish(charged)
    assert world.job_state(claims) is S.RUNNING


def test_paused_evictions_stop_evictions_alone() -> None:
    world = World(hosts(2))
    past(world, ("lab/b", 900, OLD))
    world.submit("lab/b", 8, min_runtime=5 * MINUTE)
    world.advance(HOUR)
    world.pause(PauseScope.EVICTIONS)
    started = world.submit("lab/a", 8)
    waits = world.submit("lab/a", 8)
    assert world.job_state(started) is S.RUNNING
    assert world.why(waits).reason is Reason.PAUSED_EVICTIONS and world.why(waits).numbers["by"] == "op"
    world.advance(HOUR)
    assert world.evictions() == []
    world.resume(PauseScope.EVICTIONS)
    assert world.job_state(waits) is S.CLAIMING


def test_a_clock_alarm_stops_evictions_until_it_has_passed() -> None:
    world = World(hosts(1))
    past(world, ("lab/b", 900, OLD))
    world.submit("lab/b", 8, min_runtime=5 * MINUTE)
    world.advance(HOUR)
    world.step(ClockAlarm(world.now, True))
    waits = world.submit("lab/a", 8)
    assert world.why(waits).reason is Reason.PAUSED_EVICTIONS
    world.host("h0", HostState.DRAINING)
    assert world.evictions() == []  # nor do drains evict
    world.host("h0", HostState.HEALTHY)
    world.step(ClockAlarm(world.now, False))
    assert world.job_state(waits) is S.CLAIMING


def test_paused_starts_stop_starts_and_plans_but_not_claims_under_way() -> None:
    world = World(hosts(2))
    past(world, ("lab/b", 900, OLD))
    for _ in range(2):
        world.submit("lab/b", 8, min_runtime=5 * MINUTE)
    world.advance(HOUR)
    claims = world.submit("lab/a", 8)
    world.pause()
    waits = world.submit("lab/a", 8)
    world.advance(5 * MINUTE)
    assert world.job_state(claims) is S.RUNNING
    assert world.why(waits).reason is Reason.PAUSED_STARTS and len(victims(world)) == 1
    world.resume()
    assert world.job_state(waits) is S.CLAIMING
