"""Processes as the kernel shows them, clocks that nobody can step, and small files that are replaced whole.

Shared by the executor and by the supervisors, so it stays within the standard library and quick to import.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_RLIMIT_LOCKS = 10
"""A limit that Linux keeps, hands down to every descendant, shows, and has not applied since 2.4: a label."""
_TAG_VARIABLE = "TENURE_TAG"
LOCK_WITHIN_S = 2.0
"""So long a lock that another has is tried."""


class Stat(NamedTuple):
    """One process. ``started`` in clock ticks since boot: with the pid it names a process for good."""

    pid: int
    state: str
    ppid: int
    started: int

    @property
    def dead(self) -> bool:
        """A zombie waits for its parent only: it runs nothing and holds nothing."""
        return self.state in "ZX"


def boottime_ms() -> int:
    """Milliseconds since the machine came up, suspended time included. No one can set this clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def boot_id() -> str:
    """Tells one boot of this machine from another."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def stat(pid: int) -> Stat | None:
    """The process, or None when there is none with that pid."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold anything, so count from the last closing one.
    fields = text[text.rindex(")") + 2 :].split()
    return Stat(pid, fields[0], int(fields[1]), int(fields[19]))


def everything() -> Iterator[Stat]:
    """All processes of this machine, one look each."""
    for name in os.listdir(PROC):  # noqa: PTH208 - thousands of entries, Path objects would double the cost
        if name.isdecimal() and (found := stat(int(name))):
            yield found


def is_running(pid: int, started: int) -> bool:
    found = stat(pid)
    return found is not None and found.started == started and not found.dead


def descendants(root: int) -> list[Stat]:
    """Everything below ``root`` that is not dead."""
    children: dict[int, list[Stat]] = {}
    for process in everything():
        children.setdefault(process.ppid, []).append(process)
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), ())
        found += [process for process in below if not process.dead]
        todo += [process.pid for process in below]
    return found


def open_running(pid: int, started: int) -> int | None:
    """A pidfd of exactly this process, or None when it has ended. The caller closes it."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    # The pid may have been given to another process before the handle was open; from here on it cannot be.
    if is_running(pid, started):
        return handle
    os.close(handle)
    return None


def kill(process: Stat) -> None:
    """SIGKILL to exactly this process; nothing happens when it has gone or belongs to another user."""
    handle = open_running(process.pid, process.started)
    if handle is None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    os.close(handle)


def new_tag() -> str:
    """A number that marks all processes of one attempt."""
    return str(int.from_bytes(os.urandom(7), "big") | 1 << 55)


def tag_environment(tag: str) -> dict[str, str]:
    return {_TAG_VARIABLE: tag}


def wear_tag(tag: str) -> None:
    """Mark this process and all that it will ever spawn, even what daemonises or wipes its environment."""
    _, hard = resource.getrlimit(_RLIMIT_LOCKS)
    # Under a hard limit below the tag only the variable in the environment is left as a mark.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(_RLIMIT_LOCKS, (int(tag), hard))


def tagged(tag: str) -> list[Stat]:
    """All processes that are not dead and carry ``tag``, wherever they have moved in the process tree."""
    variable = f"{_TAG_VARIABLE}={tag}".encode()
    return [process for process in everything() if not process.dead and _carries(process.pid, tag, variable)]


def _carries(pid: int, tag: str, variable: bytes) -> bool:
    with contextlib.suppress(OSError):
        for line in (PROC / str(pid) / "limits").read_text().splitlines():
            if line.startswith("Max file locks") and line.split()[3] == tag:
                return True
    with contextlib.suppress(OSError):
        return variable in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    return False


_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    if _libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero):
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def die_with_parent() -> None:
    """SIGKILL for this process when the thread that forked it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """From now on a descendant whose parent ends becomes a child of this process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def write_json(path: Path, content: dict[str, Any], durable: bool = True) -> None:
    """Replace ``path`` whole, readable by its owner only. ``durable``: it is on the disk when this returns."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    temporary.replace(path)
    if durable:
        sync_directory(path.parent)


def read_json(path: Path) -> dict[str, Any] | None:
    """What ``write_json`` wrote, or None when there is no such file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no JSON object")
    return content


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock on ``path`` until it is closed, or None when somebody else holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def wait_lock(file: IO[Any], busy: Callable[[], object] | None = None) -> bool:
    """Lock an open file until it is closed; False when somebody else has it.

    Who was killed may have it for a moment, in a process that was just starting. So it is tried for ``LOCK_WITHIN_S``
    when another has it, which ``busy`` hears once. Raises OSError where files cannot be locked.
    """
    deadline = time.monotonic() + LOCK_WITHIN_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if busy is not None:
                busy()
            busy = None
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
