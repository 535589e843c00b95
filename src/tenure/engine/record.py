"""From core records to the store's rows and back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence

from tenure.core import codec
from tenure.core.decisions import Claim, Evict, Outcome, Plan, Stop, Stopping
from tenure.core.events import Event, Submitted
from tenure.core.ledger import Kind, Span
from tenure.core.outcomes import EVICTED
from tenure.core.reasons import Because, Reason
from tenure.core.scheduler import Result
from tenure.core.state import Attempt, Job, State
from tenure.engine.clock import Anchor
from tenure.store.rows import ArrayRow, AttemptRow, BatchRow, EvictionRow, JobRow, SpanRow


def batch_row(seq: int, epoch: int, events: Sequence[Event], result: Result, at: int, anchor: Anchor) -> BatchRow:
    """One step as the log keeps it: inputs with the clock's anchor, then what was decided."""
    inputs = {"boot": anchor.boot, "boottime": anchor.boottime, "list": [codec.tagged(e) for e in events]}
    return BatchRow(
        seq,
        at,
        epoch,
        codec.dumps(inputs),
        decisions_text(result.outcomes),
        decisions_text(result.plans),
    )


def decisions_text(decisions: Iterable[Outcome | Plan]) -> str:
    """The bytes that replay compares."""
    return codec.dumps([codec.tagged(d) for d in decisions])


def events_of(row: BatchRow) -> list[Event]:
    return [codec.event(data) for data in json.loads(row.events)["list"]]


def plans_of(row: BatchRow) -> list[Plan]:
    return [codec.decision(data) for data in json.loads(row.plans)]  # type: ignore[misc]  # only plans are written there


def happenings(row: BatchRow, kinds: Collection[str]) -> list[Event | Outcome | Plan]:
    """What happened in a batch, in order, of these types alone: reading a large event that nobody wants takes time."""
    found: list[Event | Outcome | Plan] = []
    for data in json.loads(row.events)["list"]:
        if data["type"] in kinds:
            found.append(codec.event(data))
    for text in (row.outcomes, row.plans):
        found += [codec.decision(data) for data in json.loads(text) if data["type"] in kinds]
    return found


def anchor_of(row: BatchRow) -> Anchor:
    inputs = json.loads(row.events)
    return Anchor(row.at, inputs["boot"], inputs["boottime"])


def because_text(because: Because) -> str:
    return codec.dumps(codec.plain(because))


def because_of(text: str) -> Because:
    return codec.record(Because, json.loads(text))


def job_row(job: Job, ended_at: int | None) -> JobRow:
    attempt = job.attempt
    cluster = attempt.cluster if attempt is not None else job.last_cluster or (job.spec.clusters or ("",))[0]
    failed = [code for code in job.exit_codes if code]
    return JobRow(
        id=job.id,
        client_key=job.client_key or None,
        user=job.spec.user,
        budget=job.budget,
        name=job.spec.name,
        cluster=cluster,
        state=job.state.value,
        charged=job.spec.charged,
        gpus=job.spec.gpus,
        min_runtime=job.spec.contract.min_runtime,
        priority=job.spec.priority,
        submitted_at=job.submitted,
        ended_at=ended_at,
        first_start_at=job.first_started,
        evictions=job.evictions,
        restarts=max(0, job.starts - 1),
        exit_code=(failed[0] if failed else 0) if job.exit_codes else None,
        reason=because_text(job.last),
        spec="" if job.array else codec.dumps(codec.plain(job.spec)),
        array_id=job.array or None,
        array_index=job.index if job.array else None,
        held=bool(job.held_by),
    )


def array_rows(events: Sequence[Event]) -> list[ArrayRow]:
    """What the jobs of new arrays share."""
    return [
        ArrayRow(
            event.job_id,
            codec.dumps(list(event.array.indices)),
            event.array.throttle,
            codec.dumps(codec.plain(event.spec)),
        )
        for event in events
        if isinstance(event, Submitted) and event.array is not None
    ]


def attempt_row(
    attempt: Attempt, state: str, because: Because, ended_at: int | None, codes: Sequence[int]
) -> AttemptRow:
    return AttemptRow(
        id=attempt.id,
        job_id=attempt.job_id,
        number=attempt.number,
        cluster=attempt.cluster,
        leaf=attempt.leaf,
        user=attempt.user,
        charged=attempt.charged,
        amount=attempt.amount,
        slots=codec.dumps(codec.plain(attempt.slots)),
        planned_at=attempt.planned_at,
        started_at=attempt.started_at,
        running_at=attempt.running_since,
        ended_at=ended_at,
        min_runtime=attempt.min_runtime,
        protected_until=attempt.protected_until,
        state=state,
        reason=because_text(because),
        exit_codes=codec.dumps(list(codes)),
    )


def span_row(cluster: str, span: Span, seq: int) -> SpanRow:
    return SpanRow(
        span.attempt_id, cluster, span.leaf, span.user, span.kind.value, span.amount, span.start, span.end, seq
    )


def span_of(row: SpanRow) -> Span:
    return Span(row.attempt_id, row.leaf, row.user, Kind(row.kind), row.amount, row.start, row.end)


def evictions(result: Result) -> list[tuple[int, Evict]]:
    """Every eviction of a step with its time: plans, drains, forced ones and host failures."""
    found: list[tuple[int, Evict]] = []
    for decision in (*result.outcomes, *result.plans):
        if isinstance(decision, Claim):
            found += [(decision.at, victim) for victim in decision.victims]
        elif isinstance(decision, Stop) or (
            isinstance(decision, Stopping) and decision.victim.because.reason in EVICTED | {Reason.HOST_FAILED}
        ):
            found.append((decision.at, decision.victim))
    return found


def eviction_row(state: State, seq: int, at: int, evict: Evict, victim: Attempt | None) -> EvictionRow:
    gainer = state.jobs.get(evict.gainer)
    return EvictionRow(
        seq,
        at,
        evict.attempt_id,
        int(evict.attempt_id.partition(".")[0]),
        evict.gainer,
        evict.because.reason.value,
        codec.dumps(codec.plain(evict.because.numbers)),
        evict.gained,
        evict.at_risk,
        victim.leaf if victim is not None else "",
        gainer.leaf if gainer is not None else "",
    )
