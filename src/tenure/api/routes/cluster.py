"""Budgets, hosts, status, the configuration, and the brake."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from tenure.api.budget_views import budget_views
from tenure.api.cluster_views import host_views, status_view
from tenure.api.context import NO_CONTROL, Admin, Caller, Server
from tenure.api.job_views import reason_view
from tenure.api.models import AppliedView, BudgetView, ConfigView, HostView, Page, PlannedView, StatusView
from tenure.api.requests import ApplyRequest, FileText, HostRequest, PauseRequest
from tenure.config import Config, Names, dump, parse, resolve
from tenure.core.events import PauseScope
from tenure.core.model import HostState
from tenure.core.reasons import Reason, Refusal
from tenure.engine.engine import Engine
from tenure.engine.errors import NotFound

router = APIRouter(prefix="/v1", tags=["cluster"])

PlaceName = Annotated[str, Path(max_length=200, pattern=NO_CONTROL)]
ClusterFilter = Annotated[str | None, Query(max_length=200, pattern=NO_CONTROL)]


def _known(engine: Engine, cluster: str | None) -> None:
    with engine.view() as state:
        if cluster is not None and cluster not in state.clusters:
            raise NotFound("cluster", cluster, sorted(state.clusters))


@router.get("/budgets")
def budgets(engine: Server, _user: Caller, cluster: ClusterFilter = None) -> Page[BudgetView]:
    """The tree, parents before children: shares, allocations, what was used and what is promised."""
    _known(engine, cluster)
    with engine.view() as state:
        return Page(items=budget_views(state, engine.now(), cluster))


@router.get("/hosts")
def hosts(engine: Server, _user: Caller, cluster: ClusterFilter = None) -> Page[HostView]:
    _known(engine, cluster)
    with engine.view() as state:
        return Page(items=host_views(state, engine.now(), cluster))


@router.post("/hosts/{cluster}/{host}/drain")
def drain(cluster: PlaceName, host: PlaceName, body: HostRequest, engine: Server, user: Admin) -> HostView:
    """No new attempts; each one there is evicted when it is exposed."""
    if body.deadline is not None and body.deadline <= engine.now():
        raise Refusal(Reason.BAD_VALUE, "deadline", str(body.deadline), "name a time to come")
    engine.set_host(cluster, host, HostState.DRAINING, user.name, body.why, body.deadline)
    return _host(engine, cluster, host)


@router.post("/hosts/{cluster}/{host}/resume")
def resume_host(cluster: PlaceName, host: PlaceName, body: HostRequest, engine: Server, user: Admin) -> HostView:
    """Healthy again."""
    engine.set_host(cluster, host, HostState.HEALTHY, user.name, body.why)
    return _host(engine, cluster, host)


@router.post("/hosts/{cluster}/{host}/fail")
def fail(cluster: PlaceName, host: PlaceName, body: HostRequest, engine: Server, user: Admin) -> HostView:
    """It is gone: attempts there end at once, and resumable jobs queue again."""
    engine.set_host(cluster, host, HostState.FAILED, user.name, body.why)
    return _host(engine, cluster, host)


def _host(engine: Engine, cluster: str, host: str) -> HostView:
    with engine.view() as state:
        return next(view for view in host_views(state, engine.now(), cluster) if view.name == host)


@router.get("/status")
def status(engine: Server, _user: Caller) -> StatusView:
    return _status(engine)


def _status(engine: Engine) -> StatusView:
    with engine.view() as state:
        return status_view(state, engine.now(), engine.started_at, engine.last_seq)


@router.post("/pause")
def pause(body: PauseRequest, engine: Server, user: Admin) -> StatusView:
    """Stop all starts, or only evictions, until somebody resumes them. What runs is left alone."""
    engine.pause(PauseScope(body.scope), user.name)
    return _status(engine)


@router.post("/resume")
def resume(body: PauseRequest, engine: Server, user: Admin) -> StatusView:
    engine.resume(PauseScope(body.scope), user.name)
    return _status(engine)


@router.get("/config")
def config(engine: Server, _user: Admin) -> ConfigView:
    """What holds now, as the texts of the two files; settings of the server itself are left out."""
    with engine.view() as state:
        clusters = tuple(cluster.spec for cluster in state.clusters.values())
        current = Config(engine.config.server, clusters, state.policy, state.budgets, state.grants)
    clusters_text, budgets_text = dump(current, server=False)
    names = Names()
    return ConfigView(
        clusters=FileText(name=names.clusters, text=clusters_text),
        budgets=FileText(name=names.budgets, text=budgets_text),
    )


@router.post("/apply")
def apply(body: ApplyRequest, engine: Server, user: Admin) -> AppliedView:
    """Put a configuration in force, or with ``dry_run`` only say what it would change and cause."""
    names = Names(body.clusters.name, body.budgets.name)
    wanted = resolve(
        parse(body.clusters.text, body.budgets.text, names),
        engine.executor.discover(),
        names,
    )
    done = engine.apply(
        wanted.clusters, wanted.policy, wanted.budgets, wanted.grants, by=user.name, dry_run=body.dry_run
    )
    return AppliedView(
        applied=done.applied,
        changes=done.changes,
        evictions=[
            PlannedView(attempt=e.attempt_id, job=int(e.attempt_id.partition(".")[0]), reason=reason_view(e.because))
            for e in done.evictions
        ],
        starts=[PlannedView(attempt=s.attempt_id, job=s.job_id, reason=reason_view(s.because)) for s in done.starts],
    )
