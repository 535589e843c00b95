"""A record made into a report: both sides run, figures, words, files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenure import units
from tenure.core.model import SECOND
from tenure.reports.catalogue import SHARE, written
from tenure.reports.compare import write_comparison
from tenure.reports.html import write_report
from tenure.reports.markdown import points, table
from tenure.reports.metrics import summary
from tenure.reports.side_waits import cell
from tenure.reports.tables import write_json, write_run
from tenure.shadow.gains import gains
from tenure.shadow.journal import Record, RecordError
from tenure.shadow.replay import Side, Span, as_it_was, span_of, under_tenure
from tenure.shadow.terms import LIMIT, Terms
from tenure.shadow.words import said, uncertain

JSON_FILE, TEXT_FILE = "report.json", "report.md"
Moved = Callable[[str, float], None]
"""Called now and then with the side that runs and how much of it is done, 0 to 1."""
Table = tuple[str, tuple[str, ...], list[list[str]]]
"""A title, the heads and the rows; the first column is a name, the others are figures."""


@dataclass(frozen=True, slots=True)
class Report:
    """``found``: all of it, JSON-ready."""

    found: dict[str, Any]
    slurm: Side
    tenure: Side


def make(record: Record, terms: Terms, measured_from: int | None = None, moved: Moved | None = None) -> Report:
    """``measured_from``: ms UTC, in place of the record's beginning. Raises RecordError outside of the record."""
    try:
        span = span_of(record, terms.config.policy.lookback, measured_from)
    except ValueError:
        begins, ends = (units.format_time(at * SECOND) for at in (record.since, record.until))
        asked = "" if measured_from is None else f"from = {units.format_time(measured_from)}: "
        raise RecordError(f"{asked}the record reaches from {begins} to {ends}; there is nothing to measure") from None
    slurm = as_it_was(record, terms, span, _progress("Slurm", span, moved))
    tenure = under_tenure(record, terms, span, _progress("Tenure", span, moved))
    found = gains(slurm, tenure, span)
    # Of each job once, whatever its pieces are.
    lives = {piece.life.key: piece.life for piece in tenure.jobs.values()}
    silent = sum(terms.silent(life) for life in lives.values())
    found = {
        "said": said(found),
        "uncertain": uncertain(found, record, silent),
        "assumed": assumed(terms),
        **found,
    }
    notes = [*found["assumed"], *found["uncertain"]]
    for side in (slurm, tenure):
        side.tables.notes = list(notes)
    return Report(found, slurm, tenure)


def _progress(name: str, span: Span, moved: Moved | None) -> Callable[[int, int], bool] | None:
    if moved is None:
        return None

    def tell(at: int, _: int) -> bool:
        moved(name, (at - span.start) / (span.end - span.start))
        return True

    return tell


def assumed(terms: Terms) -> list[str]:
    """What a job that says nothing is taken to have signed."""
    defaults = {units.format_duration(one.default_min_runtime) for one in terms.config.clusters}
    if terms.min_runtime == LIMIT:
        length = "its own time limit, up to the cluster's longest"
    elif terms.min_runtime is None:
        length = f"the cluster's default ({', '.join(sorted(defaults))})"
    else:
        length = units.format_duration(terms.min_runtime)
    if terms.resumable:
        resumes = "what Slurm may requeue can resume"
    elif terms.resumable is None and any(one.default_resumable for one in terms.config.clusters):
        resumes = "it can resume, as the configuration's default_resumable says"
    else:
        resumes = "it cannot resume"
    return [f"A job that says nothing is taken to have signed a min_runtime of {length}, and {resumes}."]


def tables_of(found: dict[str, Any]) -> list[Table]:
    """The figures as tables."""
    heads = ("jobs", "p50, Slurm", "p50, Tenure", "p90, Slurm", "p90, Tenure", "never started", "under Tenure")
    rows = [["all", *_waits(found["all"])], *([row["size"], *_waits(row)] for row in found["sizes"])]
    owed = ("owed, GPU-h", "delivered, Slurm", "delivered, Tenure", "p90, Slurm", "p90, Tenure")
    people = ("jobs", "p90, Slurm", "p90, Tenure", "GPU-h, Slurm", "GPU-h, Tenure")
    return [
        ("Waits", ("jobs that waited", *heads), rows),
        ("Budgets", ("budget", *owed), [_budget(row) for row in found["budgets"]]),
        ("People", ("person", *people), [_person(row) for row in found["people"]]),
        ("The cluster", ("figure", "Slurm", "Tenure"), _overall(found["all"])),
    ]


def _waits(row: dict[str, Any]) -> list[str]:
    there, here = row["slurm"], row["tenure"]
    figures = [cell(side, percent) for percent in (50, 90) for side in (there, here)]
    return [f"{row['jobs']:,}", *figures, f"{there['never_started']:,}", f"{here['never_started']:,}"]


def _budget(row: dict[str, Any]) -> list[str]:
    there, here = row["slurm"], row["tenure"]
    shares = [written(side["delivered_of_owed"], SHARE) for side in (there, here)]
    waits = [cell(side, 90) for side in (there, here)]
    return [row["budget"], f"{there['owed_gpu_hours']:,.1f}", *shares, *waits]


def _person(row: dict[str, Any]) -> list[str]:
    waits = [cell(row[side], 90) for side in ("slurm", "tenure")]
    used = [f"{row[name]:,.1f}" for name in ("slurm_gpu_hours", "tenure_gpu_hours")]
    return [row["user"], f"{row['jobs']:,}", *waits, *used]


_OVERALL = {
    "m1_delivered": "delivered of what was owed (M1)",
    "m1_net": "the same, without work that was lost",
    "m1_strict": "delivered in the hour it was owed (M1 strict)",
    "m1_worst": "the worst budget's M1",
    "m3_delivered": "delivered of the water-filled share (M3)",
    "occupancy": "occupancy",
    "lost_share": "lost to evictions and restarts",
}


def _overall(row: dict[str, Any]) -> list[list[str]]:
    rows = [[label, *(written(row[name][side], SHARE) for side in _SIDES)] for name, label in _OVERALL.items()]
    idle = [f"{row['idle_while_waiting_gpu_hours'][side]:,.1f}" for side in _SIDES]
    return [*rows, ["free GPU-hours that nobody who waited got", *idle]]


_SIDES = ("slurm", "tenure")


def markdown(found: dict[str, Any]) -> str:
    """Words first, then the tables."""
    begins, ends = (units.format_time(found[name]) for name in ("from", "until"))
    lines = ["# Under Tenure", "", f"{begins} to {ends}, {found['gpus']} GPUs.", ""]
    lines += points(found["said"])
    for title, heads, rows in tables_of(found):
        lines += ["", f"## {title}", "", *table(heads, rows)]
    lines += ["", "## What is uncertain", "", *points((*found["assumed"], *found["uncertain"]))]
    return "\n".join(lines) + "\n"


def write(report: Report, folder: Path) -> None:
    """Words, figures, tables and web pages. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / JSON_FILE, report.found)
    (folder / TEXT_FILE).write_text(markdown(report.found), "utf-8")
    for name, side in (("slurm", report.slurm), ("tenure", report.tenure)):
        write_run(side.tables, folder / name)
        write_report(side.tables, folder / name, png=False)
    write_comparison([summary(side.tables) for side in (report.slurm, report.tenure)], folder, png=False)
