"""What a submission would lead to, without submitting anything."""

from __future__ import annotations

from fastapi import APIRouter, Request

from tenure import units
from tenure.api.context import Caller, Server
from tenure.api.plan_models import PlanView
from tenure.api.plan_views import plan_view
from tenure.api.requests import JobRequest
from tenure.api.routes.jobs import owner_of, wishes_of
from tenure.api.submission import complete
from tenure.engine.wishes import Lookup
from tenure.why.mistakes import warnings
from tenure.why.plan import planned

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.post("/plan")
def plan(body: JobRequest, request: Request, engine: Server, user: Caller) -> PlanView:
    """What would happen if this were submitted now: when and where it would start, whom it would evict, what it costs.

    It is refused for the same reasons. Nothing is submitted. The answer holds for this moment, and for an array's
    first job.
    """
    request.state.one_role = body.roles is None
    owner = owner_of(body, user)
    array = units.parse_array(body.array) if body.array is not None else None
    past = engine.store.past_runs(owner)
    lookup = Lookup(engine.store, wishes_of(body))
    with engine.view() as state:
        completed = complete(body, state, owner)
        waits = lookup.waits(state)
        found = planned(
            state,
            completed.spec,
            held_by=user.name if body.hold else "",
            after=waits.after,
            broken=waits.broken,
            jobs=len(array.indices) if array is not None else 1,
        )
    return plan_view(found, array, warnings(found, past), completed.notes)
