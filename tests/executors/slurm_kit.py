"""Executors on a real Slurm cluster, and what Slurm itself says about their jobs."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import executor_kit

from support.slurm import SlurmCluster
from tenure.executors.slurm.executor import SlurmExecutor


def executor(cluster: SlurmCluster, root: Path, commands: Path | None = None) -> SlurmExecutor:
    return SlurmExecutor(root, "gpu", commands, cluster.env)


@contextmanager
def nodes_as_hosts(cluster: SlurmCluster) -> Iterator[None]:
    """The hosts of the tests' launches are the first nodes of the cluster."""
    executor_kit.HOSTS[:] = cluster.names[:2]
    try:
        yield
    finally:
        executor_kit.HOSTS[:] = ["h0", "h1"]


def shown(cluster: SlurmCluster, root: Path) -> list[list[str]]:
    """Id, state, priority, nodes and end of this executor's jobs in Slurm, ended ones too."""
    instance = (root / "instance.json").read_text().split('"')[3]
    lines = cluster.run("squeue", "-h", "-t", "all", "-o", "%i|%T|%Q|%N|%e|%k").splitlines()
    return [line.split("|")[:5] for line in lines if line.endswith(instance)]


def details(cluster: SlurmCluster, job: str) -> dict[str, str]:
    """``scontrol show job``, by key."""
    words = cluster.run("scontrol", "show", "job", "-d", job).split()
    return dict(word.split("=", 1) for word in words if "=" in word)


def wait_kept(cluster: SlurmCluster, job: str) -> None:
    """Until Slurm has been told to take a job back under its id. What ends earlier comes back under another one."""
    wait_until(lambda: details(cluster, job)["Requeue"] == "1", f"Slurm keeps the id {job}")


def wait_until(done: Callable[[], bool], what: str) -> None:
    """For what only Slurm can tell."""
    deadline = time.monotonic() + executor_kit.PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"not so after {executor_kit.PATIENCE_S} s: {what}"
        time.sleep(0.1)


def cancel_all(cluster: SlurmCluster) -> None:
    """Nothing is left for the next test."""
    cluster.run("scancel", "-u", "root", check=False)
    wait_until(lambda: cluster.run("squeue", "-h").strip() == "", "Slurm has nothing to do")


def stop_process(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


def faulty_commands(folder: Path, name: str, *, after: bool) -> Path:
    """Slurm's commands, of which ``name`` fails the first time: before it has done anything, or ``after``."""
    folder.mkdir()
    for command in ("sbatch", "scontrol", "squeue", "scancel", "sinfo"):
        real = shutil.which(command)
        assert real is not None
        if command != name:
            (folder / command).symlink_to(real)
            continue
        work = f'{real} "$@" >/dev/null' if after else ":"
        # Nodes are looked at all the time: that is not what a test wants to see fail.
        looks = f'case "$1" in show) exec {real} "$@" ;; esac'
        once = f'mkdir {folder}/failed 2>/dev/null || exec {real} "$@"'
        script = "\n".join(("#!/bin/sh", looks, once, work, "echo broken >&2", "exit 1", ""))
        (folder / command).write_text(script)
        (folder / command).chmod(0o755)
    return folder
