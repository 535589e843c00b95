"""First come, first served: what both policies of a line have in common, and the strict one, as scenarios."""

from __future__ import annotations

import pytest
from policy_kit import Under

from support.world import hosts
from tenure.core.events import Released
from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, Cluster, HostState
from tenure.core.reasons import Reason
from tenure.core.state import Job, State
from tenure.policies import by_name, line
from tenure.policies.fifo import Fifo
from tenure.policies.line import waits

LINES = ("fifo", "backfill")
KEPT = (*LINES, "slurm")
"""Policies that keep a line; those before are first come, first served."""
SHARES = {"lab/a": 0.5, "lab/b": 0.5}


def under(name: str, count: int = 2, **settings: int) -> Under:
    return Under(by_name(name, **settings), hosts(count), SHARES)


# ---- what both have in common


@pytest.mark.parametrize("name", LINES)
def test_the_oldest_first_whatever_its_level_budget_or_contract(name: str) -> None:
    world = under(name, 1)
    first = world.submit("lab/a", 8, min_runtime=0)
    line = [
        world.submit("lab/a", 8, min_runtime=0, priority=-1),
        world.submit("lab/b", 8, min_runtime=HOUR, priority=2),
        world.submit("lab/a", 8, min_runtime=15 * MINUTE, user="bob"),
    ]
    for _ in line:
        world.wait(2 * HOUR)
        world.finish(world.placed()[-1])
    assert world.placed() == [first, *line]
    assert world.victims() == []


@pytest.mark.parametrize("name", KEPT)
def test_who_comes_back_stands_where_it_stood(name: str) -> None:
    world = under(name, 1)
    first = world.submit("lab/a", 8)
    held = world.submit("lab/a", 8)
    later = world.submit("lab/a", 8)
    world.hold(held)
    world.finish(first)
    assert world.running() == {later}
    world.step(world.queue("lab/a", 8), Released(world.now, held, "ann"))
    world.finish(later)
    assert world.running() == {held}


@pytest.mark.parametrize("name", KEPT)
def test_draining_hosts_are_waited_for(name: str) -> None:
    world = under(name, 1)
    job = world.submit("lab/a", 8, min_runtime=0)
    world.host("h0", HostState.DRAINING)
    world.wait(24 * HOUR)
    assert world.running() == {job} and world.victims() == []
    behind = world.submit("lab/a", 8)
    world.finish(job)
    assert world.job_state(behind) is JobState.QUEUED
    world.host("h0", HostState.HEALTHY)
    assert world.running() == {behind}


@pytest.mark.parametrize("name", KEPT)
def test_nobody_is_exposed(name: str) -> None:
    world = under(name, 1)
    job = world.submit("lab/a", 8, min_runtime=0)
    assert world.rules.protected(world.attempt(job), world.now + 365 * 24 * HOUR)


@pytest.mark.parametrize("name", KEPT)
def test_while_starts_are_paused_nobody_starts(name: str) -> None:
    world = under(name, 1)
    world.pause()
    job = world.submit("lab/a", 8)
    assert world.parked(job) is Reason.PAUSED_STARTS and world.rules.withheld(world.state) == 0
    world.resume()
    assert world.running() == {job}


@pytest.mark.parametrize("name", KEPT)
def test_the_head_of_the_line_may_go_away(name: str) -> None:
    world = under(name, 2)
    world.submit("lab/a", 8, timeout=30 * HOUR)
    head = world.submit("lab/b", 8, replicas=2)
    behind = world.submit("lab/a", 8, timeout=40 * HOUR)
    assert world.job_state(behind) is JobState.QUEUED
    world.cancel(head)
    assert behind in world.running()


@pytest.mark.parametrize("name", KEPT)
def test_a_pass_looks_at_those_who_came_and_at_the_head_not_at_the_line(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = under(name, 2)
    there, ends = world.submit("lab/a", 8, timeout=HOUR), world.submit("lab/a", 4, timeout=HOUR)
    world.submit("lab/a", 4, timeout=HOUR)
    head = world.submit("lab/b", 8, replicas=2)
    world.step(*(world.queue("lab/a", 8, timeout=30 * HOUR, user=f"user{n % 7}") for n in range(200)))
    looked_at: list[int] = []

    def counting(state: State, job: Job | None) -> bool:
        looked_at.append(job.id if job is not None else 0)
        return waits(state, job)

    monkeypatch.setattr(line, "waits", counting)
    last = world.submit("lab/a", 8, timeout=30 * HOUR)
    world.finish(ends)
    assert there in world.running() and world.job_state(head) is world.job_state(last) is JobState.QUEUED
    assert 0 < len(looked_at) < 20


# ---- first come, first served


def test_a_head_that_does_not_fit_holds_up_everybody() -> None:
    world = under("fifo", 2)
    first = world.submit("lab/a", 8)
    head = world.submit("lab/b", 8, replicas=2)
    behind = [world.submit("lab/a", 1, min_runtime=15 * MINUTE), world.submit("lab/b", 8, priority=2)]
    assert world.running() == {first}
    assert world.parked(head) is Reason.WAITING_CAPACITY
    assert [world.parked(job) for job in behind] == [Reason.WAITING_TURN] * 2
    assert [world.why(job).reason for job in behind] == [Reason.WAITING_TURN] * 2
    assert world.rules.withheld(world.state) == 8
    world.finish(first)
    assert world.running() == {head}
    assert [world.parked(job) for job in behind] == [Reason.WAITING_CAPACITY, Reason.WAITING_TURN]
    world.finish(head)
    assert world.running() == set(behind)


def test_an_older_job_that_was_held_goes_first_and_at_once() -> None:
    world = under("fifo", 2)
    world.submit("lab/a", 8)
    older = world.submit("lab/a", 8)
    world.hold(older)
    world.finish(1)
    world.submit("lab/a", 8)
    head = world.submit("lab/b", 8, replicas=2)
    alike = world.submit("lab/a", 8)
    world.release(older)
    assert older in world.running() and not {head, alike} & world.running()


def test_who_backs_off_holds_up_nobody_and_goes_first_again() -> None:
    world = under("fifo", 2)
    flaky = world.submit("lab/a", 8, retries=3)
    world.submit("lab/a", 8)
    head = world.submit("lab/b", 8, replicas=2)
    world.finish(flaky, code=1)
    assert world.job_state(flaky) is JobState.QUEUED
    world.wait(MINUTE)
    assert flaky in world.running() and world.job_state(head) is JobState.QUEUED


def test_a_head_holds_up_all_clusters_that_it_accepts_and_no_other() -> None:
    clusters = [Cluster(name, hosts(1, prefix=name)) for name in ("main", "aux", "old")]
    world = Under(Fifo(), clusters, SHARES)
    gang = world.submit("lab/a", 8, clusters=("main", "aux"))
    assert world.attempt(gang).cluster == "main"
    half = world.submit("lab/a", 4, clusters=("aux",))
    head = world.submit("lab/a", 8, clusters=("main", "aux"))
    kept = world.submit("lab/a", 4, clusters=("aux",))
    past = world.submit("lab/a", 4, clusters=("aux", "old"))
    assert world.running() == {gang, half, past} and world.attempt(past).cluster == "old"
    assert world.parked(kept, "aux") is Reason.WAITING_TURN
    assert world.parked(head, "aux") is world.parked(head) is Reason.WAITING_CAPACITY
    world.finish(half)
    assert world.attempt(head).cluster == "aux"
