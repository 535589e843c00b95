"""Our own jobs, out of what ``rows`` has asked Slurm for, and Slurm's nodes by one ``sinfo``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tenure.executors.base import DiscoveredHost
from tenure.executors.slurm.rows import Row, Stated
from tenure.slurm.commands import Commands

_NODES = "%N|%c|%m|%o|%G"
_COMMENT = re.compile(
    r"tenure:(?P<cluster>[^:|]+):(?P<job>[0-9]+)\.(?P<part>[0-9]+):(?P<gpus>[0-9]+)g(?P<cpus>[0-9]+)c:(?P<instance>[0-9a-f]+)"
)
_GPU = re.compile(r"gpu(?::(?P<kind>[^:,()]+))?:(?P<count>[0-9]+)(?![^:,()])")


@dataclass(frozen=True, slots=True)
class SlurmJob(Stated):
    """One of our jobs in Slurm. ``id`` may have been used before: ``job``, from the comment, is what it is.

    ``ended``: Slurm's end time, in seconds since 1970; 0 while it has none. ``gpus`` and ``cpus`` are asked for on each
    node. ``restarts``: how often it was queued again, which happens at ``submitted`` then.
    """

    id: int
    job: int
    part: int
    gpus: int
    cpus: int
    state: str
    held: bool
    reason: str
    ended: int
    submitted: int
    restarts: int


def comment(cluster: str, job: int, part: int, gpus: int, cpus: int, instance: str) -> str:
    """By this a job is found again: Slurm's own ids are used again after a crash of slurmctld."""
    return f"tenure:{cluster}:{job}.{part}:{gpus}g{cpus}c:{instance}"


_GIVEN = re.compile(r"tenure-given:(?P<job>[0-9]{1,18}):[0-9a-f]+")


def given(job: int, nonce: str) -> str:
    """The comment of a job that is submitted as its user. Nobody can guess ``nonce`` before."""
    return f"tenure-given:{job}:{nonce}"


def is_given(comment: str) -> bool:
    """Whether it looks like one of those: such a job is never adopted."""
    return _GIVEN.fullmatch(comment) is not None


def given_job(comment: str) -> int:
    """Of which job it is the comment; 0 for none."""
    found = _GIVEN.fullmatch(comment)
    return int(found["job"]) if found is not None else 0


def is_ours(comment: str, instance: str) -> bool:
    """Whether the comment of a job is one of this server's."""
    ours = _COMMENT.fullmatch(comment)
    return ours is not None and ours["instance"] == instance


def own_jobs(rows: Iterable[Row], instance: str, uid: int) -> dict[int, list[SlurmJob]]:
    """Jobs that this server has submitted, ended ones that Slurm remembers too, by Tenure's job id.

    Only those of our own user ``uid``: nobody else can pretend to be one of them.
    """
    found: dict[int, list[SlurmJob]] = {}
    for row in rows:
        ours = _COMMENT.fullmatch(row.comment) if row.uid == uid and row.id.isdecimal() else None
        if ours is None or ours["instance"] != instance:
            continue
        job = SlurmJob(
            id=int(row.id),
            job=int(ours["job"]),
            part=int(ours["part"]),
            gpus=int(ours["gpus"]),
            cpus=int(ours["cpus"]),
            state=row.state,
            held=row.held,
            reason=row.reason,
            ended=row.ended,
            submitted=row.submitted,
            restarts=row.restarts,
        )
        found.setdefault(job.job, []).append(job)
    return found


def submitted_by_tenure(row: Row) -> bool:
    """Whether a Tenure has submitted it, this one or another: there is nothing to adopt."""
    return _COMMENT.fullmatch(row.comment) is not None


def by_part(candidates: Iterable[SlurmJob]) -> dict[int, SlurmJob]:
    """For each part of a job the one that counts: a lost answer of ``sbatch`` may leave several with one comment."""
    ranked = sorted(candidates, key=lambda one: (one.live, one.pending and not one.held, one.pending, one.id))
    return {one.part: one for one in ranked}


@dataclass(frozen=True, slots=True)
class Node:
    host: DiscoveredHost
    address: str


def nodes(commands: Commands, partition: str) -> dict[str, Node]:
    """The nodes of a partition ('': of all) by name. Raises CommandFailed."""
    chosen = ("-p", partition) if partition else ("-a",)
    return parse_nodes(commands.run("sinfo", "-h", "-N", *chosen, "-o", _NODES))


def parse_nodes(text: str) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for line in text.splitlines():
        fields = line.split("|", 4)
        if len(fields) != 5 or not fields[1].isdecimal() or not fields[2].isdecimal():
            continue
        name, cpus, mem, address, gres = (field.strip() for field in fields)
        gpus = [kind or "gpu" for kind, count in _GPU.findall(gres) for _ in range(int(count))]
        host = DiscoveredHost(name, len(gpus), int(cpus) * 1000, int(mem), tuple(gpus))
        found[name] = Node(host, address)
    return found
