"""A budget's statement as a picture: the days of the window by person, and the balance in the days to come."""

from __future__ import annotations

from typing import Any

import altair as alt

from tenure.api.balance_models import BalanceView, StatementView
from tenure.reports.charts.style import (
    BLUE,
    GREY,
    ORANGE,
    OTHER_TEAMS,
    RED,
    TEAMS,
    Datum,
    Spec,
    clock,
    picture,
    time_axis,
)
from tenure.units import format_duration, format_time

_WIDTH, _HEIGHT = 760, 240
_OTHERS = "others"
_LEFT, _GOING_ON, _BACK = "left, if it ends with its protection", "left, if what runs goes on", "comes back by then"
_LINES = {_LEFT: BLUE, _GOING_ON: ORANGE, _BACK: GREY}


def chart(view: BalanceView) -> Spec:
    """The Vega-Lite specification, two panels for each cluster. Times are shown in UTC."""
    panels: list[Any] = []
    rows: dict[str, list[Datum]] = {"zero": [{"y": 0}]}
    for i, (cluster, one) in enumerate(view.clusters.items()):
        named = f"{view.path} on {cluster}"
        rows |= {f"used{i}": _used(one), f"owed{i}": _owed(one), f"points{i}": _points(one)}
        panels.append(_days(one, i, named, view.lookback_ms))
        panels.append(_curve(i, view))
    whole = alt.vconcat(*panels, spacing=24).resolve_scale(color="independent", x="independent")
    return picture("balance", "Balance", "", whole, rows).spec


def _heading(text: str, more: str) -> alt.TitleParams:
    """A title that begins where the panel does."""
    return alt.TitleParams(text, subtitle=more, frame="group")


def _day_of(at: int) -> str:
    return format_time(at)[5:16].replace("T", " ")


def _people(one: StatementView) -> list[str]:
    """Those who used most by name, as many as colours tell apart, then all others as one."""
    used: dict[str, float] = {}
    for day in one.days:
        for user, hours in day.people.items():
            used[user] = used.get(user, 0) + hours
    most = sorted(used, key=lambda user: (-used[user], user))
    return most if len(most) <= len(TEAMS) else [*most[: len(TEAMS) - 1], _OTHERS]


def _used(one: StatementView) -> list[Datum]:
    known = _people(one)
    found: list[Datum] = []
    for day in one.days:
        sums = dict.fromkeys(known, 0.0)
        for user, hours in day.people.items():
            sums[user if user in sums else _OTHERS] += hours
        found += [
            {"day": _day_of(day.start), "who": user, "n": known.index(user), "hours": round(hours, 3)}
            for user, hours in sums.items()
        ]
    return found


def _owed(one: StatementView) -> list[Datum]:
    return [{"day": _day_of(day.start), "hours": round(day.entitled_gpu_hours, 3)} for day in one.days]


def _points(one: StatementView) -> list[Datum]:
    found: list[Datum] = []
    for point in one.points:
        of = {
            _LEFT: point.left_gpu_hours,
            _GOING_ON: point.left_going_on_gpu_hours,
            _BACK: point.back_gpu_hours,
        }
        found += [{"t": point.at, "line": line, "hours": round(hours, 3)} for line, hours in of.items()]
    return found


def _days(one: StatementView, number: int, named: str, lookback: int) -> Any:
    known = _people(one)
    colours = [OTHER_TEAMS if user == _OTHERS else TEAMS[i] for i, user in enumerate(known)]
    days = alt.X("day:N", title=None, sort=None, axis=alt.Axis(labelAngle=0))
    bars = (
        alt.Chart(alt.NamedData(f"used{number}"))
        .mark_bar(size=44)
        .encode(
            days,
            alt.Y("hours:Q", title="GPU-hours", stack="zero"),
            alt.Color("who:N", title=None, scale=alt.Scale(domain=known, range=colours)),
            alt.Order("n:Q"),
        )
    )
    owed = (
        alt.Chart(alt.NamedData(f"owed{number}"))
        .mark_tick(color=RED, thickness=3, width=72)
        .encode(days, alt.Y("hours:Q", stack=None))
    )
    length = format_duration(one.days[0].end - one.days[0].start) if one.days else ""
    what = f"Charged in the last {format_duration(lookback)}, {length} a bar from the time below it (UTC), by person"
    heading = _heading(named, f"{what}; the red line is what was owed")
    return (bars + owed).properties(width=_WIDTH, height=_HEIGHT, title=heading)


def _curve(number: int, view: BalanceView) -> Any:
    lines = (
        alt.Chart(alt.NamedData(f"points{number}"))
        .mark_line(strokeWidth=2)
        .encode(
            time_axis(),
            alt.Y("hours:Q", title="GPU-hours"),
            alt.Color("line:N", title=None, scale=alt.Scale(domain=list(_LINES), range=list(_LINES.values()))),
            alt.StrokeDash(
                "line:N", title=None, scale=alt.Scale(domain=list(_LINES), range=[[1, 0], [6, 3], [2, 3]]), legend=None
            ),
        )
    )
    zero = alt.Chart(alt.NamedData("zero")).mark_rule(color=RED).encode(alt.Y("y:Q"))
    heading = _heading(
        f"If nothing new is charged, from {clock(view.at)} on",
        "What comes back as old usage leaves the window, and what is left; below the red line it is over",
    )
    return (zero + lines).properties(width=_WIDTH, height=_HEIGHT, title=heading)
