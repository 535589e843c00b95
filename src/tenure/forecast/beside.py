"""The process that makes estimates, from the side of the server: started, restarted, ended with it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from tenure.config import Server
from tenure.core.model import MINUTE

log = structlog.get_logger()

_FIRST_PAUSE_S = 10.0
_LONGEST_PAUSE_S = 10 * MINUTE / 1000
_PATIENCE_S = 5.0


@contextmanager
def estimating(server: Server) -> Iterator[None]:
    """Estimates are made for as long as the block lasts, unless they are off."""
    if not server.estimates:
        yield
        return
    keeper = Keeper(server)
    keeper.start()
    try:
        yield
    finally:
        keeper.stop()


class Keeper:
    """Keeps one process going. Whatever becomes of it is no more than a line in the log."""

    def __init__(self, server: Server) -> None:
        told = {"database_url": server.database_url, "every_ms": server.estimates, "log_level": "info"}
        self._told = json.dumps(told).encode() + b"\n"
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep, name="estimates", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the process is gone."""
        self._stopping.set()
        with self._lock:
            process = self.process
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()  # that is how it knows
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join()

    def _keep(self) -> None:
        pause = _FIRST_PAUSE_S
        while not self._stopping.is_set():
            try:
                self._run()
                code: int | str = self.process.returncode if self.process is not None else "none"
            except OSError as error:
                code = str(error)
            if self._stopping.is_set():
                return
            log.error("estimates_ended", code=code, fix=f"started again in {pause:.0f} s; scheduling goes on without")
            self._stopping.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _run(self) -> None:
        """Raises OSError when it cannot be started."""
        with self._lock:
            if self._stopping.is_set():
                return
            # In a session of its own: Ctrl-C is for the server, which ends it.
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tenure.forecast"], stdin=subprocess.PIPE, start_new_session=True
            )
            assert self.process.stdin is not None
            self.process.stdin.write(self._told)  # a new pipe takes a line at once
            self.process.stdin.flush()
        self.process.wait()
