"""One step, one transaction: the batch with everything that follows from it."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.core import codec, snapshot
from tenure.core.decisions import AttemptEnded, ClaimDropped, JobEnded
from tenure.core.events import Event
from tenure.core.scheduler import Result
from tenure.core.state import State
from tenure.engine import record
from tenure.engine.clock import Anchor
from tenure.store.rows import AttemptRow, AuditRow, EvictionRow
from tenure.store.store import Store

SNAPSHOT_EVERY = 1000
"""Batches between snapshots: a restart repeats at most that many steps."""


class Writer:
    """Writes steps and snapshots. Raises StaleLeader when another server leads."""

    def __init__(self, store: Store, epoch: int, seq: int) -> None:
        self.store, self.epoch, self.seq = store, epoch, seq
        self._snapshot_seq = seq

    def write(
        self, state: State, events: Sequence[Event], result: Result, anchor: Anchor, audit: Sequence[AuditRow]
    ) -> None:
        """Commit a step. The lists of what changed in ``state`` are read, not cleared."""
        seq = self.seq + 1
        ended_at = {d.job_id: d.at for d in result.outcomes if isinstance(d, JobEnded)}
        self.store.write(
            record.batch_row(seq, self.epoch, events, result, state.now, anchor),
            jobs=[record.job_row(state.jobs[i], None) for i in sorted(state.touched_jobs) if i in state.jobs]
            + [record.job_row(job, ended_at[job.id]) for job in state.ended_jobs],
            attempts=self._attempts(state, result),
            spans=[record.span_row(cluster, span, seq) for cluster, span in state.closed_spans],
            evictions=self._evictions(state, seq, result),
            audit=audit,
            arrays=record.array_rows(events),
        )
        self.seq = seq

    def _attempts(self, state: State, result: Result) -> list[AttemptRow]:
        ended_at = {d.attempt_id: d.at for d in result.outcomes if isinstance(d, AttemptEnded | ClaimDropped)}
        over = [state.jobs[attempt.job_id] for attempt, _ in state.ended_attempts if attempt.job_id in state.jobs]
        codes = {job.id: job.exit_codes for job in (*over, *state.ended_jobs)}
        rows = {
            attempt.id: record.attempt_row(
                attempt, "ended", because, ended_at.get(attempt.id, state.now), codes.get(attempt.job_id, ())
            )
            for attempt, because in state.ended_attempts
        }
        for job_id in sorted(state.touched_jobs):
            job = state.jobs.get(job_id)
            if job is not None and job.attempt is not None:
                rows[job.attempt.id] = record.attempt_row(job.attempt, job.state.value, job.last, None, ())
        return list(rows.values())

    def _evictions(self, state: State, seq: int, result: Result) -> list[EvictionRow]:
        victims = {**state.attempts, **{attempt.id: attempt for attempt, _ in state.ended_attempts}}
        return [
            record.eviction_row(state, seq, at, evict, victims.get(evict.attempt_id))
            for at, evict in record.evictions(result)
        ]

    def snapshot_if_due(self, state: State, *, force: bool = False) -> None:
        """Save the state now and then, so that a restart is quick."""
        behind = self.seq - self._snapshot_seq
        if behind >= SNAPSHOT_EVERY or (force and behind > 0):
            self.store.write_snapshot(self.seq, state.now, codec.dumps(snapshot.save(state)).encode())
            self._snapshot_seq = self.seq
