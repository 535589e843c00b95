"""Variants side by side: a dot per seed, a tick at the median, a panel per figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from tenure.reports.catalogue import EACH, SECONDS, SHARE, Figure, written
from tenure.reports.charts.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Datum,
    Picture,
    picture,
    title,
)
from tenure.reports.charts.waiting import TICKS
from tenure.reports.differences import FIGURES, Variant

COLOURS = (BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE, GREY)
GROUPS = {
    "shares": ("Delivery, occupancy and losses", "%", SHARE),
    "waits": ("Waits", "to the start or the decision; under a second is at the left edge", SECONDS),
    "evictions": ("Evictions and demand", "for each job; times supply", EACH),
}
COLUMNS = 3
PANEL_WIDTH = 260
ROW_HEIGHT = 22


def comparison_pictures(variants: Sequence[Variant]) -> list[Picture]:
    """One picture per unit, of those figures that have any value."""
    found = []
    for name, (heading, subtitle, unit) in GROUPS.items():
        figures = [f for f in FIGURES if f.unit == unit and any(v.values(f) for v in variants)]
        if figures:
            heads = title(heading, f"{subtitle}; a dot per seed, a tick at the median")
            found.append(_picture(name, heads, unit, figures, variants))
    return found


def _picture(
    name: str, heading: alt.TitleParams, unit: str, figures: Sequence[Figure], variants: Sequence[Variant]
) -> Picture:
    points: list[Datum] = []
    for variant in variants:
        for figure in figures:
            for seed, value in variant.values(figure).items():
                shown = 100 * value if unit == SHARE else max(1.0, value) if unit == SECONDS else value
                told = {"seed": str(seed), "told": written(value, unit)}
                points.append({"panel": figure.label, "variant": variant.label, "value": round(shown, 4), **told})
    chart = _dots(
        [v.label for v in variants], [figure.label for figure in figures], unit, max(p["value"] for p in points)
    )
    text = "Each dot is one run. Where the dots of two variants overlap, chance may be all that differs."
    return picture(name, heading.text, text, chart.properties(title=heading), {"points": points})


def _dots(labels: list[str], panels: list[str], unit: str, most: float) -> Any:
    scale, axis = alt.Scale(zero=False, nice=True), alt.Axis(tickCount=5)
    if unit == SECONDS:
        expression = " : ".join(f"datum.value == {at} ? '{label}'" for at, label in TICKS.items()) + " : ''"
        scale = alt.Scale(type="log", domain=[1, max(2.0, most)], nice=False)
        axis = alt.Axis(values=list(TICKS), labelExpr=expression, labelOverlap=True)
    x = alt.X("value:Q", title=None, scale=scale, axis=axis)
    y = alt.Y("variant:N", title=None, sort=labels, axis=alt.Axis(labelLimit=220))
    hues = [COLOURS[i % len(COLOURS)] for i in range(len(labels))]
    colour = alt.Color("variant:N", scale=alt.Scale(domain=labels, range=hues), legend=None)
    tips = [alt.Tooltip("variant:N"), alt.Tooltip("seed:N"), alt.Tooltip("told:N", title="value")]
    dots = alt.Chart().mark_circle(size=46, opacity=0.75).encode(x, y, colour, tooltip=tips)
    middle = alt.Chart().mark_tick(thickness=2, size=16, color="black")
    medians = middle.encode(alt.X("median(value):Q", title=None, scale=scale, axis=axis), y)
    layered = alt.layer(dots, medians, data=alt.NamedData("points"))
    layered = layered.properties(width=PANEL_WIDTH, height=max(40, ROW_HEIGHT * len(labels)))
    facet = alt.Facet("panel:N", title=None, sort=panels, header=alt.Header(labelLimit=PANEL_WIDTH + 60))
    chart = layered.facet(facet=facet, columns=COLUMNS)
    chart = chart.resolve_axis(x="independent")
    return chart if unit == SECONDS else chart.resolve_scale(x="independent")
