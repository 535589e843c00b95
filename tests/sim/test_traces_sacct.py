"""The reader of sacct's reports."""

from __future__ import annotations

import pytest

from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.sim.traces import End, Reading, TraceError, TraceJob, slurm
from tenure.sim.traces.files import Source
from tenure.sim.traces.records import BadRow
from tenure.sim.traces.sacct import read_sacct
from tenure.units import parse_time

HEADER = "JobID|User|Account|State|ExitCode|Submit|Start|End|Elapsed|Timelimit|ReqTRES|AllocTRES"
ROW = {
    "JobID": "100",
    "User": "ada",
    "Account": "vision",
    "State": "COMPLETED",
    "ExitCode": "0:0",
    "Submit": "2026-01-05T08:00:00",
    "Start": "2026-01-05T09:00:00",
    "End": "2026-01-05T11:00:00",
    "Elapsed": "02:00:00",
    "Timelimit": "1-00:00:00",
    "ReqTRES": "billing=8,cpu=64,gres/gpu=8,mem=512G,node=1",
    "AllocTRES": "billing=8,cpu=64,gres/gpu:a100=8,gres/gpu=8,mem=512G,node=1",
}


def row(**changes: str) -> str:
    return "|".join({**ROW, **changes}.values())


def read(*lines: str, header: str = HEADER) -> tuple[list[TraceJob], Reading]:
    reading = Reading()
    text = "\n".join([header, *lines]).splitlines(keepends=True)
    jobs = list(read_sacct([Source.of("report.txt", text)], reading))
    assert reading.accounted == reading.rows
    assert reading.kept == len(jobs)
    return jobs, reading


def test_a_job() -> None:
    jobs, reading = read(row())
    submitted = parse_time("2026-01-05T08:00:00Z")
    assert jobs == [TraceJob("100", submitted, 2 * HOUR, 8, "vision", "ada", End.COMPLETED, 0, DAY, waited=HOUR)]
    assert (reading.rows, reading.kept, reading.dated) == (1, 1, True)
    assert not reading.oddities


def test_columns_in_any_order_and_case_and_with_a_closing_bar() -> None:
    jobs, _ = read(
        "gres/gpu=2|90|1767600000|61|100|normal|",
        header="AllocTRES|TimelimitRaw|Submit|elapsedraw|JobIDRaw|Partition|",
    )
    assert jobs == [TraceJob("100", 1_767_600_000_000, 61 * SECOND, 2, "normal", "unknown", timeout=90 * MINUTE)]


def test_runtime_from_start_and_end_when_there_is_no_elapsed() -> None:
    header = "JobID|State|Submit|Start|End|ReqTRES"
    line = "1|COMPLETED|2026-01-05T08:00:00|2026-01-05T09:00:00|{}|gres/gpu=1"
    jobs, reading = read(
        line.format("2026-01-05T09:30:00"),
        line.format("Unknown").replace("1|COMPLETED", "2|RUNNING"),
        line.format("2026-01-05T08:59:59").replace("1|", "3|", 1),
        header=header,
    )
    assert [job.runtime for job in jobs] == [30 * MINUTE]
    assert reading.left_out == {"has no end yet, and the report no Elapsed": 1}
    assert reading.bad == {"End is before Start": 1}


@pytest.mark.parametrize(
    ("text", "end", "code"),
    [
        ("COMPLETED", End.COMPLETED, 0),
        ("FAILED", End.FAILED, 1),
        ("TIMEOUT", End.TIMEOUT, 0),
        ("CANCELLED by 1000", End.CANCELLED, 1),
        ("PREEMPTED", End.PREEMPTED, 0),
        ("NODE_FAIL", End.HOST_FAILED, 0),
        ("OUT_OF_MEMORY", End.FAILED, 1),
        ("REQUEUED", End.PREEMPTED, 0),
        ("RESIZING", End.RUNNING, 0),
        ("RUNNING", End.RUNNING, 0),
        ("SUSPENDED", End.RUNNING, 0),
        ("BOOT_FAIL", End.HOST_FAILED, 0),
        ("DEADLINE", End.CANCELLED, 1),
    ],
)
def test_states(text: str, end: End, code: int) -> None:
    jobs, _ = read(row(State=text))
    assert (jobs[0].end, jobs[0].exit_code) == (end, code)


def test_exit_codes_and_signals() -> None:
    jobs, reading = read(
        row(State="FAILED", ExitCode="2:0"),
        row(JobID="101", State="CANCELLED by 7", ExitCode="0:15"),
        row(JobID="102", State="FAILED", ExitCode="two"),
    )
    assert [job.exit_code for job in jobs] == [2, 143]
    assert reading.bad == {"ExitCode is not code:signal": 1}


def test_what_still_runs_counts_for_as_long_as_it_ran() -> None:
    jobs, reading = read(row(State="RUNNING", End="Unknown", Elapsed="3-00:00:01"))
    assert jobs[0].runtime == 3 * DAY + SECOND
    assert reading.oddities == {"still running when the report was made: taken as ended then": 1}


def test_arrays_steps_and_what_never_ran() -> None:
    jobs, reading = read(
        row(JobID="123_4"),
        row(JobID="123_4.batch", User="", Account=""),
        row(JobID="123_4.0"),
        row(JobID="123.extern"),
        row(JobID="123_[5-9%2]", State="PENDING", Start="Unknown", End="Unknown", Elapsed="00:00:00"),
        row(JobID="124", State="PENDING", Start="Unknown", End="Unknown", Elapsed="00:00:00"),
        row(JobID="125", State="CANCELLED by 0", Start="None", End="2026-01-05T09:00:00", Elapsed="00:00:00"),
        row(JobID="126", ReqTRES="cpu=4,mem=8G", AllocTRES="cpu=4,mem=8G"),
        row(JobID="12x"),
        row(JobID="127", State="LOST"),
        row(JobID="128", Submit="Unknown"),
        row(JobID="129", Submit="tomorrow"),
        row(JobID="130", Elapsed="2 h"),
        row(JobID="131") + "|more",
    )
    assert [job.id for job in jobs] == ["123_4"]
    assert reading.left_out == {"a step of a job": 3, "never ran": 3, "no GPUs": 1}
    assert reading.bad == {
        "JobID is unreadable": 1,
        "State is unknown": 1,
        "Submit is unknown": 1,
        "Submit is not a time": 1,
        "Elapsed is not a duration": 1,
        "wrong number of fields": 1,
    }
    assert "is there a | in a job's name?" in reading.examples[-1].why


def test_the_last_run_of_a_requeued_job_counts_from_its_first_submission() -> None:
    last = row(Submit="2026-01-05T10:00:00", Start="2026-01-05T12:00:00", Elapsed="05:00:00")
    first = row(State="NODE_FAIL", Elapsed="01:00:00")
    waiting = row(State="PENDING", Start="Unknown", Elapsed="00:00:00")
    for lines in ((first, last), (last, first), (first, last, first, waiting)):
        jobs, reading = read(*lines)
        assert [(job.submitted, job.runtime, job.end) for job in jobs] == [
            (parse_time("2026-01-05T08:00:00Z"), 5 * HOUR, End.COMPLETED)
        ]
        assert jobs[0].earlier == 8 * HOUR  # once, though it stands there twice
        again = "another run or record of the same job"
        assert reading.left_out[again] == len([line for line in lines if line != waiting]) - 1


def test_the_same_run_in_two_reports_is_no_earlier_run() -> None:
    running = row(State="RUNNING", End="Unknown", Elapsed="01:30:00")
    for lines in ((running, row()), (row(), running)):
        jobs, _ = read(*lines)
        assert [(job.runtime, job.earlier) for job in jobs] == [(2 * HOUR, 0)]


def test_earlier_runs_of_each_part_of_a_heterogeneous_job_add_up() -> None:
    later = {"Submit": "2026-01-05T12:00:00", "Start": "2026-01-05T13:00:00"}
    parts = [(f"200+{part}", ReqTRES) for part, ReqTRES in enumerate(("gres/gpu=8", "gres/gpu=1"))]
    lines = [row(JobID=id, ReqTRES=tres, **when) for when in ({}, later) for id, tres in parts]
    jobs, _ = read(*lines)
    assert [(job.gpus, job.gpu_ms, job.earlier) for job in jobs] == [(9, 18 * HOUR, 18 * HOUR)]


def test_the_same_id_of_another_user_is_another_job() -> None:
    jobs, _ = read(row(), row(User="bob"))
    assert [job.user for job in jobs] == ["ada", "bob"]


def test_parts_of_a_heterogeneous_job_are_one_job() -> None:
    jobs, reading = read(
        row(JobID="200+1", ReqTRES="gres/gpu=16", Elapsed="03:00:00"),
        row(JobID="200+0", ReqTRES="gres/gpu=8"),
        row(JobID="200+0.batch"),
        row(JobID="200+2", ReqTRES="cpu=4", AllocTRES="cpu=4"),
    )
    assert [(job.id, job.gpus, job.runtime) for job in jobs] == [("200", 24, 3 * HOUR)]
    assert reading.left_out["a further part of a heterogeneous job, added to its first"] == 1
    assert reading.left_out["no GPUs"] == 1


def test_gpus_that_were_allocated_without_being_asked_for_are_told() -> None:
    jobs, reading = read(row(ReqTRES="cpu=4"), row(JobID="101", ReqTRES=""))
    assert [job.gpus for job in jobs] == [8, 8]
    assert reading.oddities == {"no GPUs were asked for, but some allocated: taken as asked for": 1}


def test_a_header_in_the_middle_of_joined_reports() -> None:
    other = "Submit|JobID|State|Elapsed|ReqTRES"
    jobs, reading = read(row(), HEADER, row(JobID="101"), other, "2026-01-05T08:00:00|102|COMPLETED|10:00|gres/gpu=1")
    assert [(job.id, job.runtime) for job in jobs] == [("100", 2 * HOUR), ("101", 2 * HOUR), ("102", 10 * MINUTE)]
    assert reading.rows == 3


def test_a_row_that_says_jobid_is_no_header() -> None:
    jobs, reading = read(row(User="JobID"))
    assert [job.user for job in jobs] == ["JobID"]
    assert reading.kept == 1


def test_a_report_that_lacks_something_says_what_to_ask_for() -> None:
    with pytest.raises(TraceError, match=r"no Submit, no Elapsed \(or Start and End\), no AllocTRES or ReqTRES"):
        read(header="JobID|State")
    with pytest.raises(TraceError, match="no header line with JobID before '100'"):
        read(header="100")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1-00:00:00", DAY),
        ("10-12:30:05", 10 * DAY + 12 * HOUR + 30 * MINUTE + 5 * SECOND),
        ("02:00:00", 2 * HOUR),
        ("30:00", 30 * MINUTE),
        ("00:01.250", SECOND),
        ("2-12", 2 * DAY + 12 * HOUR),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
        ("", None),
    ],
)
def test_durations(text: str, ms: int | None) -> None:
    assert slurm.duration(text, "Timelimit") == ms


@pytest.mark.parametrize("text", ["3", "1-", "1:2:3:4", "x", "99999-00:00:00", "-1:00:00"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(BadRow):
        slurm.duration(text, "Timelimit")


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("billing=8,cpu=64,gres/gpu=8,mem=1T,node=1", 8),
        ("gres/gpu:a100=4,gres/gpu=4", 4),
        ("gres/gpu:a100=4,gres/gpu:h100=2", 6),
        ("cpu=1,gres/gpumem=80G,gres/gpuutil=99,gres/nic=2", 0),
        ("1=4,2=34000,4=1,5=4,1002=2", 2),
        ("1=4,1001=4,1002=4", 4),
        ("1=4,1003=4,11001=9", 0),
        ("", 0),
    ],
)
def test_gpus_of_trackable_resources(text: str, gpus: int) -> None:
    assert slurm.gpus(text).count == gpus


@pytest.mark.parametrize("text", ["gres/gpu=lots", "cpu=4,gres/gpu:a100=,mem=1G", "gres/gpu", "gres/gpu=-1", "1001=x"])
def test_a_number_of_gpus_that_is_none_makes_a_bad_row(text: str) -> None:
    jobs, reading = read(row(JobID="1", ReqTRES=text), row(JobID="2", AllocTRES=text), row(JobID="3"))
    assert [job.id for job in jobs] == ["3"]
    assert reading.bad == {"GPUs in TRES are not a number": 2} and not reading.left_out
    assert f"not a number: {text.split(',')[-2 if ',' in text else 0]}" in reading.examples[0].why


@pytest.mark.parametrize("kind", ["1g.10gb", "a100_3g.20gb", "nvidia_h100_1g.12gb+me", "MIG-7G.80GB"])
def test_slices_of_gpus_are_counted_as_whole_ones_and_told(kind: str) -> None:
    asked = row(JobID="1", ReqTRES="gres/gpu=2", AllocTRES=f"gres/gpu=2,gres/gpu:{kind}=2")
    jobs, reading = read(asked, row(JobID="2", ReqTRES=f"gres/gpu:{kind}=3"), row(JobID="3"))
    assert [job.gpus for job in jobs] == [2, 3, 8]
    assert reading.oddities == {"MIG slices counted as whole GPUs": 2}


def test_jobs_on_shards_are_not_among_those_without_gpus() -> None:
    jobs, reading = read(
        row(JobID="1", ReqTRES="cpu=1,gres/shard=4", AllocTRES="cpu=1,gres/shard:a100=4,gres/shard=4"),
        row(JobID="2", ReqTRES="cpu=1", AllocTRES="cpu=1"),
        row(JobID="3", ReqTRES="gres/gpu=1,gres/shard=4"),
        row(JobID="4", ReqTRES="gres/shard=few"),
    )
    assert [(job.id, job.gpus) for job in jobs] == [("3", 1)]
    assert reading.left_out == {"on shards of GPUs (gres/shard), which are not counted": 1, "no GPUs": 1}
    assert reading.bad == {"GPUs in TRES are not a number": 1}
