"""The summary as a whole: its keys, supply, losses, and that nothing depends on the order of rows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest
from by_hand import GPU_HOUR, hour_row, three_hours
from fake_runs import CLUSTER, T0, empty_run, fake_run

from tenure.core.model import DAY, GPU, HOUR
from tenure.reports.metrics import summary
from tenure.reports.owed import water_filled
from tenure.reports.records import AttemptRow, Run
from tenure.reports.waits import CLASSES

FIRST = (
    "policy seed gpus days jobs events wall_s m1_delivered m1_strict m1_worst m1_worst_week m3_delivered budgets_at_95 "
    "budgets occupancy unallocated_share demand_over_supply debug_wait_p50_s debug_wait_p90_s mid_wait_p90_s "
    "mid_wait_p99_s wait_p50_s wait_p90_s large_wait_p90_s evictions_per_charged_job evictions_per_mid_job lost_share"
)


@pytest.fixture(scope="module")
def run() -> Run:
    return fake_run()


def test_the_summary_begins_with_the_keys_that_others_rely_on(run: Run) -> None:
    found = summary(run)
    assert " ".join(list(found)[:27]) == FIRST
    assert json.loads(json.dumps(found)) == found
    assert (found["policy"], found["seed"], found["gpus"], found["days"]) == ("budgets", 1, 32, 3.0)
    assert (found["warmup_days"], found["measured_days"], found["complete"]) == (1.0, 2.0, True)
    assert found["settings"] == run.settings
    assert found["notes"] == run.notes


def test_keys_are_the_same_for_every_run(run: Run) -> None:
    assert list(summary(empty_run())) == list(summary(run))


def test_the_page_of_metrics_explains_every_key(run: Run) -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")
    found = summary(run)
    for key in [*found, *found["gpu_hours"]]:
        if not re.search(r"_(wait|decision)_p\d\d_s$|^(wait|decision)_p|_jobs$|_never_started$", key):
            assert f"`{key}`" in page, key
    for key in (f"{group}wait_p{p}_s" for group in ("", "every_") for p in (50, 90, 99)):
        assert key in found and f"`{key}`" in page, key
    for group in (*CLASSES, "funded", "every"):
        assert f"`{group}`" in page


def test_the_worked_example_of_the_page_is_what_comes_out() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")
    table = re.findall(r"^\| (\d) \| ([ab]) \| (.*) \|$", page, re.MULTILINE)
    run = three_hours()
    assert len(table) == len(run.budget_hours) == 6
    fills = water_filled(run.budget_hours, run.hours)
    for (hour, budget, cells), row in zip(table, run.budget_hours, strict=True):
        assert (T0 + (int(hour) - 1) * HOUR, f"lab/{budget}") == (row.start, row.budget)
        filled = fills[row.cluster, row.start][row.budget]
        owed = min(row.entitled, row.demand)
        amounts = (row.entitled, row.demand, owed, row.delivered, row.lost, filled)
        assert [int(cell) * GPU_HOUR for cell in cells.split(" | ")] == list(amounts)
    told = re.findall(r"\*\*([\d.]+) %\*\*", page)
    found = summary(run)
    keys = ("m1_delivered", "m1_strict", "m1_net", "m1_worst", "m3_delivered", "impact")
    assert [round(100 * found[key], 1) for key in keys] == [float(percent) for percent in told]


def test_the_order_of_rows_does_not_matter(run: Run) -> None:
    shuffled = fake_run()
    for rows in (shuffled.jobs, shuffled.attempts, shuffled.evictions, shuffled.hours, shuffled.budget_hours):
        Random(7).shuffle(rows)  # type: ignore[arg-type]
    assert json.dumps(summary(shuffled)) == json.dumps(summary(run))


def test_parts_of_the_supply() -> None:
    run = empty_run(length=2 * HOUR)
    run.hours = [
        hour_row(0, 8, 5, 1, unusable=1, withheld=0.5, demand_funded=12, demand_unfunded=4),
        hour_row(1, 6, 3, 1, unusable=0.5, demand_funded=5, demand_unfunded=1),
    ]
    found = summary(run)
    assert found["availability"] == 14 / 16
    assert found["occupancy"] == round(10 / 14, 6)
    assert (found["funded_share"], found["unallocated_share"]) == (0.8, 0.2)
    assert found["demand_over_supply"] == round(22 / 14, 6)
    assert found["funded_demand_over_supply"] == round(17 / 14, 6)
    assert found["fragmentation_share"] == round(1.5 / 14, 6)
    assert found["withheld_share"] == round(0.5 / 14, 6)
    gpu_hours = found["gpu_hours"]
    assert [gpu_hours[key] for key in ("declared", "healthy", "idle", "unusable", "withheld")] == [16, 14, 4, 1.5, 0.5]
    assert found["per_cluster"][0]["occupancy"] == found["occupancy"]


def test_a_loss_counts_when_the_attempt_ends() -> None:
    run = empty_run(warmup=HOUR, length=3 * HOUR)
    for number, ended, lost in ((1, HOUR - 1, 4), (2, HOUR, 2), (3, None, 1)):
        slots = (("n001", (0, 1)),)
        attempt = AttemptRow(f"{number}.1", number, "u", "lab/self", CLUSTER, True, 2 * GPU, slots, T0)
        attempt.ended = None if ended is None else T0 + ended
        attempt.lost = lost * GPU_HOUR
        run.attempts.append(attempt)
    run.hours = [hour_row(0, 8, 8), hour_row(1, 8, 6), hour_row(2, 8, 6)]
    found = summary(run)
    assert found["lost_share"] == 0.25
    assert found["gpu_hours"]["lost"] == 3


def test_a_run_that_was_interrupted_says_so() -> None:
    run = empty_run(length=2 * DAY)
    run.planned_until += DAY
    found = summary(run)
    assert (found["complete"], found["days"]) == (False, 2.0)
    assert found["simulated_until"] == "2027-01-17T08:00:00Z"
