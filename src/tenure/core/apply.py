"""Apply a plan to the state, whole. Live passes and restarts go through here alike."""

from __future__ import annotations

from tenure.core import defrag, effects
from tenure.core.decisions import Claim, Evict, Headroom, Plan, Reserve, Start, Stop, Unreserve
from tenure.core.lifecycle import Step
from tenure.core.model import MINUTE
from tenure.core.reasons import Reason
from tenure.core.state import Attempt, Job, Reservation, State, StopRecord


def apply(state: State, plan: Plan) -> None:
    """Make ``plan`` true. Raises KeyError, ValueError or LifecycleError when it does not fit the state."""
    match plan:
        case Start():
            job = state.jobs[plan.job_id]
            attempt = _attempt(state, job, plan)
            effects.take(state, job, attempt)
            effects.move(state, job, Step.START, plan.because)
            effects.open_spans(state, attempt, plan.at)
        case Claim():
            job = state.jobs[plan.job_id]
            attempt = _attempt(state, job, plan)
            for victim in plan.victims:
                evict(state, plan.cluster, victim, plan.at)
                attempt.waiting_for.add(victim.attempt_id)
                state.claims.setdefault(victim.attempt_id, set()).add(attempt.id)
            for leaving in plan.leaving:
                attempt.waiting_for.add(leaving)
                state.claims.setdefault(leaving, set()).add(attempt.id)
            effects.take(state, job, attempt)
            effects.move(state, job, Step.CLAIM, plan.because)
        case Stop():
            victim_of = state.attempts[plan.victim.attempt_id]
            evict(state, victim_of.cluster, plan.victim, plan.at)
        case Reserve():
            job = state.jobs[plan.job_id]
            held = Reservation(plan.cluster, plan.hosts, plan.amount, plan.at, plan.told, plan.starts_by, plan.bounded)
            effects.reserve(state, job, held)
            effects.note(state, job, plan.because)
        case Headroom():
            effects.keep_free(state.clusters[plan.cluster], plan.hosts)
        case Unreserve():
            job = state.jobs[plan.job_id]
            state.dequeue(job)
            effects.unreserve(state, job)
            state.enqueue(job)
            effects.note(state, job, plan.because)


def evict(state: State, cluster: str, victim: Evict, at: int) -> None:
    """Stop one victim of a plan and count it towards the cap."""
    attempt = state.attempts[victim.attempt_id]
    job = state.jobs[attempt.job_id]
    record = StopRecord(victim.because, victim.gainer, victim.warn_at, victim.kill_at, victim.release_by)
    effects.stopping(state, job, attempt, record)
    job.evictions += 1
    job.evictions_since_checkpoint += 1
    recent = state.clusters[cluster].recent_evictions
    recent.append(at)
    while recent and recent[0] <= at - MINUTE:
        recent.popleft()
    if victim.because.reason is Reason.EVICTED_MOVED:
        defrag.note_move(state.clusters[cluster], at)


def _attempt(state: State, job: Job, plan: Start | Claim) -> Attempt:
    return Attempt(
        id=plan.attempt_id,
        job_id=job.id,
        number=job.attempts + 1,
        cluster=plan.cluster,
        leaf=job.leaf,
        user=job.spec.user,
        slots=plan.slots,
        amount=plan.amount,
        min_runtime=job.spec.contract.min_runtime,
        planned_at=plan.at,
    )
