"""A small site, and records of it written by hand: what Slurm showed, second by second."""

from __future__ import annotations

from typing import Any

from tenure.shadow.journal import Record
from tenure.shadow.seen import Seen
from tenure.shadow.terms import Terms, terms_of

BEGIN = 1_780_272_000
"""2026-06-01, midnight UTC."""
_HOSTS = [f"n{number}" for number in range(1, 5)]
_TENURE = '[clusters.gpu]\nhosts = [{ name = "n[1-4]", gpus = 8, cpus = 64, memory = "512G" }]\n'
_BUDGETS = "[lab]\n\n[lab.language]\nshare = 0.5\n\n[lab.vision]\nshare = 0.5\n"
SITE: dict[str, Any] = {
    "cluster": "site",
    "tenure": _TENURE,
    "budgets": _BUDGETS,
    "accounts": {"root": "lab", "language": "lab/language", "vision": "lab/vision"},
    "partitions": {"gpu": _HOSTS, "long": _HOSTS},
    "asks_memory": False,
    "asked_requeue": False,
    "accounting": False,
    "notes": [],
}


def terms(min_runtime: int | None = None, resumable: bool | None = None, **changed: Any) -> Terms:
    return terms_of({**SITE, **changed}, None, min_runtime, resumable)


def waits(id: str, submitted: int, gpus: int = 8, **more: Any) -> Seen:
    """A job that waits. Times are seconds after BEGIN."""
    given = {
        "id": id,
        "user": "ada",
        "account": "language",
        "partition": "gpu",
        "state": "PENDING",
        "submitted": BEGIN + submitted,
        "eligible": BEGIN + submitted,
        "nodes": -(-gpus // 8),
        "gpus": gpus,
        "cpus": gpus,
        "requeue": 1,
    }
    return Seen(**{**given, **more})


def runs(id: str, submitted: int, started: int, hosts: str, gpus: int = 8, **more: Any) -> Seen:
    return waits(id, submitted, gpus, **{"state": "RUNNING", "started": BEGIN + started, "hosts": hosts, **more})


def ended(id: str, submitted: int, started: int, end: int, hosts: str, gpus: int = 8, **more: Any) -> Seen:
    given = {"state": "COMPLETED", "ended": BEGIN + end}
    return runs(id, submitted, started, hosts, gpus, **{**given, **more})


def recorded(*looks: tuple[int, list[Seen]], until: int) -> Record:
    """What a watch would have written: (seconds after BEGIN, jobs that had changed)."""
    record = Record()
    record.take({"at": BEGIN, "site": SITE})
    record.take({"at": BEGIN, "jobs": [], "look": True})
    for at, jobs in looks:
        record.take({"at": BEGIN + at, "jobs": [job.plain() for job in jobs], "look": True})
    for at in range(0, until, 120):  # it looked all the time
        if BEGIN + at > record.until:
            record.take({"at": BEGIN + at, "jobs": [], "look": True})
    record.take({"at": BEGIN + until, "jobs": [], "look": True})
    return record
