"""What is asked about jobs."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenure.api.eta_models import EtaView
from tenure.api.models import (
    ArrayView,
    JobDetail,
    JobView,
    Page,
    Submitted,
)
from tenure.api.plan_models import PlanView
from tenure.api.requests import JobRequest
from tenure.api.why_models import Why
from tenure.client.connection import Connection

MAX_WAIT_MS = 30_000
_PAST_MS = 300_000
"""How much longer than usual an answer about the past may take."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Bytes of a log. ``complete``: the attempt has ended and nothing follows; ``attempt`` 0: none yet."""

    data: bytes
    attempt: int
    offset: int
    next: int
    complete: bool


class Jobs(Connection):
    """Submitting, following and steering jobs."""

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
        """Of a job that was cancelled before, too: it is sent again when no answer came."""
        return self._call(JobView, "POST", f"/v1/jobs/{job_id}/cancel", again=True)

    def hold(self, job_id: int) -> JobView:
        return self._call(JobView, "POST", f"/v1/jobs/{job_id}/hold")

    def release(self, job_id: int) -> JobView:
        return self._call(JobView, "POST", f"/v1/jobs/{job_id}/release")

    def array(self, array_id: int) -> ArrayView:
        return self._call(ArrayView, "GET", f"/v1/arrays/{array_id}")

    def cancel_array(self, array_id: int, indices: str | None = None) -> ArrayView:
        """All live jobs of an array, or those with ``indices`` like ``0-3,7``."""
        return self._call(ArrayView, "POST", f"/v1/arrays/{array_id}/cancel", json={"indices": indices}, again=True)

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
