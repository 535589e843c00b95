"""Words that Slurm's records have in common: states, durations, times, exit codes, GPUs in trackable resources.

Source: the pages sacct(1) and job_state_codes of Slurm's documentation, and ``enum job_states`` of its slurm.h.
"""

from __future__ import annotations

import re

from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.sim.traces.records import BadRow, End, LeftOut
from tenure.sim.traces.rows import MAX_GPUS, MAX_SECONDS, date, gpus_of, moment
from tenure.slurm.tres import Gpus, read_gpus

ENDS = {
    "COMPLETED": End.COMPLETED,
    "COMPLETING": End.COMPLETED,
    "STAGE_OUT": End.COMPLETED,
    "FAILED": End.FAILED,
    "OUT_OF_MEMORY": End.FAILED,
    "LAUNCH_FAILED": End.FAILED,
    "SPECIAL_EXIT": End.FAILED,
    "CANCELLED": End.CANCELLED,
    "REVOKED": End.CANCELLED,
    "TIMEOUT": End.TIMEOUT,
    "DEADLINE": End.CANCELLED,
    "PREEMPTED": End.PREEMPTED,
    "REQUEUED": End.PREEMPTED,
    "REQUEUE_HOLD": End.PREEMPTED,
    "REQUEUE_FED": End.PREEMPTED,
    "NODE_FAIL": End.HOST_FAILED,
    "BOOT_FAIL": End.HOST_FAILED,
    "RECONFIG_FAIL": End.HOST_FAILED,
    "RUNNING": End.RUNNING,
    "SUSPENDED": End.RUNNING,
    "STOPPED": End.RUNNING,
    "SIGNALING": End.RUNNING,
    "RESIZING": End.RUNNING,
    "PENDING": End.UNKNOWN,
    "CONFIGURING": End.UNKNOWN,
    "RESV_DEL_HOLD": End.UNKNOWN,
    "POWER_UP_NODE": End.UNKNOWN,
}
"""sacct's states. What has not begun has no runtime, and is left out for that."""

NUMBERED = (
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
)
"""States by their number in the accounting tables."""

NO_LIMIT = ("", "UNLIMITED", "PARTITION_LIMIT", "NONE", "UNKNOWN", "NOT_SET", "INFINITE")
SHARDS = "on shards of GPUs (gres/shard), which are not counted"
SLICES = "MIG slices counted as whole GPUs"
_NO_TIME = ("", "UNKNOWN", "NONE", "N/A")
_CLOCK = re.compile(r"(?:(\d{1,6}):)?(\d{1,4}):(\d{1,4})(?:\.\d+)?")
_DAYS = re.compile(r"(\d{1,5})-(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.\d+)?)?)?")
_EXIT = re.compile(r"(\d{1,5}):(\d{1,3})")


def end_of(text: str) -> End:
    """``CANCELLED by 1000`` -> cancelled. Raises BadRow for a state that Slurm does not have."""
    words = text.split()
    end = ENDS.get(words[0].upper().rstrip("+")) if words else None
    if end is None:
        raise BadRow("State is unknown", text[:40])
    return end


def duration(text: str, what: str) -> int | None:
    """ms of ``[D-]HH:MM:SS``, ``MM:SS`` or ``D-HH[:MM]``; None without a limit. Raises BadRow."""
    text = text.strip()
    if text.upper() in NO_LIMIT:
        return None
    if days := _DAYS.fullmatch(text):
        parts = (days[1], days[2], days[3], days[4])
    elif clock := _CLOCK.fullmatch(text):
        parts = ("0", clock[1], clock[2], clock[3])
    else:
        raise BadRow(f"{what} is not a duration", text[:40])
    value = sum(int(part or 0) * unit for part, unit in zip(parts, (DAY, HOUR, MINUTE, SECOND), strict=True))
    if value > MAX_SECONDS * SECOND:
        raise BadRow(f"{what} is out of range", text[:40])
    return value


def time(text: str, what: str) -> int | None:
    """ms UTC of an ISO time or of seconds since 1970; None for ``Unknown``, ``None`` and 0. Raises BadRow."""
    text = text.strip()
    if text.upper() in _NO_TIME:
        return None
    return (moment(text, what) if text.isascii() and text.isdigit() else date(text, what)) or None


def exit_code(text: str, end: End) -> int:
    """Of ``code:signal``; 0 when it ended well or was ended by others, never 0 when it failed. Raises BadRow."""
    if end not in (End.FAILED, End.CANCELLED):
        return 0
    text = text.strip()
    match = _EXIT.fullmatch(text)
    if match is None and text:
        raise BadRow("ExitCode is not code:signal", text[:40])
    code, signal = (int(match[1]), int(match[2])) if match else (0, 0)
    return code or (128 + signal if signal else 1)


def gpus(text: str) -> Gpus:
    """GPUs in a list of trackable resources (TRES). Raises BadRow for a number that is none, and for too many."""
    found = read_gpus(text)
    if found.unreadable:
        raise BadRow("GPUs in TRES are not a number", found.unreadable)
    if found.count > MAX_GPUS:
        raise BadRow("GPUs are out of range", f"{found.count}, not within 0 to {MAX_GPUS}")
    return found


def gpus_of_both(asked: str, given: str) -> tuple[int, bool, bool]:
    """GPUs in what a job asked for, or where that is none, in what it was given: how many, whether they were asked
    for, and whether MIG slices are among them. Raises LeftOut for a job without any, and BadRow as ``gpus`` does.
    """
    first, second = gpus(asked), gpus(given)
    chosen = first if first.count else second
    if not chosen.count and (first.shards or second.shards):
        raise LeftOut(SHARDS)
    return gpus_of(chosen.count), bool(first.count), bool(chosen.slices or second.slices)
