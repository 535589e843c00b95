"""What events and due times do to the state. Deterministic and without policy: passes (``cycle``) decide."""

from __future__ import annotations

from tenure.core import effects, foreign, waits
from tenure.core.configure import apply_config
from tenure.core.decisions import (
    AttemptEnded,
    ClaimDropped,
    ClaimOpened,
    Credited,
    Evict,
    HostMarked,
    Outcome,
    Requeued,
    ReservationLost,
    Stopping,
)
from tenure.core.events import (
    AttemptExited,
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
    PauseScope,
    PriorityChanged,
    Released,
    ReplicasUp,
    Resumed,
    ServerBack,
    Submitted,
)
from tenure.core.ledger import Kind, Span
from tenure.core.lifecycle import JobState, Step
from tenure.core.model import HostState
from tenure.core.outcomes import FINAL, back_off, fate
from tenure.core.preemption import grace_of
from tenure.core.reasons import Because, Reason
from tenure.core.state import Attempt, ClusterState, Due, HostRecord, Job, State, StopRecord, protected


def absorb(state: State, event: Event) -> list[Outcome]:
    """Let an event happen at ``state.now``. Events about what no longer exists change nothing."""
    out: list[Outcome] = []
    match event:
        case Submitted():
            waits.submit(state, event, out)
        case ReplicasUp():
            attempt = state.attempts.get(event.attempt_id)
            if attempt is not None and attempt.started_at is not None and attempt.running_since is None:
                job = state.jobs[attempt.job_id]
                effects.move(state, job, Step.ALL_UP, job.last)
                effects.all_up(state, job, attempt, state.now)
        case AttemptExited():
            attempt = state.attempts.get(event.attempt_id)
            if attempt is not None and attempt.started_at is not None:
                _exited(state, attempt, event, out)
        case CancelRequested():
            _cancel(state, event, out)
        case Held() | Released() | PriorityChanged():
            _requeue_with(state, event, out)
        case EvictRequested():
            attempt = state.attempts.get(event.attempt_id)
            if attempt is not None and attempt.started_at is not None and attempt.stop is None:
                forced = int(protected(attempt, state.now))
                why = Because(Reason.EVICTED_BY_PERSON, {"by": event.by, "why": event.why, "protected": forced})
                job = state.jobs[attempt.job_id]
                job.evictions += 1
                job.evictions_since_checkpoint += 1
                stop(state, attempt, why, grace_of(state, attempt), out)
        case CheckpointReported():
            attempt = state.attempts.get(event.attempt_id)
            if attempt is not None:
                attempt.checkpoint_at = state.now
                state.jobs[attempt.job_id].evictions_since_checkpoint = 0
                state.touched_jobs.add(attempt.job_id)
        case HostStateChanged():
            _host(state, event, out)
        case ForeignUse():
            _foreign(state, event, out)
        case ConfigApplied():
            out.extend(apply_config(state, event))
        case Paused() | Resumed() | ClockAlarm():
            _pause(state, event)
        case ServerBack():
            effects.stop_anew(state)
    return out


def due(state: State, kind: str, key: str, at: int) -> list[Outcome]:
    """A time that was waited for has come. Stale timers change nothing."""
    out: list[Outcome] = []
    attempt = state.attempts.get(key)
    if attempt is not None:
        _attempt_due(state, kind, attempt, at, out)
    elif kind == Due.BACKOFF and (job := state.jobs.get(int(key))) is not None:
        if job.state is JobState.QUEUED and job.not_before == at:
            job.not_before = 0
            job.queued_at = state.now
            state.enqueue(job)
            state.touched_jobs.add(job.id)
    elif kind == Due.GRANT:
        for cluster in state.clusters.values():
            effects.refresh_entitlement(state, cluster, at)
        _next_grant(state, at)
        state.unpark_all()
    elif kind == Due.EVICTION_CAP and key in state.clusters:
        for queue in state.clusters[key].queues.values():
            queue.unpark(Reason.WAITING_EVICTION_CAP)
    elif kind == Due.LOOK and key in state.clusters and state.clusters[key].look_at == at:
        state.clusters[key].looking = bool(state.clusters[key].queues[Kind.CHARGED].groups)
        state.clusters[key].look_at = 0
        state.look_soon(state.clusters[key])
    return out


def _attempt_due(state: State, kind: str, attempt: Attempt, at: int, out: list[Outcome]) -> None:
    if kind == Due.EXPOSED and attempt.protected_until == at:
        effects.expose(state, attempt)
    elif kind == Due.TURN_OVER and attempt.promised_until == at:
        effects.turn_over(state, attempt)
    elif kind == Due.START_TIMEOUT and attempt.running_since is None and attempt.stop is None:
        limit = state.clusters[attempt.cluster].spec.start_timeout
        if attempt.started_at is not None and at == attempt.started_at + limit:
            why = Because(Reason.START_TIMED_OUT, {"started_at": attempt.started_at, "limit": limit})
            stop(state, attempt, why, 0, out, since=state.acting_at)
    elif kind == Due.TIMEOUT and attempt.stop is None:
        limit = state.jobs[attempt.job_id].spec.timeout or 0
        why = Because(Reason.TIMED_OUT, {"timeout": limit})
        stop(state, attempt, why, grace_of(state, attempt), out, since=state.acting_at)
    elif kind == Due.RELEASE_BY and attempt.stop is not None and attempt.stop.release_by == at:
        _not_released(state, attempt, out)


def stop(
    state: State, attempt: Attempt, why: Because, grace: int, out: list[Outcome], *, since: int | None = None
) -> None:
    """Stop an attempt outside a plan, or for a weightier reason than before; what is left only gets shorter.

    ``since``: from when on its end is put down to this; now, if not given. The grace begins when it can be told, which
    is later if nobody looked when this was due.
    """
    cluster, job = state.clusters[attempt.cluster].spec, state.jobs[attempt.job_id]
    since = state.now if since is None else since
    warn_at = max(state.now, state.acting_at)
    kill_at, at = warn_at + grace, since
    if attempt.stop is not None:
        kill_at = min(kill_at, attempt.stop.kill_at)
        since = min(since, attempt.stop.since or attempt.stop.warn_at)
    warn_at = min(warn_at, kill_at)
    victim = Evict(attempt.id, why, 0, 0, attempt.at_risk(at), warn_at, kill_at, kill_at + cluster.kill_timeout)
    effects.stopping(state, job, attempt, StopRecord(why, 0, warn_at, kill_at, victim.release_by, since))
    out.append(Stopping(at, victim))


def _cancel(state: State, event: CancelRequested, out: list[Outcome]) -> None:
    job = state.jobs.get(event.job_id)
    if job is None:
        return
    why = Because(Reason.CANCELLED, {"by": event.by})
    if job.state is JobState.CLAIMING and job.attempt is not None:
        drop_claim(state, job.attempt, why, out)
    if job.state is JobState.QUEUED:
        state.dequeue(job)
        lose_reservation(state, job, why, out)
        effects.move(state, job, Step.CANCEL, why)
        waits.end(state, job, why, out)
    elif job.attempt is not None and (job.attempt.stop is None or job.attempt.stop.because.reason is not why.reason):
        cluster = state.clusters[job.attempt.cluster].spec
        stop(state, job.attempt, why, min(grace_of(state, job.attempt), cluster.kill_timeout), out)


def _requeue_with(state: State, event: Held | Released | PriorityChanged, out: list[Outcome]) -> None:
    """Holds and priorities: take the job out of the queue, change it, put it back. A hold ends a claim."""
    job = state.jobs.get(event.job_id)
    if job is None:
        return
    if isinstance(event, Held) and job.state is JobState.CLAIMING and job.attempt is not None:
        drop_claim(state, job.attempt, Because(Reason.HELD_BY_PERSON, {"by": event.by}), out)
    waiting = job.state is JobState.QUEUED
    if waiting:
        state.dequeue(job)
    match event:
        case Held():
            lose_reservation(state, job, Because(Reason.HELD_BY_PERSON, {"by": event.by}), out)
            job.held_by = event.by
        case Released():
            job.held_by = ""
            job.queued_at = state.now
        case PriorityChanged():
            job.spec = effects.with_priority(job.spec, event.priority)
            if job.attempt is not None:  # others of its budget may outrank it now
                effects.reindex(state, job.attempt)
                state.clusters[job.attempt.cluster].freed += job.attempt.gpus
    if waiting:
        state.enqueue(job)
        if not isinstance(event, PriorityChanged):
            waits.settle(state, job)
    state.touched_jobs.add(job.id)


def _exited(state: State, attempt: Attempt, event: AttemptExited, out: list[Outcome]) -> None:
    job, now = state.jobs[attempt.job_id], state.now
    decided = fate(job, attempt, event)
    job.exit_codes = event.exit_codes
    ended_at = _ended_at(state, attempt, event)
    if decided.because.reason is Reason.HOST_FAILED:
        _credit(state, attempt, ended_at, out)
    effects.release(state, job, attempt, now, decided.because, ended_at)
    out.append(AttemptEnded(ended_at, attempt.id, decided.because))
    effects.move(state, job, decided.step, decided.because)
    if decided.step is Step.REQUEUE:
        not_before = 0
        if decided.back_off:
            not_before = back_off(state, job, attempt, ended_at, now)
            job.retried += decided.retry
        requeue(state, job, decided.because, not_before, out)
    else:
        waits.end(state, job, decided.because, out)
    _release_to_claims(state, attempt.id)


def _ended_at(state: State, attempt: Attempt, event: AttemptExited) -> int:
    """When its GPUs were free: it is charged until then, even if that was heard of only after steps that followed."""
    if not event.ended_at or attempt.started_at is None:
        return state.now
    span = state.clusters[attempt.cluster].ledger.open[attempt.id]
    known = max(span.start, attempt.running_since or 0, attempt.checkpoint_at or 0)
    return min(state.now, max(known, event.ended_at))


def requeue(state: State, job: Job, because: Because, not_before: int, out: list[Outcome]) -> None:
    job.not_before, job.queued_at = 0, state.now
    if not_before > state.now:
        job.not_before = not_before
        state.due(not_before, Due.BACKOFF, str(job.id))
    state.enqueue(job)
    waits.settle(state, job)
    out.append(Requeued(state.now, job.id, because, not_before))


def _release_to_claims(state: State, victim: str) -> None:
    """The GPUs of ``victim`` are back: claims that waited for it alone are complete."""
    for claim_id in sorted(state.claims.pop(victim, ())):
        waiting_for = state.attempts[claim_id].waiting_for
        waiting_for.discard(victim)
        if not waiting_for:
            state.complete_claims.append(claim_id)


def open_claims(state: State) -> list[Outcome]:
    """Open all spans of complete claims, now: a victim may have ended long ago, when nobody could hand its GPUs on.

    An unallocated claim is given back instead: charged jobs that came meanwhile choose first in the pass that follows,
    and it takes what they leave.
    """
    out: list[Outcome] = []
    for claim_id in state.complete_claims:
        claim = state.attempts.get(claim_id)
        if claim is not None and not claim.charged:
            drop_claim(state, claim, Because(Reason.CLAIM_RELEASED, {"planned_at": claim.planned_at}), out)
        elif claim is not None:
            job = state.jobs[claim.job_id]
            because = Because(Reason.CLAIM_COMPLETE, {"planned_at": claim.planned_at})
            effects.move(state, job, Step.CLAIM_OPENED, because)
            effects.open_spans(state, claim, state.now)
            out.append(ClaimOpened(state.now, claim_id, because))
    state.complete_claims.clear()
    return out


def drop_claim(state: State, claim: Attempt, why: Because, out: list[Outcome]) -> None:
    """A claim cannot come true: the job queues again, at once and with its seniority."""
    job = state.jobs[claim.job_id]
    because = why
    if why.reason is not Reason.CLAIM_RELEASED:
        because = Because(Reason.CLAIM_DROPPED, {**why.numbers, "why": why.reason.value})
    effects.release(state, job, claim, state.now, because, state.now)
    effects.move(state, job, Step.CLAIM_DROPPED, because)
    out.append(ClaimDropped(state.now, claim.id, because))
    job.queued_at = state.now
    state.enqueue(job)


def lose_reservation(state: State, job: Job, why: Because, out: list[Outcome]) -> None:
    """Nothing is held for the job any more, if it was. The job is not in the queue."""
    if job.reservation is not None:
        effects.unreserve(state, job)
        effects.note(state, job, why)
        out.append(ReservationLost(state.now, job.id, why))


def _lose_held_host(state: State, cluster: ClusterState, host: str, out: list[Outcome]) -> None:
    """A host that takes nobody, or that others use, cannot be held: the reservation is made anew, and says so."""
    job = state.jobs.get(cluster.held.get(host, 0))
    if job is not None and not foreign.wholly_ours(cluster, host):
        why = Because(Reason.RESERVED_HOST_LOST, {"cluster": cluster.spec.name, "host": host})
        state.dequeue(job)
        lose_reservation(state, job, why, out)
        state.enqueue(job)


def _not_released(state: State, attempt: Attempt, out: list[Outcome]) -> None:
    """GPUs are not back after grace and kill: their hosts drain as faulty and plans that need them are dropped."""
    attempt.unreleased = True
    state.clusters[attempt.cluster].leaving.pop(attempt.id, None)
    cluster = state.clusters[attempt.cluster]
    why = Because(Reason.NOT_RELEASED, {"attempt": attempt.id, "hosts": tuple(attempt.hosts())})
    for host in attempt.hosts():
        if cluster.hosts[host].state is HostState.HEALTHY:
            cluster.hosts[host] = HostRecord(HostState.DRAINING, state.now, "tenure", f"{attempt.id} not released")
            effects.set_host_state(cluster, host, HostState.DRAINING)
            out.append(HostMarked(state.now, attempt.cluster, host, HostState.DRAINING, why))
            state.unpark_all()  # with fewer hosts some may need those that are kept for others
            _lose_held_host(state, cluster, host, out)
    for claim_id in sorted(state.claims.pop(attempt.id, ())):
        drop_claim(state, state.attempts[claim_id], why, out)
    effects.refresh_entitlement(state, cluster, state.now)


def _credit(state: State, attempt: Attempt, ended_at: int, out: list[Outcome]) -> None:
    """Rule 13: the charged time since the last checkpoint, at most min_runtime, unless the job caused the fault."""
    cluster = state.clusters[attempt.cluster]
    records = [cluster.hosts[host] for host in attempt.hosts()]
    if not attempt.charged or attempt.started_at is None or any(r.caused_by == attempt.id for r in records):
        return
    since = attempt.started_at if attempt.checkpoint_at is None else attempt.checkpoint_at
    start = max(since, cluster.ledger.open[attempt.id].start, ended_at - attempt.min_runtime)
    if start < ended_at:
        span = Span(attempt.id, attempt.leaf, attempt.user, Kind.CREDIT, attempt.amount, start, ended_at)
        cluster.ledger.credit(span)
        state.closed_spans.append((attempt.cluster, span))
        because = Because(Reason.HOST_FAILED, {"checkpoint_at": attempt.checkpoint_at or 0})
        out.append(Credited(state.now, attempt.id, start, ended_at, attempt.amount, because))


def _host(state: State, event: HostStateChanged, out: list[Outcome]) -> None:
    cluster = state.clusters.get(event.cluster)
    if cluster is None or event.host not in cluster.hosts:
        return
    cluster.hosts[event.host] = HostRecord(event.state, state.now, event.by, event.why, event.deadline, event.caused_by)
    effects.set_host_state(cluster, event.host, event.state)
    _lose_held_host(state, cluster, event.host, out)
    if event.deadline is not None:
        state.due(event.deadline, Due.DRAIN_DEADLINE, event.host)
    if event.state not in (HostState.HEALTHY, HostState.DRAINING):
        why = Because(Reason.HOST_FAILED, {"host": event.host, "why": event.why})
        for attempt_id in sorted(cluster.on_host[event.host]):
            attempt = state.attempts[attempt_id]
            if attempt.started_at is None:
                drop_claim(state, attempt, why, out)
            elif attempt.stop is not None and attempt.stop.because.reason in FINAL:
                stop(state, attempt, attempt.stop.because, 0, out)
            else:
                stop(state, attempt, why, 0, out)
    effects.refresh_entitlement(state, cluster, state.now)
    state.unpark_all()


def _foreign(state: State, event: ForeignUse, out: list[Outcome]) -> None:
    cluster = state.clusters.get(event.cluster)
    if cluster is not None and event.host in cluster.hosts:
        foreign.use(cluster, event)
        for claim, why in foreign.claims_without_room(state, cluster, event.host):
            drop_claim(state, claim, why, out)
        _lose_held_host(state, cluster, event.host, out)


def _pause(state: State, event: Paused | Resumed | ClockAlarm) -> None:
    if isinstance(event, ClockAlarm):
        state.clock_alarm = event.on
    elif event.scope is PauseScope.STARTS:
        state.paused_starts = event.by if isinstance(event, Paused) else ""
    else:
        state.paused_evictions = event.by if isinstance(event, Paused) else ""
    state.unpark_all()


def _next_grant(state: State, at: int) -> None:
    change = state.the_tree().next_change(at)
    if change is not None:
        state.due(change, Due.GRANT, "")
