"""job_submit.lua on a real Slurm: jobs of Tenure's partition are held at birth and marked, others are not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from site_kit import PLUGIN, as_user, becoming, levels, tenure

from support.slurm import SlurmCluster, cluster

CONF = """JobSubmitPlugins=lua
PartitionName=gpu Nodes=ALL Default=YES State=UP
PartitionName=cpu Nodes=ALL State=UP"""
SCRIPT = "#!/bin/sh\nexec sleep 600\n"
SOMEBODY = "nobody"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    base = tmp_path_factory.mktemp("plugin")
    (base / "etc").mkdir()
    shutil.copy(PLUGIN, base / "etc" / "job_submit.lua")
    script = base / "job.sh"
    script.write_text(SCRIPT)
    yield from cluster(base, nodes=2, conf=CONF)


def submit(lab: SlurmCluster, *options: str, user: str = SOMEBODY) -> tuple[str, str]:
    """The job's id, and what its user was told."""
    done = as_user(lab, user, "sbatch", "--output=/dev/null", *options, str(lab.base / "job.sh"))
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1], done.stderr


def shown(lab: SlurmCluster, job: str) -> dict[str, str]:
    text = lab.run("scontrol", "show", "job", "-o", job)
    found = dict(word.partition("=")[::2] for word in text.split() if "=" in word)
    mark = lab.run("squeue", "-h", "-t", "all", "-j", job, "-O", "admin_comment:200").strip()
    return {**found, "mark": "" if mark == "(null)" else mark}


def wait(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_job_is_held_at_birth_and_says_what_slurm_forgets(lab: SlurmCluster) -> None:
    job, told = submit(lab, "--gres=gpu:2", "--time-min=5", "--time=10", "--comment=mine")
    found = shown(lab, job)
    assert (found["JobState"], found["Priority"], found["mark"]) == ("PENDING", "0", "tenure:1 requeue=default")
    # The rest is as its user wrote it.
    assert (found["TimeMin"], found["Comment"], found["TresPerNode"]) == ("00:05:00", "mine", "gres:gpu:2")
    assert told == ""
    assert shown(lab, submit(lab, "--requeue")[0])["mark"] == "tenure:1 requeue=yes"
    assert shown(lab, submit(lab, "--no-requeue", "--hold")[0])["mark"] == "tenure:1 requeue=no hold=user"


def test_other_partitions_are_left_alone(lab: SlurmCluster) -> None:
    job, told = submit(lab, "--partition=cpu", "--nice=5", user="root")
    wait(lambda: shown(lab, job)["JobState"] == "RUNNING", "it starts")
    assert (shown(lab, job)["mark"], told) == ("", "")
    assert as_user(lab, SOMEBODY, "srun", "--partition=cpu", "echo", "ran").stdout == "ran\n"
    mixed = as_user(lab, SOMEBODY, "sbatch", "--partition=cpu,gpu", str(lab.base / "job.sh"))
    assert mixed.returncode != 0
    assert "name one kind" in mixed.stderr


@pytest.mark.parametrize("command", ["srun", "salloc"])
def test_interactive_jobs_wait_until_they_are_released(lab: SlurmCluster, command: str) -> None:
    words = (*becoming(SOMEBODY), command, f"--job-name={command}", "true")
    started = subprocess.Popen(words, env=lab.env, cwd="/", stderr=subprocess.PIPE, text=True)
    try:
        listing = ("squeue", "-h", f"--name={command}", "-o", "%i %t")
        wait(lambda: lab.run(*listing) != "", "it is queued")
        job, state = lab.run(*listing).split()
        assert (state, shown(lab, job)["mark"]) == ("PD", "tenure:1 requeue=default")
        lab.run("scontrol", "release", job)
        assert started.wait(60) == 0
    finally:
        started.kill()
        started.communicate()


def test_what_qos_and_nice_mean_is_said_once_to_each_user(lab: SlurmCluster) -> None:
    job, told = submit(lab, "--nice=7", "--qos=normal", "--gpus=1")
    assert told.count("--priority and --nice order jobs inside your own budget") == 1
    assert told.count("--qos does not order jobs") == 1
    assert shown(lab, job)["mark"] == "tenure:1 requeue=default nice=7"
    assert submit(lab, "--nice=8", "--qos=normal", "--gpus-per-node=1")[1] == ""
    job, told = submit(lab, "--priority=5", user="root")  # Slurm itself ignores one of a plain user
    assert "--priority and --nice" in told
    assert shown(lab, job)["mark"] == "tenure:1 requeue=default priority=5"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "the job asks for no GPUs, so it stays held"),
        (("--gpus-per-task=1", "--ntasks=1", "--nodelist=node001"), "--nodelist=node001 cannot be kept"),
        (("--gres=gpu", "--exclude=node001"), "--exclude=node001 cannot be kept"),
    ],
)
def test_what_cannot_be_kept_is_said_when_it_is_submitted(
    lab: SlurmCluster, options: tuple[str, ...], told: str
) -> None:
    job, said = submit(lab, *options)
    (line,) = (line for line in said.splitlines() if "tenure: " in line)
    assert told in line
    assert shown(lab, job)["Priority"] == "0"


@pytest.mark.parametrize(
    "line",
    [
        "#SBATCH --signal=USR2@90",
        "#SBATCH --signal B:USR2@30",
        "#!/bin/sh\n\n# Parameters\n  \n#SBATCH --signal='USR1@60' -c 2",
    ],
)
def test_the_signal_of_a_script_is_kept(lab: SlurmCluster, tmp_path: Path, line: str) -> None:
    script = tmp_path / "signal.sh"
    start = "" if line.startswith("#!") else "#!/bin/sh\n"
    script.write_text(f"{start}{line}\nsleep 1\n#SBATCH --signal=HUP\n")
    done = as_user(lab, SOMEBODY, "sbatch", "--parsable", "--gpus=1", "--output=/dev/null", str(script))
    assert done.returncode == 0, done.stderr
    word = next(word for word in ("USR2@90", "B:USR2@30", "USR1@60") if word in line)
    assert shown(lab, done.stdout.strip())["mark"] == f"tenure:1 requeue=default signal={word}"


def test_its_user_cannot_release_it_nor_move_it(lab: SlurmCluster) -> None:
    held, _ = submit(lab)
    other, _ = submit(lab, "--partition=cpu", "--hold")
    for words in (
        ("release", held),
        ("update", f"jobid={held}", "priority=100"),
        ("update", f"jobid={held}", "partition=cpu"),
        ("update", f"jobid={held}", "admincomment=none"),
        ("update", f"jobid={other}", "partition=gpu"),
    ):
        assert as_user(lab, SOMEBODY, "scontrol", *words).returncode != 0, words
    assert (shown(lab, held)["Priority"], shown(lab, held)["Partition"]) == ("0", "gpu")
    assert shown(lab, held)["mark"] == "tenure:1 requeue=default"
    assert shown(lab, other)["Partition"] == "cpu"
    assert as_user(lab, SOMEBODY, "scontrol", "update", f"jobid={held}", "timelimit=5").returncode == 0
    assert as_user(lab, SOMEBODY, "scontrol", "release", other).returncode == 0
    lab.run("scontrol", "release", held)  # root is Tenure here
    wait(lambda: shown(lab, held)["JobState"] != "PENDING", "it starts")


def test_the_doctor_knows_it(lab: SlurmCluster) -> None:
    told = levels(tenure(lab, "doctor", "--json", "--partition", "gpu"))
    assert (told["job_submit"], told["plugin_partitions"], told["plugin_uids"]) == ("fine", "fine", "fine")
    told = levels(tenure(lab, "doctor", "--json", "--partition", "cpu", "--user", "nobody"))
    assert (told["plugin_partitions"], told["plugin_uids"]) == ("should", "must")


def test_the_doctor_needs_no_rights_to_look(lab: SlurmCluster) -> None:
    done = as_user(lab, SOMEBODY, sys.executable, "-m", "tenure", "slurm", "doctor", "--json", "--partition", "gpu")
    told = levels(done)
    assert told["operator"] == "must"  # neither SlurmUser nor an operator
    assert not [code for code in told if code.startswith("read_")]
    assert told["job_submit"] == "fine"
    assert done.returncode == 1


def test_each_partition_shows_who_decides_there(lab: SlurmCluster, tmp_path: Path) -> None:
    for user in (SOMEBODY, "root"):
        lab.run("scancel", "-u", user)
    wait(lambda: lab.run("squeue", "-h").strip() == "", "nothing is left of other tests")
    held, _ = submit(lab)
    other, _ = submit(lab, "--partition=cpu", "--hold", f"--comment={held} tenure: in the middle means nothing")
    found = {one["partition"]: one for one in json.loads(tenure(lab, "partitions", "--json").stdout)}
    assert {name: (one["rule"], one["ours"], one["others"]) for name, one in found.items()} == {
        "gpu": ("tenure", 1, 0),
        "cpu": ("slurm", 0, 1),
    }
    assert found["gpu"]["why"] == "job_submit.lua holds its jobs at birth"
    assert (found["cpu"]["nodes"], found["cpu"]["gpus"], found["cpu"]["shares_with"]) == (2, 16, ["gpu"])
    text = tenure(lab, "partitions").stdout
    assert [line.split()[:2] for line in text.splitlines()[1:3]] == [["gpu", "tenure"], ["cpu", "slurm"]]
    (tmp_path / "tenure.toml").write_text(
        '[server]\nexecutor = "slurm"\n[slurm]\npartition = "cpu"\n[clusters.main]\nhosts = [{ discover = true }]\n'
    )
    (tmp_path / "budgets.toml").write_text("[lab]\n")
    named = json.loads(tenure(lab, "partitions", "--json", "--config", str(tmp_path / "tenure.toml")).stdout)
    assert {one["partition"]: one["rule"] for one in named} == {"gpu": "tenure", "cpu": "both"}
    lab.run("scancel", held, other)
