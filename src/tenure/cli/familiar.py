"""Jobs, hosts and history in the columns of squeue, sinfo and sacct: for people and scripts that know those.

Formats are theirs: ``%.8j`` of squeue and sinfo (a dot sets to the right, the number cuts), ``JobName%20`` of sacct.
What has no meaning here is refused by name.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from tenure import units
from tenure.cli.errors import CliError

if TYPE_CHECKING:
    from tenure.api.models import AttemptView, HostView, JobView

    _OfRun = Callable[[tuple[JobView, AttemptView | None]], str]

QUEUE = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
QUEUE_LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
HOSTS = "%9P %.5a %.10l %.6D %.6t %N"
HOSTS_BY_NAME = "%N %.6D %.9P %6t"
HOSTS_OUT = "%20E %9u %19H %N"
HISTORY = "JobID,JobName,Partition,Account%20,AllocTRES%45,State,ExitCode,Elapsed"

_T = TypeVar("_T")
_NUMBERED = re.compile(r"([^\[\]]*?)(?:\[([0-9-]+)\]|([0-9]+))([^0-9\[\]]*)")
_STATES = {
    "queued": ("PD", "PENDING"),
    "claiming": ("PD", "PENDING"),
    "starting": ("CF", "CONFIGURING"),
    "running": ("R", "RUNNING"),
    "stopping": ("CG", "COMPLETING"),
    "succeeded": ("CD", "COMPLETED"),
    "failed": ("F", "FAILED"),
    "cancelled": ("CA", "CANCELLED"),
    "preempted": ("PR", "PREEMPTED"),
    "timed_out": ("TO", "TIMEOUT"),
}
"""Tenure's states in Slurm's words, short and long."""
_REASONS = {
    "waiting_new": "None",
    "waiting_capacity": "Resources",
    "waiting_whole_hosts": "Resources",
    "waiting_cpu_memory": "Resources",
    "waiting_others": "Resources",
    "waiting_claim": "Resources",
    "waiting_standing": "Priority",
    "waiting_reserved": "Priority",
    "waiting_reservation": "Resources",
    "waiting_host_state": "ReqNodeNotAvail",
    "waiting_labels": "BadConstraints",
    "held_by_person": "JobHeldUser",
    "waiting_dependency": "Dependency",
    "waiting_throttle": "JobArrayTaskLimit",
    "held_no_share": "AssocGrpGRES",
    "backing_off": "BeginTime",
    "paused_starts": "PartitionDown",
}
"""Why a job waits, where Slurm has a word for it; of the others the code."""
_RUN_ENDS = {
    "succeeded": "COMPLETED",
    "failed": "FAILED",
    "not_started": "BOOT_FAIL",
    "cancelled": "CANCELLED",
    "timed_out": "TIMEOUT",
    "host_failed": "NODE_FAIL",
    "executor_lost": "NODE_FAIL",
}


def states(words: Iterable[str]) -> list[str]:
    """Tenure's states for Slurm's and its own: ``R,PD``, ``running``; ``all`` is every one. Raises CliError."""
    found: list[str] = []
    for word in (part.strip() for text in words for part in text.split(",")):
        some = [state for state, known in _STATES.items() if word.upper() in known or word.lower() == state]
        if word.lower() == "all":
            some = list(_STATES)
        if not some:
            known = ", ".join([*_STATES, *dict.fromkeys(short for short, _ in _STATES.values())])
            raise CliError(f"state = {word}: write one of {known}, or all")
        found += [state for state in some if state not in found]
    return found


# ---- one value


def length(ms: int | None) -> str:
    """``1-02:03:04``, ``2:03:04``, ``3:04``, as squeue has it."""
    if ms is None:
        return "0:00"
    seconds = max(0, ms) // 1000
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    if days:
        return f"{days}-{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def full_length(ms: int | None) -> str:
    """``02:03:04``, as sacct has it."""
    seconds = max(0, ms or 0) // 1000
    days, rest = divmod(seconds, 86_400)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


def moment(at: int | None, otherwise: str = "N/A") -> str:
    """``2026-10-09T12:00:05`` in this machine's zone."""
    return otherwise if at is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at / 1000))


def names(hosts: Iterable[str]) -> str:
    """``n[01-03],x7``: ranges of one prefix together, as Slurm writes them."""
    from tenure.config.ranges import fold

    groups: dict[tuple[str, str], list[str]] = {}
    for part in fold(sorted(set(hosts), key=_by_number)):
        match = _NUMBERED.fullmatch(part)
        if match is None:
            groups[part, ""] = []
        else:
            groups.setdefault((match[1], match[4]), []).append(match[2] or match[3])
    found = []
    for (before, after), parts in groups.items():
        inside = ",".join(parts)
        found.append(f"{before}[{inside}]{after}" if "-" in inside or "," in inside else f"{before}{inside}{after}")
    return ",".join(found)


def _by_number(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", name)]


def reason(code: str) -> str:
    """Slurm's word for why a job waits, or Tenure's in its manner: ``WaitingTurn``."""
    return _REASONS.get(code, "".join(part.capitalize() for part in code.split("_")))


def exit_code(code: int | None) -> str:
    """``3:0``, or ``0:9`` for an end by SIGKILL."""
    code = code or 0
    return f"{code}:0" if code >= 0 else f"0:{-code}"


# ---- formats


_COLUMN = re.compile(r"%(\.?)([0-9]*)([A-Za-z])")


def columns(format: str, known: Mapping[str, tuple[str, Callable[[_T], str]]]) -> Callable[[_T | None], str]:
    """A function that makes a line of a record by a format such as ``%.8i %j``, and the heading of None.

    Raises CliError for a letter that is not known, with those that are.
    """
    for match in _COLUMN.finditer(format):
        if match[3] not in known:
            there = ", ".join(f"%{letter} ({title})" for letter, (title, _) in sorted(known.items()))
            raise CliError(f"format = {match[0]}: it has no meaning here; there are: {there}")

    def line(record: _T | None) -> str:
        def cell(match: re.Match[str]) -> str:
            title, value = known[match[3]]
            text = title if record is None else value(record)
            return _fitted(text, int(match[2]) if match[2] else 0, to_the_right=bool(match[1]))

        return _COLUMN.sub(cell, format).rstrip()

    return line


def _fitted(text: str, width: int, *, to_the_right: bool) -> str:
    if not width:
        return text
    return text[:width].rjust(width) if to_the_right else text[:width].ljust(width)


# ---- squeue


def queue_fields(now: int) -> dict[str, tuple[str, Callable[[JobView], str]]]:
    """What squeue's letters are, at ``now`` (ms UTC)."""
    return {
        "i": ("JOBID", lambda job: job.label),
        "A": ("JOBID", lambda job: str(job.id)),
        "F": ("ARRAY_JOB_ID", lambda job: str(job.array_id or job.id)),
        "K": ("ARRAY_TASK_ID", lambda job: "N/A" if job.array_index is None else str(job.array_index)),
        "P": ("PARTITION", _partition),
        "j": ("NAME", lambda job: job.name),
        "u": ("USER", lambda job: job.user),
        "a": ("ACCOUNT", lambda job: job.budget),
        "t": ("ST", lambda job: _STATES[job.state][0]),
        "T": ("STATE", lambda job: _STATES[job.state][1]),
        "M": ("TIME", lambda job: length(_ran(job.attempt, now))),
        "l": ("TIME_LIMIT", lambda job: "UNLIMITED" if job.timeout_ms is None else length(job.timeout_ms)),
        "L": ("TIME_LEFT", lambda job: _left(job, now)),
        "D": ("NODES", lambda job: str(len(job.attempt.hosts) if job.attempt else job.replicas)),
        "C": ("CPUS", lambda job: str(_cpus(job.attempt))),
        "N": ("NODELIST", lambda job: names(job.attempt.hosts) if job.attempt else ""),
        "R": ("NODELIST(REASON)", _where),
        "r": ("REASON", lambda job: reason(job.reason.code) if _STATES[job.state][0] == "PD" else "None"),
        "b": ("TRES_PER_NODE", lambda job: f"gres:gpu:{job.gpus // max(1, job.replicas)}" if job.gpus else "N/A"),
        "Q": ("PRIORITY", lambda job: str(job.priority)),
        "p": ("PRIORITY", lambda job: str(job.priority)),
        "V": ("SUBMIT_TIME", lambda job: moment(job.submitted_at)),
        "S": ("START_TIME", lambda job: moment(job.attempt.started_at if job.attempt else _expected(job))),
        "k": ("COMMENT", lambda job: f"min_runtime={units.format_duration(job.min_runtime_ms)}"),
    }


def in_queue_order(jobs: Iterable[JobView]) -> list[JobView]:
    """By partition, what waits first, then by id."""
    order = list(dict.fromkeys(short for short, _ in _STATES.values()))
    return sorted(jobs, key=lambda job: (_partition(job), order.index(_STATES[job.state][0]), job.id))


def _partition(job: JobView) -> str:
    return job.cluster if job.attempt is not None or job.ended else ",".join(job.clusters) or job.cluster


def _ran(run: AttemptView | None, now: int) -> int | None:
    return None if run is None or run.started_at is None else (run.ended_at or now) - run.started_at


def _left(job: JobView, now: int) -> str:
    if job.timeout_ms is None:
        return "UNLIMITED"
    return length(job.timeout_ms - (_ran(job.attempt, now) or 0))


def _expected(job: JobView) -> int | None:
    return job.reservation.starts_by if job.reservation is not None else None


def _cpus(run: AttemptView | None) -> int:
    return round(sum(slot.cpus for slot in run.slots)) if run is not None else 0


def _where(job: JobView) -> str:
    if _STATES[job.state][0] == "PD":
        return f"({reason(job.reason.code)})"
    return names(job.attempt.hosts) if job.attempt is not None else ""


# ---- sinfo


def host_state(host: HostView) -> tuple[str, str]:
    """A host's state in sinfo's words, short and long."""
    if host.state == "draining":
        return ("drng", "draining") if host.attempts else ("drain", "drained")
    if host.state == "failed":
        return "down", "down"
    if host.state != "healthy":
        return "maint", "maint"
    if host.free_gpus == host.gpus and not host.attempts and not host.others_gpus:
        return "idle", "idle"
    return ("mix", "mixed") if host.free_gpus else ("alloc", "allocated")


def host_fields(paused: bool) -> dict[str, tuple[str, Callable[[Sequence[HostView]], str]]]:
    """What sinfo's letters are, of hosts that are shown in one line. ``paused``: nothing starts."""
    return {
        "P": ("PARTITION", lambda hosts: hosts[0].cluster),
        "R": ("PARTITION", lambda hosts: hosts[0].cluster),
        "a": ("AVAIL", lambda hosts: "down" if paused else "up"),
        "l": ("TIMELIMIT", lambda hosts: "infinite"),
        "D": ("NODES", lambda hosts: str(len(hosts))),
        "t": ("STATE", lambda hosts: host_state(hosts[0])[0]),
        "T": ("STATE", lambda hosts: host_state(hosts[0])[1]),
        "N": ("NODELIST", lambda hosts: names(host.name for host in hosts)),
        "n": ("HOSTNAMES", lambda hosts: hosts[0].name),
        "G": ("GRES", lambda hosts: f"gpu:{hosts[0].gpus}"),
        "c": ("CPUS", lambda hosts: f"{hosts[0].cpus:g}"),
        "m": ("MEMORY", lambda hosts: str(hosts[0].memory_mib)),
        "E": ("REASON", lambda hosts: hosts[0].why or "none"),
        "u": ("USER", lambda hosts: hosts[0].by or "Unknown"),
        "H": ("TIMESTAMP", lambda hosts: moment(hosts[0].since, "Unknown")),
    }


def host_groups(hosts: Iterable[HostView], format: str, *, one_by_one: bool = False) -> list[list[HostView]]:
    """Hosts that differ in nothing that the format shows, in declared order of clusters and the order of states."""
    known = host_fields(paused=False)
    letters = [match[3] for match in _COLUMN.finditer(format) if match[3] in known and match[3] not in "DN"]
    groups: dict[tuple[str, ...], list[HostView]] = {}
    for host in hosts:
        key = (host.cluster, *(known[letter][1]([host]) for letter in letters), host.name if one_by_one else "")
        groups.setdefault(key, []).append(host)
    return list(groups.values())


# ---- sacct


def history_fields(now: int) -> dict[str, tuple[str, _OfRun]]:
    """What sacct's fields are, by their names in lower case: of a job and one of its runs."""
    found: dict[str, Callable[[JobView, AttemptView | None], str]] = {
        "JobID": lambda job, run: job.label,
        "JobIDRaw": lambda job, run: str(job.id),
        "JobName": lambda job, run: job.name,
        "Partition": lambda job, run: run.cluster if run else job.cluster,
        "Account": lambda job, run: job.budget,
        "User": lambda job, run: job.user,
        "AllocTRES": lambda job, run: _tres(run),
        "AllocCPUS": lambda job, run: str(_cpus(run)),
        "AllocNodes": lambda job, run: str(len(run.hosts) if run else 0),
        "NNodes": lambda job, run: str(len(run.hosts) if run else job.replicas),
        "NodeList": lambda job, run: names(run.hosts) if run else "None assigned",
        "State": _end,
        "ExitCode": lambda job, run: exit_code(job.exit_code if run is None or not run.exit_codes else _worst(run)),
        "Elapsed": lambda job, run: full_length(_ran(run, now)),
        "ElapsedRaw": lambda job, run: str((_ran(run, now) or 0) // 1000),
        "Submit": lambda job, run: moment(job.submitted_at),
        "Start": lambda job, run: moment(run.started_at if run else None, "Unknown"),
        "End": lambda job, run: moment(run.ended_at if run else job.ended_at, "Unknown"),
        "Timelimit": lambda job, run: "UNLIMITED" if job.timeout_ms is None else full_length(job.timeout_ms),
        "Priority": lambda job, run: str(job.priority),
        "Reason": lambda job, run: (run.reason if run is not None and run.reason is not None else job.reason).code,
        "Restarts": lambda job, run: str(job.restarts),
    }
    return {title.lower(): (title, _of_pair(value)) for title, value in found.items()}


def _of_pair(value: Callable[[JobView, AttemptView | None], str]) -> _OfRun:
    return lambda pair: value(*pair)


def history_columns(format: str, now: int) -> list[tuple[str, int, _OfRun]]:
    """Title, width (negative: to the left) and value of each field in ``JobID,JobName%20``. Raises CliError."""
    known, found = history_fields(now), []
    for word in format.split(","):
        name, _, width = word.strip().partition("%")
        if name.lower() not in known or not re.fullmatch("-?[0-9]{0,4}", width):
            there = ", ".join(title for title, _ in known.values())
            raise CliError(f"format = {word.strip()}: it has no meaning here; there are: {there}")
        title, value = known[name.lower()]
        found.append((title, int(width) if width.strip("-") else 19 if title in _MOMENTS else 10, value))
    return found


_MOMENTS = ("Submit", "Start", "End")


def history_lines(
    rows: Iterable[tuple[JobView, AttemptView | None]], format: str, now: int, *, parsable: bool, heading: bool
) -> list[str]:
    """The lines of sacct; ``parsable``: between bars, and nothing is cut."""
    shown = history_columns(format, now)
    if parsable:
        lines = ["|".join(value(row) for _, _, value in shown) for row in rows]
        return ["|".join(title for title, _, _ in shown), *lines] if heading else lines
    lines = [" ".join(_cut(value(row), width) for _, width, value in shown).rstrip() for row in rows]
    titles = " ".join(_cut(title, width) for title, width, _ in shown).rstrip()
    rule = " ".join("-" * abs(width) for _, width, _ in shown)
    return [titles, rule, *lines] if heading else lines


def _cut(text: str, width: int) -> str:
    """As sacct does: a plus where something was cut off."""
    size = abs(width)
    text = f"{text[: size - 1]}+" if len(text) > size else text
    return text.ljust(size) if width < 0 else text.rjust(size)


def _tres(run: AttemptView | None) -> str:
    if run is None or not run.slots:
        return ""
    gpus, mem = sum(len(slot.gpus) for slot in run.slots), sum(slot.memory_mib for slot in run.slots)
    parts = {"billing": f"{run.charge_rate:g}" if run.charged else "0", "cpu": str(_cpus(run))}
    parts |= {"gres/gpu": str(gpus)} if gpus else {}
    parts |= {"mem": units.format_memory(mem)} if mem else {}
    return ",".join(f"{key}={value}" for key, value in {**parts, "node": str(len(run.hosts))}.items())


def _end(job: JobView, run: AttemptView | None) -> str:
    if run is None or run.ended_at is None:
        return _STATES[job.state][1]
    code = run.reason.code if run.reason is not None else ""
    return "PREEMPTED" if code.startswith("evicted_") else _RUN_ENDS.get(code, _STATES[job.state][1])


def _worst(run: AttemptView) -> int:
    """The exit code of the replica that failed first in order, as for the job."""
    return next((code for code in run.exit_codes if code), 0)
