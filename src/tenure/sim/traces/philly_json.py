"""The Microsoft Philly trace (Jeon et al., ATC 2019) as published: ``cluster_job_log`` of msr-fiddle/philly-traces.

One array of jobs in JSON, each with the attempts that were made at it, and the GPUs of each attempt. A job ran for as
long as its attempts together, with the GPUs of the first, as the authors count them. The virtual cluster is the team.
Times have no zone (elsewhere in the trace they are Pacific): taken as UTC.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from tenure.core.model import SECOND
from tenure.sim.traces.files import Source
from tenure.sim.traces.json_array import elements
from tenure.sim.traces.records import BadRow, End, LeftOut, Reading, TraceJob
from tenure.sim.traces.rows import MAX_SECONDS, NEVER_RAN, between, date, gpus_of, ran

KEYS = ("jobid", "attempts")
"""One of these is near the start of the file."""
_ENDS = {"Pass": End.COMPLETED, "Failed": End.FAILED, "Killed": End.CANCELLED}
_STILL_RUNNING = "still running when the log was taken: nobody knows for how long"
_AGAIN = "several attempts: it ran for as long as they did together"
_LOST = "an attempt without a start or an end: not counted"
_OTHER_GPUS = "attempts with different numbers of GPUs: those of the first count"


def read_philly_json(sources: Iterable[Source], reading: Reading) -> Iterator[TraceJob]:
    """Raises TraceError for a file that is no array in JSON, is broken, or ends too early."""
    reading.dated = True
    for source in sources:
        reading.files.append(source.name)
        for line, entry in elements(source):
            reading.rows += 1
            try:
                job = _job(entry, reading)
            except LeftOut as why:
                reading.left_out[why.reason] += 1
            except BadRow as bad:
                reading.reject(source.name, line, json.dumps(entry), bad)
            else:
                reading.kept += 1
                yield job


def _job(entry: object, reading: Reading) -> TraceJob:
    if not isinstance(entry, dict):
        raise BadRow("not an object")
    status = _text(entry, "status")
    if status not in _ENDS:
        raise BadRow("status is unknown", status[:40])
    end = _ENDS[status]
    submitted = _time(entry, "submitted_time")
    if submitted is None:
        raise BadRow("submitted_time is unknown")
    name = _text(entry, "jobid")
    if not name:
        raise BadRow("jobid is missing")
    attempts = _objects(entry, "attempts")
    if not attempts:
        raise LeftOut(NEVER_RAN)
    lengths = _lengths(attempts)
    if sum(lengths) > MAX_SECONDS * SECOND:
        raise BadRow("runtime is out of range")
    sizes = [size for attempt in attempts if (size := _size(attempt))]
    job = TraceJob(
        name,
        submitted,
        ran(sum(lengths), end),
        gpus_of(sizes[0] if sizes else 0),
        _text(entry, "vc") or "none",
        _text(entry, "user") or "unknown",
        end,
        1 if end is End.FAILED else 0,
        waited=None if (began := _time(attempts[0], "start_time")) is None else began - submitted,
    )
    for oddity, seen in (
        (_AGAIN, len(lengths) > 1),
        (_LOST, len(lengths) < len(attempts)),
        (_OTHER_GPUS, len(set(sizes)) > 1),
    ):
        if seen:
            reading.oddities[oddity] += 1
    return job


def _lengths(attempts: list[Mapping[str, object]]) -> list[int]:
    """How long the attempts ran, ms, of those with a start and an end. Raises LeftOut when the last still runs."""
    if _time(attempts[-1], "end_time") is None:
        raise LeftOut(_STILL_RUNNING)
    spans = [(_time(attempt, "start_time"), _time(attempt, "end_time")) for attempt in attempts]
    return [
        between(started, ended, ("start_time", "end_time"))
        for started, ended in spans
        if started is not None and ended is not None
    ]


def _size(attempt: Mapping[str, object]) -> int:
    """GPUs of an attempt: those of its hosts."""
    count = 0
    for host in _objects(attempt, "detail"):
        gpus = host.get("gpus") or []
        if not isinstance(gpus, list):
            raise BadRow("gpus is not a list")
        count += len(gpus)
    return count


def _objects(entry: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    found = entry.get(key) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise BadRow(f"{key} is not a list of objects")
    return found


def _text(entry: Mapping[str, object], key: str) -> str:
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        raise BadRow(f"{key} is not a text")
    return value or ""


def _time(entry: Mapping[str, object], key: str) -> int | None:
    text = _text(entry, key)
    return None if text in ("", "None") else date(text, key)
