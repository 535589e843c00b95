"""The page and the pictures of a trace: whole, opening without a network, believing no name."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from test_html import NASTY, dump

from tenure.core.model import DAY, HOUR, MINUTE
from tenure.reports.traces.charts import pictures
from tenure.reports.traces.page import write_report
from tenure.reports.traces.records import TraceFigures
from tenure.sim.traces import End, Reading, TraceJob, describe_jobs
from tenure.sim.traces.describe import source_of
from tenure.sim.traces.records import BadRow
from tenure.units import parse_time

START = parse_time("2026-01-05T00:00:00Z")
ALL = ["durations", "sizes", "demand", "arrivals", "concentration", "teams", "ends", "waits", "limits"]


def jobs(count: int = 300, name: str = "") -> list[TraceJob]:
    rng = random.Random(1)
    return [
        TraceJob(
            str(number),
            START + rng.randrange(10 * DAY) // 1000 * 1000,
            rng.choice((MINUTE, HOUR, DAY)),
            rng.choice((1, 8, 64)),
            f"team{number % 30}{name}",
            f"user{number % 90}{name}",
            rng.choice((End.COMPLETED, End.FAILED)),
            timeout=2 * DAY,
            waited=rng.choice((0, HOUR)),
        )
        for number in range(count)
    ]


def figures(name: str = "", *, gpus: int | None = 64, complete: bool = True, found: int = 300) -> TraceFigures:
    reading = Reading(path=f"report{name}", format="sacct", rows=found + 2, kept=found)
    reading.left_out["no GPUs"] = 1
    reading.reject(f"file{name}", 7, f"text{name}", BadRow("JobID is unreadable", name))
    return describe_jobs(jobs(found, name), source_of(reading, complete=complete), True, gpus)


def bare() -> TraceFigures:
    """One job of a trace that tells neither people, nor ends, nor waits, nor limits, nor dates."""
    return describe_jobs([TraceJob("a", 0, HOUR, 1, "x", "x")], source_of(Reading("x.csv", "itp")), False)


def test_a_report_is_one_page_and_a_picture_of_each_chart(tmp_path: Path) -> None:
    files = write_report(figures(), tmp_path)
    assert files == [tmp_path / "report.html", *(tmp_path / "charts" / f"{name}.png" for name in ALL)]
    assert all(path.stat().st_size > 5000 for path in files)
    page = files[0].read_text()
    for text in ("report: 300 jobs", "demand over the supply of 64 GPUs", "hourly Fano factor", "JobID is unreadable"):
        assert text in page
    assert "broken off" not in page


def test_only_what_a_trace_tells_is_drawn(tmp_path: Path) -> None:
    assert [one.name for one in pictures(bare())] == ALL[:6]
    (page,) = write_report(bare(), tmp_path, png=False)
    text = page.read_text()
    assert "people or teams" in text and "wait, all" not in text and "weekend day" not in text


def test_the_page_says_in_plain_words_what_is_not_in_the_demand(tmp_path: Path) -> None:
    reading = Reading("report.txt", "sacct", skipped_files=Counter(LICENSE=2))
    found = [replace(job, earlier=10 * HOUR) for job in jobs(2)]
    (page,) = write_report(describe_jobs([*found, *jobs()], source_of(reading), True), tmp_path, png=False)
    text = " ".join(page.read_text().split())
    for words in (
        "not in it: GPU-hours of earlier runs of 2 requeued or resized jobs</td><td>20.0",
        "for a demand nearest to 2.5 x their supply",
        "jobs on a weekend day, over those on a working day",
        "<h2>Files of another kind</h2> <table> <tr><td>LICENSE</td><td>2</td>",
    ):
        assert words in text


def test_a_trace_of_a_day_is_no_block() -> None:
    found = [TraceJob(str(hour), START + hour * HOUR, HOUR, hour + 1, "x", "y") for hour in range(24)]
    demand = list(pictures(describe_jobs(found, source_of(Reading("x", "sacct")), True)))[2]
    rows = demand.spec["datasets"]["rows"]
    assert [row["gpus"] for row in rows] == [*range(1, 25), 0] and rows[13]["from"] == "2026-01-05 13:00"


def test_the_supply_is_a_line_only_where_there_is_one() -> None:
    for gpus in (64, None):
        demand = next(one for one in pictures(figures(gpus=gpus)) if one.name == "demand")
        assert ("supply" in demand.spec["datasets"]) == (gpus is not None)


def test_a_page_says_when_reading_was_broken_off(tmp_path: Path) -> None:
    (page,) = write_report(figures(complete=False), tmp_path, png=False)
    assert "Reading was broken off" in page.read_text()


def test_teams_whose_names_begin_alike_have_a_bar_each() -> None:
    found = [TraceJob(str(i), START, HOUR, 1, f"{'a' * 60}{i}", "ada") for i in range(3)]
    teams = next(
        one for one in pictures(describe_jobs(found, source_of(Reading("x", "itp")), True)) if one.name == "teams"
    )
    assert len({row["team"] for row in teams.spec["datasets"]["rows"]}) == 3


def test_curves_rise_to_the_whole_and_are_short() -> None:
    for one in pictures(figures(found=3000)):
        if one.name in ("durations", "waits"):
            of: dict[str, list[float]] = {}
            for point in one.spec["datasets"]["points"]:
                of.setdefault(point["of"], []).append(point["part"])
            assert all(parts == sorted(parts) and parts[-1] == 1 and len(parts) < 300 for parts in of.values())


def test_the_page_loads_nothing(tmp_path: Path) -> None:
    (report,) = write_report(figures(), tmp_path, png=False)
    markup = re.sub(r"<script>.*?</script>", "", report.read_text(), flags=re.DOTALL)
    assert "default-src 'none'" in markup
    assert not re.search(r"<(?:link|iframe|img|object|embed)\b|\bsrc=|\bhref=|url\(|@import", markup)
    assert not re.search(r"\"url\"\s*:", markup)


def test_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    (report,) = write_report(figures(NASTY), tmp_path, png=False)
    page = report.read_text()
    assert "&lt;/script&gt;" in page
    assert "dataset.broken = 1</script>" not in page
    assert "<img" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    for text in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, flags=re.DOTALL):
        json.loads(text)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_draws_every_chart_without_a_network(tmp_path: Path) -> None:
    (report,) = write_report(figures(NASTY), tmp_path, png=False)
    dom = dump(report)
    assert f'data-drawn="{len(ALL)}"' in dom
    assert "could not be drawn" not in dom
    assert "data-broken" not in dom
