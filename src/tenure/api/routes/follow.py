"""What is followed: logs, the end of a job, decisions. Long polls wait without holding a thread."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from tenure.api.changes import Changes
from tenure.api.context import Caller, JobId, Limit, News, Seq, Server, WaitMs, job_of
from tenure.api.feed import batch_view
from tenure.api.fields import MAX_INT, MAX_REPLICAS
from tenure.api.job_views import job_view
from tenure.api.models import BatchView, ChangeView, JobView, Page
from tenure.core.lifecycle import JobState
from tenure.engine.engine import Engine
from tenure.engine.errors import Conflict, NotFound

router = APIRouter(prefix="/v1", tags=["follow"])

MAX_CHUNK = 1 << 20
LOG_POLL_S = 0.2
RECENT_BATCHES = 50


@dataclass(frozen=True, slots=True)
class _Chunk:
    """``complete``: the attempt has ended and nothing follows."""

    data: bytes
    attempt: int
    start: int
    complete: bool


@router.get(
    "/jobs/{job_id}/logs",
    response_class=Response,
    responses={
        200: {
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            "headers": {
                name: {"description": text, "schema": {"type": "string"}}
                for name, text in {
                    "X-Tenure-Attempt": "the attempt's number, 0 while there is none",
                    "X-Tenure-Offset": "where these bytes begin",
                    "X-Tenure-Next": "the offset to ask for next",
                    "X-Tenure-Complete": "true when the attempt has ended and nothing follows",
                }.items()
            },
        }
    },
)
async def logs(
    job_id: JobId,
    engine: Server,
    news: News,
    _user: Caller,
    replica: Annotated[int, Query(ge=0, lt=64 * MAX_REPLICAS, description="counted over all roles")] = 0,
    stream: Literal["stdout", "stderr"] = "stdout",
    attempt: Annotated[int | None, Query(ge=1, le=MAX_INT, description="its number; the last one by default")] = None,
    offset: Annotated[int, Query(ge=-MAX_INT, le=MAX_INT, description="in bytes; negative: from the end")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_CHUNK)] = 65_536,
    wait_ms: WaitMs = 0,
) -> Response:
    """Output of one replica from ``offset`` on. With ``wait_ms``, waits for output when there is none yet."""

    def read() -> _Chunk:
        return _read(engine, job_id, attempt, replica, stream, offset, limit)

    end = asyncio.get_running_loop().time() + wait_ms / 1000
    while True:
        seq = engine.last_seq
        chunk = await run_in_threadpool(read)
        left = end - asyncio.get_running_loop().time()
        if chunk.data or chunk.complete or left <= 0 or news.closed:
            break
        await news.wait(seq, min(left, LOG_POLL_S))
    headers = {
        "X-Tenure-Attempt": str(chunk.attempt),
        "X-Tenure-Offset": str(chunk.start),
        "X-Tenure-Next": str(chunk.start + len(chunk.data)),
        "X-Tenure-Complete": str(chunk.complete).lower(),
    }
    return Response(chunk.data, media_type="application/octet-stream", headers=headers)


def _read(
    engine: Engine, job_id: int, number: int | None, replica: int, stream: str, offset: int, limit: int
) -> _Chunk:
    job = job_of(engine, job_id)
    attempts = engine.store.attempts_of(job_id)
    if number is None:
        found = attempts[-1] if attempts else None
    else:
        found = next((a for a in attempts if a.number == number), None)
        if found is None:
            raise NotFound("attempt", f"{job_id}.{number}", [a.id for a in attempts])
    if found is None:
        return _Chunk(b"", 0, max(0, offset), job.ended_at is not None)
    replicas = len(json.loads(found.slots))
    if replica >= replicas:
        raise NotFound("replica", str(replica), [str(rank) for rank in range(replicas)])
    path = Path(engine.executor.log_path(found.id, replica, stream))
    size, start, data = 0, max(0, offset), b""
    try:
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            size = file.seek(0, 2)
            start = max(0, size + offset) if offset < 0 else offset
            if start < size:
                file.seek(start)
                data = file.read(limit)
    except PermissionError:  # the output of a job that runs as its user
        raise Conflict(f"the server's user may not read {path}", "look at it yourself, on a host that has it") from None
    return _Chunk(data, found.number, start, found.ended_at is not None and start + len(data) >= size)


@router.get("/jobs/{job_id}/wait")
async def wait(
    job_id: JobId,
    engine: Server,
    news: News,
    _user: Caller,
    timeout_ms: WaitMs = 30_000,
    state: Annotated[JobState | None, Query(description="return as soon as it is in another state")] = None,
) -> JobView:
    """The job when it has ended, or after the timeout: look at ``ended``."""

    def look() -> JobView:
        return job_view(engine, job_of(engine, job_id))

    end = asyncio.get_running_loop().time() + timeout_ms / 1000
    while True:
        seq = engine.last_seq
        job = await run_in_threadpool(look)
        left = end - asyncio.get_running_loop().time()
        if job.ended or (state is not None and job.state != state) or left <= 0 or news.closed:
            return job
        await news.wait(seq, left)


@router.get("/changes")
async def changes(engine: Server, news: News, _user: Caller, after: Seq = 0, wait_ms: WaitMs = 0) -> ChangeView:
    """The number of the newest batch, as soon as it is above ``after``: something may have changed."""
    return ChangeView(seq=await news.wait(after, wait_ms / 1000))


@router.get("/decisions")
async def decisions(
    engine: Server, news: News, _user: Caller, after: Seq | None = None, limit: Limit = 200, wait_ms: WaitMs = 0
) -> Page[BatchView]:
    """What happened and was decided, oldest first. Without ``after``: the last 50 batches.

    ``next`` is never null: ask with it for what comes later.
    """
    start = max(0, engine.last_seq - RECENT_BATCHES) if after is None else after
    return await _batches(engine, news, start, limit, wait_ms)


async def _batches(engine: Engine, news: Changes, after: int, limit: int, wait_ms: int) -> Page[BatchView]:
    def read() -> list[BatchView]:
        return [batch_view(row) for row in engine.store.batches(after=after, limit=limit)]

    end = asyncio.get_running_loop().time() + wait_ms / 1000
    while True:
        seq = engine.last_seq
        found = await run_in_threadpool(read)
        after = found[-1].seq if found else after
        items = [batch for batch in found if batch.entries]
        left = end - asyncio.get_running_loop().time()
        if items or left <= 0 or news.closed:
            return Page(items=items, next=after)
        if after >= seq:
            await news.wait(after, left)
