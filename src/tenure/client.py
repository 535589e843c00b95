"""A typed client of the API: ``Client().submit(...)``. It finds the server by itself (see ``find_server``)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from tenure.api.address import Address, Unreachable, find_server
from tenure.api.balance_models import BalanceView
from tenure.api.eta_models import EtaView
from tenure.api.models import (
    AppliedView,
    ArrayView,
    AuditView,
    BatchView,
    BudgetView,
    ChangeView,
    ConfigView,
    EvictionView,
    HostView,
    JobDetail,
    JobView,
    NewToken,
    Page,
    Problem,
    StatusView,
    Submitted,
    TokenView,
    UserView,
)
from tenure.api.notice_models import NoticeView, TestedView, ToldView
from tenure.api.plan_models import PlanView
from tenure.api.requests import JobRequest, NoticeRequest
from tenure.api.why_models import Why

M = TypeVar("M", bound=BaseModel)
MAX_WAIT_MS = 30_000
_PAST_MS = 300_000
"""How much longer than usual an answer about the past may take."""
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 3.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

__all__ = ["Address", "Client", "LogChunk", "TenureError", "Unreachable", "find_server"]


class TenureError(Exception):
    """The server refused, with its problem details; ``status`` is the HTTP status."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.status = problem.status
        super().__init__(problem.detail)


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Bytes of a log. ``complete``: the attempt has ended and nothing follows; ``attempt`` 0: none yet."""

    data: bytes
    attempt: int
    offset: int
    next: int
    complete: bool


class Client:
    """All requests of the API. Every method raises TenureError and Unreachable.

    ``patience_s``: how long a server that does not answer (it may be restarting) is tried again, where a second try
    does no harm. A client may be used by several threads.
    """

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

    # ---- jobs

    def submit(self, request: JobRequest | Mapping[str, Any]) -> Submitted:
        """Submit once, however often the connection breaks: a client key is added when there is none."""
        body = request.model_dump(exclude_none=True) if isinstance(request, JobRequest) else dict(request)
        body.setdefault("client_key", uuid.uuid4().hex)
        return self._call(Submitted, "POST", "/v1/jobs", json=body, again=True)

    def plan(self, request: JobRequest | Mapping[str, Any]) -> PlanView:
        """What would happen if it were submitted now. Nothing is."""
        body = request.model_dump(exclude_none=True) if isinstance(request, JobRequest) else dict(request)
        return self._call(PlanView, "POST", "/v1/jobs/plan", json=body, again=True)

    def job(self, job_id: int) -> JobDetail:
        return self._call(JobDetail, "GET", f"/v1/jobs/{job_id}")

    def why(self, job_id: int, *, at: str | None = None, reasons: bool = False) -> Why:
        """Why the job is where it is: one sentence, the arithmetic behind it, and its story so far.

        ``at``: as it was then, RFC 3339, or so long ago: ``2h30m``. ``reasons``: with what held it up halfway through
        its longest waits. Both may take the server some seconds.
        """
        query = {"at": at, "reasons": reasons or None}
        wait_ms = _PAST_MS if at is not None or reasons else 0
        return self._call(Why, "GET", f"/v1/jobs/{job_id}/why", query=query, wait_ms=wait_ms)

    def eta(self, job_id: int) -> EtaView:
        """When it starts, as a range, and how good such estimates were."""
        return self._call(EtaView, "GET", f"/v1/jobs/{job_id}/eta")

    def jobs_page(
        self,
        *,
        state: Sequence[str] = (),
        user: Sequence[str] = (),
        budget: str | None = None,
        cluster: str | None = None,
        since: str | None = None,
        array: int | None = None,
        indices: str | None = None,
        fold: bool = False,
        all: bool = False,
        runs: bool = False,
        after: int | None = None,
        limit: int = 100,
    ) -> Page[JobView]:
        """One page, newest first. ``since`` is RFC 3339, ``indices`` of an array like ``0-3,7``.

        ``fold``: one for all jobs of an array that have never started. ``runs``: with all attempts of each.
        """
        query = {
            "state": list(state),
            "user": list(user),
            "budget": budget,
            "cluster": cluster,
            "since": since,
            "array": array,
            "indices": indices,
            "fold": fold,
            "all": all,
            "runs": runs,
            "after": after,
            "limit": limit,
        }
        return self._call(Page[JobView], "GET", "/v1/jobs", query=query)

    def jobs(self, *, limit: int | None = None, **filters: Any) -> Iterator[JobView]:
        """Jobs, newest first, page by page; ``filters`` as for ``jobs_page``."""
        after, left = None, limit
        while left is None or left > 0:
            page = self.jobs_page(after=after, limit=min(left or 1000, 1000), **filters)
            yield from page.items
            left = None if left is None else left - len(page.items)
            after = page.next
            if after is None:
                return

    def cancel(self, job_id: int) -> JobView:
        return self._call(JobView, "POST", f"/v1/jobs/{job_id}/cancel")

    def hold(self, job_id: int) -> JobView:
        return self._call(JobView, "POST", f"/v1/jobs/{job_id}/hold")

    def release(self, job_id: int) -> JobView:
        return self._call(JobView, "POST", f"/v1/jobs/{job_id}/release")

    def array(self, array_id: int) -> ArrayView:
        return self._call(ArrayView, "GET", f"/v1/arrays/{array_id}")

    def cancel_array(self, array_id: int, indices: str | None = None) -> ArrayView:
        """All live jobs of an array, or those with ``indices`` like ``0-3,7``."""
        return self._call(ArrayView, "POST", f"/v1/arrays/{array_id}/cancel", json={"indices": indices})

    def hold_array(self, array_id: int, indices: str | None = None) -> ArrayView:
        return self._call(ArrayView, "POST", f"/v1/arrays/{array_id}/hold", json={"indices": indices})

    def release_array(self, array_id: int, indices: str | None = None) -> ArrayView:
        return self._call(ArrayView, "POST", f"/v1/arrays/{array_id}/release", json={"indices": indices})

    def checkpoint(self, job_id: int) -> JobView:
        return self._call(JobView, "POST", f"/v1/jobs/{job_id}/checkpoint")

    def evict(self, job_id: int, why: str) -> JobView:
        return self._call(JobView, "POST", f"/v1/jobs/{job_id}/evict", json={"why": why})

    def set_priority(self, job_id: int, priority: int) -> JobView:
        return self._call(JobView, "PATCH", f"/v1/jobs/{job_id}", json={"priority": priority}, again=True)

    def logs(
        self,
        job_id: int,
        *,
        replica: int = 0,
        stream: str = "stdout",
        attempt: int | None = None,
        offset: int = 0,
        limit: int = 65_536,
        wait_ms: int = 0,
    ) -> LogChunk:
        """Output of one replica (counted over all roles) of the last attempt, or of attempt number ``attempt``."""
        query = {
            "replica": replica,
            "stream": stream,
            "attempt": attempt,
            "offset": offset,
            "limit": limit,
            "wait_ms": wait_ms,
        }
        answer = self._send("GET", f"/v1/jobs/{job_id}/logs", query=query, wait_ms=wait_ms)
        headers = answer.headers
        return LogChunk(
            data=answer.content,
            attempt=int(headers["X-Tenure-Attempt"]),
            offset=int(headers["X-Tenure-Offset"]),
            next=int(headers["X-Tenure-Next"]),
            complete=headers["X-Tenure-Complete"] == "true",
        )

    def wait_once(self, job_id: int, *, wait_ms: int = MAX_WAIT_MS, unless: str | None = None) -> JobView:
        """The job when it has ended, when its state is no longer ``unless``, or after ``wait_ms``."""
        query = {"timeout_ms": wait_ms, "state": unless}
        return self._call(JobView, "GET", f"/v1/jobs/{job_id}/wait", query=query, wait_ms=wait_ms)

    def wait(self, job_id: int, timeout_s: float | None = None) -> JobView:
        """Wait until the job has ended. Raises TimeoutError after ``timeout_s``."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = MAX_WAIT_MS if end is None else int(1000 * (end - time.monotonic()))
            job = self.wait_once(job_id, wait_ms=max(0, min(left, MAX_WAIT_MS)))
            if job.ended:
                return job
            if left <= 0:
                raise TimeoutError(f"job {job_id} is still {job.state} after {timeout_s} s")

    # ---- the cluster

    def budgets(self, cluster: str | None = None) -> list[BudgetView]:
        return self._call(Page[BudgetView], "GET", "/v1/budgets", query={"cluster": cluster}).items

    def balance(
        self, budget: str, cluster: str | None = None, *, person: str | None = None, jobs: int = 10
    ) -> BalanceView:
        """The statement of a budget. ``person``: of people and jobs only theirs; ``jobs``: so many of the largest."""
        query = {"cluster": cluster, "person": person, "jobs": jobs}
        return self._call(BalanceView, "GET", f"/v1/budgets/{quote(budget, safe='/')}/balance", query=query)

    def hosts(self, cluster: str | None = None) -> list[HostView]:
        return self._call(Page[HostView], "GET", "/v1/hosts", query={"cluster": cluster}).items

    def drain(self, cluster: str, host: str, why: str = "", deadline: str | None = None) -> HostView:
        """``deadline`` is RFC 3339."""
        return self._host(cluster, host, "drain", {"why": why, "deadline": deadline})

    def resume_host(self, cluster: str, host: str, why: str = "") -> HostView:
        return self._host(cluster, host, "resume", {"why": why})

    def fail_host(self, cluster: str, host: str, why: str = "") -> HostView:
        return self._host(cluster, host, "fail", {"why": why})

    def _host(self, cluster: str, host: str, action: str, body: dict[str, Any]) -> HostView:
        return self._call(HostView, "POST", f"/v1/hosts/{_part(cluster)}/{_part(host)}/{action}", json=body)

    def status(self) -> StatusView:
        return self._call(StatusView, "GET", "/v1/status")

    def pause(self, scope: str = "starts") -> StatusView:
        return self._call(StatusView, "POST", "/v1/pause", json={"scope": scope})

    def resume(self, scope: str = "starts") -> StatusView:
        return self._call(StatusView, "POST", "/v1/resume", json={"scope": scope})

    def config(self) -> ConfigView:
        return self._call(ConfigView, "GET", "/v1/config")

    def apply(self, clusters: tuple[str, str], budgets: tuple[str, str], *, dry_run: bool) -> AppliedView:
        """Two files as (name, text)."""
        body = {
            "clusters": {"name": clusters[0], "text": clusters[1]},
            "budgets": {"name": budgets[0], "text": budgets[1]},
            "dry_run": dry_run,
        }
        return self._call(AppliedView, "POST", "/v1/apply", json=body)

    # ---- what happened

    def changes(self, after: int, wait_ms: int = 0) -> int:
        """The newest batch's number, as soon as it is above ``after``."""
        query = {"after": after, "wait_ms": wait_ms}
        return self._call(ChangeView, "GET", "/v1/changes", query=query, wait_ms=wait_ms).seq

    def decisions(self, after: int | None = None, limit: int = 200, wait_ms: int = 0) -> Page[BatchView]:
        query = {"after": after, "limit": limit, "wait_ms": wait_ms}
        return self._call(Page[BatchView], "GET", "/v1/decisions", query=query, wait_ms=wait_ms)

    def evictions(self, after: int | None = None, limit: int = 100, job: int | None = None) -> Page[EvictionView]:
        query = {"after": after, "limit": limit, "job": job}
        return self._call(Page[EvictionView], "GET", "/v1/evictions", query=query)

    def audit(self, since: str | None = None, limit: int = 100) -> list[AuditView]:
        return self._call(Page[AuditView], "GET", "/v1/audit", query={"since": since, "limit": limit}).items

    def metrics(self) -> str:
        return self._send("GET", "/metrics").text

    # ---- people

    def me(self) -> UserView:
        return self._call(UserView, "GET", "/v1/me")

    def users(self) -> list[UserView]:
        return self._call(Page[UserView], "GET", "/v1/users").items

    def add_user(self, name: str, role: str = "user") -> UserView:
        return self._call(UserView, "POST", "/v1/users", json={"name": name, "role": role})

    def change_user(self, name: str, *, role: str | None = None, disabled: bool | None = None) -> UserView:
        body = {"role": role, "disabled": disabled}
        return self._call(UserView, "PATCH", f"/v1/users/{_part(name)}", json=body)

    def tokens(self, of: str | None = None) -> list[TokenView]:
        return self._call(Page[TokenView], "GET", "/v1/tokens", query={"of": of}).items

    def add_token(self, user: str, label: str = "", expires_at: str | None = None) -> str:
        """A new token, in plain. ``expires_at`` is RFC 3339."""
        body = {"label": label, "expires_at": expires_at}
        return self._call(NewToken, "POST", f"/v1/users/{_part(user)}/tokens", json=body).token

    def notice(self, user: str) -> NoticeView:
        """How somebody is told what becomes of their jobs."""
        return self._call(NoticeView, "GET", f"/v1/users/{_part(user)}/notice")

    def set_notice(self, user: str, change: NoticeRequest | Mapping[str, Any]) -> NoticeView:
        """Change that. The answer has the secret of a new webhook, which is not shown again."""
        body = change.model_dump(exclude_none=True) if isinstance(change, NoticeRequest) else dict(change)
        return self._call(NoticeView, "PATCH", f"/v1/users/{_part(user)}/notice", json=body)

    def test_notice(self, user: str) -> list[int]:
        """Send something to every address of somebody; the ids under which the log has it."""
        return self._call(TestedView, "POST", f"/v1/users/{_part(user)}/notice/test").ids

    def notice_log(self, user: str, after: int | None = None, limit: int = 100) -> Page[ToldView]:
        """What somebody was and will be told, newest first."""
        query = {"after": after, "limit": limit}
        return self._call(Page[ToldView], "GET", f"/v1/users/{_part(user)}/notice/log", query=query)

    def revoke_token(self, token_id: int) -> None:
        self._send("DELETE", f"/v1/tokens/{token_id}")

    # ---- how

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
        request = self._http.build_request(method, path, params=params, json=json)
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

    def __init__(self, client: Client) -> None:
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


def _part(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")
