"""The few lines of shell that start a script, under every shell that /bin/sh may be, with and without a Slurm below."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tenure.scripts import launch, srun
from tenure.scripts.lines import read

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}
JOB = {
    "TENURE_JOB_ID": "14",
    "TENURE_JOB_NAME": "nm",
    "TENURE_USER": "ann",
    "TENURE_BUDGET": "lab/vision",
    "TENURE_CLUSTER": "main",
    "TENURE_HOST": "n1.example",
    "TENURE_RESTART_COUNT": "0",
    "PET_NNODES": "1",
    "PET_NODE_RANK": "0",
    "CUDA_VISIBLE_DEVICES": "2,3",
}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"no {name} here")
    return SHELLS[name]


def run(
    shell: list[str], where: Path, body: str, *, said: dict[str, str] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    script = read(f"#!/bin/bash\n{body}\n".encode(), "job.sh", {})
    command = launch.command(script, ["a", "b c"], said or {})
    assert launch.shown(command) == ["job.sh", "a", "b c"]
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(where), **JOB, launch.SCRIPT: script.text, **environment}
    return subprocess.run(
        [*shell, *command[1:]], env=env, cwd=where, capture_output=True, text=True, timeout=60, check=False
    )


def test_it_becomes_the_script_and_leaves_nothing_behind(shell: list[str], tmp_path: Path) -> None:
    done = run(shell, tmp_path, 'echo "$@" $SLURM_TASK_PID $$ ${TENURE_SCRIPT-gone}; cat; exit 5')
    assert done.returncode == 5 and done.stderr == ""
    words = done.stdout.split()
    assert words[:3] == ["a", "b", "c"] and words[3] == words[4] and words[5] == "gone"
    assert list(tmp_path.iterdir()) == []


def test_variables_of_a_first_and_a_later_attempt(shell: list[str], tmp_path: Path) -> None:
    said = {"SLURM_NTASKS": "2", "SLURM_SUBMIT_DIR": "/a b", "each": "1"}
    shown = "echo $SLURM_JOB_ID $SLURM_NTASKS $SLURM_SUBMIT_DIR $SLURM_GPUS_ON_NODE ${SLURM_RESTART_COUNT-first}"
    assert run(shell, tmp_path, shown, said=said).stdout == "14 2 /a b 2 first\n"
    later = run(shell, tmp_path, shown, said=said, TENURE_RESTART_COUNT="3", CUDA_VISIBLE_DEVICES="")
    assert later.stdout == "14 2 /a b 3\n"


def test_below_a_real_slurm_its_variables_and_its_srun_stay(shell: list[str], tmp_path: Path) -> None:
    real = {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "9", "TENURE_SRUN": srun.function()}
    body = "env | grep ^SLURM | sort; type srun 2>&1 | head -1"
    done = run(shell, tmp_path, body, said={"SLURM_NTASKS": "2", "each": "1"}, **real)
    assert done.stdout.splitlines()[:2] == ["SLURM_JOB_ID=77", "SLURM_NTASKS=9"]
    assert "function" not in done.stdout
    ours = run(shell, tmp_path, "type srun | head -1; echo ${TENURE_SRUN-gone}", TENURE_SRUN=srun.function())
    assert ours.stdout == "srun is a function\ngone\n"


ARRAY = {
    "TENURE_ARRAY_ID": "12",
    "TENURE_ARRAY_INDEX": "13",
    "TENURE_ARRAY_COUNT": "4",
    "TENURE_ARRAY_MIN": "7",
    "TENURE_ARRAY_MAX": "16",
    "TENURE_ARRAY_STEP": "3",
}


@pytest.mark.parametrize("slurm", [{}, {"SLURM_JOB_ID": "77"}])
def test_a_job_of_an_array_knows_which_it_is(shell: list[str], tmp_path: Path, slurm: dict[str, str]) -> None:
    """Below a real Slurm as well, where each job of an array is a job of its own."""
    body = "env | grep ^SLURM_ARRAY | sort"
    done = run(shell, tmp_path, body, said={"out": "x-%A_%3a-%j-%b"}, **ARRAY, **slurm)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x-12_013-14-3").read_text().splitlines() == [
        "SLURM_ARRAY_JOB_ID=12",
        "SLURM_ARRAY_TASK_COUNT=4",
        "SLURM_ARRAY_TASK_ID=13",
        "SLURM_ARRAY_TASK_MAX=16",
        "SLURM_ARRAY_TASK_MIN=7",
        "SLURM_ARRAY_TASK_STEP=3",
    ]
    assert run(shell, tmp_path, body, **slurm).stdout == ""


# What a real sbatch 22.05 made of them for job 14; %N is the host, and %b newer.
NAMES = {
    "%j": "14",
    "%A": "14",
    "%J": "14",
    "%x": "nm",
    "%u": "ann",
    "%N": "n1",
    "%n": "0",
    "%t": "0",
    "%s": "batch",
    "%a": "4294967294",
    "%b": "4",
    "%%": "%",
    "%5j": "00014",
    "%05j": "00014",
    "%10j": "0000000014",
    "%0j": "14",
    "%5x": "nm",
    "a%%j": "a%j",
    "%x-%3j-%%x b.out": "nm-014-%x b.out",
}


@pytest.mark.parametrize("pattern", NAMES)
def test_names_of_files(shell: list[str], tmp_path: Path, pattern: str) -> None:
    done = run(shell, tmp_path, "echo out; echo err >&2", said={"out": f"o-{pattern}"})
    name = f"o-{NAMES[pattern]}"
    assert (tmp_path / name).read_text() == "out\nerr\n"
    assert done.stdout == f"tenure: output goes to {name} (--output)\n"


@pytest.mark.parametrize(
    ("mode", "restarts", "rank", "kept"),
    [
        ("", "0", "0", False),
        ("", "1", "0", True),
        ("", "0", "1", True),
        ("append", "0", "0", True),
        ("truncate", "1", "0", False),
        ("truncate", "1", "1", True),
    ],
)
def test_when_a_file_is_emptied(
    shell: list[str], tmp_path: Path, mode: str, restarts: str, rank: str, kept: bool
) -> None:
    for name in ("out", "err"):
        (tmp_path / name).write_text("before\n")
    said = {"out": "out", "err": "err", **({"mode": mode} if mode else {})}
    here = {"TENURE_RESTART_COUNT": restarts, "PET_NODE_RANK": rank}
    run(shell, tmp_path, "echo out; echo err >&2", said=said, **here)
    before = "before\n" if kept else ""
    assert (tmp_path / "out").read_text() == before + "out\n" and (tmp_path / "err").read_text() == before + "err\n"


def test_files_that_cannot_be_opened_end_it_before_the_script(shell: list[str], tmp_path: Path) -> None:
    for said in ({"out": "no/out"}, {"err": "no/err"}, {"in": "no"}):
        done = run(shell, tmp_path, "echo never", said=said)
        assert done.returncode != 0 and "never" not in done.stdout and "no" in done.stderr
    done = run(shell, tmp_path, "echo never", TMPDIR=str(tmp_path / "no"))
    assert done.returncode == 126 and done.stdout == ""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("srun x", "srun"),
        ("  srun x", "srun"),
        ("A=1 B='2' srun x", "srun"),
        ("exec srun x", "srun"),
        ("true && srun x", "srun"),
        ("x=$(srun x)", "srun"),
        ("if true; then srun x; fi", "srun"),
        ("time mpirun x", "mpirun"),
        ("srun", "srun"),
        ("# srun x", None),
        ("echo srun", None),
        ("srunner x", None),
        ("./srun x", None),
        ("my-srun x", None),
    ],
)
def test_which_scripts_call_srun(line: str, found: str | None) -> None:
    called = launch.calls(read(f"#!/bin/bash\n{line}\n".encode(), "job.sh", {}), "srun", "mpirun")
    assert called == ((found, 2) if found else None)


@pytest.mark.parametrize(
    ("warning", "sent", "code", "after"),
    [
        ("SIGUSR2", signal.SIGUSR2, 0, "after 7\n"),
        ("", signal.SIGTERM, -signal.SIGTERM, ""),
        ("SIGUSR2", signal.SIGTERM, -signal.SIGTERM, ""),
        ("SIGTERM", signal.SIGTERM, -signal.SIGTERM, ""),
    ],
)
def test_srun_passes_warnings_on(tmp_path: Path, warning: str, sent: signal.Signals, code: int, after: str) -> None:
    """A warning for the tasks is no matter of the script; SIGTERM ends it when they have ended."""
    task = f"trap 'echo saved; exit 7' {sent.name}; echo up; while :; do sleep 0.01; done"
    (tmp_path / "task").write_text(task)
    script = read(b"#!/bin/bash\nsrun -n1 bash task\necho after $?\n", "job.sh", {})
    command = launch.command(script, [], {"SLURM_NTASKS": "1", "each": "1"})
    env = {"PATH": os.environ["PATH"], **JOB, launch.SCRIPT: script.text, launch.SRUN: srun.function(warning)}
    with subprocess.Popen(command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        process.send_signal(sent)
        assert process.stdout.read() == f"saved\n{after}"
        assert process.wait(timeout=60) == code


def test_srun_leaves_the_traps_of_the_script(tmp_path: Path) -> None:
    body = "trap 'echo mine; exit 4' TERM\nsrun true\nkill -TERM $$\nsleep 60"
    script = read(f"#!/bin/bash\n{body}\n".encode(), "job.sh", {})
    env = {"PATH": os.environ["PATH"], **JOB, launch.SCRIPT: script.text, launch.SRUN: srun.function("SIGUSR1")}
    command = launch.command(script, [], {})
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode, done.stderr) == ("mine\n", 4, "")


def test_srun_has_files_of_its_own_for_each_task(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    body = (
        "srun -n2 --output %x-%3j-%t-%N.txt --mpi=none bash -c 'echo out; echo err >&2'\n"
        "srun -n1 -D sub -o o -e e bash -c 'echo out; echo err >&2'; srun -n1 -o no/x true; echo $?"
    )
    script = read(f"#!/bin/bash\n{body}\n".encode(), "job.sh", {})
    command = launch.command(script, [], {"SLURM_NTASKS": "2", "each": "1"})
    env = {"PATH": os.environ["PATH"], **JOB, launch.SCRIPT: script.text, launch.SRUN: srun.function()}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "1\n"
    for task in (0, 1):
        assert (tmp_path / f"nm-014-{task}-n1.txt").read_text() == "out\nerr\n"
    assert (tmp_path / "sub" / "o").read_text() == "out\n" and (tmp_path / "sub" / "e").read_text() == "err\n"


def test_srun_waits_for_its_tasks_when_a_warning_comes(tmp_path: Path) -> None:
    """The script's own trap runs at once, and what srun started goes on to its end."""
    body = (
        "trap 'echo warned' USR1\n"
        "srun -n2 bash -c '[ $SLURM_PROCID = 1 ] || kill -USR1 '$$'; until [ -e go ]; do sleep 0.01; done; exit 3'\n"
        "echo $?"
    )
    script = read(f"#!/bin/bash\n{body}\n".encode(), "job.sh", {})
    command = launch.command(script, [], {"SLURM_NTASKS": "2", "each": "1"})
    env = {"PATH": os.environ["PATH"], **JOB, launch.SCRIPT: script.text, launch.SRUN: srun.function()}
    with subprocess.Popen(command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "warned\n"
        (tmp_path / "go").touch()
        assert process.stdout.read() == "3\n"
