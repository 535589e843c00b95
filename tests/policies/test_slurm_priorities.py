"""Slurm's multifactor priority over simulated clusters, as scenarios."""

from __future__ import annotations

import re

import pytest
from policy_kit import Under

from support.world import hosts
from tenure.core.lifecycle import JobState
from tenure.core.model import DAY, HOUR, MINUTE, SHARE_ONE, Budget, Cluster
from tenure.core.reasons import Reason
from tenure.policies import by_name
from tenure.policies.slurm import Slurm

SHARES = {"lab/a": 0.5, "lab/b": 0.5}
PERIOD = 5 * MINUTE


def under(count: int = 1, shares: dict[str, float] | None = None, **settings: int) -> Under:
    """Begins at the beginning of a period."""
    return Under(Slurm(**settings), hosts(count), shares or SHARES, at=1_800_000_000_000)


def priority(world: Under, job: int) -> int:
    assert isinstance(world.rules, Slurm)
    return world.rules.priority(world.state.jobs[job])


def use(world: Under, budget: str, duration: int, **more: object) -> None:
    """Somebody runs a job of a whole host for so long."""
    job = world.submit(budget, 8, **more)
    world.wait(duration)
    world.finish(job)


def test_whose_budget_used_less_goes_first_whatever_its_people_used() -> None:
    world = under()
    use(world, "lab/a", 10 * HOUR, user="ann")
    use(world, "lab/b", 6 * HOUR, user="bob")
    world.submit("lab/a", 8, user="eve")
    line = [
        world.submit(*of, user=user) for *of, user in (("lab/a", 8, "ann"), ("lab/a", 8, "new"), ("lab/b", 8, "bob"))
    ]
    world.wait(PERIOD)
    for _ in line:
        world.finish(world.placed()[-1])
    # bob's budget has used less than that of ann and new; in it nobody has used more than bob.
    assert world.placed()[-3:] == [line[2], line[1], line[0]]
    assert world.victims() == []


def test_shares_count() -> None:
    world = under(shares={"lab/a": 0.9, "lab/b": 0.1})
    use(world, "lab/a", 10 * HOUR)
    use(world, "lab/b", 6 * HOUR)
    world.submit("lab/a", 8)
    of_b, of_a = world.submit("lab/b", 8, user="bob"), world.submit("lab/a", 8)
    world.finish(world.placed()[-1])
    assert of_a in world.running() and world.job_state(of_b) is JobState.QUEUED


def test_what_an_inner_budget_keeps_for_itself_is_an_account_too() -> None:
    world = under(shares={"lab/a": 0.5})
    use(world, "lab/a", 6 * HOUR)
    use(world, "lab", 2 * HOUR)
    world.submit("lab", 8)
    of_a, of_lab = world.submit("lab/a", 8), world.submit("lab", 8)
    world.finish(world.placed()[-1])
    assert of_lab in world.running() and world.job_state(of_a) is JobState.QUEUED


def test_a_priority_in_numbers() -> None:
    world = under(4, weight_qos=70)  # 32 GPUs
    use(world, "lab/a", HOUR, user="ann")
    for _ in range(4):
        world.submit("lab/b", 8, user="bob", timeout=30 * DAY)
    world.advance(PERIOD)
    # Users: ann, bob, and in each of lab/a, lab/b and lab/self whoever is new. lab has no rest, so that one is last.
    # lab/b: 20 min of 4 hosts against an hour of one. Neither has had more than 5 min since the calculation.
    job = world.submit("lab/a", 8, replicas=2, user="ann")
    new = world.submit("lab/a", 8, user="new")
    free = world.submit("lab/a", 8, user="ann", min_runtime=0)
    ranks = {"bob": 4, "new b": 5, "ann": 2, "new a": 3, "self": 1}
    assert priority(world, job) == 10_000 * ranks["ann"] // 5 + 1_000 * 16 // 32 + 70
    assert priority(world, new) == 10_000 * ranks["new a"] // 5 + 1_000 * 8 // 32 + 70
    assert priority(world, free) == priority(world, job) - 250 - 70
    world.wait(7 * HOUR)
    waited = 7 * HOUR // PERIOD * PERIOD
    now = 10_000 * 4 // 5  # by now lab/b has used more
    assert priority(world, job) == now + 1_000 * waited // (7 * DAY) + 500 + 70
    world.wait(10 * DAY)
    assert priority(world, job) == now + 1_000 + 500 + 70, "not more than the whole weight"


def test_priorities_are_made_once_in_a_period() -> None:
    world = under(calc_period=HOUR)
    world.submit("lab/a", 8)
    mine, other = world.submit("lab/a", 8), world.submit("lab/b", 8, user="bob")
    before = priority(world, mine)
    world.wait(50 * MINUTE)
    assert priority(world, mine) == before and before == priority(world, other)
    world.wait(10 * MINUTE)
    assert priority(world, mine) < priority(world, other)


def test_old_usage_counts_less_and_is_not_forgotten_after_the_lookback() -> None:
    def order(**settings: int) -> list[int]:
        world = under(**settings)
        use(world, "lab/a", 60 * HOUR)
        world.wait(21 * DAY)
        use(world, "lab/b", 10 * HOUR, user="bob")
        world.submit("lab/a", 8)
        line = [world.submit("lab/a", 8), world.submit("lab/b", 8, user="bob")]
        world.finish(world.placed()[-1])
        return [line.index(world.placed()[-1])]

    assert order() == [0]  # three half-lives ago: 60 h are 7.5 h
    assert order(half_life=0) == [1]
    assert order(half_life=14 * DAY) == [1]  # they are 21 h


def test_the_job_with_the_highest_priority_has_the_reservation() -> None:
    world = under(2)
    use(world, "lab/a", 5 * HOUR)
    world.submit("lab/b", 8, timeout=3 * HOUR, user="bob")
    gang_a = world.submit("lab/a", 8, replicas=2)
    gang_b = world.submit("lab/b", 8, replicas=2, user="new", timeout=HOUR)
    late = world.submit("lab/b", 8, timeout=5 * HOUR, user="new")
    assert world.parked(late) is Reason.WAITING_RESERVED
    short = world.submit("lab/a", 8, timeout=2 * HOUR)
    assert short in world.running(), "it is over in time"
    world.wait(3 * HOUR + 5 * MINUTE)
    assert gang_b in world.running() and world.job_state(gang_a) is JobState.QUEUED


def test_usage_is_that_of_all_clusters() -> None:
    clusters = [Cluster("main", hosts(1, prefix="m")), Cluster("aux", hosts(1, prefix="x"))]
    world = Under(Slurm(), clusters, SHARES)
    use(world, "lab/a", 5 * HOUR, clusters=("aux",))
    use(world, "lab/b", HOUR, clusters=("main",), user="bob")
    world.submit("lab/a", 8, clusters=("main",))
    of_a = world.submit("lab/a", 8, clusters=("main",))
    of_b = world.submit("lab/b", 8, clusters=("main",), user="bob")
    world.finish(world.placed()[-1])
    assert of_b in world.running() and world.job_state(of_a) is JobState.QUEUED


def test_shares_of_single_clusters_count_by_their_size() -> None:
    on_main = {"lab/a": (200_000, 800_000), "lab/b": (500_000, 200_000)}
    tree = tuple(Budget(path, share, (("main", main),)) for path, (share, main) in on_main.items())
    clusters = [Cluster("main", hosts(3, prefix="m")), Cluster("aux", hosts(1, prefix="x"))]
    world = Under(Slurm(), clusters, tree=(Budget("lab", SHARE_ONE), *tree))
    # lab/a: 0.8 x 3 + 0.2 x 1 = 2.6 hosts, lab/b: 0.2 x 3 + 0.5 x 1 = 1.1.
    use(world, "lab/a", 5 * HOUR, clusters=("main",))
    use(world, "lab/b", 3 * HOUR, clusters=("main",))
    of_a, of_b = (world.submit(path, 8, replicas=3, clusters=("main",)) for path in ("lab/a", "lab/b"))
    assert priority(world, of_a) > priority(world, of_b)


def test_new_shares_count_at_once() -> None:
    world = under(shares={"lab/a": 0.9, "lab/b": 0.1})
    use(world, "lab/a", 5 * HOUR)
    use(world, "lab/b", 5 * HOUR)
    world.submit("lab/a", 8, timeout=HOUR)
    of_a, of_b = world.submit("lab/a", 8), world.submit("lab/b", 8)
    assert priority(world, of_a) > priority(world, of_b)
    world.configure({"lab/a": 0.1, "lab/b": 0.9})
    assert priority(world, of_a) < priority(world, of_b)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"half_life": 59_000}, "half_life = 59000: must be at least 1 min, or 0 for no decay"),
        ({"calc_period": 999}, "calc_period = 999: must be at least 1 s"),
        ({"max_age": 0}, "max_age = 0: must be more than 0"),
        ({"weight_age": -1}, "weight_age = -1: must be 0 or more"),
        ({"weight_qos": 2**32}, "weight_* = 4294979296 together: at most 4294967295, a priority has 32 bits"),
        ({"default_limit": 0}, "default_limit = 0: must be more than 0"),
    ],
)
def test_settings_that_are_not_possible(settings: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        by_name("slurm", **settings)
