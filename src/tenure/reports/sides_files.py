"""Sides as files: ``sides.json``, ``sides.md`` and ``sides.html``, and as tables for whoever shows them elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tenure.reports import markdown
from tenure.reports.catalogue import SECONDS, SHARE, written
from tenure.reports.charts.sides import sides_pictures
from tenure.reports.html import Table, sides_page, write_pngs
from tenure.reports.sides import Found, Side, compare_sides
from tenure.reports.sides_words import sentences
from tenure.reports.tables import write_json
from tenure.units import format_time

JSON_FILE, MARKDOWN_FILE, PAGE_FILE = "sides.json", "sides.md", "sides.html"
_OVERALL = {
    "m1_delivered": "delivered of what was owed (M1)",
    "m1_net": "the same, without work that was lost",
    "m1_strict": "delivered in the hour it was owed (M1 strict)",
    "m1_worst": "the worst budget's M1",
    "m3_delivered": "delivered of the water-filled share (M3)",
    "occupancy": "occupancy",
    "lost_share": "lost to evictions and restarts",
}


def report(sides: Sequence[Side], notes: Sequence[str] = (), more: Found | None = None) -> Found:
    """The figures with the sentences of each side under ``said``. ``notes``: what readers must know: what was assumed,
    left out, and what nobody can know. ``more``: further keys; under ``also`` what else was compared: ``heading`` and
    ``said``. Raises ValueError as ``compare_sides`` does.
    """
    found = compare_sides(sides)
    said = {label: sentences(found, label) for label in found["sides"][1:]}
    return {"said": said, "notes": list(notes), **(more or {}), **found}


def write_sides(found: Found, folder: Path, title: str, png: bool = False) -> list[Path]:
    """Write what ``report`` found into ``folder``, which is made when it is missing. Returns the files.

    Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shown = sides_pictures(found)
    files = [folder / name for name in (JSON_FILE, MARKDOWN_FILE, PAGE_FILE)]
    write_json(files[0], found)
    files[1].write_text(as_markdown(found, title), "utf-8")
    page = sides_page(
        title,
        shown,
        about=about(found),
        pairs=pairs(found),
        notes=found["notes"],
        tables=tables_of(found),
    )
    files[2].write_text(page, "utf-8")
    return [*files, *(write_pngs(shown, folder) if png else ())]


def about(found: Found) -> str:
    return f"{format_time(found['from'])} to {format_time(found['until'])}, {found['gpus']:,} GPUs."


def heading(found: Found, label: str) -> str:
    return f"{label} against {found['base']}"


def pairs(found: Found) -> list[Found]:
    """``heading`` and ``said`` of each side against the base, and of what else was compared (``also``)."""
    against = [{"heading": heading(found, label), "said": said} for label, said in found["said"].items()]
    return [*against, *found.get("also", ())]


def as_markdown(found: Found, title: str) -> str:
    """Words first, then the tables, then the notes."""
    lines = [f"# {markdown.plain(title)}", "", markdown.plain(about(found))]
    for pair in pairs(found):
        lines += ["", f"## {markdown.plain(pair['heading'])}", "", *markdown.points(pair["said"])]
    for table in tables_of(found):
        lines += ["", f"## {table.title}", "", *markdown.table(table.head, table.rows)]
    if found["notes"]:
        lines += ["", "## What to know", "", *markdown.points(found["notes"])]
    return "\n".join(lines) + "\n"


def tables_of(found: Found) -> list[Table]:
    """The cluster, sizes, budgets, people; a column for each side."""
    labels = found["sides"]
    waits = [("all", found["all"]), *((row["size"], row) for row in found["sizes"])]
    return [
        Table("The cluster", ("figure", *labels), _cluster(found)),
        Table(
            "Waits",
            ("jobs that waited", "jobs", *_heads(("p50", "p90", "never started"), labels), *_moved_heads(found)),
            [[name, *_waits_of(row, labels), *_moved(row, labels[1:])] for name, row in waits],
        ),
        Table(
            "Budgets",
            ("budget", *_heads(("GPU-h", "M1", "p50", "p90"), labels), *_verdicts(found)),
            [[row["budget"], *_budget(row, labels), *_verdict(row, labels)] for row in found["budgets"]],
        ),
        Table(
            "People",
            ("person", "jobs", *_heads(("GPU-h", "p50", "p90"), labels), *_verdicts(found)),
            [[row["user"], *_person(row, labels), *_verdict(row, labels)] for row in found["people"]],
        ),
        Table(
            "Work",
            ("budget", *_heads(("finished", "evictions", "lost GPU-h", "free GPU-h"), labels)),
            [[row["budget"], *_work(row, labels)] for row in found["budgets"]],
        ),
    ]


def _heads(names: Sequence[str], labels: Sequence[str]) -> list[str]:
    return [f"{name}, {label}" for name in names for label in labels]


def _moved_heads(found: Found) -> list[str]:
    return [f"{how}, {label}" for label in found["sides"][1:] for how in ("sooner", "later")]


def _verdicts(found: Found) -> list[str]:
    others = found["sides"][1:]
    return [f"in all, {label}" for label in others] if len(others) > 1 else ["in all"]


def _cluster(found: Found) -> list[list[str]]:
    of = found["overall"]
    rows = [[text, *(written(of[label][name], SHARE) for label in found["sides"])] for name, text in _OVERALL.items()]
    idle = [f"{of[label]['idle_while_waiting_gpu_hours']:,.1f}" for label in found["sides"]]
    return [*rows, ["free GPU-hours that nobody who waited got", *idle]]


def _each(row: Found, labels: Sequence[str], name: str, unit: str) -> list[str]:
    return [written(row["figures"][label][name], unit) for label in labels]


def _numbers(row: Found, labels: Sequence[str], name: str) -> list[str]:
    return [_number(row["figures"][label][name]) for label in labels]


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _waits_of(row: Found, labels: Sequence[str]) -> list[str]:
    jobs = f"{row['figures'][labels[0]]['waited']:,}"
    waits = [cell for name in ("p50_s", "p90_s") for cell in _each(row, labels, name, SECONDS)]
    return [jobs, *waits, *_numbers(row, labels, "never_started")]


def _moved(row: Found, labels: Sequence[str]) -> list[str]:
    return [f"{row['changes'][label][how]:,}" for label in labels for how in ("sooner", "later")]


def _budget(row: Found, labels: Sequence[str]) -> list[str]:
    shares = [written(row["figures"][label].get("m1"), SHARE) for label in labels]
    waits = [cell for name in ("p50_s", "p90_s") for cell in _each(row, labels, name, SECONDS)]
    return [*_numbers(row, labels, "net_gpu_hours"), *shares, *waits]


def _person(row: Found, labels: Sequence[str]) -> list[str]:
    jobs = f"{row['figures'][labels[0]]['waited']:,}"
    waits = [cell for name in ("p50_s", "p90_s") for cell in _each(row, labels, name, SECONDS)]
    return [jobs, *_numbers(row, labels, "net_gpu_hours"), *waits]


def _work(row: Found, labels: Sequence[str]) -> list[str]:
    names = ("finished", "evictions", "lost_gpu_hours", "free_gpu_hours")
    return [cell for name in names for cell in _numbers(row, labels, name)]


def _verdict(row: Found, labels: Sequence[str]) -> list[str]:
    return [row["changes"][label]["verdict"] for label in labels[1:]]
