"""What users would have gained: the two sides of a record beside each other, in figures.

Both have the same jobs, submitted at the same moments. Waits are of the jobs that had not started when Tenure takes
over, each from its own submission; a job that never started counts with the wait that it had at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tenure.core.model import GPU, HOUR, SECOND
from tenure.reports.metrics import Summary, summary
from tenure.reports.owed import standings
from tenure.reports.records import JobRow, hours
from tenure.reports.side_waits import Waits
from tenure.reports.sizes import SIZES, size_of
from tenure.shadow.replay import KIND, Piece, Side, Span

_DIGITS = 3
_LATE = 10 * SECOND


@dataclass(slots=True)
class Pair:
    """Waits of one group of jobs on both sides."""

    slurm: Waits = field(default_factory=Waits)
    tenure: Waits = field(default_factory=Waits)

    def plain(self) -> dict[str, Any]:
        return {"jobs": len(self.slurm.all), "slurm": self.slurm.plain(), "tenure": self.tenure.plain()}


@dataclass(frozen=True, slots=True)
class Waited:
    """One job that waited, on both sides; ms."""

    piece: Piece
    slurm: int
    slurm_started: bool
    tenure: int
    tenure_started: bool


def size(piece: Piece) -> str:
    """By what Slurm really ran: what people would have signed is not known."""
    return size_of(piece.spec.gpus, None if piece.endless else piece.known)


def waited(slurm: Side, tenure: Side, span: Span) -> list[Waited]:
    """The jobs whose first wait was not over at the takeover, in the order of their submission."""
    theirs = {piece.life.key: (row, piece) for row, piece in slurm.rows() if row.kind == KIND}
    found = []
    for row, piece in tenure.rows():
        there = theirs.get(piece.life.key)
        if row.kind != KIND or there is None or not _waits_at(there[0], span) or not _waits_at(row, span):
            continue
        since = max(piece.life.submitted, piece.life.eligible) * SECOND
        first = min([since, *(run.started * SECOND for run in piece.life.runs)])
        ours, whole = _wait(row, first, span), _wait(there[0], first, span)
        found.append(Waited(piece, whole, there[0].started is not None, ours, row.started is not None))
    return found


def _waits_at(row: JobRow, span: Span) -> bool:
    left = [at for at in (row.started, row.ended) if at is not None]
    return not left or min(left) >= span.takeover


def _wait(row: JobRow, since: int, span: Span) -> int:
    gave_up = row.ended if row.ended is not None else span.end
    return (gave_up if row.started is None else row.started) - since


def grouped(jobs: Iterable[Waited], name: Callable[[Piece], str]) -> dict[str, Pair]:
    found: dict[str, Pair] = {}
    for job in jobs:
        pair = found.setdefault(name(job.piece), Pair())
        pair.slurm.add(job.slurm, started=job.slurm_started)
        pair.tenure.add(job.tenure, started=job.tenure_started)
    return found


def gains(slurm: Side, tenure: Side, span: Span) -> dict[str, Any]:
    """All figures, JSON-ready. Times ms UTC, waits seconds, GPU time GPU-hours, shares fractions of 1."""
    jobs = waited(slurm, tenure, span)
    by_size, by_user = grouped(jobs, size), grouped(jobs, lambda piece: piece.spec.user)
    by_budget = grouped(jobs, lambda piece: piece.spec.budget)
    used_there, used_here = _used(slurm, span), _used(tenure, span)
    everybody = sorted(by_user.keys() | used_there.keys() | used_here.keys())
    whole = grouped(jobs, lambda _: "").get("", Pair())
    return {
        "from": span.takeover,
        "until": span.end,
        "hours": round((span.end - span.takeover) / HOUR, _DIGITS),
        "gpus": sum(gpus for hosts in slurm.tables.hosts.values() for _, gpus in hosts),
        "all": {**whole.plain(), **_overall(slurm, tenure)},
        "sizes": [{"size": name, **by_size[name].plain()} for name in SIZES if name in by_size],
        "budgets": list(_budgets(slurm, tenure, by_budget)),
        "people": [
            {
                "user": user,
                **by_user.get(user, Pair()).plain(),
                "slurm_gpu_hours": _round(used_there.get(user, 0)),
                "tenure_gpu_hours": _round(used_here.get(user, 0)),
            }
            for user in everybody
        ],
        "evictions": _evictions(tenure, span),
        "unknown": _unknown(tenure, span),
        "refused": _refused(tenure),
        "late": _late(slurm, span),
        "left_out": dict(sorted(tenure.left_out.items())),
        "other_partitions_gpu_hours": round(slurm.outside / HOUR, _DIGITS),
    }


def _round(amount_ms: int) -> float:
    return round(hours(amount_ms), _DIGITS)


_OF_SUMMARY = ("m1_delivered", "m1_net", "m1_strict", "m1_worst", "m3_delivered", "occupancy", "lost_share")


def _overall(slurm: Side, tenure: Side) -> dict[str, Any]:
    both: dict[str, Summary] = {"slurm": summary(slurm.tables), "tenure": summary(tenure.tables)}
    found: dict[str, Any] = {}
    for name in _OF_SUMMARY:
        found[name] = {side: of[name] for side, of in both.items()}
    found["idle_while_waiting_gpu_hours"] = {
        side: round(of["gpu_hours"]["unusable"] + of["gpu_hours"]["withheld"], _DIGITS) for side, of in both.items()
    }
    return found


def _budgets(slurm: Side, tenure: Side, waits: dict[str, Pair]) -> Iterator[dict[str, Any]]:
    there, here = standings(slurm.tables).budgets, standings(tenure.tables).budgets
    for budget in sorted(there.keys() | here.keys() | waits.keys()):
        row: dict[str, Any] = {"budget": budget, **waits.get(budget, Pair()).plain()}
        for side, accounts in (("slurm", there), ("tenure", here)):
            account = accounts.get(budget)
            owed, within = (account.owed, account.within) if account is not None else (0, 0)
            row[side] |= {
                "owed_gpu_hours": _round(owed),
                "delivered_gpu_hours": _round(account.delivered if account is not None else 0),
                "delivered_of_owed": round(within / owed, 6) if owed else None,
            }
        yield row


def _used(side: Side, span: Span) -> dict[str, int]:
    """User -> GPU time within what is measured, amount x ms."""
    used: dict[str, int] = {}
    for row in side.tables.attempts:
        end = span.end if row.ended is None else row.ended
        if end > span.takeover:
            used[row.user] = used.get(row.user, 0) + row.amount * (end - max(row.started, span.takeover))
    return used


def _evictions(tenure: Side, span: Span) -> dict[str, Any]:
    rows = [row for row in tenure.tables.evictions if row.at >= span.takeover]
    reasons: dict[str, int] = {}
    for row in rows:
        reasons[row.because] = reasons.get(row.because, 0) + 1
    ended = [row for row, _ in tenure.rows() if row.state == "preempted"]
    return {
        "count": len(rows),
        "jobs": len({row.job_id for row in rows}),
        "reasons": dict(sorted(reasons.items())),
        "lost_gpu_hours": _round(sum(row.lost for row in tenure.tables.attempts)),
        "ended_for_good": len(ended),
        "each": [
            {
                "at": row.at,
                "job": tenure.jobs[row.job_id].life.key,
                "user": tenure.jobs[row.job_id].spec.user,
                "budget": row.budget,
                "gpus": row.gpus,
                "because": row.because,
                "for": tenure.jobs[row.gainer].life.key if row.gainer else None,
                "for_budget": row.gainer_budget or None,
                "lost_gpu_hours": _round(row.lost),
            }
            for row in rows
        ],
    }


def _unknown(tenure: Side, span: Span) -> dict[str, Any]:
    """Jobs whose length nobody knows, and how much of Tenure's GPU time lies beyond what Slurm had run of them."""
    known = {row.id: piece.known for row, piece in tenure.rows() if piece.endless}
    beyond: dict[int, int] = {}
    for attempt in tenure.tables.attempts:
        if attempt.job_id in known:
            end = span.end if attempt.ended is None else attempt.ended
            beyond[attempt.job_id] = beyond.get(attempt.job_id, 0) + (end - attempt.started)
    time = sum(max(0, ran - known[job_id]) * tenure.jobs[job_id].spec.gpus * GPU for job_id, ran in beyond.items())
    return {"jobs": len(beyond), "gpu_hours": _round(time)}


def _late(slurm: Side, span: Span) -> dict[str, int]:
    """How true the record is to Slurm: starts, and those for which there was no room here at their time."""
    starts = [(row, piece.where) for row, piece in slurm.rows() if piece.where is not None]
    starts = [(row, where) for row, where in starts if where.at <= span.end]
    late = sum(row.started is None or row.started > where.at + _LATE for row, where in starts)
    return {"starts": len(starts), "late": late}


def _refused(tenure: Side) -> list[dict[str, str]]:
    return [{"job": piece.life.key, "why": why} for piece, why in tenure.refused]
