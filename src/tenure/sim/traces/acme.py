"""The Acme traces of the Shanghai AI Laboratory (Hu et al., NSDI 2024; InternLM/AcmeTrace): ``trace_seren.csv`` of one
cluster, ``trace_kalos.csv`` of the other.

Columns are those of Helios without a virtual cluster, and ``type`` (Eval, Pretrain, SFT, ...), which is a kind of work
and not who does it: the user is the team. Times have a zone. In Kalos ``duration`` includes the wait, so runtimes are
from ``start_time`` to ``end_time``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tenure.sim.traces.files import Source
from tenure.sim.traces.helios import logged
from tenure.sim.traces.records import Reading, TraceJob
from tenure.sim.traces.rows import csv_rows, parsed

COLUMNS = ("job_id", "user", "gpu_num", "type", "state", "submit_time", "start_time", "end_time", "duration")


def read_acme(sources: Iterable[Source], reading: Reading) -> Iterator[TraceJob]:
    """Raises TraceError for a file without the columns."""
    reading.dated = True
    for source in sources:
        reading.files.append(source.name)
        rows = csv_rows(source, COLUMNS)
        yield from parsed(source, reading, rows, lambda fields, row: logged(fields, fields["user"], reading))
