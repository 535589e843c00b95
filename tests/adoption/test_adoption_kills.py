"""Adopted jobs when things break: the server killed between any two steps, slurmctld killed, both forgetting."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import adoption_kit
import pytest
from adoption_kit import Lab

from support.slurm import SlurmCluster
from tenure import faults


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    yield from adoption_kit.slurm(tmp_path_factory.mktemp("adoptkills"))


@pytest.fixture
def own_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """For a test that kills slurmctld: ids are given again after that."""
    yield from adoption_kit.slurm(tmp_path_factory.mktemp("adoptown"))


@pytest.mark.parametrize("fault", faults.ADOPTION_POINTS)
def test_a_server_killed_anywhere_goes_on(slurm: SlurmCluster, tmp_path: Path, fault: str) -> None:
    made = Lab(slurm, tmp_path)
    server = made.server
    server.environment["TENURE_FAULT"] = fault
    server.start()
    try:
        log = slurm.base / "out" / f"{fault}.log"
        # It saves in no time when it is warned, but is deaf where the kill is to be seen.
        deaf = "trap '' TERM\n" if fault == "native.killed" else ""
        script = f"#!/bin/sh\n{deaf}echo ran ${{SLURM_RESTART_COUNT:-0}} >> {log}\nwhile :; do sleep 0.2; done\n"
        number = made.sbatch("-A", "language", "-G", "1", "--requeue", "--comment=tenure: grace=2s", script=script)
        if fault in ("native.warned", "native.killed", "native.ended"):
            job = made.adopted(number)
            made.wait_state(job, "running")
            made.evict(job)
        server.process.wait(60)
        del server.environment["TENURE_FAULT"]
        server.start()
        job = made.adopted(number)
        restarts = 1 if fault in ("native.warned", "native.killed", "native.ended") else 0
        made.wait(lambda: made.server.client.job(job).restarts == restarts, "it was evicted once, or not at all")
        made.wait_state(job, "running")
        row = made.row(number)
        assert row is not None
        assert (row.state, row.restarts) == ("RUNNING", restarts)
        made.wait(lambda: log.read_text().splitlines() == [f"ran {i}" for i in range(restarts + 1)], log.read_text)
        assert len(list(server.client.jobs())) == 1
    finally:
        server.end()
        made.clear()


def test_a_job_that_ends_before_adoption_has_marked_it(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Slurm takes no mark for what has ended, so it must be there when the job starts."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("sbatch", "scontrol", "squeue", "scancel", "sinfo", "sacct"):
        real = shutil.which(name)
        text = f'#!/bin/sh\ncase "$3" in AdminComment=*) echo broken >&2; exit 1;; esac\nexec {real} "$@"\n'
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    with adoption_kit.lab(slurm, tmp_path, more=f'commands = "{commands}"') as lab:
        number = lab.sbatch("-A", "language", "-G", "1", script="#!/bin/sh\n")
        lab.wait_state(lab.adopted(number), "succeeded")


def test_what_happens_while_the_server_is_away(slurm: SlurmCluster, tmp_path: Path) -> None:
    with adoption_kit.lab(slurm, tmp_path) as lab:
        go, wait = lab.gate()
        quick = f"#!/bin/sh\n{wait}\nexit 7\n"
        ends, stays = lab.sbatch("-A", "language", "-G", "1", script=quick), lab.sbatch("-A", "language", "-G", "1")
        first, second = lab.adopted(ends), lab.adopted(stays)
        lab.wait_state(first, "running")
        lab.wait_state(second, "running")
        lab.server.kill()
        go.touch()
        lab.wait(lambda: lab.state(ends) == "FAILED", "it ends in Slurm")
        new = lab.sbatch("-A", "language", "-G", "1")
        lab.server.start()
        ended = lab.server.client.wait(first, timeout_s=60)
        assert (ended.state, ended.exit_code) == ("failed", 7)
        assert lab.server.client.job(second).state == "running"
        lab.wait_state(lab.adopted(new), "running")


def test_an_end_that_slurm_has_forgotten_is_in_its_records(own_slurm: SlurmCluster, tmp_path: Path) -> None:
    with adoption_kit.lab(own_slurm, tmp_path) as lab:
        go, wait = lab.gate()
        number = lab.sbatch("-A", "language", "-G", "1", script=f"#!/bin/sh\n{wait}\nexit 9\n")
        job = lab.adopted(number)
        lab.wait_state(job, "running")
        lab.server.kill()
        go.touch()
        lab.wait(lambda: lab.state(number) == "FAILED", "it ends in Slurm")
        # A slurmctld that starts on an empty directory knows no job.
        own_slurm.kill_controller()
        for path in (own_slurm.base / "state").iterdir():
            if path.name.startswith("job_state"):
                path.unlink()
        own_slurm.start_controller()
        lab.wait(lambda: len(own_slurm.idle()) == 2, "Slurm is back")
        assert lab.row(number) is None
        lab.server.start()
        ended = lab.server.client.wait(job, timeout_s=60)
        assert (ended.state, ended.exit_code) == ("failed", 9)


def test_slurmctld_killed_with_adopted_jobs(own_slurm: SlurmCluster, tmp_path: Path) -> None:
    with adoption_kit.lab(own_slurm, tmp_path) as lab:
        number = lab.sbatch("-A", "language", "-G", "16", "-N", "2")
        waiting = lab.sbatch("-A", "language", "-G", "16", "-N", "2")
        first, second = lab.adopted(number), lab.adopted(waiting)
        lab.wait_state(first, "running")
        own_slurm.kill_controller()
        own_slurm.start_controller()
        lab.wait(lambda: len(own_slurm.idle()) == 2, "Slurm is back")
        lab.as_user(adoption_kit.SOMEBODY, "scancel", number)
        lab.server.client.wait(first, timeout_s=60)
        # Slurm may have lost what came in its last seconds: then Tenure lets go of it, too.
        lab.wait(lambda: lab.server.client.job(second).state in ("running", "cancelled"), lambda: lab.mark(waiting))
        after = lab.sbatch("-A", "vision-is-none", "-G", "1", "--comment=tenure: budget=lab/language")
        assert lab.adopted(after) not in (first, second)
