"""A trace's figures and pictures as files: a page that opens without a network, and PNGs."""

from __future__ import annotations

from pathlib import Path

from tenure import units
from tenure.core.model import GPU, HOUR
from tenure.reports.catalogue import many
from tenure.reports.html import REPORT_FILE, Table, trace_page, write_pngs
from tenure.reports.traces.charts import pictures
from tenure.reports.traces.data import duration_steps, moment, size_steps
from tenure.reports.traces.records import PERCENTILES, Distribution, Holders, TraceFigures
from tenure.units import format_duration, format_gpu_hours


def write_report(figures: TraceFigures, folder: Path, png: bool = True) -> list[Path]:
    """Write ``report.html`` and, with ``png``, a picture of every chart into ``folder``. Returns the files.

    Raises OSError.
    """
    shown = list(pictures(figures))
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / REPORT_FILE
    page.write_text(
        trace_page(
            f"{figures.source.name}: {many(figures.jobs, 'job')}",
            shown,
            figures=figures,
            first=moment(figures, figures.first),
            last=moment(figures, figures.last),
            sections=_sections(figures),
            tables=list(_tables(figures)),
            account=_account(figures),
        ),
        "utf-8",
    )
    return [page, *(write_pngs(shown, folder) if png else ())]


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def _sections(figures: TraceFigures) -> dict[str, list[tuple[str, str]]]:
    supply, arrivals, limits = figures.supply, figures.arrivals, figures.limits
    demand = [
        ("GPU-hours", f"{figures.gpu_hours:,.0f}"),
        ("GPUs on average", f"{supply.average_gpus:,.1f}"),
        *(
            (f"GPUs, in whole hosts of 8, for a demand nearest to {times} x their supply", f"{gpus:,}")
            for times, gpus in figures.gpus_for_supply.items()
        ),
    ]
    if figures.gpus:
        demand.append((f"demand over the supply of {figures.gpus:,} GPUs", f"{supply.over(figures.gpus):.2f}"))
    if figures.earlier_jobs:
        jobs = units.counted(figures.earlier_jobs, "requeued or resized job")
        demand.append((f"not in it: GPU-hours of earlier runs of {jobs}", f"{figures.earlier / HOUR:,.1f}"))
    rhythm = [("jobs an hour", f"{arrivals.mean:,.1f}"), ("most in an hour", f"{arrivals.busiest:,}")]
    for label, value in (
        ("hourly Fano factor", None if arrivals.fano is None else f"{arrivals.fano:,.1f}"),
        ("peak to trough of a day", None if arrivals.peak_to_trough is None else f"{arrivals.peak_to_trough:.1f}"),
        (
            "jobs on a weekend day, over those on a working day",
            None if arrivals.weekend is None else _percent(arrivals.weekend),
        ),
    ):
        rhythm += [(label, value)] if value else []
    found = {"Demand": demand, "Arrivals": rhythm}
    found["People"] = [row for name, holders in _who(figures).items() for row in _holders(name, holders)]
    if limits.jobs:
        found["Limits"] = [
            ("jobs with a limit", f"{limits.jobs:,}"),
            ("ran under half of it", _percent(limits.part_used(50))),
            ("GPU time used of what was requested", _percent(limits.used)),
            ("more than a minute past it", f"{limits.past:,}"),
        ]
    return found


def _who(figures: TraceFigures) -> dict[str, Holders]:
    both = {"teams": figures.teams, "people": figures.people}
    return {"people or teams": figures.people} if figures.teamless else both


def _holders(name: str, found: Holders) -> list[tuple[str, str]]:
    rows = [(name, f"{found.count:,}")]
    rows += [(f"the top {p} % hold", _percent(part)) for p, part in found.top.items() if found.count * p >= 100]
    if found.uncounted_jobs:
        rows.append(("jobs of names beyond the bound", f"{found.uncounted_jobs:,}"))
    return rows


def _tables(figures: TraceFigures) -> list[Table]:
    lengths = {
        "runtime, of the jobs": (figures.runtimes, False),
        "runtime, of the GPU time": (figures.runtimes, True),
        "wait, all": (figures.waits, False),
        **{f"wait, {name}": (found, False) for name, found in figures.waits_by_size.items()},
        "limit": (figures.limits.requested, False),
    }
    rows = [_lengths(name, *of) for name, of in lengths.items() if of[0].bins]
    head = ("", "jobs", *(f"p{p}" for p in PERCENTILES), "longest")
    steps = [
        Table(
            what,
            (label, "of the jobs", "of the GPU time"),
            [[step.name, _percent(step.jobs), _percent(step.gpu_time)] for step in found],
        )
        for what, label, found in (
            ("Durations in steps", "ran", duration_steps(figures.runtimes)),
            ("Sizes in steps", "GPUs", size_steps(figures.sizes)),
        )
    ]
    holders = [
        Table(
            f"The largest {name}",
            (name, "jobs", "GPU-hours"),
            [[one.name, f"{one.jobs:,}", format_gpu_hours(one.gpu_ms * GPU)] for one in found.largest],
        )
        for name, found in _who(figures).items()
    ]
    return [Table("Percentiles, within 1 %", head, rows), *steps, *holders]


def _lengths(name: str, found: Distribution, by_gpu_time: bool) -> list[str]:
    values = [*(found.percentile(p, by_gpu_time=by_gpu_time) for p in PERCENTILES), found.most]
    return [name, f"{found.jobs:,}", *map(format_duration, (value - value % 1000 for value in values))]


def _account(figures: TraceFigures) -> dict[str, dict[str, int]]:
    source = figures.source
    outside = {f"submitted outside {source.cut}": source.outside} if source.outside else {}
    counts = {"Left out": source.left_out | outside, "Bad rows": source.bad, "Odd": figures.oddities}
    counts["Files of another kind"] = source.skipped_files
    return {name: found for name, found in counts.items() if found}
