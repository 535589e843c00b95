"""All pictures of a run, and pictures as PNG files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import altair as alt
import vl_convert

from tenure.reports.charts.delivery import delivered, ratios
from tenure.reports.charts.style import Picture, Spec
from tenure.reports.charts.supply import fragmentation, occupancy
from tenure.reports.charts.timeline import timeline
from tenure.reports.charts.waiting import distributions
from tenure.reports.records import Run

VL_VERSION = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""Of Vega-Lite: what the charts are written for, in web pages and in PNG files."""
PNG_SCALE = 2.0


def pictures(
    run: Run, window: tuple[int, int] | None = None, hosts: int | Sequence[str] | None = None
) -> Iterator[Picture]:
    """Those that have something to show. ``window`` (ms UTC) and ``hosts``: what the timeline shows.

    Raises ValueError for hosts that are not there and for an empty window.
    """
    found = (
        timeline(run, window, hosts),
        delivered(run),
        ratios(run),
        distributions(run),
        occupancy(run),
        fragmentation(run),
    )
    return (one for one in found if one is not None)


def png(spec: Spec) -> bytes:
    """The chart as it looks before anybody touches it. Fetches nothing."""
    return vl_convert.vegalite_to_png(spec, vl_version=VL_VERSION, scale=PNG_SCALE, allowed_base_urls=[])


def svg(spec: Spec) -> str:
    """The same as a drawing."""
    return vl_convert.vegalite_to_svg(spec, vl_version=VL_VERSION, allowed_base_urls=[])


def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed for a script element, so that a page needs no network."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VL_VERSION)
