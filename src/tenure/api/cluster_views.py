"""Hosts and the whole scheduler as the API shows them."""

from __future__ import annotations

from collections import Counter

import tenure
from tenure.api.job_views import protection
from tenure.api.models import ClusterStatus, HolderView, HostView, StatusView
from tenure.core.explain import Explainer
from tenure.core.lifecycle import JobState
from tenure.core.model import Host, HostState
from tenure.core.preemption import grace_of
from tenure.core.reasons import Reason
from tenure.core.state import Attempt, ClusterState, Foreign, State, protected

MAX_EXPLAINED = 200
"""Groups of waiting jobs that are explained exactly when they are counted; the rest by what a pass noted."""


def host_views(state: State, now: int, cluster: str | None = None) -> list[HostView]:
    """Every host of all clusters or of one, in declared order."""
    return [
        _host(state, c, host, max(now, state.now))
        for name, c in state.clusters.items()
        if cluster in (None, name)
        for host in c.spec.hosts
    ]


def _host(state: State, cluster: ClusterState, host: Host, now: int) -> HostView:
    record = cluster.hosts[host.name]
    attempts = [state.attempts[a] for a in sorted(cluster.on_host[host.name])]
    held = cluster.reservations.get(cluster.held.get(host.name, 0))
    others = cluster.foreign.get(host.name, Foreign(0, 0, 0))
    return HostView(
        cluster=cluster.spec.name,
        name=host.name,
        state=record.state.value,
        since=record.since,
        by=record.by,
        why=record.why,
        gpus=host.gpus,
        free_gpus=cluster.room.free_count(host.name),
        cpus=host.cpus / 1000,
        memory_mib=host.mem,
        labels=dict(host.labels),
        deadline=record.deadline,
        drained_by=drained_by(state, cluster, host.name, now) if record.state is HostState.DRAINING else None,
        held_for=cluster.held.get(host.name),
        held_until=held.reservation.told if held is not None else None,
        headroom=host.name in cluster.headroom,
        others_gpus=others.gpus,
        others_cpus=others.cpus / 1000,
        others_memory_mib=others.mem,
        others=others.what,
        attempts=[
            HolderView(
                attempt=a.id,
                job=a.job_id,
                user=a.user,
                budget=a.leaf,
                state=state.jobs[a.job_id].state.value,
                gpus=_gpus_on(a, host.name),
                protection=protection(a, now),
                protected_until=a.protected_until,
            )
            for a in attempts
        ],
    )


def _gpus_on(attempt: Attempt, host: str) -> list[int]:
    return sorted(gpu for slot in attempt.slots if slot.host == host for gpu in slot.gpus)


def drained_by(state: State, cluster: ClusterState, host: str, now: int) -> int | None:
    """When a draining host is empty at the latest; None when a gang over other hosts leaves it open."""
    latest = now
    for attempt_id in cluster.on_host[host]:
        attempt = state.attempts[attempt_id]
        deadline = cluster.hosts[host].deadline
        if attempt.stop is None and attempt.hosts() != [host] and deadline is None:
            return None
        latest = max(latest, _gone_by(state, cluster, attempt, now, deadline))
    return latest


def _gone_by(state: State, cluster: ClusterState, attempt: Attempt, now: int, deadline: int | None) -> int:
    if attempt.stop is not None:
        return attempt.stop.release_by
    over = grace_of(state, attempt) + cluster.spec.kill_timeout
    if not protected(attempt, now):
        return max(now, deadline or now) + over if len(attempt.hosts()) > 1 else now + over
    if attempt.protected_until is not None:
        return attempt.protected_until + over
    begun = attempt.started_at
    if begun is None:
        victims = (state.attempts[v].stop for v in attempt.waiting_for if v in state.attempts)
        begun = max((stop.release_by for stop in victims if stop is not None), default=now)
    return begun + cluster.spec.start_timeout + attempt.min_runtime + over


def status_view(state: State, now: int, started_at: int, seq: int) -> StatusView:
    return StatusView(
        version=tenure.__version__,
        now=max(now, state.now),
        started_at=started_at,
        seq=seq,
        clusters=[cluster_status(state, cluster) for cluster in state.clusters.values()],
        jobs=dict(sorted(Counter(job.state.value for job in state.jobs.values()).items())),
        waiting={reason.value: count for reason, count in sorted(count_waiting(state).items())},
        paused_starts=state.paused_starts or None,
        paused_evictions=state.paused_evictions or None,
        clock_alarm=state.clock_alarm,
    )


def cluster_status(state: State, cluster: ClusterState) -> ClusterStatus:
    name = cluster.spec.name
    charged = unallocated = claimed = 0
    for attempt in state.attempts.values():
        if attempt.cluster != name:
            continue
        if attempt.started_at is None:
            claimed += attempt.gpus
        elif attempt.charged:
            charged += attempt.gpus
        else:
            unallocated += attempt.gpus
    return ClusterStatus(
        name=name,
        gpus=sum(host.gpus for host in cluster.spec.hosts),
        healthy_gpus=cluster.healthy_gpus(),
        charged_gpus=charged,
        unallocated_gpus=unallocated,
        claimed_gpus=claimed,
        free_gpus=cluster.room.free_gpus,
        held_gpus=cluster.held_gpus,
        headroom_gpus=sum(host.gpus for host in cluster.spec.hosts if host.name in cluster.headroom),
        others_gpus=sum(use.gpus for use in cluster.foreign.values()),
        reservations=len(cluster.reservations),
        hosts=dict(sorted(Counter(record.state.value for record in cluster.hosts.values()).items())),
    )


def count_waiting(state: State) -> Counter[Reason]:
    """Queued jobs by why they wait. Jobs that are alike are explained once."""
    found: Counter[Reason] = Counter()
    for job in state.jobs.values():
        if job.state is JobState.QUEUED and job.held_by:
            found[Reason.HELD_BY_PERSON] += 1
        elif job.state is JobState.QUEUED and job.not_before > state.now:
            found[Reason.BACKING_OFF] += 1
        elif job.state is JobState.QUEUED and job.submission in state.pending:
            found[Reason.WAITING_DEPENDENCY] += 1
        elif job.state is JobState.QUEUED and job.behind:
            found[Reason.WAITING_THROTTLE] += 1
    explainer = Explainer(state)
    explained = 0
    for name, cluster in state.clusters.items():
        for queue in cluster.queues.values():
            for groups in queue.leaves.values():
                for group in groups.values():
                    # A job that accepts several clusters waits in each of them and counts at the first.
                    ids = [job_id for line in group.people.values() for _, job_id in line]
                    jobs = [state.jobs[i] for i in ids if state.jobs[i].spec.clusters[0] == name]
                    if not jobs:
                        continue
                    if explained < MAX_EXPLAINED or group.parked is None or group.key.reserved:
                        reason = explainer.why(jobs[0]).reason
                        explained += 1
                    else:
                        reason = group.parked.reason
                    found[reason] += len(jobs)
    return found
