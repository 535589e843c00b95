"""Attempts as processes of this machine, below one directory: ``root/<job>/<attempt number>/``.

Each attempt has a supervisor (``supervisor.py``), a process of its own that outlives this one; what the two say to
each other is in files (``files.py``). ``root/active`` names the attempts that are not forgotten, so that their
number, and not the length of the history, sets the work at start-up.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from tenure.executors import boot, files, launching, lost, nvml, procs
from tenure.executors.base import DiscoveredHost, Executor, Launch, Phase, Report, StopOrder
from tenure.executors.epoch import EpochGate
from tenure.executors.watcher import Watcher
from tenure.faults import point

log = structlog.get_logger()

BURY_AGAIN_S = 1.0

_ATTEMPT_ID = re.compile(r"(\d+)\.(\d+)")


class LocalExecutor(Executor):
    """Runs attempts on this machine. ``root`` must be on a local file system. Methods may be called by any thread.

    ``start`` and ``stop`` raise OSError when ``root`` cannot be written, RuntimeError when the executor is not open,
    and ValueError for an attempt id that is not ``<job>.<number>``.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._active = self._root / "active"
        # Output is nobody's business but the lab's, even in a data directory that others may look into.
        self._root.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._active.mkdir(exist_ok=True)
        self._gate = EpochGate(self._root)
        self._boot = procs.boot_id()
        self._mutex = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._supervised: set[str] = set()
        self._burials: list[threading.Thread] = []
        self._closing = threading.Event()
        self._watcher: Watcher | None = None
        self._on_change: Callable[[], None] = lambda: None

    def open(self, epoch: int, on_change: Callable[[], None]) -> None:
        self._gate.take(epoch)
        self.close()
        self._closing.clear()
        self._on_change = on_change
        self._watcher = Watcher(self._root, on_change, self._supervisor_ended)
        self._watcher.start()
        for entry in sorted(self._active.iterdir()):
            self._adopt(entry.name)

    def start(self, launch: Launch) -> None:
        attempt = self._files(launch.attempt_id)
        with self._mutex, self._gate.command():
            self._check_open()
            if attempt.status.exists():
                if launch.attempt_id not in self._known:
                    # Forgotten, by a leader whose database was put back since: it ended, and is reported again.
                    self._remember(launch.attempt_id, attempt)
                    self._on_change()
                return
            if launch.attempt_id in self._supervised:
                return
            attempt.directory.mkdir(parents=True, exist_ok=True)
            (attempt.directory.parent / "checkpoints").mkdir(exist_ok=True)
            point("executor.start.directory")
            try:
                if not attempt.launch.exists():
                    procs.write_json(attempt.launch, launching.render(launch, attempt.directory, os.environ))
                self._remember(launch.attempt_id, attempt)
                point("executor.start.recorded")
                self._supervise(launch.attempt_id, attempt)
            except OSError:
                # Whoever asked counts it as ended, so no later server may find it and start it.
                attempt.launch.unlink(missing_ok=True)
                self._drop(launch.attempt_id)
                raise
            point("executor.start.spawned")

    def stop(self, order: StopOrder) -> None:
        attempt = self._files(order.attempt_id)
        with self._mutex, self._gate.command():
            self._check_open()
            status = attempt.read_status()
            if status is not None and status.final:
                return
            attempt.directory.mkdir(parents=True, exist_ok=True)
            self._remember(order.attempt_id, attempt)
            kill_at = procs.boottime_ms() + max(0, order.grace)
            earlier = attempt.read_order()
            if earlier is None or kill_at < earlier.kill_at:
                attempt.write_order(files.Order(kill_at, order.warn_signal, order.why))
            point("executor.stop.ordered")
            if status is None:
                _bar(attempt)
            attempt.ring()
            point("executor.stop.woken")

    def poll(self) -> Sequence[Report]:
        with self._mutex:
            known = sorted(self._known.items())
        return [one.report(attempt_id, self._boot) for attempt_id, one in known]

    def forget(self, attempt_id: str) -> None:
        """Ignored while the attempt has not ended."""
        attempt = self._files(attempt_id)
        with self._mutex:
            status = attempt.read_status()
            if status is None or not status.final:
                return
            # The status stays, and with it the refusal to start this attempt again; the environment may hold
            # secrets and goes.
            for path in (attempt.launch, attempt.stop, attempt.wake, attempt.lock):
                path.unlink(missing_ok=True)
            self._drop(attempt_id)
            point("executor.forget.done")

    def log_path(self, attempt_id: str, node_rank: int, stream: str) -> str:
        return str(self._files(attempt_id).log(node_rank, stream))

    def highest_job(self) -> int:
        """The highest job id that has ever had an attempt here, 0 for none."""
        return files.highest_job(self._root)

    def discover(self) -> Sequence[DiscoveredHost]:
        gpus = nvml.discover_gpus()
        return [
            DiscoveredHost(
                name=socket.gethostname(),
                gpus=len(gpus),
                cpus=len(os.sched_getaffinity(0)) * 1000,
                mem=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // nvml.MIB,
                gpu_names=tuple(gpu.name or f"unavailable ({gpu.fault})" for gpu in gpus),
            )
        ]

    def close(self) -> None:
        with self._mutex:
            # From here on no thread adds anything to watch.
            self._closing.set()
            watcher, self._watcher = self._watcher, None
            burials, self._burials = self._burials, []
        if watcher is not None:
            watcher.close()
        for burial in burials:
            burial.join()
        self._known.clear()
        self._supervised.clear()

    def _check_open(self) -> None:
        if self._watcher is None:
            raise RuntimeError("the executor is not open")

    def _files(self, attempt_id: str) -> files.AttemptFiles:
        found = _ATTEMPT_ID.fullmatch(attempt_id)
        if found is None:
            raise ValueError(f"{attempt_id!r} is not an attempt id like 12.1")
        return files.AttemptFiles(self._root / found[1] / found[2])

    def _remember(self, attempt_id: str, attempt: files.AttemptFiles) -> None:
        if attempt_id not in self._known:
            (self._active / attempt_id).touch()
            procs.sync_directory(self._active)
            self._known[attempt_id] = _Known(attempt)

    def _drop(self, attempt_id: str) -> None:
        self._known.pop(attempt_id, None)
        (self._active / attempt_id).unlink(missing_ok=True)

    def _adopt(self, attempt_id: str) -> None:
        """Take over what an earlier server has left: finished, running, ended meanwhile, or cut off in a start."""
        attempt = self._files(attempt_id)
        with self._mutex:
            self._known[attempt_id] = _Known(attempt)
            begun = attempt.status.exists()
            if not begun and attempt.read_order() is not None:
                _bar(attempt)
            elif not begun and attempt.launch.exists():
                self._supervise(attempt_id, attempt)
                return
        self._look_after(attempt_id)

    def _supervise(self, attempt_id: str, attempt: files.AttemptFiles) -> None:
        """Raises OSError when nothing of it has begun and not even that can be written down."""
        try:
            pid = _spawn_supervisor(attempt)
        except OSError as error:
            _bar(attempt, f"cannot start its supervisor: {error}")
            return
        try:
            # A child keeps its pid until the watcher reaps it.
            handle = os.pidfd_open(pid)
        except OSError as error:
            # Nobody would notice its end.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            if attempt.status.exists():
                self._bury(attempt_id, attempt)
            else:
                _bar(attempt, f"cannot watch its supervisor: {error}")
        else:
            self._watch(attempt_id, handle)

    def _watch(self, attempt_id: str, pidfd: int) -> None:
        assert self._watcher is not None
        self._supervised.add(attempt_id)
        self._watcher.watch(attempt_id, pidfd)

    def _supervisor_ended(self, attempt_id: str) -> None:
        with self._mutex:
            self._supervised.discard(attempt_id)
        self._look_after(attempt_id)

    def _look_after(self, attempt_id: str) -> None:
        """Watch the supervisor of an attempt that has not ended; if there is none, see to its end."""
        attempt = self._files(attempt_id)
        status = attempt.read_status()
        if status is not None and status.final:
            self._on_change()
            return
        with self._mutex:
            if self._closing.is_set():
                return
            supervisor = lost.open_supervisor(attempt)
            if supervisor is not None:
                self._watch(attempt_id, supervisor)
                return
            self._bury(attempt_id, attempt)

    def _bury(self, attempt_id: str, attempt: files.AttemptFiles) -> None:
        """See to its end in a thread of its own: it may take long."""

        def bury() -> None:
            while not self._closing.is_set():
                try:
                    lost.bury(attempt, self._closing)
                except OSError as error:
                    # A full disk, for instance: until its end is written down it has not ended.
                    log.error("attempt_not_buried", attempt=attempt_id, error=str(error))
                    self._closing.wait(BURY_AGAIN_S)
                else:
                    break
            if not self._closing.is_set():
                self._look_after(attempt_id)

        burial = threading.Thread(target=bury, daemon=True)
        self._burials = [thread for thread in self._burials if thread.is_alive()]
        burial.start()
        self._burials.append(burial)


class _Known:
    """An attempt and what was last read of it; a status is read again only when its file has been replaced."""

    def __init__(self, attempt: files.AttemptFiles) -> None:
        self._files = attempt
        self._seen: tuple[int, int, int] | None = None
        self._status: files.Status | None = None
        self._since = procs.boottime_ms()
        self._checkpoint = (0, 0)
        """Modification time of the last checkpoint, and when it was written by the clock that nobody can set."""

    def report(self, attempt_id: str, boot: str) -> Report:
        status = self._read()
        checkpoint_age = self._checkpoint_age()
        if status is None:
            age = procs.boottime_ms() - self._since
            return Report(attempt_id, Phase.STARTING, age, checkpoint_age_ms=checkpoint_age)
        return Report(
            attempt_id=attempt_id,
            phase=Phase(status.phase),
            age_ms=status.age_ms(boot),
            exit_codes=status.exit_codes,
            done=status.done,
            message=status.message,
            checkpoint_age_ms=checkpoint_age,
        )

    def _read(self) -> files.Status | None:
        try:
            found = self._files.status.stat()
        except FileNotFoundError:
            return None
        if (seen := files.version(found)) != self._seen:
            self._status = self._files.read_status()
            self._seen = seen
        return self._status

    def _checkpoint_age(self) -> int | None:
        """File times come from the wall clock: its steps must not make an old checkpoint young, again and again."""
        try:
            written = self._files.checkpoint.stat().st_mtime_ns
        except FileNotFoundError:
            return None
        now = procs.boottime_ms()
        if written != self._checkpoint[0]:
            self._checkpoint = (written, now - max(0, procs.wall_ms() - written // 1_000_000))
        return now - self._checkpoint[1]


def _bar(attempt: files.AttemptFiles, why: str = files.STOPPED_BEFORE) -> None:
    """Make sure that an attempt which has not begun never will; one whose supervisor is at work is left to it."""
    if attempt.bar(why):
        attempt.notify()


def _spawn_supervisor(attempt: files.AttemptFiles) -> int:
    """A supervisor in a session of its own, out of reach of what is signalled to the server's terminal."""
    log = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawn(
        sys.executable,
        boot.command("supervisor", str(attempt.directory)),
        {"LC_ALL": "C.UTF-8"},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, str(attempt.supervisor_log), log, 0o600),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
    )
