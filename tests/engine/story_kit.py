"""What became of jobs, counted from the log, the spans and the core: not from the rows that stories are told from."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.core import scheduler
from tenure.core.decisions import AttemptEnded, ClaimOpened, JobEnded, Start
from tenure.core.events import Submitted
from tenure.core.outcomes import EVICTED
from tenure.core.reasons import Reason
from tenure.core.state import State
from tenure.engine import record, recovery
from tenure.store import Store
from tenure.why.chapters import Totals


@dataclass
class Lived:
    """A job's life by the log."""

    submitted: int = 0
    began: dict[str, int] = field(default_factory=dict)
    over: dict[str, tuple[int, Reason, int | None]] = field(default_factory=dict)
    """Attempt -> when it ended, why, and since when its work was not saved."""
    ended: int | None = None


def lives(store: Store) -> dict[int, Lived]:
    """Every job's life, from the log alone: decided plans are applied again, and what the core then has is read."""
    state, found = State(), dict[int, Lived]()
    for row in store.batches():
        events, plans = record.events_of(row), record.plans_of(row)
        for event in events:
            if isinstance(event, Submitted):
                count = len(event.array.indices) if event.array is not None else 1
                found |= {event.job_id + i: Lived(row.at) for i in range(count)}
        outcomes = scheduler.redo(state, events, plans, row.at)
        for decision in (*outcomes, *plans):
            if isinstance(decision, Start | ClaimOpened):
                found[_job(decision.attempt_id)].began[decision.attempt_id] = decision.at
            elif isinstance(decision, AttemptEnded):
                attempt = next(a for a, _ in state.ended_attempts if a.id == decision.attempt_id)
                saved = attempt.running_since if attempt.checkpoint_at is None else attempt.checkpoint_at
                over = (decision.at, decision.because.reason, saved)
                found[_job(attempt.id)].over[attempt.id] = over
            elif isinstance(decision, JobEnded):
                found[decision.job_id].ended = decision.at
        recovery.forget_changes(state)
    return found


def _job(attempt_id: str) -> int:
    return int(attempt_id.partition(".")[0])


def reckoned(store: Store, live: State, life: Lived, job_id: int, at: int) -> Totals:
    """The sums of a job at ``at``, from spans, evictions and the log."""
    sums = {"charged": 0, "unallocated": 0, "credit": 0}
    for span in store.spans():
        # A credit is written when its attempt ends.
        whole = span.kind != "credit" or span.end <= at
        if _job(span.attempt_id) == job_id and whole:
            sums[span.kind] += span.amount * max(0, min(span.end, at) - span.start)
    for cluster in live.clusters.values():
        for attempt_id, span in cluster.ledger.open.items():
            if _job(attempt_id) == job_id:
                sums[span.kind.value] += span.amount * max(0, at - span.start)
    rows = [row for row in store.evictions(limit=None) if row.job_id == job_id and row.at <= at]
    amounts = {row.id: row.amount for row in store.attempts_of(job_id)}
    lost = 0
    for attempt_id in {row.attempt_id for row in rows}:
        ended, reason, saved = life.over.get(attempt_id, (at + 1, Reason.FAILED, None))
        if ended <= at and reason is not Reason.SUCCEEDED and saved is not None:
            lost += amounts[attempt_id] * (ended - saved)
    ran = sum(max(0, min(life.over.get(a, (at,))[0], at) - start) for a, start in life.began.items())
    end = min(at, life.ended if life.ended is not None else at)
    return Totals(
        attempts=sum(1 for start in life.began.values() if start <= at),
        evictions=sum(1 for row in rows if Reason(row.reason) in EVICTED),
        ran=ran,
        waited=end - life.submitted - ran,
        charged=sums["charged"] - sums["credit"],
        unallocated=sums["unallocated"],
        lost=lost,
        lost_known=True,
    )
