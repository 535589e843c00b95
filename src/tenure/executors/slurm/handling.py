"""What Slurm is told about jobs of its own users: one method for each order. All raise CommandFailed.

``job`` is what Slurm's commands take: ``12``, or ``12_3`` for a task of an array.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tenure.executors.slurm import rows
from tenure.slurm.commands import CommandFailed, Commands

FAR = "now+365days"
"""A begin time under which Slurm looks after a job's dependencies, which it does not while the job is held."""
FAR_S = 180 * 86_400
"""Whatever begins later than this from now was put off by us."""
_STARTING = ("JobID", "ArrayJobID", "ArrayTaskID", "Name", "UserName", "WorkDir", "tres-per-node", "STDOUT", "STDERR")
_PATTERN = re.compile("%([0-9]{0,2})([%AajJNnstux])")
_HISTORY = "State,Start,End,ExitCode,NodeList"


@dataclass(frozen=True, slots=True)
class Segment:
    """One run of a job, from Slurm's accounting. Times in seconds since 1970; ``exit`` is a wait status."""

    state: str
    start: int
    end: int
    exit: int
    nodes: str


@dataclass(frozen=True, slots=True)
class Start:
    """What is needed at a start: GPUs asked for on each node, in Slurm's words, and where output goes."""

    gpus: str
    stdout: str
    stderr: str


class Handling:
    """``commands`` must be allowed to change other people's jobs: SlurmUser, or an operator.

    ``instance`` marks the jobs of this server.
    """

    def __init__(self, commands: Commands, instance: str) -> None:
        self._commands, self.instance = commands, instance

    def start_of(self, job: str, first: str) -> Start:
        """``first``: the first of its nodes."""
        for said in rows.question(self._commands, _STARTING, "-j", job):
            return Start(rows.text(said["tres-per-node"]), output(said, "STDOUT", first), output(said, "STDERR", first))
        raise CommandFailed("squeue", f"does not know job {job}")

    def pin(self, job: str, hosts: Sequence[str], gpus: str = "", mark: str = "") -> None:
        """The nodes of the next start, exactly these; tasks and CPUs stay what the job asked for.

        ``gpus``: on each node, for a job that counts its GPUs otherwise: Slurm would divide them as it likes. ``mark``:
        for a job that has none of this server yet.
        """
        count = len(hosts)
        changes = [f"ReqNodeList={','.join(hosts)}", f"NumNodes={count}-{count}", "StartTime=now"]
        if gpus:
            changes.append(f"TresPerNode={gpus}")
        if mark:
            changes.append(f"AdminComment={mark}")
        self._change(job, *changes)

    def change(self, job: str, changes: Sequence[str]) -> None:
        """``changes``: words of ``scontrol update``."""
        self._change(job, *changes)

    def mark(self, job: str, text: str) -> None:
        self._change(job, f"AdminComment={text}")

    def put_off(self, job: str) -> None:
        """Let Slurm look after its dependencies, without starting it."""
        self._change(job, f"StartTime={FAR}")
        self.release(job)

    def release(self, job: str) -> None:
        self._commands.run("scontrol", "release", job)

    def hold(self, job: str) -> None:
        self._commands.run("scontrol", "hold", job)

    def warn(self, job: str, signal: str, *whom: str) -> None:
        """``whom``: ``--full`` for all processes, ``--batch`` for the script's shell; else what srun started."""
        self._commands.run("scancel", f"--signal={signal.removeprefix('SIG')}", *whom, job)

    def allow_requeue(self, job: str) -> None:
        """Before the job ends: afterwards Slurm would refuse to take it back."""
        self._change(job, "Requeue=1")

    def take_back(self, job: str) -> None:
        """A job that runs is ended, and waits again, held, under its id. An ended one only if it may be run again."""
        self._commands.run("scontrol", "requeuehold", "Incomplete", job)

    def keep(self, job: str) -> None:
        """An ended job waits again, held, under its id, however it ended."""
        self._commands.run("scontrol", "requeuehold", job)

    def cancel(self, job: str) -> None:
        self._commands.run("scancel", job)

    def history(self, job: str) -> list[Segment]:
        """Its runs by Slurm's accounting, the last one last; empty where none is kept."""
        for kept in (("-D",), ("-c", "-D")):
            with contextlib.suppress(CommandFailed):
                text = self._commands.run("sacct", *kept, "-X", "-n", "-P", "-j", job, f"--format={_HISTORY}")
                found = [segment for line in text.splitlines() if (segment := _segment(line)) is not None]
                if found:
                    return found
        return []

    def _change(self, job: str, *changes: str) -> None:
        self._commands.run("scontrol", "update", f"JobId={job}", *changes)


def output(said: Mapping[str, str], stream: str, first: str) -> str:
    """The file of a job's output, with sbatch's patterns filled in, which ``squeue`` does not do; '' for none."""
    path = rows.text(said[stream])
    task = said["ArrayTaskID"]
    words = {
        "%": "%",
        "A": said["ArrayJobID"],
        "a": task if task.isdecimal() else "4294967294",
        "j": said["JobID"],
        "J": said["JobID"],
        "N": first.partition(".")[0],
        "n": "0",
        "s": "batch",
        "t": "0",
        "u": said["UserName"],
        "x": said["Name"],
    }
    filled = _PATTERN.sub(lambda found: words[found[2]].rjust(int(found[1] or 0), "0"), path)
    return str(PurePosixPath(said["WorkDir"]) / filled) if path else ""


def _segment(line: str) -> Segment | None:
    fields = line.split("|")
    if len(fields) != 5 or not (fields[1].isdecimal() and fields[2].isdecimal()):
        return None
    code, _, number = fields[3].partition(":")
    status = (int(code) << 8 if code.isdecimal() else 0) + (int(number) if number.isdecimal() else 0)
    # "CANCELLED by 1001" says who.
    return Segment(fields[0].partition(" ")[0], int(fields[1]), int(fields[2]), status, fields[4])
