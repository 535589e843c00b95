"""The server killed at every boundary: nothing starts twice, nothing is lost, exit codes are found."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from executor_contract import kill_all
from executor_kit import Line, Watched, launch_of, order, sh

from tenure import faults
from tenure.executors.base import Phase
from tenure.executors.local import LocalExecutor

SERVER = Path(__file__).with_name("crash_server.py")


def serve(root: Path, job: str, *steps: str, fault: str = "", epoch: int = 1) -> int:
    """Run a server that goes through ``steps``; returns how it ended."""
    path = os.pathsep.join(filter(None, sys.path))
    env = {**os.environ, "PYTHONPATH": path, "JOB": job, "TENURE_FAULT": fault}
    return subprocess.run(
        [sys.executable, str(SERVER), str(root), str(epoch), *steps], env=env, check=False, timeout=120
    ).returncode


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_exit_codes_of_what_ended_without_a_server(root: Path, tmp_path: Path) -> None:
    back = Line(tmp_path / "back")
    assert serve(root, f"read word < {back}; exit 7", "run", "die") == -signal.SIGKILL
    back.say("go")
    watched = Watched(LocalExecutor(root), epoch=2)
    assert watched.ended().exit_codes == (7,)
    kill_all(watched)
    back.close()


def test_exit_codes_of_what_ended_long_before_the_next_server(root: Path, tmp_path: Path) -> None:
    line, back = Line(tmp_path / "line"), Line(tmp_path / "back")
    job = f"read word < {back}; echo $PPID > {line}; exit 7"
    assert serve(root, job, "run", "die") == -signal.SIGKILL
    back.say("go")
    wait_for_end(int(line.hear()))
    watched = Watched(LocalExecutor(root), epoch=2)
    report = watched.report()
    assert report is not None
    assert (report.phase, report.exit_codes) == (Phase.EXITED, (7,))
    kill_all(watched)
    line.close()
    back.close()


@pytest.mark.parametrize("fault", [name for name in faults.EXECUTOR_POINTS if ".start." in name])
@pytest.mark.parametrize("again", [True, False])
def test_killed_in_a_start(root: Path, tmp_path: Path, fault: str, again: bool) -> None:
    job = f"echo ran >> {tmp_path}/count; exit 5"
    assert serve(root, job, "start", fault=fault) == -signal.SIGKILL
    watched = Watched(LocalExecutor(root), epoch=2)
    known = watched.report() is not None
    if again or not known:
        watched.executor.start(launch_of(sh(job)))
    report = watched.ended()
    assert (report.phase, report.exit_codes) == (Phase.EXITED, (5,))
    assert (tmp_path / "count").read_text() == "ran\n"
    assert known == (fault != "executor.start.directory")
    kill_all(watched)


@pytest.mark.parametrize("fault", [name for name in faults.EXECUTOR_POINTS if ".stop." in name])
def test_killed_in_a_stop(root: Path, tmp_path: Path, fault: str) -> None:
    line = Line(tmp_path / "line")
    job = f"trap 'echo warned >> {tmp_path}/count; exit 9' TERM; echo ready > {line}; while :; do sleep 0.01; done"
    assert serve(root, job, "run", f"hear:{line}", "stop", fault=fault) == -signal.SIGKILL
    watched = Watched(LocalExecutor(root), epoch=2)
    watched.executor.stop(order())
    assert watched.ended().exit_codes == (9,)
    assert (tmp_path / "count").read_text() == "warned\n"
    kill_all(watched)
    line.close()


@pytest.mark.parametrize("fault", [name for name in faults.EXECUTOR_POINTS if ".stop." in name])
def test_killed_in_a_stop_before_the_start(root: Path, tmp_path: Path, fault: str) -> None:
    job = f"echo ran >> {tmp_path}/count"
    assert serve(root, job, "stop", fault=fault) == -signal.SIGKILL
    watched = Watched(LocalExecutor(root), epoch=2)
    watched.executor.start(launch_of(sh(job)))
    assert watched.ended().phase is Phase.NOT_STARTED
    assert not (tmp_path / "count").exists()
    kill_all(watched)


def test_killed_after_forgetting(root: Path, tmp_path: Path) -> None:
    job = f"echo ran >> {tmp_path}/count"
    fault = "executor.forget.done"
    assert serve(root, job, "start", "end", "forget", fault=fault) == -signal.SIGKILL
    watched = Watched(LocalExecutor(root), epoch=2)
    assert watched.report() is None
    watched.executor.start(launch_of(sh(job)))
    assert watched.ended().exit_codes == (0,)  # told again, not run again
    assert (tmp_path / "count").read_text() == "ran\n"
    watched.executor.close()


def test_a_later_hit_can_be_chosen(root: Path) -> None:
    assert serve(root, "exit 0", "start", "end", fault="executor.start.spawned:2") == 0


def test_a_point_must_be_registered() -> None:
    with pytest.raises(ValueError, match="not in"):
        faults.point("executor.start.nowhere")


def wait_for_end(pid: int) -> None:
    """Wait for a process that is no child of ours."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([handle], [], [], 120)
    os.close(handle)
