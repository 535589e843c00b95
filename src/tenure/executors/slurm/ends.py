"""How a job ended, from what Slurm says of it."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.executors import files, procs
from tenure.executors.slurm.gang import Outcome
from tenure.executors.slurm.handling import Segment
from tenure.executors.slurm.rows import Row
from tenure.slurm import reading

CANCELLED_BY = "scancel"
"""Slurm does not say who gave the order."""
FORGOTTEN = (
    "Slurm does not know job {job} any more and keeps no record of its end: set MinJobAge to 300 or more, and "
    "AccountingStorageType=accounting_storage/slurmdbd or JobCompType=jobcomp/filetxt"
)
_QUEUED_AGAIN = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUED_HOLD"})
_LOST = frozenset({"NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED"})
_SLACK_S = 5
"""Between this host's clock and slurmctld's."""


def age_ms(at: int, told: int = 0) -> int:
    """How long ago something was that slurmctld put down to second ``at``, by this host's clock; 0: nobody knows.

    Slurm cuts seconds off, so the middle is meant: counted in seconds, both say the same. ``told``: when it was told
    to end (ms since 1970, by this host), which it did not do before.
    """
    return max(0, procs.wall_ms() - max(at * 1000 + 500, told)) if at else 0


def released_age_ms(written: int, ended: int) -> int:
    """How long ago a run of ours gave its GPUs back, of which the nodes wrote ``written`` ms ago that it was over.

    ``ended``: the second in which slurmctld freed them, 0 when it does not say; where that came later, they were no
    good to anybody until then.
    """
    later = ended * 1000 > procs.wall_ms() - written
    return min(written, age_ms(ended)) if later else written


def before_start(row: Row) -> Outcome:
    """A job that was over when it should have been started."""
    if row.state == "CANCELLED":
        return Outcome(files.NOT_STARTED, (), "it was cancelled in Slurm", cancelled_by=CANCELLED_BY)
    return Outcome(files.NOT_STARTED, (), f"Slurm's job {row.id} is over already, as {row.state}")


def outcome(state: str, status: int, *, stopped: bool) -> Outcome:
    """``status``: a wait status. ``stopped``: Tenure has told it to end, so a cancel was not its user's."""
    if state in _QUEUED_AGAIN:
        return Outcome(files.EXITED, (), "in Slurm", again=True)
    if state in _LOST:
        return Outcome(files.LOST, (), f"Slurm ended its job as {state}")
    code = -(status & 127) if status & 127 else status >> 8
    if state == "COMPLETED":
        return Outcome(files.EXITED, (code,), "")
    by = CANCELLED_BY if state == "CANCELLED" and not stopped else ""
    message = "" if state in ("FAILED", "CANCELLED") else f"Slurm: {state}"
    # Ended by force, a job may have no status of its own.
    return Outcome(files.EXITED, (code or -15,), message, cancelled_by=by)


def last_run(segments: Sequence[Segment], hosts: Sequence[str], since: int) -> Segment | None:
    """The run that began at ``since`` (s) or later, on these hosts: ids are given again, and so are jobs."""
    wanted = sorted(hosts)
    found = [one for one in segments if one.start >= since - _SLACK_S and sorted(reading.expand(one.nodes)) == wanted]
    return found[0] if found else None
