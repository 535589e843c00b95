"""Static quotas, as tables of scenarios: 4 hosts of 8 GPUs."""

from __future__ import annotations

import pytest
from policy_kit import Under

from support.world import T0, hosts
from tenure.core.lifecycle import JobState
from tenure.core.model import DAY, HOUR, Cluster, Grant, HostState
from tenure.core.reasons import Reason
from tenure.policies.quotas import Quotas

HALVES = {"lab/a": 0.5, "lab/b": 0.5}


def under(count: int = 4, shares: dict[str, float] | None = None, **settings: int) -> Under:
    return Under(Quotas(**settings), hosts(count), shares or HALVES)


@pytest.mark.parametrize(
    ("settings", "share", "running", "asks", "starts"),
    [
        ({}, 0.5, (8, 4), 4, True),
        ({}, 0.5, (8, 8), 1, False),
        ({}, 0.5, (8, 4), 8, False),
        ({}, 0.6, (8, 8), 3, True),  # 19.2 GPUs are 19
        ({}, 0.6, (8, 8), 4, False),
        ({}, 0.58, (8, 8), 3, True),  # 18.56 as well
        ({}, 0.1, (4,), 4, True),  # never less than 8 GPUs
        ({}, 0.1, (4, 4), 1, False),
        ({"quota_least": 0}, 0.1, (), 4, True),  # larger than its 3, and the team has nothing else
        ({"quota_least": 0}, 0.1, (1,), 4, False),
        ({}, 0.5, (), 32, True),
    ],
)
def test_a_team_holds_as_much_as_its_quota(
    settings: dict[str, int], share: float, running: tuple[int, ...], asks: int, starts: bool
) -> None:
    world = under(shares={"lab/a": share, "lab/b": 0.3}, **settings)
    for gpus in running:
        world.submit("lab/a", gpus, min_runtime=0)
    job = world.submit("lab/a", min(asks, 8), replicas=-(-asks // 8))
    assert (job in world.running()) == starts
    if not starts:
        assert world.parked(job) is Reason.WAITING_TEAM_CAP
        assert world.why(job).reason is Reason.WAITING_TEAM_CAP


def test_what_a_team_leaves_idle_is_nobodys_and_shown() -> None:
    world = under()
    mine = [world.submit("lab/a", 8) for _ in range(4)]
    assert world.running() == set(mine[:2])
    assert world.rules.withheld(world.state) == 16
    world.wait(3 * DAY)
    assert world.running() == set(mine[:2]) and world.victims() == []
    other = world.submit("lab/b", 8)
    assert world.running() == {*mine[:2], other} and world.rules.withheld(world.state) == 8
    world.finish(other)
    assert world.running() == set(mine[:2]), "the end of another team's job does not help"
    world.finish(mine[0])
    assert world.running() == set(mine[1:3])


def test_first_come_first_served_within_a_team_and_what_does_not_fit_is_skipped() -> None:
    world = under(1, {"lab/a": 1.0})
    blocks = world.submit("lab/a", 4)
    large, small, high = world.submit("lab/a", 8), world.submit("lab/a", 4), world.submit("lab/a", 4, priority=1)
    assert world.running() == {blocks, small}, "it came first of those that fit"
    world.finish(small)
    assert world.running() == {blocks, high}
    world.finish(blocks)
    world.finish(high)
    assert world.running() == {large}


def test_where_quotas_together_are_more_than_there_is_the_older_job_goes_first() -> None:
    world = under(2, {f"lab/{team}": 0.2 for team in "abcde"})
    jobs = [world.submit(f"lab/{team}", 8) for team in "edcba"]
    assert world.running() == set(jobs[:2])
    world.finish(jobs[0])
    assert world.running() == set(jobs[1:3])


def test_quotas_follow_healthy_gpus_and_grants_and_count_clusters_apart() -> None:
    clusters = [Cluster("main", hosts(4)), Cluster("aux", hosts(4, prefix="x"))]
    grant = Grant("lab/b", ("lab/a",), 8 * 24, "main", T0 + DAY, T0 + 2 * DAY)
    world = Under(Quotas(), clusters, HALVES, grants=[grant])
    jobs = [world.submit("lab/a", 8) for _ in range(5)]
    assert [world.attempt(job).cluster for job in jobs[:4]] == ["main", "main", "aux", "aux"]
    world.host("x3", HostState.FAILED)
    world.finish(jobs[3])
    assert world.job_state(jobs[4]) is JobState.QUEUED, "half of 24 is 12"
    world.host("x3", HostState.HEALTHY)
    assert world.attempt(jobs[4]).cluster == "aux"
    others = [world.submit("lab/b", 8, clusters=("main",)) for _ in range(3)]
    for _ in range(2):
        world.finish(jobs.pop(0))
    assert others[2] not in world.running()
    world.wait(DAY + HOUR)
    assert others[2] in world.running(), "8 GPUs more for a day"


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="quota_least = -1: must be 0 or more"):
        Quotas(quota_least=-1)
