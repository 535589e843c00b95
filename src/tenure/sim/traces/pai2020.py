"""The Alibaba PAI trace of 2020 (Weng et al., NSDI 2022; cluster-trace-gpu-v2020 of alibaba/clusterdata).

CSV files without a header: ``pai_job_table`` says who submitted a job and when, ``pai_task_table`` how many instances
of what size its roles have, and ``pai_instance_table``, which may be missing, when each of those ran. A job has the
GPUs of all its tasks, from the start of the first with GPUs to the end of the last. ``plan_gpu`` is in hundredths of a
GPU and for one instance; only the sum over a job is rounded up to whole GPUs. Times are seconds whose dates are made
up: those of the day and of the week are right in Shanghai's time, which is used here. The user is the team.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil
from sys import intern

from tenure.core.model import HOUR
from tenure.sim.traces.files import Source
from tenure.sim.traces.records import BadRow, End, LeftOut, Reading, TraceError, TraceJob
from tenure.sim.traces.rows import (
    IN_PARTS,
    MAX_GPUS,
    NEVER_RAN,
    NO_END,
    NO_GPUS,
    Row,
    bare_rows,
    between,
    count,
    gpus_of,
    moment,
    number,
    ran,
)

_JOBS, _TASKS, _INSTANCES = TABLES = ("pai_job_table", "pai_task_table", "pai_instance_table")
COLUMNS = {
    _JOBS: ("job_name", "inst_id", "user", "status", "start_time", "end_time"),
    _TASKS: (
        "job_name",
        "task_name",
        "inst_num",
        "status",
        "start_time",
        "end_time",
        "plan_cpu",
        "plan_mem",
        "plan_gpu",
        "gpu_type",
    ),
    _INSTANCES: (
        "job_name",
        "task_name",
        "inst_name",
        "worker_name",
        "inst_id",
        "status",
        "start_time",
        "end_time",
        "machine",
    ),
}
_ENDS = {"Terminated": End.COMPLETED, "Failed": End.FAILED, "Running": End.RUNNING, "Waiting": End.UNKNOWN}
_WHOLE = 100
_ZONE = 8 * HOUR
_TASK = "a task, part of its job"
_INSTANCE = "an instance, part of its task"
_ORPHAN = "a task of a job without a good row in the job table"
_AGAIN = "a job or task that had a row before"
_NO_INSTANCES = "no instance is known: runtime from the task, which may include a wait"


@dataclass(slots=True)
class _Task:
    """``hundredths`` of GPUs of all instances together. Times in ms, 0 where unknown; ``first`` and ``last``: of its
    instances.
    """

    name: str
    told: bool = False
    hundredths: int = 0
    started: int = 0
    ended: int = 0
    first: int = 0
    last: int = 0


@dataclass(slots=True)
class _Job:
    """``line``: of its row in the ``file``, 0 without one. Times in ms, 0 where unknown."""

    line: int = 0
    file: str = ""
    user: str = ""
    status: str = ""
    submitted: int = 0
    ended: int = 0
    tasks: list[_Task] = field(default_factory=list)

    def task(self, name: str) -> _Task:
        for task in self.tasks:
            if task.name == name:
                return task
        self.tasks.append(_Task(intern(name)))
        return self.tasks[-1]


_Found = dict[str, _Job]


def table_of(source: Source) -> str | None:
    """Which of the tables a file is, by its name."""
    name = source.name.partition(".")[0]
    return name if name in TABLES and not source.name.endswith(".header") else None


def read_pai2020(sources: Iterable[Source], reading: Reading) -> Iterator[TraceJob]:
    """Jobs come when all is read, in the order in which they were first seen. Memory grows with the jobs, not with the
    instances. Raises TraceError without both the job table and the task table.
    """
    reading.dated = True
    found: _Found = {}
    tables = set()
    for source in sources:
        table = table_of(source) or _by_width(source)
        tables.add(table)
        reading.files.append(source.name)
        for row in bare_rows(source, COLUMNS[table]):
            reading.rows += 1
            try:
                if row.fields is None:
                    raise BadRow("wrong number of fields")
                _TAKE[table](found, source.name, row, row.fields)
            except LeftOut as why:
                reading.left_out[why.reason] += 1
            except BadRow as bad:
                reading.reject(source.name, row.line, row.text, bad)
    missing = [table for table in (_JOBS, _TASKS) if table not in tables]
    if missing:
        raise TraceError(f"{reading.path}: no {' and no '.join(missing)}: give the folder that has both")
    yield from _joined(found, reading)


def _by_width(source: Source) -> str:
    first = next((row for row in source.head() if row.strip()), "")
    for table, columns in COLUMNS.items():
        if first.count(",") + 1 == len(columns):
            return table
    raise TraceError(f"{source.name}: it starts with {first.strip()[:80]!r}, and is none of {', '.join(TABLES)}")


def _take_job(found: _Found, file: str, row: Row, fields: dict[str, str]) -> None:
    """A row of the job table. It is accounted for when all is read, unless it is a bad one."""
    status = fields["status"]
    if status not in _ENDS:
        raise BadRow("status is unknown", status[:40])
    submitted, ended = _time(fields, "start_time"), _time(fields, "end_time")
    job = found.setdefault(fields["job_name"], _Job())
    if job.line:
        raise LeftOut(_AGAIN)
    job.line, job.file, job.user, job.status = row.line, intern(file), intern(fields["user"]), intern(status)
    job.submitted, job.ended = submitted, ended


def _take_task(found: _Found, file: str, row: Row, fields: dict[str, str]) -> None:
    plan = number(fields["plan_gpu"], "plan_gpu", MAX_GPUS * _WHOLE) if fields["plan_gpu"] else 0
    instances = count(fields["inst_num"], "inst_num", MAX_GPUS) if fields["inst_num"] else 0
    started, ended = _time(fields, "start_time"), _time(fields, "end_time")
    task = found.setdefault(fields["job_name"], _Job()).task(fields["task_name"])
    if task.told:
        raise LeftOut(_AGAIN)
    task.told, task.hundredths, task.started, task.ended = True, instances * ceil(plan), started, ended
    raise LeftOut(_TASK)


def _take_instance(found: _Found, file: str, row: Row, fields: dict[str, str]) -> None:
    started, ended = _time(fields, "start_time"), _time(fields, "end_time")
    task = found.setdefault(fields["job_name"], _Job()).task(fields["task_name"])
    if started and (not task.first or started < task.first):
        task.first = started
    task.last = max(task.last, ended)
    raise LeftOut(_INSTANCE)


_TAKE = {_JOBS: _take_job, _TASKS: _take_task, _INSTANCES: _take_instance}


def _time(fields: dict[str, str], what: str) -> int:
    """ms, 0 where it is unknown: empty, or 0."""
    return moment(fields[what], what) if fields[what] else 0


def _joined(found: _Found, reading: Reading) -> Iterator[TraceJob]:
    for name, job in found.items():
        told = sum(task.told for task in job.tasks)
        if not job.line:
            if told:
                reading.left_out[_TASK] -= told
                reading.left_out[_ORPHAN] += told
            continue
        try:
            whole = _whole(name, job, reading.oddities)
        except LeftOut as why:
            reading.left_out[why.reason] += 1
        except BadRow as bad:
            reading.reject(job.file, job.line, name, bad)
        else:
            reading.kept += 1
            yield whole
    reading.left_out = +reading.left_out  # without the zeros


def _whole(name: str, job: _Job, oddities: Counter[str]) -> TraceJob:
    end = _ENDS[job.status]
    tasks = [task for task in job.tasks if task.hundredths]
    if not tasks:
        raise LeftOut(NO_GPUS)
    hundredths = sum(task.hundredths for task in tasks)
    gpus = gpus_of(-(-hundredths // _WHOLE))
    starts = [at for task in tasks if (at := task.first or task.started)]
    ends = [at for task in tasks if (at := task.last or task.ended)]
    if not starts or end is End.UNKNOWN:
        raise LeftOut(NEVER_RAN)
    ended = max(ends) if len(ends) == len(tasks) else job.ended or max(ends, default=0)
    if not ended:
        raise LeftOut(NO_END)
    runtime = ran(between(min(starts), ended, ("start", "end")), end)
    user = job.user or "unknown"
    submitted = job.submitted or min(starts)
    code = 1 if end is End.FAILED else 0
    if hundredths % _WHOLE:
        oddities[IN_PARTS] += 1
    if not all(task.first for task in tasks):
        oddities[_NO_INSTANCES] += 1
    waited = min(starts) - job.submitted if job.submitted else None
    return TraceJob(name, submitted + _ZONE, runtime, gpus, user, user, end, code, waited=waited)
