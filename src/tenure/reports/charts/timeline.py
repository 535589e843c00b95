"""The GPU timeline: a row per GPU, a bar per attempt.

Contiguous GPUs of one attempt are one rectangle. Vega has no patterns, so hatching is drawn as thin diagonal lines,
on one grid for the whole chart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from tenure.core.model import HOUR
from tenure.reports.charts.style import (
    MORE_TEAMS,
    OTHER_TEAMS,
    RED,
    TEAMS,
    WIDTH,
    Datum,
    Picture,
    clock,
    picture,
    short,
    time_axis,
    title,
)
from tenure.reports.owed import measured_from
from tenure.reports.records import AttemptRow, EvictionRow, Run
from tenure.units import format_duration, format_time

MOST_HOSTS = 32
MOST_BARS = 3000
MOST_LINES = 12_000
"""Of hatching."""
LEAST_WINDOW = HOUR
SHADES = (1.0, 0.72, 0.86, 0.58)
"""Of a team's jobs in turn, as opacity on white."""
HATCH = 7
"""Pixels between two lines."""
OTHERS = "other teams"


@dataclass(frozen=True, slots=True)
class View:
    """Which part of a run is shown. ``rows``: (cluster, host) -> its first row. Times in ms UTC."""

    start: int
    end: int
    rows: dict[tuple[str, str], int]
    height: int
    """GPUs shown."""
    hosts_in_all: int

    @property
    def row_pixels(self) -> float:
        return max(2.5, min(14.0, 640 / max(1, self.height)))

    def shows(self, attempt: AttemptRow) -> bool:
        return attempt.started < self.end and (attempt.ended is None or attempt.ended > self.start)

    def x(self, at: int) -> float:
        return (at - self.start) * WIDTH / (self.end - self.start)

    def time(self, x: float) -> int:
        return self.start + round(x * (self.end - self.start) / WIDTH)


def view(run: Run, window: tuple[int, int] | None = None, hosts: int | Sequence[str] | None = None) -> View:
    """What to show: ``window`` in ms UTC, else two days from the end of the warm-up, one of many GPUs.

    ``hosts``: those to show, or how many of the first, else 32 of them. The window is halved until it has at most
    ``MOST_BARS`` bars. Raises ValueError for hosts that the run does not have and for an empty window.
    """
    wanted = None if hosts is None or isinstance(hosts, int) else set(hosts)
    known = [(cluster, host, gpus) for cluster, found in run.hosts.items() for host, gpus in found]
    missing = sorted((wanted or set()) - {host for _, host, _ in known})
    if missing:
        raise ValueError(f"no such hosts in this run: {', '.join(missing)}")
    shown = [place for place in known if wanted is None or place[1] in wanted]
    if wanted is None:
        shown = shown[: hosts if isinstance(hosts, int) else MOST_HOSTS]
    rows: dict[tuple[str, str], int] = {}
    height = 0
    for cluster, host, gpus in shown:
        rows[cluster, host] = height
        height += gpus
    start, end = window or _default_window(run, height)
    if end <= start:
        raise ValueError(f"the window ends at {format_time(end)}, before it begins at {format_time(start)}")
    found = View(start, end, rows, height, len(known))
    while found.end - found.start > LEAST_WINDOW and _more_bars_than(MOST_BARS, run, found):
        found = View(start, found.start + (found.end - found.start) // 2, rows, height, len(known))
    return found


def _default_window(run: Run, gpus: int) -> tuple[int, int]:
    start = measured_from(run) if measured_from(run) < run.until else run.start
    return start, max(start + LEAST_WINDOW, min(run.until, start + (48 if gpus <= 128 else 24) * HOUR))


def _more_bars_than(most: int, run: Run, shown: View) -> bool:
    count = 0
    for attempt in run.attempts:
        if shown.shows(attempt):
            count += sum(1 for _ in stretches(attempt, shown))
            if count > most:
                return True
    return False


def stretches(attempt: AttemptRow, shown: View) -> Iterator[tuple[int, int]]:
    """(first row, row after the last) of each run of adjacent GPUs that the attempt has."""
    taken = sorted(
        shown.rows[attempt.cluster, host] + index
        for host, indices in attempt.slots
        if (attempt.cluster, host) in shown.rows
        for index in indices
    )
    first = 0
    for place in range(1, len(taken) + 1):
        if place == len(taken) or taken[place] != taken[place - 1] + 1:
            yield taken[first], taken[place - 1] + 1
            first = place


def timeline(
    run: Run, window: tuple[int, int] | None = None, hosts: int | Sequence[str] | None = None
) -> Picture | None:
    """The chart, or None when nothing ran in the window. Raises ValueError as ``view`` does."""
    shown = view(run, window, hosts)
    attempts = sorted((a for a in run.attempts if shown.shows(a)), key=lambda a: (a.started, a.job_id, a.id))
    hues = _hues(attempts, shown)
    shades = _shades(attempts)
    evicted = {row.attempt_id: row for row in run.evictions}
    bars: list[Datum] = []
    edges: list[Datum] = []
    exposed: list[tuple[int, int, int, int]] = []
    for attempt in attempts:
        end = min(shown.end, run.until if attempt.ended is None else attempt.ended)
        told = _told(attempt, evicted.get(attempt.id), hues, shades[attempt.job_id])
        since = attempt.started if attempt.protected_until is None else attempt.protected_until
        if attempt.protected_until is None:
            since = end
        for top, bottom in stretches(attempt, shown):
            bars.append({"t": max(shown.start, attempt.started), "t2": end, "y": top, "y2": bottom, **told})
            if since < end:
                exposed.append((max(shown.start, since, attempt.started), end, top, bottom))
            if attempt.id in evicted and attempt.ended is not None and attempt.ended <= shown.end:
                edges.append({"t": attempt.ended, "y": top, "y2": bottom, **told})
    if not bars:
        return None
    rows = {"bars": bars, "hatching": hatching(exposed, shown), "edges": edges}
    text = (
        "Each row is a GPU, each bar an attempt: the hue is the team, shades tell its jobs apart. Hatched parts are "
        "exposed: they may be evicted for somebody who comes first. A red edge is an eviction. Scroll to zoom in time, "
        "drag to move, double-click to see all again; bars say what they are."
    )
    return picture("timeline", "GPU timeline", text, _chart(run, shown, hues), rows)


def _hues(attempts: Iterable[AttemptRow], shown: View) -> dict[str, str]:
    """Budget -> colour. Of many teams only the largest in the window have their own."""
    times: dict[str, int] = {}
    for attempt in attempts:
        seen = min(shown.end, attempt.ended or shown.end) - max(shown.start, attempt.started)
        times[attempt.budget] = times.get(attempt.budget, 0) + seen * attempt.amount
    largest = sorted(times, key=lambda budget: (-times[budget], budget))
    hues = dict(zip(sorted(largest[: len(TEAMS)]), TEAMS, strict=False))
    hues |= dict(zip(sorted(largest[len(TEAMS) :][: len(MORE_TEAMS)]), MORE_TEAMS, strict=False))
    return hues | {budget: OTHER_TEAMS for budget in sorted(times) if budget not in hues}


def _shades(attempts: Iterable[AttemptRow]) -> dict[int, float]:
    """Job -> shade: those of one team take turns in the order of their starts."""
    turns: dict[str, int] = {}
    shades: dict[int, float] = {}
    for attempt in attempts:
        if attempt.job_id not in shades:
            turn = turns[attempt.budget] = turns.get(attempt.budget, -1) + 1
            shades[attempt.job_id] = SHADES[turn % len(SHADES)]
    return shades


def _told(attempt: AttemptRow, eviction: EvictionRow | None, hues: dict[str, str], shade: float) -> Datum:
    """What a bar looks like and says when it is pointed at."""
    protected = "never"
    if attempt.protected_until is None:
        protected = "to its end"
    elif attempt.protected_until > attempt.started:
        protected = f"until {clock(attempt.protected_until)}"
    ended = (
        "still running" if attempt.ended is None else f"{clock(attempt.ended)} ({attempt.because.replace('_', ' ')})"
    )
    if eviction is not None and eviction.gainer:
        ended += f", for job {eviction.gainer} of {short(eviction.gainer_budget)}"
    return {
        "team": short(attempt.budget) if hues[attempt.budget] != OTHER_TEAMS else OTHERS,
        "budget": attempt.budget,
        "shade": shade,
        "attempt": attempt.id,
        "user": attempt.user,
        "gpus": sum(len(indices) for _, indices in attempt.slots),
        "kind": "funded" if attempt.funded else "unfunded",
        "from": clock(attempt.started),
        "protected": protected,
        "ended": ended,
    }


def hatching(exposed: Sequence[tuple[int, int, int, int]], shown: View) -> list[Datum]:
    """Diagonal lines over (start, end, first row, row after the last): x + y = n x spacing, in pixels."""
    tall = shown.row_pixels
    boxes = [(shown.x(start), shown.x(end), top * tall, bottom * tall) for start, end, top, bottom in exposed]
    around = sum((right - left) + (bottom - top) for left, right, top, bottom in boxes)
    spacing = max(float(HATCH), around / MOST_LINES)
    lines = []
    for left, right, top, bottom in boxes:
        number = int((left + top) // spacing) + 1
        while number * spacing < right + bottom:
            least, most = max(left, number * spacing - bottom), min(right, number * spacing - top)
            ends = ((number * spacing - x) / tall for x in (least, most))
            y, y2 = (round(end, 2) for end in ends)
            lines.append({"t": shown.time(least), "t2": shown.time(most), "y": y, "y2": y2})
            number += 1
    return lines


def _chart(run: Run, shown: View, hues: dict[str, str]) -> Any:
    teams = {short(budget): colour for budget, colour in sorted(hues.items()) if colour != OTHER_TEAMS}
    if OTHER_TEAMS in hues.values():
        teams[OTHERS] = OTHER_TEAMS
    x = time_axis().scale(type="utc", domain=[shown.start, shown.end], nice=False)
    y = alt.Y("y:Q", title=None, scale=alt.Scale(domain=[shown.height, 0], nice=False), axis=_host_axis(shown))
    colour = alt.Color("team:N", title="team", scale=alt.Scale(domain=list(teams), range=list(teams.values())))
    tips = ["attempt", "budget", "user", "gpus", "kind", "from", "protected", "ended"]
    tooltip = [alt.Tooltip(f"{tip}:N", title="GPUs" if tip == "gpus" else tip) for tip in tips]
    bars = (
        alt.Chart(alt.NamedData("bars"))
        .mark_rect(clip=True, stroke="white", strokeWidth=0.4)
        .encode(x, y, alt.X2("t2"), alt.Y2("y2"), colour, alt.Opacity("shade:Q", scale=None, legend=None), tooltip)
    )
    lines = (
        alt.Chart(alt.NamedData("hatching"))
        .mark_rule(clip=True, color="white", strokeWidth=1.1, opacity=0.85, tooltip=None)
        .encode(x, y, alt.X2("t2"), alt.Y2("y2"))
    )
    edges = (
        alt.Chart(alt.NamedData("edges"))
        .mark_rule(clip=True, color=RED, strokeWidth=1.8)
        .encode(x, y, alt.Y2("y2"), tooltip=tooltip)
    )
    zoom = alt.selection_interval(bind="scales", encodings=["x"], name="zoom")
    heading = title(*_headings(run, shown))
    size = {"width": WIDTH, "height": round(shown.height * shown.row_pixels)}
    return alt.layer(bars, lines, edges).properties(title=heading, **size).add_params(zoom)


def _headings(run: Run, shown: View) -> tuple[str, str]:
    hosts = f"{len(shown.rows)} hosts, {shown.height} GPUs"
    if len(shown.rows) < shown.hosts_in_all:
        hosts = f"{len(shown.rows)} of {shown.hosts_in_all} hosts, {shown.height} GPUs"
    length = format_duration(shown.end - shown.start)
    return (
        f"Who held which GPU: {run.policy}, {hosts}, {length} from {clock(shown.start)} UTC",
        "a bar is an attempt, hue: team, shade: job; hatched: exposed (may be evicted); red edge: evicted",
    )


def _host_axis(shown: View) -> alt.Axis:
    """Host names at their first rows, written into the expression as JSON strings, which it reads the same."""
    names = {row: host for (_, host), row in shown.rows.items()}
    expression = f"{json.dumps({str(row): host for row, host in names.items()})}[datum.value]"
    return alt.Axis(
        values=list(names), labelExpr=expression, grid=True, gridColor="#666666", gridOpacity=0.25, tickSize=3,
        labelOverlap="greedy", labelBaseline="top", labelLimit=120, zindex=1,
    )  # fmt: skip
