"""Who gains and who loses, drawn: GPU time and waits of each budget, and everybody's waits on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from tenure.reports.catalogue import wait
from tenure.reports.charts.comparison import COLOURS
from tenure.reports.charts.style import GREEN, GREY, PURPLE, VERMILION, Datum, Picture, picture, short, title
from tenure.reports.charts.waiting import TICKS
from tenure.reports.sides import Found
from tenure.reports.verdicts import BOTH, GAINS, LOSES, NEITHER

_VERDICTS = {GAINS: GREEN, LOSES: VERMILION, BOTH: PURPLE, NEITHER: GREY}
_MOST = 40
"""Budgets and people beyond these are in the tables only: those with the largest changes are shown."""
_WIDTH, _ROW = 520, 20


def sides_pictures(found: Found) -> list[Picture]:
    """Those that have something to show."""
    shown = (_gpu_time(found), _waits(found), _people(found))
    return [one for one in shown if one is not None]


def _leaves(found: Found) -> list[Found]:
    """Budgets without others below them, those with the largest changes, in the order of the tree."""
    inner = {row["budget"].rpartition("/")[0] for row in found["budgets"]}
    leaves = [row for row in found["budgets"] if row["budget"] not in inner and _busy(row)]
    chosen = sorted(leaves, key=lambda row: (-_largest(row), row["budget"]))[:_MOST]
    return [row for row in leaves if row in chosen]


def _busy(row: Found) -> bool:
    return any(figures["jobs"] for figures in row["figures"].values())


def _largest(row: Found) -> float:
    return max(abs(float(change["net_gpu_hours"])) for change in row["changes"].values())


def _gpu_time(found: Found) -> Picture | None:
    points: list[Datum] = [
        {
            "budget": short(row["budget"]),
            "side": label,
            "hours": change["net_gpu_hours"],
            "share": "-" if change["net_gpu_hours_share"] is None else f"{100 * change['net_gpu_hours_share']:+.1f} %",
            "what": change["verdict"],
        }
        for row in _leaves(found)
        for label, change in row["changes"].items()
    ]
    if not points:
        return None
    names = list(dict.fromkeys(point["budget"] for point in points))
    bars = (
        alt.Chart()
        .mark_bar(height={"band": 0.7})
        .encode(
            alt.X("hours:Q", title="GPU-hours more or less, without lost work"),
            alt.Y("budget:N", title=None, sort=names, axis=alt.Axis(labelLimit=260)),
            _verdict_colour(),
            tooltip=[
                alt.Tooltip("budget:N"),
                alt.Tooltip("hours:Q", title="GPU-hours", format="+,.1f"),
                alt.Tooltip("share:N", title="of what it had"),
                alt.Tooltip("what:N", title="in all"),
            ],
        )
        .properties(width=_WIDTH, height=_ROW * len(names))
    )
    chart = _side_by_side(bars, found["sides"][1:])
    heading = title("GPU time of each budget", f"against {found['base']}; colour: GPU time and waits together")
    text = (
        "To the right: more GPU time that was of use than on the side that is compared with. A budget gains where "
        "something is better, GPU time or waits, and nothing worse."
    )
    return picture("gpu-time", "GPU time gained and lost", text, chart.properties(title=heading), {"points": points})


def _waits(found: Found) -> Picture | None:
    points: list[Datum] = []
    for row in _leaves(found):
        for label, figures in row["figures"].items():
            for part, key in (("median", "p50_s"), ("90 % within", "p90_s")):
                if figures[key] is not None:
                    told = {"told": wait(figures[key]), "seconds": max(1, figures[key])}
                    points.append({"budget": short(row["budget"]), "side": label, "part": part, **told})
    if not points:
        return None
    names = list(dict.fromkeys(point["budget"] for point in points))
    most = max(2.0, *(point["seconds"] for point in points))
    y = alt.Y("budget:N", title=None, sort=names, axis=alt.Axis(labelLimit=260))
    x = _seconds("seconds", None, most)
    lines = alt.Chart().mark_line(color="#BBBBBB", strokeWidth=2).encode(x, y, alt.Detail("budget:N"))
    hues = [COLOURS[i % len(COLOURS)] for i in range(len(found["sides"]))]
    colour = alt.Color(
        "side:N",
        title=None,
        scale=alt.Scale(domain=found["sides"], range=hues),
        legend=alt.Legend(orient="top"),
    )
    tips = [alt.Tooltip("budget:N"), alt.Tooltip("side:N"), alt.Tooltip("told:N", title="wait")]
    dots = alt.Chart().mark_circle(size=70, opacity=0.9).encode(x, y, colour, tooltip=tips)
    layered = alt.layer(lines, dots, data=alt.NamedData("points"))
    layered = layered.properties(width=360, height=_ROW * len(names))
    facet = alt.Facet("part:N", title=None, sort=["median", "90 % within"])
    chart = layered.facet(facet=facet, columns=2)
    heading = title("Waits of each budget", "a dot per side; under a second is at the left edge")
    text = (
        "Where the dots of a budget are apart, its jobs wait differently. Jobs that never start count with what they "
        "had waited."
    )
    return picture("budget-waits", "Waits of each budget", text, chart.properties(title=heading), {"points": points})


def _people(found: Found) -> Picture | None:
    points: list[Datum] = []
    for row in found["people"]:
        before = row["figures"][found["base"]]["p90_s"]
        for label, change in row["changes"].items():
            now = row["figures"][label]["p90_s"]
            if before is not None and now is not None:
                told = {"was": wait(before), "becomes": wait(now), "what": change["verdict"]}
                values = {"before": max(1, before), "now": max(1, now), "hours": change["net_gpu_hours"]}
                points.append({"person": row["user"], "side": label, **told, **values})
    if not points:
        return None
    most = max(2.0, *(max(point["before"], point["now"]) for point in points))
    corners = [{"before": 1, "now": 1}, {"before": most, "now": most}]
    x = _seconds("before", f"90 % within, {found['base']}", most)
    y_axis = alt.Y(
        "now:Q", title="90 % within, here", scale=alt.Scale(type="log", domain=[1, most], nice=False), axis=_ticks()
    )
    level = alt.Chart(alt.NamedData("corners")).mark_line(color="#888888", strokeDash=[4, 3]).encode(x, y_axis)
    dots = (
        alt.Chart()
        .mark_circle(size=70, opacity=0.8)
        .encode(
            x,
            y_axis,
            _verdict_colour(),
            tooltip=[
                alt.Tooltip("person:N"),
                alt.Tooltip("was:N", title=found["base"]),
                alt.Tooltip("becomes:N", title="here"),
                alt.Tooltip("hours:Q", title="GPU-hours", format="+,.1f"),
                alt.Tooltip("what:N", title="in all"),
            ],
        )
    )
    layered = alt.layer(level, dots, data=alt.NamedData("points")).properties(width=380, height=320)
    chart = _side_by_side(layered, found["sides"][1:], made=True)
    heading = title("Everybody's waits", "a dot per person; below the line: 90 % of their jobs start sooner")
    text = "Who is below the dashed line waits less than on the side that is compared with, who is above it longer."
    rows = {"points": points, "corners": corners}
    return picture("people", "Everybody's waits", text, chart.properties(title=heading), rows)


def _side_by_side(chart: Any, labels: Sequence[str], *, made: bool = False) -> Any:
    """A panel per side, which is named where there are several."""
    facet = alt.Facet("side:N", title=None, sort=list(labels))
    return (
        chart.facet(facet=facet, columns=2)
        if made
        else chart.facet(facet=facet, columns=2, data=alt.NamedData("points"))
    )


def _verdict_colour() -> alt.Color:
    scale = alt.Scale(domain=list(_VERDICTS), range=list(_VERDICTS.values()))
    return alt.Color("what:N", title=None, scale=scale, legend=alt.Legend(orient="top"))


def _seconds(name: str, what: str | None, most: float) -> alt.X:
    scale = alt.Scale(type="log", domain=[1, most], nice=False)
    return alt.X(f"{name}:Q", title=what, scale=scale, axis=_ticks())


def _ticks() -> alt.Axis:
    expression = " : ".join(f"datum.value == {at} ? '{label}'" for at, label in TICKS.items()) + " : ''"
    return alt.Axis(values=list(TICKS), labelExpr=expression, labelOverlap=True)
