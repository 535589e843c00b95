"""Words that people know from other schedulers, translated before the options are read.

``tenure sbatch -N 2 --gres=gpu:8 --time=2h train.sh`` means what its author means. Where a word means something
else elsewhere (a bare number of minutes in ``--time``), the value is refused with what to write.

For a batch script all words of sbatch mean what they mean to sbatch: they go on as ``--sbatch NAME=VALUE``, to be read
beside the script's own lines.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, fields
from pathlib import Path

from tenure.cli import habits
from tenure.scripts import table
from tenure.scripts.lines import looks_like_script
from tenure.scripts.table import Takes

COMMANDS = {
    "sbatch": "submit",
    "qsub": "submit",
    "bsub": "submit",
    "srun": "run",
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

_SUBMITTING = ("submit", "run")
_GRES = re.compile(r"(?:gres/)?gpu(?::[A-Za-z0-9_.-]*[A-Za-z_][A-Za-z0-9_.-]*)?(?::([0-9]+))?")
_GLUED = re.compile(r"-[A-Za-z][^-].*|-[A-Za-z][0-9]")
"""``-N2``"""
_GLOBAL_WITH_VALUE = ("--url",)
_SAME = {"--parsable": "--quiet", "--test-only": "--dry-run", "-H": "--hold"}
_HEAD = 1 << 17
"""Bytes of a file that are looked at, to tell a batch script."""


@dataclass(frozen=True)
class _Option:
    """An option as it was typed: ``value`` '' with ``equals`` '' when it has none."""

    name: str
    equals: str
    value: str


def own_options() -> tuple[dict[str, Takes], set[str]]:
    """Long options of ``submit`` by what they take, and all names, short ones too, that take no value."""
    from tenure.cli.options import JobOptions, spellings

    longs = {
        "quiet": Takes.NOTHING,
        "json": Takes.NOTHING,
        "dry-run": Takes.NOTHING,
        "plan": Takes.NOTHING,
        "help": Takes.NOTHING,
    }
    for field in fields(JobOptions):
        longs |= {name.removeprefix("--"): takes for name, takes in spellings(field.name).items()}
    flags = {f"--{name}" for name, takes in longs.items() if takes is Takes.NOTHING}
    return longs, flags | {"-q", "-h"}


def translate(arguments: list[str]) -> list[str]:
    """The same command line in this program's own words."""
    at = _command_at(arguments)
    if at is None:
        return arguments
    if (habit := habits.HABITS.get(arguments[at])) is not None:
        return [*arguments[:at], *habits.translate(habit, arguments[at + 1 :])]
    command = COMMANDS.get(arguments[at], arguments[at])
    rest = arguments[at + 1 :]
    if command in _SUBMITTING:
        rest = _submission(rest, by_sbatch=arguments[at] == "sbatch")
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


def _submission(arguments: list[str], *, by_sbatch: bool) -> list[str]:
    """Translate options up to the command that is to run; everything after that is its own."""
    longs, flags = own_options()
    shorts: tuple[str, ...] = _SHORT
    if by_sbatch:
        shorts, flags = tuple(set(_SHORT) - set(_SHORT_CLASHES)), flags - set(_SHORT_CLASHES)
    given, rest = _split(arguments, flags)
    names = {option.name for option in given}
    if by_sbatch and not rest and not names & {"--wrap", "--help", "-h"}:
        rest = ["-"]
    script = "--wrap" in names or bool(rest and _is_script(rest[0], by_sbatch))
    out: list[str] = []
    for option in given:
        out += _one(option, longs, shorts, script=script)
    if script and "--wrap" not in names:
        out.append("--script")
    return out + rest


def _split(arguments: list[str], flags: set[str]) -> tuple[list[_Option], list[str]]:
    """Options in front, and what is left, the command."""
    given: list[_Option] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        name, equals, value = rest.pop(0).partition("=")
        if not equals and _GLUED.fullmatch(name):
            name, equals, value = name[:2], "=", name[2:]
        if not equals and rest and not _alone(name, flags):
            equals, value = " ", rest.pop(0)
        given.append(_Option(name, equals, value))
    return given, rest


def _alone(name: str, flags: set[str]) -> bool:
    """Whether the next word is not its value."""
    if OPTIONS.get(name, name) in flags or name in _SAME:
        return True
    option = _of_sbatch(name)
    return option is not None and name not in OPTIONS and option.takes is not Takes.VALUE


def _of_sbatch(name: str) -> table.Option | None:
    return table.BY_NAME.get(name[2:]) if name.startswith("--") else table.BY_SHORT.get(name[1:])


def _one(option: _Option, longs: dict[str, Takes], shorts: tuple[str, ...], *, script: bool) -> list[str]:
    """One option in our words: ours as it is, sbatch's for a script or without a word of ours as ``--sbatch``."""
    name, value = option.name, option.value
    mine = name.removeprefix("--") in longs if name.startswith("--") else name in shorts
    of_sbatch = _of_sbatch(name)
    known = _SAME.get(name) or OPTIONS.get(name, name)
    if not mine and of_sbatch is not None and name not in _SAME:
        if not script and name == "--gres" and (match := _GRES.fullmatch(value)):
            return ["--gpus", match[1] or "1"]
        if script or name not in OPTIONS:
            return ["--sbatch", f"{of_sbatch.name}={value}" if option.equals else of_sbatch.name]
    if option.equals == "=" and mine:
        return [f"{known}={value}"] if name.startswith("--") else [known, value]
    return [known, value] if option.equals else [known]


_SHORT = ("-b", "-g", "-m", "-e", "-q", "-h")
_SHORT_CLASHES = ("-b", "-m", "-e", "-q")
"""Letters that are something else to sbatch, and mean that after ``tenure sbatch``."""


def _is_script(word: str, by_sbatch: bool) -> bool:
    """Whether the command is a batch script, which is sent with the job. After ``--`` it never is."""
    if word == "-":
        return True
    if word.startswith("-") or ("/" not in word and not by_sbatch and shutil.which(word) is not None):
        return False
    try:
        with Path(word).open("rb") as file:
            head = file.read(_HEAD)
    except (OSError, ValueError):
        return False
    return looks_like_script(head) or (by_sbatch and head.startswith(b"#!"))
