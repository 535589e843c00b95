"""Plain sbatch, srun and salloc in a partition that Tenure schedules: adopted, run, evicted, ended; on a real Slurm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import adoption_kit
import pytest
from adoption_kit import SOMEBODY, Lab, becoming

from support.server import SOURCE
from support.slurm import SlurmCluster
from tenure import units

WISH = "Comment=tenure: budget=lab/language min_runtime=2m"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    yield from adoption_kit.slurm(tmp_path_factory.mktemp("adopt"))


@pytest.fixture
def lab(slurm: SlurmCluster, tmp_path: Path) -> Iterator[Lab]:
    with adoption_kit.lab(slurm, tmp_path) as made:
        yield made


def test_a_plain_sbatch_runs_where_tenure_says_and_ends_as_in_slurm(lab: Lab) -> None:
    go, wait = lab.gate()
    script = f"#!/bin/sh\necho by $(id -un) on $CUDA_VISIBLE_DEVICES\n{wait}\nexit 3\n"
    output = f"--output={lab.slurm.base}/out/plain-%j.txt"
    options = ("-A", "language", "--gres=gpu:2", "--time=10", "--time-min=5", "-J", "mine", output)
    number = lab.sbatch(*options, script=script)
    job = lab.adopted(number)
    seen = lab.server.client.job(job)
    assert (seen.user, seen.budget, seen.name, seen.gpus) == (SOMEBODY, "lab/language", "mine", 2)
    assert (seen.min_runtime_ms, seen.resumable) == (300_000, False)
    lab.wait_state(job, "running")
    go.touch()
    lab.wait_state(job, "failed")
    ended = lab.server.client.job(job)
    row, shown = lab.row(number), lab.shown(number)
    assert row is not None
    assert (ended.exit_code, row.state, shown["ExitCode"]) == (3, "FAILED", "3:0")
    (attempt,) = lab.attempts(job)
    assert attempt["hosts"] == [row.nodes]
    assert units.parse_time(attempt["running_at"]) // 1000 == row.start
    assert units.parse_time(attempt["ended_at"]) // 1000 == row.ended
    assert lab.server.cli("logs", str(job)).stdout == f"by {SOMEBODY} on 0,1\n"


def test_a_gang_gets_the_nodes_and_as_many_gpus_on_each(lab: Lab) -> None:
    for options in (("--gpus=4", "-n", "4"), ("-N", "2", "--gpus-per-node=2"), ("--gpus-per-task=1", "-n", "4", "-N2")):
        number = lab.sbatch("-A", "language", *options)
        job = lab.adopted(number)
        lab.wait_state(job, "running")
        (attempt,) = lab.attempts(job)
        text = lab.slurm.run("scontrol", "show", "job", "-d", "-o", number)
        nodes = len(attempt["hosts"])
        assert nodes == (1 if options[0] == "--gpus=4" else 2)
        gpus = text.count("GRES=gpu:2(") * (2 if "Nodes=node[001-002] CPU" in text else 1)
        assert gpus == 2 or "GRES=gpu:4(" in text
        assert sorted(lab.slurm.run("scontrol", "show", "hostnames", lab.shown(number)["NodeList"]).split()) == sorted(
            attempt["hosts"]
        )
        lab.server.client.cancel(job)
        assert lab.server.client.wait(job, timeout_s=60).state == "cancelled"
        lab.wait(lambda number=number: (row := lab.row(number)) is not None and row.over, "over in Slurm, too")


def test_an_evicted_job_comes_back_under_its_id(lab: Lab) -> None:
    number = lab.sbatch(
        "-A", "language", "-G", "1", "--requeue", script="#!/bin/sh\n#SBATCH --signal=B:USR1@20\nsleep 1000 & wait\n"
    )
    job = lab.adopted(number)
    lab.wait_state(job, "running")
    lab.server.client.evict(job, "the test wants to see it again")
    lab.wait(lambda: lab.server.client.job(job).restarts == 1, "it queues again")
    lab.wait_state(job, "running")
    row = lab.row(number)
    assert row is not None
    assert (row.state, row.restarts) == ("RUNNING", 1)
    assert row.mark.endswith(f"requeue=yes signal=B:USR1@20 job={job} {row.mark.split()[-1]}")
    lab.server.client.cancel(job)
    assert lab.server.client.wait(job, timeout_s=60).state == "cancelled"


def test_a_deaf_job_is_killed_after_its_grace_and_comes_back(lab: Lab) -> None:
    deaf = "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n"
    number = lab.sbatch(
        "-A", "language", "-G", "1", "--requeue", "--comment=tenure: grace=2s min_runtime=2m", script=deaf
    )
    job = lab.adopted(number)
    assert lab.server.client.job(job).min_runtime_ms == 120_000
    lab.wait_state(job, "running")
    lab.server.client.evict(job, "the test wants to see it again")
    lab.wait(lambda: lab.server.client.job(job).restarts == 1, "it queues again")
    lab.wait_state(job, "running")
    row = lab.row(number)
    assert row is not None
    assert row.restarts == 1
    first, _ = lab.attempts(job)
    assert first["reason"]["code"] == "evicted_by_person"


def test_a_job_that_does_not_come_back_is_over_when_it_is_evicted(lab: Lab) -> None:
    number = lab.sbatch("-A", "language", "-G", "1", "--no-requeue")
    job = lab.adopted(number)
    lab.wait_state(job, "running")
    lab.server.client.evict(job, "the test wants it to end")
    assert lab.server.client.wait(job, timeout_s=60).state == "preempted"
    lab.wait(lambda: (row := lab.row(number)) is not None and row.over, "it is over in Slurm")


def test_a_users_scancel_ends_it_queued_or_running(lab: Lab) -> None:
    running, queued = (
        lab.sbatch("-A", "language", "-G", "16", "-N", "2"),
        lab.sbatch("-A", "language", "-G", "16", "-N2"),
    )
    first, second = lab.adopted(running), lab.adopted(queued)
    lab.wait_state(first, "running")
    assert lab.server.client.job(second).state == "queued"
    for number, job in ((queued, second), (running, first)):
        assert lab.as_user(SOMEBODY, "scancel", number).returncode == 0
        ended = lab.server.client.wait(job, timeout_s=60)
        assert (ended.state, ended.reason.numbers) == ("cancelled", {"by": "scancel"})


def test_a_job_that_waits_is_cancelled_by_tenure(lab: Lab) -> None:
    lab.server.client.pause("starts")
    number = lab.sbatch("-A", "language", "-G", "1")
    job = lab.adopted(number)
    lab.server.client.cancel(job)
    lab.wait(lambda: lab.state(number) == "CANCELLED", "Slurm's job is cancelled")


def test_scontrol_requeue_from_inside_keeps_id_and_seniority(lab: Lab) -> None:
    # As submitit and Lightning do when they are warned.
    again = "#!/bin/sh\n[ ${SLURM_RESTART_COUNT:-0} = 0 ] && scontrol requeue $SLURM_JOB_ID\nexec sleep 1000\n"
    number = lab.sbatch("-A", "language", "-G", "1", script=again, user="root")
    job = lab.adopted(number)
    submitted = lab.server.client.job(job).submitted_at
    lab.wait(lambda: lab.server.client.job(job).restarts == 1, "it queues again")
    lab.wait_state(job, "running")
    first, second = lab.attempts(job)
    assert (first["reason"]["code"], second["reason"]) == ("requeued", None)
    assert lab.server.client.job(job).submitted_at == submitted
    row = lab.row(number)
    assert row is not None
    assert (row.restarts, row.state) == (1, "RUNNING")
    # The line of the first run in Slurm's own records ends when Slurm was told. Its GPUs are free when the node has
    # cleaned up, and then it is queued again.
    (kept,) = lab.slurm.run("sacct", "-c", "-D", "-X", "-n", "-P", "-j", number, "--format=End,State").splitlines()
    end, _, state = kept.partition("|")
    told, freed = datetime.fromisoformat(end).astimezone(), datetime.fromisoformat(first["ended_at"])
    assert state == "PENDING"
    assert told <= freed.replace(microsecond=0) <= datetime.fromtimestamp(row.submitted).astimezone()


def test_a_job_that_has_ended_is_a_new_one_when_its_user_queues_it_again(lab: Lab) -> None:
    number = lab.sbatch("-A", "language", "-G", "1", script="#!/bin/sh\nsleep 1\n")
    first = lab.adopted(number)
    lab.wait_state(first, "succeeded")
    lab.wait(lambda: lab.as_user(SOMEBODY, "scontrol", "requeue", number).returncode == 0, "Slurm takes it back")
    lab.wait(lambda: f" job={first} " not in lab.mark(number), lambda: lab.mark(number))
    second = lab.adopted(number)
    lab.wait_state(second, "succeeded")
    assert lab.server.client.job(first).state == "succeeded"


def tenure_slurm(lab: Lab, *words: str) -> str:
    """A command of an operator, on a machine with Slurm's commands."""
    env = {**lab.slurm.env, "PYTHONPATH": str(SOURCE)}
    command = (sys.executable, "-m", "tenure", "slurm", *words)
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def test_an_unknown_account_stays_held_and_says_why(lab: Lab) -> None:
    number = lab.sbatch("-A", "visoin", "-G", "1")
    lab.wait(lambda: "refused:" in lab.mark(number), "it is refused")
    assert "refused: account = visoin: no budget has this name; did you mean vision?" in lab.mark(number)
    assert lab.state(number) == "PENDING"
    (listed,) = json.loads(tenure_slurm(lab, "jobs", "--partition", "gpu", "--json"))
    assert (listed["id"], listed["user"], listed["job"]) == (number, SOMEBODY, None)
    assert listed["refused"].startswith("account = visoin: ")
    # Its user mends it.
    assert lab.as_user(SOMEBODY, "scontrol", "update", f"JobId={number}", WISH).returncode == 0
    job = lab.adopted(number)
    seen = lab.server.client.job(job)
    assert (seen.budget, seen.min_runtime_ms) == ("lab/language", 120_000)
    assert "refused" not in lab.mark(number)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("-A", "language", "-n", "2"), "gpus = 0: Tenure schedules GPUs"),
        (("-A", "language", "-G", "1", "-w", "node001"), "nodelist = node001: Tenure chooses the nodes"),
        (("-A", "none", "-G", "1"), "budget = lab/none: it has no share"),
        (("-A", "vision", "-G", "1"), "nobody is not a member of lab/vision"),
        (("-A", "language", "-G", "1", "--comment=tenure: min_runtim=2h"), "did you mean --min-runtime?"),
        (("-A", "language", "-G", "1", "--comment=tenure: min_runtime=99h"), "protects for at most 2h"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_words(lab: Lab, options: tuple[str, ...], why: str) -> None:
    number = lab.sbatch(*options)
    lab.wait(lambda: "refused:" in lab.mark(number), "it is refused")
    assert why in lab.mark(number)


def test_srun_and_salloc_run_and_end_when_they_are_evicted(lab: Lab) -> None:
    options = ("-A", "language", "--gres=gpu:2")
    ran = lab.as_user(SOMEBODY, "srun", *options, "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exit 5")
    assert (ran.returncode, len(ran.stdout.split(","))) == (5, 2), ran
    words = (*becoming(SOMEBODY), "salloc", "--job-name=shell", *options, "sleep", "1000")
    with subprocess.Popen(
        words, env=lab.slurm.env, cwd="/", stderr=subprocess.DEVNULL, start_new_session=True
    ) as shell:
        try:
            listing = ("squeue", "-h", "--name=shell", "-o", "%i")
            lab.wait(lambda: lab.slurm.run(*listing) != "", "it is queued")
            number = lab.slurm.run(*listing).strip()
            job = lab.adopted(number)
            lab.wait_state(job, "running")
            assert not lab.server.client.job(job).resumable
            lab.server.client.evict(job, "the test wants it to end")
            assert lab.server.client.wait(job, timeout_s=60).state == "preempted"
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def test_each_task_of_an_array_is_a_job_and_its_throttle_is_kept(lab: Lab) -> None:
    number = lab.sbatch("-A", "language", "-G", "1", "--array=0-2%2")
    tasks = [f"{number}_{i}" for i in range(3)]
    first, second = lab.adopted(tasks[0]), lab.adopted(tasks[1])
    lab.wait_state(first, "running")
    lab.wait_state(second, "running")
    assert " job=" not in lab.mark(tasks[2])
    lab.as_user(SOMEBODY, "scancel", tasks[0])
    third = lab.adopted(tasks[2])
    lab.wait_state(third, "running")


def test_begin_dependencies_and_a_hold_of_its_user_are_waited_for(lab: Lab) -> None:
    first = lab.sbatch("-A", "language", "-G", "1")
    after = lab.sbatch("-A", "language", "-G", "1", f"--dependency=afterany:{first}")
    later = lab.sbatch("-A", "language", "-G", "1", "--begin=now+1hour")
    held = lab.sbatch("-A", "language", "-G", "1", "--hold")
    job = lab.adopted(held)
    assert lab.reason(job) == "held_by_person"
    lab.server.client.release(job)
    lab.wait_state(job, "running")
    lab.wait_state(lab.adopted(first), "running")
    assert (" job=" in lab.mark(after), " job=" in lab.mark(later)) == (False, False)
    lab.as_user(SOMEBODY, "scancel", first)
    lab.wait_state(lab.adopted(after), "running")
    assert lab.state(later) == "PENDING"
