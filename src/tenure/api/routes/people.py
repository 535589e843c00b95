"""Users, tokens, and the records of who did what to whom."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from tenure import units
from tenure.api import problems
from tenure.api.context import NO_CONTROL, Admin, Caller, Limit, Seq, Server
from tenure.api.fields import MAX_INT
from tenure.api.job_views import eviction_view
from tenure.api.models import AuditView, EvictionView, NewToken, Page, TokenView, UserView
from tenure.api.requests import TokenRequest, UserChange, UserRequest
from tenure.core import codec
from tenure.engine.clock import wall_ms
from tenure.engine.engine import Engine
from tenure.engine.errors import Conflict, NotFound
from tenure.store import AuditRow, TokenRow, UnknownUser, UserExists, UserRow

router = APIRouter(prefix="/v1", tags=["people and records"])

UserName = Annotated[str, Path(max_length=200, pattern=NO_CONTROL)]


def _user(row: UserRow) -> UserView:
    return UserView(name=row.name, role=row.role, created_at=row.created_at, disabled=row.disabled)


def _token(row: TokenRow) -> TokenView:
    return TokenView(
        id=row.id,
        user=row.user,
        label=row.label,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        expires_at=row.expires_at,
    )


def _record(engine: Engine, who: UserRow, action: str, target: str, **detail: Any) -> None:
    engine.store.record_audit([AuditRow(wall_ms(), who.name, action, target, codec.dumps(detail))])


def _known(engine: Engine, name: str) -> UserRow:
    row = engine.store.user(name)
    if row is None:
        raise NotFound("user", name, [user.name for user in engine.store.list_users()])
    return row


@router.get("/me")
def me(user: Caller) -> UserView:
    """Whose token this is."""
    return _user(user)


@router.get("/users")
def users(engine: Server, _user_: Admin) -> Page[UserView]:
    return Page(items=[_user(row) for row in engine.store.list_users()])


@router.post("/users", status_code=201)
def add_user(body: UserRequest, engine: Server, user: Admin) -> UserView:
    try:
        row = engine.store.add_user(body.name, body.role, wall_ms())
    except UserExists as error:
        raise Conflict(str(error), "choose another name") from error
    _record(engine, user, "user added", body.name, role=body.role)
    return _user(row)


@router.patch("/users/{name}")
def change_user(name: UserName, body: UserChange, engine: Server, user: Admin) -> UserView:
    """Change a role, or disable somebody: their tokens then open nothing."""
    _known(engine, name)
    if name == user.name:
        raise Conflict("this is you", "let another administrator change you")
    try:
        if body.role is not None:
            engine.store.set_user_role(name, body.role)
        if body.disabled is not None:
            engine.store.set_user_disabled(name, body.disabled)
    except UnknownUser as error:
        raise NotFound("user", name) from error
    _record(engine, user, "user changed", name, **body.model_dump(exclude_none=True))
    return _user(_known(engine, name))


@router.get("/tokens")
def tokens(
    engine: Server, user: Caller, of: Annotated[str | None, Query(max_length=200, pattern=NO_CONTROL)] = None
) -> Page[TokenView]:
    """Your tokens; for administrators anybody's (``of``), or all."""
    if user.role != "admin" and of not in (None, user.name):
        raise problems.not_allowed("only administrators see other people's tokens")
    wanted = of if user.role == "admin" else user.name
    return Page(items=[_token(row) for row in engine.store.list_tokens(wanted)])


@router.post("/users/{name}/tokens", status_code=201)
def add_token(name: UserName, body: TokenRequest, engine: Server, user: Caller) -> NewToken:
    """A new token for yourself, or for anybody when you are an administrator. It is shown this once."""
    if user.role != "admin" and name != user.name:
        raise problems.not_allowed("only administrators make tokens for others")
    _known(engine, name)
    now = wall_ms()
    if body.expires_at is not None and body.expires_at <= now:
        raise problems.bad("expires_at", units.format_time(body.expires_at), "name a time to come")
    token = engine.store.create_token(name, body.label, now, body.expires_at)
    _record(engine, user, "token made", name, label=body.label)
    return NewToken(token=token)


@router.delete("/tokens/{token_id}", status_code=204)
def revoke_token(token_id: Annotated[int, Path(ge=1, le=MAX_INT)], engine: Server, user: Caller) -> None:
    """Revoke a token of yours, or anybody's when you are an administrator."""
    if not engine.store.revoke_token(token_id, None if user.role == "admin" else user.name):
        raise NotFound("token", str(token_id))
    _record(engine, user, "token revoked", str(token_id))


@router.get("/evictions", tags=["follow"])
def evictions(
    engine: Server,
    _user_: Caller,
    after: Seq | None = None,
    job: Annotated[int | None, Query(ge=1, le=MAX_INT, description="as victim or as gainer")] = None,
    limit: Limit = 100,
) -> Page[EvictionView]:
    """The newest evictions first, or with ``after`` those that follow that id, oldest first, page by page."""
    if after is None:
        return Page(items=[eviction_view(row) for row in engine.store.evictions(limit=limit, job_id=job)])
    rows = engine.store.evictions_since(after, limit)
    last = rows[-1].id if rows else after
    found = [eviction_view(row) for row in rows if job in (None, row.job_id, row.gainer)]
    return Page(items=found, next=last if len(rows) == limit else None)


@router.get("/audit")
def audit(
    engine: Server,
    _user_: Admin,
    since: Annotated[str | None, Query(max_length=64, description="then or later, RFC 3339")] = None,
    limit: Limit = 100,
) -> Page[AuditView]:
    """What people did, newest first."""
    try:
        start = units.parse_time(since) if since is not None else None
    except units.UnitError as error:
        raise problems.bad("since", since, error.fix) from error
    rows = engine.store.audit_log(since=start, limit=limit)
    return Page(
        items=[
            AuditView(id=r.id, at=r.at, who=r.who, action=r.action, target=r.target, detail=json.loads(r.detail))
            for r in rows
        ]
    )
