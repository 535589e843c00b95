"""What the recorder counts as demand, and usage ratios, with figures by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sim_kit import setup_of, simulate, work

from support.world import World, hosts
from tenure.core.events import Held, PauseScope, Released
from tenure.core.model import GPU, HOUR, MINUTE, Cluster, HostState, JobSpec
from tenure.reports.records import Run
from tenure.sim.log import LogRun
from tenure.sim.setup import Setup
from tenure.sim.work import AsSigned, Work

GPU_HOUR = GPU * HOUR


def recorded(world: World) -> Run:
    log = LogRun("live")
    list(log.feed((at, events) for at, events, _ in world.log))
    return log.run


def of(run: Run, what: str, budget: str = "lab/a", cluster: str = "main") -> list[float]:
    """GPU-hours by hour; parts of an hour are added up."""
    found = [0.0] * -(-(run.until - run.start) // HOUR)
    for row in run.budget_hours:
        if (row.budget, row.cluster) == (budget, cluster):
            found[(row.start - run.start) // HOUR] += getattr(row, what) / GPU_HOUR
    return found


TWO = (Cluster("main", hosts(1)), Cluster("other", hosts(1, prefix="o")))


def test_demand_counts_where_a_job_runs_and_else_at_its_first_cluster() -> None:
    world = World(TWO)
    world.submit("lab/b", min_runtime=4 * HOUR, clusters=("main",))
    world.submit("lab/a", min_runtime=4 * HOUR)  # main is full
    world.advance(HOUR)
    world.host("o0", HostState.FAILED)
    world.advance(HOUR)
    world.host("o0", HostState.HEALTHY)
    world.advance(HOUR)
    run = recorded(world)
    assert of(run, "demand", cluster="other") == of(run, "delivered", cluster="other") == [8, 0, 8]
    assert of(run, "demand", cluster="main") == [0, 8, 0]


def test_demand_of_a_dropped_claim_counts_at_the_first_cluster_again() -> None:
    world = World(TWO)
    world.submit("lab/b", min_runtime=4 * HOUR, clusters=("main",))
    world.submit("lab/b", min_runtime=0, clusters=("other",))
    world.advance(HOUR)
    world.auto_release = False  # what is evicted does not go, so after 10 s of grace and 30 s the claim is dropped
    world.submit("lab/a", min_runtime=4 * HOUR)
    assert world.attempt(3).cluster == "other"
    world.advance(HOUR)
    run = recorded(world)
    assert of(run, "demand", cluster="other") == pytest.approx([0, 8 * 40 / 3600])
    assert of(run, "demand", cluster="main") == pytest.approx([0, 8 * 3560 / 3600])
    assert of(run, "delivered", cluster="other") == [0, 0]


def test_held_jobs_are_no_demand() -> None:
    world = World(hosts(1))
    world.submit("lab/b", min_runtime=8 * HOUR)
    held = world.queue("lab/a", hold="ann")
    world.step(held)
    world.advance(HOUR)
    world.step(Released(world.now, held.job_id, "ann"))
    world.advance(90 * MINUTE)
    world.step(Held(world.now, held.job_id, "ann"))
    world.advance(90 * MINUTE)
    run = recorded(world)
    assert of(run, "demand") == [0, 8, 4, 0]
    assert [row.demand_funded / GPU_HOUR for row in run.hours] == [8, 16, 12, 8]


def test_a_running_job_is_demand_held_or_not() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", min_runtime=4 * HOUR)
    world.step(Held(world.now, job, "ann"))
    world.advance(HOUR)
    assert of(recorded(world), "demand") == [8]


def test_jobs_larger_than_what_is_healthy_are_no_demand() -> None:
    world = World(hosts(2))
    world.submit("lab/b", min_runtime=8 * HOUR)
    world.submit("lab/b", min_runtime=8 * HOUR)
    world.submit("lab/a", replicas=2)
    world.submit("lab/a")
    world.advance(HOUR)
    world.host("h1", HostState.FAILED)
    world.advance(HOUR)
    world.host("h1", HostState.HEALTHY)
    world.advance(HOUR)
    run = recorded(world)
    assert of(run, "demand") == [24, 8, 24]
    assert of(run, "demand", "lab/b") == [16, 16, 16]


def test_jobs_of_a_budget_without_a_share_are_no_demand_while_they_wait() -> None:
    world = World(hosts(2))
    world.submit("lab/a", min_runtime=8 * HOUR)
    world.submit("lab/b", min_runtime=8 * HOUR)
    world.submit("lab/a")
    world.advance(HOUR)
    world.configure({"lab/a": 0.0, "lab/b": 1.0})
    world.advance(HOUR)
    world.configure({"lab/a": 0.5, "lab/b": 0.5})
    world.advance(HOUR)
    run = recorded(world)
    assert of(run, "demand") == [16, 8, 16]
    assert of(run, "delivered") == [8, 8, 8]


def test_jobs_that_are_backing_off_are_no_demand() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", retries=1)
    world.advance(30 * MINUTE)
    world.finish(job, 1)  # it may start again after 10 s
    world.advance(30 * MINUTE)
    run = recorded(world)
    assert of(run, "demand") == of(run, "delivered") == pytest.approx([8 * 3590 / 3600])


def test_a_job_wants_what_it_is_charged_once_that_is_known() -> None:
    world = World(hosts(1))
    world.submit("lab/b")
    world.submit("lab/a", 1, mem=512 * 1024, min_runtime=4 * HOUR)  # all memory of a host
    world.advance(HOUR)
    world.finish(1)
    world.advance(HOUR)
    world.pause(PauseScope.STARTS)
    world.evict(2)
    world.advance(HOUR)
    run = recorded(world)
    minutes = sum(row.ended - row.started for row in run.attempts if row.job_id == 2 and row.ended) / HOUR
    assert of(run, "demand") == [1, 8, 8]
    assert of(run, "delivered") == pytest.approx([0, 8, 8 * (minutes - 1)])
    assert minutes < 1.2


class Preemptible(AsSigned):
    """Nobody claims protection."""

    def spec(self, at: int, work: Work) -> JobSpec:
        return replace(work.spec, contract=replace(work.spec.contract, min_runtime=0))

    @classmethod
    def under(cls, policy: str, seed: int) -> Preemptible:
        return cls()


def ratios(setup: Setup) -> list[tuple[int, int]]:
    run, _ = simulate(setup)
    return [(row.ratio_ppm, row.recent_ppm) for row in run.budget_hours if row.budget == "lab/a"][:2]


def test_usage_ratios_count_funded_work_whatever_was_claimed_for_it() -> None:
    jobs = [(0, work(gpus=8, runtime=3 * HOUR, min_runtime=2 * HOUR))]
    # 8 and 16 of 7 x 24 x 8 GPU-hours, and of 24 x 8.
    used = [(8 * 10**6 // 1344, 8 * 10**6 // 192), (16 * 10**6 // 1344, 16 * 10**6 // 192)]
    assert ratios(setup_of(jobs, policy="priority", claims=Preemptible.under)) == used
    assert ratios(setup_of(jobs, policy="fifo")) == used
    # Under budgets the ledger counts what is promised, too: another hour of 8 GPUs after the first.
    assert ratios(setup_of(jobs)) == [used[1], used[1]]


def test_a_job_says_whether_protection_was_claimed() -> None:
    jobs = [(0, work()), (0, work(min_runtime=0))]
    signed, _ = simulate(setup_of(jobs))
    claimed, _ = simulate(setup_of(jobs, policy="priority", claims=Preemptible.under))
    assert [(job.funded, job.protected) for job in signed.jobs] == [(True, True), (False, False)]
    assert [(job.funded, job.protected) for job in claimed.jobs] == [(True, False), (False, False)]
