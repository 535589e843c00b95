"""Reports of sacct that were joined, cut or printed otherwise, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_sacct_report import NOW, made, read, side, told
from test_sacct_rows import read as read_rows

from support.sacct import BEGIN, HEADER, H, month, row
from tenure.core.model import SHARE_ONE
from tenure.reports.sides import jobs_of
from tenure.shadow.sacct.report import Chosen
from tenure.shadow.sacct.run import WAS
from tenure.shadow.sacct.site import Given, SiteError
from tenure.sim.traces.records import TraceError


def test_components_of_two_reports_are_no_larger_job() -> None:
    """One report was made as it ran, the next has its end."""
    running = [row(f"7+{n}", started=H, now=2 * H, gpus=4 + n, hosts=f"n{n + 1}") for n in (0, 1)]
    over = [row(f"7+{n}", started=H, ended=3 * H, gpus=4 + n, hosts=f"n{n + 1}") for n in (0, 1)]
    for lines in (running + over, over + running, over + over):
        (job,), _ = read_rows(*lines)
        assert (job.gpus, job.nodes, job.hosts, job.ended) == (9, 2, "n1,n2", BEGIN + 3 * H)


def test_shares_are_by_the_time_that_counts() -> None:
    """What ran before it, and what begins after it, is none of it."""
    rows = [
        row("1", "ada@language", started=0, ended=30 * H, hosts="n1"),
        row("2", "grace@vision", started=10 * H, ended=14 * H, hosts="n2"),
        row("3", "grace@vision", submitted=20 * H, started=25 * H, hosts="n2", now=60 * H),
    ]
    report = read(rows, Given(gpus=16), Chosen(since=BEGIN + 10 * H, until=BEGIN + 20 * H, warmup=0))
    shares = {one.path: one.share for one in report.terms.config.budgets}
    assert shares["root/language"] == pytest.approx(80 / 112 * SHARE_ONE, abs=2)
    assert shares["root/vision"] == pytest.approx(32 / 112 * SHARE_ONE, abs=2)


def test_what_is_told_is_of_the_time_that_counts() -> None:
    """Strangers and jobs that wait: not those that come after it, nor those whose run the report has."""
    rows = [
        row("1", started=0, ended=30 * H),
        row("2", submitted=2 * H, started=30 * H, ended=31 * H),
        row("3", submitted=3 * H),
        row("4", submitted=3 * H, eligible=None),
        row("5", "eve@nowhere", submitted=4 * H, started=5 * H, ended=6 * H, hosts="n2"),
        row("6", "eve@nowhere", submitted=25 * H),
        row("7", "eve@nowhere", submitted=25 * H),
    ]
    cut = told(made(read(rows, chosen=replace(NOW, until=BEGIN + 20 * H))))
    assert "Of 1 job that still waited at the end nobody knows for how long it would have run." in cut
    assert "1 job of accounts that the associations do not have (nowhere)" in cut
    whole = told(made(read(rows)))
    assert "Of 3 jobs that still waited at the end nobody knows for how long they would have run." in whole
    assert "3 jobs of accounts that the associations do not have (nowhere)" in whole


def test_a_report_without_a_job_says_why() -> None:
    """Times in the words of some country, as SLURM_TIME_FORMAT makes them."""
    rows = [one.replace("2026-06-01T", "01.06.2026 ").replace("2026-06-02T", "02.06.2026 ") for one in month()]
    with pytest.raises(
        TraceError, match=r"no job with GPUs in its 28 rows \(28 x Submit is not a time\)\. report\.txt"
    ):
        read(rows)
    with pytest.raises(TraceError, match=r"no job with GPUs in its 1 row \(1 x no GPUs\); is gres/gpu in Accounting"):
        read([row("1", gpus=0)])


def test_a_report_that_is_there_twice_is_the_same_report() -> None:
    once, twice = (made(read(rows)) for rows in (month(), [*month(), HEADER, *reversed(month())]))
    assert jobs_of(side(once, WAS)).keys() == jobs_of(side(twice, WAS)).keys()
    assert once.found["said"] == twice.found["said"]
    assert once.found["budgets"] == twice.found["budgets"]


def test_jobs_of_partitions_that_the_hosts_do_not_have_are_no_empty_report() -> None:
    rows = [row(str(n), started=0, ended=H + n, partition="old,older") for n in range(3)]
    with pytest.raises(
        SiteError, match="no job of the report is of gpu, short, and those are what has GPUs; the jobs are"
    ):
        read(rows)
    with pytest.raises(
        SiteError, match="no job of the report is of short, and those are what is chosen; the jobs are of o"
    ):
        read(rows, chosen=replace(NOW, partitions=("short",)))
