"""One server over two real Slurm clusters that know nothing of each other."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.server import TestServer
from support.slurm import SlurmCluster, cluster


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    yield from cluster(tmp_path_factory.mktemp("first"), nodes=1)


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    yield from cluster(tmp_path_factory.mktemp("second"), nodes=2, first=101)


@pytest.fixture
def server(first: SlurmCluster, second: SlurmCluster, tmp_path: Path) -> Iterator[TestServer]:
    server = TestServer(tmp_path)
    text = server.config.read_text().replace('slow_tick = "5s"', 'slow_tick = "5s"\nexecutor = "slurm"')
    slurm = f'[slurm]\npartition = "gpu"\nroot = "shared"\nconf = "{first.conf_file}"\n'
    slurm += f'[slurm.east]\nconf = "{second.conf_file}"\n\n[policy]'
    head, _, _ = text.replace("[policy]", slurm, 1).partition("every_host")
    limits = head[head.index("[clusters.main]") + len("[clusters.main]") :]
    text = f"{head}hosts = [{{ discover = true }}]\n[clusters.east]{limits}hosts = [{{ discover = true }}]\n"
    server.config.write_text(text)
    server.start()
    yield server
    server.end()


def submit(server: TestServer, *more: str) -> int:
    return int(server.cli("submit", "-q", "-b", "lab/language", *more).stdout)


def running(slurm: SlurmCluster) -> list[str]:
    """Tenure's names of what runs there: ``CLUSTER:JOB.PART``."""
    return [":".join(line.split(":")[1:3]) for line in slurm.run("squeue", "-h", "-t", "running", "-o", "%k").split()]


def test_each_cluster_has_its_slurm_and_a_job_may_accept_both(
    server: TestServer, first: SlurmCluster, second: SlurmCluster
) -> None:
    hosts = [(host.cluster, host.name, host.gpus) for host in server.client.hosts()]
    assert hosts == [("main", "node001", 8), ("east", "node101", 8), ("east", "node102", 8)]
    stay = ("--", "sleep", "1000")
    here = submit(server, "-g", "8", "--cluster", "main", *stay)
    there = submit(server, "-g", "8", "--cluster", "east", *stay)
    either = submit(server, "-g", "8", "--cluster", "main", "--cluster", "east", *stay)
    for job in (here, there, either):
        server.wait_state(job, "running")
    assert running(first) == [f"main:{here}.0"]
    assert sorted(running(second)) == sorted([f"east:{there}.0", f"east:{either}.0"])
    last = submit(server, "-g", "8", "--cluster", "east", "--cluster", "main", "--", "true")
    server.client.cancel(here)
    assert server.client.wait(last, timeout_s=60).state == "succeeded"
    assert server.client.job(last).attempt is None and server.client.job(last).cluster == "main"
    # Both are found again.
    server.kill()
    server.start()
    assert {server.client.job(job).state for job in (there, either)} == {"running"}


def test_a_drain_is_of_one_cluster(server: TestServer, first: SlurmCluster, second: SlurmCluster) -> None:
    second.run("scontrol", "update", "NodeName=node101", "State=DRAIN", "Reason=bad disk")
    wait_until(lambda: states(server) == ["healthy", "draining", "healthy"], "drained in one")
    server.cli("drain", "main/node001", "--why", "fans")
    wait_until(lambda: "tenure: fans (admin)" in first.run("sinfo", "-h", "-R", "-o", "%E"), "told to the other")
    assert "fans" not in second.run("sinfo", "-h", "-R", "-o", "%E")
    server.cli("undrain", "main/node001")
    second.run("scontrol", "update", "NodeName=node101", "State=RESUME")
    wait_until(lambda: states(server) == ["healthy"] * 3, "all are back")
    wait_until(lambda: "fans" not in first.run("sinfo", "-h", "-R", "-o", "%E"), "back there")


def test_a_slurm_that_hangs_holds_up_nobody_else(server: TestServer, first: SlurmCluster, second: SlurmCluster) -> None:
    pid = int((first.base / "run" / "slurmctld.pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        stuck = submit(server, "-g", "8", "--cluster", "main", "--", "true")
        done = submit(server, "-g", "8", "--cluster", "east", "--", "true")
        assert server.client.wait(done, timeout_s=60).state == "succeeded"
        assert server.client.job(stuck).state == "starting"
        second.run("scontrol", "update", "NodeName=node102", "State=DRAIN", "Reason=bad disk")
        wait_until(lambda: states(server) == ["healthy", "healthy", "draining"], "drained in the other")
    finally:
        os.kill(pid, signal.SIGCONT)
        second.run("scontrol", "update", "NodeName=node102", "State=RESUME")
    assert server.client.wait(stuck, timeout_s=60).state == "succeeded"


def states(server: TestServer) -> list[str]:
    return [host.state for host in server.client.hosts()]


def wait_until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
