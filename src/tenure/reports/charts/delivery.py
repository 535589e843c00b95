"""Delivered against owed, and the usage ratio, of each budget over time."""

from __future__ import annotations

from typing import Any

import altair as alt

from tenure.core.model import HOUR
from tenure.reports.charts.style import (
    BLUE,
    COLUMNS,
    MOST_PANELS,
    ORANGE,
    PANEL_HEIGHT,
    PANEL_WIDTH,
    Datum,
    Picture,
    bucket_length,
    clock,
    picture,
    short,
    time_axis,
    title,
)
from tenure.reports.owed import Account, measured_from, standings
from tenure.reports.records import BudgetHourRow, Run, hours

STEPS = 90
TOP_RATIO = 2.5
OWED, DELIVERED = "owed", "delivered"
LOOKBACK, LAST_DAY = "over the lookback", "over the last day"


def delivered(run: Run) -> Picture | None:
    """Cumulative GPU-hours, owed and delivered, for those budgets that were owed any."""
    accounts = standings(run).owed()
    shown = sorted(accounts, key=lambda budget: (accounts[budget].within / accounts[budget].owed, budget))[:MOST_PANELS]
    if not shown:
        return None
    panels = {budget: _panel_name(budget, accounts[budget]) for budget in sorted(shown)}
    chart = _panels(
        list(panels.values()),
        alt.Y("gpu_hours:Q", title=None, axis=alt.Axis(format="~s", tickCount=4)),
        {OWED: "#666666", DELIVERED: BLUE},
        [alt.Tooltip("gpu_hours:Q", title="GPU-hours", format=",.0f")],
    )
    which = _which(len(accounts), "budgets that were owed anything")
    chart = chart.properties(
        title=title("GPU time delivered against owed, per budget", f"{run.policy}; GPU-hours, cumulative; {which}")
    )
    text = (
        "Cumulative since the end of the warm-up. Where the solid line is below the dashed one, the budget got less "
        "than it was owed so far. Above a panel: the part of what was owed that was delivered in the end."
    )
    rows = _cumulative(run, panels)
    return picture("delivered", "Delivered against owed", text, chart, {"points": rows})


def ratios(run: Run) -> Picture | None:
    """The usage ratio over the lookback and over the last day, per budget and cluster."""
    since = measured_from(run)
    series: dict[tuple[str, str], list[BudgetHourRow]] = {}
    for row in sorted(run.budget_hours, key=lambda row: row.start):
        if row.start >= since and row.ratio_ppm >= 0:
            series.setdefault((row.budget, row.cluster), []).append(row)
    used = {key: rows for key, rows in series.items() if any(row.ratio_ppm or row.demand for row in rows)}
    if not used:
        return None
    shown = sorted(sorted(used, key=lambda key: (used[key][-1].ratio_ppm, key))[:MOST_PANELS])
    several = len(run.hosts) > 1
    panels = {key: f"{short(key[0])} on {key[1]}" if several else short(key[0]) for key in shown}
    points = [point for key in shown for point in _ratio_points(run, panels[key], used[key])]
    chart = _panels(
        list(panels.values()),
        alt.Y("ratio:Q", title=None, scale=alt.Scale(domain=[0, TOP_RATIO], clamp=True)),
        {LAST_DAY: ORANGE, LOOKBACK: BLUE},
        [alt.Tooltip("ratio:Q", title="usage ratio", format=".2f")],
        level=1.0,
    )
    which = _which(len(used), "budgets in use")
    heading = title(
        "Usage ratio of each budget", f"{run.policy}; 1 = its allocation; above {TOP_RATIO} cut off; {which}"
    )
    used_up = "used and was promised" if run.policy == "budgets" else "was delivered"
    text = (
        f"What a budget {used_up}, over what it was entitled to: 1 is just what was budgeted, below it is under-served"
        f"{' and comes first' if run.policy == 'budgets' else ''}."
    )
    return picture("ratios", "Usage ratio", text, chart.properties(title=heading), {"points": points})


def _which(count: int, what: str) -> str:
    return f"all {count} {what}" if count <= MOST_PANELS else f"the lowest {MOST_PANELS} of {count} {what}"


def _panel_name(budget: str, account: Account) -> str:
    return f"{short(budget)}: {100 * account.within / account.owed:.1f} %"


def _panels(
    names: list[str], y: alt.Y, lines: dict[str, str], tips: list[alt.Tooltip], level: float | None = None
) -> Any:
    """Small charts, one for each name, of the dataset ``points``: ``lines`` (field ``what`` -> colour) over time.

    The first of the lines is dashed. ``level``: where a thin line is drawn across, or None.
    """
    colour = alt.Scale(domain=list(lines), range=list(lines.values()))
    dash = alt.Scale(domain=list(lines), range=[[4, 3], [1, 0]])
    tooltip = [alt.Tooltip("panel:N", title="budget"), alt.Tooltip("what:N"), alt.Tooltip("at:N", title="UTC"), *tips]
    drawn = (
        alt.Chart()
        .mark_line(strokeWidth=1.6)
        .encode(
            time_axis(tickCount=4),
            y,
            alt.Color("what:N", title=None, scale=colour, legend=alt.Legend(orient="top")),
            alt.StrokeDash("what:N", title=None, scale=dash),
            tooltip=tooltip,
        )
    )
    # The library's own headings of panels stand unevenly when the axes differ.
    name = alt.Chart().transform_aggregate(count="count()", groupby=["panel"])
    name = name.mark_text(align="left", baseline="bottom", fontWeight="bold", dy=-5, limit=PANEL_WIDTH + 20)
    layers = [drawn, name.encode(text="panel:N", x=alt.value(0), y=alt.value(0))]
    if level is not None:
        layers.insert(0, alt.Chart().mark_rule(color="#444444", strokeWidth=0.8).encode(y=alt.datum(level)))
    layered = alt.layer(*layers, data=alt.NamedData("points")).properties(width=PANEL_WIDTH, height=PANEL_HEIGHT)
    facet = alt.Facet(
        "panel:N", title=None, sort=names, header=alt.Header(labelExpr="''", labelPadding=0, labelFontSize=0)
    )
    chart = layered.facet(facet=facet, columns=COLUMNS, bounds="flush", spacing={"row": 52, "column": 38})
    chart = chart.resolve_axis(x="independent", y="independent")
    return chart if level is not None else chart.resolve_scale(y="independent")


def _cumulative(run: Run, panels: dict[str, str]) -> list[Datum]:
    since, step = measured_from(run), bucket_length(run, STEPS)
    sums: dict[str, dict[int, list[int]]] = {budget: {} for budget in panels}
    for row in run.budget_hours:
        if row.start >= since and row.budget in panels:
            end = since + -(-(row.start + row.length - since) // step) * step
            found = sums[row.budget].setdefault(min(end, run.until), [0, 0])
            found[0] += min(row.entitled, row.demand)
            found[1] += row.delivered
    points: list[Datum] = []
    for budget, panel in panels.items():
        total = [0, 0]
        for at, found in [(since, [0, 0]), *sorted(sums[budget].items())]:
            total = [a + b for a, b in zip(total, found, strict=True)]
            for what, amount in zip((OWED, DELIVERED), total, strict=True):
                points.append({"panel": panel, "t": at, "at": clock(at), "what": what, "gpu_hours": _rounded(amount)})
    return points


def _rounded(amount: int) -> float:
    return round(hours(amount), 2)


def _ratio_points(run: Run, panel: str, rows: list[BudgetHourRow]) -> list[Datum]:
    """The state at the end of every so many hours."""
    every = bucket_length(run, STEPS) // HOUR
    points: list[Datum] = []
    for row in [*rows[every - 1 :: every]] or rows[-1:]:
        at = row.start + row.length
        for what, ppm in ((LOOKBACK, row.ratio_ppm), (LAST_DAY, row.recent_ppm)):
            if ppm >= 0:
                points.append({"panel": panel, "t": at, "at": clock(at), "what": what, "ratio": round(ppm / 1e6, 4)})
    return points
