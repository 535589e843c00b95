"""The Slurm log of the MIT SuperCloud dataset (2021): a CSV file of the accounting table's own columns.

Times are seconds since 1970, time limits minutes, states numbers, exit codes as wait(2) gives them; GPUs are the
resource 1002 or 1001: those requested, or where none were, allocated (whole hosts were, to some who asked for less).
There are no accounts: each user is a team of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tenure.core.model import MINUTE, SECOND
from tenure.sim.traces import slurm
from tenure.sim.traces.files import Source
from tenure.sim.traces.records import BadRow, End, LeftOut, Reading, TraceJob
from tenure.sim.traces.rows import MAX_SECONDS, NEVER_RAN, UNASKED, count, csv_rows, moment, parsed, ran

COLUMNS = (
    "id_job",
    "id_user",
    "state",
    "exit_code",
    "timelimit",
    "time_submit",
    "time_start",
    "time_end",
    "tres_alloc",
    "tres_req",
)
_NO_LIMIT = ("4294967295", "4294967294", "")
"""Slurm's INFINITE and NO_VAL."""


def read_supercloud(sources: Iterable[Source], reading: Reading) -> Iterator[TraceJob]:
    """Raises TraceError for a file without the columns."""
    reading.dated = True
    for source in sources:
        reading.files.append(source.name)
        yield from parsed(source, reading, csv_rows(source, COLUMNS), lambda fields, row: _job(fields, reading))
    reading.oddities = +reading.oddities  # without the zeros


def _job(fields: dict[str, str], reading: Reading) -> TraceJob:
    state = count(fields["state"], "state", len(slurm.NUMBERED) - 1)
    end = slurm.ENDS[slurm.NUMBERED[state]]
    gpus, asked, _ = slurm.gpus_of_both(fields["tres_req"], fields["tres_alloc"])
    started, ended = moment(fields["time_start"], "time_start"), moment(fields["time_end"], "time_end")
    if not started or not ended:
        raise LeftOut(NEVER_RAN)
    if not 0 <= ended - started <= MAX_SECONDS * SECOND:
        raise BadRow("time_end is before time_start" if ended < started else "runtime is out of range")
    limit = fields["timelimit"]
    user = f"user-{fields['id_user'].partition('.')[0]}"
    submitted = moment(fields["time_submit"], "time_submit")
    job = TraceJob(
        fields["id_job"].partition(".")[0],
        submitted,
        ran(ended - started, end),
        gpus,
        user,
        user,
        end,
        _exit_code(count(fields["exit_code"], "exit_code", 2**32), end),
        None if limit in _NO_LIMIT else count(limit, "timelimit", MAX_SECONDS // 60) * MINUTE or None,
        waited=started - submitted,
    )
    reading.oddities[UNASKED] += not asked
    return job


def _exit_code(status: int, end: End) -> int:
    return slurm.exit_code(f"{status >> 8 & 0xFF}:{status & 0x7F}", end)
