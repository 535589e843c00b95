"""The live state, followed through the log in the database: whoever schedules knows nothing of it."""

from __future__ import annotations

import json
from collections.abc import Callable

from tenure.core import codec
from tenure.core.decisions import JobEnded
from tenure.core.model import JobSpec
from tenure.engine import record, recovery
from tenure.engine.clock import Anchor, Clock
from tenure.forecast.past import KEPT, Past, Waited
from tenure.store import AttemptRow, JobRow, Store


class Follower:
    """``state`` is that of the scheduler after batch ``seq``; ``past`` what people did before."""

    def __init__(self, store: Store, clock: Callable[[Anchor | None], Clock] = Clock) -> None:
        self.store = store
        self._clock = clock
        restored = recovery.restore(store)
        self.state, self.seq = restored.state, restored.seq
        self._anchor: Anchor | None = restored.anchor
        self.past = self._history(self.state.now)

    def catch_up(self) -> tuple[list[Waited], list[int]]:
        """Repeat what was committed since. Returns the starts in it, and the jobs that ended."""
        starts, ended = list[Waited](), list[int]()
        for row in self.store.batches(after=self.seq):
            events, plans = record.events_of(row), record.plans_of(row)
            outcomes = recovery.redo(self.store, self.state, row)
            starts += self.past.note(self.state, events, outcomes, plans)
            ended += [outcome.job_id for outcome in outcomes if isinstance(outcome, JobEnded)]
            recovery.forget_changes(self.state)
            self.seq, self._anchor = row.seq, record.anchor_of(row)
        return starts, ended

    def now(self) -> int:
        """Engine time, ms UTC, as it has gone on since the last batch."""
        return max(self.state.now, self._clock(self._anchor).last)

    def _history(self, now: int) -> Past:
        """What the tables say of the time before the log is followed."""
        past = Past()
        rows = {row.id: row for row in self.store.list_jobs(since=now - KEPT, limit=None)}
        for job_id in self.state.jobs:
            row = rows.get(job_id) or self.store.job(job_id)
            if row is not None:
                rows[job_id] = row
        attempts = self.store.attempts_of_all(sorted(rows))
        for job_id in sorted(rows):
            _remember(past, rows[job_id], attempts.get(job_id, []), now)
        past.forget(now)
        return past


def _remember(past: Past, row: JobRow, attempts: list[AttemptRow], now: int) -> None:
    spec = codec.record(JobSpec, json.loads(row.spec))
    if row.submitted_at <= now:
        past.submitted(row.submitted_at, row.id, spec)
    for attempt in attempts:
        if attempt.running_at is not None and attempt.ended_at is not None and attempt.ended_at <= now:
            past.attempt(spec, row.id, attempt.running_at, attempt.ended_at)
            if attempt.started_at is not None:
                past.startup(spec, attempt.running_at - attempt.started_at)
    if row.ended_at is not None and row.ended_at <= now:
        past.ended(spec, row.id, row.state, row.ended_at)
