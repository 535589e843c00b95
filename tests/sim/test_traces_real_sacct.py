"""The sacct reader on a real log: the SuperCloud sample as ``sacct --parsable2`` prints it, where it is at hand."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.sim.traces import End, Reading, TraceJob, open_trace, slurm
from tenure.sim.traces.files import Source, open_sources
from tenure.sim.traces.sacct import columns_of, read_sacct
from tenure.sim.traces.supercloud import read_supercloud

FOLDER = os.environ.get("TENURE_TRACES", "")
LOG = Path(FOLDER) / "supercloud-2021" / "slurm-log.csv.gz"

pytestmark = pytest.mark.skipif(not FOLDER, reason="TENURE_TRACES does not name the folder of the published traces")

HEADER = "JobIDRaw|User|Account|State|ExitCode|Submit|Start|End|Elapsed|Timelimit|ReqTRES|AllocTRES|Partition|NNodes"
TRES = {"1": "cpu", "2": "mem", "3": "energy", "4": "node", "5": "billing", "1001": "gres/gpu:tesla"}
TRES["1002"] = "gres/gpu:volta"
INFINITE, NO_VALUE = 2**32 - 1, 2**64 - 2
NO_TASK = str(2**32 - 2)
ENDS = {End.COMPLETED, End.CANCELLED, End.FAILED, End.TIMEOUT}


def clock(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text


def date(seconds: str) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%S")


def resources(numbers: str) -> str:
    """By name, in sacct's order; what has no value is not there."""
    pairs = (item.split("=") for item in numbers.split(",") if item)
    named = {TRES[number]: value for number, value in pairs if int(value) < NO_VALUE}
    if "mem" in named:
        named["mem"] += "M"
    return ",".join(f"{name}={value}" for name, value in sorted(named.items()))


def line(row: dict[str, str], job: str) -> str:
    """A row of the accounting table as sacct prints it."""
    state = slurm.NUMBERED[int(row["state"])]
    user = f"user-{row['id_user'].partition('.')[0]}"
    status, limit = int(row["exit_code"]), int(row["timelimit"])
    return "|".join(
        (
            job,
            user,
            user,
            f"{state} by {row['kill_requid'][:5]}" if state == "CANCELLED" else state,
            f"{status >> 8 & 0xFF}:{status & 0x7F}",
            date(row["time_submit"]),
            date(row["time_start"]),
            date(row["time_end"]),
            clock(int(row["time_end"]) - int(row["time_start"])),
            "UNLIMITED" if limit == INFINITE else clock(limit * 60),
            resources(row["tres_req"]),
            resources(row["tres_alloc"]),
            row["partition"],
            row["nodes_alloc"],
        )
    )


@cache
def table() -> list[dict[str, str]]:
    with gzip.open(LOG, "rt") as text:
        return list(csv.DictReader(text))


@cache
def report() -> list[str]:
    return [line(row, row["id_job"].partition(".")[0]) for row in table()]


def read(lines: list[str]) -> tuple[list[TraceJob], Reading]:
    reading = Reading()
    jobs = list(read_sacct([Source.of("report.txt", [each + "\n" for each in lines])], reading))
    assert reading.accounted == reading.rows
    assert reading.kept == len(jobs)
    return jobs, reading


def test_it_makes_of_the_log_what_the_reader_of_its_own_columns_makes() -> None:
    counted = Reading()
    jobs = [job for source in open_sources(LOG) for job in read_supercloud([source], counted)]
    found, reading = read([HEADER, *report()])
    assert len(found) == 2401
    for ours, theirs in zip(found, jobs, strict=True):
        assert replace(ours, waited=theirs.waited) == theirs
        assert ours.waited in (None, theirs.waited)
    assert (reading.rows, reading.kept, reading.dated) == (counted.rows, counted.kept, counted.dated)
    assert reading.left_out == counted.left_out
    assert reading.oddities == counted.oddities
    assert not reading.bad
    assert {job.end for job in found} == ENDS


def test_opened_as_a_report_it_is_the_same_trace(tmp_path: Path) -> None:
    path = tmp_path / "report.txt.gz"
    path.write_bytes(gzip.compress("\n".join([HEADER, *report(), ""]).encode()))
    ours, theirs = open_trace(path), open_trace(LOG)
    assert ours.reading.format == "sacct"
    assert [job.id for job in ours.jobs] == [job.id for job in theirs.jobs]
    assert (ours.origin, ours.span, ours.gpus) == (theirs.origin, theirs.span, theirs.gpus)
    assert ours.supply == theirs.supply
    assert (ours.budgets, ours.paths) == (theirs.budgets, theirs.paths)


def test_array_tasks_under_their_own_names() -> None:
    rows = [row for row in table() if row["id_array_task"] != NO_TASK]
    names = [f"{row['id_array_job'].partition('.')[0]}_{row['id_array_task']}" for row in rows]
    found, reading = read([HEADER.replace("JobIDRaw", "JobID"), *map(line, rows, names)])
    raw, _ = read([HEADER, *(line(row, row["id_job"].partition(".")[0]) for row in rows)])
    of = dict(zip((row["id_job"].partition(".")[0] for row in rows), names, strict=True))
    assert found == [replace(job, id=of[job.id]) for job in raw]
    assert (len(rows), not reading.bad) == (1201, True) and found


@cache
def sample() -> list[str]:
    """Some lines with GPUs, and some without."""
    lines = [each for each in report() if "gres/gpu" in each]
    return Random(3).sample(lines, 60) + Random(4).sample(report(), 20)


FIELDS = [
    "",
    "Unknown",
    "-1",
    "²",
    "9" * 400,
    "1e400",
    "gres/gpu=-1",
    "2021-02-30T00:00:00",
    "\x00",
    "\x1b[2J",
    "|",
    "JobID",
]
"""What stands instead of a field."""


@st.composite
def mutated(draw: st.DrawFn) -> list[tuple[int, list[str]]]:
    """Which lines of the sample become what."""
    changes = []
    for place in draw(st.lists(st.integers(0, 79), min_size=1, max_size=12, unique=True)):
        fields = sample()[place].split("|")
        kind = draw(
            st.sampled_from(["field", "swap", "cut", "longer", "step", "part", "again", "array", "byte", "header"])
        )
        at, other = draw(st.integers(0, len(fields) - 1)), draw(st.integers(0, len(fields) - 1))
        lines = ["|".join(fields)]
        if kind == "field":
            fields[at] = draw(st.sampled_from(FIELDS) | st.text(st.characters(exclude_characters="\r\n"), max_size=12))
        elif kind == "swap":
            fields[at], fields[other] = fields[other], fields[at]
        elif kind == "cut":
            fields = fields[:at]
        elif kind == "longer":
            fields.insert(at, "x")
        elif kind == "step":
            fields[0] += draw(st.sampled_from([".batch", ".0", ".extern", ".interactive", "."]))
        elif kind == "part":
            fields[0] += draw(st.sampled_from(["+0", "+1", "+", "+x"]))
        elif kind == "array":
            fields[0] += draw(st.sampled_from(["_1", "_[1-9%3]", "_", "_x"]))
        elif kind == "byte":
            text = "|".join(fields)
            fields = [text[: at * 7] + draw(st.characters(exclude_characters="\r\n")) + text[at * 7 + 1 :]]
        elif kind == "header":
            fields = [HEADER]
        changes.append((place, [*(lines if kind in ("again", "step", "header") else []), "|".join(fields)]))
    return changes


@given(mutated())
def test_lines_that_are_spoilt_spoil_no_other(changes: list[tuple[int, list[str]]]) -> None:
    """Whatever becomes of some lines, all are accounted for, and the others give the jobs that they gave."""
    lines = sample()
    spoilt = dict(changes)
    mixed = [each for place, old in enumerate(lines) for each in spoilt.get(place, [old])]
    jobs, reading = read([HEADER, *mixed])
    headers = sum(columns_of(each) is not None and "Submit" in each for each in mixed)
    assert reading.rows == sum(bool(each.strip()) for each in mixed) - headers
    alone, _ = read([HEADER, *(old for place, old in enumerate(lines) if place not in spoilt)])
    assert _without(alone, touched(changes)) == _without(jobs, touched(changes))


def touched(changes: list[tuple[int, list[str]]]) -> set[str]:
    """Ids on the lines that were changed, before and after."""
    texts = [text for place, new in changes for text in (sample()[place], *new)]
    return {name for text in texts for name in _ids(text)}


def _ids(text: str) -> Iterator[str]:
    for field in text.split("|"):
        yield field.strip().partition(".")[0].partition("+")[0]


def _without(jobs: list[TraceJob], names: set[str]) -> list[TraceJob]:
    return [job for job in jobs if job.id not in names]
