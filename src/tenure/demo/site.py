"""The demo's directory and server: set up, started, found again, and stopped with everything that it runs."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from tenure.client import Client, TenureError, Unreachable
from tenure.executors import procs

USUAL_DIRECTORY = ".tenure-demo"
PORT = 7788
HOST = "127.0.0.1"
MARK = "# Written by the demo"
"""First words of the configuration in a directory that may be thrown away."""
START_LIMIT_S = 60.0
JOBS_END_LIMIT_S = 60.0
SERVER_END_LIMIT_S = 20.0
_POLL_S = 0.1


class DemoError(Exception):
    """The demo cannot go on; the text says why and what would help."""


class Site:
    """A directory with a configuration, and the server on it. Everything is below ``directory``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self.config = self.directory / "tenure.toml"
        self.data = self.directory / ".tenure"
        self.log = self.directory / "server.log"
        self.process: subprocess.Popen[bytes] | None = None
        """The server, when this process has started it."""

    @property
    def runs(self) -> Path:
        return self.data / "runs"

    # ---- making

    def make(self, texts: Mapping[str, str]) -> None:
        """Throw away what an earlier run has left, and write the configuration. Raises DemoError."""
        if self.directory.exists():
            ours = self.config.is_file() and self.config.read_text("utf-8", "replace").startswith(MARK)
            if not ours and any(self.directory.iterdir()):
                raise DemoError(f"{self.directory} was not made by the demo; move it away")
            shutil.rmtree(self.directory)
        self.directory.mkdir(parents=True)
        for name, text in texts.items():
            (self.directory / name).write_text(text, "utf-8")

    def start(self, progress: Callable[[], None]) -> None:
        """Start the server in a session of its own, so that it outlives this process. Raises DemoError."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tenure", "serve", "--config", str(self.config)],
                env=environment,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + START_LIMIT_S
        while not self.answers():
            gone = self.process.poll() is not None
            if gone or time.monotonic() > end:
                what = "did not start" if gone else "does not answer"
                said = "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-5:])
                raise DemoError(f"the server {what}; the end of {self.log}:\n{said}")
            progress()
            time.sleep(_POLL_S)

    # ---- looking

    def address(self) -> tuple[str, str] | None:
        """The address and an administrator's token, None when there are none."""
        try:
            data = tomllib.loads((self.data / "client.toml").read_text("utf-8"))
            return str(data["url"]), str(data["token"])
        except (OSError, tomllib.TOMLDecodeError, KeyError):
            return None

    @property
    def url(self) -> str:
        found = self.address()
        return found[0] if found is not None else "(nowhere)"

    def client(self, token: str | None = None) -> Client:
        """A client of the administrator, or of whoever has ``token``. Raises DemoError without a server."""
        found = self.address()
        if found is None:
            raise DemoError(f"no server has run in {self.directory}")
        return Client(found[0], token or found[1], patience_s=5)

    def answers(self) -> bool:
        found = self.address()
        if found is None:
            return False
        try:
            with Client(*found, patience_s=0) as client:
                client.status()
        except (Unreachable, TenureError):
            return False
        return True

    def servers(self) -> list[procs.Stat]:
        """Servers that run on our configuration, whoever started them."""
        return self._running(("serve", "--config", str(self.config)))

    def supervisors(self) -> list[procs.Stat]:
        """What looks after the attempts of our server."""
        return [p for p in procs.everything() if not p.dead and f"{self.runs}/" in _last_argument(p.pid)]

    def _running(self, ending: tuple[str, ...]) -> list[procs.Stat]:
        return [p for p in procs.everything() if not p.dead and _arguments(p.pid)[-len(ending) :] == list(ending)]

    # ---- ending

    def stop(self, progress: Callable[[str], None]) -> int:
        """Cancel all jobs, end the server, and see to it that nothing is left. Returns how many jobs there were."""
        servers = self.servers()
        ended = 0
        if servers and self.answers():
            with self.client() as client:
                ended = _cancel_everything(client, progress)
        for server in servers:
            progress("the server ends")
            _end(server)
        self._end_leftovers()
        if self.process is not None:
            self.process.wait()
        return ended

    def _end_leftovers(self) -> None:
        """What a server left that could not be asked any more."""
        end = time.monotonic() + SERVER_END_LIMIT_S
        while (left := self.supervisors()) and time.monotonic() < end:
            for supervisor in left:
                # Whatever it looks after dies with it.
                procs.kill(supervisor)
            time.sleep(_POLL_S)


def free_port(wanted: int = PORT) -> int | None:
    """``wanted``, or any with 0, if it is free now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, wanted))
        except OSError:
            return None
        return int(sock.getsockname()[1])


def _cancel_everything(client: Client, progress: Callable[[str], None]) -> int:
    """Queued jobs first, so that none of them starts on what the others leave."""
    try:
        jobs = sorted(client.jobs(), key=lambda job: job.attempt is not None)
        for job in jobs:
            with contextlib.suppress(TenureError):  # it has just ended by itself
                client.cancel(job.id)
        end = time.monotonic() + JOBS_END_LIMIT_S
        while (live := client.jobs_page().items) and time.monotonic() < end:
            progress("jobs save their work and end")
            client.wait_once(live[0].id, wait_ms=1000)
    except (TenureError, Unreachable):
        return 0  # It is on its way out by itself; what is left is killed afterwards.
    return len(jobs)


def _end(server: procs.Stat) -> None:
    """Ask it to end, and do not ask any more after a while."""
    handle = procs.open_running(server.pid, server.started)
    if handle is None:
        return
    try:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        if not select.select([handle], [], [], SERVER_END_LIMIT_S)[0]:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], SERVER_END_LIMIT_S)
    finally:
        os.close(handle)


def _arguments(pid: int) -> list[str]:
    try:
        raw = (procs.PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return []
    return raw.decode("utf-8", "replace").split("\0")[:-1]


def _last_argument(pid: int) -> str:
    found = _arguments(pid)
    return found[-1] if found else ""
