"""Rule 13's drains: what a draining host gives up in this pass."""

from __future__ import annotations

from collections.abc import Iterator

from tenure.core.decisions import Evict, Stop
from tenure.core.lifecycle import JobState
from tenure.core.preemption import Contest, grace_of
from tenure.core.reasons import Because, Reason
from tenure.core.state import Attempt, protected


def plans(contest: Contest) -> Iterator[Stop]:
    """Evictions of what is exposed on draining hosts. Nothing while evictions are paused."""
    if not contest.cluster.draining or not contest.state.evictions_allowed():
        return
    for host in sorted(contest.cluster.draining):
        for attempt_id in sorted(contest.cluster.on_host[host]):
            attempt = contest.state.attempts[attempt_id]
            if _may_go(contest, attempt, host):
                yield Stop(contest.now, _eviction(contest, attempt, host))


def _may_go(contest: Contest, attempt: Attempt, host: str) -> bool:
    """Exposed, and a gang over other hosts only when it can restart elsewhere or at the drain's deadline."""
    job = contest.state.jobs[attempt.job_id]
    if attempt.stop is not None or job.state is JobState.CLAIMING or protected(attempt, contest.now):
        return False
    deadline = contest.cluster.hosts[host].deadline
    if attempt.hosts() == [host] or (deadline is not None and contest.now >= deadline):
        return True
    trial = contest.cluster.room.fork()
    trial.give(attempt.slots)
    return trial.can_fit(job.spec.roles, job.spec.labels)


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
