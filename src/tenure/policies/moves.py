"""What the passes of several policies do in the same way: start a job, evict for it, empty hosts, say why jobs wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tenure.core.apply import apply
from tenure.core.decisions import Claim, Evict, Plan, Start, Stop
from tenure.core.ledger import Kind
from tenure.core.model import Slots
from tenure.core.placement import Misfit, Room
from tenure.core.preemption import grace_of, smallest_set
from tenure.core.queue import Group, GroupKey, Parked
from tenure.core.reasons import Because, Reason
from tenure.core.state import Attempt, ClusterState, Job, State

Place = tuple[ClusterState, Group]
"""A cluster, and the group of some jobs in its queue."""


def groups(state: State) -> Iterator[Place]:
    """Every group of waiting jobs, once for each cluster that its jobs accept."""
    for cluster in state.clusters.values():
        for queue in cluster.queues.values():
            for leaf in queue.leaves.values():
                for group in leaf.values():
                    yield cluster, group


def places(state: State, kind: Kind, key: GroupKey) -> list[Place]:
    """Where the jobs of a group may go, in the order in which they list clusters."""
    known = (state.clusters.get(name) for name in key.shape.clusters)
    return [(cluster, cluster.queues[kind].leaves[key.leaf][key]) for cluster in known if cluster is not None]


def park(cluster: ClusterState, group: Group, reason: Reason, short: int = 1) -> None:
    """Note why a group waits, and how many GPUs must become free before another try can end otherwise."""
    group.parked = Parked(reason, cluster.freed, short)


def start(state: State, cluster: ClusterState, job: Job, slots: tuple[Slots, ...]) -> Start:
    """The plan that gives a job free GPUs at once."""
    because = Because(Reason.STARTED_FREE, {"free_gpus": cluster.room.free_gpus, "gpus": job.spec.gpus})
    attempt_id, amount = next_attempt(job), cluster.room.amount(slots)
    return Start(state.now, job.id, attempt_id, cluster.spec.name, slots, amount, because)


def start_in(state: State, cluster: ClusterState, job: Job) -> Start | None:
    """The plan that starts a job on what is free in a cluster, if it fits."""
    slots = find(cluster.room, job)
    return start(state, cluster, job, slots) if slots is not None else None


def find(room: Room, job: Job) -> tuple[Slots, ...] | None:
    """The slots that a job would get in a room, None when it does not fit."""
    roles, labels = job.spec.roles, job.spec.labels
    if not room.can_fit(roles, labels):
        return None
    slots = room.fit(roles, labels)
    return None if isinstance(slots, Misfit) else slots


def next_attempt(job: Job) -> str:
    return f"{job.id}.{job.attempts + 1}"


def claim(
    state: State,
    cluster: ClusterState,
    job: Job,
    slots: tuple[Slots, ...],
    victims: Sequence[tuple[Attempt, Because]],
    leaving: Sequence[Attempt],
) -> Claim:
    """The plan that gives a job GPUs which ``victims`` (and why they go) or those who leave already have to release."""
    amount = cluster.room.amount(slots)
    graces = [grace_of(state, victim) for victim, _ in victims]
    kill_at = state.now + max(graces, default=0)
    worth = amount * (job.spec.contract.min_runtime or state.policy.unallocated_turn)
    total = sum(victim.amount for victim, _ in victims)
    evicted = tuple(
        Evict(
            victim.id,
            because,
            job.id,
            worth * victim.amount // total,
            victim.at_risk(state.now),
            kill_at - grace,
            kill_at,
            kill_at + cluster.spec.kill_timeout,
        )
        for (victim, because), grace in zip(victims, graces, strict=True)
    )
    gone = [kill_at] + [attempt.stop.kill_at for attempt in leaving if attempt.stop is not None]
    why = Because(Reason.STARTED_BY_EVICTION, {"victims": len(evicted), "kill_at": max(gone)})
    waited_for = tuple(sorted(attempt.id for attempt in leaving))
    return Claim(state.now, job.id, next_attempt(job), cluster.spec.name, slots, amount, evicted, why, waited_for)


def room_later(cluster: ClusterState, gone: Iterable[Attempt]) -> Room:
    """The room when those have gone; what they free beyond the claims on it is anybody's."""
    room = cluster.room.fork()
    for attempt in gone:
        room.give(attempt.slots)
    return room


def claim_of(
    state: State,
    cluster: ClusterState,
    job: Job,
    victims: Iterable[Attempt],
    leaving: Sequence[Attempt],
    why: Callable[[Attempt], Because],
) -> Claim | None:
    """The plan that gives a job what those free who are leaving anyway, and else what ``victims`` free besides.

    Those who come first go first, and nobody more than needed; ``why``: what allows each of them. None when it does not
    fit even so.
    """
    later = room_later(cluster, leaving)
    slots, chosen = find(later, job), list[Attempt]()
    if slots is None:
        help_it = [a for a in victims if any(cluster.room.is_open(slot.host) for slot in a.slots)]
        found = smallest_set(later, job.spec, help_it)
        if found is None:
            return None
        chosen, slots = found
    hosts = {slot.host for slot in slots}
    waited_for = [a for a in leaving if hosts.intersection(a.hosts())]
    if not chosen and not waited_for:
        return None
    return claim(state, cluster, job, slots, [(a, why(a)) for a in chosen], waited_for)


def empty_draining(state: State, protected: Callable[[Attempt, int], bool]) -> list[Plan]:
    """Evict what is not protected from draining hosts, and apply that. Nothing while evictions are paused."""
    plans: list[Plan] = []
    for cluster in state.clusters.values():
        if not cluster.draining or not state.evictions_allowed():
            continue
        for host in sorted(cluster.draining):
            for attempt_id in sorted(cluster.on_host[host]):
                attempt = state.attempts[attempt_id]
                if attempt.stop is None and attempt.started_at is not None and not protected(attempt, state.now):
                    plan = _drained(state, cluster, attempt, host)
                    apply(state, plan)
                    plans.append(plan)
    return plans


def _drained(state: State, cluster: ClusterState, attempt: Attempt, host: str) -> Stop:
    because = Because(Reason.EVICTED_DRAIN, {"host": host, "why": cluster.hosts[host].why})
    kill_at = state.now + grace_of(state, attempt)
    release_by = kill_at + cluster.spec.kill_timeout
    return Stop(state.now, Evict(attempt.id, because, 0, 0, attempt.at_risk(state.now), state.now, kill_at, release_by))


def usable(state: State) -> int:
    """Free GPUs that waiting jobs could take, over all clusters: after a pass, what a rule of the policy keeps idle."""
    if state.paused_starts or not any(cluster.room.free_gpus for cluster in state.clusters.values()):
        return 0
    taken: dict[tuple[Kind, GroupKey], int] = {}
    total = 0
    for cluster in state.clusters.values():
        trial = cluster.room.fork()
        waiting = [
            group for queue in cluster.queues.values() for leaf in queue.leaves.values() for group in leaf.values()
        ]
        for group in sorted(waiting, key=lambda group: (-group.gpus, group.anyone())):
            key = (group.kind, group.key)
            while group.gpus <= trial.free_gpus and taken.get(key, 0) < len(group):
                slots = find(trial, state.jobs[group.anyone()])
                if slots is None:
                    break
                trial.take(slots)
                taken[key] = taken.get(key, 0) + 1
        total += cluster.room.free_gpus - trial.free_gpus
    return total
