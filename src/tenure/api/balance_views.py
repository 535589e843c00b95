"""A budget's statement: gathered under the engine's lock, worked out without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenure import balance
from tenure.api.balance_models import (
    BalanceView,
    ChildPart,
    DayView,
    JobPartView,
    LastDay,
    PersonPart,
    PointView,
    StatementView,
)
from tenure.api.budget_views import ratio_of
from tenure.api.job_views import hours
from tenure.balance import Child, Day, Facts, JobPart, Parts
from tenure.core.fairshare import Figures
from tenure.core.model import GPU, SELF
from tenure.engine.engine import Engine
from tenure.engine.errors import NotFound


def balance_view(engine: Engine, path: str, cluster: str | None, person: str | None, jobs: int) -> BalanceView:
    """The statement of a node. Raises NotFound for a path or a cluster that does not exist."""
    with engine.view() as state:
        tree = state.the_tree()
        if path not in tree.nodes:
            raise NotFound("budget", path, sorted(tree.nodes))
        if cluster is not None and cluster not in state.clusters:
            raise NotFound("cluster", cluster, sorted(state.clusters))
        names = [name for name in state.clusters if cluster in (None, name)]
        now = max(engine.now(), state.now)
        facts = [balance.gather(state, name, path, now) for name in names]
        lookback = state.policy.lookback
    return BalanceView(
        path=path,
        at=now,
        lookback_ms=lookback,
        clusters={one.cluster: _statement(engine, one, person, jobs) for one in facts},
    )


def _statement(engine: Engine, facts: Facts, person: str | None, jobs: int) -> StatementView:
    made, figures = balance.statement(facts), facts.figures
    closed = engine.store.spans(facts.cluster, ending_after=facts.since, leaf=facts.path)
    of_jobs = [part for part in balance.jobs(facts, closed) if person in (None, part.user)]
    return StatementView(
        **_parts(facts.parts),
        allocation_gpus=round(facts.allocation_gpus / GPU, 3),
        entitled_gpu_hours=hours(made.entitled),
        accrued_gpu_hours=hours(made.accrued),
        left_gpu_hours=hours(made.left),
        ratio=_ratio(figures),
        last_day=LastDay(
            used_gpu_hours=hours(figures.used_recent),
            entitled_gpu_hours=hours(figures.entitled_recent // figures.denominator),
            left_gpu_hours=hours(made.left_last_day),
            ratio=ratio_of(figures.used_recent, figures.entitled_recent, figures.denominator),
        ),
        over=made.over,
        back_at=made.back_at,
        back_at_going_on=made.back_at_going_on,
        lapses_gpu_hours=hours(made.lapses),
        lapses_by=made.lapses_by,
        days=[_day(day, _people_of(facts, i)) for i, day in enumerate(made.days)],
        points=[
            PointView(
                at=point.at,
                back_gpu_hours=hours(point.back),
                entitled_gpu_hours=hours(point.entitled),
                left_gpu_hours=hours(point.left),
                left_going_on_gpu_hours=hours(point.left_going_on),
            )
            for point in made.points
        ],
        children=[_child(child, facts.path) for child in facts.children],
        people=[
            PersonPart(user=user, **_parts(parts))
            for user, parts in sorted(facts.people.items(), key=lambda item: (-item[1].total, item[0]))
            if person in (None, user)
        ],
        jobs=_jobs(engine, of_jobs[:jobs]),
        other_jobs=len(of_jobs[jobs:]),
    )


def _parts(parts: Parts) -> dict[str, Any]:
    return {
        "settled_gpu_hours": hours(parts.settled),
        "running_gpu_hours": hours(parts.running),
        "committed_gpu_hours": hours(parts.committed),
        "reserved_gpu_hours": hours(parts.reserved),
        "unallocated_gpu_hours": hours(parts.unallocated),
    }


def _ratio(figures: Figures) -> float | None:
    return ratio_of(figures.used, figures.entitled, figures.denominator)


def _people_of(facts: Facts, day: int) -> dict[str, float]:
    return {user: hours(daily[day]) for user, daily in facts.daily.items() if daily[day]}


def _day(day: Day, people: dict[str, float]) -> DayView:
    return DayView(
        start=day.start,
        end=day.end,
        leaves_by=day.leaves_by,
        entitled_gpu_hours=hours(day.entitled),
        used_gpu_hours=hours(day.used),
        running_gpu_hours=hours(day.running),
        unused_gpu_hours=hours(day.unused),
        left_gpu_hours=hours(day.left),
        left_going_on_gpu_hours=hours(day.left_going_on),
        people=people,
    )


def _child(child: Child, parent: str) -> ChildPart:
    figures = child.figures
    entitled = figures.entitled // figures.denominator if figures is not None else 0
    return ChildPart(
        path=child.path,
        implicit=figures is not None and child.path == f"{parent}/{SELF}",
        gone=figures is None,
        **_parts(child.parts),
        entitled_gpu_hours=hours(entitled),
        left_gpu_hours=hours(entitled - child.parts.total),
        ratio=_ratio(figures) if figures is not None else None,
    )


def _jobs(engine: Engine, parts: Sequence[JobPart]) -> list[JobPartView]:
    """With the names that the store still has."""
    found = []
    for part in parts:
        row = engine.store.job(part.job_id)
        in_array = row is not None and row.array_id is not None
        found.append(
            JobPartView(
                job=part.job_id,
                label=f"{row.array_id}_{row.array_index}" if row is not None and in_array else str(part.job_id),
                name=row.name if row is not None else None,
                user=part.user,
                budget=part.leaf,
                **_parts(part.parts),
            )
        )
    return found
