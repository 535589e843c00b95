"""The few ways in which attempts change what is held, owed and promised. Everything else goes through these."""

from __future__ import annotations

from dataclasses import replace

from tenure.core.ledger import Kind, OpenSpan
from tenure.core.lifecycle import Step, advance
from tenure.core.model import HostState, JobSpec, short
from tenure.core.pool import Entry
from tenure.core.reasons import Because
from tenure.core.state import Attempt, ClusterState, Due, Held, Job, Reservation, State, StopRecord

HISTORY = 20
"""Steps that a job remembers."""


def move(state: State, job: Job, step: Step, because: Because) -> None:
    """Advance a job in the lifecycle table. Raises LifecycleError for a pair that is not in it."""
    job.state = advance(job.id, job.state, step, job.history)
    history = job.history
    history.append(str(state.now) + " " + step + ": " + because.reason)
    if len(history) > HISTORY:
        del history[:-HISTORY]
    job.last = because
    state.touched_jobs.add(job.id)


def note(state: State, job: Job, because: Because) -> None:
    """Remember what was decided about a job that stays where it is."""
    job.history.append(f"{state.now} {because.reason}")
    del job.history[:-HISTORY]
    job.last = because
    state.touched_jobs.add(job.id)


def take(state: State, job: Job, attempt: Attempt) -> None:
    """Give the job an attempt: GPUs are withheld from now on, and its promise counts."""
    cluster = state.clusters[attempt.cluster]
    state.dequeue(job)
    unreserve(state, job)
    job.attempt = attempt
    job.attempts = attempt.number
    job.last_cluster = attempt.cluster
    state.attempts[attempt.id] = attempt
    cluster.room.take(attempt.slots)
    for host in attempt.hosts():
        cluster.on_host[host].add(attempt.id)
    if attempt.charged:
        promise(cluster, attempt, fixed=attempt.amount * attempt.min_runtime)
    state.touched_jobs.add(job.id)


def open_spans(state: State, attempt: Attempt, at: int) -> None:
    """GPUs are assigned: occupancy begins, protected when charged, until all replicas run."""
    cluster = state.clusters[attempt.cluster]
    attempt.started_at = at
    job = state.jobs[attempt.job_id]
    job.starts += 1
    if job.first_started is None:
        job.first_started = at
    cluster.ledger.open_span(attempt.id, OpenSpan(attempt.leaf, attempt.user, attempt.kind, attempt.amount, at))
    if not attempt.charged:
        attempt.promised_until = at + state.policy.unallocated_turn
        promise(cluster, attempt, amount=attempt.amount, end=attempt.promised_until)
        state.due(attempt.promised_until, Due.TURN_OVER, attempt.id)
        index_evictable(state, cluster, attempt)
    await_start(state, attempt)


def await_start(state: State, attempt: Attempt) -> None:
    """Until when all replicas have to run."""
    assert attempt.started_at is not None
    limit = state.clusters[attempt.cluster].spec.start_timeout
    state.due(attempt.started_at + limit, Due.START_TIMEOUT, attempt.id)


def all_up(state: State, job: Job, attempt: Attempt, at: int) -> None:
    """All replicas run: ``min_runtime`` and the timeout begin."""
    cluster = state.clusters[attempt.cluster]
    attempt.running_since = at
    if attempt.charged:
        end = at + attempt.min_runtime
        attempt.protected_until = end
        if attempt.stop is None:
            promise(cluster, attempt, fixed=-attempt.amount * attempt.min_runtime, amount=attempt.amount, end=end)
            attempt.promised_until = end
        state.due(end, Due.EXPOSED, attempt.id)
    if job.spec.timeout is not None:
        state.due(at + job.spec.timeout, Due.TIMEOUT, attempt.id)
    state.touched_jobs.add(job.id)


def promise_over(state: State, attempt: Attempt) -> None:
    """What was promised has been kept, or is void: it no longer counts in C."""
    cluster = state.clusters[attempt.cluster]
    if attempt.promised_until is not None:
        promise(cluster, attempt, amount=-attempt.amount, end=attempt.promised_until)
        attempt.promised_until = None
    elif attempt.charged and attempt.running_since is None and attempt.stop is None:
        promise(cluster, attempt, fixed=-attempt.amount * attempt.min_runtime)


def expose(state: State, attempt: Attempt) -> None:
    """Its protection is over: it runs on for as long as nothing that outranks it needs its GPUs."""
    if attempt.stop is not None:
        return
    promise_over(state, attempt)
    cluster = state.clusters[attempt.cluster]
    index_evictable(state, cluster, attempt)
    cluster.freed += attempt.gpus


def turn_over(state: State, attempt: Attempt) -> None:
    """An unallocated attempt has had its hour: its peers may evict it."""
    promise_over(state, attempt)
    cluster = state.clusters[attempt.cluster]
    index_evictable(state, cluster, attempt)
    cluster.freed += attempt.gpus


def index_evictable(state: State, cluster: ClusterState, attempt: Attempt) -> None:
    """Put an attempt where those who may evict it find it. Again after its unallocated turn, when its peers may too."""
    room, gpus, by_host = cluster.room, attempt.gpus, cluster.room.by_host(attempt.slots)
    if attempt.charged:
        cluster.exposed.setdefault(attempt.leaf, {})[attempt.id] = attempt
    elif attempt.id not in (leaf := cluster.unallocated.setdefault(attempt.leaf, {})):
        leaf[attempt.id] = attempt
        cluster.unallocated_gpus += gpus
        cluster.unallocated_tally += by_host
    if attempt.promised_until is None:
        line, priority = state.the_tree().line(attempt.leaf), state.jobs[attempt.job_id].spec.priority
        cluster.pools[attempt.kind].add(attempt.id, Entry(line, priority, gpus, by_host, room.mask(attempt.slots)))


def forget_evictable(state: State, attempt: Attempt) -> None:
    """Take an attempt out of the indices of what may be evicted."""
    cluster = state.clusters[attempt.cluster]
    cluster.pools[attempt.kind].discard(attempt.id)
    index = cluster.exposed if attempt.charged else cluster.unallocated
    leaf = index.get(attempt.leaf)
    if leaf is not None and leaf.pop(attempt.id, None) is not None:
        if not leaf:
            del index[attempt.leaf]
        if not attempt.charged:
            cluster.unallocated_gpus -= attempt.gpus
            cluster.unallocated_tally -= cluster.room.by_host(attempt.slots)


def reindex(state: State, attempt: Attempt) -> None:
    """Its job's priority has changed: whoever may evict it is found by that."""
    cluster = state.clusters[attempt.cluster]
    if cluster.pools[attempt.kind].discard(attempt.id) is not None:
        index_evictable(state, cluster, attempt)


def index_leaving(cluster: ClusterState, attempt: Attempt) -> None:
    """Keep track of who goes for a claim: what such an attempt frees beyond it is nobody's yet."""
    if attempt.stop is not None and attempt.stop.gainer:
        cluster.leaving[attempt.id] = attempt
    else:
        cluster.leaving.pop(attempt.id, None)


def stopping(state: State, job: Job, attempt: Attempt, record: StopRecord) -> None:
    """Stop an attempt: its promise is void, nobody evicts it again; it occupies until it has released."""
    promise_over(state, attempt)
    forget_evictable(state, attempt)
    attempt.stop = record
    _look_again(state.clusters[attempt.cluster], attempt)
    index_leaving(state.clusters[attempt.cluster], attempt)
    attempt.unreleased = False
    move(state, job, Step.STOP, record.because)
    state.signal(record.warn_at, attempt.id)
    state.signal(record.kill_at, attempt.id)
    state.due(record.release_by, Due.RELEASE_BY, attempt.id)


def overdue(attempt: Attempt, now: int) -> bool:
    """Whether it should have been gone by ``now``, which nothing has been made of yet."""
    return attempt.stop is not None and not attempt.unreleased and attempt.stop.kill_at <= now


def stop_anew(state: State) -> None:
    """Give attempts whose time to stop has passed unsupervised the whole of it again."""
    now = state.acting_at
    for attempt in state.attempts.values():
        if attempt.stop is not None and overdue(attempt, now):
            stop, timeout = attempt.stop, state.clusters[attempt.cluster].spec.kill_timeout
            kill_at, since = now + stop.kill_at - stop.warn_at, stop.since or stop.warn_at
            attempt.stop = replace(stop, warn_at=now, kill_at=kill_at, release_by=kill_at + timeout, since=since)
            state.signal(kill_at, attempt.id)
            state.due(attempt.stop.release_by, Due.RELEASE_BY, attempt.id)


def release(state: State, job: Job, attempt: Attempt, at: int, because: Because, ended_at: int) -> None:
    """The attempt is over, or its claim is dropped: GPUs go back, the span is closed as of ``ended_at`` and kept."""
    cluster = state.clusters[attempt.cluster]
    promise_over(state, attempt)
    forget_evictable(state, attempt)
    if attempt.started_at is not None:
        state.closed_spans.append((attempt.cluster, cluster.ledger.close_span(attempt.id, ended_at)))
    cluster.room.give(attempt.slots)
    for host in attempt.hosts():
        cluster.on_host[host].discard(attempt.id)
    cluster.freed += attempt.gpus
    if cluster.held:
        _freed_where_held(cluster, attempt)
    cluster.leaving.pop(attempt.id, None)
    del state.attempts[attempt.id]
    job.attempt = None
    state.ended_attempts.append((attempt, because))
    for victim in attempt.waiting_for:
        state.claims.get(victim, set()).discard(attempt.id)
    if any(host in cluster.draining for host in attempt.hosts()):
        refresh_entitlement(state, cluster, at)
    state.touched_jobs.add(job.id)


def reserve(state: State, job: Job, reservation: Reservation) -> None:
    """Hold hosts for a queued job; its promise counts from now on. It waits by itself: it is like no other job."""
    state.dequeue(job)
    job.reservation = reservation
    job.reserved += 1
    job.first_starts_by = job.first_starts_by or reservation.starts_by
    index_reservation(state, job)
    state.enqueue(job)
    state.touched_jobs.add(job.id)


def index_reservation(state: State, job: Job) -> None:
    """Put a job's reservation where passes find it, and its promise into the ledger."""
    reservation = job.reservation
    assert reservation is not None
    cluster = state.clusters[reservation.cluster]
    mask = gpus = 0
    for name in reservation.hosts:
        i = cluster.room.index[name]
        mask |= 1 << i
        gpus += cluster.room.hosts[i].gpus
        cluster.held[name] = job.id
    cluster.reservations[job.id] = Held(reservation, mask, gpus)
    cluster.held_gpus += gpus
    promise_reserved(cluster, job, 1)


def promise_reserved(cluster: ClusterState, job: Job, sign: int) -> None:
    """What a reservation promises, under the leaf of the job, or taken away again."""
    if job.reservation is not None:
        worth = sign * job.reservation.amount * job.spec.contract.min_runtime
        cluster.ledger.promise(job.leaf, job.spec.user, Kind.CHARGED, fixed=worth)


def unreserve(state: State, job: Job) -> None:
    """Hold nothing for the job any more; whoever was kept away from its hosts may try them. The job is not queued."""
    reservation = job.reservation
    if reservation is None:
        return
    cluster = state.clusters[reservation.cluster]
    promise_reserved(cluster, job, -1)
    held = cluster.reservations.pop(job.id)
    for host in reservation.hosts:
        cluster.held.pop(host, None)
    cluster.held_gpus -= held.gpus
    for each in (held, *cluster.reservations.values()):  # its budget's short contracts may hold more of the others
        cluster.room.gained |= each.mask
    job.reservation = None
    state.touched_jobs.add(job.id)


def keep_free(cluster: ClusterState, hosts: tuple[str, ...]) -> None:
    """Keep these hosts for short contracts from now on. Others may try those that were kept, these evict on the new."""
    mask = 0
    for host in hosts:
        mask |= 1 << cluster.room.index[host]
    cluster.room.gained |= mask ^ cluster.headroom_mask
    cluster.headroom, cluster.headroom_mask = hosts, mask


def _freed_where_held(cluster: ClusterState, attempt: Attempt) -> None:
    """Something on held hosts is over: look whether their time has come, and who is let in there now."""
    if _look_again(cluster, attempt) and short(attempt.min_runtime, attempt.gpus):
        for held in cluster.reservations.values():  # its budget may hold that much again on any of them
            cluster.room.gained |= held.mask


def _look_again(cluster: ClusterState, attempt: Attempt) -> bool:
    """An attempt is in the way no longer: look whether the time of held hosts has come. Whether it is on any."""
    found = [cluster.held[host] for host in attempt.hosts() if host in cluster.held] if cluster.held else []
    for job_id in found:
        cluster.reservations[job_id].look_at = 0
    return bool(found)


def set_host_state(cluster: ClusterState, host: str, to: HostState) -> None:
    """Keep the room and the set of draining hosts in step with a host's state."""
    cluster.room.set_open(host, to is HostState.HEALTHY)
    (cluster.draining.add if to is HostState.DRAINING else cluster.draining.discard)(host)
    cluster.freed += cluster.spec.gpus


def refresh_entitlement(state: State, cluster: ClusterState, at: int) -> None:
    """Allocations x healthy GPUs as they are from ``at`` on."""
    gpus = sum(h.gpus for h in cluster.spec.hosts)
    allocations = state.the_tree().allocations(cluster.spec.name, gpus, at)
    cluster.ledger.set_allocations(allocations, cluster.healthy_gpus(), at)


def change_leaf(state: State, attempt: Attempt, leaf: str, at: int) -> None:
    """Its budget moved: the running span is split, the past stays where it was charged."""
    cluster = state.clusters[attempt.cluster]
    index = cluster.exposed if attempt.charged else cluster.unallocated
    evictable = attempt.id in index.get(attempt.leaf, {})
    fixed = attempt.charged and attempt.running_since is None and attempt.stop is None
    until = attempt.promised_until
    promise_over(state, attempt)
    forget_evictable(state, attempt)
    if attempt.started_at is not None:
        state.closed_spans.append((attempt.cluster, cluster.ledger.close_span(attempt.id, at)))
    attempt.leaf = leaf
    if attempt.started_at is not None:
        span = OpenSpan(leaf, attempt.user, attempt.kind, attempt.amount, at)
        cluster.ledger.open_span(attempt.id, span)
    if until is not None:
        attempt.promised_until = until
        promise(cluster, attempt, amount=attempt.amount, end=until)
    elif fixed:
        promise(cluster, attempt, fixed=attempt.amount * attempt.min_runtime)
    if evictable:
        index_evictable(state, cluster, attempt)


def promise(cluster: ClusterState, attempt: Attempt, *, fixed: int = 0, amount: int = 0, end: int = 0) -> None:
    kind = Kind.CHARGED if attempt.charged else Kind.UNALLOCATED
    cluster.ledger.promise(attempt.leaf, attempt.user, kind, fixed=fixed, amount=amount, end=end)


def with_priority(spec: JobSpec, priority: int) -> JobSpec:
    return replace(spec, priority=priority)
