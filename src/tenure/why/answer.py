"""The whole answer for one job: its reason, and for each cluster that it accepts the arithmetic behind it."""

from __future__ import annotations

from tenure.core.explain import Explainer
from tenure.core.lifecycle import JobState
from tenure.core.reasons import Because, Reason
from tenure.core.state import Job, State, margin_amount
from tenure.why import running
from tenure.why.ahead import ahead
from tenure.why.blockers import space
from tenure.why.levels import levels
from tenure.why.records import Answer, Held, Place


def answer(state: State, job: Job) -> Answer:
    """Why a live job is where it is, as of ``state.now``. Changes nothing."""
    explainer = Explainer(state)
    because = explainer.why(job)
    attempt = job.attempt
    contest = explainer.contest(attempt.cluster) if attempt is not None else None
    claims = job.state is JobState.CLAIMING
    return Answer(
        job=job.id,
        label=job.label,
        at=state.now,
        state=job.state.value,
        because=because,
        places=tuple(_places(explainer, job, because)),
        reservation=_held(state, job),
        claiming=running.claiming(contest, attempt) if contest and attempt and claims else None,
        running=running.running(contest, job, attempt) if contest and attempt and not claims else None,
    )


def _places(explainer: Explainer, job: Job, because: Because) -> list[Place]:
    """Where it runs, alone; else each of its clusters where it waits, the one that the reason is about first."""
    state, attempt = explainer.state, job.attempt
    if attempt is not None:
        contest, margin = explainer.contest(attempt.cluster), _margin(state, job)
        return [Place(attempt.cluster, because, margin, levels(contest, job.kind, attempt.leaf, margin), None, None)]
    found = [_place(explainer, job, name) for name in job.spec.clusters if name in state.clusters]
    places = [place for place in found if place is not None]
    about = job.reservation.cluster if job.reservation is not None else because.numbers.get("cluster")
    return sorted(places, key=lambda place: place.cluster != about)


def _place(explainer: Explainer, job: Job, name: str) -> Place | None:
    """One cluster in which a job waits; None when no pass looks at it."""
    contest = explainer.contest(name)
    if contest.cluster.queues[job.kind].group_of(job.id) is None:
        return None
    because = explainer.in_cluster(job, name)
    margin = _margin(explainer.state, job)
    lost = because.reason is Reason.HELD_NO_SHARE
    return Place(
        cluster=name,
        because=because,
        margin=margin,
        levels=levels(contest, job.kind, job.leaf, margin),
        ahead=None if lost else ahead(contest, job),
        space=None if lost else space(contest, job),
    )


def _margin(state: State, job: Job) -> int:
    return margin_amount(job.spec) * state.policy.preemption_margin


def _held(state: State, job: Job) -> Held | None:
    held = job.reservation
    if held is None:
        return None
    gpus = state.clusters[held.cluster].reservations[job.id].gpus
    return Held(held.cluster, held.hosts, gpus, held.made_at, held.told, held.starts_by)
