"""The picture of docs/experiments.md: what shorter waits of large gangs cost, a point for each variant."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

Row = dict[str, Any]
HOUR = 3600
ACROSS = ("gangs of 128 GPUs and more: wait at p90, hours", "large_wait_p90_s", HOUR)
PANELS = (
    ("mid-size jobs: wait at p99, hours", "mid_wait_p99_s", HOUR),
    ("debug jobs: wait at p90, seconds", "debug_wait_p90_s", 1),
    ("time lost, % of all", "lost_share", 0.01),
)
"""Title, figure and unit of what is set against ``ACROSS``: left and below is better everywhere."""


def draw(variants: Mapping[str, Sequence[Row]], to: Path) -> None:
    """A PNG with a panel for each figure: the median of the seeds, and their range as bars."""
    charts = [_panel(variants, title, key, unit) for title, key, unit in PANELS]
    picture = alt.hconcat(*charts).resolve_scale(color="shared", shape="shared").configure(background="white")
    to.write_bytes(vl_convert.vegalite_to_png(picture.to_json(), scale=2))


def _panel(variants: Mapping[str, Sequence[Row]], title: str, key: str, unit: float) -> alt.LayerChart | alt.FacetChart:
    across, of, per = ACROSS
    points = []
    for name, rows in variants.items():
        both = [(row[of] / per, row[key] / unit) for row in rows if row.get(of) is not None and row[key] is not None]
        if both:
            xs, ys = zip(*both, strict=True)
            points.append(
                {"variant": f"{name} ({len(both)})", "x": statistics.median(xs), "y": statistics.median(ys)}
                | {"x0": min(xs), "x1": max(xs), "y0": min(ys), "y1": max(ys)}
            )
    base = alt.Chart(alt.InlineData(values=points)).encode(
        color=alt.Color("variant:N", title="variant (seeds)", scale=alt.Scale(scheme="tableau20")),
    )
    x = alt.X("x:Q", title=across, scale=alt.Scale(zero=True))
    y = alt.Y("y:Q", title=title, scale=alt.Scale(zero=True))
    middle = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=x, y=y, shape=alt.Shape("variant:N", title="variant (seeds)")
    )
    bars = base.mark_rule(opacity=0.6)
    across_bars = bars.encode(x=alt.X("x0:Q"), x2="x1:Q", y=y)
    up_bars = bars.encode(x=x, y=alt.Y("y0:Q"), y2="y1:Q")
    return alt.layer(across_bars, up_bars, middle).properties(width=300, height=300)
