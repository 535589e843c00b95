"""What the GPUs did over time: occupancy by kind, and fragmentation."""

from __future__ import annotations

from typing import Any

import altair as alt

from tenure.core.model import GPU
from tenure.reports.charts.style import (
    BLUE,
    GREY,
    ORANGE,
    PALE,
    SKY,
    VERMILION,
    WIDTH,
    Datum,
    Picture,
    bucket_length,
    buckets,
    clock,
    measured_hours,
    picture,
    time_axis,
    title,
)
from tenure.reports.metrics import Supply
from tenure.reports.records import Run
from tenure.units import format_duration

KINDS = {
    "funded": BLUE,
    "unfunded": SKY,
    "withheld by a rule": ORANGE,
    "unusable by who waits": VERMILION,
    "idle": PALE,
    "not healthy": GREY,
}
"""From the bottom to the top."""
LEFT_OVER = {"unusable by who waits": VERMILION, "withheld by a rule": ORANGE}
MANY_STEPS, FEW_STEPS = 360, 120
"""In time, of one series. Longer ones are averaged."""
HEIGHT = 260


def occupancy(run: Run) -> Picture | None:
    """GPUs by what they did, stacked, a panel per cluster."""
    points: list[Datum] = []
    for cluster, supplied in _steps(run, MANY_STEPS).items():
        for at, (supply, length) in supplied.items():
            parts = (supply.funded, supply.unfunded, supply.withheld, supply.unusable)
            idle = max(0, supply.healthy - sum(parts))
            for order, (kind, amount) in enumerate(
                zip(KINDS, (*parts, idle, supply.declared - supply.healthy), strict=True)
            ):
                gpus = round(amount / (GPU * length), 2)
                points.append({"cluster": cluster, "t": at, "at": clock(at), "kind": kind, "n": order, "gpus": gpus})
    _close(points, run.until)
    if not points:
        return None
    encoded = alt.Chart().mark_area(interpolate="step-after", line=False)
    area = encoded.encode(
        time_axis(),
        alt.Y("gpus:Q", title="GPUs", stack="zero"),
        alt.Color("kind:N", title=None, scale=alt.Scale(domain=list(KINDS), range=list(KINDS.values()))),
        alt.Order("n:Q"),
        tooltip=[alt.Tooltip("at:N", title="UTC"), alt.Tooltip("kind:N"), alt.Tooltip("gpus:Q", format=".1f")],
    )
    heading = title("What the GPUs did", _each(run, MANY_STEPS))
    text = (
        "Funded work is paid for by a budget; unfunded work runs on what is left over. Withheld: free GPUs that a rule "
        "kept from jobs which would have fitted. Unusable: free GPUs, while somebody waited, that nobody could use."
    )
    return picture("occupancy", "Occupancy by kind", text, _per_cluster(run, area, heading), {"points": points})


def fragmentation(run: Run) -> Picture | None:
    """Free GPUs that waiting jobs did not get, in percent of the healthy ones."""
    points: list[Datum] = []
    for cluster, supplied in _steps(run, FEW_STEPS).items():
        for at, (supply, _) in supplied.items():
            for kind, amount in zip(LEFT_OVER, (supply.unusable, supply.withheld), strict=True):
                part = round(100 * amount / supply.healthy, 3) if supply.healthy else 0
                points.append({"cluster": cluster, "t": at, "at": clock(at), "kind": kind, "percent": part})
    _close(points, run.until)
    if not points:
        return None
    area = (
        alt.Chart()
        .mark_area(interpolate="step-after")
        .encode(
            time_axis(),
            alt.Y("percent:Q", title="% of the healthy GPUs", stack="zero"),
            alt.Color("kind:N", title=None, scale=alt.Scale(domain=list(LEFT_OVER), range=list(LEFT_OVER.values()))),
            tooltip=[alt.Tooltip("at:N", title="UTC"), alt.Tooltip("kind:N"), alt.Tooltip("percent:Q", format=".2f")],
        )
    )
    heading = title("Free GPUs while jobs waited", _each(run, FEW_STEPS))
    text = (
        "Unusable: too scattered, or the wrong hosts, for every job that waited. Withheld: jobs would have fitted, but "
        "a rule of the policy, such as a cap, kept the GPUs idle."
    )
    return picture("fragmentation", "Fragmentation", text, _per_cluster(run, area, heading), {"points": points})


def _steps(run: Run, most: int) -> dict[str, dict[int, tuple[Supply, int]]]:
    """Cluster -> start of a step -> sums over its hours, and its length."""
    found: dict[str, dict[int, tuple[Supply, int]]] = {}
    for cluster, hours in measured_hours(run).items():
        found[cluster] = {}
        for at, rows in buckets(run, hours, most).items():
            supply = Supply()
            for row in rows:
                supply.book(row)
            found[cluster][at] = (supply, sum(row.length for row in rows))
    return found


def _close(points: list[Datum], until: int) -> None:
    """Let the last step of each cluster and kind last until the end."""
    last = {(point["cluster"], point["kind"]): point for point in points}
    points.extend(point | {"t": until, "at": clock(until)} for point in last.values())


def _each(run: Run, most: int) -> str:
    return f"{run.policy}; average of every {format_duration(bucket_length(run, most))} after the warm-up"


def _per_cluster(run: Run, chart: alt.Chart, heading: alt.TitleParams) -> Any:
    """One wide panel for each cluster, below each other."""
    data = alt.NamedData("points")
    if len(run.hosts) == 1:
        return chart.properties(data=data, width=WIDTH, height=HEIGHT, title=heading)
    height = max(110, HEIGHT // len(run.hosts))
    panels = chart.properties(width=WIDTH, height=height)
    row = alt.Facet("cluster:N", title=None, sort=list(run.hosts))
    return panels.facet(facet=row, columns=1, data=data).resolve_scale(y="independent").properties(title=heading)
