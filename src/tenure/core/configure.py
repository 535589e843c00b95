"""Apply a whole configuration: clusters and hosts, policy, tree. Nothing that runs is disturbed by it.

``admission.check_config`` has refused what cannot be applied (hosts in use that would vanish, and the like).
"""

from __future__ import annotations

from tenure.core import effects
from tenure.core.decisions import ReservationLost
from tenure.core.events import ConfigApplied
from tenure.core.model import Host, HostState
from tenure.core.placement import Room
from tenure.core.reasons import Because, Reason
from tenure.core.state import ClusterState, Due, HostRecord, Job, Reservation, State
from tenure.core.tree import Tree, moves


def apply_config(state: State, event: ConfigApplied) -> list[ReservationLost]:
    """From ``state.now`` on the configuration of ``event`` holds; the past is not rewritten.

    Returns the reservations that fall by it.
    """
    for job in state.jobs.values():
        state.dequeue(job)
    reserved = _set_aside(state)
    if event.policy.lookback > state.policy.lookback:  # usage is looked up by who applies it (see ``snapshot``)
        for cluster in state.clusters.values():
            cluster.ledger.forget_entitlements(state.now - state.policy.lookback)
    state.policy = event.policy
    old = state.tree
    tree = Tree(event.budgets, event.grants)
    if old is not None:
        _follow_moves(state, old, tree)
    state.tree, state.budgets, state.grants = tree, event.budgets, event.grants
    known = state.clusters
    state.clusters = {}
    for spec in event.clusters:
        cluster = ClusterState(spec)
        if spec.name in known:
            _carry_over(state, cluster, known[spec.name])
        for host in spec.hosts:
            record = cluster.hosts.setdefault(host.name, HostRecord(HostState.HEALTHY, state.now))
            effects.set_host_state(cluster, host.name, record.state)
        state.clusters[spec.name] = cluster
        effects.refresh_entitlement(state, cluster, state.now)
    lost = [fell for each in reserved if (fell := _keep(state, *each)) is not None]
    for job in state.jobs.values():
        if not job.state.active:
            state.enqueue(job)
    for attempt in state.attempts.values():  # the start time-out may have changed
        if attempt.started_at is not None and attempt.running_since is None:
            effects.await_start(state, attempt)
    change = tree.next_change(state.now)
    if change is not None:
        state.due(change, Due.GRANT, "")
    return lost


def _set_aside(state: State) -> list[tuple[Job, Reservation, set[Host]]]:
    """Take every reservation out of what is about to be built anew, with its hosts as they are declared now."""
    reserved = []
    for job in state.jobs.values():
        if (reservation := job.reservation) is not None:
            declared = {
                host for host in state.clusters[reservation.cluster].spec.hosts if host.name in reservation.hosts
            }
            effects.unreserve(state, job)
            reserved.append((job, reservation, declared))
    return reserved


def _keep(state: State, job: Job, reservation: Reservation, hosts: set[Host]) -> ReservationLost | None:
    """Hold the same hosts again where they are as they were; else the reservation falls, and is made anew if any is."""
    cluster = state.clusters.get(reservation.cluster)
    there = hosts.intersection(cluster.spec.hosts) if cluster is not None else set[Host]()
    gone = sorted(host.name for host in hosts - there)
    if not gone and state.policy.reserved_percent:
        job.reservation = reservation
        effects.index_reservation(state, job)
        return None
    why = Because(Reason.RESERVATIONS_OFF, {"cluster": reservation.cluster})
    if gone:
        why = Because(Reason.RESERVED_HOST_LOST, {"cluster": reservation.cluster, "host": gone[0]})
    effects.note(state, job, why)
    return ReservationLost(state.now, job.id, why)


def _carry_over(state: State, cluster: ClusterState, before: ClusterState) -> None:
    """Keep the ledger, host states and what is held; the room is made anew since hosts may have changed."""
    cluster.ledger = before.ledger
    cluster.recent_evictions = before.recent_evictions
    cluster.recent_moves = before.recent_moves
    cluster.leaving = before.leaving
    cluster.shorts = before.shorts
    cluster.freed = before.freed + before.spec.gpus
    names = {host.name for host in cluster.spec.hosts}
    cluster.hosts = {name: record for name, record in before.hosts.items() if name in names}
    cluster.foreign = {name: use for name, use in before.foreign.items() if name in names}
    rebuild_room(state, cluster)
    if state.policy.headroom_percent:
        effects.keep_free(cluster, tuple(host for host in before.headroom if host in names))
    for index in (before.exposed, before.unallocated):
        for attempt in [attempt for leaf in index.values() for attempt in leaf.values()]:
            effects.index_evictable(state, cluster, attempt)


def rebuild_room(state: State, cluster: ClusterState) -> None:
    """A room with the hosts of the declaration, in which what every attempt holds or claims is taken, and by others."""
    cluster.room = Room(cluster.spec.hosts)
    for name, use in cluster.foreign.items():
        cluster.room.occupy(name, use.gpus, use.cpus, use.mem)
    for name, record in cluster.hosts.items():
        effects.set_host_state(cluster, name, record.state)
    for attempt_id in sorted(state.attempts):
        attempt = state.attempts[attempt_id]
        if attempt.cluster == cluster.spec.name:
            cluster.room.take(attempt.slots)
            for host in attempt.hosts():
                cluster.on_host[host].add(attempt_id)


def _follow_moves(state: State, old: Tree, new: Tree) -> None:
    """Point live jobs at their budgets' new places; running spans are split, so the past ages where it was."""
    moved = moves(new.budgets, old.budgets)
    held: list[tuple[str, str]] = []
    for job in state.jobs.values():
        budget = _new_path(job.budget, moved, old, new)
        leaf = new.leaf_of(budget)
        if leaf != job.leaf and job.attempt is not None:
            held.append((job.attempt.id, leaf))
        if (budget, leaf) != (job.budget, job.leaf):
            job.budget, job.leaf = budget, leaf
            state.touched_jobs.add(job.id)
    for attempt_id, leaf in held:
        effects.change_leaf(state, state.attempts[attempt_id], leaf, state.now)


def _new_path(path: str, moved: dict[str, str], old: Tree, new: Tree) -> str:
    """Where the budget ``path`` is after the moves: itself or its nearest moved ancestor may have moved."""
    line = old.line(path)
    for ancestor in reversed(line):
        if ancestor in moved:
            candidate = moved[ancestor] + path[len(ancestor) :]
            if candidate in new.nodes:
                return candidate
    return path
