"""What all charts share: colours that the colour-blind can tell apart, axes, and how a specification is made.

Colours: *Okabe-Ito* (M. Okabe and K. Ito, *Color Universal Design*, 2008) for kinds and lines, and *muted* (P. Tol,
*Colour Schemes*, SRON, 2021) where up to nine teams must be told apart. No scheme tells more apart for everybody:
further teams have further hues, and their names where they are pointed at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from tenure.core.model import HOUR, MINUTE
from tenure.reports.owed import measured_from
from tenure.reports.records import HourRow, Run
from tenure.units import format_time

Spec = dict[str, Any]
Datum = dict[str, Any]

BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#56B4E9",
    "#CC79A7",
    "#999999",
)
TEAMS = ("#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499")
MORE_TEAMS = ("#EE7733", "#0077BB", "#BBCC33", "#8C564B", "#FFAABB", "#555555")
OTHER_TEAMS = "#AAAAAA"
RED = "#E4002B"
PALE = "#E3E3E3"

WIDTH = 960
COLUMNS = 4
PANEL_WIDTH, PANEL_HEIGHT = 215, 120
MOST_PANELS = 24
"""Beyond this many small charts nobody looks at them: the worst are shown."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart: ``name`` is its file's, ``text`` says how it is read. Both texts are plain, not HTML."""

    name: str
    title: str
    text: str
    spec: Spec


def picture(name: str, title: str, text: str, chart: Any, rows: Mapping[str, Sequence[Datum]]) -> Picture:
    """Make a picture of ``chart``, whose data are the named ``rows``: so the library does not check each datum."""
    spec: Spec = chart.configure(**_CONFIG).to_dict()
    spec["datasets"] = {key: list(values) for key, values in rows.items()}
    return Picture(name, title, text, spec)


_FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_CONFIG: dict[str, Any] = {
    "font": _FONT,
    "background": "white",
    "view": {"stroke": "#CCCCCC"},
    "title": {"anchor": "start", "fontSize": 15, "subtitleFontSize": 11, "subtitleColor": "#555555", "offset": 10},
    "axis": {"gridColor": "#EEEEEE", "labelFontSize": 10, "titleFontSize": 11, "titleFontWeight": "normal"},
    "header": {"labelFontSize": 11, "labelFontWeight": "bold", "labelAnchor": "start", "labelLimit": 230},
    "legend": {"labelFontSize": 11, "titleFontSize": 11, "labelLimit": 240},
}


def title(text: str, *more: str) -> alt.TitleParams:
    return alt.TitleParams(text, subtitle=list(more))


_DAY, _CLOCK = "%b %d", "%H:%M"
_TIMES = {"year": _DAY, "quarter": _DAY, "month": _DAY, "week": _DAY, "date": _DAY, "day": _DAY} | {
    "hours": _CLOCK,
    "minutes": _CLOCK,
    "seconds": "%H:%M:%S",
}


def time_axis(**more: Any) -> alt.X:
    """The field ``t``, ms UTC, shown in UTC wherever the reader is."""
    axis = alt.Axis(labelOverlap=True, labelFlush=False, format=_TIMES, **more)
    return alt.X("t:T", title=None, scale=alt.Scale(type="utc", nice=False), axis=axis)


def short(budget: str) -> str:
    """A budget's path without the root."""
    return budget.partition("/")[2] or budget


def clock(at: int) -> str:
    """``2026-10-09 12:00`` of ms UTC."""
    return format_time(at - at % MINUTE).replace("T", " ")[:16]


def measured_hours(run: Run) -> dict[str, list[HourRow]]:
    """Cluster -> its hours after the warm-up, in order."""
    since = measured_from(run)
    found: dict[str, list[HourRow]] = {}
    for row in sorted(run.hours, key=lambda row: (row.cluster, row.start)):
        if row.start >= since:
            found.setdefault(row.cluster, []).append(row)
    return found


def bucket_length(run: Run, most: int) -> int:
    """Whole hours, ms, such that the measured time has at most ``most`` such steps."""
    measured = max(1, run.until - measured_from(run))
    return HOUR * max(1, -(-measured // (most * HOUR)))


def buckets(run: Run, rows: Iterable[HourRow], most: int) -> dict[int, list[HourRow]]:
    """Start of a step, of which there are at most ``most`` -> its hours."""
    since, length = measured_from(run), bucket_length(run, most)
    found: dict[int, list[HourRow]] = {}
    for row in rows:
        found.setdefault(since + (row.start - since) // length * length, []).append(row)
    return found
