"""The published traces, where they are at hand: figures that others have counted before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.reports.traces.records import Supply
from tenure.sim.traces import Trace, TraceOptions, Window, describe_file, open_trace
from tenure.sim.traces.select import select
from tenure.units import parse_time

FOLDER = os.environ.get("TENURE_TRACES", "")

pytestmark = pytest.mark.skipif(not FOLDER, reason="TENURE_TRACES does not name the folder of the published traces")


def opened(name: str, options: TraceOptions) -> Trace:
    trace = open_trace(Path(FOLDER) / name, options=options)
    assert trace.reading.accounted == trace.reading.rows
    assert not trace.reading.bad
    return trace


def test_itp() -> None:
    trace = opened("itp-2021/raw-traces.tar.gz", TraceOptions(gpus=384))
    assert (trace.reading.format, trace.reading.rows, len(trace.jobs)) == ("itp", 69_351, 69_351)
    assert set(trace.reading.skipped_files) == {"LICENSE"}
    assert (trace.days, len(trace.budgets)) == (60, 11)
    figures = trace.figures
    assert figures.gpu_hours == pytest.approx(1.63e6, rel=0.002)
    assert figures.demand_over_supply == pytest.approx(2.95, abs=0.005)
    assert (min(job.runtime for job in trace.jobs), figures.largest) == (600_000, 64)
    assert trace.supply.over(456) == pytest.approx(2.49, abs=0.005)

    assert figures.arrivals.fano == pytest.approx(61.1, abs=0.05)

    alone = select(trace.jobs, TraceOptions(gpus=88, teams_only=("cluster07",), add_debug=500_000), None)
    added = [job for job in alone.jobs if job.synthetic]
    assert len(added) / (len(alone.jobs) - len(added)) == pytest.approx(0.5, abs=0.02)
    assert max(job.runtime for job in added) < 600_000
    assert Supply(sum(job.gpu_ms for job in alone.jobs), alone.span).over(88) == pytest.approx(2.9, abs=0.02)


def test_philly() -> None:
    trace = opened("philly-2017/philly.csv.xz", TraceOptions(window=Window.parse("2017-10-03..2017-12-10")))
    reading = trace.reading
    assert (reading.format, reading.rows, reading.kept) == ("philly", 82_247, 82_182)
    assert reading.left_out == {"the same row again": 65}
    assert trace.origin == parse_time("2017-10-03T00:00:00Z")
    assert (trace.span, trace.gpus) == (69 * DAY, 176)
    assert trace.supply.average_gpus == pytest.approx(444, abs=0.5)
    found = describe_file(Path(FOLDER) / "philly-2017/philly.csv.xz", cut="2017-10-03..2017-12-10", gpus=176)
    assert (found.jobs, found.teams.count, found.demand_over_supply) == (72_765, 14, pytest.approx(2.52, abs=0.005))
    assert found.arrivals.fano == pytest.approx(158.7, abs=0.05)
    assert found.arrivals.weekend == pytest.approx(0.513, abs=0.0005)
    assert [found.runtimes.percentile(p) for p in (50, 90)] == [
        pytest.approx(22.35 * MINUTE, rel=0.01), pytest.approx(3.226 * HOUR, rel=0.01),
    ]  # fmt: skip


def test_supercloud() -> None:
    trace = opened("supercloud-2021/slurm-log.csv.gz", TraceOptions(gpus_per_host=2, gpus=16))
    reading = trace.reading
    assert (reading.format, reading.rows, reading.kept) == ("supercloud", 9_628, 2_401)
    assert reading.left_out == {"no GPUs": 7_227}
    assert reading.oddities["no GPUs were asked for, but some allocated: taken as asked for"] == 33
    assert trace.pooled_teams == len({job.user for job in trace.jobs}) - 19
    found = describe_file(Path(FOLDER) / "supercloud-2021/slurm-log.csv.gz")
    assert (found.people.count, found.people.top[5]) == (131, pytest.approx(0.441, abs=0.0005))
    assert (found.waits.jobs, found.waits.percentile(50), found.limits.jobs) == (2_401, 4 * SECOND, 1_394)
    assert found.ends["timeout"][0] == 116
    assert all(job.timeout is None or job.timeout % 60_000 == 0 for job in trace.jobs)
