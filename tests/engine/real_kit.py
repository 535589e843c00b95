"""An engine with real processes on this machine, and lines on which jobs speak to the test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine_kit import BUDGETS, CLUSTER, PATIENCE_S, spec

from support.line import Line
from tenure.config import Config, Server
from tenure.core.model import MINUTE, SECOND, Policy
from tenure.core.state import Job
from tenure.engine import recovery
from tenure.engine.engine import Engine
from tenure.engine.errors import Conflict, NotFound
from tenure.executors.local import LocalExecutor
from tenure.store import JobRow, Store

QUICK = replace(CLUSTER, unallocated_grace=MINUTE, kill_timeout=MINUTE)


class RealRig:
    """Two hosts of four GPU slots on this machine, budgets ``lab/a`` and ``lab/b``."""

    def __init__(self, directory: Path, **policy: Any) -> None:
        self.directory = directory
        server = Server(data_dir=directory, slow_tick=30 * SECOND)
        self.config = Config(server, (QUICK,), Policy(**policy), BUDGETS)
        self.store = Store.open(server.database_url)
        self.line = Line(directory / "line")
        self.boot()
        self.engine.apply((QUICK,), self.config.policy, BUDGETS, (), by="test", dry_run=False)

    def boot(self) -> None:
        self.engine = Engine(self.config, self.store, LocalExecutor(self.directory / "runs"))
        self.engine.start()

    def close(self) -> None:
        with self.engine.view() as state:
            live = list(state.jobs)
        for job_id in live:
            with suppress(Conflict, NotFound):  # it has ended meanwhile
                self.engine.cancel(job_id, "test")
        self.until(lambda: not self.engine._state.attempts)
        self.engine.stop()
        self.line.close()
        assert recovery.replay(self.store).mismatches == ()
        self.store.close()

    def submit(self, program: str, budget: str = "lab/a", gpus: int = 4, **more: Any) -> int:
        return self.engine.submit(spec(budget, gpus, command=self.python(program), **more), by="ann")[0]

    def python(self, program: str) -> Sequence[str]:
        return (sys.executable, "-I", "-S", "-c", PRELUDE + program, str(self.line.path))

    def job(self, job_id: int) -> Job:
        with self.engine.view() as state:
            return state.jobs[job_id]

    def row(self, job_id: int) -> JobRow:
        found = self.store.job(job_id)
        assert found is not None
        return found

    def until(self, met: Callable[[], bool]) -> None:
        """Return when a committed step has made it so."""
        while not met():
            seen = self.engine.last_seq
            if met():
                return
            assert self.engine.wait_change(seen, PATIENCE_S) > seen, "nothing happens any more"

    def until_state(self, job_id: int, *states: str) -> None:
        self.until(lambda: self.row(job_id).state in states)


PRELUDE = """
import os, signal, sys, time
def say(*words):
    with open(sys.argv[1], "w") as line:
        line.write(" ".join(str(word) for word in words) + "\\n")
me = os.environ["TENURE_ATTEMPT_ID"]
restarts = os.environ["TENURE_RESTART_COUNT"]
"""
