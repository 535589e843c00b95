"""The published sample of a site's log, where it is at hand, written as sacct would print it."""

from __future__ import annotations

import csv
import gzip
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.shadow.sacct import run as runs
from tenure.shadow.sacct.report import Chosen, Report, read_report
from tenure.shadow.sacct.run import MODEL, OURS, WAS
from tenure.shadow.sacct.site import Given, site_of
from tenure.sim.traces import slurm
from tenure.sim.traces.files import Source
from tenure.sim.traces.records import Reading

FOLDER = os.environ.get("TENURE_TRACES", "")
DAY = 86_400
FIRST = 1_614_556_800
"""2021-03-01, midnight UTC."""

pytestmark = pytest.mark.skipif(not FOLDER, reason="TENURE_TRACES does not name the folder of the published traces")


def printed(path: Path) -> Iterator[str]:
    """Columns of the accounting table as sacct prints them."""
    yield "JobID|User|Partition|State|Submit|Eligible|Start|End|Elapsed|Timelimit|NNodes|AllocTRES|ReqTRES\n"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file), 1):
            at = [int(row[f"time_{name}"]) for name in ("submit", "eligible", "start", "end")]
            ran = at[3] - at[2] if at[2] and at[3] else 0
            limit = row["timelimit"]
            # The sample has its ids as rounded numbers, so many jobs share one.
            cells = [
                f"{number}",
                f"user-{row['id_user'].partition('.')[0]}",
                row["partition"],
                slurm.NUMBERED[int(row["state"])],
                *(time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(one)) if one else "Unknown" for one in at),
                f"{ran // 3600:02}:{ran % 3600 // 60:02}:{ran % 60:02}",
                "UNLIMITED" if limit == "4294967295" else f"{int(limit) // 60:02}:{int(limit) % 60:02}:00",
                row["nodes_alloc"],
                row["tres_alloc"],
                row["tres_req"],
            ]
            yield "|".join(cells) + "\n"


def read(chosen: Chosen) -> Report:
    source = Source.of("supercloud", printed(Path(FOLDER) / "supercloud-2021" / "slurm-log.csv.gz"))
    given = Given(gpus=None, per_host=2)
    return read_report([source], Reading("supercloud", "sacct"), site_of(given), given, chosen, lambda _: None)


def test_every_row_is_accounted_for() -> None:
    report = read(Chosen())
    reading = report.reading
    assert reading.accounted == reading.rows == 9_628
    assert not reading.bad
    assert reading.left_out == {"no GPUs": 7_227}
    assert (reading.kept, len(report.record.lives.all)) == (2_401, 2_401)
    assert report.eligible
    assert report.terms.config.clusters[0].gpus - report.peak in (0, 1)


def test_ten_days_of_it() -> None:
    report = read(Chosen(since=FIRST, until=FIRST + 10 * DAY))
    result = runs.run(report, runs.orders(report, ["budgets"], ()), lambda *_: None)
    found = result.found
    assert found["sides"] == [WAS, OURS, MODEL]
    figures = found["all"]["figures"]
    assert figures[WAS]["compared"] > 50
    gives = {one.label: {row.id: row.budget for row in one.run.jobs} for one in result.sides}
    assert gives[OURS].keys() == gives[MODEL].keys()
    # As it was, what started at its time started when the log says: nothing is late on as many GPUs as were in use.
    assert not any("found no room here" in note for note in found["notes"])
    assert any("of the GPU time was free while jobs waited" in note for note in found["notes"])  # it is a sample
    starts = {life.key: {run.started * 1000 for run in life.runs} for life in report.record.lives.all}
    side = result.sides[0]
    for attempt in side.run.attempts:
        key = side.key(attempt.job_id)
        assert key is not None and (attempt.started in starts[key] or attempt.started == report.span.start)
