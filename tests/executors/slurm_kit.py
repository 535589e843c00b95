"""Executors on a real Slurm cluster, and what Slurm itself says about their jobs."""

from __future__ import annotations

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
    """Id, state, priority, nodes and restarts of this executor's jobs in Slurm, ended ones too."""
    instance = (root / "instance.json").read_text().split('"')[3]
    lines = cluster.run("squeue", "-h", "-t", "all", "-o", "%i|%T|%Q|%N|%k").splitlines()
    return [line.split("|")[:4] for line in lines if line.endswith(instance)]


def details(cluster: SlurmCluster, job: str) -> dict[str, str]:
    """``scontrol show job``, by key."""
    words = cluster.run("scontrol", "show", "job", "-d", job).split()
    return dict(word.split("=", 1) for word in words if "=" in word)


def wait_until(done: Callable[[], bool], what: str) -> None:
    """For what only Slurm can tell."""
    deadline = time.monotonic() + executor_kit.PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"not so after {executor_kit.PATIENCE_S} s: {what}"
        time.sleep(0.1)
