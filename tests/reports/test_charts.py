"""The other charts: their numbers, their limits, and that each can be drawn."""

from __future__ import annotations

import pytest
from by_hand import TWO, hour_row, job, row, three_hours
from fake_runs import CLUSTER, T0, budgets, empty_run, fake_run
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.model import DAY, HOUR, SECOND, SHARE_ONE, Budget
from tenure.reports.charts.delivery import MOST_PANELS, STEPS, delivered, ratios
from tenure.reports.charts.pictures import pictures, png
from tenure.reports.charts.style import Datum, Picture
from tenure.reports.charts.supply import FEW_STEPS, MANY_STEPS, fragmentation, occupancy
from tenure.reports.charts.waiting import POINTS, curve, distributions


def points(picture: Picture | None) -> list[Datum]:
    assert picture is not None
    found: list[Datum] = picture.spec["datasets"]["points"]
    return found


def test_a_run_has_a_picture_of_each_kind() -> None:
    shown = list(pictures(fake_run(hosts=1, jobs=20, days=2)))
    assert [one.name for one in shown] == ["timeline", "delivered", "ratios", "waits", "occupancy", "fragmentation"]
    for one in shown:
        assert one.title and one.text and one.spec["datasets"]


def test_a_run_without_anything_has_no_charts() -> None:
    assert list(pictures(empty_run())) == []


def test_delivered_against_owed_is_cumulative() -> None:
    found = [(p["panel"], p["what"], (p["t"] - T0) // HOUR, p["gpu_hours"]) for p in points(delivered(three_hours()))]
    assert [p[2:] for p in found if p[:2] == ("a: 75.0 %", "owed")] == [(0, 0), (1, 4), (2, 8), (3, 12)]
    assert [p[2:] for p in found if p[:2] == ("a: 75.0 %", "delivered")] == [(0, 0), (1, 6), (2, 8), (3, 9)]
    assert {p[0] for p in found} == {"a: 75.0 %", "b: 100.0 %"}


def test_long_runs_have_no_more_points() -> None:
    run = empty_run(TWO, length=40 * DAY)
    run.budget_hours = [row("lab/a", hour, 4, 4, 3) for hour in range(960)]
    for found in run.budget_hours:
        found.ratio_ppm = found.recent_ppm = 750_000
    run.hours = [hour_row(hour, 8, 3) for hour in range(960)]
    owed = [p for p in points(delivered(run)) if p["what"] == "owed"]
    assert len(owed) <= STEPS + 1
    assert (owed[-1]["t"], owed[-1]["gpu_hours"]) == (run.until, 4 * 960)
    assert len(points(ratios(run))) <= 2 * STEPS
    assert len(points(occupancy(run))) <= 6 * (MANY_STEPS + 1)
    assert len(points(fragmentation(run))) <= 2 * (FEW_STEPS + 1)


def test_of_many_budgets_the_worst_are_shown() -> None:
    many = MOST_PANELS + 5
    tree = (Budget("lab", SHARE_ONE), *(Budget(f"lab/b{i:02d}", SHARE_ONE // many) for i in range(many)))
    run = empty_run(tree, length=HOUR)
    run.budget_hours = [row(f"lab/b{i:02d}", 0, 4, 4, 4 * i / many) for i in range(many)]
    panels = {p["panel"].split(":")[0] for p in points(delivered(run))}
    assert panels == {f"b{i:02d}" for i in range(MOST_PANELS)}


def test_ratios_leave_out_what_has_no_entitlement_and_was_never_used() -> None:
    run = empty_run(TWO, length=HOUR)
    run.budget_hours = [row("lab/a", 0, 4, 4, 4), row("lab/b", 0, 4, 0, 0), row("lab/self", 0, 0, 0, 0)]
    run.budget_hours[0].ratio_ppm, run.budget_hours[0].recent_ppm = 1_500_000, -1
    run.budget_hours[1].ratio_ppm = run.budget_hours[1].recent_ppm = 0
    (point,) = points(ratios(run))
    assert (point["panel"], point["what"], point["ratio"]) == ("a", "over the lookback", 1.5)


def test_occupancy_adds_up_to_the_declared_gpus() -> None:
    run = empty_run(length=2 * HOUR)
    run.hours = [hour_row(0, 8, 5, 1, unusable=1, withheld=0.5), hour_row(1, 6, 6)]
    found = points(occupancy(run))
    first = {p["kind"]: p["gpus"] for p in found if p["t"] == T0}
    assert first == {
        "funded": 5,
        "unfunded": 1,
        "withheld by a rule": 0.5,
        "unusable by who waits": 1,
        "idle": 0.5,
        "not healthy": 0,
    }
    for at in (T0, T0 + HOUR, run.until):
        assert sum(p["gpus"] for p in found if p["t"] == at) == 8


def test_fragmentation_is_in_percent_of_the_healthy_gpus() -> None:
    run = empty_run(length=HOUR)
    run.hours = [hour_row(0, 4, 2, unusable=1, withheld=0.5)]
    found = {p["kind"]: p["percent"] for p in points(fragmentation(run))}
    assert found == {"unusable by who waits": 25, "withheld by a rule": 12.5}


def test_waits_are_drawn_for_classes_that_have_jobs() -> None:
    run = empty_run(length=DAY)
    run.jobs = [job(1, started=0), job(2, started=30 * SECOND, decided=SECOND), job(3, gpus=16)]
    found = points(distributions(run))
    assert {p["class"] for p in found} == {"debug", "mid"}
    start = [(p["seconds"], p["part"]) for p in found if p["class"] == "debug" and p["panel"] == "to the start"]
    assert start == [(1.0, 0.5), (30.0, 1.0), (86400.0, 1.0)]
    decided = [(p["seconds"], p["part"]) for p in found if p["class"] == "debug" and p["panel"] == "to the decision"]
    assert decided == [(1.0, 1.0), (86400.0, 1.0)]


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=600))
def test_a_curve_is_a_distribution_function(values: list[int]) -> None:
    values.sort()
    found = curve(values, max(1.0, values[-1] / 1000))
    assert len(found) <= POINTS + 2
    assert found[-1]["part"] == 1.0
    assert found == sorted(found, key=lambda p: (p["seconds"], p["part"]))
    for point in found:
        at_most = sum(value / 1000 <= point["seconds"] for value in values) / len(values)
        assert point["part"] <= at_most + 1e-5
        assert point["part"] >= at_most - 1 / POINTS - 1 / len(values)


@pytest.mark.parametrize("chart", [occupancy, fragmentation])
def test_clusters_have_panels_of_their_own(chart: object) -> None:
    run = fake_run(jobs=40, days=2, tree=budgets())
    run.hosts["other"] = (("o1", 8),)
    for found in list(run.hours):
        if found.start % (2 * HOUR) == 0:
            found.cluster = "other"
    picture = chart(run)  # type: ignore[operator]
    assert {p["cluster"] for p in points(picture)} == {CLUSTER, "other"}
    assert png(picture.spec).startswith(b"\x89PNG")
