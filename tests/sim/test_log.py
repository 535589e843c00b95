"""Live logs through the simulator: what a server may do that a simulation never does, with figures by hand."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.invariants import fingerprint
from support.world import World, budgets, hosts
from tenure.core import admission
from tenure.core.events import AttemptExited, CancelRequested, EvictRequested, ExitKind, Held, Released
from tenure.core.model import GPU, HOUR, MINUTE, SHARE_ONE, After, Array, Budget, Cluster, HostState
from tenure.core.reasons import Refusal
from tenure.reports.metrics import summary
from tenure.reports.records import Run
from tenure.sim.log import LogRun

GPU_HOUR = GPU * HOUR
HALF = SHARE_ONE // 2
MOVED = (Budget("lab", SHARE_ONE), Budget("lab/b", HALF), Budget("lab/c", HALF, moved_from="lab/a"))
WITH_CHILD = (*budgets({"lab/a": 0.5, "lab/b": 0.5}), Budget("lab/a/x", HALF))


def replayed(world: World) -> Run:
    """The world's log, decided again: the same decisions."""
    log = LogRun("live")
    made = list(log.feed((at, events) for at, events, _ in world.log))
    assert [fingerprint(result) for result in made] == [fingerprint(result) for _, _, result in world.log]
    summary(log.run)
    return log.run


def by_part(run: Run, what: str) -> list[tuple[str, float, float]]:
    """(budget, hours after the start, GPU-hours) where there are any."""
    rows = [(row.budget, (row.start - run.start) / HOUR, getattr(row, what) / GPU_HOUR) for row in run.budget_hours]
    return sorted((row for row in rows if row[2]), key=lambda row: (row[1], row[0]))


def three_hours(tree: tuple[Budget, ...]) -> Run:
    """a runs 8 of 16 GPUs, and another job of a waits, held back; after 90 min there is another tree."""
    world = World(hosts(2))
    world.submit("lab/a", min_runtime=4 * HOUR)
    world.submit("lab/b", min_runtime=4 * HOUR)
    world.submit("lab/a", min_runtime=4 * HOUR)
    world.advance(90 * MINUTE)
    world.configure(tree=tree)
    world.advance(90 * MINUTE)
    return replayed(world)


def test_a_budget_that_moves_takes_its_jobs_along() -> None:
    run = three_hours(MOVED)
    for what, amount in (("delivered", 8), ("demand", 16), ("entitled", 8)):
        assert [row for row in by_part(run, what) if row[0] != "lab/b"] == [
            ("lab/a", 0, amount),
            ("lab/a", 1, amount / 2),
            ("lab/c", 1.5, amount / 2),
            ("lab/c", 2, amount),
        ], what
    assert [(row.start - run.start, row.length) for row in run.hours] == [
        (0, HOUR),
        (HOUR, HOUR // 2),
        (HOUR + HOUR // 2, HOUR // 2),
        (2 * HOUR, HOUR),
    ]
    assert all(row.ratio_ppm > 0 for row in run.budget_hours if row.budget in ("lab/a", "lab/b"))
    assert run.budgets == MOVED


def test_a_budget_that_gets_children_goes_on_as_its_own_self() -> None:
    run = three_hours(WITH_CHILD)
    assert [row for row in by_part(run, "delivered") if row[0] != "lab/b"] == [
        ("lab/a", 0, 8),
        ("lab/a", 1, 4),
        ("lab/a/self", 1.5, 4),
        ("lab/a/self", 2, 8),
    ]
    assert [row for row in by_part(run, "entitled") if row[0] != "lab/b"] == [
        ("lab/a", 0, 8),
        ("lab/a", 1, 4),
        ("lab/a/self", 1.5, 2),
        ("lab/a/x", 1.5, 2),
        ("lab/a/self", 2, 4),
        ("lab/a/x", 2, 4),
    ]


def test_a_budget_that_is_removed_keeps_what_it_was_entitled_to() -> None:
    world = World(hosts(2))
    world.advance(90 * MINUTE)
    world.configure({"lab/a": 1.0})
    world.advance(30 * MINUTE)
    run = replayed(world)
    assert by_part(run, "entitled") == [
        ("lab/a", 0, 8),
        ("lab/b", 0, 8),
        ("lab/a", 1, 4),
        ("lab/b", 1, 4),
        ("lab/a", 1.5, 8),
    ]


def test_hosts_and_clusters_come_and_go() -> None:
    world = World(hosts(2))
    world.advance(90 * MINUTE)
    world.clusters = (Cluster("main", hosts(3)), Cluster("other", hosts(1, 4, prefix="o")))
    world.step(world.config())
    world.host("h2", HostState.FAILED)
    world.submit("lab/a", 4, clusters=("other",))
    world.advance(HOUR)
    world.finish(1)
    world.clusters = (Cluster("main", hosts(1)),)
    world.step(world.config())
    world.advance(30 * MINUTE)
    run = replayed(world)
    found = summary(run)
    assert run.hosts == {"main": (("h0", 8), ("h1", 8), ("h2", 8)), "other": (("o0", 4),)}
    # main had 16 GPUs for 1.5 h, 24 for 1 h of which 8 were broken, 8 for 0.5 h; other had 4 for 1 h.
    assert found["gpu_hours"]["declared"] == 24 + 24 + 4 + 4
    assert found["gpu_hours"]["healthy"] == 24 + 16 + 4 + 4
    assert found["availability"] == round(48 / 56, 6)
    assert found["gpu_hours"]["funded"] == 4
    assert {row.cluster for row in run.hours if row.start >= run.start + 150 * MINUTE} == {"main"}


def test_an_attempt_may_be_evicted_and_gone_in_one_batch() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a")
    world.advance(30 * MINUTE)
    attempt = world.attempt(job).id
    world.step(
        EvictRequested(world.now, attempt, "op", "test"),
        AttemptExited(world.now, attempt, ExitKind.EXITED, (-9,)),
    )
    world.advance(30 * MINUTE)
    run = replayed(world)
    assert [(row.attempt_id, row.job_id, row.cluster, row.because) for row in run.evictions] == [
        (attempt, job, "main", "evicted_by_person")
    ]
    assert [(row.ended is None, row.because) for row in run.attempts] == [(False, "evicted_by_person"), (True, "")]
    assert by_part(run, "delivered") == by_part(run, "demand") == [("lab/a", 0, 8)]


def test_a_job_may_come_and_go_in_one_batch() -> None:
    world = World(hosts(1))
    event = world.queue("lab/a")
    world.step(event, CancelRequested(world.now, event.job_id, "ann"))
    world.advance(HOUR)
    run = replayed(world)
    assert [(job.state, job.started) for job in run.jobs] == [("cancelled", None)]
    assert by_part(run, "demand") == []


def test_the_first_batch_may_bring_jobs_too() -> None:
    world = World(hosts(1))
    world.submit("lab/a")
    (first, config, _), (_, submitted, _), *_ = world.log
    log = LogRun("live")
    list(log.feed([(first, (*config, *submitted)), (first + HOUR, ())]))
    assert by_part(log.run, "demand") == by_part(log.run, "delivered") == [("lab/a", 0, 8)]


TREES = (
    budgets({"lab/a": 0.5, "lab/b": 0.5}),
    budgets({"lab/a": 0.2, "lab/b": 0.8}),
    WITH_CHILD,
    MOVED,
    budgets({"lab/a": 0.5, "lab/b": 0.0, "lab/c": 0.5}),
)
CLUSTERS = (
    (Cluster("main", hosts(2)), Cluster("other", hosts(1, prefix="o"))),
    (Cluster("main", hosts(3)),),
    (Cluster("main", hosts(1)), Cluster("third", hosts(2, 4, prefix="t"))),
)


def happen(world: World, draw: random.Random) -> None:
    """Something that people or machines do to a server."""
    jobs, attempts = sorted(world.state.jobs), sorted(world.state.attempts)
    what = draw.choice(("submit", "submit", "submit", "job", "attempt", "host", "configure"))
    if what == "submit":
        places = draw.sample([c.name for c in world.clusters], draw.randrange(1, len(world.clusters) + 1))
        spec = world.spec(
            draw.choice(sorted(budget.path for budget in world.tree)),
            draw.choice((1, 4, 8)),
            replicas=draw.choice((1, 1, 2)),
            min_runtime=draw.choice((0, HOUR, 4 * HOUR)),
            clusters=tuple(places),
        )
        try:
            admission.check_job(world.state, spec)
        except Refusal:
            return
        array = draw.choice((None, None, Array((0, 1, 2)), Array((0, 1, 2, 3), 2)))
        after = tuple(
            After(i, i in world.state.arrays, draw.random() < 0.5) for i in draw.sample(jobs, min(len(jobs), 2))
        )
        world.step(world.queue_spec(spec, draw.choice(("", "", "ann")), array, draw.choice(((), after))))
    elif what == "job" and jobs:
        world.step(draw.choice((CancelRequested, Held, Released))(world.now, draw.choice(jobs), "ann"))
    elif what == "attempt" and attempts:
        attempt = draw.choice(attempts)
        gone = AttemptExited(world.now, attempt, draw.choice((ExitKind.EXITED, ExitKind.LOST)), (draw.randrange(2),))
        evict = EvictRequested(world.now, attempt, "op", "test")
        world.step(*draw.choice(((evict,), (gone,), (evict, gone))))
    elif what == "host":
        cluster = draw.choice(world.clusters)
        world.host(draw.choice(cluster.hosts).name, draw.choice((HostState.HEALTHY, *HostState)))
    elif what == "configure":
        before = world.tree, world.clusters
        world.tree, world.clusters = draw.choice(TREES), draw.choice((world.clusters, *CLUSTERS))
        try:
            admission.check_config(world.state, world.config())
        except Refusal:
            world.tree, world.clusters = before
        world.step(world.config())


@given(st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_any_log_survives(seed: int) -> None:
    draw = random.Random(seed)
    world = World(draw.choice(CLUSTERS), tree=TREES[0])
    for _ in range(30):
        happen(world, draw)
        world.advance(draw.choice((0, MINUTE, 7 * MINUTE, HOUR)), tick=HOUR)
    run = replayed(world)
    found = summary(run)
    assert (found["availability"] or 0) <= 1
    lengths: Counter[str] = Counter()
    for row in run.hours:
        lengths[row.cluster] += row.length
        assert row.funded + row.unfunded + row.unusable + row.withheld <= row.healthy <= row.declared
    assert lengths["main"] == run.until - run.start
    for part in run.budget_hours:
        assert 0 <= part.delivered <= part.demand and part.entitled >= 0 and part.free >= 0
    occupied = sum(job.occupied for job in run.jobs)
    assert occupied == sum(row.funded + row.unfunded for row in run.hours)
    assert occupied == sum(row.delivered + row.free for row in run.budget_hours)


def test_jobs_that_wait_for_others_are_no_demand_until_they_may_queue() -> None:
    """First for an hour, then two at a time of an array of three for an hour each: demand 4, 8, 4 GPUs."""
    world = World(hosts(1))
    first = world.submit("lab/a", 4, min_runtime=4 * HOUR)
    array = world.submit(
        "lab/a", 4, min_runtime=4 * HOUR, array=Array((0, 1, 2), 2), after=(After(first, False, True),)
    )
    vain = world.submit("lab/a", 4, after=(After(array + 2, False, True),))
    for job in (first, array, array + 1, array + 2):
        world.advance(HOUR if job != array + 1 else 0)
        world.finish(job, int(job == array + 2))
    run = replayed(world)
    assert by_part(run, "demand") == [("lab/a", 0, 4), ("lab/a", 1, 8), ("lab/a", 2, 4)]
    assert {row.id: (row.started or row.ended or 0) - row.submitted for row in run.jobs} == dict.fromkeys(
        range(first, vain + 1), 0
    )


def test_the_configuration_must_be_the_first_thing() -> None:
    world = World(hosts(1))
    world.advance(HOUR)
    with pytest.raises(ValueError, match="compacted"):
        list(LogRun("live").feed((at, events) for at, events, _ in world.log[1:]))
