"""Jobs: submit, list, show, and what can be done to one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from tenure import units
from tenure.api import problems
from tenure.api.context import (
    NO_CONTROL,
    Admin,
    Caller,
    JobId,
    Limit,
    Seq,
    Server,
    array_of,
    check_release,
    job_of,
    live_job_for,
    may_act_on,
)
from tenure.api.eta_models import EtaView
from tenure.api.eta_views import eta
from tenure.api.fields import MAX_INT
from tenure.api.job_views import array_view, job_detail, job_view, job_views
from tenure.api.models import JobDetail, JobView, Page, Submitted
from tenure.api.requests import EvictRequest, JobRequest, PriorityRequest
from tenure.api.submission import complete
from tenure.core.lifecycle import JobState
from tenure.core.reasons import Reason, Refusal
from tenure.engine.engine import Engine
from tenure.engine.errors import Conflict
from tenure.engine.wishes import Wish
from tenure.store import UserRow

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

Word = Annotated[str | None, Query(max_length=1000, pattern=NO_CONTROL)]
Words = Annotated[list[str], Query(max_length=100)]


@router.post("", status_code=201)
def submit(
    body: JobRequest,
    request: Request,
    response: Response,
    engine: Server,
    user: Caller,
    idempotency_key: Annotated[str | None, Header(max_length=200, pattern=NO_CONTROL)] = None,
) -> Submitted:
    """Submit a job, or an array of them. 201 for a new one, 200 when the client key was used before: then that job is
    the answer, of an array its first.
    """
    request.state.one_role = body.roles is None
    owner = owner_of(body, user)
    key = body.client_key or idempotency_key or None
    if body.client_key and idempotency_key and body.client_key != idempotency_key:
        raise problems.bad(
            "client_key", body.client_key, "it differs from the Idempotency-Key header: send one of them"
        )
    with engine.view() as state:
        completed = complete(body, state, owner)
    array = units.parse_array(body.array) if body.array is not None else None
    job_id, created = engine.submit(
        completed.spec, by=user.name, client_key=key, hold=body.hold, array=array, after=wishes_of(body)
    )
    response.headers["Location"] = f"/v1/jobs/{job_id}"
    if not created:
        response.status_code = 200
    row = job_of(engine, job_id)
    return Submitted(
        job=job_view(engine, row),
        created=created,
        array=array_view(engine, array_of(engine, row.array_id)) if row.array_id is not None else None,
        notes=list(completed.notes) if created else [],
    )


def owner_of(body: JobRequest, user: UserRow) -> str:
    """Whose job it is. Raises Failed (403)."""
    owner = body.user or user.name
    if owner != user.name and user.role != "admin":
        raise problems.bad("user", owner, "only administrators submit for others; leave it out", 403)
    return owner


def wishes_of(body: JobRequest) -> list[Wish]:
    """What it is to wait for."""
    return [
        Wish(*units.parse_job(text), field == "after_ok", field)
        for field, texts in (("after_ok", body.after_ok), ("after_any", body.after_any))
        for text in texts
    ]


@router.get("")
def list_jobs(
    engine: Server,
    _user: Caller,
    state: Annotated[list[JobState] | None, Query(max_length=20)] = None,
    user: Annotated[list[Annotated[str, Query(max_length=200, pattern=NO_CONTROL)]] | None, Query()] = None,
    budget: Word = None,
    cluster: Word = None,
    since: Annotated[str | None, Query(max_length=64, description="submitted then or later, RFC 3339")] = None,
    array: Annotated[int | None, Query(ge=1, le=MAX_INT, description="only the jobs of this array")] = None,
    indices: Annotated[str | None, Query(max_length=4096, description="of an array only these, like 0-3,7")] = None,
    fold: Annotated[bool, Query(description="one for all jobs of an array that have never started")] = False,
    all: Annotated[bool, Query(description="ended ones too, unless states are named")] = False,
    runs: Annotated[bool, Query(description="with all attempts of each job")] = False,
    after: Seq | None = None,
    limit: Limit = 100,
) -> Page[JobView]:
    """Jobs, newest first. ``budget`` means that path and everything below it."""
    states = [s.value for s in state or ([] if all else [s for s in JobState if not s.ended])]
    rows = engine.store.list_jobs(
        states=states,
        users=user or [],
        budget=budget,
        cluster=cluster,
        since=_since(since),
        array=array,
        indices=_indices(indices),
        fold=fold,
        after=after,
        limit=limit + 1,
    )
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(items=job_views(engine, rows, fold=fold, runs=runs), next=rows[-1].id if more else None)


def _since(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return units.parse_time(text)
    except units.UnitError as error:
        raise problems.bad("since", text, error.fix) from error


def _indices(text: str | None) -> tuple[int, ...] | None:
    try:
        return None if text is None else units.parse_indices(text)
    except units.UnitError as error:
        raise problems.bad("indices", text, error.fix) from error


@router.get("/{job_id}")
def show(job_id: JobId, engine: Server, user: Caller) -> JobDetail:
    """One job with its attempts, the current reason, and who gained when it was evicted."""
    row = job_of(engine, job_id)
    with engine.view() as state:
        secrets = may_act_on(state, user, row.user, row.budget)
    return job_detail(engine, row, secrets=secrets)


@router.get("/{job_id}/eta")
def when(job_id: JobId, engine: Server, _user: Caller) -> EtaView:
    """When it starts, as a range, and how good such estimates were lately."""
    row = job_of(engine, job_id)
    return eta(engine, row, job_view(engine, row))


@router.patch("/{job_id}")
def change(job_id: JobId, body: PriorityRequest, engine: Server, user: Caller) -> JobView:
    """Set the priority, which orders jobs inside one budget."""
    live_job_for(engine, user, job_id)
    engine.set_priority(job_id, body.priority, user.name)
    return _now(engine, job_id)


@router.post("/{job_id}/cancel")
def cancel(job_id: JobId, engine: Server, user: Caller) -> JobView:
    """Cancel: a queued job ends at once, a running one is warned and then killed.

    Once more does nothing, so that it can be sent again when no answer came.
    """
    try:
        live_job_for(engine, user, job_id)
        engine.cancel(job_id, user.name)
    except Conflict:
        if job_of(engine, job_id).state != JobState.CANCELLED:
            raise
    return _now(engine, job_id)


@router.post("/{job_id}/hold")
def hold(job_id: JobId, engine: Server, user: Caller) -> JobView:
    """Keep it from starting. A running job runs on, and is held when it is back in the queue."""
    live_job_for(engine, user, job_id)
    engine.hold(job_id, user.name)
    return _now(engine, job_id)


@router.post("/{job_id}/release")
def release(job_id: JobId, engine: Server, user: Caller) -> JobView:
    """Undo a hold. What a manager or an administrator holds, the job's owner cannot release."""
    row = live_job_for(engine, user, job_id)
    check_release(engine, user, row.id, row.user)
    engine.release(job_id, user.name)
    return _now(engine, job_id)


@router.post("/{job_id}/checkpoint")
def checkpoint(job_id: JobId, engine: Server, user: Caller) -> JobView:
    """Report that its running attempt has saved a checkpoint."""
    live_job_for(engine, user, job_id)
    engine.checkpoint(job_id, user.name)
    return _now(engine, job_id)


@router.post("/{job_id}/evict")
def evict(job_id: JobId, body: EvictRequest, engine: Server, user: Admin) -> JobView:
    """Evict it although nothing outranks it, protected or not. It is recorded who did it and why."""
    if not body.why.strip():
        raise Refusal(Reason.BAD_VALUE, "why", '""', "say why, for the record and for the job's owner")
    live_job_for(engine, user, job_id)
    engine.evict(job_id, user.name, body.why)
    return _now(engine, job_id)


def _now(engine: Engine, job_id: int) -> JobView:
    return job_view(engine, job_of(engine, job_id))
