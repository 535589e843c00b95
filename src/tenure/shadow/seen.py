"""What Slurm says of its jobs: one ``squeue`` for all of them, and ``sacct`` for those of days gone by.

Times are seconds since 1970, 0 where Slurm names none. Nothing here asks for anything to be changed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from tenure.slurm.commands import Commands
from tenure.slurm.reading import read_gres
from tenure.slurm.tres import read_gpus

SOMEWHERE = "?"
"""In place of hosts, where nobody knows on which a job ran."""
_BETWEEN = "\x1f"
_QUEUE = (
    "JobArrayID",
    "UserName",
    "Account",
    "Partition",
    "State",
    "Reason",
    "SubmitTime",
    "EligibleTime",
    "StartTime",
    "EndTime",
    "TimeLimit",
    "MinTime",
    "NumNodes",
    "tres-alloc",
    "tres-per-node",
    "tres-per-job",
    "Requeue",
    "RestartCnt",
    "NodeList",
    "Feature",
    "admin_comment",
    "Comment",
)
"""What people write comes last."""
_ACCOUNT = (
    "JobID",
    "User",
    "Account",
    "Partition",
    "State",
    "Reason",
    "Submit",
    "Eligible",
    "Start",
    "End",
    "Timelimit",
    "AllocTRES",
    "ReqTRES",
    "NodeList",
    "Constraints",
    "AdminComment",
    "Comment",
)
_ID = re.compile(r"[0-9]{1,18}(?:_[0-9]{1,9}|\+[0-9]{1,6})?")
_TRES_NUMBER = {name: re.compile(rf"(?:^|,){name}=([0-9]{{1,9}})") for name in ("cpu", "node")}
_TRES_MEMORY = re.compile(r"(?:^|,)mem=([0-9]{1,15})(?:\.[0-9]*)?([KMGTP]?)")
_MIB = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}
_DURATION = re.compile(r"(?:([0-9]{1,5})-)?(?:([0-9]{1,4}):)?([0-9]{1,4})(?::([0-9]{1,4}))?")
_SECONDS = re.compile(r"[0-9]{1,11}")
_REQUEUED = frozenset({"REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "PREEMPTED", "NODE_FAIL", "RESV_DEL_HOLD"})
_WAITS = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
_LIVE = frozenset(
    {"RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}
)


@dataclass(frozen=True, slots=True)
class Seen:
    """One job as Slurm showed it at some moment.

    ``limit`` and ``least``: time limit and ``--time-min`` in seconds, 0 for none. ``cpus``, ``gpus``: of the whole job,
    ``mem`` in MiB. ``hosts``: Slurm's host list. ``requeue``: 1 if Slurm may run it again, 0 if not, -1: unknown.
    """

    id: str
    user: str
    account: str
    partition: str
    state: str
    reason: str = ""
    submitted: int = 0
    eligible: int = 0
    started: int = 0
    ended: int = 0
    limit: int = 0
    least: int = 0
    nodes: int = 1
    gpus: int = 0
    cpus: int = 0
    mem: int = 0
    requeue: int = -1
    restarts: int = 0
    hosts: str = ""
    features: str = ""
    mark: str = ""
    comment: str = ""
    qos: str = ""

    @property
    def waits(self) -> bool:
        return self.state in _WAITS

    @property
    def live(self) -> bool:
        """It holds GPUs. What completes has ended for everybody but the epilog: Slurm has its end by then."""
        return self.state in _LIVE and not (self.state == "COMPLETING" and self.ended)

    @property
    def over(self) -> bool:
        return not self.waits and not self.live

    @property
    def again(self) -> bool:
        """Its run was ended by others, and Slurm may run it again."""
        return self.state in _REQUEUED

    def plain(self) -> dict[str, Any]:
        """Without what is as it always is."""
        return {name: value for name, value in asdict(self).items() if value != _DEFAULTS.get(name)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Seen:
        """Raises TypeError or ValueError for what ``plain`` never gave."""
        made = cls(**plain)
        for name, kind in _KINDS.items():
            if type(getattr(made, name)) is not kind:
                raise ValueError(f"{name}: not {kind.__name__}")
        return made


_DEFAULTS = {field.name: field.default for field in fields(Seen)}
_KINDS: dict[str, type] = {field.name: str if field.type == "str" else int for field in fields(Seen)}


def queue(commands: Commands) -> list[Seen]:
    """Every job of the queue, those that Slurm has not forgotten yet included. Raises CommandFailed."""
    asked = ",".join(f"{name}:{_BETWEEN}" for name in _QUEUE)
    return list(read_queue(commands.run("squeue", "-h", "-a", "-r", "-t", "all", "-O", asked)))


def read_queue(text: str) -> Iterator[Seen]:
    """Lines that are no jobs are left out, as is a second line with an id."""
    known: set[str] = set()
    for line in text.split("\n"):
        values = line.removesuffix(_BETWEEN).split(_BETWEEN)
        if len(values) != len(_QUEUE) or not _ID.fullmatch(values[0]) or values[0] in known:
            continue
        known.add(values[0])
        yield _of_queue(dict(zip(_QUEUE, map(_clean, values), strict=True)))


def _of_queue(row: dict[str, str]) -> Seen:
    tres, live = row["tres-alloc"], row["State"] not in _WAITS
    nodes = max(1, _count(row["NumNodes"]))
    gpus = read_gpus(tres).count or nodes * _of_kind(row["tres-per-node"]) or _of_kind(row["tres-per-job"])
    return Seen(
        id=row["JobArrayID"],
        user=row["UserName"],
        account=row["Account"],
        partition=row["Partition"],
        state=row["State"],
        reason=row["Reason"] if not live else "",
        submitted=_time(row["SubmitTime"]),
        eligible=_time(row["EligibleTime"]),
        # Of what waits it is when Slurm thinks that it might start, and what runs ends at its limit at the latest.
        started=_time(row["StartTime"]) if live else 0,
        ended=_time(row["EndTime"]) if row["State"] not in _WAITS | _LIVE - {"COMPLETING"} else 0,
        limit=_length(row["TimeLimit"]),
        least=_length(row["MinTime"]),
        nodes=nodes,
        gpus=gpus,
        cpus=read_number(tres, "cpu"),
        mem=read_memory(tres),
        requeue=_count(row["Requeue"]) if row["Requeue"] in ("0", "1") else -1,
        restarts=_count(row["RestartCnt"]),
        hosts=row["NodeList"] if live else "",
        features=row["Feature"],
        mark=row["admin_comment"],
        comment=row["Comment"],
    )


def history(commands: Commands, since: int, until: int) -> list[Seen]:
    """Every run that slurmdbd knows of between these times (seconds since 1970). Raises CommandFailed."""
    text = commands.run(
        "sacct",
        *("-a", "-X", "-D", "-n", "-P", f"--delimiter={_BETWEEN}"),
        *("-S", local_time(since), "-E", local_time(until)),
        *("-o", ",".join(_ACCOUNT)),
        timeout_s=300,
    )
    return list(read_history(text))


def read_history(text: str) -> Iterator[Seen]:
    for line in text.split("\n"):
        values = line.split(_BETWEEN)
        if len(values) != len(_ACCOUNT) or not _ID.fullmatch(values[0]):
            continue
        row = dict(zip(_ACCOUNT, map(_clean, values), strict=True))
        tres = row["AllocTRES"] or row["ReqTRES"]
        state = (row["State"].split() or [""])[0].upper()
        yield Seen(
            id=row["JobID"],
            user=row["User"],
            account=row["Account"],
            partition=row["Partition"],
            state=state,
            submitted=_time(row["Submit"]),
            eligible=_time(row["Eligible"]),
            started=_time(row["Start"]),
            ended=_time(row["End"]),
            limit=_length(row["Timelimit"]),
            nodes=max(1, read_number(tres, "node")),
            gpus=read_gpus(tres).count,
            cpus=read_number(tres, "cpu"),
            mem=read_memory(tres),
            hosts="" if row["NodeList"] == "None assigned" else row["NodeList"],
            features=row["Constraints"],
            mark=row["AdminComment"],
            comment=row["Comment"],
        )


def local_time(seconds: int) -> str:
    """As sacct reads it: in this machine's time zone."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds))


def _clean(text: str) -> str:
    text = text.strip()
    return "" if text in ("(null)", "N/A", "None", "NONE", "Unknown", "(none)") else text


def _time(text: str) -> int:
    return int(text) if _SECONDS.fullmatch(text) else 0


def _count(text: str) -> int:
    found = re.match(r"[0-9]{1,9}", text)
    return int(found[0]) if found else 0


def _length(text: str) -> int:
    """Seconds of ``[D-][HH:]MM[:SS]``; 0 for none, or no limit."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return 0
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match[4] is None:  # two numbers: minutes and seconds, unless there are days
        return days * 86_400 + first * 3600 + second * 60 if match[1] else first * 60 + second
    return days * 86_400 + first * 3600 + second * 60 + third


def _of_kind(gres: str) -> int:
    """GPUs in ``gres:gpu:a100:2,gres:nic:1``."""
    return sum(count for _, count in read_gres(",".join(one.removeprefix("gres:") for one in gres.split(","))))


def read_number(tres: str, name: str) -> int:
    """``cpu`` or ``node`` of a list of trackable resources; 0 where it is not in it."""
    match = _TRES_NUMBER[name].search(tres)
    return int(match[1]) if match else 0


def read_memory(tres: str) -> int:
    """MiB in a list of trackable resources; 0 where it names none."""
    match = _TRES_MEMORY.search(tres)
    return int(int(match[1]) * _MIB[match[2]]) if match else 0
