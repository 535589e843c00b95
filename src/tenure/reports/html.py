"""Web pages that open without a network: one for a run, one for a comparison, one for a trace.

Libraries, charts and data are inside the page. Everything that a run says was written by somebody, so all of it is
escaped: texts by the template engine, chart data by writing ``<``, ``>`` and ``&`` in JSON as escapes. A content
security policy keeps the page from fetching anything, whatever it contains.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from tenure.reports.catalogue import EACH, SECONDS, SECTIONS, SHARE, written
from tenure.reports.charts import pictures
from tenure.reports.charts.style import Picture, Spec
from tenure.reports.metrics import Summary, summary, wait_key
from tenure.reports.pages import BASE, BEHAVIOURS, COMPARISON, RUN, SIDES, TABLE
from tenure.reports.records import Run
from tenure.reports.traces.template import TRACE
from tenure.reports.waits import CLASSES, GROUPS, PERCENTILES

REPORT_FILE = "report.html"
CHARTS_FOLDER = "charts"


def write_report(
    run: Run,
    folder: Path,
    window: tuple[int, int] | None = None,
    hosts: int | Sequence[str] | None = None,
    png: bool = True,
) -> list[Path]:
    """Write ``report.html`` and, with ``png``, a picture of every chart into ``folder``. Returns the files.

    ``window`` (ms UTC) and ``hosts`` (names, or how many) choose what the GPU timeline shows. Raises ValueError for
    hosts that the run does not have and for an empty window, OSError when files cannot be written.
    """
    shown = list(pictures.pictures(run, window, hosts))
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / REPORT_FILE
    page.write_text(run_page(summary(run), shown), "utf-8")
    return [page, *(write_pngs(shown, folder) if png else ())]


def write_pngs(shown: Iterable[Picture], folder: Path) -> list[Path]:
    """Write ``charts/NAME.png`` of each picture. Raises OSError."""
    charts = folder / CHARTS_FOLDER
    charts.mkdir(parents=True, exist_ok=True)
    written_files = []
    for one in shown:
        path = charts / f"{one.name}.png"
        path.write_bytes(pictures.png(one.spec))
        written_files.append(path)
    return written_files


def run_page(found: Summary, shown: Sequence[Picture]) -> str:
    """The page of one run."""
    return _page(
        "run",
        f"{found['policy']} on {found['gpus']} GPUs, seed {found['seed']}",
        shown,
        run=found,
        sections=_sections(found),
        tables=[_budgets(found), _programs(found), _clusters(found), _waits(found), _evictions(found), _hours(found)],
    )


def trace_page(name: str, shown: Sequence[Picture], **parts: Any) -> str:
    """The page of a trace; ``parts`` are what its template names."""
    return _page("trace", name, shown, **parts)


def comparison_page(shown: Sequence[Picture], **parts: Any) -> str:
    """The page of a comparison; ``parts`` are what its template names."""
    return _page("comparison", "Comparison", shown, **parts)


def sides_page(title: str, shown: Sequence[Picture], **parts: Any) -> str:
    """The page of who gains and who loses; ``parts`` are what its template names."""
    return _page("sides", title, shown, **parts)


def behaviours_page(shown: Sequence[Picture], **parts: Any) -> str:
    """The page of what behaviours gain or lose; ``parts`` are what its template names."""
    return _page("behaviours", "Behaviours", shown, **parts)


def _page(template: str, name: str, shown: Sequence[Picture], **parts: Any) -> str:
    charts = [(one, Markup(for_script(one.spec))) for one in shown]
    page = _templates().get_template(template)
    return page.render(title=name, library=Markup(_library()), charts=charts, **parts)


@cache
def _templates() -> Environment:
    pages = {"base": BASE, "run": RUN, "comparison": COMPARISON, "sides": SIDES, "behaviours": BEHAVIOURS}
    loader = DictLoader({**pages, "trace": TRACE, "table": TABLE})
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


@cache
def _library() -> str:
    """The JavaScript of the charts: made once, since that takes seconds."""
    return pictures.javascript().replace("</script", "<\\/script")


def for_script(value: Spec) -> str:
    """JSON for the inside of a script element: nothing in it can end the element or begin another one."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@dataclass(frozen=True, slots=True)
class Table:
    """Cells are plain text; the first column is a name, the others are figures. ``about``: lines under the table that
    say what its figures are.
    """

    title: str
    head: tuple[str, ...]
    rows: list[list[str]]
    about: tuple[str, ...] = ()


def _sections(found: Summary) -> dict[str, list[tuple[str, str]]]:
    sections = {
        name: [(figure.label, written(figure.of(found), figure.unit)) for figure in figures]
        for name, figures in SECTIONS.items()
    }
    owed = sections["What budgets were owed"]
    place = next(i for i, (label, _) in enumerate(owed) if label.startswith("budgets with"))
    owed[place] = (owed[place][0], f"{found['budgets_at_95']} of {found['budgets']}")
    return sections


def _budgets(found: Summary) -> Table:
    shares = ("m1_delivered", "m1_strict", "m1_net", "m1_worst_week", "m3_delivered")
    amounts = ("entitled", "demand", "owed", "delivered", "lost", "surplus", "free")
    rows = [
        [one["budget"], *(written(one[key], SHARE) for key in shares)]
        + [f"{one[f'{key}_gpu_hours']:,.1f}" for key in amounts]
        for one in found["per_budget"]
    ]
    head = ("budget", "delivered (M1)", "strict", "net of lost", "worst week", "M3", *(f"{a}, GPU-h" for a in amounts))
    return Table("Budgets", head, rows)


def _programs(found: Summary) -> Table:
    amounts = ("owed", "delivered", "free")
    rows = [
        [one["program"], written(one["impact"], SHARE), written(one["m1_delivered"], SHARE)]
        + [f"{one[f'{key}_gpu_hours']:,.1f}" for key in amounts]
        for one in found["per_program"]
    ]
    return Table("Programs", ("program", "impact", "delivered (M1)", *(f"{a}, GPU-h" for a in amounts)), rows)


def _clusters(found: Summary) -> Table:
    shares = ("occupancy", "availability", "unallocated_share", "fragmentation_share", "withheld_share")
    rows = [
        [one["cluster"], str(one["gpus"]), written(one["demand_over_supply"], EACH)]
        + [written(one[key], SHARE) for key in shares]
        for one in found["per_cluster"]
    ]
    head = ("cluster", "GPUs", "demand over supply", *(key.removesuffix("_share") for key in shares))
    return Table("Clusters", head, rows)


def _waits(found: Summary) -> Table:
    rows = [
        [group, f"{found[f'{group}_jobs']:,}", f"{found[f'{group}_never_started']:,}"]
        + [written(found[wait_key(group, what, p)], SECONDS) for what in ("wait", "decision") for p in PERCENTILES]
        for group in GROUPS
    ]
    head = ("jobs that were", "jobs", "never started", *(f"to the start, p{p}" for p in PERCENTILES))
    return Table("Waits", (*head, *(f"to the decision, p{p}" for p in PERCENTILES)), rows)


def _evictions(found: Summary) -> Table:
    rows = []
    for name in CLASSES:
        started, evicted = found["jobs_started_by_class"][name], found["evictions_by_class"][name]
        each = written(evicted / started if started else None, EACH)
        reasons = found["evictions_by_class_and_reason"][name].items()
        why = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in reasons) or "-"
        rows.append([name, f"{started:,}", f"{evicted:,}", each, why])
    return Table("Evictions", ("class", "jobs started", "evictions", "for each", "reasons"), rows)


def _hours(found: Summary) -> Table:
    rows = [[name.replace("_", " "), f"{value:,.1f}"] for name, value in found["gpu_hours"].items()]
    return Table("GPU time", ("kind", "GPU-hours"), rows)
