"""A real server in a process of its own, on a configuration in a temporary directory."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import tenure
from tenure.cli.main import run
from tenure.client import Client, TenureError

SOURCE = Path(tenure.__file__).parent.parent
READY = "tenure: serving on "

TENURE_TOML = """
budgets = "budgets.toml"

[server]
port = 0
data_dir = ".tenure"
slow_tick = "5s"
estimates = {estimates}

[policy]
{policy}

[clusters.main]
min_runtime_floor = "1s"
min_runtime_max = "2h"
default_min_runtime = "5m"
max_grace = "3s"
unallocated_grace = "1s"
kill_timeout = "5s"
every_host = {{ gpus = 4, cpus = 32, memory = "64G" }}
hosts = [
    {{ name = "n[1-2]", labels = {{ rack = "r1" }} }},
]
"""

BUDGETS_TOML = """
[lab]
managers = ["ada"]

[lab.language]
share = 0.5
managers = ["grace"]

[lab.vision]
share = 0.25
members = ["alan", "admin"]

[lab.none]
share = 0
"""


class Said(NamedTuple):
    """What a command answered."""

    returncode: int
    stdout: str
    stderr: str


class _Text(io.TextIOWrapper):
    """Text and bytes that are written, kept."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), "utf-8", write_through=True)

    def text(self) -> str:
        kept = self.buffer
        assert isinstance(kept, io.BytesIO)
        return kept.getvalue().decode()


class TestServer:
    """``client``: of the administrator. Stop it with ``stop``, or with ``kill`` as a crash would."""

    __test__ = False

    def __init__(
        self, directory: Path, *, policy: str = "", extra_env: Mapping[str, str] | None = None, estimates: str = "0"
    ) -> None:
        self.directory = directory
        self.config = directory / "tenure.toml"
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("TENURE_")},
            "PYTHONPATH": str(SOURCE),
            "HOME": str(directory),
            "XDG_CONFIG_HOME": str(directory / "config"),
            "NO_COLOR": "1",
            **(extra_env or {}),
        }
        self.config.write_text(TENURE_TOML.format(policy=policy, estimates=estimates))
        (directory / "budgets.toml").write_text(BUDGETS_TOML)
        self._log = directory / "server.log"
        self.url = ""

    def start(self) -> None:
        """Start it, and come back when it answers."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tenure", "serve", "--config", str(self.config)],
                env=self.environment,
                cwd=self.directory,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(READY), f"the server did not start: {line}{self._log.read_text()}"
        url = line.removeprefix(READY).strip()
        if url != self.url:  # with a port of its own, whoever is asking goes on with the same client
            if self.url:
                self.client.close()
            self.url, self.client = url, Client(url, self.token, patience_s=20)

    @property
    def token(self) -> str:
        text = (self.directory / ".tenure" / "client.toml").read_text()
        return next(line.split('"')[1] for line in text.splitlines() if line.startswith("token"))

    def kill(self) -> None:
        """As a crash: at once, with no chance to tidy up."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """As a service manager does it; jobs go on."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=60)

    def clear(self) -> None:
        """Cancel everything, and wait until nothing runs any more."""
        jobs = list(self.client.jobs())
        for job in jobs:
            with contextlib.suppress(TenureError):  # it has ended meanwhile
                self.client.cancel(job.id)
        for job in jobs:
            self.client.wait(job.id, timeout_s=60)

    def end(self) -> None:
        """``clear``, and stop."""
        try:
            if self.process.poll() is None:
                self.clear()
                self.stop()
        finally:
            if self.process.poll() is None:  # something went wrong: it must not be in the way of other tests
                self.kill()
            self.client.close()

    def cli(
        self,
        *arguments: str,
        token: str | None = None,
        cwd: Path | None = None,
        code: int | None = 0,
        env: Mapping[str, str] | None = None,
    ) -> Said:
        """Run ``tenure ARGUMENTS`` as the administrator or with ``token``, in this process, which is faster.

        Checks the exit code unless that is None.
        """
        environment = self._cli_environment(token, env)
        out, err = _Text(), _Text()
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            contextlib.chdir(cwd or self.directory),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(sys, "stdin", io.StringIO()),
        ):
            done = Said(run(arguments), "", "")
        done = Said(done.returncode, out.text(), err.text())
        if code is not None:
            assert done.returncode == code, f"{arguments} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done

    def cli_process(self, *arguments: str, token: str | None = None) -> subprocess.Popen[str]:
        """The same in a process and a process group of its own, as a shell would start it in the background."""
        return subprocess.Popen(
            [sys.executable, "-m", "tenure", *arguments],
            env=self._cli_environment(token, None),
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _cli_environment(self, token: str | None, env: Mapping[str, str] | None) -> dict[str, str]:
        # Without a token: what a person has who works next to the configuration.
        who = {} if token is None else {"TENURE_URL": self.url, "TENURE_TOKEN": token}
        return {**self.environment, **who, **(env or {})}

    def wait_state(self, job: int, *states: str, timeout_s: float = 60) -> str:
        """Wait until the job is in one of ``states``."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            now = self.client.job(job)
            if now.state in states:
                return now.state
            assert not now.ended, f"job {job} ended as {now.state}: {now.reason.text}"
            self.client.wait_once(job, wait_ms=2000, unless=now.state)
        raise AssertionError(f"job {job} is still {now.state}: {now.reason.text}")
