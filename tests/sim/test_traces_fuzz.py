"""Whatever stands in a file, the readers account for every line of it, and raise nothing but TraceError."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from tenure.sim.traces import READERS, End, Reading, TraceError, TraceJob, open_trace
from tenure.sim.traces.files import Source
from tenure.sim.traces.pai2020 import COLUMNS as PAI
from tenure.sim.traces.pai2020 import read_pai2020
from tenure.sim.traces.philly_json import read_philly_json
from tenure.sim.traces.rows import MAX_GPUS
from tenure.sim.traces.sacct import columns_of, read_sacct
from tenure.sim.traces.swf import read_swf
from tenure.sim.traces.trace import Reader

LINE = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=40)
NUMBER = st.one_of(
    st.integers(-2, 10**9).map(str),
    st.floats().map(str),
    st.sampled_from(["-1", "0", "1e400", "9" * 5000, "1_0", "٣", "²", ""]),
)
SMALL = st.integers(0, 2000).map(str)
IDS = st.sampled_from(["1", "2", "3", "1_2", "1_3", "1+0", "1+1", "1+1.0", "1.batch", "1_2.0", "1_[3-4]"])
STATES = st.sampled_from(["COMPLETED", "CANCELLED by 3", "RUNNING", "NODE_FAIL", "TIMEOUT", "FAILED", "PENDING"])
TIMES = st.sampled_from(
    ["2026-01-05T08:00:00", "2026-01-05 09:00:00", "2026-01-05 09:00:00+08:00", "2026-01-06T01:02:03"]
)
CLOCKS = st.sampled_from(["00:10", "10:00:00", "1-00:00:00", "00:00:00"])
TRES = st.sampled_from(["gres/gpu=8", "1002=2", "cpu=4,gres/gpu:a=2,gres/gpu=2", "cpu=1"])
NAMES = st.sampled_from(["a", "b", "c\x1b[31m"])
ODD = st.sampled_from(
    [
        *("Unknown", "None", "", "²", "UNLIMITED", "Partition_Limit", "0", "NaN", "\x1b[2J"),
        *("0001-01-01T00:00:00", "9999-12-31T23:59:59+14:00", "1969-12-31 23:59:59", "99999-00:00:00", "-1:00"),
        *("gres/gpu=999999999", "gres/gpu=0,gres/gpu:a=2", "1+9999999", "1_[1,3%1]", "1.extern", "x", "9" * 30),
    ]
)
CELL = st.one_of(LINE, NUMBER, ODD)
_LOG = {
    "job_id": NAMES,
    "user": NAMES,
    "gpu_num": SMALL,
    "state": STATES,
    "submit_time": TIMES,
    "start_time": TIMES,
    "end_time": TIMES,
    "duration": SMALL,
}
TABLES: dict[str, dict[str, st.SearchStrategy[str]]] = {
    "acme": {"type": NAMES, **_LOG},
    "helios": {"vc": NAMES, **_LOG},
    "itp": {"job_id": NAMES, "submission_time": SMALL, "duration": SMALL, "num_gpu": SMALL},
    "pai-2023": {
        "name": NAMES,
        "num_gpu": SMALL,
        "gpu_milli": SMALL,
        "qos": NAMES,
        "pod_phase": st.sampled_from(["Running", "Succeeded", "Failed", "Pending", "?"]),
        "creation_time": SMALL,
        "deletion_time": SMALL,
        "scheduled_time": SMALL,
    },
    "philly": {"timestamp": TIMES, "duration": SMALL, "num_gpus": SMALL, "gpu_time": SMALL, "cluster": NAMES},
    "supercloud": {
        "id_job": SMALL,
        "id_user": SMALL,
        "state": st.integers(0, 12).map(str),
        "exit_code": st.sampled_from(["0", "256", "9", "-1"]),
        "timelimit": SMALL | st.just("4294967295"),
        "time_submit": SMALL,
        "time_start": SMALL,
        "time_end": SMALL,
        "tres_alloc": TRES,
        "tres_req": TRES,
    },
}
SACCT = {
    "JobID": IDS,
    "User": NAMES,
    "State": STATES,
    "ExitCode": st.sampled_from(["0:0", "1:0", "0:9", "", "x"]),
    "Submit": TIMES,
    "Start": TIMES,
    "End": TIMES,
    "Elapsed": CLOCKS,
    "Timelimit": CLOCKS,
    "ReqTRES": TRES,
    "AllocTRES": TRES,
}
HEADER = "|".join(SACCT)
PAI_CELLS = {
    "inst_num": st.sampled_from(["1.0", "3.0", "0", ""]),
    "plan_gpu": st.sampled_from(["25.0", "100.0", "0.0", ""]),
    "status": st.sampled_from(["Terminated", "Failed", "Running", "Waiting", "?"]),
    "start_time": SMALL | st.just(""),
    "end_time": SMALL | st.just(""),
}


def cells(columns: dict[str, st.SearchStrategy[str]]) -> st.SearchStrategy[tuple[str, ...]]:
    """A row whose cells are of the right kind, or all but one, so that good rows are frequent."""

    def spoilt(row: tuple[tuple[str, ...], int, str]) -> tuple[str, ...]:
        values, place, odd = row
        return (*values[:place], odd, *values[place + 1 :]) if place < len(values) else values

    return st.tuples(st.tuples(*columns.values()), st.integers(0, 2 * len(columns)), CELL).map(spoilt)


def lines_of(rows: Sequence[Sequence[str]]) -> list[str]:
    """As CSV, each in one line."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().split("\n")[:-1]


def account(reader: Reader, files: dict[str, list[str]]) -> tuple[list[TraceJob], Reading]:
    """Jobs that can be replayed, and a reading that accounts for all."""
    reading = Reading()
    jobs = list(reader([Source.of(name, [line + "\n" for line in lines]) for name, lines in files.items()], reading))
    assert reading.accounted == reading.rows
    assert min((*reading.left_out.values(), *reading.bad.values(), *reading.oddities.values(), 1)) > 0
    assert reading.kept == len(jobs)
    for job in jobs:
        assert job.runtime > 0
        assert job.submitted >= 0
        assert 0 < job.gpus <= MAX_GPUS * reading.rows
        assert job.runtime % 1000 == job.submitted % 1000 == 0
        assert job.timeout is None or job.timeout > 0
        assert isinstance(job.end, End)
    assert all(line.isprintable() for line in reading.notes())
    return jobs, reading


def check(reader: Reader, lines: list[str], rows: int) -> list[TraceJob]:
    jobs, reading = account(reader, {"f": lines})
    assert reading.rows == rows
    return jobs


def filled(lines: Sequence[str], blank: str | None = "\r\n") -> int:
    return sum(bool(line.strip(blank)) for line in lines)


@pytest.mark.parametrize("format", TABLES)
@given(data=st.data())
def test_tables(format: str, data: st.DataObject) -> None:
    """Any lines among good ones; and the columns may be in any order."""
    columns = TABLES[format]
    rows = data.draw(st.lists(cells(columns), max_size=8))
    junk = data.draw(st.lists(LINE | st.lists(CELL, max_size=12).map(",".join), max_size=3))
    lines = lines_of(rows)
    check(READERS[format], [",".join(columns), *junk, *lines], filled(junk + lines))
    jobs = check(READERS[format], [",".join(columns), *lines], filled(lines))
    order = data.draw(st.permutations(range(len(columns))))
    shuffled = lines_of([[row[i] for i in order] for row in (tuple(columns), *rows)])
    assert check(READERS[format], shuffled, filled(shuffled[1:])) == jobs


@given(st.lists(LINE | st.lists(NUMBER, min_size=17, max_size=19).map(" ".join), max_size=8))
def test_swf(lines: list[str]) -> None:
    check(read_swf, lines, sum(bool(line.strip()) and not line.lstrip().startswith(";") for line in lines))


REPORT = st.lists(cells(SACCT).map("|".join) | LINE | st.just(HEADER), max_size=12)


@given(REPORT)
def test_sacct(lines: list[str]) -> None:
    """Arrays, parts of heterogeneous jobs, steps, runs again, reports that were joined, and anything else."""
    check(read_sacct, [HEADER, *lines], filled(lines, None) - sum(columns_of(line) is not None for line in lines))


@given(st.lists(cells(SACCT), max_size=8), st.permutations(range(len(SACCT))), st.booleans())
def test_sacct_in_any_order_of_columns(rows: list[tuple[str, ...]], order: list[int], closed: bool) -> None:
    rows = [tuple(cell.replace("|", "/") for cell in row) for row in rows]
    end = "|" if closed else ""  # as --parsable ends lines, where --parsable2 does not
    plain = ["|".join(row) for row in (tuple(SACCT), *rows)]
    shuffled = ["|".join(row[i] for i in order) + end for row in (tuple(SACCT), *rows)]
    assert check(read_sacct, shuffled, len(rows)) == check(read_sacct, plain, len(rows))


@given(REPORT, REPORT)
def test_joined_reports_are_one(first: list[str], second: list[str]) -> None:
    joined, _ = account(read_sacct, {"f": [HEADER, *first, HEADER, *second]})
    apart, _ = account(read_sacct, {"f": [HEADER, *first], "g": [HEADER, *second]})
    assert joined == apart


@given(st.lists(cells(SACCT).map("|".join), max_size=8))
def test_steps_change_nothing(lines: list[str]) -> None:
    jobs, reading = account(read_sacct, {"f": [HEADER, *lines]})
    steps = [re.sub(r"^(\d+(?:[_+]\d+)?)\|", r"\1.0|", line) for line in lines]
    mixed = [line for pair in zip(lines, steps, strict=True) for line in pair]
    again, counted = account(read_sacct, {"f": [HEADER, *mixed]})
    assert again == jobs
    assert counted.kept == reading.kept and counted.rows == reading.rows + len(lines)


@given(data=st.data())
def test_pai_2020(data: st.DataObject) -> None:
    """Tables with anything in them, in any order."""
    files, rows = {}, 0
    for table in data.draw(st.permutations(list(PAI))):
        lines = data.draw(st.lists(_pai(table).map(",".join) | LINE, max_size=8))
        files[table + ".csv"] = lines
        rows += filled(lines)
    _, reading = account(read_pai2020, files)
    assert reading.rows == rows


def _pai(table: str) -> st.SearchStrategy[tuple[str, ...]]:
    return cells({name: PAI_CELLS.get(name, st.sampled_from(["a", "b"])) for name in PAI[table]})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | LINE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LINE, inner, max_size=3),
    max_leaves=6,
)
ATTEMPT = st.fixed_dictionaries(
    {
        "start_time": TIMES | st.none() | ANYTHING,
        "end_time": TIMES | st.none() | ANYTHING,
        "detail": st.lists(st.fixed_dictionaries({"gpus": st.lists(NAMES, max_size=3) | ANYTHING})) | ANYTHING,
    }
)
ENTRY = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["Pass", "Failed", "Killed", "?"]),
        "jobid": NAMES | ANYTHING,
        "vc": NAMES | ANYTHING,
        "user": NAMES | ANYTHING,
        "submitted_time": TIMES | ANYTHING,
        "attempts": st.lists(ATTEMPT, max_size=3) | ANYTHING,
    }
)


@given(st.lists(ENTRY | ANYTHING, max_size=6), st.sampled_from([None, 2]), st.integers(0, 10**6))
def test_philly_json(entries: list[object], indent: int | None, cut: int) -> None:
    lines = json.dumps(entries, indent=indent).split("\n")
    jobs = check(read_philly_json, lines, len(entries))
    text = "\n".join(lines)
    cut %= len(text)
    seen: list[TraceJob] = []
    with pytest.raises(TraceError, match=r"^f line \d+: (it ends too early|no comma)"):
        seen.extend(read_philly_json([Source.of("f", io.StringIO(text[:cut]))], Reading()))
    assert seen == jobs[: len(seen)]


@pytest.mark.parametrize("format", [*TABLES, "sacct"])
def test_good_rows_are_among_them(format: str) -> None:
    """Else the tests above would say little."""
    columns, bar = (SACCT, "|") if format == "sacct" else (TABLES[format], ",")
    rows = st.lists(cells(columns), min_size=8, max_size=8)
    lines = rows.map(lambda rows: ["|".join(row) for row in rows] if format == "sacct" else lines_of(rows))
    only_generated = settings(database=None, phases=[Phase.generate])
    find(
        lines,
        lambda found: len(account(READERS[format], {"f": [bar.join(columns), *found]})[0]) > 2,
        settings=only_generated,
        random=Random(1),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


GOOD = {
    "sacct": f"{HEADER}\n1|u|COMPLETED|0:0|2026-01-05T08:00:00|2026-01-05T08:00:00||00:10|UNLIMITED|gres/gpu=8|\n",
    "itp": "job_id,submission_time,duration,num_gpu\na,60,7200,8\nb,0,3600,1\n",
    "swf": "; UnixStartTime: 0\n1 0 0 60 2 -1 -1 2 60 -1 1 1 1 -1 1 -1 -1 -1\n",
    "philly-json": json.dumps(
        [
            {
                "status": "Pass",
                "jobid": "a",
                "submitted_time": "2017-10-07 01:11:39",
                "attempts": [
                    {
                        "start_time": "2017-10-07 01:12:09",
                        "end_time": "2017-10-07 01:13:23",
                        "detail": [{"gpus": ["gpu0"]}],
                    }
                ],
            }
        ],
        indent=4,
    ),
}
NAMES_OF_FILES = ["x", "pai_job_table.csv", "pai_task_table.csv", "x.tar", "x.tar.gz"]


@given(
    st.binary(max_size=200),
    st.sampled_from(
        [b"", b"\x1f\x8b\x08", b"\xfd7zXZ\x00", b"BZh9", b"[", b"[[", *(text.encode() for text in GOOD.values())]
    ),
    st.sampled_from([None, *READERS]),
    st.sampled_from(NAMES_OF_FILES),
)
def test_any_bytes(folder: Path, data: bytes, start: bytes, format: str | None, name: str) -> None:
    path = folder / name
    path.write_bytes(start + data)
    try:
        trace = open_trace(path, format)
    except TraceError as error:
        assert str(error)
    else:
        assert trace.reading.accounted == trace.reading.rows
        assert trace.jobs


@given(st.sampled_from(sorted(GOOD)), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=8))
def test_bytes_changed_anywhere(folder: Path, format: str, changes: list[tuple[int, int]]) -> None:
    data = bytearray(GOOD[format].encode())
    for place, value in changes:
        data[place % len(data)] = value
    path = folder / "changed"
    path.write_bytes(data)
    for asked in (None, format):
        try:
            reading = open_trace(path, asked).reading
        except TraceError:
            continue
        assert reading.accounted == reading.rows


@given(st.sampled_from(sorted(GOOD)), st.integers(0, 10**6))
def test_files_that_were_cut(folder: Path, format: str, cut: int) -> None:
    text = GOOD[format]
    path = folder / "cut"
    path.write_text(text[: cut % len(text)])
    try:
        reading = open_trace(path, format).reading
    except TraceError:
        return
    assert reading.accounted == reading.rows
