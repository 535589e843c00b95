"""Whether Slurm's jobs may come back under their ids is said before they end, again when it failed, not for ever."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from executor_kit import launch_of, order, sh

from tenure.executors.files import AttemptFiles
from tenure.executors.slurm import plan
from tenure.executors.slurm.gang import FileClock
from tenure.executors.slurm.look import Look
from tenure.executors.slurm.part import TRIES
from tenure.executors.slurm.reading import SlurmJob
from tenure.executors.slurm.run import Run, expect_back
from tenure.executors.slurm.steering import Steering
from tenure.slurm import Commands


def evicted(root: Path, steering: Steering, job: int) -> Run:
    """A run that is stopped and comes back, and goes on in Slurm as ``100 + job``."""
    attempt = AttemptFiles(root / str(job) / "1")
    launch = launch_of(sh("true"), attempt_id=f"{job}.1")
    planned = plan.plan_of(launch)
    plan.write(planned, attempt, launch, {}, "localhost", root)
    run = Run(attempt, planned, FileClock(root))
    run.obey(order(f"{job}.1", again=True))
    there = SlurmJob(100 + job, job, 0, 0, 1, "RUNNING", False, "None", 0, 0, 0)
    run.advance(steering, Look([], {job: [there]}, {}, []), nullcontext)
    return run


@pytest.mark.parametrize(("failures", "asked"), [(0, 1), (1, 2), (TRIES - 1, TRIES), (TRIES + 2, TRIES)])
def test_a_failure_is_tried_again_a_few_times(tmp_path: Path, failures: int, asked: int) -> None:
    told = tmp_path / "told"
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\necho $* >> {told}\n[ $(wc -l < {told}) -gt {failures} ]\n")
    scontrol.chmod(0o755)
    steering = Steering(Commands(tmp_path), tmp_path, "", "here")
    runs = [evicted(tmp_path, steering, job) for job in (1, 2)]
    for _ in range(TRIES + 3):
        expect_back(steering, runs)
    assert told.read_text().splitlines() == ["update JobId=101,102 Requeue=1"] * asked
    late = evicted(tmp_path, steering, 3)
    expect_back(steering, [*runs, late])
    assert told.read_text().splitlines()[-1] == "update JobId=103 Requeue=1", "each has tries of its own"
