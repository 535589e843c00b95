"""The Helios traces of SenseTime (Hu et al., SC 2021; S-Lab-System-Group/HeliosData): ``cluster_log.csv`` of a cluster.

A row per job of Slurm: ``gpu_num`` GPUs, ``state`` in Slurm's words, times without a zone (those of China; taken as
UTC), ``duration`` in seconds. The virtual cluster ``vc`` is the team.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tenure.core.model import SECOND
from tenure.sim.traces import slurm
from tenure.sim.traces.files import Source
from tenure.sim.traces.records import BadRow, End, LeftOut, Reading, TraceJob
from tenure.sim.traces.rows import (
    MAX_GPUS,
    NEVER_RAN,
    NO_END,
    between,
    count,
    csv_rows,
    gpus_of,
    length,
    parsed,
    ran,
)

COLUMNS = ("job_id", "user", "vc", "gpu_num", "state", "submit_time", "start_time", "end_time", "duration")
STILL_RUNNING = "still running when the log was taken: taken as ended then"
OTHER_DURATION = "duration is not from start_time to end_time: those count"


def read_helios(sources: Iterable[Source], reading: Reading) -> Iterator[TraceJob]:
    """Raises TraceError for a file without the columns."""
    reading.dated = True
    for source in sources:
        reading.files.append(source.name)
        rows = csv_rows(source, COLUMNS)
        yield from parsed(source, reading, rows, lambda fields, row: logged(fields, fields["vc"], reading))


def logged(fields: dict[str, str], team: str, reading: Reading) -> TraceJob:
    """The job of a row of Helios or Acme: what they have in common. Counts what is odd. Raises BadRow and LeftOut."""
    end = slurm.end_of(fields["state"])
    gpus = gpus_of(count(fields["gpu_num"], "gpu_num", MAX_GPUS))
    submitted = slurm.time(fields["submit_time"], "submit_time")
    if submitted is None:
        raise BadRow("submit_time is unknown")
    started, ended = slurm.time(fields["start_time"], "start_time"), slurm.time(fields["end_time"], "end_time")
    if started is None:
        raise LeftOut(NEVER_RAN)
    told = length(fields["duration"], "duration") if fields["duration"] else None
    lasted = told if ended is None else between(started, ended, ("start_time", "end_time"))
    if lasted is None:
        raise LeftOut(NO_END)
    job = TraceJob(
        fields["job_id"],
        submitted,
        ran(lasted, end),
        gpus,
        team or "none",
        fields["user"] or "unknown",
        end,
        1 if end is End.FAILED else 0,
        waited=started - submitted,
    )
    if told is not None and abs(lasted - told) > SECOND:
        reading.oddities[OTHER_DURATION] += 1
    if end is End.RUNNING:
        reading.oddities[STILL_RUNNING] += 1
    return job
