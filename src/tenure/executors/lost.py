"""The end of an attempt whose supervisor was killed: nothing of it may go on running, then it counts as lost."""

from __future__ import annotations

import os
import select
import threading
from typing import Any

from tenure.executors import files, procs

LOCK_AGAIN_S = 0.05
KILL_AGAIN_MS = 200


def open_supervisor(attempt: files.AttemptFiles) -> int | None:
    """A pidfd of the supervisor that answers for a begun attempt, or None when there is none (any more)."""
    status = attempt.read_status()
    if status is None or not status.supervisor or status.boot != procs.boot_id():
        return None
    return procs.open_running(status.supervisor, status.supervisor_started)


def bury(attempt: files.AttemptFiles, give_up: threading.Event) -> int | None:
    """Kill all that is left of the attempt, then record it as lost.

    Returns early when ``give_up`` is set, and with a pidfd when a supervisor turns out to be alive after all.
    """
    lock = _lock(attempt, give_up)
    if lock is None:
        return open_supervisor(attempt)
    try:
        status = attempt.read_status()
        if (status is None or not status.final) and _kill_everything(attempt, give_up):
            attempt.write_status(files.LOST, message=_explain(attempt))
    finally:
        os.close(lock)
    return None


def _lock(attempt: files.AttemptFiles, give_up: threading.Event) -> int | None:
    while (lock := procs.try_lock(attempt.lock)) is None:
        # Held by a process of the dead supervisor between fork and exec, which is dying too, or by a second
        # supervisor that is just starting.
        if (alive := open_supervisor(attempt)) is not None:
            os.close(alive)
            return None
        if give_up.wait(LOCK_AGAIN_S):
            return None
    return lock


def _kill_everything(attempt: files.AttemptFiles, give_up: threading.Event) -> bool:
    """True when nothing is left; False when told to give up before."""
    launch = procs.read_json(attempt.launch)
    if launch is None or _boot(attempt, launch) != procs.boot_id():
        return True
    while survivors := procs.tagged(launch["tag"]):
        if give_up.is_set():
            return False
        for process in survivors:
            procs.kill(process)
        _wait_for_end(survivors)
    return True


def _wait_for_end(processes: list[procs.Stat]) -> None:
    """Wait for one of them to end, and not for long: a process in the middle of a system call may take its time."""
    handles = [handle for one in processes if (handle := procs.open_running(one.pid, one.started)) is not None]
    if handles:
        poller = select.poll()
        for handle in handles:
            poller.register(handle, select.POLLIN)
        poller.poll(KILL_AGAIN_MS)
    for handle in handles:
        os.close(handle)


def _boot(attempt: files.AttemptFiles, launch: dict[str, Any]) -> str:
    """The boot in which it ran: its launch may have been written before a restart, and its supervisor begun after."""
    status = attempt.read_status()
    return status.boot if status is not None else str(launch["boot"])


def _explain(attempt: files.AttemptFiles) -> str:
    launch = procs.read_json(attempt.launch)
    if launch is not None and _boot(attempt, launch) != procs.boot_id():
        return "the machine was restarted"
    message = "its supervisor was killed, and with it all that it had started"
    log = attempt.supervisor_log
    last = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
    return f"{message} ({last[0]})" if last else message
