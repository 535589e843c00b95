"""Rule 12 and 13: what becomes of a job when its attempt ends."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.core.events import AttemptExited, ExitKind
from tenure.core.lifecycle import Step
from tenure.core.model import HOUR
from tenure.core.reasons import Because, Number, Reason
from tenure.core.state import Attempt, Job, State

EVICTED = frozenset(
    {
        Reason.EVICTED_STANDING,
        Reason.EVICTED_PRIORITY,
        Reason.EVICTED_LEVEL,
        Reason.EVICTED_UNALLOCATED,
        Reason.EVICTED_RESERVED,
        Reason.EVICTED_HEADROOM,
        Reason.EVICTED_MOVED,
        Reason.EVICTED_DRAIN,
        Reason.EVICTED_BY_PERSON,
    }
)


FINAL = frozenset({Reason.CANCELLED, Reason.TIMED_OUT})
"""Stops after which a job does not come back: a host that fails meanwhile must not bring it back."""


@dataclass(frozen=True, slots=True)
class Fate:
    """The step that the job takes, why, and whether it backs off before it is tried again, as one of its retries."""

    step: Step
    because: Because
    back_off: bool = False
    retry: bool = False


def fate(job: Job, attempt: Attempt, event: AttemptExited) -> Fate:
    """What happens to the job whose attempt ended so."""
    stop = attempt.stop
    if event.cancelled_by:
        return Fate(Step.CANCEL, Because(Reason.CANCELLED, {"by": event.cancelled_by}))
    # Heard of late, it may have ended before anybody decided to stop it. But a host that fails takes what runs there
    # with it before anybody knows.
    if stop is not None and (
        (event.ended_at or event.at) >= (stop.since or stop.warn_at)
        or (event.kind is ExitKind.LOST and stop.because.reason is Reason.HOST_FAILED)
    ):
        return _after_stop(job, stop.because, event)
    numbers: dict[str, Number] = {"exit_codes": event.exit_codes}
    if event.message:
        numbers["message"] = event.message
    if event.again:
        return Fate(Step.REQUEUE, Because(Reason.REQUEUED, numbers), back_off=True)
    if event.kind is ExitKind.LOST:
        because = Because(Reason.EXECUTOR_LOST, numbers)
        return Fate(Step.REQUEUE, because, back_off=True) if job.spec.contract.resumable else _failed(job, because)
    if event.kind is ExitKind.NOT_STARTED:
        return _failed(job, Because(Reason.NOT_STARTED, numbers))
    if event.done or not any(event.exit_codes):
        return Fate(Step.SUCCEED, Because(Reason.SUCCEEDED, numbers))
    return _failed(job, Because(Reason.FAILED, numbers))


def _failed(job: Job, because: Because) -> Fate:
    """It failed by itself: again while it has retries left."""
    if job.retried < job.spec.retries:
        return Fate(Step.REQUEUE, because, back_off=True, retry=True)
    return Fate(Step.FAIL, because)


def _after_stop(job: Job, why: Because, event: AttemptExited) -> Fate:
    """It exited after its warning: it was stopped, whatever its exit code, unless it said that it was done."""
    clean = event.kind is ExitKind.EXITED and not any(event.exit_codes)
    resumable = job.spec.contract.resumable
    if why.reason is Reason.CANCELLED:
        return Fate(Step.CANCEL, why)
    if event.done:
        return Fate(Step.SUCCEED, Because(Reason.SUCCEEDED, {"exit_codes": event.exit_codes}))
    if event.again:  # as frameworks do when they are warned, of a time limit too
        return Fate(Step.REQUEUE, why)
    if why.reason is Reason.TIMED_OUT:
        return Fate(Step.TIME_OUT, why)
    if why.reason is Reason.START_TIMED_OUT:
        return Fate(Step.REQUEUE, why, back_off=True)
    if resumable:
        return Fate(Step.REQUEUE, why)
    if why.reason is Reason.HOST_FAILED:
        return Fate(Step.FAIL, why)
    if clean:
        return Fate(Step.SUCCEED, Because(Reason.SUCCEEDED, {"exit_codes": event.exit_codes}))
    return Fate(Step.PREEMPT, Because(Reason.PREEMPTED, {"evicted_by": why.reason.value, **why.numbers}))


def back_off(state: State, job: Job, attempt: Attempt, ended_at: int, at: int) -> int:
    """Count a failure and return when the job may start again: delays double while failures follow each other.

    An attempt that ran for an hour ends the row, however late its end is heard of.
    """
    if attempt.running_since is not None and ended_at - attempt.running_since >= HOUR:
        job.failures = 0
    job.failures += 1
    delay = state.policy.backoff_first << min(job.failures - 1, 40)
    return at + min(delay, state.policy.backoff_max)
