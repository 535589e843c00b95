"""How the client talks to the server: the address, the token, patience with one that restarts."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from json import dumps
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from tenure.api.address import Unreachable, find_server
from tenure.api.models import (
    Problem,
)

M = TypeVar("M", bound=BaseModel)
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 3.0
_JSON = {"Content-Type": "application/json"}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class TenureError(Exception):
    """The server refused, with its problem details; ``status`` is the HTTP status."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.status = problem.status
        super().__init__(problem.detail)


class Connection:
    """One server, and how it is asked."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        patience_s: float = 10.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._given = url, token
        self.address = find_server(url, token)
        if not (self.address.token.isascii() and self.address.token.isprintable()):
            raise Unreachable(f"the token from {self.address.source} has characters that no token has: copy it anew")
        self.patience_s = patience_s
        self._http = httpx.Client(
            base_url=self.address.url,
            auth=_Bearer(self),
            timeout=httpx.Timeout(30.0, connect=5.0),
            transport=transport,
            # A proxy leads out of this machine, and a server on it is not there.
            trust_env=urlsplit(self.address.url).hostname not in _LOOPBACK,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _call(
        self,
        model: type[M],
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        json: Mapping[str, Any] | None = None,
        wait_ms: int = 0,
        again: bool = False,
    ) -> M:
        answer = self._send(method, path, query=query, json=json, wait_ms=wait_ms, again=again)
        try:
            return model.model_validate_json(answer.content)
        except ValidationError as error:
            raise Unreachable(f"{self.address.url} does not answer as this version of Tenure does: {error}") from error

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        json: Mapping[str, Any] | None = None,
        wait_ms: int = 0,
        again: bool = False,
    ) -> httpx.Response:
        params = {key: value for key, value in (query or {}).items() if value is not None}
        # Of ASCII alone: what is no UTF-8 is the server's to refuse, which says where it stands.
        content, headers = (dumps(json), _JSON) if json is not None else (None, None)
        request = self._http.build_request(method, path, params=params, content=content, headers=headers)
        request.extensions["timeout"] = httpx.Timeout(30.0 + wait_ms / 1000, connect=5.0).as_dict()
        repeatable = again or method == "GET"
        end, pause = time.monotonic() + self.patience_s, _FIRST_PAUSE_S
        while True:
            try:
                answer = self._http.send(request)
                if answer.is_success:
                    return answer
                if not (answer.status_code == 503 and repeatable) or time.monotonic() + pause > end:
                    raise _error(answer)
            except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
                raise Unreachable(f"url = {self.address.url}: {error}; write http://host:port") from error
            except httpx.TransportError as error:
                # What was never sent may always be sent again.
                unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                if not (unsent or repeatable) or time.monotonic() + pause > end:
                    raise Unreachable(self._advice(error)) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def refresh(self) -> bool:
        """Look for the server's address again. True when there is a new token: a server that restarts makes one."""
        found = find_server(*self._given)
        if found.url != self.address.url or found.token == self.address.token:
            return False
        self.address = found
        return True

    def _advice(self, error: Exception) -> str:
        why = str(error) or type(error).__name__
        return (
            f"no server answers at {self.address.url} ({why}; address from {self.address.source}): "
            "is it running? `tenure serve` starts it"
        )


class _Bearer(httpx.Auth):
    """The token of a client, which may change while it is in use."""

    def __init__(self, client: Connection) -> None:
        self._client = client

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._client.address.token}"
        answer = yield request
        if answer.status_code == 401 and self._client.refresh():
            request.headers["Authorization"] = f"Bearer {self._client.address.token}"
            yield request


def _error(answer: httpx.Response) -> Exception:
    try:
        return TenureError(Problem.model_validate_json(answer.content))
    except ValidationError:
        return Unreachable(
            f"{answer.url} answered {answer.status_code}, and not as Tenure does: is it the right address?"
        )


def part(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")
