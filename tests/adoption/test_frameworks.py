"""What frameworks and editors give as commands, given to a partition that Tenure schedules, on a real Slurm.

The scripts and options are those of submitit 1.5, Lightning 2.6, Snakemake's slurm executor 2.8, Nextflow and people's
VS Code recipes; nothing of these needs to be installed. What they poll (sacct, squeue) is polled here, too.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import adoption_kit
import pytest
from adoption_kit import SOMEBODY, Lab, becoming

from support.slurmdb import AccountedCluster, accounted

CONF = adoption_kit.CONF + "LaunchParameters=use_interactive_step"
COMMON = ("--account=language", "--partition=gpu")
SUBMITIT = """#!/bin/bash

# Parameters
#SBATCH --account=language
#SBATCH --array=0-1%2
#SBATCH --error={out}/%A_%a_0_log.err
#SBATCH --gpus-per-node=1
#SBATCH --job-name=submitit
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --open-mode=append
#SBATCH --output={out}/%A_%a_0_log.out
#SBATCH --partition=gpu
#SBATCH --signal=USR2@20
#SBATCH --time=20

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output {out}/%A_%a_%t_log.out --error {out}/%A_%a_%t_log.err sh {out}/train.sh
"""
# What its handler does: save, queue the job again, exit with -1. TERM and CONT are passed over.
SUBMITIT_TRAIN = """job=${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID
trap '' TERM CONT
trap 'touch {out}/$job.saved; scontrol requeue $job; exit 255' USR2
echo "step on restart ${{SLURM_RESTART_COUNT:-0}}"
until [ -e {out}/$job.saved ] || [ -e {out}/finish ]; do sleep 0.2; done
"""
LIGHTNING = """#!/bin/bash
#SBATCH --partition=gpu --account=language
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --gres=gpu:2
#SBATCH --time=0-02:00:00
#SBATCH --open-mode=append
#SBATCH --signal=SIGUSR1@90
#SBATCH --output={out}/light.log
srun sh {out}/fit.sh
"""
# Rank 0 queues the job again, and all train on until Slurm kills them: TERM is passed over.
LIGHTNING_FIT = """trap '' TERM
trap '[ $SLURM_PROCID = 0 ] && scontrol requeue $SLURM_JOB_ID' USR1
echo "rank $SLURM_PROCID/$SLURM_NTASKS node $SLURM_NODEID local $SLURM_LOCALID per $SLURM_NTASKS_PER_NODE \
restart ${{SLURM_RESTART_COUNT:-0}}"
until [ ${{SLURM_RESTART_COUNT:-0}} = 1 ]; do sleep 0.2; done
"""
# The job removes Slurm's variables before its inner srun. (A site without SLURM_CONF needs none.)
SNAKEMAKE_STEP = (
    "for name in $(env | sed -n 's/^\\(SLURM_[A-Z_]*\\)=.*/\\1/p'); do case $name in "
    "SLURM_JOB_ID|SLURM_JOBID|SLURM_CLUSTER_NAME|SLURM_CONF) ;; *) unset $name;; esac; done; "
    "srun -n1 --cpu-bind=q --cpus-per-gpu=2 --gpus=2 --nodes=1 sh -c 'echo ran on $CUDA_VISIBLE_DEVICES; {then}'"
)
NEXTFLOW = """#!/bin/bash
#SBATCH -J nf-TRAIN_(1)
#SBATCH -o {out}/.command.log
#SBATCH --no-requeue
#SBATCH --signal B:USR2@30
#SBATCH -c 4
#SBATCH -t 01:00:00
#SBATCH --mem 1024M
#SBATCH -p gpu
#SBATCH --account=language --gres=gpu:1
NXF_CHDIR={out}
on_exit() {{ printf -- $1 > {out}/.exitcode; exit $1; }}
on_term() {{ set +e; kill -TERM $pid; }}
trap 'on_exit $?' EXIT
trap on_term TERM INT USR2
touch {out}/.command.begin
{work} & pid=$!
wait $pid
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccountedCluster]:
    base = tmp_path_factory.mktemp("frameworks")
    (base / "etc").mkdir()
    shutil.copy(adoption_kit.PLUGIN, base / "etc" / "job_submit.lua")
    yield from accounted(base, nodes=2, conf=CONF, anybodys=True)


@pytest.fixture
def out(slurm: AccountedCluster, request: pytest.FixtureRequest) -> Path:
    """A directory that its jobs see and may write to."""
    made = slurm.base / request.node.name
    made.mkdir()
    made.chmod(0o1777)
    return made


@pytest.fixture
def lab(slurm: AccountedCluster, tmp_path: Path) -> Iterator[Lab]:
    with adoption_kit.lab(slurm, tmp_path) as made:
        yield made


def submitted(lab: Lab, text: str, out: Path) -> str:
    path = out / "script.sh"
    path.write_text(text)
    done = lab.as_user(SOMEBODY, "sbatch", str(path))
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


def text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_submitit_queues_itself_again_when_it_is_warned(lab: Lab, out: Path) -> None:
    (out / "train.sh").write_text(SUBMITIT_TRAIN.format(out=out))
    number = submitted(lab, SUBMITIT.format(out=out), out)

    def states() -> dict[str, str]:
        """As its watcher asks; a job is finished for it in any state but a few."""
        lines = lab.slurm.run("sacct", "-o", "JobID,State,NodeList", "--parsable2", "-j", number).splitlines()[1:]
        return {line.split("|")[0]: line.split("|")[1] for line in lines if "." not in line.split("|")[0]}

    first, second = f"{number}_0", f"{number}_1"
    jobs = [lab.adopted(first), lab.adopted(second)]
    for task in (first, second):
        lab.wait(lambda task=task: "restart 0" in text_of(out / f"{task}_0_log.out"), "it trains")
    seen = lab.server.client.job(jobs[0])
    assert (seen.warn_signal, seen.grace_ms, seen.resumable) == ("SIGUSR2", 20_000, False)
    lab.server.client.evict(jobs[0], "the test wants to see it again")
    told: set[str] = set()

    def is_over() -> bool:
        told.add(states().get(first, "UNKNOWN"))  # its records come a little later
        return lab.server.client.job(jobs[0]).state == "succeeded"

    lab.wait(is_over, lambda: f"it ends: {told}")
    assert told <= {"UNKNOWN", "PENDING", "RUNNING", "REQUEUED", "COMPLETING", "COMPLETED"}
    # It never said --requeue, and comes back all the same: it has queued itself again.
    attempts = lab.attempts(jobs[0])
    assert [one["reason"]["code"] for one in attempts] == ["evicted_by_person", "succeeded"]
    assert text_of(out / f"{first}_0_log.out").splitlines()[-1] == "step on restart 1"
    (out / "finish").touch()
    lab.wait_state(jobs[1], "succeeded")
    lab.wait(lambda: states() == {first: "COMPLETED", second: "COMPLETED"}, lambda: str(states()))


def test_lightning_trains_on_until_it_is_killed_and_goes_on(lab: Lab, out: Path) -> None:
    (out / "fit.sh").write_text(LIGHTNING_FIT.format())
    number = submitted(lab, LIGHTNING.format(out=out), out)
    job = lab.adopted(number)
    log = out / "light.log"
    lab.wait(lambda: text_of(log).count("restart 0") == 4, "all ranks are there")
    assert lab.server.client.job(job).warn_signal == "SIGUSR1"
    lab.server.client.evict(job, "the test wants to see it again")
    lab.wait_state(job, "succeeded")
    ranks = [f"rank {i}/4 node {i // 2} local {i % 2} per 2 restart 1" for i in range(4)]
    assert sorted(line for line in log.read_text().splitlines() if "restart 1" in line) == ranks
    first, second = lab.attempts(job)
    assert (first["reason"]["code"], len(second["hosts"])) == ("evicted_by_person", 2)


def test_slurm_refuses_to_queue_again_what_says_no_requeue(lab: Lab, out: Path) -> None:
    script = "#!/bin/sh\nscontrol requeue $SLURM_JOB_ID; exit $?\n"
    options = ("-A", "language", "-G", "1", "--no-requeue", f"--output={out}/said.log")
    job = lab.adopted(lab.sbatch(*options, script=script))
    lab.wait_state(job, "failed")
    assert "disabled" in (out / "said.log").read_text()


def snakemake(lab: Lab, out: Path, *options: str, then: str = "true") -> str:
    """As its slurm executor submits one job, whose job step it then runs with srun."""
    words = (
        *("sbatch", "--parsable", "--job-name", out.name, "--output", f"{out}/%j.log", "--export=ALL"),
        *("--comment", "rule_gpu_wildcards_2", "-A", "language", "-p", "gpu", "-t", "10", "--mem", "1000"),
        *("--cpus-per-gpu=2", "-D", str(out), "--gpus=2", *options),
        f"--wrap={SNAKEMAKE_STEP.format(then=then)}",
    )
    done = lab.as_user(SOMEBODY, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def snakemake_sees(lab: Lab, out: Path, number: str) -> str:
    words = ("sacct", "-X", "--parsable2", "--clusters", "all", "--noheader", "--format=JobIdRaw,State")
    text = lab.slurm.run(*words, "--starttime", "now-2days", "--endtime", "now", "--name", out.name)
    return dict(line.split("|") for line in text.splitlines()).get(number, "")


def test_snakemake_runs_its_step_inside_the_job(lab: Lab, out: Path) -> None:
    number = snakemake(lab, out)
    job = lab.adopted(number)
    lab.wait_state(job, "succeeded")
    lab.wait(lambda: snakemake_sees(lab, out, number) == "COMPLETED", lambda: snakemake_sees(lab, out, number))
    (line,) = (line for line in (out / f"{number}.log").read_text().splitlines() if line.startswith("ran"))
    assert len(line.split(",")) == 2


def test_snakemake_waits_for_a_job_that_was_evicted(lab: Lab, out: Path) -> None:
    then = "until [ -e finish ]; do sleep 0.2; done"
    number = snakemake(lab, out, "--requeue", "--time-min=5", then=then)
    job = lab.adopted(number)
    lab.wait(lambda: "ran on" in text_of(out / f"{number}.log"), "its step runs")
    lab.server.client.evict(job, "the test wants to see it again")
    lab.wait(lambda: lab.server.client.job(job).restarts == 1, "it queues again")
    (out / "finish").touch()
    lab.wait_state(job, "succeeded")
    lab.wait(lambda: snakemake_sees(lab, out, number) == "COMPLETED", lambda: snakemake_sees(lab, out, number))


def test_nextflow_reads_the_end_of_its_tasks(lab: Lab, out: Path) -> None:
    polled = ("squeue", "--noheader", "-o", "%i %t", "-t", "all", "-p", "gpu", "-u", SOMEBODY)

    def state(number: str) -> str:
        return dict(line.split() for line in lab.as_user(SOMEBODY, *polled).stdout.splitlines()).get(number, "")

    number = submitted(lab, NEXTFLOW.format(out=out, work="true"), out)
    lab.wait_state(lab.adopted(number), "succeeded")
    assert (state(number), text_of(out / ".exitcode")) == ("CD", "0")
    (out / ".command.begin").unlink()
    number = submitted(lab, NEXTFLOW.format(out=out, work="sleep 1000"), out)
    job = lab.adopted(number)
    lab.wait((out / ".command.begin").exists, "it has begun")
    # It says --no-requeue: its warning ends the task, and Nextflow tries again by itself, with a new job.
    lab.server.client.evict(job, "the test wants it to end")
    assert lab.server.client.wait(job, timeout_s=60).state == "preempted"
    assert (state(number), text_of(out / ".exitcode")) == ("F", "140")
    (out / ".command.begin").unlink()
    number = submitted(lab, NEXTFLOW.format(out=out, work="sleep 1000"), out)
    job = lab.adopted(number)
    lab.wait((out / ".command.begin").exists, "it has begun")
    assert lab.as_user(SOMEBODY, "scancel", number).returncode == 0
    assert lab.server.client.wait(job, timeout_s=60).state == "cancelled"


def on_a_terminal(lab: Lab, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (*becoming(SOMEBODY), "script", "--quiet", "--return", "--command", shlex.join(words), "/dev/null"),
        env={**lab.slurm.env, "SHELL": "/bin/sh"},
        cwd="/",
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_editor_gets_a_node_and_steps_on_it(lab: Lab) -> None:
    terms = ("--gres=gpu:1", "-c", "2", "-t", "30", "--time-min=5")
    got = lab.as_user(SOMEBODY, "salloc", "--no-shell", "-J", "vscode", *COMMON, *terms)
    assert got.returncode == 0, got.stderr
    find = ("squeue", "--user", SOMEBODY, "--name=vscode", "--states=R", "-h", "-O", "JobID,NodeList")
    number, node = lab.slurm.run(*find).split()
    job = lab.adopted(number)
    lab.wait_state(job, "running")
    assert lab.server.client.job(job).min_runtime_ms == 300_000
    step = lab.as_user(SOMEBODY, "srun", f"--jobid={number}", "--overlap", "sh", "-c", "echo $SLURMD_NODENAME")
    assert step.stdout == f"{node}\n", step
    inside = "test -t 0 && echo shell of $SLURM_JOB_ID; exit 4"
    shell = on_a_terminal(lab, "srun", f"--jobid={number}", "--overlap", "--pty", "sh", "-c", inside)
    assert f"shell of {number}" in shell.stdout
    lab.as_user(SOMEBODY, "scancel", "-n", "vscode")
    lab.wait_state(job, "cancelled")


def test_shells_on_a_node(lab: Lab) -> None:
    inside = "test -t 0 && echo shell with $CUDA_VISIBLE_DEVICES; exit 4"
    shell = on_a_terminal(lab, "srun", *COMMON, "--gres=gpu:2", "--pty", "sh", "-c", inside)
    assert (shell.returncode, "shell with 0,1" in shell.stdout) == (4, True), shell
    # Where salloc puts people on the node (use_interactive_step).
    shell = on_a_terminal(lab, "salloc", *COMMON, "-N2", "--gpus-per-node=1", typed="srun hostname; exit 3\n")
    assert shell.returncode == 3, shell
    lab.wait(lambda: all(job.ended for job in lab.server.client.jobs()), "both are over here, too")
