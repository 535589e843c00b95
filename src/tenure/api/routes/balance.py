"""A budget's statement."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from tenure.api.balance_models import BalanceView
from tenure.api.balance_views import balance_view
from tenure.api.context import NO_CONTROL, Caller, Server
from tenure.api.routes.cluster import ClusterFilter

router = APIRouter(prefix="/v1/budgets", tags=["cluster"])

BudgetPath = Annotated[str, Path(max_length=1000, pattern=NO_CONTROL, description="lab/language/pretrain")]


@router.get("/{path:path}/balance")
def balance(
    path: BudgetPath,
    engine: Server,
    _user: Caller,
    cluster: ClusterFilter = None,
    person: Annotated[
        str | None, Query(max_length=200, pattern=NO_CONTROL, description="of people and jobs only theirs")
    ] = None,
    jobs: Annotated[int, Query(ge=0, le=1000, description="so many of the largest jobs")] = 10,
) -> BalanceView:
    """A budget's week: what was used and is promised, what comes back when, what lapses, and who used what."""
    return balance_view(engine, path, cluster, person, jobs)
