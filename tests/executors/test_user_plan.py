"""What is submitted to Slurm as a user: who may be one, what one plain job can hold, how words get into a script."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from executor_kit import launch_of, replica, sh

from tenure.executors.base import Launch
from tenure.executors.slurm import look, marks, reading, user_plan
from tenure.executors.slurm.marks import Mark
from tenure.executors.slurm.rows import Row
from tenure.executors.slurm.user_plan import Person, UserPlan, is_name

ADA = Person("ada", 1000, "/people/ada")
NASTY = "it's $(touch x) `touch x` \"\\\n#SBATCH --exclusive\n; touch x & é"
SRUN = '#!/bin/sh\nwhile [ "$1" != /bin/sh ]; do shift; done\nexec "$@"\n'
"""In place of Slurm's: it runs the one task here."""


def plan(launch: Launch, person: Person | None = ADA) -> UserPlan:
    return user_plan.plan_of(launch, person)


@pytest.mark.parametrize("name", ["ada", "_x", "a-b_9", "a" * 32])
def test_names_of_users(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name", ["", "root", "-u", "Ada", "a b", "a;b", "a\n", "$(id)", "../a", "a.b", "9a", "a" * 33, "é", "a\0", "#0"]
)
def test_names_that_come_near_no_command(name: str) -> None:
    assert not is_name(name)
    refused = plan(replace(launch_of(sh("true")), user=name))
    assert repr(name) in refused.refusal
    assert "submit_as" in refused.refusal
    assert refused.script == ""


def test_what_is_refused_and_why() -> None:
    true = sh("true")
    assert "knows no such user" in plan(launch_of(true), None).refusal
    assert "user id 0" in plan(launch_of(true), Person("ada", 0, "/")).refusal
    assert "one role" in plan(launch_of(true, sh("false"))).refusal
    three = [replica(true, rank, gpus=(rank,), host=host) for rank, host in enumerate(("h0", "h0", "h1"))]
    assert "2 on h0, 1 on h1" in plan(launch_of(replicas=three)).refusal
    assert "letters, digits" in plan(launch_of(true, env={"BASH_FUNC_x%%": "() { id; }"})).refusal
    assert "byte 0" in plan(launch_of(true, workdir="/a\0b")).refusal
    assert plan(launch_of(replicas=three[:2])).refusal == ""


def test_where_output_goes() -> None:
    assert plan(launch_of(sh("true"), workdir="/data/x")).output == "/data/x/tenure-1.out"
    assert plan(launch_of(sh("true"), workdir="/data/%u")).output == "/people/ada/tenure-1.out"
    assert plan(launch_of(sh("true"), workdir="")).output == "/people/ada/tenure-1.out"
    assert plan(launch_of(sh("true"), workdir=""), Person("ada", 1000, "")).output == "/tmp/tenure-1.out"


def test_one_script_serves_all_attempts_until_something_in_it_changes() -> None:
    first = launch_of(sh("true"), attempt_id="1.1")
    second = replace(launch_of(sh("true"), attempt_id="1.2"), replicas=(replica(sh("true"), host="h1"),))
    assert plan(first).digest == plan(second).digest
    assert plan(first).digest != plan(replace(first, env={"A": "1"})).digest
    assert plan(first).digest != plan(replace(first, budget="lab/vision")).digest


def test_words_of_users_are_never_a_shells(tmp_path: Path) -> None:
    (tmp_path / "srun").write_text(SRUN)
    (tmp_path / "srun").chmod(0o755)
    workdir = tmp_path / "it's $HOME"
    workdir.mkdir()
    env = {"NASTY": NASTY, "SLURM_JOB_ID": "mine", "_r": "his", "TENURE_USER": "root"}
    command = ("/bin/sh", "-c", 'printf "%s|" "$@" "$NASTY" "$SLURM_JOB_ID" "$TENURE_USER" "$PWD" "$RANK"', "sh", NASTY)
    launch = replace(launch_of(command, workdir=workdir, env=env, launch="per-gpu"), name=NASTY)
    given = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "SLURM_JOB_ID": "12",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURMD_NODENAME": "h0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
    }
    done = subprocess.run(
        ("/bin/sh",), input=plan(launch).script, env=given, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "|".join((NASTY, NASTY, "mine", "ada", str(workdir), "0", ""))
    assert done.stderr == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it's $HOME", "srun"]
    # sbatch reads options up to the first command.
    assert plan(launch).script.splitlines()[:2] == ["#!/bin/sh", "set -u"]


def row(number: int, state: str, mark: str = "", comment: str = "", uid: int = 1000) -> Row:
    said = (str(number), number, "", state, True, uid, "ada", "", 1, 0, 0, 0, "", 0, 0, "", "", True, mark, comment)
    return Row(*said)


def test_whose_a_job_in_slurm_is() -> None:
    ours, theirs = marks.write(Mark({"given": "ab"}, 7, "cafe")), marks.write(Mark({"given": "ab"}, 7, "beef"))
    comment = reading.given(7, "ab")
    seen = look.sort(
        [
            row(1, "CANCELLED", ours, comment),
            row(2, "PENDING", ours, "changed by its user"),
            row(3, "PENDING", theirs),
            row(4, "PENDING", "tenure:1 requeue=no", comment, uid=1001),
        ],
        "cafe",
        0,
    )
    assert seen.adopted[7].number == 2
    assert seen.marked == []
    assert [one.number for one in seen.given[comment]] == [4]
