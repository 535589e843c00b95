"""Sides as files: ``sides.json``, ``sides.md`` and ``sides.html``, and as tables for whoever shows them elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tenure.reports import markdown
from tenure.reports.catalogue import SHARE, written
from tenure.reports.charts.sides import sides_pictures
from tenure.reports.html import Table, sides_page, write_pngs
from tenure.reports.side_waits import cell
from tenure.reports.sides import Found, Side, compare_sides
from tenure.reports.sides_words import sentences
from tenure.reports.tables import write_json
from tenure.units import format_time

JSON_FILE, MARKDOWN_FILE, PAGE_FILE = "sides.json", "sides.md", "sides.html"
MEDIAN, MOST = "median wait", "90 % within"
_WAITS = (
    "The median wait: half of the jobs start within it. 90 % within: nine of ten jobs start within that wait. ≥: at "
    "least so long, as it hangs on jobs that had not started in the end, which count with what they had waited by then."
)
_OWED = "In every hour a budget is owed its share of the GPUs that work, or what it asks for where that is less."
_HOURS = "GPU-hours: one GPU for one hour, those of unallocated jobs as well, without work that was lost."
_IN_ALL = (
    "In all: who gains has something better (GPU-hours, the median wait, the wait of 90 %) and nothing worse; who "
    "loses the other way round; both is some of each, neither is no difference that matters."
)
_ABOUT = {
    "The cluster": (
        f"M1 is delivered of what was owed. {_OWED} M1 strict counts what came in the very hour alone.",
        "M3 has a stricter measure: GPUs that others leave are due to those who ask for more, shared out by their "
        "shares until all are used or all have what they ask for.",
        "Occupancy: the part of the healthy GPUs' time in which they are used. Lost: work that has to be done again, "
        "and starting again, as a part of the time that was used.",
        "Idle while jobs waited: GPUs that nobody used, though somebody asked for some: too scattered for a job, or "
        "held back by a rule.",
    ),
    "Waits": (f"{_WAITS} Sooner and later: by more than a minute, against the first side.",),
    "Evictions": (
        "Charged jobs count against their budget and are protected for their min_runtime; unallocated ones run on what "
        "is left over, count against nobody, and may be evicted at any time.",
        "Lost: work that has to be done again, and starting again.",
    ),
    "Budgets": (_HOURS, f"Of its due: the part of what it is owed that it gets (M1). {_OWED}", _WAITS, _IN_ALL),
    "People": (_HOURS, _WAITS, _IN_ALL),
    "Work": (
        "Finished: jobs that ended by themselves. Unallocated GPU-hours: of jobs that run on what is left over, which "
        "are charged to nobody.",
    ),
}
WORST = "that job, or one of them"
_EVICTED = {
    "evictions": "evictions",
    "charged": "of charged jobs",
    "unallocated": "of unallocated jobs",
    "jobs": "different jobs that were hit",
    "most": "most evictions of one job",
    "lost_gpu_hours": "lost GPU-hours",
    "lost_charged_gpu_hours": "of those, in charged jobs",
    "lost_unallocated_gpu_hours": "of those, in unallocated jobs",
}
_WORK = {
    "finished": "finished",
    "evictions": "evictions",
    "of charged jobs": "evictions_of_charged",
    "lost GPU-hours": "lost_gpu_hours",
    "unallocated GPU-hours": "unallocated_gpu_hours",
}
_OVERALL = {
    "m1_delivered": "delivered of what was owed (M1)",
    "m1_net": "the same, without work that was lost",
    "m1_strict": "delivered in the hour it was owed (M1 strict)",
    "m1_worst": "the worst budget's M1",
    "m3_delivered": "delivered of what was due with the leftovers shared out (M3)",
    "occupancy": "GPUs in use (occupancy)",
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
        for line in table.about:
            lines += ["", markdown.plain(line)]
    if found["notes"]:
        lines += ["", "## What to know", "", *markdown.points(found["notes"])]
    return "\n".join(lines) + "\n"


def tables_of(found: Found) -> list[Table]:
    """The cluster, sizes, evictions, budgets, people, work; a column for each side."""
    labels, budgets = found["sides"], found["budgets"]
    waits = [("all", found["all"]), *((row["size"], row) for row in found["sizes"])]
    return [
        _table("The cluster", ("figure", *labels), _cluster(found)),
        _table(
            "Waits",
            ("size", "jobs", *_heads((MEDIAN, MOST, "never started"), labels), *_moved_heads(found)),
            [[name, *_waits_of(row, labels), *_moved(row, labels[1:])] for name, row in waits],
        ),
        _table("Evictions", ("figure", *labels), _evicted(found)),
        _table(
            "Budgets",
            ("budget", *_heads(("GPU-hours", "of its due", MEDIAN, MOST), labels), *_verdicts(found)),
            [[row["budget"], *_budget(row, labels), *_verdict(row, labels)] for row in budgets],
        ),
        _table(
            "People",
            ("person", "jobs", *_heads(("GPU-hours", MEDIAN, MOST), labels), *_verdicts(found)),
            [[row["user"], *_person(row, labels), *_verdict(row, labels)] for row in found["people"]],
        ),
        _table(
            "Work",
            ("budget", *_heads(tuple(_WORK), labels)),
            [[row["budget"], *_work(row, labels)] for row in budgets],
        ),
    ]


def _table(title: str, head: tuple[str, ...], rows: list[list[str]]) -> Table:
    return Table(title, head, rows, _ABOUT[title])


def _evicted(found: Found) -> list[list[str]]:
    of = [found["evicted"][label] for label in found["sides"]]
    rows = [[text, *(_number(one[name]) for one in of)] for name, text in _EVICTED.items()]
    return [*rows, [WORST, *map(_worst, of)]]


def _worst(of: Found) -> str:
    if not of["most_often"]:
        return "-"
    one = of["most_often"][0]
    return f"{one['job']} of {one['user']}, {one['budget']}"


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
    return [*rows, ["idle GPU-hours while jobs waited", *idle]]


def _waited(row: Found, labels: Sequence[str]) -> list[str]:
    return [cell(row["figures"][label], percent) for percent in (50, 90) for label in labels]


def _numbers(row: Found, labels: Sequence[str], name: str) -> list[str]:
    return [_number(row["figures"][label][name]) for label in labels]


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _waits_of(row: Found, labels: Sequence[str]) -> list[str]:
    jobs = f"{row['figures'][labels[0]]['compared']:,}"
    waits = _waited(row, labels)
    return [jobs, *waits, *_numbers(row, labels, "never_started")]


def _moved(row: Found, labels: Sequence[str]) -> list[str]:
    return [f"{row['changes'][label][how]:,}" for label in labels for how in ("sooner", "later")]


def _budget(row: Found, labels: Sequence[str]) -> list[str]:
    shares = [written(row["figures"][label].get("m1"), SHARE) for label in labels]
    waits = _waited(row, labels)
    return [*_numbers(row, labels, "net_gpu_hours"), *shares, *waits]


def _person(row: Found, labels: Sequence[str]) -> list[str]:
    jobs = f"{row['figures'][labels[0]]['compared']:,}"
    waits = _waited(row, labels)
    return [jobs, *_numbers(row, labels, "net_gpu_hours"), *waits]


def _work(row: Found, labels: Sequence[str]) -> list[str]:
    return [cell for name in _WORK.values() for cell in _numbers(row, labels, name)]


def _verdict(row: Found, labels: Sequence[str]) -> list[str]:
    return [row["changes"][label]["verdict"] for label in labels[1:]]
