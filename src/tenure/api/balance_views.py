"""A budget's statement: gathered under the engine's lock, worked out without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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
from tenure.store.rows import SpanRow


class Called(NamedTuple):
    """What people call a job: ``12``, or ``12_3`` in an array, and its name."""

    label: str
    name: str


def balance_view(engine: Engine, path: str, cluster: str | None, person: str | None, jobs: int) -> BalanceView:
    """The statement of a node. Raises NotFound for a path, a cluster or a person that does not exist."""
    with engine.view() as state:
        tree = state.the_tree()
        if path not in tree.nodes:
            raise NotFound("budget", path, sorted(tree.budgets))  # nobody means an implicit child
        if cluster is not None and cluster not in state.clusters:
            raise NotFound("cluster", cluster, sorted(state.clusters))
        names = [name for name in state.clusters if cluster in (None, name)]
        now = max(engine.now(), state.now)
        facts = [balance.gather(state, name, path, now) for name in names]
        lookback = state.policy.lookback
    of_jobs = {one.cluster: (one, balance.jobs(one, _closed(engine, one))) for one in facts}
    _check_person(engine, person, of_jobs.values())
    return balance_view_of(path, now, lookback, of_jobs, lambda job: _called(engine, job), person, jobs)


def _check_person(engine: Engine, person: str | None, found: Iterable[tuple[Facts, Sequence[JobPart]]]) -> None:
    """Whoever used something counts as well, though they may be no user any more."""
    if person is None or engine.store.user(person) is not None:
        return
    seen = {user for facts, of_jobs in found for user in (*facts.people, *(part.user for part in of_jobs))}
    if person not in seen:
        raise NotFound("person", person, sorted(seen))


def _closed(engine: Engine, facts: Facts) -> Iterator[SpanRow]:
    return engine.store.spans(facts.cluster, ending_after=facts.since, leaf=facts.path)


def balance_view_of(
    path: str,
    now: int,
    lookback: int,
    clusters: Mapping[str, tuple[Facts, Sequence[JobPart]]],
    called: Callable[[int], Called | None],
    person: str | None = None,
    jobs: int = 10,
) -> BalanceView:
    """``clusters``: what is known, and all jobs, the largest first, of which ``jobs`` are shown.

    ``called`` says what a job is called, if anybody knows. ``person``: of people and jobs only theirs.
    """
    return BalanceView(
        path=path,
        at=now,
        lookback_ms=lookback,
        clusters={
            name: _statement(facts, [part for part in of_jobs if person in (None, part.user)], called, person, jobs)
            for name, (facts, of_jobs) in clusters.items()
        },
    )


def _statement(
    facts: Facts, of_jobs: Sequence[JobPart], called: Callable[[int], Called | None], person: str | None, jobs: int
) -> StatementView:
    made, figures = balance.statement(facts), facts.figures
    return StatementView(
        **_parts(facts.parts),
        allocation_gpus=round(facts.allocation_gpus / GPU, 3),
        assumed_until=facts.assumed_until,
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
        jobs=[_job(part, called(part.job_id)) for part in of_jobs[:jobs]],
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


def _job(part: JobPart, called: Called | None) -> JobPartView:
    return JobPartView(
        job=part.job_id,
        label=called.label if called is not None else str(part.job_id),
        name=called.name if called is not None else None,
        user=part.user,
        budget=part.leaf,
        **_parts(part.parts),
    )


def _called(engine: Engine, job_id: int) -> Called | None:
    row = engine.store.job(job_id)
    if row is None:
        return None
    label = str(row.id) if row.array_id is None else f"{row.array_id}_{row.array_index}"
    return Called(label, row.name)
