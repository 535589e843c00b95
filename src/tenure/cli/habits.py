"""Options of squeue, sinfo and sacct in the words of ``ls``, ``hosts`` and ``history``.

A word that is not known goes through as it is, for the command to refuse it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.cli import familiar


@dataclass(frozen=True)
class Habit:
    """``command`` with ``first``; ``values`` and ``flags``: options with and without a value, in our words.

    ``nothing``: flags that ask for what is so anyway.
    """

    command: str
    first: tuple[str, ...]
    values: dict[str, str]
    flags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    nothing: frozenset[str] = frozenset()


HABITS = {
    "squeue": Habit(
        "ls",
        ("--slurm",),
        {
            **dict.fromkeys(("-u", "--user", "--users"), "--user"),
            **dict.fromkeys(("-t", "--states", "--state"), "--state"),
            **dict.fromkeys(("-p", "--partition"), "--cluster"),
            **dict.fromkeys(("-A", "--account"), "--budget"),
            **dict.fromkeys(("-j", "--jobs", "--job"), "--job"),
            **dict.fromkeys(("-o", "--format"), "--format"),
        },
        {
            **dict.fromkeys(("-h", "--noheader"), ("--no-header",)),
            **dict.fromkeys(("-l", "--long"), ("--format", familiar.QUEUE_LONG)),
        },
        frozenset({"-a", "--all", "-r", "--array"}),
    ),
    "sinfo": Habit(
        "hosts",
        ("--slurm",),
        {
            **dict.fromkeys(("-p", "--partition"), "--cluster"),
            **dict.fromkeys(("-o", "--format"), "--format"),
        },
        {
            **dict.fromkeys(("-h", "--noheader"), ("--no-header",)),
            **dict.fromkeys(("-N", "--Node"), ("--by-host",)),
            **dict.fromkeys(("-R", "--list-reasons"), ("--out-of-service",)),
        },
        frozenset({"-a", "--all", "-l", "--long", "-e", "--exact"}),
    ),
    "sacct": Habit(
        "history",
        (),
        {
            **dict.fromkeys(("-u", "--user", "--uid"), "--user"),
            **dict.fromkeys(("-s", "--state"), "--state"),
            **dict.fromkeys(("-S", "--starttime"), "--since"),
            **dict.fromkeys(("-r", "--partition"), "--cluster"),
            **dict.fromkeys(("-A", "--account", "--accounts"), "--budget"),
            **dict.fromkeys(("-j", "--jobs", "--job"), "--job"),
            **dict.fromkeys(("-o", "--format"), "--format"),
        },
        {
            **dict.fromkeys(("-a", "--allusers"), ("--everybody",)),
            **dict.fromkeys(("-n", "--noheader"), ("--no-header",)),
            **dict.fromkeys(("-D", "--duplicates"), ("--runs",)),
            **dict.fromkeys(("-P", "--parsable2", "-p", "--parsable"), ("--parsable",)),
        },
        frozenset({"-X", "--allocations"}),
    ),
}
_GLUED = 2
"""``-t`` of ``-tPD``."""


def translate(habit: Habit, arguments: list[str]) -> list[str]:
    """The command line of a habit, from the command on."""
    out = [habit.command, *habit.first]
    left = list(arguments)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("--") and word[:_GLUED] in habit.values and len(word) > _GLUED:
            name, equals, value = word[:_GLUED], "=", word[_GLUED:]
        if name in habit.values:
            out.append(habit.values[name])
            if equals or left:
                out.append(value if equals else left.pop(0))
        elif word in habit.flags:
            out += habit.flags[word]
        elif word not in habit.nothing:
            out.append(word)
    return out
