"""An attempt of a job that is submitted to Slurm as the job's own user: whether it can be, and its script. Pure.

The script is submitted once and serves all attempts under one id, so it says nothing that differs between them, but
for what Slurm tells it. Values of the job's variables stand in it, quoted, and on no command line.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenure.executors.base import Launch
from tenure.executors.launching import PER_GPU, of_array, signals_to_handle
from tenure.executors.slurm import plan as plans
from tenure.executors.slurm.plan import FIRST_PORT, PORTS, Part

SETTING = "[slurm] submit_as"
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_PATH = re.compile(r"/[^\\%\x00-\x1f\x7f]*")
"""Without what Slurm would fill in, or take away, in the name of an output file."""

_BATCH = """#!/bin/sh
set -u
# Job {job} of Tenure, which decides when and where it runs.
unset SUDO_COMMAND SUDO_USER SUDO_UID SUDO_GID
{exports}
if [ "$SLURM_JOB_NUM_NODES" = 1 ]; then _TENURE_FIRST=127.0.0.1; else _TENURE_FIRST=$SLURMD_NODENAME; fi
export _TENURE_FIRST
exec srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks={tasks} --ntasks-per-node=$(({tasks} / SLURM_JOB_NUM_NODES)) \\
 --overcommit --distribution=block --cpu-bind=none --kill-on-bad-exit=1 --wait=0 --quiet \\
 /bin/sh -c {task} tenure {command}
"""
_TASK = """_n=$SLURM_PROCID _l=$SLURM_LOCALID _h=$SLURMD_NODENAME _b=$(({before} + ${{SLURM_RESTART_COUNT:-0}})) _g=
_r=$((_n / {each}))
{gpus}export MASTER_ADDR="$_TENURE_FIRST" MASTER_PORT=$(({first_port} + SLURM_JOB_ID % {ports}))
export PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT" PET_RDZV_ENDPOINT="$MASTER_ADDR:$MASTER_PORT"
export PET_NNODES={replicas} PET_NODE_RANK=$_r PET_NPROC_PER_NODE={world} PET_RDZV_BACKEND=static
export PET_RDZV_ID="$SLURM_JOB_ID" PET_SIGNALS_TO_HANDLE={signals}
cd -- "$_TENURE_DIR" || exit 1
{imports}
export TENURE_REPLICA=$_r TENURE_HOST="$_h" TENURE_RESTART_COUNT=$_b CUDA_DEVICE_ORDER=PCI_BUS_ID
export CUDA_VISIBLE_DEVICES="$_g"
{ranks}unset _n _l _h _b _g _r _TENURE_DIR _TENURE_FIRST
exec "$@"
"""
_GPUS = """_f=$((_l / {each} * {gpus}))
_g=$(printf %s "${{CUDA_VISIBLE_DEVICES:-}}" | cut -d, -f $((_f + 1))-$((_f + {gpus})))
unset _f
"""
_RANKS = """export RANK=$_n WORLD_SIZE={tasks} LOCAL_RANK=$((_l % {each})) LOCAL_WORLD_SIZE={each} GROUP_RANK=$_r
"""


@dataclass(frozen=True, slots=True)
class Person:
    """A user of Unix. ``home`` '': none that is there."""

    name: str
    uid: int
    home: str
    shell: str = "/bin/sh"

    @property
    def env(self) -> dict[str, str]:
        return {"USER": self.name, "LOGNAME": self.name, "HOME": self.home or "/", "SHELL": self.shell}


@dataclass(frozen=True, slots=True)
class UserPlan:
    """``launch.json`` of such an attempt. ``refusal``: why it cannot start, '' when it can.

    ``digest`` is the same for attempts that the same script serves. ``user``, ``uid``: whose Slurm job it is.
    """

    attempt_id: str
    job: int
    user: str
    uid: int
    name: str
    part: Part
    script: str
    digest: str
    output: str
    refusal: str = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.part.hosts

    @property
    def gpus(self) -> int:
        return self.part.gpus


def is_name(user: str) -> bool:
    """Whether it may stand on a command line as the name of a user whose jobs are run: root's are not."""
    return user != "root" and _USER.fullmatch(user) is not None


def plan_of(launch: Launch, person: Person | None) -> UserPlan:
    """``person``: whom the system knows by the name of the job's user; None: nobody."""
    whole = plans.plan_of(launch)
    refusal = _refusal(launch, person, whole)
    if refusal or person is None:
        said = (launch.attempt_id, launch.job_id, launch.user, -1, launch.name, whole.parts[0])
        return UserPlan(*said, script="", digest="", output="", refusal=refusal)
    directory = launch.workdir or person.home or "/tmp"
    output = directory if _PLAIN_PATH.fullmatch(directory) else person.home or "/tmp"
    return UserPlan(
        attempt_id=launch.attempt_id,
        job=launch.job_id,
        user=launch.user,
        uid=person.uid,
        name=launch.name,
        part=whole.parts[0],
        script=_script(launch, person, directory, launch.restart_count),
        digest=hashlib.sha256(_script(launch, person, directory, 0).encode()).hexdigest(),
        output=f"{output.rstrip('/')}/tenure-{launch.job_id}.out",
    )


def _refusal(launch: Launch, person: Person | None, whole: plans.Plan) -> str:
    """Why it cannot be one plain job of Slurm's, of this user."""
    if not is_name(launch.user):
        how = "a name like ada, of at most 32 small letters, digits, _ and -, and not root"
        return f"user = {launch.user!r}: {SETTING} runs jobs as their users, and needs {how}"
    if person is None:
        return (
            f"user = {launch.user!r}: {SETTING} runs jobs as their users, and this system knows no such user; make "
            "the account, or submit as somebody who has one"
        )
    if person.uid == 0:
        return f"user = {launch.user!r}: {SETTING} runs no jobs with the user id 0; submit as somebody else"
    first = launch.replicas[0]
    if any((one.role, one.command) != (first.role, first.command) for one in launch.replicas):
        return f"roles: with {SETTING} a job has one role with one command; make several jobs of it"
    spread = {len(ranks) for ranks in whole.ranks.values()}
    if len(whole.parts) > 1 or len(spread) > 1 or len({len(one.gpus) for one in launch.replicas}) > 1:
        counts = ", ".join(f"{len(ranks)} on {host}" for host, ranks in whole.ranks.items())
        return (
            f"replicas: with {SETTING} each host must have as many of them, and it is {counts}; ask for replicas of "
            "whole hosts, or for one replica"
        )
    bad = next((name for name in launch.env if not _NAME.fullmatch(name)), None)
    if bad is not None:
        return f"env: {bad!r} cannot be set by a shell; use letters, digits and _"
    words = (launch.workdir, *first.command, *launch.env.values())
    if any("\0" in word for word in words):
        return "command, env or workdir has a byte 0, which no process can be given; take it out"
    return ""


def _script(launch: Launch, person: Person, directory: str, before: int) -> str:
    """``before``: attempts that ran before the first one under this id of Slurm's."""
    first, replicas = launch.replicas[0], len(launch.replicas)
    gpus, world = len(first.gpus), max(1, len(first.gpus))
    each = world if launch.launch == PER_GPU else 1
    variables = {**person.env, **launch.env, **_ours(launch)}
    # Under names of their own until srun has been started: the user's SLURM_* or PATH are not for it.
    exports = [f"export _TENURE_V{n}={shlex.quote(value)}" for n, value in enumerate(variables.values())]
    imports = [f'export {name}="$_TENURE_V{n}"; unset _TENURE_V{n}' for n, name in enumerate(variables)]
    task = _TASK.format(
        each=each,
        world=world,
        replicas=replicas,
        first_port=FIRST_PORT,
        ports=PORTS,
        signals=signals_to_handle(launch.warn_signal),
        imports="\n".join(imports),
        before=before,
        gpus=_GPUS.format(each=each, gpus=gpus) if gpus else "",
        ranks=_RANKS.format(tasks=replicas * each, each=each) if launch.launch == PER_GPU else "",
    )
    return _BATCH.format(
        job=launch.job_id,
        exports="\n".join([*exports, f"export _TENURE_DIR={shlex.quote(directory)}"]),
        tasks=replicas * each,
        task=shlex.quote(task),
        command=shlex.join(first.command),
    )


def _ours(launch: Launch) -> Mapping[str, str]:
    """What is true of every attempt. ``docs/slurm.md`` says which variables are missing for that."""
    return {
        "TENURE_JOB_ID": str(launch.job_id),
        "TENURE_JOB_NAME": launch.name,
        "TENURE_USER": launch.user,
        "TENURE_CLUSTER": launch.cluster,
        "TENURE_BUDGET": launch.budget,
        "TENURE_ROLE": launch.replicas[0].role,
        **of_array(launch.array),
    }


def read(content: dict[str, Any] | None) -> UserPlan | None:
    """The plan in a ``launch.json``; None when it is none of this kind."""
    if content is None or "digest" not in content:
        return None
    part = content["part"]
    return UserPlan(**{**content, "part": Part(**{**part, "hosts": tuple(part["hosts"])})})
