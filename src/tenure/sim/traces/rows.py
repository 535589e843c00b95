"""What the readers share: rows of CSV files, and values with their bounds. Values that are not so raise BadRow."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, isfinite

from tenure.core.model import SECOND
from tenure.sim.traces.files import Source
from tenure.sim.traces.records import BadRow, End, LeftOut, Reading, TraceError, TraceJob

MAX_TIME = 4_102_444_800
"""Seconds since 1970, or from the trace's zero: the year 2100."""
MAX_SECONDS = 10 * 366 * 86_400
"""No job runs for longer than ten years."""
MAX_GPUS = 1_000_000
NEVER_RAN = "never ran"
NO_GPUS = "no GPUs"
UNASKED = "no GPUs were asked for, but some allocated: taken as asked for"
IN_PARTS = "GPUs in parts: rounded up to whole ones"
NO_END = "no end is known"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table, ``fields`` by column; None when it is no CSV at all."""

    line: int
    text: str
    fields: dict[str, str] | None


def csv_rows(source: Source, needed: Iterable[str]) -> Iterator[Row]:
    """The rows below the header. Raises TraceError when there is no header with the ``needed`` columns.

    A row is a line, so that a stray quote costs one row and not all that follow: no format has line breaks in fields.
    """
    lines = ((number, line) for number, line in enumerate(source.lines, 1) if line.strip("\r\n"))
    first = next(lines, (0, ""))[1]
    header = _cells(first) or []
    missing = [name for name in needed if name not in header]
    if missing:
        raise TraceError(f"{source.name}: no column {', '.join(missing)} in its header {first.strip()[:200]!r}")
    for number, line in lines:
        cells = _cells(line)
        fields = dict(zip(header, cells, strict=True)) if cells is not None and len(cells) == len(header) else None
        yield Row(number, line, fields)


def bare_rows(source: Source, columns: tuple[str, ...]) -> Iterator[Row]:
    """The rows of a file without a header; one that repeats the names of the columns is taken for that, and is none."""
    for number, line in enumerate(source.lines, 1):
        if line.strip("\r\n"):
            cells = _cells(line)
            if cells is None or len(cells) != len(columns):
                yield Row(number, line, None)
            elif tuple(cells) != columns:
                yield Row(number, line, dict(zip(columns, cells, strict=True)))


def _cells(line: str) -> list[str] | None:
    """The cells of a line; None when it is no CSV, such as one with a quote that does not end."""
    try:
        return next(csv.reader((line,), strict=True), [])
    except csv.Error:
        return None


def parsed(
    source: Source, reading: Reading, rows: Iterable[Row], parse: Callable[[dict[str, str], Row], TraceJob]
) -> Iterator[TraceJob]:
    """Jobs of rows, each row accounted for."""
    for row in rows:
        reading.rows += 1
        try:
            if row.fields is None:
                raise BadRow("wrong number of fields")
            job = parse(row.fields, row)
        except LeftOut as why:
            reading.left_out[why.reason] += 1
        except BadRow as bad:
            reading.reject(source.name, row.line, row.text, bad)
        else:
            reading.kept += 1
            yield job


def number(text: str, what: str, most: int, least: int = 0) -> float:
    """A number from ``least`` to ``most``."""
    try:
        value = float(text)
    except ValueError:
        raise BadRow(f"{what} is not a number", text[:40]) from None
    if not isfinite(value) or not least <= value <= most:
        raise BadRow(f"{what} is out of range", f"{text[:40]}, not within {least} to {most}")
    return value


def count(text: str, what: str, most: int, least: int = 0) -> int:
    """A whole number from ``least`` to ``most``."""
    value = number(text, what, most, least)
    if value != int(value):
        raise BadRow(f"{what} is not a whole number", text[:40])
    return int(value)


def moment(text: str, what: str) -> int:
    """Seconds, as a number: since 1970 or from the trace's zero. Gives ms; parts of a second are cut off."""
    return int(number(text, what, MAX_TIME)) * SECOND


def length(text: str, what: str) -> int:
    """A duration in seconds, as a number. Gives ms; parts of a second count whole."""
    return ceil(number(text, what, MAX_SECONDS)) * SECOND


def date(text: str, what: str) -> int:
    """An ISO time in ms UTC. Without a zone it is taken as UTC: traces do not say which zone they mean."""
    try:
        value = datetime.fromisoformat(text)
        if value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        seconds = int(value.timestamp())
    except (ValueError, OverflowError):
        raise BadRow(f"{what} is not a time", text[:40]) from None
    if not 0 <= seconds <= MAX_TIME:
        raise BadRow(f"{what} is out of range", text[:40])
    return seconds * SECOND


def between(started: int, ended: int, names: tuple[str, str]) -> int:
    """From one time to the other, ms. ``names``: what they are called. Raises BadRow when that is no runtime."""
    if ended < started:
        raise BadRow(f"{names[1]} is before {names[0]}")
    if ended - started > MAX_SECONDS * SECOND:
        raise BadRow("runtime is out of range", f"{names[0]} to {names[1]}")
    return ended - started


def gpus_of(value: int) -> int:
    """A job's GPUs. Raises LeftOut without any, and BadRow out of bounds."""
    if value == 0:
        raise LeftOut(NO_GPUS)
    if not 0 < value <= MAX_GPUS:
        raise BadRow("GPUs are out of range", str(value))
    return value


def ran(runtime: int, end: End) -> int:
    """A job's runtime. What ended by itself within its first second ran for one; others never did: raises LeftOut."""
    if runtime > 0:
        return runtime
    if end in (End.COMPLETED, End.FAILED):
        return SECOND
    raise LeftOut(NEVER_RAN)
