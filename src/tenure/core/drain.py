"""Rule 13's drains: what a draining host gives up in this pass."""

from __future__ import annotations

from collections.abc import Iterator

from tenure.core.decisions import Evict, Stop
from tenure.core.lifecycle import JobState
from tenure.core.placement import Room
from tenure.core.preemption import Contest, grace_of
from tenure.core.queue import Group, key_of
from tenure.core.reasons import Because, Reason
from tenure.core.reservation import Doors
from tenure.core.state import Attempt, protected


def plans(contest: Contest) -> Iterator[Stop]:
    """Evictions of what is exposed on draining hosts alone, or at their deadline; none while evictions are paused."""
    for host, attempt in _exposed(contest):
        deadline = contest.cluster.hosts[host].deadline
        if attempt.hosts() == [host] or (deadline is not None and contest.now >= deadline):
            yield Stop(contest.now, _eviction(contest, attempt, host))


def gangs(contest: Contest) -> Iterator[Stop]:
    """Evictions of exposed gangs that reach over other hosts, where they can restart elsewhere.

    Each has a place of its own there: of what is free when those that wait have been placed, less what those take that
    go for drains already.
    """
    for host, attempt in _exposed(contest):
        job, trial = contest.state.jobs[attempt.job_id], _elsewhere(contest)
        trial.give(attempt.slots)
        group = Group(key_of(job.spec, job.leaf), job.kind, job.spec)
        if trial.can_fit(job.spec.roles, job.spec.labels, ~Doors(contest).shut(group)):
            yield Stop(contest.now, _eviction(contest, attempt, host))


def _exposed(contest: Contest) -> Iterator[tuple[str, Attempt]]:
    """What is exposed on draining hosts, and not on its way out; nothing while evictions are paused."""
    if not contest.cluster.draining or not contest.state.evictions_allowed():
        return
    for host in sorted(contest.cluster.draining):
        for attempt_id in sorted(contest.cluster.on_host[host]):
            attempt = contest.state.attempts[attempt_id]
            claims = contest.state.jobs[attempt.job_id].state is JobState.CLAIMING
            if attempt.stop is None and not claims and not protected(attempt, contest.now):
                yield host, attempt


def _elsewhere(contest: Contest) -> Room:
    """The room when what goes for drains has gone, and is in its new place."""
    room, state = contest.cluster.room.fork(), contest.state
    for attempt in state.attempts.values():
        why = attempt.stop.because.reason if attempt.stop is not None else None
        if attempt.cluster == contest.cluster.spec.name and why is Reason.EVICTED_DRAIN:
            room.give(attempt.slots)
            spec = state.jobs[attempt.job_id].spec
            slots = room.place(spec.roles, spec.labels) if spec.contract.resumable else None
            room.take(slots or ())
    return room


def _eviction(contest: Contest, attempt: Attempt, host: str) -> Evict:
    kill_at = contest.now + grace_of(contest.state, attempt)
    return Evict(
        attempt.id,
        Because(Reason.EVICTED_DRAIN, {"host": host, "why": contest.cluster.hosts[host].why}),
        0,
        0,
        attempt.at_risk(contest.now),
        contest.now,
        kill_at,
        kill_at + contest.cluster.spec.kill_timeout,
    )
