"""The readers of Helios, Acme and Alibaba's PAI, on rows of the published shapes that nobody's cluster ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.sim.traces import End, Reading, TraceError, TraceJob, open_trace
from tenure.sim.traces.acme import read_acme
from tenure.sim.traces.files import Source
from tenure.sim.traces.helios import read_helios
from tenure.sim.traces.pai2020 import COLUMNS, TABLES, read_pai2020
from tenure.sim.traces.pai2023 import read_pai2023
from tenure.sim.traces.trace import Reader
from tenure.units import parse_time


def read(reader: Reader, files: dict[str, str]) -> tuple[dict[str, TraceJob], Reading]:
    reading = Reading(path="folder")
    jobs = list(reader([Source.of(name, text.splitlines(keepends=True)) for name, text in files.items()], reading))
    assert reading.accounted == reading.rows
    assert reading.kept == len(jobs)
    return {job.id: job for job in jobs}, reading


HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1425511,uXBbc,vcJkd,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
1425512,uVMrF,vchbv,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0
1425513,uzqls,vcpDC,0,1,1,CANCELLED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-17 14:15:21,675233,0
1425514,uzqls,vcpDC,32,1,4,CANCELLED,2020-06-09 18:41:28,2020-06-09 18:42:28,2020-06-09 18:42:28,0,60
1425515,uzqls,vcpDC,8,1,1,TIMEOUT,2020-06-09 18:41:28,2020-06-09 18:42:28,2020-06-23 18:42:28,1209600,60
1425516,uzqls,vcpDC,8,1,1,NODE_FAIL,2020-06-09 18:41:28,2020-06-09 18:42:28,2020-06-09 18:43:28,50,60
1425517,uzqls,vcpDC,8,1,1,RUNNING,2020-09-20 10:00:00,2020-09-20 10:00:00,,3600,0
1425518,uzqls,vcpDC,8,1,1,RUNNING,2020-09-20 10:00:00,2020-09-20 10:00:00,,,0
1425519,uzqls,vcpDC,8,1,1,COMPLETED,2020-09-20 10:00:00,2020-09-20 10:00:00,2020-09-20 09:00:00,-3600,0
1425520,uzqls,vcpDC,8,1,1,DONE,2020-09-20 10:00:00,2020-09-20 10:00:00,2020-09-20 11:00:00,3600,0
1425521,uzqls,vcpDC,8,1,1,COMPLETED,,2020-09-20 10:00:00,2020-09-20 11:00:00,3600,0
1425522,uzqls,vcpDC,8,1,1,COMPLETED,2020-09-20 10:00:00,2020-09-20 10:00:00,2020-09-20 11:00:00
1425523,uzqls,vcpDC,8,1,1,COMPLETED,2020-09-20 10:00:00,2020-09-20 10:00:00,2020-09-20 10:00:00,0,0
"""


def test_helios() -> None:
    jobs, reading = read(read_helios, {"cluster_log.csv": HELIOS})
    at = parse_time("2020-06-09T18:41:01Z")
    assert jobs["1425511"] == TraceJob("1425511", at, 36848 * SECOND, 1, "vcJkd", "uXBbc", End.COMPLETED, waited=0)
    assert jobs["1425512"] == TraceJob(
        "1425512", at + 26 * SECOND, 249 * SECOND, 4, "vchbv", "uVMrF", End.FAILED, 1, waited=0
    )
    assert {name[-2:]: (job.end, job.runtime) for name, job in list(jobs.items())[2:]} == {
        "15": (End.TIMEOUT, 14 * DAY),
        "16": (End.HOST_FAILED, MINUTE),
        "17": (End.RUNNING, HOUR),
        "23": (End.COMPLETED, SECOND),
    }
    assert reading.dated
    assert reading.left_out == {"no GPUs": 1, "never ran": 1, "no end is known": 1}
    assert reading.oddities == {
        "duration is not from start_time to end_time: those count": 1,
        "still running when the log was taken: taken as ended then": 1,
    }
    assert reading.bad == {
        "duration is out of range": 1,
        "State is unknown": 1,
        "submit_time is unknown": 1,
        "wrong number of fields": 1,
    }
    assert [example.line for example in reading.examples] == [10, 11, 12, 13]


SEREN = """\
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
5778432,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,\
32,936.0
5778469,u5907,1,0,128,Other,COMPLETED,2023-03-01 00:23:58+08:00,2023-03-01 00:24:11+08:00,2023-03-01 01:09:04+08:00,\
2693,13,0.0
"""
KALOS = """\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,\
fail_time,stop_time,duration,queue,gpu_time
dlctk696s0jbvitv,uf794,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,\
2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0
dlc1t2ypl09b8qtp,uf794,8,64,960,1000,100.0,Other,CANCELLED,2023-05-17 11:28:42+00:00,2023-05-17 11:28:54+00:00,\
2023-05-17 11:30:04+00:00,,2023-05-17 11:30:04+00:00,82,12.0,5248.0
dlcneverstarted1,uf794,8,64,960,1000,100.0,SFT,CANCELLED,2023-05-17 11:28:42+00:00,,2023-05-17 11:30:04+00:00,,\
2023-05-17 11:30:04+00:00,82,,
"""


def test_acme_has_zones_and_kalos_counts_the_wait_into_durations() -> None:
    jobs, reading = read(read_acme, {"trace_seren.csv": SEREN, "trace_kalos.csv": KALOS})
    assert list(jobs.values()) == [
        TraceJob(
            "5778432",
            parse_time("2023-02-28T16:18:22Z"),
            117 * SECOND,
            8,
            "u5907",
            "u5907",
            End.FAILED,
            1,
            waited=32 * SECOND,
        ),
        TraceJob(
            "dlctk696s0jbvitv",
            parse_time("2023-05-17T11:00:58Z"),
            8 * SECOND,
            64,
            "uf794",
            "uf794",
            End.FAILED,
            exit_code=1,
            waited=10 * SECOND,
        ),
        TraceJob(
            "dlc1t2ypl09b8qtp",
            parse_time("2023-05-17T11:28:42Z"),
            70 * SECOND,
            64,
            "uf794",
            "uf794",
            End.CANCELLED,
            waited=12 * SECOND,
        ),
    ]
    assert reading.left_out == {"no GPUs": 1, "never ran": 1}
    assert reading.oddities == {"duration is not from start_time to end_time: those count": 2}


PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0001,6000,12288,1,460,,LS,Running,427061,12902960,427061
openb-pod-0017,88000,327680,8,1000,,Burstable,Succeeded,9437497,10769854,9437497
openb-pod-0035,16000,32768,1,1000,V100M16|V100M32,LS,Failed,9967058,9968575,9967063
openb-pod-0061,11908,47104,1,1000,,BE,Pending,10001278,10001403,
openb-pod-0005,20000,65536,0,0,,LS,Running,2759674,12902960,2759676
openb-pod-0006,20000,65536,1,0,,LS,Running,2759674,12902960,2759676
openb-pod-0007,20000,65536,1,1000,,LS,Lost,2759674,12902960,2759676
openb-pod-0008,20000,65536,1,1000,,LS,Running,2759674,,2759676
"""


def test_pai_2023_rounds_shared_gpus_up() -> None:
    jobs, reading = read(read_pai2023, {"openb_pod_list_default.csv": PODS})
    assert list(jobs.values()) == [
        TraceJob("openb-pod-0001", 427_061 * SECOND, 12_475_899 * SECOND, 1, "LS", "LS", End.CANCELLED, waited=0),
        TraceJob(
            "openb-pod-0017",
            9_437_497 * SECOND,
            1_332_357 * SECOND,
            8,
            "Burstable",
            "Burstable",
            End.COMPLETED,
            waited=0,
        ),
        TraceJob("openb-pod-0035", 9_967_058 * SECOND, 1512 * SECOND, 1, "LS", "LS", End.FAILED, 1, waited=5 * SECOND),
    ]
    assert not reading.dated
    assert reading.left_out == {"never ran": 1, "no GPUs": 1, "no end is known": 1}
    assert reading.oddities == {"GPUs in parts: rounded up to whole ones": 1}
    assert reading.bad == {"gpu_milli is out of range": 1, "pod_phase is unknown": 1}


JOBS = """\
whole,i1,ann,Terminated,86400.0,90000.0
parts,i2,bob,Failed,86500.0,
cpus,i3,bob,Terminated,86500.0,90000.0
alone,i4,bob,Terminated,86500.0,90000.0
waits,i5,bob,Waiting,86500.0,
runs,i6,bob,Running,86500.0,
whole,i1,ann,Terminated,86400.0,90000.0
odd,i7,bob,Done,86400.0,90000.0
early,i8,bob,Terminated,86400.0,80000.0
short,i9
"""
TASKS = """\
whole,ps,2.0,Terminated,86410.0,90000.0,600.0,29.296875,0.0,
whole,worker,4.0,Terminated,86420.0,89000.0,600.0,29.296875,200.0,V100
parts,tensorflow,3.0,Failed,86600.0,87000.0,600.0,29.296875,50.0,MISC
parts,evaluator,1.0,Failed,86700.0,88000.0,600.0,29.296875,25.0,MISC
cpus,worker,4.0,Terminated,86410.0,90000.0,600.0,29.296875,,
waits,worker,1.0,Waiting,,,600.0,29.296875,100.0,T4
runs,worker,1.0,Running,86600.0,,600.0,29.296875,100.0,T4
odd,worker,1.0,Running,86600.0,,600.0,29.296875,100.0,T4
whole,worker,4.0,Terminated,86420.0,89000.0,600.0,29.296875,200.0,V100
early,worker,1.0,Terminated,86600.0,80000.0,600.0,29.296875,100.0,T4
bad,worker,some,Running,86600.0,,600.0,29.296875,100.0,T4
"""
INSTANCES = """\
whole,worker,n1,w1,i1,Terminated,86500.0,88000.0,m1
whole,worker,n2,w2,i1,Terminated,86480.0,88900.0,m2
whole,ps,n3,w3,i1,Terminated,86411.0,90000.0,m2
whole,worker,n4,w4,i1,Failed,,,m2
"""
PAI = dict(zip((f"{table}.csv" for table in TABLES), (JOBS, TASKS, INSTANCES), strict=True))


def test_pai_2020_joins_its_tables() -> None:
    jobs, reading = read(read_pai2020, PAI)
    zone = 8 * HOUR
    assert jobs == {
        # 4 x 2 GPUs, from the first start to the last end of its workers
        "whole": TraceJob("whole", DAY + zone, 2420 * SECOND, 8, "ann", "ann", End.COMPLETED, waited=80 * SECOND),
        # 3 x 1/2 + 1/4, from the tasks' own times
        "parts": TraceJob(
            "parts", DAY + 100 * SECOND + zone, 1400 * SECOND, 2, "bob", "bob", End.FAILED, 1, waited=100 * SECOND
        ),
    }
    assert reading.dated
    assert reading.left_out == {
        "a task, part of its job": 8,
        "a task of a job without a good row in the job table": 1,
        "an instance, part of its task": 4,
        "a job or task that had a row before": 2,
        "no GPUs": 2,
        "never ran": 1,
        "no end is known": 1,
    }
    assert reading.oddities == {
        "GPUs in parts: rounded up to whole ones": 1,
        "no instance is known: runtime from the task, which may include a wait": 1,
    }
    assert reading.bad == {
        "status is unknown": 1,
        "wrong number of fields": 1,
        "inst_num is not a number": 1,
        "end is before start": 1,
    }
    assert {(example.file, example.line) for example in reading.examples} == {
        ("pai_job_table.csv", 8),
        ("pai_job_table.csv", 9),
        ("pai_job_table.csv", 10),
        ("pai_task_table.csv", 11),
    }


def test_pai_2020_does_not_depend_on_the_order_of_its_files() -> None:
    jobs, reading = read(read_pai2020, dict(reversed(PAI.items())))
    assert (jobs, reading.left_out) == (read(read_pai2020, PAI)[0], read(read_pai2020, PAI)[1].left_out)


def test_pai_2020_tells_its_tables_by_their_names_and_else_by_their_columns(tmp_path: Path) -> None:
    for name, text in PAI.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name.replace(".csv", ".header")).write_text(",".join(COLUMNS[name[:-4]]) + "\n")
    (tmp_path / "pai_machine_spec.csv").write_text("82e5af3cd5c4af3f56c62c54,T4,96,512,2\n")
    trace = open_trace(tmp_path)
    assert (trace.reading.format, sorted(trace.reading.files)) == ("pai-2020", sorted(PAI))
    assert len(trace.reading.skipped_files) == 4
    assert trace.origin == DAY  # midnight in Shanghai, of a day that is made up
    assert [job.id for job in trace.jobs] == ["whole", "parts"]
    assert open_trace(tmp_path, "pai-2020").jobs == trace.jobs
    renamed = {"a": JOBS, "b": TASKS, "c": ",".join(COLUMNS[TABLES[2]]) + "\n" + INSTANCES}
    assert read(read_pai2020, renamed)[0] == read(read_pai2020, PAI)[0]


def test_pai_2020_needs_both_tables(tmp_path: Path) -> None:
    (tmp_path / "pai_task_table.csv").write_text(TASKS)
    with pytest.raises(TraceError, match=r"pai_task_table\.csv: no pai_job_table: give the folder that has both"):
        open_trace(tmp_path / "pai_task_table.csv")
    with pytest.raises(TraceError, match="it starts with 'a,b', and is none of pai_job_table, pai_task_table"):
        read(read_pai2020, {"x": "a,b\n"})
