"""A real Slurm with the plugin, a real server beside it, and people who know neither."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.server import TestServer
from support.slurm import SlurmCluster, cluster
from tenure.client import Unreachable
from tenure.executors.slurm import rows
from tenure.executors.slurm.rows import Row
from tenure.slurm.commands import Commands

PLUGIN = Path(__file__).resolve().parents[2] / "packaging" / "slurm" / "job_submit.lua"
SOMEBODY = "nobody"
CONF = "JobSubmitPlugins=lua\nKillWait=2\n"
HOSTS = """
[clusters.main]
min_runtime_floor = "1s"
min_runtime_max = "2h"
default_min_runtime = "1m"
max_grace = "30s"
unallocated_grace = "1s"
kill_timeout = "30s"
hosts = [{ discover = true }]
"""
SLEEP = "#!/bin/sh\nexec sleep 1000\n"


def slurm(base: Path, nodes: int = 2, conf: str = "") -> Iterator[SlurmCluster]:
    """For fixtures: a cluster whose partition is Tenure's."""
    (base / "etc").mkdir()
    (base / "out").mkdir()
    (base / "out").chmod(0o1777)
    shutil.copy(PLUGIN, base / "etc" / "job_submit.lua")
    yield from cluster(base, nodes=nodes, conf=CONF + conf, anybodys=True)


class Lab:
    """One cluster and one server."""

    def __init__(self, slurm: SlurmCluster, directory: Path, more: str = "") -> None:
        self.slurm, self.directory = slurm, directory
        self.server = TestServer(directory, extra_env={"SLURM_CONF": str(slurm.conf_file)})
        text = self.server.config.read_text().replace('slow_tick = "5s"', 'slow_tick = "5s"\nexecutor = "slurm"')
        text = text[: text.index("[clusters.main]")] + HOSTS
        self.server.config.write_text(
            text.replace("[policy]", f'[slurm]\npartition = "gpu"\nroot = "shared"\n{more}\n[policy]', 1)
        )
        self._commands = Commands(None, slurm.env)
        self._scripts = 0

    # ---- Slurm's side

    def sbatch(self, *options: str, script: str = SLEEP, user: str = SOMEBODY) -> str:
        """Slurm's id of a job that ``user`` submits as ever."""
        self._scripts += 1
        path = self.directory / f"job{self._scripts}.sh"
        path.write_text(script)
        output = () if any(one.startswith("--output") for one in options) else ("--output=/dev/null",)
        done = self.as_user(user, "sbatch", "--parsable", *output, *options, str(path))
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def as_user(self, user: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (*becoming(user), *words),
            env=self.slurm.env,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def row(self, job: str) -> Row | None:
        return next((row for row in rows.ask(self._commands, "gpu") if row.id == job), None)

    def state(self, job: str) -> str:
        row = self.row(job)
        return row.state if row is not None else ""

    def shown(self, job: str) -> dict[str, str]:
        """``scontrol show job``, by key."""
        words = self.slurm.run("scontrol", "show", "job", "-d", "-o", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    # ---- Tenure's side

    def adopted(self, job: str) -> int:
        """Tenure's number of a job of Slurm, as soon as it has one."""
        self.wait(lambda: " job=" in self.mark(job), lambda: f"{job} is adopted: {self.mark(job)}")
        return int(self.mark(job).partition(" job=")[2].split()[0])

    def mark(self, job: str) -> str:
        row = self.row(job)
        return row.mark if row is not None else ""

    def reason(self, job: int) -> str:
        return self.server.client.job(job).reason.code

    def wait_state(self, job: int, state: str) -> None:
        self.wait(lambda: self.server.client.job(job).state == state, lambda: f"{state}: {self.server.client.job(job)}")

    def attempts(self, job: int) -> list[dict[str, Any]]:
        return list(json.loads(self.server.cli("show", str(job), "--json").stdout)["attempts"])

    def evict(self, job: int) -> None:
        """Where a fault is set the server may be dead before it has answered."""
        with contextlib.suppress(Unreachable):
            self.server.client.evict(job, "the test wants to see it again")

    def gate(self) -> tuple[Path, str]:
        """A file that jobs can see, and a line of a script that waits for it."""
        path = self.slurm.base / "out" / f"{self.directory.name}.go"
        return path, f"until [ -e {path} ]; do sleep 0.1; done"

    def wait(self, done: Callable[[], bool], what: str | Callable[[], str]) -> None:
        deadline = time.monotonic() + 120
        while not done():
            assert time.monotonic() < deadline, what if isinstance(what, str) else what()
            time.sleep(0.1)

    def clear(self) -> None:
        """Nothing is left for the next test."""
        for user in ("root", SOMEBODY):
            self.slurm.run("scancel", "-u", user, check=False)
        self.wait(lambda: self.slurm.run("squeue", "-h").strip() == "", "Slurm has nothing to do")


@contextmanager
def lab(slurm: SlurmCluster, directory: Path, more: str = "") -> Iterator[Lab]:
    made = Lab(slurm, directory, more)
    made.server.start()
    try:
        yield made
    finally:
        made.server.end()
        made.clear()


def becoming(user: str) -> tuple[str, ...]:
    """Words before a command. The user may look into pytest's directories, which are their owner's alone."""
    if user == "root":
        return ()
    caps = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    return ("setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups", *caps)
