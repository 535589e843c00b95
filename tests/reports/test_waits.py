"""Waits and evictions by class, against numbers worked out by hand."""

from __future__ import annotations

import pytest
from by_hand import eviction, job
from fake_runs import empty_run
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.reports.metrics import summary
from tenure.reports.waits import class_of, percentile


@pytest.mark.parametrize(
    ("gpus", "min_runtime", "expected"),
    [
        (8, 15 * MINUTE, "debug"),
        (1, 5 * MINUTE, "debug"),
        (8, 15 * MINUTE + 1, "mid"),
        (9, 15 * MINUTE, "mid"),
        (127, 8 * HOUR, "mid"),
        (128, 15 * MINUTE, "large"),
        (512, 8 * HOUR, "large"),
        (1, 0, "unfunded"),
        (256, 0, "unfunded"),
    ],
)
def test_classes(gpus: int, min_runtime: int, expected: str) -> None:
    assert class_of(job(1, gpus, min_runtime)) == expected


def test_percentiles_are_nearest_ranks() -> None:
    ten = [10 * i for i in range(1, 11)]
    assert [percentile(ten, p) for p in (50, 90, 99)] == [50, 90, 100]
    assert [percentile([7], p) for p in (50, 90, 99)] == [7, 7, 7]
    assert percentile([], 50) is None


@given(st.lists(st.integers(0, 100), min_size=1), st.sampled_from([50, 90, 99]))
def test_enough_values_are_at_or_below_a_percentile(values: list[int], percent: int) -> None:
    values.sort()
    found = percentile(values, percent)
    assert found is not None
    assert 100 * sum(v <= found for v in values) >= percent * len(values)
    assert 100 * sum(v < found for v in values) < percent * len(values)


def test_waits_to_the_start_and_to_the_decision() -> None:
    run = empty_run(length=DAY)
    run.jobs = [
        job(1, submitted=0, decided=10 * SECOND, started=40 * SECOND, ended=HOUR),
        job(2, submitted=0, decided=0, started=0),
        job(3, submitted=HOUR, decided=HOUR + 2 * SECOND, started=HOUR + 2 * SECOND),
        job(4, gpus=16, submitted=0, decided=MINUTE, started=2 * MINUTE),
        job(5, min_runtime=0, submitted=0, started=HOUR),
    ]
    found = summary(run)
    assert (found["debug_wait_p50_s"], found["debug_wait_p90_s"]) == (2.0, 40.0)
    assert (found["debug_decision_p50_s"], found["debug_decision_p90_s"]) == (2.0, 10.0)
    assert (found["mid_wait_p90_s"], found["mid_decision_p90_s"]) == (120.0, 60.0)
    assert (found["wait_p50_s"], found["wait_p90_s"], found["funded_jobs"]) == (2.0, 120.0, 4)
    assert (found["unfunded_wait_p50_s"], found["unfunded_decision_p50_s"]) == (3600.0, 3600.0)
    assert [found[f"every_wait_p{p}_s"] for p in (50, 90, 99)] == [40.0, 3600.0, 3600.0]
    assert [found[f"wait_p{p}_s"] for p in (50, 90, 99)] == [2.0, 120.0, 120.0]
    assert found["every_jobs"] == 5
    assert found["large_wait_p90_s"] is None
    assert (found["large_jobs"], found["large_never_started"]) == (0, 0)


def test_jobs_that_never_started_count_with_the_wait_they_had() -> None:
    run = empty_run(length=DAY)
    run.jobs = [
        job(1, submitted=0, ended=HOUR),  # cancelled
        job(2, submitted=20 * HOUR),  # still waits at the end
        job(3, submitted=22 * HOUR, decided=23 * HOUR),  # decided, and its victims have not gone yet
    ]
    found = summary(run)
    assert (found["debug_wait_p50_s"], found["debug_wait_p90_s"]) == (2 * 3600.0, 4 * 3600.0)
    assert found["debug_decision_p50_s"] == 3600.0
    assert (found["debug_jobs"], found["debug_never_started"]) == (3, 3)


def test_jobs_of_the_warm_up_do_not_count() -> None:
    run = empty_run(warmup=HOUR, length=DAY)
    run.jobs = [job(1, submitted=HOUR - 1, started=20 * HOUR), job(2, submitted=HOUR, started=HOUR + SECOND)]
    found = summary(run)
    assert (found["debug_jobs"], found["debug_wait_p99_s"]) == (1, 1.0)


def test_evictions_for_each_job_that_started() -> None:
    run = empty_run(warmup=HOUR, length=DAY)
    early = job(1, gpus=16, submitted=0, started=0)
    debug, mid, large = (job(n, gpus, submitted=HOUR, started=2 * HOUR) for n, gpus in ((2, 8), (3, 64), (4, 256)))
    free = job(5, min_runtime=0, submitted=HOUR, started=2 * HOUR)
    run.jobs = [early, debug, mid, large, free, job(6, gpus=16, submitted=HOUR)]
    run.evictions = [
        eviction(early, HOUR - 1),  # in the warm-up
        eviction(early, HOUR),
        eviction(mid, 3 * HOUR),
        eviction(mid, 4 * HOUR, "evicted_drain"),
        eviction(large, 3 * HOUR, "evicted_priority"),
        eviction(free, 3 * HOUR, "evicted_unallocated"),
    ]
    found = summary(run)
    assert found["evictions_per_charged_job"] == round(4 / 3, 6)
    assert found["evictions_per_mid_job"] == 3.0
    assert found["evictions"] == 5
    assert found["evictions_by_class"] == {"debug": 0, "mid": 3, "large": 1, "unfunded": 1}
    assert found["evictions_by_reason"] == {
        "evicted_drain": 1,
        "evicted_priority": 1,
        "evicted_standing": 2,
        "evicted_unallocated": 1,
    }
    assert found["jobs_started_by_class"] == {"debug": 1, "mid": 1, "large": 1, "unfunded": 1}
