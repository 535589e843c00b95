"""Packing: parts of hosts go beside what is protected as long, so that whole hosts come free together."""

from __future__ import annotations

from collections.abc import Callable

from tenure.core.ledger import Kind
from tenure.core.preemption import Contest
from tenure.core.state import Job


def longer(contest: Contest, job: Job) -> Callable[[int], int] | None:
    """By how much a host, given by its index, is protected longer when ``job`` starts there now, ms.

    None when that is not looked at: packing is switched off, or the job is never protected.
    """
    state, cluster, end = contest.state, contest.cluster, contest.now + job.spec.contract.min_runtime
    if not state.policy.packing or job.kind is Kind.UNALLOCATED:
        return None

    def by(index: int) -> int:
        until = contest.now
        for attempt_id in cluster.on_host[cluster.room.hosts[index].name]:
            attempt = state.attempts[attempt_id]
            if attempt.charged and attempt.stop is None:
                since = attempt.started_at or attempt.planned_at
                until = max(until, attempt.protected_until or since + attempt.min_runtime)
        return max(0, end - until)

    return by
