"""Rows with everything filled in, for tests that care about some of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.store import AttemptRow, AuditRow, BatchRow, EvictionRow, JobRow, SpanRow, Store

DAY = 86_400_000
NOW = 20_000 * DAY + 5 * 3_600_000


def batch(seq: int, epoch: int = 1, **changes: Any) -> BatchRow:
    row = BatchRow(seq, NOW + seq, epoch, f'[{{"event":{seq}}}]', "[]", '[{"plan":"\N{GREEK SMALL LETTER PI}"}]')
    return replace(row, **changes)


def job(id: int, **changes: Any) -> JobRow:
    row = JobRow(
        id=id,
        client_key=None,
        user="ada",
        budget="lab/language/pretrain",
        name="train",
        cluster="c1",
        state="queued",
        charged=True,
        gpus=16,
        min_runtime=900_000,
        priority=0,
        submitted_at=NOW + id,
        ended_at=None,
        first_start_at=None,
        evictions=0,
        restarts=0,
        exit_code=None,
        reason='{"reason":"waiting_new"}',
        spec='{"roles":[]}',
    )
    return replace(row, **changes)


def attempt(job_id: int, number: int, **changes: Any) -> AttemptRow:
    row = AttemptRow(
        id=f"{job_id}.{number}",
        job_id=job_id,
        number=number,
        cluster="c1",
        leaf="lab/language/pretrain",
        user="ada",
        charged=True,
        amount=16_000,
        slots="[]",
        planned_at=NOW,
        started_at=None,
        running_at=None,
        ended_at=None,
        min_runtime=900_000,
        protected_until=None,
        state="claiming",
        reason="{}",
        exit_codes="[]",
    )
    return replace(row, **changes)


def span(start: int, end: int, **changes: Any) -> SpanRow:
    row = SpanRow("1.1", "c1", "lab/language/pretrain", "ada", "charged", 8000, start, end, 1)
    return replace(row, **changes)


def eviction(job_id: int, gainer: int = 0, **changes: Any) -> EvictionRow:
    row = EvictionRow(
        seq=1,
        at=NOW,
        attempt_id=f"{job_id}.1",
        job_id=job_id,
        gainer=gainer,
        reason="evicted_standing",
        numbers='{"ratio":"1/2"}',
        gained=2**40,
        at_risk=3,
        victim_leaf="lab/vision",
        gainer_leaf="lab/language/pretrain",
    )
    return replace(row, **changes)


def audit(action: str, **changes: Any) -> AuditRow:
    return replace(AuditRow(NOW, "ada", action, "job 1", "{}"), **changes)


def lead(store: Store, batches: int = 1) -> None:
    """Take leadership (epoch 1 in a new database) and write some empty batches."""
    epoch = store.take_leadership()
    for seq in range(1, batches + 1):
        store.write(batch(seq, epoch))
