"""The small process that runs one attempt and outlives the server: ``supervisor.main(directory)``.

It holds the lock of the attempt for its whole life, starts every process of every replica, waits, obeys
``stop.json``, and leaves the exit codes in ``status.json``. It is the subreaper of all that the job spawns, so
"no child left" means that nothing is left, and the attempt has not ended before. It never starts an attempt that
has begun before, so a second supervisor does no harm.

Standard library only: it runs without site-packages and must stay small, since there is one for each attempt.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tenure.executors import files, procs
from tenure.executors.spawning import Process, spawn

GANG_GRACE_MS = 5_000
"""After one replica has failed: from SIGTERM to the others' first processes to SIGKILL for everything."""
NEVER = 1 << 62
"""A time (ms) that does not come."""
KILL_AGAIN_MS = 200
"""After a SIGKILL: how long until what is still there is killed again (it may have forked meanwhile)."""
WRITE_AGAIN_S = 1.0
"""How long to wait for room on a full disk."""
FIRST_PORT, PORTS = 20_000, 10_000
"""MASTER_PORT is chosen here: below the ports that Linux gives to outgoing connections."""


@dataclass
class Running:
    """A process that this supervisor has started. ``code`` is None until it has ended."""

    process: Process
    pid: int
    pipe: int | None
    code: int | None = None


def main(directory: str, more_env: Mapping[str, str] | None = None) -> int:
    """Run the attempt in ``directory`` unless it has begun before. Returns an exit code for the process.

    ``more_env``: variables that only this host knows; those of the launch win.
    """
    # Whatever the server had open is not for the job.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    attempt = files.AttemptFiles(Path(directory))
    lock = procs.try_lock(attempt.lock)
    if lock is None or attempt.status.exists():
        return 0
    os.chdir("/")
    launch = procs.read_json(attempt.launch)
    if launch is None:
        raise FileNotFoundError(attempt.launch)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # It ends when its job has ended. Whoever wants that sooner stops the job.
        signal.signal(number, signal.SIG_IGN)
    procs.adopt_orphans()
    procs.wear_tag(launch["tag"])
    launch["env"] = {**(more_env or {}), **launch["env"]}
    Supervisor(attempt, launch).run()
    return 0


class Supervisor:
    def __init__(self, attempt: files.AttemptFiles, launch: dict[str, Any]) -> None:
        self._files = attempt
        self._files.logs = Path(launch.get("logs", attempt.directory))
        self._launch = launch
        self._look_every: int | None = launch.get("look_every")
        own = procs.stat(os.getpid())
        assert own is not None
        self._identity = (own.pid, own.started)
        self._selector = selectors.DefaultSelector()
        self._running: list[Running] = []
        self._first_failure: Running | None = None
        self._complaint = ""
        self._up = False
        self._empty = False
        self._order: files.Order | None = None
        self._kill_at: int | None = None
        self._warned = False
        self._announced = NEVER
        """``kill_at`` of what the warning file tells of; it only ever gets earlier."""
        self._gang_told = False

    def run(self) -> None:
        self._listen()
        self._files.write_status(files.STARTING, supervisor=self._identity)
        # The order file is read after the FIFO exists: whoever wrote it earlier could not ring.
        self._read_order()
        if self._order is not None:
            self._end(files.NOT_STARTED, files.STOPPED_BEFORE)
            return
        with self._port() as port:
            self._spawn_all(port)
            while not self._empty:
                self._wait()
                self._hear_pipes()
                self._reap()
                self._act()
        if self._complaint:
            self._end(files.NOT_STARTED, self._complaint)
        else:
            self._end(files.EXITED, self._describe_failure())

    def _port(self) -> contextlib.AbstractContextManager[int]:
        """Of a gang over several hosts the executor has chosen one for all of them."""
        if "port" in self._launch:
            return contextlib.nullcontext(int(self._launch["port"]))
        return master_port(self._files.root, self._launch["tag"])

    def _listen(self) -> None:
        """From here on SIGCHLD and the executor's ring end a wait."""
        with contextlib.suppress(FileExistsError):
            os.mkfifo(self._files.wake, 0o600)
        # Open for both ways, so that it never reads as ended when a writer goes.
        self._ring = os.open(self._files.wake, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        woken, waker = socket.socketpair()
        woken.setblocking(False)
        waker.setblocking(False)
        self._woken, self._waker = woken, waker
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._selector.register(self._ring, selectors.EVENT_READ, self._hear_ring)
        self._selector.register(woken, selectors.EVENT_READ, lambda: woken.recv(4096))

    def _spawn_all(self, port: int) -> None:
        common = complete_environment(self._launch["env"], port, self._launch["protected_for"])
        for entry in self._launch["processes"]:
            process = Process(
                node_rank=entry["node_rank"],
                label=entry["label"],
                command=entry["command"],
                workdir=self._launch["workdir"],
                env={**common, **entry["env"]},
                stdout=self._files.log(entry["node_rank"], "stdout"),
                stderr=self._files.log(entry["node_rank"], "stderr"),
            )
            pid, pipe = spawn(process)
            self._running.append(Running(process, pid, pipe))
            self._selector.register(pipe, selectors.EVENT_READ, lambda: None)

    def _wait(self) -> None:
        left = NEVER if self._kill_at is None else max(0, self._kill_at - procs.boottime_ms())
        if self._look_every is not None:
            left = min(left, self._look_every)
        for key, _ in self._selector.select(None if left == NEVER else left / 1000):
            key.data()
        if self._look_every is not None:
            self._read_order()

    def _hear_ring(self) -> None:
        os.read(self._ring, 4096)
        self._read_order()

    def _read_order(self) -> None:
        """An order from another host tells how long from now, and may be read again: clocks since boot differ."""
        order = self._files.read_order()
        if order is None:
            return
        if order.left is not None:
            kill_at = procs.boottime_ms() + order.left
            earlier = NEVER if self._order is None else self._order.kill_at
            order = replace(order, kill_at=min(kill_at, earlier))
        self._order = order

    def _hear_pipes(self) -> None:
        """Learn which processes have reached their own program; all of them: the attempt runs."""
        for running in self._running:
            if running.pipe is None:
                continue
            try:
                complaint = os.read(running.pipe, 8192)
            except BlockingIOError:
                continue
            self._selector.unregister(running.pipe)
            os.close(running.pipe)
            running.pipe = None
            self._complaint = self._complaint or complaint.decode(errors="replace")
        if not self._up and not self._complaint and all(one.pipe is None for one in self._running):
            self._up = True
            self._say_phase()

    def _say_phase(self) -> None:
        """With the failure of a replica, if there is one: other hosts of the gang are stopped for it at once."""
        phase, failure = files.RUNNING if self._up else files.STARTING, self._describe_failure()
        self._files.write_status(phase, supervisor=self._identity, message=failure, durable=False)
        self._notify()

    def _notify(self) -> None:
        """Tell the executor, if one listens. On another host it looks into a directory now and then."""
        if "news" in self._launch:
            with contextlib.suppress(OSError):
                Path(self._launch["news"]).touch()
        else:
            self._files.notify()

    def _reap(self) -> None:
        """Collect every child that has ended, adopted ones too."""
        by_pid = {running.pid: running for running in self._running}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._empty = True
                return
            if pid == 0:
                return
            if running := by_pid.get(pid):
                running.code = os.waitstatus_to_exitcode(status)
                if running.code and self._first_failure is None:
                    self._first_failure = running

    def _act(self) -> None:
        """Decide what has to happen now; sets when to look again."""
        if self._empty:
            return
        now = procs.boottime_ms()
        leaders_left = any(running.code is None for running in self._running)
        if self._complaint:
            self._kill_by(now)
        elif self._order is not None:
            self._kill_by(self._order.kill_at)
            self._obey(self._order, now)
        elif not leaders_left:
            # What a finished job leaves behind has no claim on the GPUs any more.
            self._kill_by(now)
        elif self._first_failure is not None and not self._gang_told:
            self._gang_told = True
            self._kill_by(now + GANG_GRACE_MS)
            why = f"{self._describe_failure()}; the other replicas are stopped"
            self._say(why)
            self._announce(files.Order(now + GANG_GRACE_MS, "SIGTERM", why), GANG_GRACE_MS)
            self._signal_leaders("SIGTERM")
            self._say_phase()
        if self._kill_at is not None and self._kill_at <= now:
            for process in procs.descendants(os.getpid()):
                procs.kill(process)
            self._kill_at = now + KILL_AGAIN_MS

    def _kill_by(self, at: int) -> None:
        self._kill_at = at if self._kill_at is None else min(self._kill_at, at)

    def _obey(self, order: files.Order, now: int) -> None:
        """Pass the warning on, once, if time is left to heed it: after a gang's failure less than was ordered."""
        kill_at = order.kill_at if self._kill_at is None else min(order.kill_at, self._kill_at)
        left = kill_at - now
        if left > 0 and kill_at < self._announced:
            self._announce(replace(order, kill_at=kill_at), left)
        if self._warned:
            return
        self._warned = True
        what = f"{order.warn_signal}, kill in {left / 1000:.0f} s" if left > 0 else "killed"
        self._say(f"{what}: {order.why or 'told to stop'}")
        if left > 0:
            self._signal_leaders(order.warn_signal)

    def _announce(self, order: files.Order, left: int) -> None:
        """Write the warning file: before the signal, so that who hears that finds it. Again when less time is left."""
        self._announced = order.kill_at
        path = self._launch["env"].get("TENURE_WARNING")
        if path is None:  # launched by an earlier release
            return
        # First in a directory of this host's own: those of a gang share the file.
        unfinished = self._files.directory / "warning.new"
        # The signal must go out even when the disk is full.
        with contextlib.suppress(OSError):
            procs.write_json(unfinished, order.warning(left), durable=False)
            unfinished.replace(path)

    def _signal_leaders(self, name: str) -> None:
        """Signal the first process of each replica. Their children hear nothing of it."""
        number = signal.Signals.__members__.get(name, signal.SIGTERM)
        for running in self._running:
            if running.code is None:
                # Not reaped yet, so the pid is still its own.
                os.kill(running.pid, number)

    def _say(self, text: str) -> None:
        """A line of ours in the stderr of every replica."""
        words = " ".join(text.split())  # people write some of them
        line = f"tenure: {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {words}\n".encode()
        for path in {running.process.stderr for running in self._running}:
            with contextlib.suppress(OSError), path.open("ab") as log:
                log.write(line)

    def _describe_failure(self) -> str:
        if self._first_failure is None or self._first_failure.code is None:
            return ""
        code = self._first_failure.code
        names = {member.value: member.name for member in signal.Signals}
        how = f"exited with {code}" if code > 0 else f"was ended by {names.get(-code, f'signal {-code}')}"
        return f"{self._first_failure.process.label} {how}"

    def _exit_codes(self) -> tuple[int, ...]:
        """One per replica: the first failure among its processes, else 0."""
        codes = {running.process.node_rank: 0 for running in self._running}
        failures = [self._first_failure] if self._first_failure else []
        for running in failures + self._running:
            codes[running.process.node_rank] = codes[running.process.node_rank] or running.code or 0
        return tuple(codes[rank] for rank in sorted(codes))

    def _end(self, phase: str, message: str) -> None:
        codes = self._exit_codes() if phase == files.EXITED else ()
        while True:
            try:
                self._files.write_status(phase, supervisor=self._identity, exit_codes=codes, message=message)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                # Nobody else knows how it ended, and disks do not stay full.
                time.sleep(WRITE_AGAIN_S)
            else:
                break
        self._notify()


def complete_environment(env: dict[str, str], port: int, protected_for: int) -> dict[str, str]:
    """Add what is known only now: the port (unless the user chose one) and the end of the protection."""
    protected_until = ""
    if protected_for > 0:
        # The protection counts from the moment when all replicas are up, which cannot be earlier than now.
        seconds = time.time() + protected_for / 1000
        protected_until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    launcher = {"MASTER_PORT": str(port), **env}
    address = f"{launcher['MASTER_ADDR']}:{launcher['MASTER_PORT']}"
    return {
        "PET_MASTER_ADDR": launcher["MASTER_ADDR"],
        "PET_MASTER_PORT": launcher["MASTER_PORT"],
        "PET_RDZV_ENDPOINT": address,
        **launcher,
        "TENURE_PROTECTED_UNTIL": protected_until,
    }


@contextlib.contextmanager
def master_port(root: Path, tag: str) -> Iterator[int]:
    """A port that nobody listens on and that no other attempt of this machine is given meanwhile."""
    ports = root / "ports"
    ports.mkdir(exist_ok=True)
    start = int(tag) % PORTS
    for offset in range(PORTS):
        port = FIRST_PORT + (start + offset) % PORTS
        lock = procs.try_lock(ports / str(port))
        if lock is None:
            continue
        try:
            if _is_free(port):
                yield port
                return
        finally:
            os.close(lock)
    raise OSError(f"no free port from {FIRST_PORT} to {FIRST_PORT + PORTS - 1} for MASTER_PORT")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
