"""Rule 5 and 6 as tables: who is placed first on one free host, and why."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from scenarios import OLD, RECENT, past, placed
from support.world import World, hosts
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, Cluster
from tenure.core.reasons import Reason

Past = tuple[tuple[str, int, int], ...]


class Case(NamedTuple):
    """On 8 GPUs with two halves: 96 GPU-hours are each one's last day, 672 its lookback."""

    name: str
    used: Past
    first: str
    shares: dict[str, float] = {"lab/a": 0.5, "lab/b": 0.5}  # noqa: RUF012 - nobody changes it


ORDER = [
    Case("nothing used: the id", (), "lab/a"),
    Case("the lower ratio", (("lab/a", 2, OLD), ("lab/b", 1, OLD)), "lab/b"),
    Case("a tie: the id", (("lab/a", 7, OLD), ("lab/b", 7, OLD)), "lab/a"),
    Case(
        "below its last day before the lower ratio",
        (("lab/a", 96, RECENT), ("lab/b", 95, RECENT), ("lab/b", 400, OLD)),
        "lab/b",
    ),
    Case(
        "at its last day is not below it", (("lab/a", 96, RECENT), ("lab/b", 90, RECENT), ("lab/b", 500, OLD)), "lab/b"
    ),
    Case("both below: the ratio", (("lab/a", 95, RECENT), ("lab/b", 10, RECENT), ("lab/b", 84, OLD)), "lab/b"),
    Case("both above: the ratio", (("lab/a", 120, RECENT), ("lab/b", 100, RECENT), ("lab/b", 30, OLD)), "lab/a"),
    Case(
        "ratios, not amounts: 60 of 504 before 30 of 168",
        (("lab/a", 30, OLD), ("lab/b", 60, OLD)),
        "lab/b",
        {"lab/a": 0.125, "lab/b": 0.375},
    ),
    Case("no share comes last", (("lab/b", 600, RECENT),), "lab/b", {"lab/a": 0, "lab/b": 1}),
    Case(
        "from the root down: the program first, then the project in it",
        (("lab/p/x", 50, OLD), ("lab/p/y", 49, OLD), ("lab/q/x", 100, OLD), ("lab/q/y", 0, OLD)),
        "lab/p/y",
        {"lab/p": 0.5, "lab/p/x": 0.5, "lab/p/y": 0.5, "lab/q": 0.5, "lab/q/x": 0.5, "lab/q/y": 0.5},
    ),
    Case(
        "what is left over takes part as self",
        (("lab/p", 50, OLD), ("lab/q", 40, OLD)),
        "lab",
        {"lab/p": 0.25, "lab/q": 0.25},
    ),
]


@pytest.mark.parametrize("case", ORDER, ids=lambda case: case.name)
@pytest.mark.parametrize("turn", [1, -1])
def test_the_first_of_several_budgets(case: Case, turn: int) -> None:
    world = World(hosts(1), case.shares)
    past(world, *case.used)
    budgets = [path for path in case.shares if not world.state.the_tree().nodes[path].children]
    if case.first not in budgets:
        budgets.append(case.first)
    events = [world.queue(path, 8) for path in budgets][::turn]
    world.step(*events)
    assert [world.job(i).budget for i in placed(world)] == [case.first]


@pytest.mark.parametrize("case", ORDER[:-2], ids=lambda case: case.name)
def test_unallocated_jobs_follow_the_same_rules_over_unallocated_usage(case: Case) -> None:
    world = World(hosts(1), case.shares)
    past(world, *case.used, kind=Kind.UNALLOCATED)
    world.step(*(world.queue(path, 8, min_runtime=0) for path in case.shares))
    assert [world.job(i).budget for i in placed(world)] == [case.first]


def test_an_unallocated_job_counts_an_hour_at_once_so_one_pass_does_not_give_everything_to_one() -> None:
    world = World(hosts(4))
    world.step(*(world.queue(path, 8, min_runtime=0) for path in ("lab/a",) * 4 + ("lab/b",) * 4))
    assert [world.job(i).budget for i in placed(world)] == ["lab/a", "lab/b", "lab/a", "lab/b"]


def test_unallocated_jobs_are_placed_last_even_from_the_budget_that_comes_first() -> None:
    world = World(hosts(1))
    past(world, ("lab/b", 600, OLD))
    free = world.queue("lab/a", 8, min_runtime=0, priority=9)
    charged = world.queue("lab/b", 8)
    world.step(free, charged)
    assert placed(world) == [charged.job_id]


def test_charged_usage_is_nothing_to_unallocated_jobs_and_the_other_way_round() -> None:
    world = World(hosts(1))
    past(world, ("lab/a", 600, OLD))
    first = world.queue("lab/b", 8, min_runtime=0)
    second = world.queue("lab/a", 8, min_runtime=0)
    world.step(first, second)
    assert placed(world) == [second.job_id]  # both had no free time yet: the id of the budget


@pytest.mark.parametrize(
    ("why", "jobs"),
    [
        ("the higher priority, whoever it is", [("ann", 1), ("bob", 0), ("bob", 0)]),
        ("the person least charged", [("bob", 0), ("ann", 0)]),
        ("among one's own the oldest", [("bob", 0), ("bob", 0)]),
        ("a negative priority comes after none", [("bob", 0), ("bob", -1)]),
    ],
)
def test_the_first_in_one_budget(why: str, jobs: list[tuple[str, int]]) -> None:
    """``jobs`` in the order expected; they are submitted in that order and in the reverse one."""
    for backwards in (False, True):
        if backwards and why == "among one's own the oldest":
            continue
        world = World(hosts(1))
        past(world, ("lab/a", 10, OLD, "ann"), ("lab/a", 9, OLD, "bob"))  # type: ignore[arg-type]
        order = list(reversed(jobs)) if backwards else jobs
        made = []
        for user, priority in order:
            world.now += 1
            made.append(world.queue("lab/a", 8, user=user, priority=priority))
        world.step(*made)
        first = world.job(placed(world)[0])
        assert (first.spec.user, first.spec.priority) == jobs[0], why
        if order == jobs:
            assert first.id == 1


def test_people_take_turns_in_one_budget() -> None:
    world = World(hosts(4))
    world.step(*(world.queue("lab/a", 8, user=user) for user in ("ann",) * 4 + ("bob",) * 2))
    assert [world.job(i).spec.user for i in placed(world)] == ["ann", "bob", "ann", "bob"]


def test_a_requeued_job_keeps_its_seniority() -> None:
    world = World(hosts(1))
    old = world.submit("lab/a", 8, min_runtime=15 * MINUTE)
    young = world.submit("lab/a", 8)
    world.evict(old)
    world.advance(5 * MINUTE)
    assert world.job_state(old) is JobState.RUNNING  # back before the one that came later
    assert world.job(old).attempts == 2 and world.job_state(young) is JobState.QUEUED


def test_priority_orders_inside_one_budget_and_does_nothing_else() -> None:
    world = World(hosts(1))
    past(world, ("lab/b", 1, OLD))
    high = world.queue("lab/b", 8, priority=100)
    low = world.queue("lab/a", 8, priority=-100)
    world.step(high, low)
    assert placed(world) == [low.job_id]


def test_promises_count_at_once() -> None:
    # a is owed more, but one 8-h contract on 8 GPUs puts it behind: 64 promised against b's 50 used.
    world = World(hosts(2))
    past(world, ("lab/b", 50, OLD))
    events = [world.queue(path, 8, min_runtime=8 * HOUR) for path in ("lab/a", "lab/a", "lab/b")]
    world.step(*events)
    assert [world.job(i).budget for i in placed(world)] == ["lab/a", "lab/b"]


def test_a_small_job_passes_a_gang_that_does_not_fit() -> None:
    world = World(hosts(2))
    world.submit("lab/a", 8, min_runtime=HOUR)
    gang = world.submit("lab/a", 8, replicas=2)
    small = world.submit("lab/b", 2)
    assert world.job_state(gang) is JobState.QUEUED and world.job_state(small) is JobState.RUNNING
    assert world.why(gang).reason in (Reason.WAITING_CAPACITY, Reason.WAITING_WHOLE_HOSTS)


def test_a_job_that_several_clusters_accept_leaves_all_queues_when_one_takes_it() -> None:
    world = World((Cluster("main", hosts(1)), Cluster("aux", hosts(1, prefix="x"))))
    events = [world.queue("lab/a", 8, clusters=("main", "aux")) for _ in range(3)]
    events.append(world.queue("lab/b", 8, clusters=("aux",)))
    world.step(*events)
    assert {world.attempt(i).cluster for i in world.running()} == {"main", "aux"}
    assert len(world.running()) == 2


def test_a_job_whose_first_cluster_is_full_keeps_its_place_in_the_order_of_the_next() -> None:
    world = World((Cluster("aux", hosts(1, prefix="x")), Cluster("main", hosts(1))))
    world.submit("lab/b", 8, clusters=("main",))
    second = world.queue("lab/a", 8, clusters=("main", "aux"))
    later = world.queue("lab/b", 8, clusters=("aux",))
    world.step(later, second)
    assert world.attempt(second.job_id).cluster == "aux" and world.job_state(later.job_id) is JobState.QUEUED
