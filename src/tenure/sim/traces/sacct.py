"""What ``sacct --parsable2`` prints, with any ``--format``: the header line names the columns.

Every Slurm site can make such a report::

    sacct --allusers --duplicates --parsable2 --starttime 2026-01-01 --endtime 2026-04-01 \\
        --format JobID,User,Account,State,ExitCode,Submit,Start,End,Elapsed,Timelimit,AllocTRES,ReqTRES

An array task is a job. The components of a heterogeneous job (``123+0``) start together: they are one job. Steps
(``123.batch``) are parts of a job. GPUs are those asked for, or where none were, allocated. A job that was requeued or
resized has several rows (with ``--duplicates``, or where reports were joined), and each requeue resets Submit: its last
run counts, from its first submission. Times have no zone and are taken as UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tenure.core.model import MINUTE, SECOND
from tenure.sim.traces import slurm
from tenure.sim.traces.files import Source
from tenure.sim.traces.records import BadRow, End, LeftOut, Reading, TraceError, TraceJob
from tenure.sim.traces.rows import MAX_SECONDS, NEVER_RAN, UNASKED, count, gpus_of, length, ran

_ID = re.compile(r"(?P<job>\d{1,18})(?:_(?P<task>\d{1,9})|_(?P<tasks>\[.*)|\+(?P<part>\d{1,6}))?(?:\.(?P<step>.+))?")
_STILL_RUNNING = "still running when the report was made: taken as ended then"


def columns_of(line: str) -> list[str] | None:
    """The columns, in lower case, when the line is a header of sacct's."""
    names = [name.strip().lower() for name in line.strip().split("|")]
    return names if "jobid" in names or "jobidraw" in names else None


@dataclass(frozen=True, slots=True)
class _Run:
    """One row. ``started``: ms UTC, 0 if unknown. ``part``: of a heterogeneous job, else -1. ``unasked``: the report
    says what was asked for, and that was no GPUs.
    """

    key: tuple[str, str]
    part: int
    started: int
    job: TraceJob
    unasked: bool


def read_sacct(sources: Iterable[Source], reading: Reading) -> Iterator[TraceJob]:
    """Jobs come when all is read, since a job's rows may be anywhere. Raises TraceError for a header that lacks what
    is needed: JobID, Submit, a runtime (Elapsed, or Start and End) and a column with GPUs (AllocTRES or ReqTRES).
    """
    reading.dated = True
    runs: dict[tuple[tuple[str, str], int], _Run] = {}
    for source in sources:
        reading.files.append(source.name)
        for run in _runs(source, reading):
            _merge(runs, run, reading)
    jobs: dict[tuple[str, str], list[_Run]] = {}
    for run in runs.values():
        jobs.setdefault(run.key, []).append(run)
    for parts in jobs.values():
        if len(parts) > 1:
            reading.left_out["a further part of a heterogeneous job, added to its first"] += len(parts) - 1
        reading.kept += 1
        job = _together(parts)
        reading.oddities[_STILL_RUNNING] += job.end is End.RUNNING
        reading.oddities[UNASKED] += any(run.unasked for run in parts)
        yield job
    reading.oddities = +reading.oddities  # without the zeros


def _runs(source: Source, reading: Reading) -> Iterator[_Run]:
    columns: list[str] | None = None
    for line, text in enumerate(source.lines, 1):
        if not text.strip():
            continue
        header = columns_of(text)
        if header is not None and (columns is None or not _lacking(header)):  # again where reports were joined
            columns = _checked(source.name, header)
            continue
        if columns is None:
            raise TraceError(f"{source.name}: no header line with JobID before {text.strip()[:80]!r}")
        reading.rows += 1
        try:
            yield _run(_fields(columns, text))
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


def _fields(columns: list[str], text: str) -> dict[str, str]:
    values = text.rstrip("\r\n").split("|")
    if len(values) == len(columns) + 1 and not values[-1]:  # --parsable ends lines with a bar, --parsable2 does not
        values.pop()
    if len(values) != len(columns):
        raise BadRow("wrong number of fields", f"{len(values)}, not {len(columns)}; is there a | in a job's name?")
    return dict(zip(columns, values, strict=True))


def _run(fields: dict[str, str]) -> _Run:
    id_text = (fields.get("jobid") or fields.get("jobidraw") or "").strip()
    match = _ID.fullmatch(id_text)
    if match is None:
        raise BadRow("JobID is unreadable", id_text[:40])
    if match["step"] is not None:
        raise LeftOut("a step of a job")
    if match["tasks"] is not None:
        raise LeftOut(NEVER_RAN)  # the tasks of an array that still wait, on one line
    end = slurm.end_of(fields["state"]) if "state" in fields else End.UNKNOWN
    started = slurm.time(fields.get("start", ""), "Start")
    runtime = ran(_elapsed(fields, started), end)
    submitted = slurm.time(fields["submit"], "Submit")
    if submitted is None:
        raise BadRow("Submit is unknown")
    user = _named(fields, "user", "uid") or "unknown"
    asked = slurm.gpus(fields.get("reqtres", ""))
    name = match["job"] if match["task"] is None else f"{match['job']}_{match['task']}"
    job = TraceJob(
        name,
        submitted,
        runtime,
        gpus_of(asked or slurm.gpus(fields.get("alloctres", ""))),
        _named(fields, "account", "group", "qos", "partition") or "none",
        user,
        end,
        slurm.exit_code(fields.get("exitcode", ""), end),
        _limit(fields),
    )
    unasked = not asked and bool(_named(fields, "reqtres"))
    return _Run((name, user), int(match["part"] or -1), started or 0, job, unasked)


def _elapsed(fields: dict[str, str], started: int | None) -> int:
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


def _limit(fields: dict[str, str]) -> int | None:
    raw = fields.get("timelimitraw", "").strip()
    if "timelimit" in fields or raw.upper() in slurm.NO_LIMIT:
        return slurm.duration(fields.get("timelimit", ""), "Timelimit") or None
    return count(raw, "TimelimitRaw", MAX_SECONDS // 60) * MINUTE or None


def _named(fields: dict[str, str], *columns: str) -> str:
    return next((value for column in columns if (value := fields.get(column, "").strip())), "")


def _merge(runs: dict[tuple[tuple[str, str], int], _Run], run: _Run, reading: Reading) -> None:
    """Of several rows of a job, the run that started last; from the first submission on."""
    there = runs.get((run.key, run.part))
    if there is None:
        runs[run.key, run.part] = run
        return
    reading.left_out["another run or record of the same job"] += 1
    last = max(there, run, key=lambda one: (one.started, one.job.runtime))
    first = min(there.job.submitted, run.job.submitted)
    runs[run.key, run.part] = replace(last, job=replace(last.job, submitted=first))


def _together(parts: list[_Run]) -> TraceJob:
    """A heterogeneous job as one: all GPUs, for as long as its longest component."""
    if len(parts) == 1:
        return parts[0].job
    leader = min(parts, key=lambda run: run.part).job
    return replace(
        leader,
        submitted=min(run.job.submitted for run in parts),
        runtime=max(run.job.runtime for run in parts),
        gpus=sum(run.job.gpus for run in parts),
    )
