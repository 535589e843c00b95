"""Rule 10's headroom: hosts that are kept for short contracts alone, so that debugging does not wait.

How many follows from how much of them arrived lately. Unallocated jobs keep them busy; what still runs there exposed
makes room when too little of them is ready. A reservation whose time has come takes them like any other host.
"""

from __future__ import annotations

from collections.abc import Iterator

from tenure.core.decisions import Evict, Headroom, Stop
from tenure.core.foreign import wholly_ours
from tenure.core.model import HOUR
from tenure.core.preemption import Contest, grace_of
from tenure.core.reasons import Because, Reason
from tenure.core.state import Attempt, ClusterState, protected


def wanted(contest: Contest) -> int:
    """GPUs that short contracts are going to need at once: half of what arrived in the last hour, up to the limit."""
    cluster = contest.cluster
    arrived = sum(gpus for at, gpus in cluster.shorts if at > contest.now - HOUR)
    limit = cluster.headroom_limit(contest.state.policy.headroom_percent, cluster.healthy_gpus())
    return min((arrived + 1) // 2, limit)


def plan(contest: Contest) -> Headroom | None:
    """The hosts that are kept from now on; None: those that are kept already."""
    cluster, gpus = contest.cluster, wanted(contest)
    room = cluster.room
    kept = [host for host in cluster.headroom if wholly_ours(cluster, host)]
    while kept and _gpus(cluster, kept) - _gpus(cluster, kept[-1:]) >= gpus:
        kept.pop()
    others = [
        host.name for host in room.hosts if host.gpus and wholly_ours(cluster, host.name) and host.name not in kept
    ]
    busy = {name: _busy(contest, name) for name in others} if _gpus(cluster, kept) < gpus else {}
    for name in sorted(busy, key=lambda name: busy[name]):
        if _gpus(cluster, kept) >= gpus:
            break
        kept.append(name)
    if tuple(kept) == cluster.headroom:
        return None
    because = Because(Reason.HEADROOM, {"wanted": gpus, "hosts": len(kept)})
    return Headroom(contest.now, cluster.spec.name, tuple(kept), because)


def _gpus(cluster: ClusterState, hosts: list[str]) -> int:
    return sum(cluster.room.hosts[cluster.room.index[host]].gpus for host in hosts)


def _busy(contest: Contest, host: str) -> tuple[bool, int, int, int]:
    """How long and how much a host is kept busy by charged work: the least busy is kept first, not one held."""
    cluster, until, amount = contest.cluster, contest.now, 0
    for attempt_id in cluster.on_host[host]:
        attempt = contest.state.attempts[attempt_id]
        if attempt.charged:
            amount += attempt.gpus
            if protected(attempt, contest.now):
                until = max(until, attempt.protected_until or contest.now + attempt.min_runtime)
    return host in cluster.held, until, amount, cluster.room.index[host]


def clearings(contest: Contest) -> Iterator[Stop]:
    """Evictions of what runs exposed on kept hosts, while less of them is ready than is wanted.

    Ready is what is free, unallocated, or about to be released.
    """
    cluster = contest.cluster
    if not cluster.headroom or not contest.state.evictions_allowed():
        return
    exposed: dict[str, Attempt] = {}
    ready, kept = _gpus(cluster, list(cluster.headroom)), set(cluster.headroom)
    for host in cluster.headroom:
        for attempt_id in cluster.on_host[host]:
            attempt = contest.state.attempts[attempt_id]
            if not attempt.charged or attempt.stop is not None:
                continue
            ready -= sum(len(slot.gpus) for slot in attempt.slots if slot.host == host)
            if (
                attempt.started_at is not None
                and not protected(attempt, contest.now)
                and kept.issuperset(attempt.hosts())
            ):
                exposed[attempt.id] = attempt
    short_of = wanted(contest) - ready
    for attempt in sorted(exposed.values(), key=lambda a: (a.at_risk(contest.now), a.id)):
        if short_of <= 0:
            break
        short_of -= attempt.gpus
        yield Stop(contest.now, _eviction(contest, attempt))


def _eviction(contest: Contest, attempt: Attempt) -> Evict:
    kill_at = contest.now + grace_of(contest.state, attempt)
    return Evict(
        attempt.id,
        Because(Reason.EVICTED_HEADROOM, {"hosts": len(contest.cluster.headroom), "wanted": wanted(contest)}),
        0,
        0,
        attempt.at_risk(contest.now),
        contest.now,
        kill_at,
        kill_at + contest.cluster.spec.kill_timeout,
    )
