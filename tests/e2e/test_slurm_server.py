"""A server that runs its jobs through Slurm, on a real cluster: submitted, watched and cancelled from the outside."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.server import TestServer
from support.slurm import SlurmCluster, cluster


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    yield from cluster(tmp_path_factory.mktemp("slurm"), nodes=2)


@pytest.fixture
def server(slurm: SlurmCluster, tmp_path: Path) -> Iterator[TestServer]:
    server = TestServer(tmp_path, extra_env={"SLURM_CONF": str(slurm.conf_file)})
    text = server.config.read_text().replace('slow_tick = "5s"', 'slow_tick = "5s"\nexecutor = "slurm"')
    text = text.replace("[policy]", '[slurm]\npartition = "gpu"\nroot = "shared"\n\n[policy]', 1)
    server.config.write_text(text.replace("n[1-2]", "node[001-002]"))
    server.start()
    yield server
    server.end()


def test_a_job_runs_comes_back_and_is_cancelled(server: TestServer, slurm: SlurmCluster) -> None:
    say = "echo on $SLURMD_NODENAME gpus $CUDA_VISIBLE_DEVICES as $SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}; sleep 1000"
    submit = ("submit", "-q", "-b", "lab/language", "-g", "4", "--resumable", "--grace", "1s")
    job = int(server.cli(*submit, "--", "/bin/sh", "-c", say).stdout)
    server.wait_state(job, "running")
    (line,) = slurm.run("squeue", "-h", "-t", "running", "-o", "%i %N %b %k").splitlines()
    number, node, gpus, comment = line.split()
    assert (gpus, comment.split(":")[:3]) == ("gres:gpu:4", ["tenure", "main", f"{job}.0"])
    assert server.cli("logs", str(job)).stdout == f"on {node} gpus 0,1,2,3 as {number}.0\n"
    server.client.close()
    server.kill()
    server.start()
    assert server.client.job(job).state == "running"

    server.client.evict(job, "the test wants to see it again")
    wait_until(lambda: server.client.job(job).restarts == 1 and server.client.job(job).state == "running", "again")
    said = server.cli("logs", str(job)).stdout
    assert re.search(rf"as {number}\.[1-9]\n$", said), said  # the same id; Slurm may count a requeue of its own
    server.client.cancel(job)
    assert server.client.wait(job, timeout_s=60).state == "cancelled"
    assert slurm.run("squeue", "-h").strip() == ""


def wait_until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
