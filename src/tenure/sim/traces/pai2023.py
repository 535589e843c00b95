"""The Alibaba trace of 2023 (Weng et al., ATC 2023; cluster-trace-gpu-v2023 of alibaba/clusterdata): a CSV file
``openb_pod_list_*.csv`` of pods.

``num_gpu`` GPUs, of which ``gpu_milli`` thousandths each (below 1000 with one GPU only, which is shared). Times are
seconds from the trace's start. There are no users: the class of service, ``qos``, is the team. A pod whose phase is
Running was deleted as it ran: its owner stopped it, or the trace ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tenure.sim.traces.files import Source
from tenure.sim.traces.records import BadRow, End, LeftOut, Reading, TraceJob
from tenure.sim.traces.rows import (
    IN_PARTS,
    MAX_GPUS,
    NEVER_RAN,
    NO_END,
    between,
    count,
    csv_rows,
    gpus_of,
    moment,
    parsed,
    ran,
)

COLUMNS = (
    "name",
    "num_gpu",
    "gpu_milli",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
_ENDS = {"Succeeded": End.COMPLETED, "Failed": End.FAILED, "Running": End.CANCELLED, "Pending": End.UNKNOWN}
_WHOLE = 1000


def read_pai2023(sources: Iterable[Source], reading: Reading) -> Iterator[TraceJob]:
    """Raises TraceError for a file without the columns."""
    for source in sources:
        reading.files.append(source.name)
        yield from parsed(source, reading, csv_rows(source, COLUMNS), lambda fields, row: _job(fields, reading))


def _job(fields: dict[str, str], reading: Reading) -> TraceJob:
    phase = fields["pod_phase"]
    if phase not in _ENDS:
        raise BadRow("pod_phase is unknown", phase[:40])
    gpus = gpus_of(count(fields["num_gpu"], "num_gpu", MAX_GPUS))
    milli = count(fields["gpu_milli"], "gpu_milli", _WHOLE, least=1)
    submitted = moment(fields["creation_time"], "creation_time")
    if not fields["scheduled_time"]:
        raise LeftOut(NEVER_RAN)
    started = moment(fields["scheduled_time"], "scheduled_time")
    if not fields["deletion_time"]:
        raise LeftOut(NO_END)
    lasted = between(started, moment(fields["deletion_time"], "deletion_time"), ("scheduled_time", "deletion_time"))
    end, team = _ENDS[phase], fields["qos"] or "none"
    code = 1 if end is End.FAILED else 0
    job = TraceJob(fields["name"], submitted, ran(lasted, end), gpus, team, team, end, code, waited=started - submitted)
    if milli < _WHOLE:
        reading.oddities[IN_PARTS] += 1
    return job
