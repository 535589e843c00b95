"""What Slurm is told: one method for each order, each one command. All raise CommandFailed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tenure.executors import boot
from tenure.executors.slurm import reading, script
from tenure.executors.slurm.plan import Part, Plan
from tenure.executors.slurm.reading import SlurmJob
from tenure.slurm.commands import CommandFailed, Commands

OUTPUT = "slurm.out"
"""In the directory of a job: what Slurm itself has to say about its attempts."""

HELD = ("--parsable", "--hold", "--no-requeue", "--open-mode=append", "--export=ALL", "--chdir=/")
"""Options of every ``sbatch``: the job waits for Tenure, and its variables come with it."""


class Steering:
    """``instance`` marks the jobs of this server in Slurm; ``partition`` '' is Slurm's default."""

    def __init__(self, commands: Commands, root: Path, partition: str, instance: str) -> None:
        self._commands = commands
        self._root = root
        self._partition = partition
        self._instance = instance

    def submit(self, plan: Plan, index: int) -> int:
        """Submit a part of a job, held and pinned to its nodes; returns Slurm's id."""
        directory, part = self._root / str(plan.job), plan.parts[index]
        options = [
            *HELD,
            f"--output={directory / OUTPUT}",
            f"--job-name={plain(plan.name) or 'tenure'}",
            f"--comment={self._comment(plan, index)}",
            *asked(part, self._partition),
        ]
        text = script.render(plan.job, boot.command("slurm.node", str(directory)))
        return number_in(self._commands.run("sbatch", *options, stdin=text))

    def pin(self, job: SlurmJob, plan: Plan, index: int) -> None:
        """Give a job that waits the nodes of its next attempt. After a requeue it would wait two minutes more."""
        part = plan.parts[index]
        changes = [f"JobId={job.id}", *changed(part)]
        if job.gpus != part.gpus:
            changes += [f"TresPerNode=gres:gpu:{part.gpus}", f"Comment={self._comment(plan, index)}"]
        self._commands.run("scontrol", "update", *changes)

    def release(self, job: int) -> None:
        self._commands.run("scontrol", "release", str(job))

    def hold(self, job: int) -> None:
        self._commands.run("scontrol", "hold", str(job))

    def allow_requeue(self, jobs: Iterable[int]) -> None:
        """Before the jobs end: afterwards Slurm would refuse to take them back."""
        self._commands.run("scontrol", "update", f"JobId={','.join(map(str, jobs))}", "Requeue=1")

    def take_back(self, job: int) -> None:
        """An ended job waits again, held, under its id."""
        self._commands.run("scontrol", "requeuehold", str(job))

    def cancel(self, jobs: Iterable[int]) -> None:
        self._commands.run("scancel", *(str(job) for job in jobs))

    def _comment(self, plan: Plan, index: int) -> str:
        part = plan.parts[index]
        return reading.comment(plan.cluster, plan.job, index, part.gpus, part.cpus, self._instance)


def asked(part: Part, partition: str) -> list[str]:
    """Options of ``sbatch`` for the nodes of a part, and what is asked for on each: one task, with all of it."""
    options = [
        f"--nodes={len(part.hosts)}",
        f"--ntasks={len(part.hosts)}",
        f"--nodelist={','.join(part.hosts)}",
        f"--cpus-per-task={part.cpus}",
        f"--mem={part.mem}M",
    ]
    if part.gpus:
        options.append(f"--gres=gpu:{part.gpus}")
    if partition:
        options.append(f"--partition={partition}")
    return options


def changed(part: Part) -> list[str]:
    """The same for a job that waits, in the words of ``scontrol update``; but for GPUs."""
    count = len(part.hosts)
    return [
        "StartTime=now",
        # It was allowed when the job was last evicted; after a failure Slurm would start it again by itself.
        "Requeue=0",
        f"ReqNodeList={','.join(part.hosts)}",
        f"NumNodes={count}-{count}",
        f"NumTasks={count}",
        # Must agree with the tasks, or Slurm finds no node for it.
        f"NumCPUs={count * part.cpus}-{count * part.cpus}",
        f"MinMemoryNode={part.mem}",
    ]


def number_in(said: str) -> int:
    """The id in what ``sbatch --parsable`` printed. Raises CommandFailed."""
    number = said.strip().partition(";")[0]
    if not number.isdecimal():
        raise CommandFailed("sbatch", "told no job id", said[:200])
    return int(number)


def plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name)[:64].strip("-")
