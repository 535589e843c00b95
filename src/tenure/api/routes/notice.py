"""How people want to be told what becomes of their jobs, and what they were told."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request

from tenure.api import problems
from tenure.api.context import NO_CONTROL, Caller, Limit, Server
from tenure.api.fields import MAX_INT
from tenure.api.models import Page
from tenure.api.notice_models import NoticeView, TestedView, ToldView
from tenure.api.requests import NoticeRequest
from tenure.core import codec
from tenure.core.model import MINUTE
from tenure.engine.clock import wall_ms
from tenure.engine.engine import Engine
from tenure.engine.errors import Conflict, NotFound
from tenure.notice import signing
from tenure.notice.courier import Courier
from tenure.notice.kinds import TEST, URGENT, USUAL
from tenure.notice.person import Person, due_at, parse_digest, person_of
from tenure.notice.target import parse_target
from tenure.notice.teller import People
from tenure.store import AuditRow, NoticePersonRow, NoticeRow, UserRow
from tenure.units import UnitError

router = APIRouter(prefix="/v1/users/{name}/notice", tags=["notice"])

TEST_GAP = MINUTE
"""ms between two tests to one person: the address may be somebody else's."""

UserName = Annotated[str, Path(max_length=200, pattern=NO_CONTROL)]


def _courier(request: Request) -> Courier:
    courier: Courier = request.app.state.courier
    return courier


def _theirs(name: UserName, engine: Server, user: Caller) -> str:
    """The name of who it is about: the caller, or for administrators anybody. Raises Failed (403) and NotFound."""
    if user.role != "admin" and name != user.name:
        raise problems.not_allowed("only administrators see and change how others are told")
    if engine.store.user(name) is None:
        raise NotFound("user", name, [row.name for row in engine.store.list_users()])
    return name


Theirs = Annotated[str, Depends(_theirs)]
Delivery = Annotated[Courier, Depends(_courier)]


@router.get("")
def show(engine: Server, name: Theirs) -> NoticeView:
    """How somebody is told: you, or anybody when you are an administrator."""
    return _view(engine, name)


@router.patch("")
def change(body: NoticeRequest, engine: Server, user: Caller, courier: Delivery, name: Theirs) -> NoticeView:
    """Change how somebody is told. A new webhook's secret is in the answer, and is not shown again."""
    _check(engine, body)
    now = wall_ms()
    # What happened before they asked is not told, and things happen by engine time.
    old = engine.store.notice_person(name) or _first(name, engine.present())
    new = replace(old, changed_at=now, **_given(body))
    fresh = bool(new.webhook) and (new.webhook != old.webhook or body.new_secret)
    if fresh:
        new = replace(new, salt=signing.new_salt())
    secret = _secret(courier, new.salt) if fresh else None
    put = engine.store.put_notice_person
    put(new, _audit(user, name, body, now), _due(new, now) if _when_of(new) != _when_of(old) else None)
    courier.poke()
    return _view(engine, name).model_copy(update={"secret": secret})


@router.post("/test", status_code=202)
def test(engine: Server, user: Caller, courier: Delivery, name: Theirs) -> TestedView:
    """Send something to every address of somebody, at once; the log says what became of it.

    Once a minute, and not by a channel whose last test is still on its way; 429 when nothing may be sent.
    """
    person = _person(engine, name)
    if person is None or not person.channels():
        raise Conflict("there is no address to send anything to", "set one: tenure notice set --webhook or --email")
    now, key = wall_ms(), f"{TEST}:{uuid.uuid4().hex}"
    title = f"A test, asked for by {user.name}"
    text = "If you can read this, notices reach you."
    data = codec.dumps({"kind": TEST, "user": name, "who": user.name})
    row = NoticeRow(key, 0, now, name, "", TEST, 0, title, text, data, "waiting", now)
    rows = [replace(row, channel=channel.value) for channel in person.channels()]
    ids, again = engine.store.add_tests(rows, now, TEST_GAP)
    if not ids:
        raise _too_often(name, again)
    courier.poke()
    return TestedView(ids=ids)


@router.get("/log")
def told(
    engine: Server,
    name: Theirs,
    after: Annotated[int | None, Query(ge=1, le=MAX_INT, description="the last id of the page before")] = None,
    limit: Limit = 100,
) -> Page[ToldView]:
    """What somebody was and will be told, newest first, and what became of it."""
    rows, put_off = engine.store.notice_log(name, limit, after), engine.store.notices_put_off(name)
    return Page(items=[_told(row, put_off) for row in rows], next=rows[-1].id if len(rows) == limit else None)


def _too_often(name: str, again: int) -> problems.Failed:
    """``again``: ms until there may be another test; 0: not before the last one has come to its end."""
    if again:
        seconds = -(-again // 1000)
        detail = f"{name} was sent a test less than a minute ago: ask again in {seconds} s"
        return problems.Failed(429, detail, headers={"Retry-After": str(seconds)})
    detail = f"the last test to {name} is still on its way, and is tried again by itself: tenure notice log says why"
    return problems.Failed(429, detail, headers={"Retry-After": str(TEST_GAP // 1000)})


def _person(engine: Engine, name: str) -> Person | None:
    return People(engine.store, engine.config.notice).get(name)


def _view(engine: Engine, name: str) -> NoticeView:
    row, person = engine.store.notice_person(name), _person(engine, name)
    chosen = row or _first(name, 0)
    if row is None and person is not None:
        chosen = replace(chosen, email=person.email, kinds=codec.dumps(sorted(person.kinds)))
    return NoticeView(
        user=name,
        email=chosen.email,
        webhook=_hidden(engine, chosen.webhook),
        kinds=json.loads(chosen.kinds),
        through=json.loads(chosen.through),
        digest_ms=chosen.digest,
        quiet=chosen.quiet,
        zone=chosen.zone,
        by_default=row is None,
    )


def _hidden(engine: Engine, webhook: str) -> str:
    """A webhook's address without its path. An address that is not allowed any more is still theirs."""
    if not webhook:
        return ""
    try:
        return parse_target(webhook, engine.config.notice.webhook_hosts).shown
    except UnitError:
        return "(not allowed any more)"


def _first(name: str, since: int) -> NoticePersonRow:
    """What holds for somebody who has chosen nothing. ``since``: engine time."""
    kinds, through = codec.dumps(list(USUAL)), codec.dumps(list(URGENT))
    return NoticePersonRow(name, "", "", "", kinds, through, 0, "", "UTC", since, since)


def _when_of(row: NoticePersonRow) -> tuple[object, ...]:
    """What says when somebody is told."""
    return row.digest, row.quiet, row.zone if row.quiet else "", row.through


def _due(row: NoticePersonRow, now: int) -> Callable[[NoticeRow], int]:
    """When something that waits is told by what ``row`` says, so that what comes after it does not overtake it."""
    person = person_of(row)
    return lambda one: one.due_at if one.kind == TEST else due_at(min(one.at, now), one.kind, person)


def _check(engine: Engine, body: NoticeRequest) -> None:
    """What depends on the site. Raises Failed (422)."""
    notice = engine.config.notice
    if body.email:
        if not notice.smtp.host:
            fix = "this server sends no mail: set a webhook, or ask the operator for [notice.smtp]"
            raise problems.bad("email", body.email, fix)
        domain = body.email.rpartition("@")[2].lower()
        if notice.mail_domains and domain not in {known.lower() for known in notice.mail_domains}:
            raise problems.bad("email", body.email, f"addresses have to be at {', '.join(notice.mail_domains)}")
    if body.webhook:
        try:
            parse_target(body.webhook, notice.webhook_hosts)
        except UnitError as error:
            raise problems.bad("webhook", error.value, error.fix) from error


def _given(body: NoticeRequest) -> dict[str, Any]:
    """What the request says, as the columns have it."""
    said = body.model_dump(exclude_none=True, exclude={"new_secret", "digest"})
    for field in ("kinds", "through"):
        if field in said:
            said[field] = codec.dumps(said[field])
    if body.digest is not None:
        said["digest"] = parse_digest(body.digest)
    if said.get("zone") == "":
        said["zone"] = "UTC"
    return said


def _secret(courier: Courier, salt: str) -> str:
    try:
        return courier.keys.secret(salt)
    except (OSError, ValueError) as error:
        raise problems.Failed(503, f"the server's key for signatures cannot be used: {error}") from error


def _audit(user: UserRow, name: str, body: NoticeRequest, now: int) -> AuditRow:
    """What was changed, without the address of the webhook: whoever knows it can write there."""
    detail = body.model_dump(exclude_none=True, exclude_defaults=True)
    if body.webhook:
        detail["webhook"] = "(not shown)"
    return AuditRow(now, user.name, "notice changed", name, codec.dumps(detail))


def _told(row: NoticeRow, put_off: Mapping[str, int]) -> ToldView:
    """``put_off``: channel -> when what did not go through by it is tried again."""
    new = row.state == "waiting" and not row.tries
    return ToldView(
        id=row.id,
        at=row.at,
        kind=row.kind,
        channel=row.channel,
        job=row.job_id or None,
        title=row.title,
        text=row.body,
        state=row.state,
        due_at=row.due_at,
        tries=row.tries,
        behind=new and row.due_at < put_off.get(row.channel, 0),
        done_at=row.done_at,
        error=row.error,
    )
