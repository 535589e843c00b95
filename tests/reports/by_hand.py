"""Rows for examples that are small enough to be worked out by hand, in GPU-hours."""

from __future__ import annotations

from fake_runs import CLUSTER, T0, empty_run

from tenure.core.model import GPU, HOUR, MINUTE, SHARE_ONE, Budget
from tenure.reports.records import BudgetHourRow, EvictionRow, HourRow, JobRow, Run

GPU_HOUR = GPU * HOUR
TWO = (Budget("lab", SHARE_ONE), Budget("lab/a", SHARE_ONE // 2), Budget("lab/b", SHARE_ONE // 2))


def row(
    budget: str, hour: int, entitled: float, demand: float, delivered: float, lost: float = 0, free: float = 0,
    cluster: str = CLUSTER,
) -> BudgetHourRow:  # fmt: skip
    amounts = [round(x * GPU_HOUR) for x in (entitled, demand, delivered, lost, free)]
    return BudgetHourRow(cluster, T0 + hour * HOUR, HOUR, budget, *amounts, -1, -1)


def hour_row(hour: int, healthy: float, funded: float, unfunded: float = 0, **more: float) -> HourRow:
    """On 8 declared GPUs."""
    names = ("unusable", "withheld", "demand_funded", "demand_unfunded")
    rest = [round(more.get(name, 0) * GPU_HOUR) for name in names]
    amounts = [round(x * GPU_HOUR) for x in (8, healthy, funded, unfunded)]
    return HourRow(CLUSTER, T0 + hour * HOUR, HOUR, *amounts, *rest)


def three_hours() -> Run:
    """The example of docs/metrics.md: two equal budgets on 8 GPUs."""
    run = empty_run(TWO, length=3 * HOUR)
    for hour, (a, b) in enumerate((((8, 6), (2, 2)), ((8, 2), (8, 6)), ((8, 1, 1), (8, 7)))):
        run.budget_hours += [row("lab/a", hour, 4, *a), row("lab/b", hour, 4, *b)]
        run.hours.append(hour_row(hour, 8, 8, demand_funded=a[0] + b[0]))
    return run


def job(
    number: int, gpus: int = 8, min_runtime: int = 15 * MINUTE, submitted: int = 0, started: int | None = None,
    decided: int | None = None, ended: int | None = None,
) -> JobRow:  # fmt: skip
    """Times in ms from the start of the run."""
    at = [None if t is None else T0 + t for t in (decided, started, ended)]
    return JobRow(
        number,
        "u",
        "lab/a",
        CLUSTER,
        "train",
        gpus,
        min_runtime,
        True,
        min_runtime > 0,
        0,
        min_runtime > 0,
        HOUR,
        T0 + submitted,
        *at,
    )


def eviction(of: JobRow, at: int, because: str = "evicted_standing") -> EvictionRow:
    return EvictionRow(
        T0 + at, f"{of.id}.1", of.id, of.budget, of.cluster, of.funded, of.gpus, because, 0, "", 0, 0
    )  # fmt: skip
