"""What the executor tests share: launches, an executor that can be waited for, and a line to running jobs."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tenure.executors.base import Executor, Launch, Phase, ReplicaLaunch, Report, StopOrder

PATIENCE_S = 120
"""How long a test waits for what must come. Nothing depends on it when all is well."""
ENDED = frozenset({Phase.EXITED, Phase.LOST, Phase.NOT_STARTED})
HOUR_MS = 3_600_000
HOSTS = ["h0", "h1"]
"""Where replicas run. An executor that has hosts of its own puts their names here for its tests."""


def sh(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script)


def py(program: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", program)


def replica(command: Sequence[str], rank: int = 0, gpus: tuple[int, ...] = (), host: str = "") -> ReplicaLaunch:
    """On the first of ``HOSTS``, unless ``host`` is given."""
    return ReplicaLaunch(
        role="main",
        role_index=0,
        replica=rank,
        node_rank=rank,
        host=host or HOSTS[0],
        gpus=gpus,
        cpus=1000,
        mem=64,
        command=tuple(command),
    )


def launch_of(
    *commands: Sequence[str],
    attempt_id: str = "1.1",
    workdir: str | Path = "/",
    env: Mapping[str, str] | None = None,
    launch: str = "per-replica",
    protected_for: int = 0,
    replicas: Sequence[ReplicaLaunch] = (),
) -> Launch:
    """One replica per command, unless ``replicas`` are given."""
    job, number = attempt_id.split(".")
    return Launch(
        attempt_id=attempt_id,
        job_id=int(job),
        number=int(number),
        name="a job",
        user="ada",
        budget="lab/language/pretrain",
        cluster="main",
        replicas=tuple(replicas) or tuple(replica(one, rank) for rank, one in enumerate(commands)),
        workdir=str(workdir),
        env=dict(env or {}),
        launch=launch,
        warn_signal="SIGTERM",
        protected_for=protected_for,
        restart_count=int(number) - 1,
    )


def order(
    attempt_id: str = "1.1", grace: int = HOUR_MS, warn_signal: str = "SIGTERM", why: str = "", again: bool = False
) -> StopOrder:
    return StopOrder(attempt_id, grace, warn_signal, why, again)


class Watched:
    """An opened executor and a way to wait for its reports without asking again and again."""

    def __init__(self, executor: Executor, epoch: int = 1) -> None:
        self.executor = executor
        self._news = threading.Event()
        executor.open(epoch, self._news.set)

    def report(self, attempt_id: str = "1.1") -> Report | None:
        return next((one for one in self.executor.poll() if one.attempt_id == attempt_id), None)

    def until(self, wanted: Callable[[Report], bool], attempt_id: str = "1.1") -> Report:
        """The first report that is ``wanted``. Only ``on_change`` makes this look again."""
        while True:
            self._news.clear()
            found = self.report(attempt_id)
            if found is not None and wanted(found):
                return found
            assert self._news.wait(PATIENCE_S), f"no news; the last report was {found}"

    def ended(self, attempt_id: str = "1.1") -> Report:
        return self.until(lambda report: report.phase in ENDED, attempt_id)

    def running(self, attempt_id: str = "1.1") -> Report:
        return self.until(lambda report: report.phase is Phase.RUNNING, attempt_id)

    def log(self, rank: int = 0, stream: str = "stdout", attempt_id: str = "1.1") -> str:
        return Path(self.executor.log_path(attempt_id, rank, stream)).read_text()


class Line:
    """A FIFO: jobs write lines into it (``echo ready > PATH``), the test waits for them."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        # Both ways, so that a job never waits for a reader and the test never sees an end.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = b""

    def __str__(self) -> str:
        return str(self.path)

    def hear(self) -> str:
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._descriptor], [], [], PATIENCE_S)
            assert ready, "the job said nothing"
            self._rest += os.read(self._descriptor, 4096)
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def say(self, text: str) -> None:
        os.write(self._descriptor, f"{text}\n".encode())

    def close(self) -> None:
        os.close(self._descriptor)
