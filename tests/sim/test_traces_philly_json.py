"""Philly's own file: one array in JSON, read piece by piece."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.model import HOUR, MINUTE, SECOND
from tenure.sim.traces import End, Reading, TraceError, TraceJob, open_trace
from tenure.sim.traces import json_array as module
from tenure.sim.traces.files import Source, open_sources
from tenure.sim.traces.json_array import elements
from tenure.sim.traces.philly_json import read_philly_json
from tenure.units import parse_time


def attempt(start: str | None, end: str | None, gpus: int = 8, hosts: int = 1) -> dict[str, Any]:
    detail = [{"ip": f"m{host}", "gpus": [f"gpu{i}" for i in range(gpus)]} for host in range(hosts)]
    return {"start_time": start, "end_time": end, "detail": detail}


JOB = {
    "status": "Pass",
    "vc": "ee9e8c",
    "jobid": "application_1506638472019_14199",
    "attempts": [
        attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23"),
        attempt("2017-10-07 01:13:30", "2017-10-07 03:13:30"),
    ],
    "submitted_time": "2017-10-07 01:11:39",
    "user": "ce2f4c",
}
ONE = [attempt("2017-10-07 01:12:00", "2017-10-07 02:12:00")]


def read(*jobs: object, text: str | None = None) -> tuple[list[TraceJob], Reading]:
    reading = Reading()
    text = json.dumps(jobs, indent=4) if text is None else text
    found = list(read_philly_json([Source.of("cluster_job_log", text.splitlines(keepends=True))], reading))
    assert reading.accounted == reading.rows
    assert reading.kept == len(found)
    return found, reading


def test_a_job_runs_for_as_long_as_its_attempts() -> None:
    jobs, reading = read(JOB)
    assert jobs == [
        TraceJob(
            "application_1506638472019_14199",
            parse_time("2017-10-07T01:11:39Z"),
            2 * HOUR + 74 * SECOND,
            8,
            "ee9e8c",
            "ce2f4c",
            End.COMPLETED,
            waited=30 * SECOND,
        )
    ]
    assert reading.dated
    assert reading.oddities == {"several attempts: it ran for as long as they did together": 1}


def test_ends_and_gpus_of_several_hosts() -> None:
    gang = [attempt("2017-10-07 01:12:00", "2017-10-07 01:13:00", gpus=4, hosts=3), ONE[0]]
    jobs, reading = read(
        JOB | {"status": "Failed", "attempts": ONE},
        JOB | {"status": "Killed", "attempts": gang},
        JOB | {"attempts": [attempt(None, "2017-10-07 01:12:00"), ONE[0]]},
    )
    assert [(job.end, job.exit_code, job.gpus, job.runtime) for job in jobs] == [
        (End.FAILED, 1, 8, HOUR),
        (End.CANCELLED, 0, 12, 61 * MINUTE),
        (End.COMPLETED, 0, 8, HOUR),
    ]
    assert [job.waited for job in jobs] == [21 * SECOND, 21 * SECOND, None]
    assert reading.oddities == {
        "several attempts: it ran for as long as they did together": 1,
        "attempts with different numbers of GPUs: those of the first count": 1,
        "an attempt without a start or an end: not counted": 1,
    }


def test_what_is_no_job_is_counted_with_the_reason_and_the_line() -> None:
    changes: list[Mapping[str, object]] = [
        {"attempts": []},
        {"attempts": [ONE[0], attempt("2017-10-07 02:12:00", "None")]},
        {"attempts": [attempt("2017-10-07 02:12:00", None)]},
        {"attempts": [attempt("2017-10-07 01:12:00", "2017-10-07 01:13:00", gpus=0)]},
        {"status": "Lost"},
        {"submitted_time": "None"},
        {"submitted_time": ["2017"]},
        {"jobid": ""},
        {"attempts": "none"},
        {"attempts": [{**ONE[0], "detail": [{"gpus": 8}]}]},
        {"attempts": [attempt("2017-10-07 01:12:00", "2017-10-07 01:11:00")]},
        {"attempts": [attempt("1970-01-01 00:00:00", "1980-01-01 00:00:00")] * 2},
    ]
    broken = [{**JOB, "attempts": ONE, **change} for change in changes]
    text = "[\n" + ",\n".join(map(json.dumps, [*broken, 5, None])) + "\n]\n"
    jobs, reading = read(text=text)
    assert not jobs
    assert reading.rows == 14
    assert reading.left_out == {
        "never ran": 1,
        "still running when the log was taken: nobody knows for how long": 2,
        "no GPUs": 1,
    }
    assert reading.bad == {
        "status is unknown": 1,
        "submitted_time is unknown": 1,
        "submitted_time is not a text": 1,
        "jobid is missing": 1,
        "attempts is not a list of objects": 1,
        "gpus is not a list": 1,
        "end_time is before start_time": 1,
        "runtime is out of range": 1,
        "not an object": 2,
    }
    assert [example.line for example in reading.examples] == [*range(6, 16)]
    assert str(reading.examples[0]).startswith('cluster_job_log line 6: status is unknown: Lost: \'{"status": "Lost"')


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"jobid": 1}', "line 1: it is no array in JSON"),
        ("", "line 1: it ends too early, as if it had been cut"),
        ("[\n1,\n2", "line 3: it ends too early, as if it had been cut"),
        ('[\n1,\n{"a": ', "line 3: it ends too early, or is broken: Expecting value"),
        ("[1,\n2,]", "line 2: it ends too early, or is broken: Expecting value"),
        ("[1\n2]", "line 2: no comma or ] after an element"),
        ("[1]\n\n[2]", "line 3: something follows the end of the array"),
        ("[" * 200_000, "line 1: an element is nested too deeply"),
    ],
)
def test_what_is_no_array_is_refused_with_the_line(text: str, why: str) -> None:
    with pytest.raises(TraceError, match=rf"f {why.replace('[', '.').replace(']', '.')}"):
        list(elements(Source.of("f", text.splitlines(keepends=True))))


@pytest.mark.parametrize(
    ("start", "why"), [("9", "it goes on and on"), ('"', "Unterminated string"), ("[1,", "Expecting value")]
)
def test_an_element_without_an_end_is_given_up(start: str, why: str) -> None:
    given = iter(["[", start])
    endless = itertools.chain(
        given, itertools.repeat("9" * (1 << 20)) if start != "[1," else itertools.repeat("1," * 999)
    )
    with pytest.raises(TraceError, match=f"f line 1: an element is broken, or too large: {why}"):
        list(elements(Source.of("f", endless)))


@pytest.mark.parametrize("indent", [None, 4])
def test_memory_does_not_grow_with_the_file(indent: int | None) -> None:
    entry = json.dumps(JOB, indent=indent)
    pieces = itertools.chain(["["], itertools.repeat(entry + ",\n", 5_000), [entry, "]"])
    jobs = read_philly_json([Source.of("f", pieces)], Reading())
    tracemalloc.start()
    try:
        assert sum(1 for _ in jobs) == 5_001
        assert tracemalloc.get_traced_memory()[1] < 1_000_000 < 5_000 * len(entry)
    finally:
        tracemalloc.stop()


def test_half_a_character_is_shown_as_none(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(
        json.dumps([JOB | {"jobid": "\ud800", "user": "a\udfffb"}, JOB | {"status": "\ud801"}])
    )
    trace = open_trace(tmp_path / "log")
    assert [(job.id, job.user) for job in trace.jobs] == [("unknown", "a b")]
    assert "\n".join(trace.notes()).encode()


def test_numbers_of_any_length_are_texts() -> None:
    text = f"[{'9' * 5000}, 1e999999999999999999, NaN, -0.5]"
    assert [value for _, value in elements(Source.of("f", [text]))] == [
        "9" * 5000,
        "1e999999999999999999",
        "NaN",
        "-0.5",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.text(max_size=20) | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.lists(JSON, max_size=12),
    st.sampled_from([None, 1, 4]),
    st.lists(st.integers(1, 40), max_size=60),
    st.sampled_from([1, 7, 1 << 16]),
)
def test_elements_are_those_of_the_whole_however_it_is_cut(
    values: list[object], indent: int | None, cuts: list[int], chunk: int
) -> None:
    text = json.dumps(values, indent=indent)
    pieces, rest = [], text
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK", chunk)
        found = list(elements(Source.of("f", [piece for piece in (*pieces, rest) if piece])))
    assert [value for _, value in found] == json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    if indent is None:
        assert all(line == 1 for line, _ in found)
    else:
        lines = text.splitlines()
        assert all(lines[line - 1].startswith(" " * indent) for line, _ in found)
        assert len({line for line, _ in found}) == len(found)


@pytest.mark.parametrize("indent", [None, 4])
def test_a_file_of_one_line_is_read_in_pieces(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "cluster_job_log"
    entries = [JOB | {"jobid": f"j{i}", "attempts": ONE * 20} for i in range(1000)]
    path.write_text(json.dumps(entries, indent=indent))
    trace = open_trace(path)
    assert (trace.reading.format, len(trace.jobs)) == ("philly-json", 1000)
    if indent is None:
        looked_at = [sum(map(len, source.head())) for source in open_sources(path)]
        assert looked_at == [1 << 20] and path.stat().st_size > 2 << 20
