"""Arrays: jobs that were submitted together, looked at and changed as one."""

from __future__ import annotations

from fastapi import APIRouter

from tenure import units
from tenure.api import problems
from tenure.api.context import Caller, JobId, Server, array_of, check_release, may_act_on
from tenure.api.job_views import array_view
from tenure.api.models import ArrayView
from tenure.api.requests import ArrayRequest
from tenure.core import waits
from tenure.core.events import CancelRequested, Held, Released
from tenure.core.lifecycle import JobState
from tenure.engine.engine import Engine
from tenure.engine.errors import Conflict
from tenure.engine.requests import ArrayChange
from tenure.store import UserRow

router = APIRouter(prefix="/v1/arrays", tags=["arrays"])


@router.get("/{array_id}")
def show(array_id: JobId, engine: Server, _user: Caller) -> ArrayView:
    """An array by the id of its first job. `GET /v1/jobs?array=` lists its jobs."""
    return array_view(engine, array_of(engine, array_id))


@router.post("/{array_id}/cancel")
def cancel(array_id: JobId, engine: Server, user: Caller, body: ArrayRequest | None = None) -> ArrayView:
    """Cancel its live jobs, or those with these indices, in one step. Once more does nothing."""
    return _change(engine, user, array_id, body, CancelRequested)


@router.post("/{array_id}/hold")
def hold(array_id: JobId, engine: Server, user: Caller, body: ArrayRequest | None = None) -> ArrayView:
    """Keep its live jobs from starting; those that run are held when they are back in the queue."""
    return _change(engine, user, array_id, body, Held)


@router.post("/{array_id}/release")
def release(array_id: JobId, engine: Server, user: Caller, body: ArrayRequest | None = None) -> ArrayView:
    """Undo holds, as for a single job."""
    return _change(engine, user, array_id, body, Released)


def _change(engine: Engine, user: UserRow, array_id: int, body: ArrayRequest | None, what: ArrayChange) -> ArrayView:
    row = array_of(engine, array_id)
    wanted = None if body is None or body.indices is None else frozenset(units.parse_indices(body.indices))
    with engine.view() as state:
        jobs = waits.of_array(state, array_id, wanted)
        allowed = all(may_act_on(state, user, job.spec.user, job.budget) for job in jobs)
        owner = jobs[0].spec.user if jobs else ""
    if not allowed:
        raise problems.not_allowed(
            f"array {array_id} belongs to {owner}: ask them, a manager of its budget or an admin"
        )
    if what is Released:
        for job in jobs:
            check_release(engine, user, job.id, owner)
    try:
        engine.change_array(array_id, wanted, what, user.name)
    except Conflict:
        cancelled = what is CancelRequested and engine.store.list_jobs(
            array=array_id, indices=wanted, states=[JobState.CANCELLED], limit=1
        )
        if not cancelled:
            raise
    return array_view(engine, row)
