"""The figures of a trace's file, read as a stream."""

from __future__ import annotations

from pathlib import Path

from tenure.core.model import DAY
from tenure.reports.catalogue import many
from tenure.reports.traces.records import TraceFigures
from tenure.sim.traces.describe import Describer, source_of
from tenure.sim.traces.files import Gauge
from tenure.sim.traces.options import Window
from tenure.sim.traces.records import Reading, TraceError
from tenure.sim.traces.select import bounds
from tenure.sim.traces.trace import named, read


def describe_file(
    path: Path,
    format: str | None = None,
    *,
    gpus: int | None = None,
    cut: str | None = None,
    gauge: Gauge | None = None,
) -> TraceFigures:
    """The figures of the trace at ``path``. It is read once, or where ``cut`` counts from the start of a trace with
    dates twice, since that start is known when all is read.

    ``cut``: only jobs submitted then, as ``Window.parse`` takes it. ``gauge`` hears how far reading is, and may break
    it off: the figures are then of what was read. Raises TraceError for what is no trace or has no job in the window,
    ValueError for a ``cut`` that cannot be read.
    """
    gauge = gauge or Gauge()
    window = None if cut is None else Window.parse(cut)
    zero = _origin(path, format, gauge) if window is not None and not window.dated else 0
    since = zero + window.start if window is not None and window.start is not None else None
    until = zero + window.end if window is not None and window.end is not None else None
    reading, describer = Reading(path=path.name), Describer()
    first, last, outside, files = None, 0, 0, 0
    for job in named(read(path, format, reading, gauge), reading):
        if len(reading.files) != files:
            files = len(reading.files)
            describer.next_file()
        at = job.submitted
        first, last = at if first is None else min(first, at), max(last, at)
        if (since is not None and at < since) or (until is not None and at >= until):
            outside += 1
        else:
            describer.add(job)
    if first is None:
        raise TraceError(f"{path}: {'broken off before the first job' if gauge.stopped else reading.nothing()}")
    origin = first // DAY * DAY if reading.dated else None
    start, end = bounds(window, origin, last - (origin or 0))
    if not describer.jobs:
        raise TraceError(f"{path}: no job was submitted in the window {cut}, and {many(outside, 'job')} outside of it")
    source = source_of(reading, complete=not gauge.stopped, cut=cut, outside=outside)
    zero = origin or 0
    return describer.figures(source, reading.dated, gpus, (zero + start, zero + end))


def _origin(path: Path, format: str | None, gauge: Gauge) -> int:
    """Midnight of the first day of a trace with dates, ms UTC, else 0."""
    if path.is_fifo():
        raise TraceError(f"{path}: a pipe is read once, and a window from the start of a trace takes two: give dates")
    reading = Reading()
    first: int | None = None
    for job in read(path, format, reading, gauge):
        if not reading.dated:
            return 0
        first = job.submitted if first is None else min(first, job.submitted)
    return (first or 0) // DAY * DAY
