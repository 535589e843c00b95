"""A server that is killed again and again under a stream of real short jobs."""

from __future__ import annotations

import contextlib
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tenure
from tenure.client import Client, TenureError, Unreachable

PATIENCE_S = 120
HERE = Path(__file__).parent
SOURCE = Path(tenure.__file__).parent.parent
HOSTS, GPUS = 2, 4
LIVE = 14
"""Jobs outstanding: about three times what the slots hold."""

TENURE_TOML = f"""
[server]
data_dir = "data"
slow_tick = "1s"
estimates = 0

[policy]
preemption_margin = "1s"
unallocated_turn = "1s"
evictions_per_minute = 10000
backoff_first = "100ms"
backoff_max = "1s"

[clusters.main]
min_runtime_floor = "1s"
default_min_runtime = "1s"
max_grace = "2s"
unallocated_grace = "1s"
kill_timeout = "2m"
every_host = {{ gpus = {GPUS}, cpus = 64, memory = "64G" }}
hosts = [{{ name = "n[1-{HOSTS}]" }}]
"""
BUDGETS_TOML = """
[lab.a]
share = 0.5
[lab.b]
share = 0.5
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job in the stream, and how it may end."""

    request: Mapping[str, Any]
    how: str
    seconds: tuple[float, float]
    ends: frozenset[str]


def kind(how: str, least: float, most: float, ends: str, **request: Any) -> Kind:
    return Kind(request, how, (least, most), frozenset(ends.split()))


KINDS = (
    kind("run", 0.1, 1.5, "succeeded", gpus=2, min_runtime="1s", resumable=True),
    kind("run", 0.1, 1.0, "succeeded failed preempted", gpus=1, min_runtime="1s", resumable=False),
    kind("run", 0.5, 3.0, "succeeded", gpus=2, min_runtime="0", resumable=True),
    kind("leave", 0.5, 2.0, "succeeded", gpus=4, min_runtime="0", resumable=True),
    kind("run", 0.5, 2.0, "succeeded failed preempted", gpus=1, min_runtime="0", resumable=False),
    kind("run", 0.3, 1.0, "succeeded", gpus=4, replicas=2, min_runtime="1s", resumable=True),
    kind("leave", 1.5, 3.0, "succeeded", gpus=3, min_runtime="1s", resumable=True),
    kind("fail", 0.1, 0.5, "failed preempted", gpus=1, min_runtime="1s", resumable=False, retries=1),
    kind("run", 1000, 2000, "cancelled", gpus=1, min_runtime="1s", resumable=True),
)


class Stream:
    """``jobs``: what has been submitted, by id. Everything random comes from ``seed``."""

    def __init__(self, directory: Path, seed: int, port: int) -> None:
        self.directory, self.random = directory, random.Random(seed)
        self.jobs: dict[int, Kind] = {}
        self.data, self.slots = directory / "data", directory / "slots"
        self.slots.mkdir()
        self.config = directory / "tenure.toml"
        self.config.write_text(TENURE_TOML)
        (directory / "budgets.toml").write_text(BUDGETS_TOML)
        self.errors: list[BaseException] = []
        self._wishes = random.Random(seed + 1)
        self._ended = threading.Event()
        self._lines: queue.Queue[str] = queue.Queue()
        self._log = (directory / "server.log").open("wb")
        self._nursery = subprocess.Popen(
            [sys.executable, str(HERE / "nursery.py"), str(self.config), str(port)],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()
        self._submitter = threading.Thread(target=self._submit_all, daemon=True)
        self.pid = 0

    # ---- the server

    def start(self, fault: str = "") -> None:
        """Fork a server off; it may still be reading its database when this returns."""
        assert self._nursery.stdin is not None
        self._nursery.stdin.write(fault + "\n")
        self._nursery.stdin.flush()
        self.pid = int(self._hear("started "))

    def ready(self) -> None:
        self._hear("tenure: serving on ")

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        assert self.died() == -signal.SIGKILL

    def died(self) -> int:
        """Wait for its end; returns the exit code."""
        return int(self._hear("ended "))

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGTERM)
        assert self.died() == 0

    def kill_a_supervisor(self) -> bool:
        """SIGKILL for one of the supervisors that are alive, if there is one."""
        found = {pid for pid, words in processes(str(self.data / "runs")) if words[-1].startswith(str(self.data))}
        # A process of a job looks like its supervisor until it has become what the user wants.
        supervisors = sorted(pid for pid in found if parent(pid) not in found)
        if supervisors:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.random.choice(supervisors), signal.SIGKILL)
        return bool(supervisors)

    def _hear(self, beginning: str) -> str:
        while True:
            line = self._lines.get(timeout=PATIENCE_S)
            if line.startswith(beginning):
                return line.removeprefix(beginning).strip()
            unexpected = line.startswith("ended ") or line == ""
            assert not unexpected, f"{line}: {(self.directory / 'server.log').read_text()[-3000:]}"

    def _listen(self) -> None:
        assert self._nursery.stdout is not None
        for line in self._nursery.stdout:
            self._lines.put(line)
        self._lines.put("")

    # ---- the jobs

    def run(self) -> None:
        self._submitter.start()

    def finish(self) -> None:
        """Submit nothing more, wait until every job has ended, and stop the server and what started it."""
        self._ended.set()
        self._submitter.join(PATIENCE_S)
        assert not self._submitter.is_alive() and not self.errors, self.errors
        with self._client() as client:
            for job_id in self.jobs:
                assert client.wait(job_id, PATIENCE_S).ended
        self.stop()
        self.close()

    def close(self) -> None:
        self._ended.set()
        assert self._nursery.stdin is not None
        self._nursery.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._nursery.wait(PATIENCE_S)
        self._log.close()

    def _submit_all(self) -> None:
        try:
            number = 0
            while not self._ended.is_set():
                number += 1
                self._submit(number)
        except BaseException as error:
            self.errors.append(error)

    def _submit(self, number: int) -> None:
        wish = self._wishes.choice(KINDS)
        seconds = self._wishes.uniform(*wish.seconds)
        request = {
            **wish.request,
            "budget": self._wishes.choice(["lab/a", "lab/b"]),
            "command": [
                sys.executable,
                "-I",
                "-S",
                str(HERE / "holder.py"),
                str(self.slots),
                f"{seconds:.2f}",
                wish.how,
            ],
            "workdir": "/",
            "grace": "1s",
            "client_key": f"key-{number}",
        }
        job_id = self._insist(lambda client: client.submit(request).job.id)
        assert job_id not in self.jobs, "an id was given twice"
        self.jobs[job_id] = wish
        if wish.ends == {"cancelled"}:
            self._insist(lambda client: client.cancel(job_id))
        while not self._ended.wait(0.05) and self._insist(lambda client: len(client.jobs_page().items)) >= LIVE:
            pass

    def _insist(self, ask: Any) -> Any:
        """Ask until a server lives long enough to answer; the same key makes it happen once."""
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                with self._client() as client:
                    return ask(client)
            except (Unreachable, FileNotFoundError):
                pass
            except TenureError as error:
                # A new server has a new token, and one that goes takes no requests.
                if error.status not in (401, 503):
                    raise
            assert time.monotonic() < end, "no server answers"
            time.sleep(0.05)

    def _client(self) -> Client:
        lines = dict(line.split(" = ") for line in (self.data / "client.toml").read_text().splitlines())
        return Client(lines["url"].strip('"'), lines["token"].strip('"'), patience_s=0)


def parent(pid: int) -> int:
    """Its parent's pid, 0 when it is gone."""
    with contextlib.suppress(OSError):
        return int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    return 0


def processes(about: str) -> list[tuple[int, list[str]]]:
    """(pid, command line) of all that are not dead and have ``about`` in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            if any(about in word for word in words):
                found.append((int(entry.name), words))
    return found
