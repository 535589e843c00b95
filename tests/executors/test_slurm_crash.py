"""The server killed between any two steps with Slurm: nothing is submitted or started twice, nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm_kit
from executor_contract import kill_all
from executor_kit import Line, Watched, launch_of, replica, sh
from slurm_kit import shown

from support.slurm import SlurmCluster, cluster
from tenure import faults
from tenure.executors.base import Phase

SERVER = Path(__file__).with_name("crash_server.py")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    yield from cluster(tmp_path_factory.mktemp("slurm"), nodes=2)


def serve(slurm: SlurmCluster, root: Path, job: str, *steps: str, fault: str) -> None:
    """A server that goes through ``steps`` until it is killed at ``fault``."""
    path = os.pathsep.join(filter(None, sys.path))
    env = {**slurm.env, "PYTHONPATH": path, "JOB": job, "NODES": " ".join(slurm.names), "TENURE_FAULT": fault}
    done = subprocess.run([sys.executable, str(SERVER), str(root), "1", *steps], env=env, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("fault", [name for name in faults.SLURM_POINTS if "stop" not in name])
def test_killed_in_a_start_or_after_the_end(slurm: SlurmCluster, tmp_path: Path, fault: str) -> None:
    root, job = tmp_path / "runs", f"echo ran >> {tmp_path}/count.$TENURE_REPLICA"
    serve(slurm, root, job, "start", "end", fault=fault)
    watched = Watched(slurm_kit.executor(slurm, root), epoch=2)
    watched.executor.start(launch_of(replicas=[replica(sh(job), n, host=host) for n, host in enumerate(slurm.names)]))
    report = watched.ended()
    # A failure would not do here: the first one ends the others, wherever they are by then.
    assert (report.phase, report.exit_codes) == (Phase.EXITED, (0, 0))
    assert [(tmp_path / f"count.{rank}").read_text() for rank in (0, 1)] == ["ran\n", "ran\n"]
    assert len(shown(slurm, root)) == 1
    kill_all(watched)


def test_killed_in_a_stop(slurm: SlurmCluster, tmp_path: Path) -> None:
    root, line = tmp_path / "runs", Line(tmp_path / "line")
    kept = tmp_path / "kept"
    warned = f"echo warned >> {tmp_path}/count; until [ -e {kept} ]; do sleep 0.05; done; exit 9"
    job = f"trap '{warned}' TERM; echo ready > {line}; while :; do sleep 0.05; done"
    serve(slurm, root, job, "run", f"hear:{line}", "stop", fault="slurm.stop.ordered")
    watched = Watched(slurm_kit.executor(slurm, root), epoch=2)
    ((number, *_),) = shown(slurm, root)
    slurm_kit.wait_kept(slurm, number)
    kept.touch()
    assert watched.ended().exit_codes == (9, 9)
    assert (tmp_path / "count").read_text() == "warned\n" * 2
    # It is expected back, and keeps its id; its end may be told a moment before.
    slurm_kit.wait_until(lambda: [job[:3] for job in shown(slurm, root)] == [[number, "PENDING", "0"]], "it waits")
    watched.executor.tidy(lambda job: False)
    kill_all(watched)
    line.close()
