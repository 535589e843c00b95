"""The readers of tables and of SWF, on rows of the published shapes that nobody's cluster ran."""

from __future__ import annotations

import pytest

from tenure.core.model import HOUR, MINUTE, SECOND
from tenure.sim.traces import End, Reading, TraceError, TraceJob
from tenure.sim.traces.files import Source
from tenure.sim.traces.itp import read_itp
from tenure.sim.traces.philly import read_philly
from tenure.sim.traces.supercloud import COLUMNS, read_supercloud
from tenure.sim.traces.swf import read_swf
from tenure.sim.traces.trace import Reader
from tenure.units import parse_time


def read(reader: Reader, *files: tuple[str, str]) -> tuple[list[TraceJob], Reading]:
    reading = Reading()
    jobs = list(reader([Source.of(name, text.splitlines(keepends=True)) for name, text in files], reading))
    assert reading.accounted == reading.rows
    assert reading.kept == len(jobs)
    return jobs, reading


ITP = "job_id,submission_time,duration,num_gpu\n"


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_stray_quote_costs_one_row(place: int) -> None:
    rows = [[f"j{i}", str(i), "600", "1"] for i in range(1, 1001)]
    rows[499][place] = '"' + rows[499][place]
    jobs, reading = read(read_itp, ("c.csv", ITP + "".join(",".join(row) + "\n" for row in rows)))
    assert [job.id for job in jobs] == [f"j{i}" for i in range(1, 1001) if i != 500]
    assert reading.bad.total() == 1
    (example,) = reading.examples
    assert (example.line, example.text) == (501, ",".join(rows[499]))


def test_quotes_that_end_are_taken_off() -> None:
    jobs, reading = read(read_itp, ("c.csv", ITP + '"a,b","60",600,"1"\n\n"c""d",0,600,1\n'))
    assert [job.id for job in jobs] == ["a,b", 'c"d'] and not reading.bad


def test_itp_takes_the_cluster_for_the_team() -> None:
    jobs, reading = read(
        read_itp, ("cluster01.csv", ITP + "a,1999,13423,1\nb,2000,600,64\n"), ("cluster02.csv", ITP + "c,0,601.5,2\n")
    )
    assert jobs == [
        TraceJob("a", 1999 * SECOND, 13423 * SECOND, 1, "cluster01", "cluster01"),
        TraceJob("b", 2000 * SECOND, 600 * SECOND, 64, "cluster01", "cluster01"),
        TraceJob("c", 0, 602 * SECOND, 2, "cluster02", "cluster02"),
    ]
    assert reading.files == ["cluster01.csv", "cluster02.csv"]
    assert not reading.dated


def test_bad_rows_are_counted_by_reason_with_the_first_as_examples() -> None:
    rows = ["a,1,600,x", "b,1,600,y", "c,1,600,z", "d,1,600,q", "e,1,600", f"f,1,{'9' * 400},1", "g,-1,600,1"]
    jobs, reading = read(
        read_itp, ("c.csv", ITP + "\n".join([*rows, "h,1,600,0", "i,1,600,1.5", "j,nan,1,1", "k,1,0,1"]))
    )
    assert jobs == []
    assert reading.rows == 11
    assert reading.bad == {
        "num_gpu is not a number": 4,
        "wrong number of fields": 1,
        "duration is out of range": 1,
        "submission_time is out of range": 2,
        "num_gpu is not a whole number": 1,
    }
    assert reading.left_out == {"no GPUs": 1, "never ran": 1}
    first = reading.examples[0]
    assert (first.file, first.line, first.text) == ("c.csv", 2, "a,1,600,x")
    assert str(first) == "c.csv line 2: num_gpu is not a number: x: 'a,1,600,x'"
    assert sum("num_gpu is not a number" in example.why for example in reading.examples) == 3
    assert max(len(example.text) for example in reading.examples) == 80


def test_a_table_without_a_column_is_refused_by_name() -> None:
    with pytest.raises(TraceError, match=r"c\.csv: no column num_gpu in its header 'job_id,submission_time,duration'"):
        read(read_itp, ("c.csv", "job_id,submission_time,duration\na,1,2\n"))


def test_philly_drops_rows_that_were_there_before_and_names_jobs_by_line() -> None:
    text = (
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-09 07:01:55,66.0,1,66.0,aa\n"
        "2017-10-03 00:00:00,100.0,4,400.0,bb\n"
        "2017-10-09 07:01:55,66.0,1,66.0,aa\n"
        "2017-10-09 07:01:55,66.0,1,66.0,bb\n"
        "yesterday,66.0,1,66.0,bb\n"
        "\n"
    )
    jobs, reading = read(read_philly, ("philly.csv", text))
    assert [(job.id, job.team, job.gpus) for job in jobs] == [
        ("philly:2", "aa", 1),
        ("philly:3", "bb", 4),
        ("philly:5", "bb", 1),
    ]
    assert jobs[0].submitted == parse_time("2017-10-09T07:01:55Z")
    assert reading.rows == 5
    assert reading.left_out == {"the same row again": 1}
    assert reading.bad == {"timestamp is not a time": 1}
    assert reading.dated


def supercloud(**changes: str) -> str:
    row = {
        "id_job": "58578600000000.0",
        "id_user": "4277.0",
        "state": "3",
        "exit_code": "0",
        "timelimit": "1440",
        "time_submit": "1612560915",
        "time_start": "1612560920",
        "time_end": "1612561378",
        "tres_alloc": '"1=40,2=340000,4=1,5=40,1002=2"',
        "tres_req": '"1=1,2=8500,4=1,5=1,1002=1"',
    }
    return ",".join({**row, **changes}[name] for name in COLUMNS)


def test_supercloud_reads_numbers_of_the_accounting_table() -> None:
    rows = [
        supercloud(),
        supercloud(state="5", exit_code="33280", timelimit="4294967295"),
        supercloud(state="4", exit_code="15", timelimit="4294967294"),
        supercloud(state="6", tres_req='"1=1,4=1"'),
        supercloud(tres_req='"1=1,4=1"', tres_alloc='"1=1,4=1"'),
        supercloud(state="0", time_start="0", time_end="0"),
        supercloud(state="12"),
        supercloud(time_end="1612560919"),
    ]
    jobs, reading = read(read_supercloud, ("log.csv", "\n".join([",".join(COLUMNS), *rows])))
    assert jobs[0] == TraceJob(
        "58578600000000",
        1_612_560_915 * SECOND,
        458 * SECOND,
        1,
        "user-4277",
        "user-4277",
        End.COMPLETED,
        0,
        24 * HOUR,
        waited=5 * SECOND,
    )
    assert [(job.end, job.exit_code, job.timeout, job.gpus) for job in jobs[1:]] == [
        (End.FAILED, 130, None, 1),
        (End.CANCELLED, 143, None, 1),
        (End.TIMEOUT, 0, 24 * HOUR, 2),
    ]
    assert reading.left_out == {"no GPUs": 1, "never ran": 1}
    assert reading.bad == {"state is out of range": 1, "time_end is before time_start": 1}
    assert reading.oddities == {"no GPUs were asked for, but some allocated: taken as asked for": 1}


SWF = """\
; Version: 2.2
;   UnixStartTime: 1041379200
; MaxProcs: 128
   1  0  10  3600  8  -1 -1  4  7200 -1 1  3 2 -1 -1 -1 -1 -1
   2 60  -1   0.4 -1  -1 -1 16    -1 -1 0 -1 -1 -1 5 -1 -1 -1

   3 61   5    -1  4  -1 -1  4   100 -1 5  3 2 -1 -1 -1 -1 -1
   4 62   5     0  4  -1 -1  4   100 -1 5  3 2 -1 -1 -1 -1 -1
   5 63   5  3600  4  -1 -1  4   100 -1 2  3 2 -1 -1 -1 -1 -1
   6 64   5  3600 -1  -1 -1 -1   100 -1 1  3 2 -1 -1 -1 -1 -1
   7 65   5  3600  4  -1 -1 -1     0 -1 5  3 -1 -1 -1 -1 -1 -1
   8 66   5  3600  4
   9 67   5  3600  4  -1 -1  4   100 -1 9  3 2 -1 -1 -1 -1 -1
"""


def test_swf_by_its_definition() -> None:
    jobs, reading = read(read_swf, ("log.swf", SWF))
    zero = parse_time("2003-01-01T00:00:00Z")
    assert jobs == [
        TraceJob("1", zero, HOUR, 4, "group2", "user3", End.COMPLETED, 0, 2 * HOUR, waited=10 * SECOND),
        TraceJob("2", zero + MINUTE, SECOND, 16, "queue5", "queue5", End.FAILED, 1, None),
        TraceJob("7", zero + 65 * SECOND, HOUR, 4, "all", "user3", End.CANCELLED, 0, None, waited=5 * SECOND),
    ]
    assert reading.dated
    assert reading.left_out == {
        "no run time": 1,
        "never ran": 1,
        "a part of a job that has a line of its own": 1,
        "no GPUs": 1,
    }
    assert reading.bad == {"wrong number of fields": 1, "status is unknown": 1}


def test_swf_without_a_date_counts_from_its_zero() -> None:
    jobs, reading = read(read_swf, ("log.swf", "; no date\n" + SWF.splitlines()[4]))
    assert [job.submitted for job in jobs] == [MINUTE]
    assert not reading.dated


def test_notes_account_for_everything() -> None:
    _, reading = read(read_swf, ("log.swf", SWF))
    reading.path, reading.format = "log.swf", "swf"
    notes = reading.notes()
    assert notes[0] == "log.swf (swf): 9 rows, 3 jobs"
    assert "left out: 1 x never ran" in notes
    assert "bad: 1 x status is unknown" in notes
    assert any(note.startswith("bad row: log.swf line 13: status is unknown: 9") for note in notes)
