"""Words that people know from other schedulers, translated before the options are read.

``tenure sbatch -N 2 --gres=gpu:8 --time=2h train.sh`` means what its author means. Where a word means something
else elsewhere (a bare number of minutes in ``--time``), the value is refused with what to write.
"""

from __future__ import annotations

import re

COMMANDS = {
    "sbatch": "submit",
    "qsub": "submit",
    "bsub": "submit",
    "srun": "run",
    "squeue": "ls",
    "qstat": "ls",
    "bjobs": "ls",
    "ps": "ls",
    "list": "ls",
    "queue": "ls",
    "jobs": "ls",
    "scancel": "cancel",
    "qdel": "cancel",
    "bkill": "cancel",
    "kill": "cancel",
    "delete": "cancel",
    "rm": "cancel",
    "stop": "cancel",
    "sinfo": "hosts",
    "nodes": "hosts",
    "describe": "show",
    "get": "show",
    "tail": "logs",
    "sshare": "budgets",
    "quota": "budgets",
}

OPTIONS = {
    "--time": "--timeout",
    "-t": "--timeout",
    "--walltime": "--timeout",
    "--ntasks": "--replicas",
    "-n": "--replicas",
    "--nodes": "--replicas",
    "-N": "--replicas",
    "--gpus-per-node": "--gpus",
    "--gpus-per-task": "--gpus",
    "--gpus-per-replica": "--gpus",
    "-G": "--gpus",
    "--cpus-per-task": "--cpus",
    "-c": "--cpus",
    "--memory": "--mem",
    "--job-name": "--name",
    "-J": "--name",
    "--account": "--budget",
    "-A": "--budget",
    "--project": "--budget",
    "--partition": "--cluster",
    "-p": "--cluster",
    "--queue": "--cluster",
    "--chdir": "--workdir",
    "-D": "--workdir",
    "--requeue": "--resumable",
    "--no-requeue": "--no-resumable",
    "--signal": "--warn-signal",
    "--constraint": "--require",
    "-C": "--require",
}

FLAGS = {"--resumable", "--no-resumable", "--hold", "--json", "--clean-env", "--quiet", "-q", "--help"}
"""Options of submit and run that take no value."""

_SUBMITTING = ("submit", "run")
_GRES = re.compile(r"(?:gres/)?gpu(?::[A-Za-z0-9_.-]*[A-Za-z_][A-Za-z0-9_.-]*)?(?::([0-9]+))?")
_GLUED = re.compile(r"-[A-Za-z][^-].*|-[A-Za-z][0-9]")
"""``-N2``"""
_GLOBAL_WITH_VALUE = ("--url",)


def translate(arguments: list[str]) -> list[str]:
    """The same command line in this program's own words."""
    at = _command_at(arguments)
    if at is None:
        return arguments
    command = COMMANDS.get(arguments[at], arguments[at])
    rest = arguments[at + 1 :]
    if command in _SUBMITTING:
        rest = _options(rest)
    return [*arguments[:at], command, *rest]


def _command_at(arguments: list[str]) -> int | None:
    i = 0
    while i < len(arguments):
        if arguments[i] in _GLOBAL_WITH_VALUE:
            i += 2
        elif arguments[i].startswith("-"):
            i += 1
        else:
            return i
    return None


def _options(arguments: list[str]) -> list[str]:
    """Translate options up to the command that is to run; everything after that is its own."""
    out: list[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        name, equals, value = rest.pop(0).partition("=")
        if not equals and _GLUED.fullmatch(name):
            name, equals, value = name[:2], "=", name[2:]
        known = OPTIONS.get(name, name)
        if known in FLAGS or not (equals or rest):
            out.append(known + equals + value)
            continue
        if not equals:
            value = rest.pop(0)
        if name == "--gres":
            known, value = _gres(value)
        out += [known, value]
    return out + rest


def _gres(value: str) -> tuple[str, str]:
    """``gpu:8`` or ``gpu:a100:8`` as GPUs of one replica; what else there is goes on unchanged, to be refused."""
    match = _GRES.fullmatch(value)
    return ("--gpus", match[1] or "1") if match else ("--gres", value)
