"""Batches as entries that a person can read: what happened, what was decided, and why. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tenure import units
from tenure.api.job_views import hours, reason_view
from tenure.api.models import BatchView, EntryView
from tenure.config.ranges import fold
from tenure.core import codec
from tenure.core.decisions import (
    AttemptEnded,
    Claim,
    ClaimDropped,
    ClaimOpened,
    Credited,
    Decision,
    Evict,
    Headroom,
    HostMarked,
    JobEnded,
    Requeued,
    ReservationLost,
    Reserve,
    Start,
    Stop,
    Stopping,
    Unreserve,
)
from tenure.core.events import (
    CancelRequested,
    CheckpointReported,
    ClockAlarm,
    ConfigApplied,
    Event,
    EvictRequested,
    ForeignUse,
    Held,
    HostStateChanged,
    Paused,
    PriorityChanged,
    Released,
    ReplicasUp,
    Resumed,
    ServerBack,
    Submitted,
)
from tenure.core.model import JobSpec
from tenure.core.reasons import Because
from tenure.engine import record
from tenure.store import BatchRow


def batch_view(row: BatchRow) -> BatchView:
    entries = [entry for event in record.events_of(row) if (entry := event_entry(event)) is not None]
    for decision in (*json.loads(row.outcomes), *json.loads(row.plans)):
        entries += decision_entries(codec.decision(decision))
    return BatchView(seq=row.seq, at=row.at, entries=entries)


def job_of(attempt_id: str) -> int:
    return int(attempt_id.partition(".")[0])


def summary(spec: JobSpec) -> str:
    """``train.py, 2 x 8 GPUs, lab/vision, 15m``."""
    gpus = " + ".join(
        f"{role.replicas} x {_gpus(role.gpus)}" if role.replicas > 1 else _gpus(role.gpus) for role in spec.roles
    )
    length = spec.contract.min_runtime
    return f"{spec.name}, {gpus}, {spec.budget}, {units.format_duration(length) if length else 'unallocated'}"


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def event_entry(event: Event) -> EntryView | None:
    """None for what the decisions that follow say better."""
    match event:
        case Submitted(job_id=job, spec=spec, array=array):
            what = f"job {job}"
            if array is not None:
                what = f"array {job} ({units.format_array(array.indices, array.throttle)})"
            return EntryView(kind="submitted", job=job, text=f"{spec.user} submits {what}: {summary(spec)}")
        case CancelRequested(job_id=job, by=by):
            return EntryView(kind="cancel", job=job, text=f"{by} cancels job {job}")
        case Held(job_id=job, by=by):
            return EntryView(kind="hold", job=job, text=f"{by} holds job {job}")
        case Released(job_id=job, by=by):
            return EntryView(kind="release", job=job, text=f"{by} releases job {job}")
        case PriorityChanged(job_id=job, priority=priority, by=by):
            return EntryView(kind="priority", job=job, text=f"{by} sets the priority of job {job} to {priority}")
        case EvictRequested(attempt_id=attempt, by=by, why=why):
            text = f"{by} evicts {attempt}{f': {why}' if why else ''}"
            return EntryView(kind="evict", job=job_of(attempt), attempt=attempt, text=text)
        case ReplicasUp(attempt_id=attempt):
            return EntryView(kind="running", job=job_of(attempt), attempt=attempt, text=f"{attempt} runs")
        case CheckpointReported(attempt_id=attempt):
            text = f"{attempt} has saved a checkpoint"
            return EntryView(kind="checkpoint", job=job_of(attempt), attempt=attempt, text=text)
        case _:
            return _operator_entry(event)


def _operator_entry(event: Event) -> EntryView | None:
    match event:
        case HostStateChanged(cluster=cluster, host=host, state=state, by=by, why=why):
            text = f"{by} sets host {cluster}/{host} to {state.value}{f': {why}' if why else ''}"
            return EntryView(kind="host", text=text)
        case ForeignUse(cluster=cluster, host=host, gpus=gpus, what=what):
            by_whom = f"{_gpus(gpus)} used by others{f': {what}' if what else ''}" if what or gpus else "all ours again"
            return EntryView(kind="host", text=f"host {cluster}/{host}: {by_whom}")
        case ConfigApplied(by=by):
            return EntryView(kind="configuration", text=f"{by} applies a configuration")
        case Paused(scope=scope, by=by):
            return EntryView(kind="pause", text=f"{by} pauses {scope.value}")
        case Resumed(scope=scope, by=by):
            return EntryView(kind="resume", text=f"{by} resumes {scope.value}")
        case ClockAlarm(on=on):
            text = "the wall clock stepped: evictions stop" if on else "the clock is steady again: evictions go on"
            return EntryView(kind="clock", text=text)
        case ServerBack():
            text = "the server is back: what should have stopped meanwhile is told again"
            return EntryView(kind="server", text=text)
        case _:
            return None


def decision_entries(decision: Decision) -> Iterator[EntryView]:
    match decision:
        case Start():
            yield _attempt("start", decision.attempt_id, f"job {decision.job_id} starts {_where(decision)}", decision)
        case Claim():
            text = f"job {decision.job_id} claims GPUs {_where(decision)}"
            yield _attempt("claim", decision.attempt_id, text, decision)
            for victim in decision.victims:
                yield _eviction(victim)
        case Stop(victim=victim) | Stopping(victim=victim):
            yield _eviction(victim)
        case Reserve(job_id=job, hosts=hosts):
            text = f"{', '.join(fold(sorted(hosts)))} held for job {job}"
            yield _entry("reserve", job, None, text, decision.because)
        case Unreserve(job_id=job) | ReservationLost(job_id=job):
            yield _entry("unreserve", job, None, f"nothing is held for job {job} any more", decision.because)
        case Headroom(cluster=cluster, hosts=hosts):
            kept = ", ".join(fold(sorted(hosts))) or "nothing"
            yield _entry("headroom", None, None, f"{kept} kept for short contracts in {cluster}", decision.because)
        case ClaimOpened(attempt_id=attempt):
            yield _attempt("start", attempt, f"job {job_of(attempt)} starts", decision)
        case ClaimDropped(attempt_id=attempt):
            yield _attempt("claim_dropped", attempt, f"the claim of job {job_of(attempt)} is dropped", decision)
        case AttemptEnded(attempt_id=attempt):
            yield _attempt("attempt_ended", attempt, f"{attempt} has ended", decision)
        case Requeued(job_id=job):
            yield _entry("requeued", job, None, f"job {job} is back in the queue", decision.because)
        case JobEnded(job_id=job, state=state):
            yield _entry("ended", job, None, f"job {job} is over: {state.replace('_', ' ')}", decision.because)
        case HostMarked(cluster=cluster, host=host, state=state):
            yield _entry("host", None, None, f"host {cluster}/{host} is now {state.value}", decision.because)
        case Credited(attempt_id=attempt, amount=amount, start=start, end=end):
            text = f"the budget of {attempt} gets {hours(amount * (end - start)):.2f} GPU-hours back"
            yield _attempt("credit", attempt, text, decision)


def _eviction(victim: Evict) -> EntryView:
    kind = "evict" if victim.because.reason.value.startswith("evicted") else "stop"
    left = victim.kill_at - victim.warn_at
    grace = f"{units.format_duration(left)} to save its work" if left else "killed at once"
    return _entry(
        kind,
        job_of(victim.attempt_id),
        victim.attempt_id,
        f"{victim.attempt_id} is {'evicted' if kind == 'evict' else 'stopped'} ({grace})",
        victim.because,
    )


def _attempt(
    kind: str,
    attempt: str,
    text: str,
    decision: Start | Claim | ClaimOpened | ClaimDropped | AttemptEnded | Credited,
) -> EntryView:
    return _entry(kind, job_of(attempt), attempt, text, decision.because)


def _entry(kind: str, job: int | None, attempt: str | None, text: str, because: Because) -> EntryView:
    return EntryView(kind=kind, job=job, attempt=attempt, text=text, reason=reason_view(because))


def _where(plan: Start | Claim) -> str:
    return "on " + ", ".join(fold(sorted({slot.host for slot in plan.slots})))
