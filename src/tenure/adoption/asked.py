"""What a held job asks for, in Slurm's words, and what that is for each of its nodes. Pure but for the one question."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tenure.core.reasons import Reason, Refusal
from tenure.executors.slurm import rows
from tenure.scripts import values
from tenure.slurm.commands import Commands

AT_ONCE = 50
"""Of more than so many jobs Slurm is asked for all that wait."""
_FIELDS = (
    *("JobID", "ArrayJobID", "ArrayTaskID", "State", "Name", "Command", "WorkDir", "NumNodes", "NumCPUs", "NumTasks"),
    *("MinMemory", "ntpernode", "tres-alloc", "tres-per-job", "tres-per-node", "tres-per-task", "tres-per-socket"),
    *("TimeLimit", "MinTime", "Feature", "HetJobID", "ReqNodes", "exc_nodes", "Licenses", "Reservation"),
    "oversubscribe",
)
_GPU = re.compile(r"(?:gres[:/])?gpu(?::(?P<kind>[A-Za-z_][\w.-]*))?(?:[:=](?P<count>[0-9]+))?")
_FEATURES = re.compile(r"[\w.-]+(?:&[\w.-]+)*")
_MEMORY = re.compile(r"(?P<amount>[0-9.]+)(?P<unit>[KMGT]?)")
_MIB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}
_CHOSEN = "Tenure chooses the nodes; submit it without"


@dataclass(frozen=True, slots=True)
class Asked:
    """``cpus`` (whole) and ``memory`` (MiB, None: as Tenure sees fit) are of each node, durations in ms.

    ``nodes`` None: as few as the GPUs need. ``gpus``: of each node, or of all of them where ``in_all``.
    """

    name: str
    command: str
    workdir: str
    nodes: int
    gpus: int
    in_all: bool
    kind: str
    cpus_in_all: int
    memory_in_all: int | None
    alone: bool
    timeout: int | None
    time_min: int | None
    features: tuple[str, ...]


def ask(commands: Commands, partition: str, jobs: Sequence[str]) -> dict[str, Mapping[str, str]]:
    """Slurm's words about those of these jobs that wait now, by id. Raises CommandFailed."""
    chosen = ("-j", ",".join(jobs)) if len(jobs) <= AT_ONCE else ("-t", "PD")
    there = ("-p", partition) if partition else ()
    found = {}
    for said in rows.question(commands, _FIELDS, "-a", *there, *chosen):
        task = said["ArrayTaskID"]
        if said["State"] not in rows.PENDING:
            continue  # what is gone through may be older than this
        found[f"{said['ArrayJobID']}_{task}" if task.isdecimal() else said["JobID"]] = said
    return found


def read(said: Mapping[str, str], *, memory_counts: bool, ran_before: bool = False) -> Asked:
    """``memory_counts``: Slurm gives memory out, so a job that does not say gets as much as Slurm's defaults say.
    ``ran_before``: the nodes that it names were chosen by Tenure.

    Raises Refusal for what cannot be kept.
    """
    _refuse({**said, "ReqNodes": ""} if ran_before else said)
    nodes, gpus, in_all, kind = _gpus(said)
    memory = _memory(_tres(said["tres-alloc"]).get("mem", "0"))
    limit = _time(said["TimeLimit"])
    least = _time(said["MinTime"])
    return Asked(
        name=said["Name"],
        command=rows.text(said["Command"]) or rows.text(said["Name"]) or "job",
        workdir=rows.text(said["WorkDir"]),
        nodes=nodes,
        gpus=gpus,
        in_all=in_all,
        kind=kind,
        cpus_in_all=max(1, _number(said["NumCPUs"])),
        memory_in_all=memory if memory_counts or said["MinMemory"] != "0" else None,
        alone=said["oversubscribe"] == "NO",
        timeout=limit,
        time_min=least,
        features=_features(rows.text(said["Feature"])),
    )


def _refuse(said: Mapping[str, str]) -> None:
    for field, option, fix in (
        ("HetJobID", "heterogeneous job", "a job of different parts cannot be held and placed as one; submit one job"),
        ("ReqNodes", "nodelist", f"{_CHOSEN} --nodelist"),
        ("exc_nodes", "exclude", f"{_CHOSEN} --exclude, and tell your operators which node is bad"),
        ("Licenses", "licenses", "Tenure does not count licences, and would keep GPUs for a job that waits for one"),
        ("Reservation", "reservation", "submit it without: who comes when is decided by budgets"),
        ("tres-per-socket", "gpus-per-socket", "sockets are not counted; write --gpus-per-node"),
    ):
        value = rows.text(said[field])
        if value:
            raise Refusal(Reason.BAD_VALUE, option, value, fix)


def _features(said: str) -> tuple[str, ...]:
    if not said:
        return ()
    if not _FEATURES.fullmatch(said):
        raise Refusal(Reason.BAD_VALUE, "constraint", said, "only features joined by & can be kept")
    return tuple(said.split("&"))


def _gpus(said: Mapping[str, str]) -> tuple[int, int, bool, str]:
    """Nodes at least, GPUs, whether these are counted over all nodes, and their type."""
    tasks, on_node = max(1, _number(said["NumTasks"])), _number(said["ntpernode"])
    nodes = max(1, _number(_tres(said["tres-alloc"]).get("node", "1")))
    if on_node:
        nodes = max(nodes, -(-tasks // on_node))
    each = _count(said["tres-per-node"])
    if each is not None:
        return nodes, each[0], False, each[1]
    in_all = _count(said["tres-per-job"])
    for_task = _count(said["tres-per-task"])
    if in_all is not None:
        return nodes, in_all[0], True, in_all[1]
    if for_task is not None:
        return nodes, for_task[0] * tasks, True, for_task[1]
    raise Refusal(Reason.BAD_VALUE, "gpus", "0", "Tenure schedules GPUs: ask for some, or use another partition")


def _count(said: str) -> tuple[int, str] | None:
    for part in rows.text(said).split(","):
        match = _GPU.fullmatch(part)
        if match is not None:
            return int(match["count"] or 1), match["kind"] or ""
    return None


def _tres(said: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in said.split(",") if "=" in part)


def _memory(said: str) -> int:
    match = _MEMORY.fullmatch(said)
    return int(float(match["amount"]) * _MIB[match["unit"]]) if match is not None else 0


def _number(said: str) -> int:
    digits = re.match("[0-9]+", said)
    return int(digits[0]) if digits else 0


def _time(said: str) -> int | None:
    """Milliseconds; None for no limit, or none that can be told."""
    try:
        seconds = values.parse_time(said)
    except ValueError:
        return None
    return seconds * 1000 if seconds else None


def spread(asked: Asked, largest: int) -> tuple[int, int]:
    """Nodes, and GPUs on each, on hosts of at most ``largest`` GPUs. Raises Refusal when they cannot be alike."""
    if not asked.in_all:
        return asked.nodes, asked.gpus
    nodes = max(asked.nodes, -(-asked.gpus // max(1, largest)))
    if asked.gpus % nodes:
        fix = f"on {nodes} nodes each must get as many: ask for a multiple of {nodes}, or write --gpus-per-node"
        raise Refusal(Reason.BAD_VALUE, "gpus", str(asked.gpus), fix)
    return nodes, asked.gpus // nodes
