"""What the files of one attempt are called and hold. Written by two processes: the executor and the supervisor.

==================  =========  ======================================================================
file                writer     content
==================  =========  ======================================================================
``launch.json``     executor   what to run, complete; once written it never changes
``stop.json``       executor   the order to stop; replaced only by one that leaves less time
``status.json``     both       the phase; its existence means "has begun", so nothing starts it again
``lock``            both       held by the supervisor for its whole life; who holds it may write status
``wake``            both       a FIFO on which the supervisor waits for a new ``stop.json``
``N.out, N.err``    job        stdout and stderr of the replica with node rank N
``done``            job        its existence is the ``TENURE_DONE`` marker
``checkpoint``      job        its modification time is that of the last checkpoint
``warning``         supervisor why and when the job will be killed, once it was warned: ``TENURE_WARNING``
``supervisor.log``  supervisor errors of the supervisor itself
==================  =========  ======================================================================
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tenure.executors import procs

STARTING = "starting"
RUNNING = "running"
EXITED = "exited"
LOST = "lost"
NOT_STARTED = "not_started"
FINAL = frozenset({EXITED, LOST, NOT_STARTED})

NOTIFY_SOCKET = "notify.sock"
STOPPED_BEFORE = "it was stopped before it started"
_CODE = re.compile(r"([a-z_]+)(?:: (.*))?", re.DOTALL)


@dataclass(frozen=True)
class Status:
    """``at`` is CLOCK_BOOTTIME and ``wall`` the wall clock when the phase was entered, both in ms.

    ``supervisor`` and ``supervisor_started`` name the process that answers for the attempt (0: none).
    """

    phase: str
    at: int
    wall: int
    boot: str
    supervisor: int = 0
    supervisor_started: int = 0
    exit_codes: tuple[int, ...] = ()
    done: bool = False
    message: str = ""
    again: bool = False
    cancelled_by: str = ""
    """As in ``base.Report``."""

    @property
    def final(self) -> bool:
        return self.phase in FINAL

    def age_ms(self, boot: str) -> int:
        """How long ago the phase was entered. After a reboot only the wall clock can tell, if it has moved on."""
        if boot == self.boot:
            return procs.boottime_ms() - self.at
        return max(procs.boottime_ms(), procs.wall_ms() - self.wall)


@dataclass(frozen=True)
class Order:
    """A written order to stop. ``kill_at``: CLOCK_BOOTTIME in ms.

    ``why``: a reason's code, a colon and its sentence, or free text. ``left``: for a supervisor on another host, whose
    clock differs: ms from when it first reads the order.
    """

    kill_at: int
    warn_signal: str
    why: str
    left: int | None = None

    def warning(self, left: int) -> dict[str, str | int]:
        """What the job is told in its file when ``left`` ms are left, as documented in ``docs/jobs.md``."""
        code = _CODE.fullmatch(self.why)
        now = procs.wall_ms()
        return {
            "reason": code[1] if code else "",
            "why": (code[2] or code[1]) if code else self.why,
            "signal": self.warn_signal,
            "at": now,
            "kill_at": now + left,
            "grace": left,
        }


class AttemptFiles:
    """The directory of one attempt, ``root/<job>/<number>``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.launch = directory / "launch.json"
        self.stop = directory / "stop.json"
        self.status = directory / "status.json"
        self.lock = directory / "lock"
        self.wake = directory / "wake"
        self.done = directory / "done"
        self.checkpoint = directory / "checkpoint"
        self.warning = directory / "warning"
        self.supervisor_log = directory / "supervisor.log"
        self.logs = directory

    @property
    def root(self) -> Path:
        return self.directory.parent.parent

    def bar(self, why: str = STOPPED_BEFORE) -> bool:
        """Make sure that an attempt which has not begun never will. False: its supervisor is at work, or has been."""
        lock = procs.try_lock(self.lock)
        if lock is None:
            return False
        try:
            if self.status.exists():
                return False
            self.write_status(NOT_STARTED, message=why)
        finally:
            os.close(lock)
        return True

    def log(self, node_rank: int, stream: str) -> Path:
        return self.logs / f"{node_rank}.{'out' if stream == 'stdout' else 'err'}"

    def read_status(self) -> Status | None:
        try:
            content = procs.read_json(self.status)
        except ValueError:
            # A power cut can leave an empty file: it has begun, and nobody answers for it any more.
            return Status(STARTING, procs.boottime_ms(), procs.wall_ms(), procs.boot_id())
        if content is None:
            return None
        return Status(**{**content, "exit_codes": tuple(content["exit_codes"])})

    def write_status(
        self,
        phase: str,
        *,
        supervisor: tuple[int, int] = (0, 0),
        exit_codes: tuple[int, ...] = (),
        message: str = "",
        durable: bool = True,
    ) -> None:
        """Enter ``phase`` now. To be called with ``lock`` held."""
        status = Status(
            phase=phase,
            at=procs.boottime_ms(),
            wall=procs.wall_ms(),
            boot=procs.boot_id(),
            supervisor=supervisor[0],
            supervisor_started=supervisor[1],
            exit_codes=exit_codes,
            done=phase in FINAL and self.done.exists(),
            message=message,
        )
        procs.write_json(self.status, asdict(status), durable)

    def read_order(self) -> Order | None:
        content = procs.read_json(self.stop)
        return None if content is None else Order(**content)

    def write_order(self, order: Order) -> None:
        # Supervisors of an earlier release know no ``left``.
        procs.write_json(self.stop, {name: value for name, value in asdict(order).items() if value is not None})

    def ring(self) -> None:
        """Wake the supervisor up. Without one that listens nothing happens: a new one reads the order first."""
        try:
            pipe = os.open(self.wake, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENXIO):
                return
            raise
        try:
            with contextlib.suppress(BlockingIOError):
                os.write(pipe, b"!")
        finally:
            os.close(pipe)

    def notify(self) -> None:
        """Tell the executor, if one listens, that a status has changed. The datagram says nothing more.

        A full queue needs no second try: whoever empties it reads every status afterwards.
        """
        with open_directory(self.root) as root, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            with contextlib.suppress(OSError):
                sock.sendto(b"!", short_path(root, NOTIFY_SOCKET))


def version(found: os.stat_result) -> tuple[int, int, int]:
    """Tells a file that was replaced whole from the one before it, also within one tick of the file system's clock."""
    return found.st_ino, found.st_mtime_ns, found.st_size


def highest_job(root: Path) -> int:
    """The highest job id that has ever had an attempt below ``root``, 0 for none."""
    with os.scandir(root) as entries:
        return max((int(entry.name) for entry in entries if entry.name.isdecimal()), default=0)


@contextlib.contextmanager
def open_directory(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def short_path(directory: int, name: str) -> str:
    """A path of ``name`` that fits into the 108 bytes of a socket's address, however deep ``directory`` is."""
    return f"/proc/self/fd/{directory}/{name}"
