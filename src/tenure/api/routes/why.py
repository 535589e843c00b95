"""Why a job is where it is."""

from __future__ import annotations

from fastapi import APIRouter

from tenure.api.context import Caller, JobId, Server, job_of
from tenure.api.job_views import job_view
from tenure.api.why_models import Why
from tenure.api.why_views import ended_view, why_view
from tenure.why import answer

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("/{job_id}/why")
def why(job_id: JobId, engine: Server, _user: Caller) -> Why:
    """Why it waits, or how safe it is where it runs: one sentence, and the arithmetic behind it."""
    row = job_of(engine, job_id)
    with engine.view() as state:  # the engine waits meanwhile: words are made outside
        job = state.jobs.get(job_id)
        found = answer(state, job) if job is not None else None
    if found is not None:
        return why_view(found)
    return ended_view(job_view(engine, job_of(engine, row.id)), engine.now())
