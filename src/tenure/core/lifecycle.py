"""The life of a job as one table: (state, event) -> state. A pair that is not in it raises."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.core.model import Word


class JobState(Word):
    QUEUED = "queued"
    CLAIMING = "claiming"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    TIMED_OUT = "timed_out"

    @property
    def ended(self) -> bool:
        return self in _ENDED

    @property
    def active(self) -> bool:
        """It has an attempt: GPUs are claimed or held."""
        return self in _ACTIVE

    @property
    def occupying(self) -> bool:
        """Its attempt holds GPUs: spans are open."""
        return self in _OCCUPYING


class Step(Word):
    """What can happen to a job."""

    START = "start"
    CLAIM = "claim"
    CLAIM_OPENED = "claim_opened"
    CLAIM_DROPPED = "claim_dropped"
    ALL_UP = "all_up"
    STOP = "stop"
    REQUEUE = "requeue"
    SUCCEED = "succeed"
    FAIL = "fail"
    CANCEL = "cancel"
    PREEMPT = "preempt"
    TIME_OUT = "time_out"


S, E = JobState, Step

TABLE: dict[tuple[JobState, Step], JobState] = {
    (S.QUEUED, E.START): S.STARTING,
    (S.QUEUED, E.CLAIM): S.CLAIMING,
    (S.QUEUED, E.CANCEL): S.CANCELLED,
    (S.CLAIMING, E.CLAIM_OPENED): S.STARTING,
    (S.CLAIMING, E.CLAIM_DROPPED): S.QUEUED,
    (S.STARTING, E.ALL_UP): S.RUNNING,
    # A short process may end before anyone saw that all of it was up.
    (S.STARTING, E.SUCCEED): S.SUCCEEDED,
    (S.STARTING, E.FAIL): S.FAILED,
    (S.STARTING, E.REQUEUE): S.QUEUED,
    (S.STARTING, E.STOP): S.STOPPING,
    # Cancelled in the system that runs it, which Tenure hears of when it is over.
    (S.STARTING, E.CANCEL): S.CANCELLED,
    (S.RUNNING, E.CANCEL): S.CANCELLED,
    (S.RUNNING, E.SUCCEED): S.SUCCEEDED,
    (S.RUNNING, E.FAIL): S.FAILED,
    (S.RUNNING, E.REQUEUE): S.QUEUED,
    (S.RUNNING, E.STOP): S.STOPPING,
    # Told to stop again, for a reason that weighs more (cancelled while it was being evicted).
    (S.STOPPING, E.STOP): S.STOPPING,
    # Its last replica came up while the stop was on its way.
    (S.STOPPING, E.ALL_UP): S.STOPPING,
    (S.STOPPING, E.SUCCEED): S.SUCCEEDED,
    (S.STOPPING, E.FAIL): S.FAILED,
    (S.STOPPING, E.REQUEUE): S.QUEUED,
    (S.STOPPING, E.CANCEL): S.CANCELLED,
    (S.STOPPING, E.PREEMPT): S.PREEMPTED,
    (S.STOPPING, E.TIME_OUT): S.TIMED_OUT,
}

_ENDED = frozenset({S.SUCCEEDED, S.FAILED, S.CANCELLED, S.PREEMPTED, S.TIMED_OUT})
_OCCUPYING = frozenset({S.STARTING, S.RUNNING, S.STOPPING})
_ACTIVE = _OCCUPYING | {S.CLAIMING}


class LifecycleError(Exception):
    """A pair that is not in the table, with the job's history."""


def advance(job_id: int, state: JobState, step: Step, history: Sequence[str]) -> JobState:
    """The state after ``step``.

    Raises LifecycleError when the table has no such pair.
    """
    try:
        return TABLE[state, step]
    except KeyError:
        raise LifecycleError(
            f"job {job_id} is {state} and cannot {step}; its history: {', '.join(history) or 'none'}"
        ) from None
