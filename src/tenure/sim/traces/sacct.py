"""What ``sacct --parsable2`` prints, with any ``--format``: the header line names the columns.

Every Slurm site can make such a report::

    sacct --allusers --duplicates --parsable2 --starttime 2026-01-01 --endtime 2026-04-01 \\
        --format JobID,User,Account,State,ExitCode,Submit,Start,End,Elapsed,Timelimit,AllocTRES,ReqTRES

An array task is a job. The components of a heterogeneous job (``123+0``) start together: they are one job. Steps
(``123.batch``) are parts of a job. GPUs are those asked for, or where none were, allocated. A job that was requeued or
resized has several rows (with ``--duplicates``, or where reports were joined), and each requeue resets Submit: its last
run counts, from its first submission, and what earlier ones held is told beside it. Times have no zone and are taken as
UTC.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from tenure.core.model import MINUTE, SECOND
from tenure.sim.traces import slurm
from tenure.sim.traces.files import Source
from tenure.sim.traces.records import LONGEST_NAME, BadRow, End, LeftOut, Reading, TraceError, TraceJob
from tenure.sim.traces.rows import MAX_SECONDS, NEVER_RAN, UNASKED, count, length, ran
from tenure.sim.traces.sketch import Seen

_Made = TypeVar("_Made")
ID = re.compile(r"(?P<job>\d{1,18})(?:_(?P<task>\d{1,9})|_(?P<tasks>\[.*)|\+(?P<part>\d{1,6}))?(?:\.(?P<step>.+))?")
STEP = "a step of a job"
WINDOW = 10_000
"""Jobs whose further rows are awaited: runs after a requeue, parts of a heterogeneous job."""
_MOST_RUNNING = 50_000
TOO_FAR = "a row of a job that had its others far above: those count"
_SHIFTED = (
    "Elapsed is not what lies between Start and End: suspended meanwhile, or a clock moved, as for daylight saving"
)
_SLACK = 2 * SECOND
_MOST_RUNS = 1000
"""Runs of a job that are told apart."""
_STILL_RUNNING = "still running when the report was made: taken as ended then"


def columns_of(line: str) -> list[str] | None:
    """The columns, in lower case, when the line is a header of sacct's."""
    names = [name.strip().lower() for name in line.strip().split("|")]
    return names if "jobid" in names or "jobidraw" in names else None


_Key = tuple[str, str, str]
"""A job's id, its user, and its cluster where the report names that: each cluster counts its own jobs."""


@dataclass(frozen=True, slots=True)
class _Run:
    """One row. ``began``: when it started, or where that is unknown was submitted, ms UTC: rows of a job that began at
    once are of one run. ``part``: of a heterogeneous job, else -1. ``unasked``: the report says what was asked for, and
    that was no GPUs. ``shifted``: its length is not what lies between start and end. ``slices``: has parts of GPUs.
    ``earlier``: of other runs of the job that began before this one, by when they did: GPUs x ms.
    """

    key: _Key
    part: int
    began: int
    job: TraceJob
    unasked: bool
    shifted: bool
    slices: bool
    earlier: dict[int, int]


_Parts = dict[int, _Run]


def read_sacct(sources: Iterable[Source], reading: Reading, window: int = WINDOW) -> Iterator[TraceJob]:
    """Jobs, each when ``window`` later ones have begun, in the order of their first rows. What still runs comes last:
    a later report may tell its end. Memory does not grow with the report.

    Raises TraceError for a header that lacks what is needed: JobID, Submit, a runtime (Elapsed, or Start and End) and a
    column with GPUs (AllocTRES or ReqTRES).
    """
    reading.dated = True
    open_jobs = _Window(reading, window)
    for source in sources:
        reading.files.append(source.name)
        for run in _runs(source, reading):
            yield from open_jobs.take(run)
    yield from open_jobs.rest()
    reading.oddities = +reading.oddities  # without the zeros


class _Window:
    """The jobs whose further rows are still awaited. sacct sorts by job, so a job's rows come together, but for those
    of reports that were joined.
    """

    def __init__(self, reading: Reading, size: int) -> None:
        self._reading = reading
        self._size = size
        self._recent: OrderedDict[_Key, _Parts] = OrderedDict()
        self._running: OrderedDict[_Key, _Parts] = OrderedDict()
        self._seen = Seen()

    def take(self, run: _Run) -> Iterator[TraceJob]:
        """Gives the jobs that are not waited for any more."""
        key = run.key
        parts = self._recent.get(key)
        if parts is None:
            parts = self._running.pop(key, None)
            if self._seen.came("\n".join(key)) and parts is None:
                self._reading.left_out[TOO_FAR] += 1
                return
            parts = self._recent[key] = parts or {}
        _merge(parts, run, self._reading)
        while len(self._recent) > self._size:
            key, parts = self._recent.popitem(last=False)
            if any(one.job.end is End.RUNNING for one in parts.values()):
                self._running[key] = parts
            else:
                yield self._whole(parts)
        while len(self._running) > _MOST_RUNNING:
            yield self._whole(self._running.popitem(last=False)[1])

    def rest(self) -> Iterator[TraceJob]:
        for parts in (*self._running.values(), *self._recent.values()):
            yield self._whole(parts)

    def _whole(self, parts: _Parts) -> TraceJob:
        reading = self._reading
        if len(parts) > 1:
            reading.left_out["a further part of a heterogeneous job, added to its first"] += len(parts) - 1
        reading.kept += 1
        job = _together(list(parts.values()))
        reading.oddities[_STILL_RUNNING] += job.end is End.RUNNING
        reading.oddities[UNASKED] += any(run.unasked for run in parts.values())
        reading.oddities[_SHIFTED] += any(run.shifted for run in parts.values())
        reading.oddities[slurm.SLICES] += any(run.slices for run in parts.values())
        return job


def _runs(source: Source, reading: Reading) -> Iterator[_Run]:
    return table(source, reading, _run)


def table(source: Source, reading: Reading, made: Callable[[dict[str, str]], _Made]) -> Iterator[_Made]:
    """What ``made`` makes of each row, by column in lower case; steps are counted and left out. It raises LeftOut or
    BadRow for rows of which nothing is made, and those are counted in ``reading``. Raises TraceError as ``read_sacct``
    does.
    """
    columns: list[str] | None = None
    place = 0  # of the id
    for line, text in enumerate(source.lines, 1):
        if "jobid" in text.lower():
            header = columns_of(text)
            if header is not None and (columns is None or not _lacking(header)):  # again where reports were joined
                columns = _checked(source.name, header)
                place = columns.index("jobid" if "jobid" in columns else "jobidraw")
                continue
        elif not text.strip():
            continue
        if columns is None:
            raise TraceError(f"{source.name}: no header line with JobID before {text.strip()[:80]!r}")
        reading.rows += 1
        try:
            cells = _cells(columns, text)
            if "." in cells[place] and (match := ID.fullmatch(cells[place])) and match["step"] is not None:
                reading.left_out[STEP] += 1  # most rows are steps: no more is made of them
                continue
            yield made(dict(zip(columns, cells, strict=True)))
        except LeftOut as why:
            reading.left_out[why.reason] += 1
        except BadRow as bad:
            reading.reject(source.name, line, text, bad)


def _checked(name: str, columns: list[str]) -> list[str]:
    if lacks := _lacking(columns):
        raise TraceError(f"{name}: the report has no {', no '.join(lacks)}; name it in sacct's --format")
    return columns


def _lacking(columns: list[str]) -> list[str]:
    """What a report with these columns lacks."""
    have, lacks = set(columns), []
    if "submit" not in have:
        lacks.append("Submit")
    if not have & {"elapsed", "elapsedraw"} and not have >= {"start", "end"}:
        lacks.append("Elapsed (or Start and End)")
    if not have & {"reqtres", "alloctres"}:
        lacks.append("AllocTRES or ReqTRES")
    return lacks


def _cells(columns: list[str], text: str) -> list[str]:
    values = text.rstrip("\r\n").split("|")
    if len(values) == len(columns) + 1 and not values[-1]:  # --parsable ends lines with a bar, --parsable2 does not
        values.pop()
    if len(values) != len(columns):
        raise BadRow("wrong number of fields", f"{len(values)}, not {len(columns)}; is there a | in a job's name?")
    return values


def _run(fields: dict[str, str]) -> _Run:
    id_text = (fields.get("jobid") or fields.get("jobidraw") or "").strip()
    match = ID.fullmatch(id_text)
    if match is None:
        raise BadRow("JobID is unreadable", id_text[:40])
    if match["step"] is not None:
        raise LeftOut(STEP)
    if match["tasks"] is not None:
        raise LeftOut(NEVER_RAN)  # the tasks of an array that still wait, on one line
    end = slurm.end_of(fields["state"]) if "state" in fields else End.UNKNOWN
    started = slurm.time(fields.get("start", ""), "Start")
    runtime = ran(elapsed(fields, started), end)
    submitted = slurm.time(fields["submit"], "Submit")
    if submitted is None:
        raise BadRow("Submit is unknown")
    user = _name(fields, "user", "uid") or "unknown"
    gpus, asked, slices = slurm.gpus_of_both(fields.get("reqtres", ""), fields.get("alloctres", ""))
    name = match["job"] if match["task"] is None else f"{match['job']}_{match['task']}"
    job = TraceJob(
        name,
        submitted,
        runtime,
        gpus,
        _name(fields, "account", "group", "qos", "partition") or "none",
        user,
        end,
        slurm.exit_code(fields.get("exitcode", ""), end),
        limit(fields),
        waited=None if started is None else started - submitted,
    )
    unasked = not asked and bool(named(fields, "reqtres"))
    key = name, user, _name(fields, "cluster")
    shifted = _shifted(fields, started, runtime)
    return _Run(key, int(match["part"] or -1), started or submitted, job, unasked, shifted, slices, {})


def _name(fields: dict[str, str], *columns: str) -> str:
    """A name as it is held: one character more than is shown, so that it is said to be cut."""
    return named(fields, *columns)[: LONGEST_NAME + 1]


def _shifted(fields: dict[str, str], started: int | None, runtime: int) -> bool:
    """Whether a row's length is not the time between its start and its end. An end that cannot be read says nothing."""
    if started is None:
        return False
    try:
        ended = slurm.time(fields.get("end", ""), "End")
    except BadRow:
        return False
    return ended is not None and abs(ended - started - runtime) > _SLACK


def elapsed(fields: dict[str, str], started: int | None) -> int:
    """ms that a row says it ran, 0 for what has not begun. Raises LeftOut and BadRow."""
    if fields.get("elapsed", "").strip():
        return slurm.duration(fields["elapsed"], "Elapsed") or 0
    if fields.get("elapsedraw", "").strip():
        return length(fields["elapsedraw"], "ElapsedRaw")
    ended = slurm.time(fields.get("end", ""), "End")
    if started is None:
        return 0
    if ended is None:
        raise LeftOut("has no end yet, and the report no Elapsed")
    if not 0 <= ended - started <= MAX_SECONDS * SECOND:
        raise BadRow("End is before Start" if ended < started else "runtime is out of range")
    return ended - started


def limit(fields: dict[str, str]) -> int | None:
    """ms of a row's time limit; None without one. Raises BadRow."""
    raw = fields.get("timelimitraw", "").strip()
    if "timelimit" in fields or raw.upper() in slurm.NO_LIMIT:
        return slurm.duration(fields.get("timelimit", ""), "Timelimit") or None
    return count(raw, "TimelimitRaw", MAX_SECONDS // 60) * MINUTE or None


def named(fields: dict[str, str], *columns: str) -> str:
    """The first of these columns that says anything; ''."""
    return next((value for column in columns if (value := fields.get(column, "").strip())), "")


def _merge(parts: _Parts, run: _Run, reading: Reading) -> None:
    """Of several rows of a job, the run that started last; from the first submission on, and with its wait."""
    there = parts.get(run.part)
    if there is None:
        parts[run.part] = run
        return
    reading.left_out["another run or record of the same job"] += 1
    last = max(there, run, key=lambda one: (one.began, one.job.runtime))
    first = min(there.job, run.job, key=lambda job: (job.submitted, job.waited is None, job.waited or 0))
    job = replace(last.job, submitted=first.submitted, waited=first.waited)
    parts[run.part] = replace(last, job=job, earlier=_earlier(there, run))


def _earlier(there: _Run, run: _Run) -> dict[int, int]:
    """What runs held that began before the later one of these two; a run in two reports counts once."""
    earlier = there.earlier
    if there.began != run.began:
        before = min(there, run, key=lambda one: one.began)
        if before.began in earlier or len(earlier) < _MOST_RUNS:
            earlier[before.began] = max(before.job.gpu_ms, earlier.get(before.began, 0))
    return earlier


def _together(parts: list[_Run]) -> TraceJob:
    """A heterogeneous job as one: all GPUs, for as long as its longest component."""
    earlier = sum(sum(run.earlier.values()) for run in parts)
    if len(parts) == 1:
        return replace(parts[0].job, earlier=earlier) if earlier else parts[0].job
    leader = min(parts, key=lambda run: run.part).job
    return replace(
        leader,
        submitted=min(run.job.submitted for run in parts),
        runtime=max(run.job.runtime for run in parts),
        gpus=sum(run.job.gpus for run in parts),
        earlier=earlier,
    )
