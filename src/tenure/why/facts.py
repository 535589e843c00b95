"""What the store keeps of one job, as of a moment: rows that were written later are taken back."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from tenure.core import codec
from tenure.core.decisions import Claim, Evict, Start
from tenure.core.events import AttemptExited, CheckpointReported
from tenure.core.model import JobSpec, Slots
from tenure.core.reasons import Because
from tenure.store import AttemptRow, EvictionRow, JobRow, Store


@dataclass(frozen=True, slots=True)
class Facts:
    """Rows as of ``at``. ``evictions``: those that the job suffered; ``victims``: those that others suffered for it."""

    at: int
    job: JobRow
    spec: JobSpec
    attempts: tuple[AttemptRow, ...]
    evictions: tuple[EvictionRow, ...]
    victims: tuple[EvictionRow, ...]


def read(store: Store, job_id: int, at: int, *, live: bool, running: str | None) -> Facts | None:
    """What was so at ``at`` ms; None for a job that is not kept, or was not submitted by then.

    ``live``: the scheduler had not heard of its end then, nor of that of its attempt ``running``, whatever is written.
    """
    job = store.job(job_id)
    if job is None or job.submitted_at > at:
        return None
    if job.ended_at is not None and (live or job.ended_at > at):
        job = replace(job, ended_at=None, exit_code=None)
    evictions = [row for row in reversed(store.evictions(limit=None, job_id=job_id)) if row.at <= at]
    return Facts(
        at,
        job,
        codec.record(JobSpec, json.loads(job.spec)),
        tuple(_until(row, at, running) for row in store.attempts_of(job_id) if row.planned_at <= at),
        tuple(row for row in evictions if row.job_id == job_id),
        tuple(row for row in evictions if row.gainer == job_id),
    )


def _until(row: AttemptRow, at: int, running: str | None) -> AttemptRow:
    """An attempt as it was at ``at``."""
    if row.ended_at is not None and (row.id == running or row.ended_at > at):
        row = replace(row, ended_at=None, exit_codes="[]")
    if row.running_at is not None and row.running_at > at:
        row = replace(row, running_at=None, protected_until=None)
    if row.started_at is not None and row.started_at > at:
        row = replace(row, started_at=None)
    return row


def because_of(text: str) -> Because:
    return codec.record(Because, json.loads(text))


def rule_of(row: EvictionRow) -> Because:
    """Why an eviction was allowed, with the numbers of then."""
    return codec.record(Because, {"reason": row.reason, "numbers": json.loads(row.numbers)})


def hosts_of(row: AttemptRow) -> tuple[str, ...]:
    return tuple(sorted({slot.host for slot in _slots(row)}))


def gpus_of(row: AttemptRow) -> int:
    return sum(len(slot.gpus) for slot in _slots(row))


def _slots(row: AttemptRow) -> tuple[Slots, ...]:
    return codec.record(tuple[Slots, ...], json.loads(row.slots))


def start_of(store: Store, row: AttemptRow) -> Start | Claim | None:
    """The plan that an attempt began with; None when its batch is not kept."""
    for batch in store.batches_at(row.planned_at):
        for data in json.loads(batch.plans):
            if data.get("attempt_id") == row.id:
                plan = codec.decision(data)
                assert isinstance(plan, Start | Claim)  # nothing else that a pass decides names an attempt so
                return plan
    return None


def order_of(store: Store, row: EvictionRow) -> Evict | None:
    """The decision behind an eviction, with the times of the warning and the kill; None when it is not kept."""
    batch = next(store.batches(after=row.seq - 1, limit=1), None)
    if batch is None or batch.seq != row.seq:
        return None
    for data in (*json.loads(batch.outcomes), *json.loads(batch.plans)):
        for victim in (*data.get("victims", ()), *([data["victim"]] if "victim" in data else ())):
            if victim["attempt_id"] == row.attempt_id and victim["because"]["reason"] == row.reason:
                return codec.record(Evict, victim)
    return None


def saved_since(store: Store, row: EvictionRow) -> int:
    """When the attempt reported a checkpoint last, after its eviction was decided; 0: it did not."""
    saved = 0
    for batch in store.batches_naming(row.attempt_id, row.seq):
        for data in json.loads(batch.events)["list"]:
            if data.get("attempt_id") != row.attempt_id:
                continue
            event = codec.event(data)
            if isinstance(event, CheckpointReported):
                saved = max(saved, event.at)
            elif isinstance(event, AttemptExited):
                return saved
    return saved
