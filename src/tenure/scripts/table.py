"""Every option of sbatch, from 22.05 to 26.05, and what becomes of it here. docs/sbatch.md is made from this table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum


class Fate(StrEnum):
    """What becomes of an option."""

    HONOURED = "honoured"
    MAPPED = "mapped"
    IGNORED = "ignored"
    REFUSED = "refused"


class Takes(StrEnum):
    """Whether an option has a value. MAYBE: only as ``--name=value``."""

    NOTHING = ""
    VALUE = "="
    MAYBE = "[=]"


@dataclass(frozen=True, slots=True)
class Option:
    """``text``: what it becomes, or why it has no effect, or why it is refused and what to do instead.

    ``newer``: 22.05 does not have it. ``aliases``: other names of the same.
    """

    name: str
    short: str
    takes: Takes
    fate: Fate
    text: str
    newer: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        names = [f"-{self.short}"] if self.short else []
        return ", ".join([*names, f"--{self.name}", *(f"--{other}" for other in self.aliases)])


_H, _M, _I, _R = Fate.HONOURED, Fate.MAPPED, Fate.IGNORED, Fate.REFUSED
_NO, _VALUE, _MAYBE = Takes.NOTHING, Takes.VALUE, Takes.MAYBE

_BINDING = "CPUs are not bound to tasks here"
_SITE = "a matter of the site's Slurm"
_SHAPE = "hosts are described by their GPUs, CPUs and memory only"
_CHOSEN = "the scheduler chooses the hosts, so that its promises hold; ask for a label with --constraint or `--require`"
_SEGMENTS = "the cluster's `gang_label` keeps gangs together; `--require rack` makes it a condition"
_USER = "jobs run as the user who submits them"
_TASKS = "write --ntasks or --ntasks-per-node, and --gpus-per-task or --gpus-per-node"
_CONTAINER = "there are no containers of the scheduler's own; start one in the script (`apptainer exec --nv`)"

OPTIONS = (
    Option("account", "A", _VALUE, _M, "`--budget`, where it names one: its path, or the last part of just one path"),
    Option("acctg-freq", "", _VALUE, _I, _SITE),
    Option("array", "a", _VALUE, _H, "`--array`: a job for each index, at most 10000; `%N`: at most N at a time"),
    Option("batch", "", _VALUE, _I, "the script runs on the first host, and all hosts of a job fulfil its constraints"),
    Option("bb", "", _VALUE, _R, "there are no burst buffers; copy files in the script"),
    Option("bbf", "", _VALUE, _R, "there are no burst buffers; copy files in the script"),
    Option("begin", "b", _VALUE, _R, "no start can be put off to a time; use --hold, and `tenure release` then"),
    Option("chdir", "D", _VALUE, _H, "`--workdir`"),
    Option("cluster-constraint", "", _VALUE, _R, "clusters have no features; name clusters with --partition"),
    Option(
        *("clusters", "M", _VALUE, _R, "jobs of other Slurm clusters are not reached from here; write --partition"),
        aliases=("cluster",),
    ),
    Option("comment", "", _VALUE, _I, "jobs have no comment; --job-name shows in every listing"),
    Option("consolidate-segments", "", _NO, _I, _SEGMENTS, newer=True),
    Option(
        "constraint", "C", _VALUE, _M, "`--require KEY=VALUE`; a feature alone is the value of one host label; `&`: all"
    ),
    Option("container", "", _VALUE, _R, _CONTAINER),
    Option("container-id", "", _VALUE, _R, _CONTAINER, newer=True),
    Option("container-type", "", _VALUE, _R, _CONTAINER, newer=True),
    Option("context", "", _VALUE, _R, "processes have no SELinux context of their own; ask who runs the cluster"),
    Option("contiguous", "", _NO, _I, _SEGMENTS),
    Option("core-spec", "S", _VALUE, _I, "no cores are set aside for the system inside a job"),
    Option("cores-per-socket", "", _VALUE, _I, _SHAPE),
    Option("cpu-freq", "", _VALUE, _I, "frequencies are left as they are"),
    Option("cpus-per-gpu", "", _VALUE, _M, "`--cpus`: times the GPUs of a host"),
    Option("cpus-per-task", "c", _VALUE, _M, "`--cpus`: times the tasks of a host"),
    Option(
        "deadline",
        "",
        _VALUE,
        _R,
        "no job is removed because it is late; use `tenure cancel`, or --time for its length",
    ),
    Option("delay-boot", "", _VALUE, _I, "no host is booted for a job"),
    Option(
        *("dependency", "d", _VALUE, _M),
        "`afterok` is `--after-ok`, `afterany` is `--after-any`; with `,` all have to hold. Refused: `?`, delays, "
        "`after`, `afternotok`, `aftercorr`, `afterburstbuffer`, `singleton`",
    ),
    Option("distribution", "m", _VALUE, _I, _BINDING),
    Option("error", "e", _VALUE, _H, "stderr goes to this file, with the patterns of sbatch"),
    Option("exclude", "x", _VALUE, _R, _CHOSEN),
    Option(
        "exclusive",
        "",
        _MAYBE,
        _I,
        "GPUs, CPUs and memory are the job's own; take all GPUs of a host to be alone there",
    ),
    Option("export", "", _VALUE, _H, "`--env` and `--clean-env`; left out, what `tenure submit` always passes"),
    Option("export-file", "", _VALUE, _R, "variables are not read from files; write --export=NAME,NAME=VALUE"),
    Option("extra", "", _VALUE, _I, "jobs have no notes for a node filter", newer=True),
    Option("extra-node-info", "B", _VALUE, _I, _SHAPE),
    Option("get-user-env", "", _MAYBE, _I, "no login shell is run for you; begin the script with `#!/bin/bash -l`"),
    Option("gid", "", _VALUE, _R, _USER),
    Option("gpu-bind", "", _VALUE, _I, "all tasks of a host see its GPUs, or their own ones with --gpus-per-task"),
    Option("gpu-freq", "", _VALUE, _I, "frequencies are left as they are"),
    Option("gpus", "G", _VALUE, _M, "`--gpus`: divided by the nodes, since there it counts for each replica"),
    Option(
        "gpus-per-node", "", _VALUE, _M, "`--gpus`; a type in front of the number is a feature, as for --constraint"
    ),
    Option("gpus-per-socket", "", _VALUE, _R, "sockets are not counted; write --gpus-per-node"),
    Option("gpus-per-task", "", _VALUE, _M, "`--gpus`: times the tasks of a host"),
    Option("gres", "", _VALUE, _M, "`gpu:N` and `gpu:TYPE:N` are --gpus-per-node; any other resource is refused"),
    Option("gres-flags", "", _VALUE, _I, _BINDING),
    Option("help", "h", _NO, _R, "a line of a script cannot ask for help; `tenure submit --help` does"),
    Option("hint", "", _VALUE, _I, _BINDING),
    Option("hold", "H", _NO, _H, "`--hold`"),
    Option("ignore-pbs", "", _NO, _H, "#PBS and #BSUB lines are never read"),
    Option("input", "i", _VALUE, _H, "stdin comes from this file, with the patterns of sbatch"),
    Option("job-name", "J", _VALUE, _H, "`--name`; left out, the script's name"),
    Option(
        "kill-on-invalid-dep",
        "",
        _VALUE,
        _I,
        "what waits for a success that cannot come any more is cancelled, as with `yes`",
    ),
    Option("licenses", "L", _VALUE, _R, "licences are not counted; let the script wait for one"),
    Option("mail-type", "", _VALUE, _I, "no mail is sent; `tenure wait JOB` comes back when it has ended"),
    Option("mail-user", "", _VALUE, _I, "no mail is sent; `tenure wait JOB` comes back when it has ended"),
    Option("mcs-label", "", _VALUE, _I, _SITE),
    Option("mem", "", _VALUE, _M, "`--mem` of each host; 0 is left out: the GPUs' part of a host"),
    Option("mem-bind", "", _VALUE, _I, _BINDING),
    Option("mem-per-cpu", "", _VALUE, _M, "`--mem`: times the CPUs of a host; without --cpus-per-task one a task"),
    Option("mem-per-gpu", "", _VALUE, _M, "`--mem`: times the GPUs of a host"),
    Option(
        "mem-update",
        "",
        _VALUE,
        _R,
        "memory does not change while a job runs; ask for the most it needs",
        newer=True,
    ),
    Option("mincpus", "", _VALUE, _M, "`--cpus`: at least so many"),
    Option("network", "", _VALUE, _I, _SITE),
    Option("nice", "", _MAYBE, _M, "`--priority`, turned round: inside your budget only; without a value 100"),
    Option("no-kill", "k", _MAYBE, _I, "a gang starts and ends whole; what is resumable goes back to the queue"),
    Option("no-requeue", "", _NO, _M, "`--no-resumable`"),
    Option("nodefile", "F", _VALUE, _R, _CHOSEN),
    Option("nodelist", "w", _VALUE, _R, _CHOSEN),
    Option("nodes", "N", _VALUE, _M, "`--replicas`: hosts; of a range the smaller number"),
    Option(
        "ntasks", "n", _VALUE, _M, "counts what a host is given: tasks share hosts evenly, one host without --nodes"
    ),
    Option("ntasks-per-core", "", _VALUE, _I, _BINDING),
    Option("ntasks-per-gpu", "", _VALUE, _R, _TASKS, aliases=("ntasks-per-tres",)),
    Option("ntasks-per-node", "", _VALUE, _M, "counts what a host is given, as --ntasks", aliases=("tasks-per-node",)),
    Option("ntasks-per-socket", "", _VALUE, _I, _BINDING),
    Option("oom-kill-step", "", _MAYBE, _I, "a replica that runs out of memory ends its gang", newer=True),
    Option(
        "open-mode", "", _VALUE, _H, "without it a first attempt empties the file of --output, and later ones append"
    ),
    Option("output", "o", _VALUE, _H, "stdout goes to this file, with the patterns of sbatch; left out: `tenure logs`"),
    Option("overcommit", "O", _NO, _I, _BINDING),
    Option("oversubscribe", "s", _NO, _I, "GPUs are never shared between jobs; hosts always"),
    Option("parsable", "", _NO, _M, "`--quiet`: the job's number alone"),
    Option("partition", "p", _VALUE, _M, "`--cluster`: accepted ones, the best first"),
    Option("power", "", _VALUE, _I, _SITE),
    Option("prefer", "", _VALUE, _M, "`--prefer KEY=VALUE`, as --constraint"),
    Option("priority", "", _VALUE, _M, "`--priority`: it orders jobs inside your budget only"),
    Option("profile", "", _VALUE, _I, _SITE),
    Option("propagate", "", _MAYBE, _I, "jobs have the limits of the service that starts them"),
    Option("qos", "q", _VALUE, _I, "there are no classes of service; `--min-runtime` says how long a job is protected"),
    Option("quiet", "Q", _NO, _I, "`tenure submit` has `--quiet` for the job's number alone"),
    Option("reboot", "", _NO, _I, "no host is booted for a job"),
    Option("requeue", "", _MAYBE, _M, "`--resumable`"),
    Option(
        "reservation", "", _VALUE, _R, "nobody sets hosts aside by hand; the scheduler reserves them for jobs in turn"
    ),
    Option(
        "resources",
        "",
        _VALUE,
        _R,
        "resources of a mode are not known here; write --gres, --cpus-per-task and --mem",
        newer=True,
    ),
    Option("resv-ports", "", _MAYBE, _I, "`MASTER_PORT` is a free port of the job's own", newer=True),
    Option("segment", "", _VALUE, _I, _SEGMENTS, newer=True),
    Option(
        "signal", "", _VALUE, _M, "`--warn-signal` and `--grace`, for every end against its will, the time limit too"
    ),
    Option("sockets-per-node", "", _VALUE, _I, _SHAPE),
    Option("spread-job", "", _NO, _I, _SEGMENTS),
    Option("spread-segments", "", _NO, _I, _SEGMENTS, newer=True),
    Option("stepmgr", "", _NO, _I, _SITE, newer=True),
    Option("switches", "", _VALUE, _I, _SEGMENTS),
    Option("test-only", "", _NO, _M, "`--dry-run`"),
    Option("thread-spec", "", _VALUE, _I, "no cores are set aside for the system inside a job"),
    Option("threads-per-core", "", _VALUE, _I, _SHAPE),
    Option(
        "time", "t", _VALUE, _M, "`--timeout`, of each attempt; minutes where no unit can be told, rounded up to them"
    ),
    Option("time-min", "", _VALUE, _M, "`--min-runtime`: protected for so long, and charged"),
    Option("tmp", "", _VALUE, _R, "local disks are not counted; ask for hosts that have one with --constraint"),
    Option("tres-bind", "", _VALUE, _I, _BINDING, newer=True),
    Option("tres-per-task", "", _VALUE, _R, "write --cpus-per-task and --gpus-per-task", newer=True),
    Option("uid", "", _VALUE, _R, _USER),
    Option("usage", "", _NO, _R, "a line of a script cannot ask for help; `tenure submit --help` does"),
    Option("use-min-nodes", "", _NO, _H, "of a range of nodes the smaller number is always taken"),
    Option("verbose", "v", _NO, _I, "`--dry-run` shows what each line became"),
    Option("version", "V", _NO, _R, "a line of a script cannot ask for the version; `tenure --version` does"),
    Option("wait", "W", _NO, _R, "use `tenure run` instead of `tenure submit`, or `tenure wait JOB`"),
    Option("wait-all-nodes", "", _VALUE, _I, "a gang starts whole or not at all"),
    Option("wckey", "", _VALUE, _I, "budgets say whose time it is"),
    Option("wrap", "", _VALUE, _H, "the words as a script of `/bin/sh`; on the command line only, as for sbatch"),
)

BY_NAME = {name: option for option in OPTIONS for name in (option.name, *option.aliases)}
BY_SHORT = {option.short: option for option in OPTIONS if option.short}


def find(name: str) -> Option | None:
    """The option of this long name, or of the only one that begins so, as getopt finds it."""
    if name in BY_NAME:
        return BY_NAME[name]
    longer = {BY_NAME[full].name for full in BY_NAME if full.startswith(name)} if name else set()
    return BY_NAME[longer.pop()] if len(longer) == 1 else None


def suggestion(name: str, others: Iterable[str] = ()) -> str:
    """What to write instead of a long name that is not known; ``others`` are names of `tenure submit`."""
    if name in others:
        return f"sbatch has no such option, but `tenure submit` has: write it on a line of its own, #TENURE --{name}"
    close = closest(name, BY_NAME)
    if close:
        return f"sbatch has no such option; did you mean {close}?"
    return "sbatch has no such option; docs/sbatch.md lists all of them"


def closest(name: str, names: Iterable[str]) -> str:
    """Those of ``names`` that ``name`` begins, else those that look like it, as ``--a or --b``; '' for none."""
    known = list(names)
    longer = sorted(full for full in known if name and full.startswith(name))
    return " or ".join(f"--{one}" for one in (longer or get_close_matches(name, known, n=3))[:4])


def document() -> str:
    """The table as Markdown rows, for docs/sbatch.md."""
    rows = ["| option | | what becomes of it |", "|---|---|---|"]
    for option in OPTIONS:
        newer = " (newer than 22.05)" if option.newer else ""
        text = option.text.replace("|", "\\|")
        rows.append(f"| `{option.shown.replace(', ', '`, `')}` | {option.fate}{newer} | {text} |")
    return "\n".join(rows) + "\n"
