"""Slurm with preemption by QOS over simulated clusters, as scenarios; whom it chooses is what a real Slurm chose."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_kit import Under

from support.scavengers import LAYOUTS, Layout, chosen, drawn
from support.world import hosts
from tenure.core.decisions import Claim
from tenure.core.events import PauseScope
from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, SECOND, HostState
from tenure.core.reasons import Reason
from tenure.policies import by_name
from tenure.policies.slurm_preempt import SlurmPreempt

SHARES = {"lab/a": 0.5, "lab/b": 0.5}
FREE = 0


def under(count: int = 1, **settings: int) -> Under:
    """Begins at the beginning of a period."""
    return Under(SlurmPreempt(**settings), hosts(count), SHARES, at=1_800_000_000_000)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.what.replace(" ", "-"))
def test_whom_slurm_preempted_the_policy_chooses(layout: Layout) -> None:
    assert chosen(layout) == layout.gone


@given(st.integers(0, 10**6))
def test_what_the_victims_leave_is_enough_and_all_of_them_are_on_it(seed: int) -> None:
    layout = drawn(seed)
    gone, (gpus, count) = set(chosen(layout)), layout.asks
    assert gone.isdisjoint(layout.kept)
    freed: dict[str, int] = {}
    for number, (each, where) in enumerate(layout.running):
        for host in where if number in gone else ():
            freed[host] = freed.get(host, 0) + each
    every = {host for number, (_, where) in enumerate(layout.running) if number not in layout.kept for host in where}
    if gone:
        assert sum(free >= gpus for free in freed.values()) >= count
    else:
        assert len(every) < count or layout.kept


def test_a_scavenger_is_requeued_for_a_charged_job_and_says_why() -> None:
    world = under()
    free = world.submit("lab/a", 8, min_runtime=FREE)
    job = world.submit("lab/b", 4, user="bob")
    (evicted,) = world.evictions()
    assert evicted.because.reason is Reason.EVICTED_UNALLOCATED
    assert evicted.because.numbers == {"gainer": job, "gainer_gpus": 4}
    assert evicted.kill_at == world.now + 10 * SECOND
    world.wait(5 * MINUTE)
    assert world.running() == {job} and world.job_state(free) is JobState.QUEUED
    world.finish(job)
    assert world.running() == {free}


def test_an_attempt_that_has_run_for_less_than_the_exempt_time_is_left_alone() -> None:
    """The example of the documentation: one after the other comes of age."""
    world = under(2, exempt=2 * HOUR)
    first = world.submit("lab/a", 8, min_runtime=FREE)
    world.wait(HOUR)
    second = world.submit("lab/a", 8, min_runtime=FREE)
    world.wait(30 * MINUTE)
    jobs = [world.submit("lab/b", 8) for _ in range(2)]
    world.wait(20 * MINUTE)
    assert world.running() == {first, second}
    assert world.parked(jobs[0]) is Reason.WAITING_CAPACITY
    world.wait(20 * MINUTE)
    assert world.running() == {jobs[0], second}, "it has run for 2 h"
    world.wait(40 * MINUTE)
    assert world.running() == {jobs[0], second}
    world.wait(20 * MINUTE)
    assert world.running() == set(jobs) and world.victims() == [first, second]


def test_a_requeued_one_is_exempt_anew() -> None:
    world = under(exempt=HOUR)
    free = world.submit("lab/a", 8, min_runtime=FREE)
    world.wait(3 * HOUR)
    short = world.submit("lab/b", 8)
    world.wait(10 * MINUTE)
    world.finish(short)
    world.submit("lab/b", 8)
    world.wait(50 * MINUTE)
    assert world.running() == {free} and world.victims() == [free]
    world.wait(20 * MINUTE)
    assert world.victims() == [free, free]


@pytest.mark.parametrize(("youngest_first", "gone"), [(0, 0), (1, 2)])
def test_of_equals_the_oldest_job_goes_or_who_started_last(youngest_first: int, gone: int) -> None:
    world = under(3, youngest_first=youngest_first)
    there = []
    for _ in range(3):
        there.append(world.submit("lab/a", 8, min_runtime=FREE))
        world.wait(10 * MINUTE)
    world.submit("lab/b", 8)
    assert world.victims() == [there[gone]]


def test_charged_jobs_come_before_all_scavengers_whatever_their_priorities() -> None:
    world = under(weight_age=10**6)
    world.submit("lab/b", 8)
    free = world.submit("lab/a", 8, min_runtime=FREE)
    world.wait(9 * HOUR)
    job = world.submit("lab/b", 8)
    assert isinstance(world.rules, SlurmPreempt)
    assert world.rules.priority(world.state.jobs[free]) > world.rules.priority(world.state.jobs[job])
    world.finish(world.placed()[0])
    assert world.running() == {job}


def test_nobody_goes_for_a_scavenger_nor_for_a_job_that_would_not_fit_even_so() -> None:
    world = under(3)
    kept = world.submit("lab/b", 8)
    there = [world.submit("lab/a", 8, min_runtime=FREE) for _ in range(2)]
    world.submit("lab/b", 8, min_runtime=FREE)
    gang = world.submit("lab/b", 8, replicas=3)
    assert world.running() == {kept, *there} and world.victims() == []
    world.finish(kept)
    assert sorted(world.victims()) == there
    world.wait(5 * MINUTE)
    assert world.running() == {gang}


def test_who_backfills_may_preempt_if_the_first_is_not_delayed() -> None:
    world = under(3)
    kept = world.submit("lab/b", 8, timeout=3 * HOUR)
    free = [world.submit("lab/a", 8, min_runtime=FREE) for _ in range(2)]
    gang = world.submit("lab/b", 8, replicas=3)
    long = world.submit("lab/a", 8, user="eve", timeout=3 * HOUR + MINUTE)
    assert world.parked(long) is Reason.WAITING_CAPACITY and world.victims() == []
    short = world.submit("lab/a", 8, user="eve", timeout=3 * HOUR)
    assert world.victims() == [free[0]] and world.made(Claim)[-1].job_id == short
    world.wait(2 * HOUR + 50 * MINUTE)
    world.finish(short)
    world.finish(kept)
    world.wait(10 * MINUTE)
    assert world.running() == {gang}


@pytest.mark.parametrize(("exempt", "started"), [(0, 2), (4 * HOUR, 1)])
def test_scavengers_run_beside_the_first_as_far_as_it_can_preempt_them(exempt: int, started: int) -> None:
    world = under(3, exempt=exempt)
    kept = [world.submit("lab/b", 8, timeout=hours * HOUR) for hours in (3, 30)]
    world.pause()
    gang = world.submit("lab/b", 4, replicas=3)
    free = [world.submit("lab/a", 4, min_runtime=FREE) for _ in range(2)]
    world.resume()
    assert world.running() == {*kept, *free[:started]}
    world.wait(2 * HOUR)
    world.finish(kept[0])
    world.wait(5 * MINUTE)
    assert gang in world.running() and len(world.victims()) == started - 1


def test_what_is_on_its_way_is_not_preempted_for_again() -> None:
    world = under(2)
    free = [world.submit("lab/a", 8, min_runtime=FREE) for _ in range(2)]
    jobs = [world.submit("lab/b", 4) for _ in range(2)]
    assert world.victims() == free[:1]
    world.wait(5 * MINUTE)
    assert world.running() == {free[1], *jobs}


def test_while_evictions_are_paused_nobody_goes() -> None:
    world = under()
    free = world.submit("lab/a", 8, min_runtime=FREE)
    world.pause(PauseScope.EVICTIONS)
    job = world.submit("lab/b", 8)
    assert world.running() == {free} and world.victims() == []
    world.resume(PauseScope.EVICTIONS)
    assert world.victims() == [free]
    world.wait(5 * MINUTE)
    assert world.running() == {job}


def test_a_draining_host_gains_nobody_anything() -> None:
    world = under(2)
    free = [world.submit("lab/a", 8, min_runtime=FREE) for _ in range(2)]
    world.host(world.attempt(free[0]).hosts()[0], HostState.DRAINING)
    world.submit("lab/b", 8)
    assert world.victims() == [free[1]], "the other one would make no room, and runs to its end there"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"exempt": -1}, "exempt = -1: must be 0 or more"),
        ({"youngest_first": 2}, "youngest_first = 2: must be on or off"),
        ({"calc_period": 999}, "calc_period = 999: must be at least 1 s"),
    ],
)
def test_settings_that_are_not_possible(settings: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        by_name("slurm-preempt", **settings)
