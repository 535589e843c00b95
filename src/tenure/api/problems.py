"""Errors as RFC 9457 problem details: every one says the field, the value and what would work, where it can."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from tenure.api import requests
from tenure.api.models import FieldError, Problem
from tenure.config import ConfigError
from tenure.core.reasons import Refusal
from tenure.engine.errors import Conflict, EngineStopped, NotFound
from tenure.units import UnitError

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"
_SHOWN = 80
_TITLES = {
    400: "The request cannot be read",
    401: "Who are you?",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Not possible now",
    413: "Too large",
    422: "Some values do not work",
    429: "Too often",
    500: "The server failed",
    503: "Not available now",
}
_KINDS = {
    401: "unauthenticated",
    403: "forbidden",
    404: "not-found",
    409: "conflict",
    413: "too-large",
    429: "too-often",
}
_REMEDIES = {
    "int_type": "write a whole number, like 8",
    "int_from_float": "write a whole number, like 8",
    "int_parsing": "write a whole number, like 8",
    "int_parsing_size": "write a number of at most 64 bits",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "string_type": 'write text in quotes, like "text"',
    "string_unicode": "write it as UTF-8",
    "list_type": 'write a list, like ["one", "two"]',
    "dict_type": 'write an object, like {"key": "value"}',
    "model_type": 'write an object, like {"key": "value"}',
    "too_short": "write at least one",
    "string_pattern_mismatch": "write letters, digits and . _ @ + - only",
    "model_attributes_type": 'write an object, like {"key": "value"}',
}
_EXAMPLES = {
    "budget": '"lab/language/pretrain"',
    "command": '["python", "train.py"]',
    "why": '"its fan is broken"',
    "name": '"ann"',
    "key": '"rack"',
}
_KNOWN = {name: sorted(model.model_fields) for name, model in vars(requests).items() if hasattr(model, "model_fields")}


class Failed(Exception):
    """A request that ends in a problem of ``status``."""

    def __init__(
        self, status: int, detail: str, errors: Sequence[FieldError] = (), headers: dict[str, str] | None = None
    ) -> None:
        self.status, self.detail, self.errors, self.headers = status, detail, tuple(errors), headers
        super().__init__(detail)


def bad(field: str, value: object, fix: str, status: int = 422) -> Failed:
    """A problem with one value."""
    error = FieldError(field=clean(field), value=shown(value), fix=clean(fix))
    return Failed(status, f"{error.field} = {error.value}: {error.fix}", [error])


def not_allowed(detail: str) -> Failed:
    return Failed(403, detail)


def clean(text: str) -> str:
    """Text that UTF-8 can carry."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shown(value: object) -> str:
    """A value for people, shortened, never empty."""
    if isinstance(value, bytes):
        value = value[: 2 * _SHOWN].decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        text = value if value.isprintable() else json.dumps(value[: 2 * _SHOWN])
    elif isinstance(value, int) and value.bit_length() > 256:
        text = "(a number of more than 256 bits)"
    elif isinstance(value, dict | list):
        text = json.dumps(_cut(value, 3), default=str)
    else:
        text = json.dumps(value, default=str)
    text = clean(text) or '""'
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _cut(value: object, depth: int) -> object:
    """The beginning of a value: what is deep or long in it makes no difference to what is shown."""
    if isinstance(value, dict):
        return {str(k)[:_SHOWN]: _cut(v, depth - 1) for k, v in list(value.items())[:5]} if depth else "..."
    if isinstance(value, list):
        return [_cut(v, depth - 1) for v in value[:10]] if depth else "..."
    if isinstance(value, int) and value.bit_length() > 256:
        return "(a number of more than 256 bits)"
    return value


def response(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    body = problem.model_dump_json(exclude_none=True)
    return Response(body, status_code=problem.status, media_type=MEDIA_TYPE, headers=headers)


def problem(status: int, detail: str, kind: str = "", **more: Any) -> Problem:
    """A problem with its type as a URN, such as ``urn:tenure:refused``."""
    name = kind or _KINDS.get(status, "bad-request" if status < 500 else "failed")
    title = _TITLES.get(status, "The request did not work")
    return Problem(type=f"urn:tenure:{name}", title=title, status=status, detail=clean(detail), **more)


def install(app: FastAPI) -> None:
    """Turn everything that a route can raise into a problem."""
    app.add_exception_handler(Failed, _failed)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(NotFound, _not_found)
    app.add_exception_handler(Conflict, _conflict)
    app.add_exception_handler(EngineStopped, _stopped)
    app.add_exception_handler(TimeoutError, _busy)
    app.add_exception_handler(ConfigError, _config)
    app.add_exception_handler(UnitError, _unit)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(SQLAlchemyError, _unexpected)
    app.add_exception_handler(Exception, _unexpected)


def _failed(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Failed)
    return response(problem(error.status, error.detail, errors=list(error.errors)), error.headers)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    field = error.field.replace(".mem", ".memory")
    if getattr(request.state, "one_role", False):
        field = field.removeprefix("roles[0].")
    item = FieldError(field=clean(field), value=shown(error.value), fix=clean(error.fix))
    detail = f"{item.field} = {item.value}: {item.fix}"
    return response(problem(422, detail, "refused", errors=[item], reason=error.reason.value))


def _not_found(_request: Request, error: Exception) -> Response:
    assert isinstance(error, NotFound)
    close = get_close_matches(error.name, error.known, n=1)
    listed = ", ".join(sorted(error.known)[:8])
    hint = f"; did you mean {close[0]}?" if close else f"; there are: {listed}" if listed else ""
    item = FieldError(field=error.what, value=shown(error.name), fix=clean(f"there is no such {error.what}{hint}"))
    return response(problem(404, str(error), errors=[item]))


def _conflict(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Conflict)
    return response(problem(409, str(error)))


def _stopped(_request: Request, _error: Exception) -> Response:
    return _unavailable("the scheduler is stopping, starting or very busy; try again in a moment")


def _busy(request: Request, error: Exception) -> Response:
    """Who waited in vain says for what, if it is one of ours."""
    return _unavailable(str(error)) if str(error) else _stopped(request, error)


def _unavailable(detail: str) -> Response:
    return response(problem(503, detail, "unavailable"), {"Retry-After": "2"})


def _config(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ConfigError)
    items = [
        FieldError(field=clean(f"{p.file}: {p.field}"), value=shown(p.value), fix=clean(p.remedy))
        for p in error.problems
    ]
    more = f", and {len(items) - 1} more" if len(items) > 1 else ""
    detail = f"{items[0].field} = {items[0].value}: {items[0].fix}{more}"
    return response(problem(422, detail, "configuration", errors=items))


def _unit(_request: Request, error: Exception) -> Response:
    assert isinstance(error, UnitError)
    return response(problem(422, str(error)))


def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail or _TITLES.get(error.status_code, "")
    errors: list[FieldError] = []
    if error.status_code == 404:
        detail = "there is no such address; /openapi.json lists all"
    elif error.status_code == 400:
        # What the parser of JSON itself gives up on: broken UTF-8, nesting or numbers without end.
        errors = [FieldError(field="(body)", value="(unreadable)", fix="send JSON as UTF-8, not nested deeply")]
    return response(problem(error.status_code, detail, errors=errors), dict(error.headers or {}))


def _unexpected(request: Request, error: Exception) -> Response:
    """A fault of ours: what happened goes into the log, and the caller gets the id under which it is there."""
    number = uuid.uuid4().hex
    log.error("request_failed", id=number, method=request.method, path=request.url.path, exc_info=error)
    detail = f"the server's log says what happened, under id {number}"
    return response(problem(500, detail, id=number))


def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    items = [_item(detail) for detail in error.errors()]
    status = 400 if any(detail["type"] == "json_invalid" for detail in error.errors()) else 422
    more = f", and {len(items) - 1} more" if len(items) > 1 else ""
    detail = f"{items[0].field} = {items[0].value}: {items[0].fix}{more}" if items else "the request is not valid"
    return response(problem(status, detail, "invalid", errors=items))


def _item(detail: dict[str, Any]) -> FieldError:
    place = [part for part in detail["loc"][1:] if part != "[key]"]
    field = _dotted(place) or "(body)"
    kind = detail["type"]
    if kind == "json_invalid":
        why = detail.get("ctx", {}).get("error", "")
        return FieldError(field="(body)", value=f"character {place[0] if place else 0}", fix=f"not JSON: {why}")
    if kind == "missing":
        example = _EXAMPLES.get(str(place[-1]) if place else "", "")
        fix = f"add it, like {example}" if example else "add it"
        return FieldError(field=field, value="(missing)", fix=fix)
    return FieldError(field=field, value=shown(detail.get("input")), fix=clean(_remedy(detail, place)))


def _remedy(detail: dict[str, Any], place: Sequence[str | int]) -> str:
    kind = detail["type"]
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, UnitError):
        return cause.fix
    if kind == "extra_forbidden":
        name = str(place[-1])
        close = get_close_matches(name, _all_fields(), n=1)
        return f"there is no such field; did you mean {close[0]}?" if close else "there is no such field; leave it out"
    if kind in ("too_short", "too_long") and isinstance(detail.get("input"), str):
        most = detail.get("ctx", {}).get("max_length")
        return "it must not be empty" if kind == "too_short" else f"at most {most} characters"
    if kind == "model_attributes_type" and isinstance(detail.get("input"), bytes):
        return "send it with Content-Type: application/json"
    if kind in ("enum", "literal_error"):
        return f"write one of {str(detail.get('ctx', {}).get('expected', '')).replace(' or ', ', ')}".replace("'", "")
    if kind == "string_pattern_mismatch" and "x00" in str(detail.get("ctx", {}).get("pattern")):
        return "no control characters"
    message = str(detail["msg"])
    return _REMEDIES.get(kind) or message[:1].lower() + message[1:]


def _all_fields() -> Iterable[str]:
    return sorted({field for fields in _KNOWN.values() for field in fields})


def _dotted(place: Sequence[str | int]) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else ("." if text else "") + (part or '""')
    return clean(text)
