"""Values of sbatch as it reads them: times, memory, numbers, GPUs, signals, variables. All raise ValueError."""

from __future__ import annotations

import re
from dataclasses import dataclass

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
_TIME = re.compile(
    r"(?:([0-9]{1,9})-([0-9]{1,9})?(?::([0-9]{1,9})(?::([0-9]{1,9}))?)?)|([0-9]{1,9}(?::[0-9]{1,9}){0,2})"
)
_TIME_FIX = "write minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or days-hours:m:s"
_UNLIMITED = ("unlimited", "infinite", "-1")
_MEMORY = re.compile(r"([0-9]{1,15})(?:([kmgt])b?)?", re.IGNORECASE)
_MEMORY_MIB = {"m": 1, "g": 1024, "t": 1024 * 1024}
_COUNT = re.compile(r"\+?([0-9]{1,9})")
_NODES = re.compile(r"\+?([0-9]{1,9})([km]?)(?:-([0-9]{1,9})([km]?))?", re.IGNORECASE)
_THOUSANDS = {"": 1, "k": 1024, "m": 1024 * 1024}
_GPUS = re.compile(r"(?:([A-Za-z_][A-Za-z0-9_.-]*)(?::|$))?([0-9]{1,6})?")
_SIGNAL = re.compile(r"(?:([RBrb]{1,2}):)?([A-Za-z0-9]+)(?:@([0-9]{1,5}))?")
SIGNALS = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 10: "SIGUSR1", 12: "SIGUSR2", 14: "SIGALRM", 15: "SIGTERM"}
"""Warnings that a job may choose, by number."""


def parse_time(text: str) -> int | None:
    """Seconds, in whole minutes as sbatch rounds them up; None: no limit."""
    if text.lower() in _UNLIMITED:
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(_TIME_FIX + (_unit_hint(text) or ""))
    days, hours, minutes, seconds, plain = match.groups()
    if plain is None:
        total = int(days) * DAY_S + int(hours or 0) * HOUR_S + int(minutes or 0) * MINUTE_S + int(seconds or 0)
    else:
        parts = [int(part) for part in plain.split(":")]
        hours_at = len(parts) == 3
        total = (parts[0] * HOUR_S if hours_at else 0) + parts[hours_at] * MINUTE_S
        total += parts[-1] if len(parts) > 1 else 0
    return -(-total // MINUTE_S) * MINUTE_S or None


def _unit_hint(text: str) -> str:
    return "; #TENURE --timeout=2h takes units" if re.fullmatch(r"(?:[0-9.]+\s*[a-z]+\s*)+", text.lower()) else ""


def format_time(seconds: int | None) -> str:
    """The way sbatch shows a limit: ``1-02:03:00``. Parses back."""
    if seconds is None:
        return "UNLIMITED"
    days, rest = divmod(seconds, DAY_S)
    clock = f"{rest // HOUR_S:02}:{rest % HOUR_S // MINUTE_S:02}:{rest % MINUTE_S:02}"
    return f"{days}-{clock}" if days else clock


def parse_memory(text: str) -> int:
    """MiB; a number alone counts MiB, K is rounded up."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        hint = f"; {text[:-2]}{text[-2]} perhaps" if re.fullmatch(r"[0-9]+[kmgtKMGT]i", text) else ""
        raise ValueError(f"write a whole number with K, M, G or T, like 64G; without a letter it is MiB{hint}")
    number, unit = int(match[1]), (match[2] or "m").lower()
    return -(-number // 1024) if unit == "k" else number * _MEMORY_MIB[unit]


def parse_count(text: str, *, least: int = 1) -> int:
    """A whole number of at least ``least``."""
    match = _COUNT.fullmatch(text)
    if match is None or int(match[1]) < least:
        raise ValueError(f"write a whole number of at least {least}")
    return int(match[1])


def parse_nodes(text: str) -> int:
    """The least number of nodes in ``4``, ``2-4`` or ``1k``."""
    match = _NODES.fullmatch(text)
    if match is None:
        raise ValueError("write a number of nodes, like 4, or the least and the most, like 2-4")
    least = int(match[1]) * _THOUSANDS[match[2].lower()]
    most = least if match[3] is None else int(match[3]) * _THOUSANDS[match[4].lower()]
    if least < 1 or most < least:
        raise ValueError("write at least 1 node, and the smaller number first, like 2-4")
    return least


@dataclass(frozen=True, slots=True)
class Gpus:
    """How many, and of which type if that was said."""

    number: int
    kind: str = ""


def parse_gpus(text: str) -> Gpus:
    """``8``, ``a100:8`` or ``a100`` (one)."""
    match = _GPUS.fullmatch(text)
    if match is None or text == "" or text.endswith(":"):
        raise ValueError("write a number of GPUs, like 8, or a type and a number, like a100:8")
    return Gpus(int(match[2]) if match[2] is not None else 1, match[1] or "")


def parse_gres(text: str) -> Gpus:
    """``gpu``, ``gpu:8``, ``gpu:a100:8`` and ``gres/gpu:8``; no other resource."""
    entries = [entry.removeprefix("gres/").removeprefix("gres:") for entry in text.split(",")]
    found: list[Gpus] = []
    for entry in entries:
        name, _, rest = entry.partition("(")[0].replace("=", ":").partition(":")
        if entry.lower() == "none":
            found.append(Gpus(0))
        elif name != "gpu":
            raise ValueError("GPUs are the only resource that is counted: write gpu:N, and take the rest out")
        else:
            found.append(parse_gpus(rest) if rest else Gpus(1))
    if len(found) > 1:
        raise ValueError("name GPUs once: a cluster has one type of them")
    return found[0]


def parse_signal(text: str) -> tuple[str, int | None]:
    """Name and seconds before the end (None: not said) of ``[[R][B]:]SIGNAL[@SECONDS]``."""
    match = _SIGNAL.fullmatch(text)
    name = ""
    if match is not None and match[2].isdigit():
        name = SIGNALS.get(int(match[2][:4]), "")
    elif match is not None:
        name = "SIG" + match[2].upper().removeprefix("SIG")
    if match is None or name not in SIGNALS.values():
        known = ", ".join(sorted(one.removeprefix("SIG") for one in SIGNALS.values()))
        raise ValueError(f"write SIGNAL or SIGNAL@SECONDS, like B:USR1@120; the signals are {known}")
    return name, int(match[3]) if match[3] else None


@dataclass(frozen=True, slots=True)
class Export:
    """What a job's environment gets: ``everything`` of the shell, ``names`` of it, and ``values``."""

    everything: bool
    names: tuple[str, ...] = ()
    values: tuple[tuple[str, str], ...] = ()


def parse_export(text: str) -> Export:
    """``ALL``, ``NONE``, ``NIL``, or names and NAME=VALUE between commas; quotes keep commas together."""
    everything, names, values = False, [], []
    for part in _between_commas(text):
        name, equals, value = part.partition("=")
        if part in ("ALL", "NONE", "NIL"):
            everything = everything or part == "ALL"
        elif not name or not (equals or name.isidentifier()):
            raise ValueError("write ALL, NONE, or names like ALL,DEBUG=1,DATA")
        elif equals:
            values.append((name, value))
        else:
            names.append(name)
    return Export(everything, tuple(names), tuple(values))


def _between_commas(text: str) -> list[str]:
    parts, quote = [""], ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
            parts[-1] += "" if not quote else character
        elif character in "\"'":
            quote = character
        elif character == ",":
            parts.append("")
        else:
            parts[-1] += character
    return parts


_DEPENDENCY = re.compile(r"([a-z]+)((?::[0-9]{1,19}(?:_(?:[0-9]{1,9}|\*))?(?:\+[0-9]+)?)+)")
_DEPENDENCY_FIX = "write afterok:JOB or afterany:JOB, with more jobs behind further colons, and commas in between"
_OTHER_DEPENDENCIES = {
    "after": "the start of a job cannot be waited for; write afterany:JOB to wait for its end",
    "afternotok": "a failure cannot be waited for; write afterany:JOB and look at `tenure wait JOB` in the script",
    "aftercorr": "jobs of an array wait for all of another one: write afterok:JOB, or submit the jobs one by one",
    "afterburstbuffer": "there are no burst buffers; write afterok:JOB",
    "singleton": "names of jobs mean nothing here; write afterany:JOB with the number of the one before",
}


def parse_dependency(text: str) -> tuple[list[str], list[str]]:
    """Jobs that have to succeed and jobs that have to end, in ``afterok:12:13,afterany:14_3``."""
    ok: list[str] = []
    any_way: list[str] = []
    if "?" in text:
        raise ValueError("all conditions have to hold here, so none can be an alternative: write , instead of ?")
    for part in text.split(","):
        kind = part.partition(":")[0]
        if kind in _OTHER_DEPENDENCIES:
            raise ValueError(_OTHER_DEPENDENCIES[kind])
        match = _DEPENDENCY.fullmatch(part)
        if match is None or kind not in ("afterok", "afterany"):
            raise ValueError(_DEPENDENCY_FIX)
        if "+" in part:
            raise ValueError("a delay after the end cannot be had; write the job's number alone")
        jobs = [job.removesuffix("_*") for job in match[2][1:].split(":")]
        (ok if kind == "afterok" else any_way).extend(jobs)
    return ok, any_way


_FILE_LETTERS = "AajJNnstuxb%"
_MAX_WIDTH = 10


def check_file(text: str) -> str:
    """A file name with the patterns that are known when it is opened; without any after a backslash."""
    if not text or "\n" in text:
        raise ValueError("write the name of a file")
    if "\\" in text:
        return text.replace("\\", "").replace("%", "%%")
    rest = text
    while "%" in rest:
        rest = rest.partition("%")[2]
        match = re.match(r"[0-9]{0,2}(.?)", rest)
        letter = match[1] if match else ""
        if not letter or letter not in _FILE_LETTERS:
            raise ValueError(
                f"there is no pattern %{letter}; there are " + " ".join(f"%{one}" for one in _FILE_LETTERS)
            )
        if int("0" + rest[: match.start(1)] if match else "0") > _MAX_WIDTH:
            raise ValueError(f"a number has at most {_MAX_WIDTH} digits, as in %{_MAX_WIDTH}j")
        rest = rest[match.end() :] if match else ""
    return text
