"""The Standard Workload Format 2.2 (Feitelson, https://www.cs.huji.ac.il/labs/parallel/workload/swf.html).

A job is a line of 18 numbers, -1 where unknown; lines that start with ``;`` are comments, some of which say things
(``; UnixStartTime: 1041379200``). Logs in it are mostly of CPU clusters: processors are replayed as GPUs, as many as
were requested, or where that is unknown, allocated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tenure.core.model import SECOND
from tenure.sim.traces.files import Source
from tenure.sim.traces.records import BadRow, End, LeftOut, Reading, TraceJob
from tenure.sim.traces.rows import MAX_GPUS, MAX_TIME, Row, count, gpus_of, length, moment, parsed, ran

FIELDS = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time used",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user id",
    "group id",
    "executable number",
    "queue number",
    "partition number",
    "preceding job number",
    "think time",
)
_START = re.compile(r";\s*UnixStartTime:\s*(\d{1,12})\b", re.IGNORECASE)
_ENDS = {"-1": End.UNKNOWN, "0": End.FAILED, "1": End.COMPLETED, "5": End.CANCELLED}
_PARTIAL = ("2", "3", "4")
"""A job that was swapped or checkpointed has one line for the whole, and one of these for each part."""
_UNKNOWN = "-1"
_MANY = 10**12


@dataclass(slots=True)
class _Header:
    """``start``: the log's zero, ms UTC, once a comment has said it."""

    start: int = 0


def read_swf(sources: Iterable[Source], reading: Reading) -> Iterator[TraceJob]:
    """Never raises: a file of another kind has bad rows only."""
    for source in sources:
        reading.files.append(source.name)
        header = _Header()

        def parse(fields: dict[str, str], row: Row, header: _Header = header) -> TraceJob:
            return _job(fields, header.start)

        yield from parsed(source, reading, _rows(source, reading, header), parse)


def _rows(source: Source, reading: Reading, header: _Header) -> Iterator[Row]:
    for line, text in enumerate(source.lines, 1):
        if text.lstrip().startswith(";"):
            told = _START.match(text.strip())
            if told and 0 < int(told[1]) <= MAX_TIME:
                header.start, reading.dated = int(told[1]) * SECOND, True
        elif text.strip():
            values = text.split()
            yield Row(line, text, dict(zip(FIELDS, values, strict=True)) if len(values) == len(FIELDS) else None)


def _job(fields: dict[str, str], start: int) -> TraceJob:
    number = count(fields["job number"], "job number", _MANY)
    status = fields["status"]
    if status in _PARTIAL:
        raise LeftOut("a part of a job that has a line of its own")
    if status not in _ENDS:
        raise BadRow("status is unknown", status[:40])
    end = _ENDS[status]
    submitted = start + moment(fields["submit time"], "submit time")
    if fields["run time"] == _UNKNOWN:
        raise LeftOut("no run time")
    runtime = ran(length(fields["run time"], "run time"), end)
    processors = _known(fields, "requested processors") or _known(fields, "allocated processors") or 0
    limit = fields["requested time"]
    group, user = _known(fields, "group id"), _known(fields, "user id")
    queue = _known(fields, "queue number")
    team = f"group{group}" if group is not None else f"queue{queue}" if queue is not None else "all"
    return TraceJob(
        str(number),
        submitted,
        runtime,
        gpus_of(processors),
        team,
        f"user{user}" if user is not None else team,
        end,
        1 if end is End.FAILED else 0,
        None if limit == _UNKNOWN else length(limit, "requested time") or None,
        waited=_waited(fields["wait time"]),
    )


def _waited(text: str) -> int | None:
    """A wait in ms; None where it is unknown or no number: no replay needs it, so a row is not bad for that."""
    try:
        return length(text, "wait time")
    except BadRow:
        return None


def _known(fields: dict[str, str], name: str) -> int | None:
    value = count(fields[name], name, MAX_GPUS if "processors" in name else _MANY, least=-1)
    return None if value < 0 else value
