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
    text = text.replace('max_grace = "3s"', 'max_grace = "1m"')
    server.config.write_text(text.replace("n[1-2]", "node[001-002]"))
    server.start()
    yield server
    server.end()


def logs(server: TestServer, job: int) -> str:
    """What it has said, as soon as that is something: its processes are up before they speak."""
    said = [""]

    def spoken() -> bool:
        said[0] = server.cli("logs", str(job)).stdout
        return said[0] != ""

    wait_until(spoken, "it says something")
    return said[0]


def test_a_job_runs_comes_back_and_is_cancelled(server: TestServer, slurm: SlurmCluster) -> None:
    # What ends before Slurm was told to keep its id comes back under another one: so it ends when that is done.
    kept = server.directory / "kept"
    say = (
        f"trap 'until [ -e {kept} ]; do sleep 0.1; done; exit 1' TERM; "
        "echo on $SLURMD_NODENAME gpus $CUDA_VISIBLE_DEVICES as $SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}; "
        "while :; do sleep 0.1; done"
    )
    submit = ("submit", "-q", "-b", "lab/language", "-g", "4", "--resumable", "--grace", "1m")
    job = int(server.cli(*submit, "--", "/bin/sh", "-c", say).stdout)
    server.wait_state(job, "running")
    (line,) = slurm.run("squeue", "-h", "-t", "running", "-o", "%i %N %b %k").splitlines()
    number, node, gpus, comment = line.split()
    assert (gpus, comment.split(":")[:3]) == ("gres:gpu:4", ["tenure", "main", f"{job}.0"])
    assert logs(server, job) == f"on {node} gpus 0,1,2,3 as {number}.0\n"
    server.kill()
    server.start()
    assert server.client.job(job).state == "running"

    server.client.evict(job, "the test wants to see it again")
    wait_until(lambda: " Requeue=1 " in slurm.run("scontrol", "show", "job", "-o", number), "its id is kept")
    kept.touch()
    wait_until(lambda: server.client.job(job).restarts == 1 and server.client.job(job).state == "running", "again")
    said = logs(server, job)
    assert re.search(rf"as {number}\.[1-9]\n$", said), said  # the same id; Slurm may count a requeue of its own
    server.client.cancel(job)
    assert server.client.wait(job, timeout_s=60).state == "cancelled"
    assert slurm.run("squeue", "-h").strip() == ""


def test_nodes_are_drained_from_either_side(server: TestServer, slurm: SlurmCluster) -> None:
    update = ("scontrol", "update", "NodeName=node001")
    slurm.run(*update, "State=DRAIN", "Reason=bad disk")
    wait_until(lambda: host(server, "node001") == ("draining", "slurm:root", "bad disk"), "drained here")
    said = server.cli("undrain", "node001").stdout
    assert said == "main/node001 is draining: bad disk (slurm:root); it is back here when it is in service there\n"
    server.cli("drain", "node002", "--why", "new fans")
    wait_until(lambda: "tenure: new fans (admin)" in reasons(slurm), "drained there")
    job = int(server.cli("submit", "-q", "-b", "lab/language", "-g", "4", "--", "true").stdout)
    assert server.client.job(job).reason.code == "waiting_host_state"
    server.kill()
    slurm.run(*update, "State=RESUME")
    server.start()
    wait_until(lambda: host(server, "node001")[0] == "healthy", "back here")
    assert server.client.wait(job, timeout_s=60).state == "succeeded"
    assert host(server, "node002") == ("draining", "admin", "new fans")
    server.cli("undrain", "node002")
    wait_until(lambda: "tenure:" not in reasons(slurm), "back there")


def test_jobs_around_are_occupied(server: TestServer, slurm: SlurmCluster) -> None:
    around = slurm.run("sbatch", "--parsable", "-o", "/dev/null", "--gres=gpu:8", "-N2", "--wrap", "sleep 1000").strip()
    wait_until(lambda: server.client.status().clusters[0].others_gpus == 8, "seen here")
    job = int(server.cli("submit", "-q", "-b", "lab/language", "-g", "4", "--", "true").stdout)
    assert server.client.job(job).reason.code == "waiting_others"
    # The hosts have four GPUs more in Slurm than Tenure has been given.
    seen = [(one.free_gpus, one.others_gpus, one.others) for one in server.client.hosts()]
    assert seen == [(0, 4, f"Slurm job {around} of root")] * 2
    slurm.run("scancel", around)
    assert server.client.wait(job, timeout_s=60).state == "succeeded"


def host(server: TestServer, name: str) -> tuple[str, str, str]:
    found = next(one for one in server.client.hosts() if one.name == name)
    return found.state, found.by, found.why


def reasons(slurm: SlurmCluster) -> str:
    return slurm.run("sinfo", "-h", "-R", "-o", "%E")


def wait_until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
