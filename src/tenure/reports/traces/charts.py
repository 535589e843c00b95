"""Pictures of a trace: what it asks for, of whom, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import altair as alt

from tenure.core.model import DAY, HOUR
from tenure.reports.catalogue import many
from tenure.reports.charts.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    SKY,
    VERMILION,
    WIDTH,
    Datum,
    Picture,
    clock,
    picture,
    time_axis,
    title,
)
from tenure.reports.traces.data import Step, days_shown, moment, size_steps, squeezed
from tenure.reports.traces.records import LIMIT_STEP, SIZE_CLASSES, Distribution, Holders, TraceFigures, weekend_told
from tenure.units import format_duration

JOBS, GPU_TIME = "jobs", "GPU time"
PEOPLE, TEAMS = "people", "teams"
_TWO = alt.Scale(domain=[JOBS, GPU_TIME], range=[SKY, BLUE])
_DASHES = alt.Scale(domain=[JOBS, GPU_TIME], range=[[5, 3], [1, 0]])
_TICKS = {1: "1 s", 60: "1 min", 600: "10 min", 3600: "1 h", 21600: "6 h", 86400: "1 d", 604800: "1 w", 2592000: "30 d"}
_POINTS = 250
_MOST_STEPS = 800
_HEIGHT = 240
_CLASSES = dict(zip((name for name, _ in SIZE_CLASSES), (GREEN, BLUE, ORANGE, VERMILION), strict=True))


def pictures(figures: TraceFigures) -> Iterator[Picture]:
    """Those that have something to show."""
    yield durations(figures)
    yield sizes(figures)
    yield over_time(figures)
    yield week(figures)
    yield concentration(figures)
    yield largest(figures)
    if set(figures.ends) != {"unknown"}:
        yield ends(figures)
    if figures.waits.bins:
        yield waits(figures)
    if figures.limits.jobs:
        yield limits(figures)


def durations(figures: TraceFigures) -> Picture:
    """Part of the jobs, and of the GPU time, by how long jobs ran."""
    points = [
        {"of": name, **point}
        for name, by_gpu_time in ((JOBS, False), (GPU_TIME, True))
        for point in _curve(figures.runtimes, by_gpu_time=by_gpu_time)
    ]
    lines = _lines(points, "ran at most", alt.Color("of:N", title="part of", scale=_TWO)).encode(
        alt.StrokeDash("of:N", title="part of", scale=_DASHES)
    )
    heading = title("How long jobs ran", f"{many(figures.jobs, 'job')}, {figures.gpu_hours:,.0f} GPU-hours")
    text = "The height of a curve is the part of the jobs, or of the GPU time, in jobs that ran at most so long."
    chart = lines.properties(width=620, height=_HEIGHT, title=heading, data=alt.NamedData("points"))
    return picture("durations", "Durations", text, chart, {"points": points})


def waits(figures: TraceFigures) -> Picture:
    """Part of the jobs by how long they waited, for each class of sizes."""
    found = figures.waits_by_size
    points = [{"of": name, **point} for name, waited in found.items() for point in _curve(waited, by_gpu_time=False)]
    scale = alt.Scale(domain=list(found), range=[_CLASSES[name] for name in found])
    lines = _lines(points, "waited at most", alt.Color("of:N", title="GPUs", scale=scale, sort=list(found)))
    heading = title("How long jobs waited", "; ".join(f"{name}: {waited.jobs:,}" for name, waited in found.items()))
    text = (
        "From the first submission to the first start, dependencies and holds included. Waits under a second are at "
        "the left edge; what never started is not here."
    )
    chart = lines.properties(width=620, height=_HEIGHT, title=heading, data=alt.NamedData("points"))
    return picture("waits", "Waits", text, chart, {"points": points})


def _curve(found: Distribution, *, by_gpu_time: bool) -> list[Datum]:
    """Points (seconds, part at or below it), at most some 250, from 1 s on."""
    weights = [one.gpu_ms if by_gpu_time else one.jobs for one in found.bins]
    total = sum(weights) or 1
    points: list[Datum] = []
    for one, reached in zip(found.bins, accumulate(weights), strict=True):
        part = round(reached / total, 5)
        if points and points[-1]["seconds"] < 1.001 and one.most <= 1000:
            points.pop()  # all that is below a second is one point
        if not points or part - points[-1]["part"] >= 1 / _POINTS or reached == total:
            points.append({"seconds": max(1.0, one.most / 1000), "part": part, "told": _told(one.most)})
    return points


def _told(ms: int) -> str:
    return format_duration(ms - ms % 1000) if ms >= 1000 else "under 1s"


def _lines(points: Sequence[Datum], what: str, colour: alt.Color) -> Any:
    least, most = min(point["seconds"] for point in points), max(point["seconds"] for point in points)
    begins = max(at for at in _TICKS if at <= least)
    expression = " : ".join(f"datum.value == {at} ? '{label}'" for at, label in _TICKS.items()) + " : ''"
    axis = alt.Axis(values=list(_TICKS), labelExpr=expression, labelOverlap=True)
    scale = alt.Scale(type="log", domain=[begins, max(2.0 * begins, most)], nice=False)
    return (
        alt.Chart()
        .mark_line(interpolate="step-after", strokeWidth=1.8)
        .encode(
            alt.X("seconds:Q", title=what, scale=scale, axis=axis),
            alt.Y("part:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
            colour,
            tooltip=[alt.Tooltip("of:N"), alt.Tooltip("told:N", title=what), alt.Tooltip("part:Q", format=".1%")],
        )
    )


def sizes(figures: TraceFigures) -> Picture:
    """Part of the jobs, and of the GPU time, by the GPUs of a job."""
    heading = title("How many GPUs jobs took", f"the largest {figures.largest:,}")
    text = "As parts of the jobs, and of the GPU time: the two may differ widely."
    return _beside("sizes", "Sizes", text, heading, size_steps(figures.sizes), "GPUs")


def ends(figures: TraceFigures) -> Picture:
    """Part of the jobs, and of the GPU time, by how jobs ended."""
    total = figures.supply.asked or 1
    steps = [
        Step(name.replace("_", " "), jobs / figures.jobs, gpu_ms / total)
        for name, (jobs, gpu_ms) in figures.ends.items()
    ]
    text = "As the trace says it. Running: when the report was made."
    return _beside("ends", "Ends", text, title("How jobs ended"), steps, None)


def _beside(
    name: str, heading: str, text: str, on_it: alt.TitleParams, steps: Sequence[Step], axis: str | None
) -> Picture:
    """Two bars for each step."""
    rows = [
        {"step": step.name, "of": of, "part": round(part, 5)}
        for step in steps
        for of, part in ((JOBS, step.jobs), (GPU_TIME, step.gpu_time))
    ]
    chart = (
        alt.Chart(alt.NamedData("rows"))
        .mark_bar()
        .encode(
            alt.X("step:N", title=axis, sort=[step.name for step in steps], axis=alt.Axis(labelAngle=0)),
            alt.XOffset("of:N", sort=[JOBS, GPU_TIME]),
            alt.Y("part:Q", title=None, axis=alt.Axis(format="%")),
            alt.Color("of:N", title="part of", scale=_TWO),
            tooltip=[alt.Tooltip("step:N"), alt.Tooltip("of:N"), alt.Tooltip("part:Q", format=".1%")],
        )
        .properties(width=max(240, 84 * len(steps)), height=_HEIGHT, title=on_it)
    )
    return picture(name, heading, text, chart, {"rows": rows})


def over_time(figures: TraceFigures) -> Picture:
    """What was asked for and how many jobs came, day by day, or in longer steps of many days, shorter ones of few."""
    dated = figures.dated
    rows: list[Datum] = []
    length, sums = squeezed(figures, _MOST_STEPS)
    for step, (jobs, gpu_ms) in enumerate([*sums, (0, 0)]):
        at = figures.start + step * length
        shown = (clock(at) if dated else moment(figures, at)) if length < DAY else _day(at, dated=dated)
        rows.append({"t": at if dated else at / DAY, "from": shown, "jobs": jobs, "gpus": round(gpu_ms / length, 2)})
    x = time_axis() if dated else alt.X("t:Q", title="days from the start", scale=alt.Scale(nice=False))
    base = alt.Chart(alt.NamedData("rows"))
    asked = base.mark_area(interpolate="step-after", color=BLUE).encode(
        x, alt.Y("gpus:Q", title="GPUs asked for"), tooltip=["from:N", "gpus:Q", "jobs:Q"]
    )
    came = base.mark_area(interpolate="step-after", color=SKY).encode(
        x, alt.Y("jobs:Q", title="jobs submitted"), tooltip=["from:N", "jobs:Q"]
    )
    mean = alt.Chart(alt.NamedData("mean")).mark_rule(color=GREY, strokeDash=[5, 3]).encode(alt.Y("gpus:Q"))
    layers = [asked, mean]
    lines: dict[str, list[Datum]] = {"mean": [{"gpus": round(figures.supply.average_gpus, 2)}]}
    told = f"average {figures.supply.average_gpus:,.1f} GPUs (dashed)"
    if figures.gpus:
        layers.append(alt.Chart(alt.NamedData("supply")).mark_rule(color=RED).encode(alt.Y("gpus:Q")))
        lines["supply"] = [{"gpus": figures.gpus}]
        told += f", {figures.demand_over_supply:.2f} x the {figures.gpus:,} GPUs there are (red)"
    first = alt.layer(*layers).properties(width=WIDTH, height=200, title=title("What was asked for", told))
    second = came.properties(width=WIDTH, height=110)
    each = "a day" if length == DAY else format_duration(length)
    text = (
        f"GPU time of the jobs submitted within {each}, over the length of that: so many GPUs would do what comes in "
        "that time within as long."
    )
    chart = alt.vconcat(first, second, spacing=12).resolve_scale(x="shared")
    return picture("demand", "Demand over time", text, chart, {"rows": rows, **lines})


def _day(at: int, *, dated: bool) -> str:
    return clock(at)[:10] if dated else f"day {at // DAY + 1}"


def week(figures: TraceFigures) -> Picture:
    """Submissions by the hour of the week."""
    found, names = figures.arrivals, days_shown(figures)
    weeks = max(1.0, found.hours / (7 * 24))
    cells = [
        {"day": names[day], "hour": hour, "jobs": round(count / weeks, 2)}
        for day, row in enumerate(found.grid)
        for hour, count in enumerate(row)
    ]
    hours = alt.X("hour:O", title="hour of the day" + (" (UTC)" if found.dated else ""), axis=alt.Axis(labelAngle=0))
    tips = [alt.Tooltip("day:N"), alt.Tooltip("hour:O"), alt.Tooltip("jobs:Q", title="jobs an hour")]
    base = alt.Chart(alt.NamedData("cells"))
    sums = base.mark_bar(color=SKY).encode(hours, alt.Y("mean(jobs):Q", title="jobs an hour"))
    grid = base.mark_rect().encode(
        hours,
        alt.Y("day:N", title=None, sort=list(names)),
        alt.Color("jobs:Q", title="jobs an hour", scale=alt.Scale(scheme="blues")),
        tooltip=tips,
    )
    facts = [f"{found.mean:,.1f} jobs an hour"]
    facts += [f"hourly Fano factor {found.fano:,.1f}"] if found.fano is not None else []
    facts += [f"peak to trough {found.peak_to_trough:.1f}"] if found.peak_to_trough is not None else []
    facts += [weekend_told(found.weekend)] if found.weekend is not None else []
    heading = title("When jobs come", "; ".join(facts))
    chart = alt.vconcat(
        sums.properties(width=720, height=110, title=heading), grid.properties(width=720, height=190), spacing=8
    )
    text = (
        "Submissions in an hour of the week. The Fano factor is the variance of the submissions of an hour over their "
        "mean: 1 if everybody came at random, and the larger the more they come in bursts."
    )
    return picture("arrivals", "Arrivals", text, chart, {"cells": cells})


def concentration(figures: TraceFigures) -> Picture:
    """How much of the GPU time the largest people and teams hold."""
    both = {"people or teams": figures.people} if figures.teamless else {PEOPLE: figures.people, TEAMS: figures.teams}
    points = [
        {"of": name, "holders": round(holders, 5), "part": round(part, 5)}
        for name, found in both.items()
        for holders, part in found.curve
    ]
    scale = alt.Scale(domain=list(both), range=[BLUE, ORANGE][: len(both)])
    lines = (
        alt.Chart(alt.NamedData("points"))
        .mark_line(strokeWidth=2)
        .encode(
            alt.X("holders:Q", title="part of them, the largest first", axis=alt.Axis(format="%")),
            alt.Y("part:Q", title="part of the GPU time", axis=alt.Axis(format="%")),
            alt.Color("of:N", title=None, scale=scale),
            alt.StrokeDash("of:N", title=None, scale=alt.Scale(domain=list(both), range=[[1, 0], [5, 3]][: len(both)])),
            tooltip=["of:N", alt.Tooltip("holders:Q", format=".1%"), alt.Tooltip("part:Q", format=".1%")],
        )
    )
    even = (
        alt.Chart(alt.NamedData("even"))
        .mark_line(color=GREY, strokeDash=[2, 3])
        .encode(alt.X("holders:Q"), alt.Y("part:Q"))
    )
    heading = title("How concentrated the GPU time is", *(_said(name, found) for name, found in both.items()))
    text = "The dotted line is where everybody would have the same."
    chart = (even + lines).properties(width=420, height=300, title=heading)
    rows: dict[str, list[Datum]] = {"points": points, "even": [{"holders": 0, "part": 0}, {"holders": 1, "part": 1}]}
    return picture("concentration", "Concentration", text, chart, rows)


def _said(name: str, found: Holders) -> str:
    shown = [f"the top {p} % hold {100 * part:.0f} %" for p, part in found.top.items() if found.count * p >= 100]
    return f"{found.count:,} {name}" + (f": {', '.join(shown)}" if shown else "")


def largest(figures: TraceFigures) -> Picture:
    """The teams with the most GPU time."""
    found = figures.teams.largest
    total = figures.supply.asked or 1
    rows: list[Datum] = [
        {
            "team": one.name,
            "hours": round(one.gpu_ms / HOUR, 1),
            "jobs": one.jobs,
            "part": round(one.gpu_ms / total, 4),
        }
        for one in found
    ]
    base = alt.Chart(alt.NamedData("rows"))
    teams = alt.Y("team:N", title=None, sort=[row["team"] for row in rows], axis=alt.Axis(labelLimit=240))
    tips = ["team:N", alt.Tooltip("hours:Q", format=",.1f"), "jobs:Q", alt.Tooltip("part:Q", format=".1%")]
    hours = base.mark_bar(color=BLUE).encode(alt.X("hours:Q", title="GPU-hours"), teams, tooltip=tips)
    jobs = base.mark_bar(color=SKY).encode(alt.X("jobs:Q", title=JOBS), teams.copy(), tooltip=tips)
    height = max(60, 19 * len(rows))
    chart = alt.hconcat(
        hours.properties(width=420, height=height), jobs.properties(width=260, height=height), spacing=24
    ).resolve_scale(y="shared")
    heading = title("The largest teams", f"{len(found)} of {figures.teams.count:,}, by GPU time")
    text = "Many jobs and much GPU time need not be the same team's."
    return picture("teams", "Teams", text, chart.properties(title=heading), {"rows": rows})


def limits(figures: TraceFigures) -> Picture:
    """Jobs by the part of their limit that they ran."""
    found = figures.limits
    names = [f"{at} to {at + LIMIT_STEP} %" for at in range(0, 100, LIMIT_STEP)] + ["beyond"]
    rows = [
        {"step": name, "part": round(jobs / found.jobs, 5), "jobs": jobs}
        for name, jobs in zip(names, found.steps, strict=True)
    ]
    chart = (
        alt.Chart(alt.NamedData("rows"))
        .mark_bar(color=BLUE)
        .encode(
            alt.X("step:N", title="part of the limit that was used", sort=names, axis=alt.Axis(labelAngle=-45)),
            alt.Y("part:Q", title="part of the jobs with a limit", axis=alt.Axis(format="%")),
            tooltip=["step:N", "jobs:Q", alt.Tooltip("part:Q", format=".1%")],
        )
    )
    told = f"{many(found.jobs, 'job')} with a limit, the median {format_duration(found.requested.percentile(50))}"
    told += f"; {found.past:,} ran more than a minute past it"
    text = "What a scheduler that trusts limits has to go by. Beyond: more than a minute past the limit."
    heading = title("Limits against runtimes", told)
    chart = chart.properties(width=720, height=_HEIGHT, title=heading)
    return picture("limits", "Limits", text, chart, {"rows": rows})
