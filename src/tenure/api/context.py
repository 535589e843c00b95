"""What routes need: the engine, who asks, and what they may do."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Query, Request

from tenure.api import problems
from tenure.api.changes import Changes
from tenure.api.fields import MAX_INT
from tenure.api.problems import Failed
from tenure.core.state import State
from tenure.engine.clock import wall_ms
from tenure.engine.engine import Engine
from tenure.engine.errors import Conflict, NotFound
from tenure.engine.past import Past
from tenure.store import ArrayRow, JobRow, UserRow

MAX_WAIT_MS = 30_000
NO_CONTROL = r"^[^\x00-\x1f\x7f]*$"

JobId = Annotated[int, Path(ge=1, le=MAX_INT)]
Seq = Annotated[int, Query(ge=0, le=MAX_INT)]
Limit = Annotated[int, Query(ge=1, le=1000)]
WaitMs = Annotated[int, Query(ge=0, le=MAX_WAIT_MS, description="how long to wait for news, ms")]


def engine_of(request: Request) -> Engine:
    engine: Engine = request.app.state.engine
    return engine


def changes_of(request: Request) -> Changes:
    changes: Changes = request.app.state.changes
    return changes


def past_of(request: Request) -> Past:
    past: Past = request.app.state.past
    return past


Server = Annotated[Engine, Depends(engine_of)]
History = Annotated[Past, Depends(past_of)]
News = Annotated[Changes, Depends(changes_of)]


def caller(request: Request, engine: Server) -> UserRow:
    """Who asks. Raises Failed (401) without a valid token."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    # Times of tokens are wall clock times: they are made for people and other machines.
    user = engine.store.authenticate(token.strip(), wall_ms()) if scheme.lower() == "bearer" else None
    if user is None:
        detail = (
            "this token is unknown, expired or of a disabled user"
            if token
            else "send a token: Authorization: Bearer tnr_..."
        )
        raise Failed(401, detail, headers={"WWW-Authenticate": "Bearer"})
    return user


Caller = Annotated[UserRow, Depends(caller)]


def admin(user: Caller) -> UserRow:
    """An administrator who asks. Raises Failed (403)."""
    if user.role != "admin":
        raise problems.not_allowed("only administrators may do this")
    return user


Admin = Annotated[UserRow, Depends(admin)]


def manages(state: State, user: str, budget: str) -> bool:
    """Whether ``user`` manages this budget or one above it."""
    tree = state.the_tree()
    lines = tree.line(budget) if budget in tree.nodes else ()
    return any((b := tree.nodes[path].budget) is not None and user in b.managers for path in lines)


def may_act_on(state: State, user: UserRow, owner: str, budget: str) -> bool:
    """Their own jobs, those of budgets they manage, and for administrators all."""
    return user.role == "admin" or user.name == owner or manages(state, user.name, budget)


def job_of(engine: Engine, job_id: int) -> JobRow:
    """A job's row. Raises NotFound."""
    row = engine.store.job(job_id)
    if row is None:
        raise NotFound("job", str(job_id))
    return row


def array_of(engine: Engine, array_id: int) -> ArrayRow:
    """An array's row. Raises NotFound."""
    row = engine.store.array(array_id)
    if row is None:
        raise NotFound("array", str(array_id))
    return row


def check_release(engine: Engine, user: UserRow, job_id: int, owner: str) -> None:
    """Raises Failed (403): what a manager or an administrator holds, the job's owner cannot release."""
    with engine.view() as state:
        job = state.jobs.get(job_id)
        held_by = job.held_by if job is not None else ""
        outsider = job is not None and may_act_on(state, user, "", job.budget)
    if held_by not in ("", owner, user.name) and not outsider:
        raise problems.not_allowed(f"job {job_id} is held by {held_by}: ask them, a manager of its budget or an admin")


def live_job_for(engine: Engine, user: UserRow, job_id: int) -> JobRow:
    """A job that has not ended and that ``user`` may act on. Raises NotFound, Conflict and Failed (403)."""
    row = job_of(engine, job_id)
    with engine.view() as state:
        job = state.jobs.get(job_id)
        allowed = may_act_on(state, user, row.user, job.budget if job is not None else row.budget)
    if not allowed:
        raise problems.not_allowed(f"job {job_id} belongs to {row.user}: ask them, a manager of its budget or an admin")
    if job is None:
        state_name = job_of(engine, job_id).state
        raise Conflict(f"job {job_id} has ended ({state_name.replace('_', ' ')})", "nothing can be changed about it")
    return row
