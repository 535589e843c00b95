"""The Microsoft ITP traces (microsoft/elasticflow-traces): one CSV file per cluster, 60 days of 2021.

Columns: ``job_id``, ``submission_time`` (s from the trace's start), ``duration`` (s), ``num_gpu``. There are no users:
the cluster, which is the file's name, is taken as team and user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tenure.sim.traces.files import Source
from tenure.sim.traces.records import End, Reading, TraceJob
from tenure.sim.traces.rows import MAX_GPUS, Row, count, csv_rows, gpus_of, length, moment, parsed, ran

COLUMNS = ("job_id", "submission_time", "duration", "num_gpu")


def read_itp(sources: Iterable[Source], reading: Reading) -> Iterator[TraceJob]:
    """Raises TraceError for a file without the columns."""
    for source in sources:
        reading.files.append(source.name)
        team = source.name.partition(".")[0]

        def parse(fields: dict[str, str], row: Row, team: str = team) -> TraceJob:
            return TraceJob(
                fields["job_id"],
                moment(fields["submission_time"], "submission_time"),
                ran(length(fields["duration"], "duration"), End.UNKNOWN),
                gpus_of(count(fields["num_gpu"], "num_gpu", MAX_GPUS)),
                team,
                team,
            )

        yield from parsed(source, reading, csv_rows(source, COLUMNS), parse)
