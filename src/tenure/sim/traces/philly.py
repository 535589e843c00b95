"""The Microsoft Philly trace (Jeon et al., ATC 2019) as a table: one row per job, in no order.

Columns: ``timestamp`` (submission, no zone: taken as UTC), ``duration`` (s), ``num_gpus``, ``cluster`` (the virtual
cluster: taken as team and user). There are no ids: a job is named after its file and line. A row that equals an
earlier one in everything is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tenure.sim.traces.files import Source
from tenure.sim.traces.records import End, LeftOut, Reading, TraceJob
from tenure.sim.traces.rows import MAX_GPUS, Row, count, csv_rows, date, gpus_of, length, parsed, ran

COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


def read_philly(sources: Iterable[Source], reading: Reading) -> Iterator[TraceJob]:
    """Raises TraceError for a file without the columns."""
    reading.dated = True
    seen: set[tuple[str, ...]] = set()
    for source in sources:
        reading.files.append(source.name)
        stem = source.name.partition(".")[0]

        def parse(fields: dict[str, str], row: Row, stem: str = stem) -> TraceJob:
            job = TraceJob(
                f"{stem}:{row.line}",
                date(fields["timestamp"], "timestamp"),
                ran(length(fields["duration"], "duration"), End.UNKNOWN),
                gpus_of(count(fields["num_gpus"], "num_gpus", MAX_GPUS)),
                fields["cluster"],
                fields["cluster"],
            )
            values = tuple(fields.values())
            if values in seen:
                raise LeftOut("the same row again")
            seen.add(values)
            return job

        yield from parsed(source, reading, csv_rows(source, COLUMNS), parse)
