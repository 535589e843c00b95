"""M1, its strict form, M3, net, weeks, impact and surplus, against numbers worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from by_hand import TWO, hour_row, row, three_hours
from fake_runs import CLUSTER, budgets, empty_run
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.model import DAY, GPU, HOUR
from tenure.core.tree import Tree
from tenure.reports.metrics import summary
from tenure.reports.owed import standings, water_filled
from tenure.reports.records import BudgetHourRow, HourRow, Run


def test_the_worked_example() -> None:
    found = summary(three_hours())
    assert found["m1_delivered"] == round(19 / 22, 6)
    assert found["m1_strict"] == round(17 / 22, 6)
    assert found["m1_net"] == round(18 / 22, 6)
    assert found["m1_worst"] == 0.75
    assert (found["budgets_at_95"], found["budgets"]) == (1, 2)
    assert found["m3_delivered"] == round(19 / 24, 6)
    assert found["m3_strict"] == round((6 + 2 + 1 + 2 + 4 + 4) / 24, 6)
    assert found["impact"] == round(19 / 24, 6)
    assert found["surplus_share"] == round(7 / 24, 6)
    assert found["demand_over_supply"] == round(42 / 24, 6)
    assert (found["gpu_hours"]["owed"], found["gpu_hours"]["filled"], found["gpu_hours"]["surplus"]) == (22, 24, 7)
    a, b = found["per_budget"]
    assert (a["budget"], a["m1_delivered"], a["m1_strict"], a["m3_delivered"]) == (
        "lab/a",
        0.75,
        round(7 / 12, 6),
        round(9 / 14, 6),
    )
    assert (b["budget"], b["m1_delivered"], b["m1_strict"], b["surplus_gpu_hours"]) == ("lab/b", 1.0, 1.0, 5.0)


def test_the_surplus_of_one_budget_hides_no_shortfall_of_another() -> None:
    run = empty_run(TWO, length=HOUR)
    run.budget_hours = [row("lab/a", 0, 4, 8, 8), row("lab/b", 0, 4, 4, 0)]
    found = summary(run)
    assert found["m1_delivered"] == 0.5
    assert found["m1_worst"] == 0.0


def test_nor_does_a_surplus_on_another_cluster() -> None:
    run = empty_run(TWO, length=HOUR)
    run.hosts = {CLUSTER: (("n1", 8),), "other": (("o1", 8),)}
    run.budget_hours = [row("lab/a", 0, 4, 8, 0), row("lab/a", 0, 4, 8, 8, cluster="other")]
    assert summary(run)["m1_delivered"] == 0.5


def test_the_warm_up_does_not_count() -> None:
    run = empty_run(TWO, warmup=2 * HOUR, length=3 * HOUR)
    run.budget_hours = [row("lab/a", 0, 4, 4, 0), row("lab/a", 1, 4, 4, 0), row("lab/a", 2, 4, 4, 3)]
    run.hours = [hour_row(0, 8, 0), hour_row(1, 8, 0), hour_row(2, 8, 3)]
    found = summary(run)
    assert found["m1_delivered"] == 0.75
    assert found["occupancy"] == 0.375
    assert found["gpu_hours"]["owed"] == 4


def test_programs_are_told_apart() -> None:
    run = empty_run(length=HOUR)
    run.budget_hours = [
        row("lab/language/pretrain", 0, 4, 8, 6, free=2),
        row("lab/language/posttrain", 0, 4, 1, 1),
        row("lab/vision/self", 0, 2, 0, 0, free=1),
    ]
    run.hours = [hour_row(0, 16, 7, 3)]
    language, vision = summary(run)["per_program"]
    assert (language["program"], language["impact"]) == ("lab/language", round(5 / 9, 6))
    assert (vision["program"], vision["impact"], vision["m1_delivered"]) == ("lab/vision", 0.0, None)
    assert summary(run)["impact"] == 0.5


@pytest.mark.parametrize(("days", "worst", "number"), [(16, 0.75, 2), (17, 0.5, 3)])
def test_a_last_part_week_counts_from_three_days_on(days: int, worst: float, number: int) -> None:
    run = empty_run(TWO, length=days * DAY)
    delivered = {0: 4.0, 1: 3.0, 2: 2.0}
    run.budget_hours = [row("lab/a", hour, 4, 4, delivered[hour // 168]) for hour in range(days * 24)]
    found = summary(run)
    assert (found["m1_worst_week"], found["m1_worst_week_number"]) == (worst, number)
    assert found["m1_worst_week_budget"] == "lab/a"


def test_a_week_starts_with_the_end_of_the_warm_up() -> None:
    run = empty_run(TWO, warmup=DAY, length=8 * DAY)
    run.budget_hours = [row("lab/a", hour, 4, 4, 0 if hour < 24 else 4) for hour in range(8 * 24)]
    weeks = standings(run).weeks
    assert [(week.number, week.delivered) for week in weeks] == [(0, Fraction(1))]


@pytest.mark.parametrize(("wanted", "counts"), [(0.83, False), (0.84, True)])
def test_a_budget_that_is_owed_next_to_nothing_is_not_judged_by_that_week(wanted: float, counts: bool) -> None:
    # 168 GPU-hours of entitlement; 1 % of it is 1.68.
    run = empty_run(TWO)
    run.budget_hours = [row("lab/a", hour, 1, wanted if hour < 2 else 0, 0) for hour in range(168)]
    found = summary(run)
    assert found["m1_worst_week"] == (0.0 if counts else None)
    assert found["m1_worst"] == 0.0


def test_nothing_owed_is_no_figure() -> None:
    found = summary(empty_run())
    for key in ("m1_delivered", "m1_strict", "m1_worst", "m1_worst_week", "m3_delivered", "occupancy", "impact"):
        assert found[key] is None, key
    assert (found["budgets"], found["budgets_at_95"]) == (0, 0)


LEAVES = sorted(Tree(budgets()).leaves())
AMOUNTS = st.integers(0, 8 * GPU * HOUR)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """A few hours in which anything was wanted and anything delivered, on 16 GPUs."""
    run = empty_run(length=5 * DAY)
    run.hosts = {CLUSTER: (("n1", 8), ("n2", 8))}
    allocations = Tree(run.budgets).allocations(CLUSTER, 16, run.start)
    for hour in draw(st.lists(st.integers(0, 119), max_size=4, unique=True)):
        healthy = draw(st.integers(0, 16)) * GPU * HOUR
        start = run.start + hour * HOUR
        run.hours.append(HourRow(CLUSTER, start, HOUR, 16 * GPU * HOUR, healthy, 0, 0, 0, 0, 0, 0))
        for leaf in LEAVES:
            entitled = allocations[leaf] * healthy // Tree(run.budgets).denominator(leaf)
            delivered = draw(AMOUNTS)
            lost = draw(st.integers(0, delivered))
            run.budget_hours.append(
                BudgetHourRow(CLUSTER, start, HOUR, leaf, entitled, draw(AMOUNTS), delivered, lost, 0, -1, -1)
            )
    return run


@given(runs())
def test_strict_is_at_most_delivered_is_at_most_one(run: Run) -> None:
    total = standings(run).total()
    assert 0 <= total.met <= total.within <= total.owed
    assert 0 <= total.filled_met <= total.filled_within <= total.filled
    assert total.net <= total.within
    assert total.owed <= total.filled + len(run.budget_hours), "M3 hands out at least what is owed, but for rounding"
    for week in standings(run).weeks:
        assert 0 <= week.delivered <= 1


@given(runs())
def test_an_ideal_fluid_schedule_has_an_m3_of_one(run: Run) -> None:
    fills = water_filled(run.budget_hours, run.hours)
    for found in run.budget_hours:
        found.delivered = fills[found.cluster, found.start][found.budget]
        found.lost = 0
    result = summary(run)
    total = standings(run).total()
    assert total.filled_met == total.filled_within == total.filled == total.delivered
    if total.filled:
        assert (result["m3_delivered"], result["m3_strict"]) == (1.0, 1.0)
    if total.owed:
        # What is filled covers what is owed, but for what cannot be divided.
        assert result["m1_strict"] == pytest.approx(1.0, abs=1e-6) or total.owed < GPU * HOUR
