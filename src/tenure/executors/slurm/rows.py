"""All jobs of a partition, of everybody, by one ``squeue``: what the executor and adoption go by.

Users choose names and comments, line breaks included. So fields end with a word that is drawn for each question:
nobody can write one that looks like another field, or like another job.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tenure.slurm.commands import CommandFailed, Commands

PENDING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
LIVE = frozenset({"RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})
_ROW = (
    *("JobID", "ArrayJobID", "ArrayTaskID", "State", "PriorityLong", "UserID", "UserName", "Account"),
    *("SubmitTime", "StartTime", "EligibleTime", "EndTime", "Reason", "RestartCnt", "exit_code", "NodeList"),
    *("Dependency", "BatchFlag", "admin_comment", "Comment"),
)
_NOTHING = frozenset({"", "(null)", "N/A", "NONE", "None"})


class Stated:
    """What Slurm's word for the state of a job means."""

    __slots__ = ()
    state: str

    @property
    def pending(self) -> bool:
        return self.state in PENDING

    @property
    def live(self) -> bool:
        """It occupies nodes: it runs, is about to, or has not been cleaned up."""
        return self.state in LIVE

    @property
    def over(self) -> bool:
        return not self.pending and not self.live


@dataclass(frozen=True, slots=True)
class Row(Stated):
    """A job as Slurm shows it. ``id`` is what its commands take: ``12``, or ``12_3`` for a task of an array.

    ``number`` is Slurm's own. Times are seconds since 1970, 0 for none. ``exit`` is a wait status: signal + 256 x code.
    ``restarts``: how often it was queued again, which happens at ``submitted`` then. ``nodes`` is a host list.
    """

    id: str
    number: int
    array: str
    state: str
    held: bool
    uid: int
    user: str
    account: str
    submitted: int
    start: int
    eligible: int
    ended: int
    reason: str
    restarts: int
    exit: int
    nodes: str
    dependency: str
    batch: bool
    mark: str
    comment: str


def ask(commands: Commands, partition: str) -> list[Row]:
    """Every job of ``partition`` ('': of all), ended ones that Slurm remembers too. Raises CommandFailed."""
    chosen = ("-p", partition) if partition else ()
    return [_row(fields) for fields in question(commands, _ROW, "-a", "-t", "all", *chosen)]


def question(commands: Commands, fields: Sequence[str], *chosen: str) -> Iterator[Mapping[str, str]]:
    """For each job that ``squeue`` finds, its fields by the names that ``squeue -O`` has for them.

    Raises CommandFailed.
    """
    # Each field without a size is printed in full, followed by what stands behind the colon. A digit would be a size.
    end = "~" + secrets.token_hex(4)
    asked = ",".join(f"{name}:{end}" for name in fields)
    said = commands.run("squeue", "-r", "-h", *chosen, "-O", asked).split(end)
    count = len(fields)
    if len(said) % count != 1:
        raise CommandFailed("squeue", f"printed {len(said)} fields, no multiple of {count}")
    return (
        dict(zip(fields, (word.strip() for word in said[at : at + count]), strict=True))
        for at in range(0, len(said) - 1, count)
    )


def _row(said: Mapping[str, str]) -> Row:
    task = said["ArrayTaskID"]
    array = said["ArrayJobID"] if task.isdecimal() else ""
    return Row(
        id=f"{array}_{task}" if array else said["JobID"],
        number=_number(said["JobID"]),
        array=array,
        state=said["State"],
        held=said["PriorityLong"] == "0",
        uid=_number(said["UserID"]),
        user=said["UserName"],
        account=text(said["Account"]),
        submitted=_number(said["SubmitTime"]),
        start=_number(said["StartTime"]),
        eligible=_number(said["EligibleTime"]),
        ended=_number(said["EndTime"]),
        reason=said["Reason"],
        restarts=_number(said["RestartCnt"]),
        exit=_number(said["exit_code"]),
        nodes=said["NodeList"],
        dependency=text(said["Dependency"]),
        batch=said["BatchFlag"] == "1",
        mark=text(said["admin_comment"]),
        comment=text(said["Comment"]),
    )


def _number(said: str) -> int:
    return int(said) if said.isdecimal() else 0


def text(said: str) -> str:
    return "" if said in _NOTHING else said
