"""The simulator as a whole: the same core, the invariants after every event, determinism, logs replayed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sim_kit import NEVER, Watch, setup_of, simulate, work

from support.invariants import fingerprint
from tenure.core import codec
from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.reports.records import Run
from tenure.sim.hosts import Fault, faults
from tenure.sim.log import LogRun
from tenure.sim.loop import Simulation
from tenure.sim.setup import START, Faults, Setup, make_cluster
from tenure.sim.work import Work


def random_jobs(seed: int, count: int, clusters: Sequence[str] = ("main",)) -> list[tuple[int, Work]]:
    draw = random.Random(seed)
    jobs = []
    for _ in range(count):
        gpus = draw.choice((1, 2, 4, 8))
        one = work(
            draw.choice(("lab/a", "lab/b")),
            gpus,
            draw.randrange(1, 240) * MINUTE,
            replicas=draw.choice((1, 2)) if gpus == 8 else 1,
            min_runtime=draw.choice((0, 5 * MINUTE, HOUR, 4 * HOUR)),
            resumable=draw.random() < 0.7,
            user=draw.choice(("ann", "bob", "cy")),
            clusters=draw.sample(list(clusters), draw.randrange(1, len(clusters) + 1)),
            priority=draw.choice((0, 0, 1)),
            startup=draw.choice((0, 20)) * SECOND,
            restart_cost=draw.choice((0, 300)) * SECOND,
            exit_code=draw.choice((0, 0, 0, 1)),
            checkpoint_every=draw.choice((0, 30)) * MINUTE,
            save_time=draw.choice((5, 30, 600)) * SECOND,
            grace=draw.choice((0, 5)) * MINUTE,
        )
        if draw.random() < 0.2:
            one = replace(one, spec=replace(one.spec, timeout=draw.choice((8, 10)) * HOUR))
        jobs.append((draw.randrange(0, 12 * 60) * MINUTE, one))
    return jobs


def random_setup(seed: int, count: int = 60, *, two: bool = False) -> Setup:
    names = ("main", "other") if two else ("main",)
    draw = random.Random(seed + 1)
    cancels = [(draw.randrange(0, 14 * 60) * MINUTE, draw.randrange(count)) for _ in range(count // 8)]
    setup = setup_of(random_jobs(seed, count, names), gpus=24, cancels=cancels, seed=seed)
    clusters = tuple(make_cluster(24 if name == "main" else 16, name) for name in names)
    return replace(setup, clusters=clusters, faults=Faults(between=2 * DAY, repair=30 * MINUTE))


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_invariants_hold_after_every_event_of_random_workloads(seed: int, two: bool) -> None:
    watch = Watch()
    run, _ = simulate(random_setup(seed, two=two), watch)
    assert watch.starts == sorted(watch.starts)
    occupied = sum(row.funded + row.unfunded for row in run.hours)
    assert occupied == sum(job.occupied for job in run.jobs)
    assert occupied == sum(row.delivered + row.free for row in run.budget_hours)
    assert all(row.funded + row.unfunded + row.unusable + row.withheld <= row.healthy for row in run.hours)
    assert sum(job.evictions for job in run.jobs) == len(run.evictions)
    assert all(job.ended is None or job.lost <= job.occupied for job in run.jobs)


def tables(run: Run) -> str:
    rows = (run.jobs, run.attempts, run.evictions, run.hours, run.budget_hours)
    return codec.dumps([[codec.plain(row) for row in table] for table in rows])


def test_the_same_seed_gives_the_same_run_to_the_byte() -> None:
    first, second = (simulate(random_setup(5))[0] for _ in range(2))
    assert tables(first) == tables(second)
    assert tables(first) != tables(simulate(random_setup(6))[0])


def test_a_log_replayed_in_the_simulator_gives_the_same_decisions_and_tables() -> None:
    watch = Watch()
    run, _ = simulate(random_setup(11, two=True), watch)
    log = LogRun("again")
    made = list(log.feed((at, events) for at, events, _ in watch.log))
    assert [fingerprint(result) for result in made] == [fingerprint(result) for _, _, result in watch.log]
    assert [(job.id, job.started, job.ended, job.state) for job in log.run.jobs] == [
        (job.id, job.started, job.ended, job.state) for job in run.jobs
    ]
    assert [row.funded for row in log.run.hours][:10] == [row.funded for row in run.hours][:10]


def test_a_log_without_its_beginning_is_refused() -> None:
    with pytest.raises(ValueError, match="compacted"):
        list(LogRun("late").feed([(START, [])]))


def test_broken_off_it_is_a_valid_run_up_to_there() -> None:
    whole = simulate(random_setup(3))[0]
    broken = Simulation(random_setup(3)).run(lambda at, jobs: at < START + 5 * HOUR)
    assert not broken.complete and whole.complete
    assert START + 5 * HOUR <= broken.until < START + 14 * HOUR
    full = [row for row in broken.hours if row.length == HOUR and row.start + HOUR <= broken.until]
    assert [row.funded for row in full] == [row.funded for row in whole.hours][: len(full)]
    assert sum(row.length for row in broken.hours) == broken.until - START
    assert broken.notes == ["broken off before its end"]


def test_what_the_server_would_refuse_is_refused_and_counted() -> None:
    run, script = simulate(setup_of([(0, work("lab/nowhere")), (0, work(gpus=9))]))
    assert not run.jobs and len(script.said) == 2
    assert run.notes == [
        "1 job was refused: replica_too_large",
        "1 job was refused: unknown_budget",
    ]


def test_contracts_and_graces_are_cut_to_what_the_cluster_allows() -> None:
    cluster = replace(make_cluster(16), min_runtime_max=2 * HOUR, max_grace=MINUTE)
    run, _ = simulate(setup_of([(0, work(runtime=5 * HOUR, min_runtime=4 * HOUR))], clusters=(cluster,)))
    assert run.jobs[0].state == "succeeded"
    assert run.attempts[0].protected_until == START + 2 * HOUR


def test_faults_are_the_same_for_every_policy_and_come_at_their_rate() -> None:
    clusters = (make_cluster(1024),)
    drawn = faults(clusters, Faults(between=100 * DAY), 1, START, START + 100 * DAY)
    assert drawn == faults(clusters, Faults(between=100 * DAY), 1, START, START + 100 * DAY)
    assert 90 <= len(drawn) <= 170  # 128 expected
    assert 0.4 <= sum(fault.severe for fault in drawn) / len(drawn) <= 0.8
    assert not faults(clusters, NEVER, 1, START, START + DAY)


def test_a_draining_host_is_repaired_when_it_is_empty() -> None:
    simulation = Simulation(setup_of([(0, work(runtime=3 * HOUR))], gpus=8), Watch())
    at = START + 30 * MINUTE
    simulation._push(at, Fault(at, "main", "main-0", False, HOUR))
    run = simulation.run()
    first, second = run.attempts
    # Protected for an hour, then told to go; it saves in 30 s; the repair takes an hour.
    assert first.because == "evicted_drain" and first.ended == START + HOUR + 30 * SECOND
    assert second.started == first.ended + HOUR
