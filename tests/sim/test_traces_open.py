"""Opening traces: compression, archives, folders, and which format it is."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.sim.traces import READERS, Trace, TraceError, TraceOptions, Window, open_trace
from tenure.sim.traces.files import Source, open_sources
from tenure.units import parse_time

ITP = "job_id,submission_time,duration,num_gpu\na,60,7200,8\nb,0,3600,1\nc,172800,3600,1\n"
PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-04 06:00:00,60.0,1,60.0,x\n2017-10-03 18:00:00,60,2,120,y\n"
)
SACCT = "JobID|Submit|Elapsed|AllocTRES\n1|2026-01-05T08:00:00|01:00:00|gres/gpu=1\n"
SWF = "; UnixStartTime: 0\n1 0 0 60 2 -1 -1 2 60 -1 1 1 1 -1 1 -1 -1 -1\n"
SUPERCLOUD = (
    "id_job,id_user,exit_code,state,timelimit,time_submit,time_start,time_end,tres_alloc,tres_req\n"
    '1.0,2.0,0,3,60,1612560915,1612560915,1612561378,"1002=1","1002=1"\n'
)
HELIOS = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    "1,u,v,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0\n"
)
ACME = (
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
    "1,u,1,8,128,SFT,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32,936\n"
)
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "openb-pod-0001,6000,12288,1,460,,LS,Running,427061,12902960,427061\n"
)
PHILLY_JSON = """[
  {"status": "Pass", "vc": "v", "jobid": "a", "submitted_time": "2017-10-07 01:11:39", "user": "u", "attempts": [
    {"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:23", "detail": [{"ip": "m", "gpus": ["gpu0"]}]}
  ]}
]
"""
TEXTS = {
    "acme": ACME,
    "helios": HELIOS,
    "itp": ITP,
    "pai-2023": PODS,
    "philly": PHILLY,
    "philly-json": PHILLY_JSON,
    "sacct": SACCT,
    "swf": SWF,
    "supercloud": SUPERCLOUD,
}


def tar(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w:xz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"folder/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


@pytest.mark.parametrize("format", TEXTS)
def test_the_format_is_told_by_the_header(tmp_path: Path, format: str) -> None:
    path = tmp_path / "data"
    path.write_text(TEXTS[format])
    assert open_trace(path).reading.format == format
    assert open_trace(path, format).jobs == open_trace(path).jobs
    assert TEXTS.keys() == READERS.keys() - {"pai-2020"}  # which has names of files for that


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress, bytes])
def test_compression_is_told_by_the_first_bytes(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes(compress(ITP.encode()))
    assert [job.id for job in open_trace(path).jobs] == ["b", "a", "c"]


@pytest.mark.parametrize("name", ["all.tar.gz", "all.txz"])
def test_an_archive_may_hold_other_files(tmp_path: Path, name: str) -> None:
    path = tar(
        tmp_path / name, {"LICENSE": "Free\n", "one.csv": ITP, "x": PHILLY, "two.csv": ITP.replace("b,0", "d,9")}
    )
    for format in (None, "itp"):
        trace = open_trace(path, format)
        assert [(job.id, job.team) for job in trace.jobs if job.gpus == 8] == [("a", "one"), ("a#2", "two")]
        assert trace.reading.files == ["one.csv", "two.csv"]
        assert trace.reading.skipped_files == {"LICENSE": 1, "x": 1}
        assert trace.reading.oddities == {"an id that an earlier job has: numbered": 2}


def test_a_folder(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", ".hidden"):
        (tmp_path / name).write_text(ITP)
    (tmp_path / "more").mkdir()
    assert open_trace(tmp_path).reading.files == ["a.csv", "b.csv"]


def test_what_it_saw_and_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("time;gpus\n1;2\n")
    with pytest.raises(TraceError) as caught:
        open_trace(path)
    for part in ("x.csv starts with 'time;gpus'", *(f"{format} (" for format in READERS)):
        assert part in str(caught.value)
    with pytest.raises(TraceError, match="there is no trace format 'slurm'; there are: acme, helios, itp, pai-2020, "):
        open_trace(path, "slurm")
    with pytest.raises(TraceError, match="no column timestamp"):
        open_trace(path, "philly")
    with pytest.raises(TraceError, match=r"not in the format swf: .*LICENSE starts with 'Free'"):
        open_trace(tar(tmp_path / "a.tar.gz", {"LICENSE": "Free\n"}), "swf")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="none: cannot be read: No such file"):
        open_trace(tmp_path / "none")
    whole = gzip.compress("".join(f"{i},{i},600,1\n" for i in range(20_000)).encode())
    (tmp_path / "cut.csv").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceError, match=r"cut\.csv: cannot be read: .*end-of-stream"):
        open_trace(tmp_path / "cut.csv", "swf")
    (tmp_path / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceError, match=r"cut\.tar\.gz: cannot be read"):
        open_trace(tmp_path / "cut.tar.gz")
    (tmp_path / "empty").write_text("")
    with pytest.raises(TraceError, match="empty says nothing"):
        open_trace(tmp_path / "empty")


def test_bytes_that_are_not_text_and_a_mark_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes(b"\xef\xbb\xbf" + ITP.encode() + b"\xff,1,600,1\n\xff,1,\xff,1\n")
    trace = open_trace(path)
    assert [job.id for job in trace.jobs] == ["b", "�", "a", "c"]
    assert trace.reading.bad == {"duration is not a number": 1}


def test_a_source_can_be_looked_at_first() -> None:
    source = Source.of("f", ["one\n", "two\n"])
    assert source.head() == ["one\n", "two\n"]
    assert list(source.lines) == ["one\n", "two\n"]


def test_sources_come_one_by_one(tmp_path: Path) -> None:
    names = [source.name for source in open_sources(tar(tmp_path / "a.tar.gz", {"one": "1\n", "two": "2\n"}))]
    assert names == ["one", "two"]


def philly(tmp_path: Path, window: str | None = None) -> Trace:
    path = tmp_path / "philly.csv"
    path.write_text(PHILLY)
    return open_trace(path, options=TraceOptions(window=Window.parse(window) if window else None))


def test_dated_traces_start_at_midnight(tmp_path: Path) -> None:
    trace = philly(tmp_path)
    assert [(job.id, job.submitted) for job in trace.jobs] == [("philly:3", 18 * HOUR), ("philly:2", 30 * HOUR)]
    assert trace.origin == trace.reading.origin == parse_time("2017-10-03T00:00:00Z")
    assert (trace.span, trace.days) == (2 * DAY, 2)
    cut = philly(tmp_path, "2017-10-03T12:00:00Z..2017-10-03T19:00:00Z")
    assert cut.origin == parse_time("2017-10-03T12:00:00Z")
    assert [job.submitted for job in cut.jobs] == [6 * HOUR]
    assert (cut.span, cut.days) == (7 * HOUR, 1)


def test_undated_traces_keep_their_zero(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(ITP)
    trace = open_trace(tmp_path / "jobs.csv")
    assert [(job.id, job.submitted) for job in trace.jobs] == [("b", 0), ("a", MINUTE), ("c", 2 * DAY)]
    assert trace.origin is None
    assert trace.days == 3
    assert trace.supply.asked == (8 * 7200 + 3600 + 3600) * SECOND


def test_a_trace_goes_to_another_process_and_is_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(ITP)
    options = TraceOptions(add_debug=1_000_000, seed=3)
    trace = open_trace(tmp_path / "jobs.csv", options=options)
    again = pickle.loads(pickle.dumps(trace))
    assert again == trace == open_trace(tmp_path / "jobs.csv", options=pickle.loads(pickle.dumps(options)))


def test_notes_tell_everything(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(ITP + "bad\n")
    trace = open_trace(tmp_path / "jobs.csv", options=TraceOptions(window=Window.parse("..1d"), gpus=8))
    assert trace.notes() == [
        "jobs.csv (itp): 4 rows, 3 jobs",
        "bad: 1 x wrong number of fields",
        "bad row: jobs.csv line 5: wrong number of fields: 'bad'",
        "1 job: outside the window",
        "2 jobs over 1 day ask for 0.09 x the 8 GPUs",
    ]


def test_names_cannot_control_a_terminal(tmp_path: Path) -> None:
    rows = ["a\x1b[31mb,60,7200,8", "\x07,0,600,1", "plain,0,600,1", "\x1b]0;title,0,600,x\x9b2J"]
    path = tmp_path / "te\x1bam.csv"
    path.write_text("job_id,submission_time,duration,num_gpu\n" + "\n".join(rows) + "\n")
    trace = open_trace(path)
    assert [job.id for job in trace.jobs] == ["plain", "unknown", "a [31mb"]
    assert {(job.user, job.team) for job in trace.jobs} == {("te am", "te am")}
    assert trace.reading.oddities == {"a name with control characters: taken out": 3}
    assert all(line.isprintable() for line in trace.notes())
    assert any(line.startswith("bad row: te am.csv line 5: num_gpu is not a number: ") for line in trace.notes())


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_a_pipe_is_read_from_its_first_byte(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """As a shell makes one of ``<(sacct ...)``: whoever opens it again has lost what was read before."""
    pipe, text = tmp_path / "63", SACCT * 1000
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(pack(text.encode()),), daemon=True)
    writer.start()
    (source,) = (list(one.lines) for one in open_sources(pipe))
    assert "".join(source) == text
    writer.join()
