"""What people ask of the engine, as functions that turn a request into events against the current state.

Each raises Refusal, NotFound or Conflict before anything is written, or returns the events and the audit entry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenure.core import admission, waits
from tenure.core.events import (
    CancelRequested,
    CheckpointReported,
    ConfigApplied,
    Event,
    EvictRequested,
    Held,
    HostStateChanged,
    Paused,
    PauseScope,
    PriorityChanged,
    Released,
    Resumed,
    Submitted,
)
from tenure.core.lifecycle import JobState
from tenure.core.model import Array, Budget, Cluster, Grant, HostState, JobSpec, Policy
from tenure.core.state import Job, State
from tenure.engine.errors import Conflict, NotFound
from tenure.engine.wishes import Waits


@dataclass(slots=True)
class Asked:
    """Events to log and, for the audit, who did what to which target."""

    events: Sequence[Event]
    action: str = ""
    target: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


ArrayChange = type[CancelRequested] | type[Held] | type[Released]
"""What can be done to several jobs of an array at once."""

Request = Callable[[State, int], Asked]
"""Called by the engine's thread with the state and the time."""


def live_job(state: State, job_id: int) -> Job:
    job = state.jobs.get(job_id)
    if job is None:
        raise NotFound("live job", str(job_id))
    return job


def submit(
    job_id: int,
    spec: JobSpec,
    client_key: str,
    hold: str,
    array: Array | None = None,
    waiting: Waits | None = None,
) -> Request:
    def request(state: State, now: int) -> Asked:
        admission.check_job(state, spec)
        detail: dict[str, Any] = {"budget": spec.budget}
        if array is not None:
            detail["array"] = len(array.indices)
        after = waiting or Waits()
        event = Submitted(now, job_id, spec, hold, client_key, array, after.after, after.broken)
        return Asked([event], "submit", str(job_id), detail)

    return request


def cancel(job_id: int, by: str) -> Request:
    def request(state: State, now: int) -> Asked:
        live_job(state, job_id)
        return Asked([CancelRequested(now, job_id, by)], "cancel", str(job_id))

    return request


def hold(job_id: int, by: str) -> Request:
    def request(state: State, now: int) -> Asked:
        live_job(state, job_id)
        return Asked([Held(now, job_id, by)], "hold", str(job_id))

    return request


def release(job_id: int, by: str) -> Request:
    def request(state: State, now: int) -> Asked:
        live_job(state, job_id)
        return Asked([Released(now, job_id, by)], "release", str(job_id))

    return request


def change_array(array: int, indices: Collection[int] | None, what: ArrayChange, by: str) -> Request:
    """Do it to all live jobs of an array, or to those with these indices, where it changes anything.

    Raises Conflict when none of them lives.
    """

    def request(state: State, now: int) -> Asked:
        jobs = waits.of_array(state, array, indices)
        if not jobs:
            which = "all of its jobs have" if indices is None else "these jobs have"
            raise Conflict(f"array {array}: {which} ended", "nothing can be changed about them")
        return Asked([what(now, job.id, by) for job in jobs if _changes(what, job)], *_named(what, array, indices))

    return request


def _changes(what: ArrayChange, job: Job) -> bool:
    return what is CancelRequested or bool(job.held_by) == (what is Released)


def _named(what: ArrayChange, array: int, indices: Collection[int] | None) -> tuple[str, str, dict[str, Any]]:
    action = {CancelRequested: "cancel", Held: "hold", Released: "release"}[what]
    return action, str(array), {"array": "all" if indices is None else sorted(indices)[:100]}


def set_priority(job_id: int, priority: int, by: str) -> Request:
    def request(state: State, now: int) -> Asked:
        live_job(state, job_id)
        return Asked([PriorityChanged(now, job_id, priority, by)], "priority", str(job_id), {"priority": priority})

    return request


def checkpoint(job_id: int, by: str) -> Request:
    def request(state: State, now: int) -> Asked:
        attempt = live_job(state, job_id).attempt
        if attempt is None or attempt.started_at is None:
            raise Conflict(f"job {job_id} is not running", "report a checkpoint from a running attempt")
        return Asked([CheckpointReported(now, attempt.id)])

    return request


def evict(job_id: int, by: str, why: str) -> Request:
    def request(state: State, now: int) -> Asked:
        job = live_job(state, job_id)
        if job.attempt is None or job.state not in (JobState.STARTING, JobState.RUNNING):
            raise Conflict(f"job {job_id} is {job.state}", "only starting and running jobs can be evicted")
        return Asked([EvictRequested(now, job.attempt.id, by, why)], "evict", str(job_id), {"why": why})

    return request


def set_host(cluster: str, host: str, to: HostState, by: str, why: str, deadline: int | None) -> Request:
    def request(state: State, now: int) -> Asked:
        if cluster not in state.clusters:
            raise NotFound("cluster", cluster, sorted(state.clusters))
        hosts = state.clusters[cluster].hosts
        if host not in hosts:
            raise NotFound("host", host, sorted(hosts))
        event = HostStateChanged(now, cluster, host, to, by, why, deadline=deadline)
        return Asked([event], f"host {to.value}", f"{cluster}/{host}", {"why": why})

    return request


def pause(scope: PauseScope, by: str) -> Request:
    return lambda state, now: Asked([Paused(now, scope, by)], "pause", scope.value)


def resume(scope: PauseScope, by: str) -> Request:
    return lambda state, now: Asked([Resumed(now, scope, by)], "resume", scope.value)


def apply_config(
    clusters: tuple[Cluster, ...], policy: Policy, budgets: tuple[Budget, ...], grants: tuple[Grant, ...], by: str
) -> Request:
    def request(state: State, now: int) -> Asked:
        event = ConfigApplied(now, clusters, policy, budgets, grants, by)
        admission.check_config(state, event)
        return Asked([event], "apply", "configuration")

    return request
