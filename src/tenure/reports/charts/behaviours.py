"""What behaviours gain or lose, a panel for each policy; and what people come to do who learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt

from tenure.reports.behaviours import CHANCE, HONEST, Behaviours, middle, values
from tenure.reports.charts.style import GREY, MORE_TEAMS, PALE, TEAMS, VERMILION, Datum, Picture, picture, title

PANEL = 240
ROW = 22


def behaviour_pictures(found: Behaviours) -> list[Picture]:
    """Those for which there is anything."""
    return [
        *([_gains(found)] if any(values(pairs, "gamers_served") for pairs in found.pairs.values()) else ()),
        *([_drift(found)] if found.learnt else ()),
    ]


def _gains(found: Behaviours) -> Picture:
    points: list[Datum] = [
        {"policy": policy, "behaviour": name, "seed": str(pair["seed"]), "gain": round(100 * pair["gamers_served"], 3)}
        for (policy, name), pairs in found.pairs.items()
        for pair in pairs
        if pair["gamers_served"] is not None
    ]
    bands: list[Datum] = []
    for policy in found.policies:
        late = values(found.late(policy), "gamers_served")
        if late:
            far = round(100 * max(map(abs, late)), 3)
            bands.append({"policy": policy, "low": -far, "high": far})
    heads = title(
        "What behaviours gain or lose those who do them", "useful work per GPU-hour asked for, %; a dot a seed"
    )
    names = [name for name in found.behaviours if any(point["behaviour"] == name for point in points)]
    # One data set for all layers of a facet: each takes its own rows.
    rows = [{**point, "kind": "point"} for point in points] + [{**band, "kind": "band"} for band in bands]
    band = alt.Chart().transform_filter("datum.kind == 'band'").mark_rect(color=PALE, opacity=0.8)
    band = band.encode(alt.X("low:Q", title="%"), alt.X2("high:Q"))
    y = alt.Y("behaviour:N", title=None, sort=names, axis=alt.Axis(labelLimit=160))
    tips = [alt.Tooltip(f"{key}:{kind}") for key, kind in (("behaviour", "N"), ("seed", "N"), ("gain", "Q"))]
    only = alt.Chart().transform_filter("datum.kind == 'point'")
    dots = only.mark_circle(size=50, opacity=0.8).encode(
        alt.X("gain:Q", title="%"),
        y,
        color=alt.condition(f"datum.behaviour == '{CHANCE}'", alt.value(GREY), alt.value(VERMILION)),
        tooltip=tips,
    )
    layered = alt.layer(band, dots, data=alt.NamedData("rows")).properties(width=PANEL, height=ROW * len(names))
    facet = alt.Facet("policy:N", title=None, sort=found.policies)
    chart = layered.facet(facet=facet, columns=3).properties(title=heads)
    text = "Grey: as far as submitting a minute late moves it, which is chance. A dot inside of it says nothing."
    return picture("gains", heads.text, text, chart, {"rows": rows})


def _drift(found: Behaviours) -> Picture:
    rows: list[Datum] = []
    names: dict[str, None] = {}
    for policy, worlds in found.learnt.items():
        days = min(len(world.drift) for world in worlds)
        for day in range(days):
            people: Mapping[str, float] = middle([world.drift[day] for world in worlds])
            names |= dict.fromkeys(people)
            total = sum(people.values())
            rows += [
                {"policy": policy, "day": day, "behaviour": name, "share": round(100 * count / total, 3)}
                for name, count in people.items()
            ]
    hues = dict(zip([name for name in names if name != HONEST], (*TEAMS, *MORE_TEAMS), strict=False))
    colour = alt.Color("behaviour:N", title=None, scale=alt.Scale(domain=[*hues, HONEST], range=[*hues.values(), GREY]))
    heads = title("What people come to do who learn what pays", "% of all people, the mean over seeds")
    tips: list[Any] = [alt.Tooltip(f"{key}:N") for key in ("policy", "behaviour", "day", "share")]
    lines = alt.Chart(alt.NamedData("rows")).mark_line(strokeWidth=2)
    lines = lines.encode(
        alt.X("day:Q", title="day", axis=alt.Axis(tickMinStep=1)), alt.Y("share:Q", title="%"), colour, tooltip=tips
    )
    panels = lines.properties(width=PANEL, height=180).facet(
        facet=alt.Facet("policy:N", title=None, sort=list(found.learnt)), columns=3
    )
    text = "Whoever sees that colleagues get more for what they ask does as they do; a few try something at random."
    return picture("drift", heads.text, text, panels.properties(title=heads), {"rows": rows})
