"""Waits by class, as distributions: which part of the jobs had waited at most so long."""

from __future__ import annotations

import altair as alt

from tenure.reports.catalogue import many
from tenure.reports.charts.style import BLUE, GREEN, GREY, VERMILION, Datum, Picture, picture, title
from tenure.reports.records import Run
from tenure.reports.waits import CLASSES, DEBUG, LARGE, MID, UNFUNDED, Waits, waits
from tenure.units import format_duration

COLOURS = {DEBUG: GREEN, MID: BLUE, LARGE: VERMILION, UNFUNDED: GREY}
DASHES = {DEBUG: [1, 0], MID: [6, 2], LARGE: [2, 2], UNFUNDED: [8, 2, 2, 2]}
POINTS = 200
"""Of one curve; its steps are at evenly spaced ranks."""
TICKS = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 21600: "6 h", 86400: "1 d", 604800: "1 w"}
START, DECISION = "to the start", "to the decision"


def distributions(run: Run) -> Picture | None:
    """Both waits of each class that has jobs."""
    waited = {name: found for name, found in waits(run).items() if name in CLASSES and found.to_start}
    if not waited:
        return None
    points: list[Datum] = []
    longest = max(max(1000, found.to_start[-1]) for found in waited.values()) / 1000
    for name, found in waited.items():
        for panel, values in ((START, found.to_start), (DECISION, found.to_decision)):
            points += [{"panel": panel, "class": name, **point} for point in curve(values, longest)]
    names = list(waited)
    colour = alt.Scale(domain=names, range=[COLOURS[name] for name in names])
    dash = alt.Scale(domain=names, range=[DASHES[name] for name in names])
    lines = (
        alt.Chart()
        .mark_line(interpolate="step-after", strokeWidth=1.8)
        .encode(
            alt.X(
                "seconds:Q", title="wait", scale=alt.Scale(type="log", domain=[1, longest], nice=False), axis=_axis()
            ),
            alt.Y("part:Q", title="part of the jobs", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
            alt.Color("class:N", title="class", scale=colour),
            alt.StrokeDash("class:N", title="class", scale=dash),
            tooltip=[
                alt.Tooltip("class:N"),
                alt.Tooltip("wait:N"),
                alt.Tooltip("part:Q", title="at most so long", format=".1%"),
            ],
        )
    )
    chart = lines.properties(width=400, height=260).facet(
        facet=alt.Facet("panel:N", title=None, sort=[START, DECISION]), columns=2, data=alt.NamedData("points")
    )
    heading = title(f"How long jobs waited: {run.policy}", _counts(waited))
    text = (
        "The height of a curve is the part of the jobs that waited at most so long; waits under a second are at the "
        "left edge. Jobs that never started count with the wait they had when they were cancelled or the run ended."
    )
    return picture("waits", "Waits by class", text, chart.properties(title=heading), {"points": points})


def curve(ascending: list[int], longest: float) -> list[Datum]:
    """Points (seconds, part of the values that are at most that), from 1 s to ``longest``."""
    count = len(ascending)
    ranks = sorted({max(1, -(-count * step // POINTS)) for step in range(1, POINTS + 1)})
    reached: dict[float, int] = {1.0: sum(value <= 1000 for value in ascending)}
    for rank in ranks:
        reached[max(1.0, ascending[rank - 1] / 1000)] = rank
    reached[1.0] = max(reached[1.0], sum(value <= 1000 for value in ascending))
    reached[longest] = count
    return [
        {"seconds": seconds, "part": round(rank / count, 5), "wait": format_duration(round(seconds) * 1000)}
        for seconds, rank in sorted(reached.items())
    ]


def _axis() -> alt.Axis:
    expression = " : ".join(f"datum.value == {seconds} ? '{label}'" for seconds, label in TICKS.items()) + " : ''"
    return alt.Axis(values=list(TICKS), labelExpr=expression, labelOverlap=True)


def _counts(waited: dict[str, Waits]) -> str:
    said = []
    for name, found in waited.items():
        never = f", {found.never_started:,} never started" if found.never_started else ""
        said.append(f"{name}: {many(len(found.to_start), 'job')}{never}")
    return "; ".join(said)
