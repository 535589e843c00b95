"""What is chosen of a trace: window, thinning, scale, sizes, synthetic debug jobs, rules, budgets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.model import DAY, HOUR, MINUTE, SECOND, SHARE_ONE, Budget, Contract
from tenure.core.tree import Tree
from tenure.reports.traces.records import Supply
from tenure.sim.traces import Rule, Shares, TraceError, TraceJob, TraceOptions, Window
from tenure.sim.traces.budgets import largest_remainder, team_budgets
from tenure.sim.traces.select import Selection, select
from tenure.units import parse_time

JOB = TraceJob("j", 0, HOUR, 8, "vision", "ada", timeout=2 * HOUR)


def jobs(count: int = 1000, **changes: Any) -> list[TraceJob]:
    return [replace(JOB, id=f"j{i}", submitted=i * MINUTE, **changes) for i in range(count)]


def chosen(found: list[TraceJob], **options: Any) -> Selection:
    return select(found, TraceOptions(**options), None)


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("10d..20d", Window(10 * DAY, 20 * DAY)),
        ("..1d12h", Window(None, 36 * HOUR)),
        ("1h..", Window(HOUR, None)),
        ("0..1h", Window(0, HOUR)),
        ("..", Window()),
        (
            "2017-10-03..2017-12-10",
            Window(parse_time("2017-10-03T00:00:00Z"), parse_time("2017-12-11T00:00:00Z"), dated=True),
        ),
        ("2017-10-03T06:00:00Z..", Window(parse_time("2017-10-03T06:00:00Z"), None, dated=True)),
    ],
)
def test_windows(text: str, window: Window) -> None:
    assert Window.parse(text) == window


@pytest.mark.parametrize("text", ["", "10d", "5..6", "2d..1d", "2017-10-03..3d", "2017-13-01..", "500ms..", "a..b"])
def test_bad_windows(text: str) -> None:
    with pytest.raises(ValueError, match="window"):
        Window.parse(text)


def test_a_window_cuts_and_moves_the_zero() -> None:
    found = [replace(JOB, id=str(day), submitted=day * DAY) for day in range(5)]
    cut = chosen(found, window=Window.parse("1d..3d"))
    assert [(job.id, job.submitted) for job in cut.jobs] == [("1", 0), ("2", DAY)]
    assert (cut.zero, cut.span, cut.counts) == (DAY, 2 * DAY, {"outside the window": 3})
    # Past the trace's end there is no demand, and no time either.
    assert chosen(found, window=Window.parse("1d..300d")).span == 4 * DAY
    dated = Window.parse("2026-01-06..2026-01-06")
    monday = parse_time("2026-01-05T00:00:00Z")
    there = [replace(job, submitted=job.submitted + monday) for job in found]
    tuesday = select(there, TraceOptions(window=dated), monday)
    assert [(job.id, job.submitted) for job in tuesday.jobs] == [("1", 0)]
    assert (tuesday.zero, tuesday.span) == (DAY, DAY)
    with pytest.raises(TraceError, match="the window has dates and the trace has none"):
        chosen(found, window=dated)
    with pytest.raises(TraceError, match=r"no job is left to replay \(5 outside the window\)"):
        chosen(found, window=Window.parse("10d..11d"))


def test_thinning_is_by_job_and_seed() -> None:
    found = jobs()
    half = chosen(found, thin=SHARE_ONE // 2)
    assert 440 < len(half.jobs) < 560
    assert half.counts == {"thinned out": 1000 - len(half.jobs)}
    assert chosen(found[::-1], thin=SHARE_ONE // 2).jobs == half.jobs
    less = {job.id for job in chosen(found, thin=SHARE_ONE // 4).jobs}
    assert less < {job.id for job in half.jobs}
    assert chosen(found, thin=SHARE_ONE // 2, seed=1).jobs != half.jobs


def test_durations_are_scaled_to_whole_seconds() -> None:
    (job,) = chosen([replace(JOB, runtime=5 * SECOND, timeout=HOUR)], durations=500_000).jobs
    assert (job.runtime, job.timeout) == (3 * SECOND, HOUR // 2)
    (job,) = chosen([replace(JOB, runtime=SECOND, timeout=None)], durations=1).jobs
    assert (job.runtime, job.timeout) == (SECOND, None)


def test_gangs_take_whole_hosts_and_small_jobs_may_be_rounded() -> None:
    found = [replace(JOB, id=str(gpus), gpus=gpus) for gpus in (1, 3, 5, 6, 8, 9, 12, 16)]

    def sizes(**options: Any) -> list[int]:
        picked = {job.id: job.gpus for job in chosen(found, gpus=96, **options).jobs}
        return [picked[job.id] for job in found]

    assert sizes() == [1, 3, 5, 6, 8, 16, 16, 16]
    assert sizes(round_up=True) == [1, 4, 8, 8, 8, 16, 16, 16]
    assert sizes(round_up=True, gpus_per_host=6) == [1, 4, 6, 6, 12, 12, 12, 18]
    assert chosen(found, gpus=96, round_up=True).counts == {"rounded up to more GPUs": 5}


def test_jobs_larger_than_the_cluster() -> None:
    found = [replace(JOB, id=str(gpus), gpus=gpus) for gpus in (8, 16, 24)]
    left = chosen(found, gpus=16)
    assert [job.gpus for job in left.jobs] == [16, 8]
    assert left.counts == {"larger than the cluster, left out": 1}
    capped = chosen(found, gpus=16, cap=True)
    assert sorted(job.gpus for job in capped.jobs) == [8, 16, 16]
    assert capped.counts == {"larger than the cluster, capped": 1}
    with pytest.raises(TraceError, match="each is larger than the 8 GPUs"):
        chosen(found[1:], gpus=8)


def test_the_cluster_follows_from_the_demand_wanted() -> None:
    found = [replace(JOB, id=str(i), submitted=i * HOUR, runtime=20 * HOUR) for i in range(24)]  # 160 GPUs on average
    assert chosen(found).gpus == 64
    assert chosen(found, demand=2_000_000).gpus == 80
    assert chosen(found, demand=3_000_000, gpus_per_host=4).gpus == 52
    assert Supply(160 * DAY, DAY).over(64) == 2.5
    assert Supply(160 * DAY, DAY).average_gpus == 160
    assert Supply(1, DAY).gpus_for(SHARE_ONE) == 8


def test_synthetic_debug_jobs_come_in_the_hour_before_a_job() -> None:
    found = [replace(job, submitted=job.submitted + DAY) for job in jobs(400, gpus=16)]
    picked = chosen(found, gpus=16, add_debug=1_500_000)
    added = [job for job in picked.jobs if job.synthetic]
    assert 550 < len(added) < 650
    assert picked.counts == {"synthetic debug jobs added": len(added)}
    original = {job.id: job for job in found}
    for job in added:
        of = original[job.id.partition("+")[0]]
        assert 0 < of.submitted - job.submitted < HOUR
        assert 10 * SECOND <= job.runtime < 600 * SECOND
        assert job.gpus in (1, 8)
        assert (job.team, job.user) == (of.team, of.user)
    assert 0.65 < sum(job.gpus == 1 for job in added) / len(added) < 0.85
    assert [job for job in picked.jobs if not job.synthetic] == found
    assert list(picked.jobs) == sorted(picked.jobs, key=lambda job: (job.submitted, job.id))
    assert chosen(found[:1], add_debug=SHARE_ONE).jobs[0] in added  # of the job alone, not of its company


@pytest.mark.parametrize(
    ("gpus", "runtime", "contract"),
    [
        (8, 15 * MINUTE, Contract(15 * MINUTE, False)),
        (16, 15 * MINUTE, Contract(HOUR, False)),
        (1, HOUR, Contract(HOUR, False)),
        (8, HOUR + SECOND, Contract(HOUR, True)),
        (64, DAY, Contract(2 * HOUR, True)),
        (72, DAY, Contract(4 * HOUR, True)),
    ],
)
def test_the_default_rules(gpus: int, runtime: int, contract: Contract) -> None:
    assert TraceOptions().contract("j", gpus, runtime) == contract


def test_rules_of_ones_own_and_unallocated_jobs() -> None:
    rules = (Rule(1, None, 0, True), Rule(None, None, 30 * MINUTE, False))
    options = TraceOptions(rules=rules, unallocated=250_000)
    assert options.contract("j", 1, DAY) == Contract(0, True)
    drawn = [options.contract(f"j{i}", 2, DAY) for i in range(1000)]
    assert set(drawn) == {Contract(0, False), Contract(30 * MINUTE, False)}
    assert 200 < drawn.count(Contract(0, False)) < 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thin": 0}, "thin = 0"),
        ({"durations": 0}, "durations = 0"),
        ({"unallocated": SHARE_ONE + 1}, "unallocated = 1000001"),
        ({"gpus": 12}, "gpus = 12: must be a multiple of the 8"),
        ({"rules": ()}, "the last one must match every job"),
        ({"rules": (Rule(8, None, 0, True),)}, "the last one must match every job"),
        ({"max_teams": 0}, "max_teams = 0"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TraceOptions(**options)


TEAMS = [
    replace(JOB, id="1", team="Big Team", runtime=6 * HOUR),
    replace(JOB, id="2", team="self", runtime=3 * HOUR),
    replace(JOB, id="3", team="tiny", runtime=HOUR),
]


def test_budgets_in_proportion_to_gpu_time() -> None:
    teams = team_budgets(TEAMS, TraceOptions())
    assert teams.paths == {"Big Team": "lab/big-team", "self": "lab/self-2", "tiny": "lab/tiny"}
    assert [(b.path, b.share) for b in teams.budgets] == [
        ("lab", SHARE_ONE),
        ("lab/big-team", 599_999),
        ("lab/self-2", 300_000),
        ("lab/tiny", 100_001),
    ]
    Tree(teams.budgets)


def test_budgets_equal_or_given_or_of_other_names() -> None:
    equal = team_budgets(TEAMS, TraceOptions(shares=Shares.EQUAL, organisation="site"))
    assert [b.share for b in equal.budgets] == [SHARE_ONE, 333_334, 333_333, 333_333]
    assert equal.paths["tiny"] == "site/tiny"
    both = TraceOptions(teams=(("tiny", "a"), ("self", "a")), shares=(("a", 300_000), ("big-team", 200_000), ("b", 0)))
    given_shares = team_budgets(TEAMS, both)
    assert given_shares.paths == {"Big Team": "lab/big-team", "self": "lab/a", "tiny": "lab/a"}
    assert given_shares.budgets[1:] == (Budget("lab/a", 300_000), Budget("lab/b", 0), Budget("lab/big-team", 200_000))
    with pytest.raises(TraceError, match="no share is given for the budgets self-2, tiny"):
        team_budgets(TEAMS, TraceOptions(shares=(("big-team", 1),)))
    with pytest.raises(TraceError, match="add up to at most 1"):
        team_budgets(TEAMS[:1], TraceOptions(shares=(("big-team", SHARE_ONE), ("x", 1))))


def test_small_teams_share_a_budget() -> None:
    teams = team_budgets(TEAMS, TraceOptions(max_teams=2))
    assert teams.paths == {"Big Team": "lab/big-team", "self": "lab/other", "tiny": "lab/other"}
    assert teams.pooled == 2
    assert team_budgets(TEAMS, TraceOptions(max_teams=3)).pooled == 0


@given(st.dictionaries(st.text(max_size=3), st.integers(1, 10**15), min_size=1, max_size=40))
def test_shares_add_up_and_follow_the_weights(weights: dict[str, int]) -> None:
    shares = largest_remainder(weights)
    assert sum(shares.values()) == SHARE_ONE
    total = sum(weights.values())
    for name, weight in weights.items():
        assert shares[name] >= 1
        assert abs(shares[name] - weight * SHARE_ONE / total) <= len(weights) + 1
