"""How safe a running attempt is: until when it is protected, and who of those who wait would evict it then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from tenure.core.ledger import Kind
from tenure.core.model import GPU
from tenure.core.placement import Room
from tenure.core.preemption import Contest, because, outranks, room_at_most
from tenure.core.queue import Group
from tenure.core.reasons import Because, Reason
from tenure.core.reservation import Doors, protected_at_most
from tenure.core.state import Attempt, Job, protected
from tenure.core.walk import Walk, head_of
from tenure.why.records import Claiming, Evictor, Running, Victim

NAMED = 3
"""Jobs that would evict it, of those in the queue, that are named at most."""


def claiming(contest: Contest, claim: Attempt) -> Claiming:
    """Whom a claim waits for."""
    attempts, victims = contest.state.attempts, []
    for attempt_id in sorted(claim.waiting_for):
        attempt = attempts[attempt_id]
        stop, job = attempt.stop, contest.state.jobs[attempt.job_id]
        if stop is not None:
            warned, killed = stop.warn_at, stop.kill_at
            victims.append(
                Victim(attempt.id, job.id, job.label, attempt.user, attempt.leaf, attempt.gpus, warned, killed)
            )
    return Claiming(tuple(victims), max((victim.kill_at for victim in victims), default=contest.now))


def running(contest: Contest, job: Job, attempt: Attempt) -> Running:
    """An attempt that holds GPUs, being stopped or not."""
    timeout, stop = job.spec.timeout, attempt.stop
    up = attempt.running_since
    return Running(
        attempt=attempt.id,
        hosts=tuple(attempt.hosts()),
        charged=attempt.charged,
        protected=stop is None and protected(attempt, contest.now),
        protected_until=protected_at_most(contest, attempt) if attempt.charged else None,
        latest=attempt.charged and attempt.protected_until is None,
        turn_until=attempt.promised_until if not attempt.charged else None,
        ends_by=up + timeout if up is not None and timeout is not None else None,
        kill_at=stop.kill_at if stop is not None else None,
        evictors=tuple(evictors(contest, attempt)) if stop is None else (),
    )


def evictors(contest: Contest, attempt: Attempt) -> Iterator[Evictor]:
    """Who would have ``attempt`` evicted, were it exposed now: what its hosts are for, then who waits and needs it."""
    yield from _claimed_hosts(contest, attempt)
    kinds = [Kind.CHARGED] if attempt.charged or attempt.promised_until is not None else [*contest.cluster.queues]
    waiting = (job for kind in kinds for job in _in_order(contest, attempt, kind))
    for job in islice(waiting, NAMED):
        yield _evictor(job, because(contest, job, attempt))


def _claimed_hosts(contest: Contest, attempt: Attempt) -> Iterator[Evictor]:
    """A drain, and reservations whose time comes: what is exposed makes way for them."""
    cluster, jobs = contest.cluster, contest.state.jobs
    for host in attempt.hosts():
        if host in cluster.draining:
            drain = Because(Reason.EVICTED_DRAIN, {"host": host, "why": cluster.hosts[host].why})
            yield Evictor(0, "", "", "", 0, drain)
            break
    for job_id in dict.fromkeys(cluster.held[host] for host in attempt.hosts() if host in cluster.held):
        held = cluster.reservations[job_id].reservation
        if attempt.id not in held.bounded:
            times = {"made_at": held.made_at, "starts_by": held.starts_by, "told": held.told}
            yield _evictor(jobs[job_id], Because(Reason.EVICTED_RESERVED, {"gainer": job_id, **times}), held.told)


def _evictor(job: Job, allowed_by: Because, at: int | None = None) -> Evictor:
    return Evictor(job.id, job.label, job.spec.user, job.leaf, job.spec.gpus, allowed_by, at)


def _in_order(contest: Contest, attempt: Attempt, kind: Kind) -> Iterator[Job]:
    """Queued jobs that outrank ``attempt`` and for which there is room once it is gone, in rule 5's order.

    The first of each group of jobs that are alike: others of it come after that one.
    """
    helped = _helps(contest, attempt)
    held = {contest.cluster.held.get(host) for host in attempt.hosts()}  # these are told already
    walk, heads = Walk(contest, kind, _candidates(contest, attempt, kind)), dict[Group, tuple[int, int, int]]()
    while leaf := walk.first_leaf():
        awake = walk.awake[leaf]
        top = max(group.key.priority for group in awake)
        first = [group for group in awake if group.key.priority == top]
        heads.update((group, head_of(contest, group)) for group in first if group not in heads)
        group = min(first, key=heads.__getitem__)
        walk.drop(group)
        job = contest.state.jobs[heads[group][2]]
        if job.id not in held and helped(group, job):
            yield job


def _candidates(contest: Contest, attempt: Attempt, kind: Kind) -> Iterator[Group]:
    """Groups of jobs that outrank ``attempt``; across budgets the reach over it answers for all of a budget."""
    jobs, cluster, standing = contest.state.jobs, contest.cluster, contest.standing(kind)
    kept = bool(cluster.headroom) and set(cluster.headroom).issuperset(attempt.hosts())
    for leaf, groups in cluster.queues[kind].leaves.items():
        if kind is Kind.CHARGED and not contest.charged.entitled(leaf):
            continue
        split = standing.fork(leaf, attempt.leaf)
        if kind is not attempt.kind:  # charged jobs come before what is unallocated
            yield from groups.values()
        elif split is None or kept:
            yield from (group for group in groups.values() if outranks(contest, jobs[group.anyone()], attempt))
        else:
            reach = standing.reach(*split)
            yield from (group for group in groups.values() if standing.margin(group.gpus * GPU) <= reach)


def _helps(contest: Contest, attempt: Attempt) -> Callable[[Group, Job], bool]:
    """Whether a job would fit on hosts that let it in, with all gone that it may evict, ``attempt`` too."""
    doors, everywhere = Doors(contest), (1 << len(contest.cluster.room.hosts)) - 1
    rooms: dict[int, tuple[Room, Room]] = {}
    """The room without what a job may evict, by its identity, beside the same without the attempt."""
    index = contest.cluster.exposed if attempt.charged else contest.cluster.unallocated
    exposed = attempt.id in index.get(attempt.leaf, {})

    def helped(group: Group, job: Job) -> bool:
        most = room_at_most(contest, job)
        _, trial = rooms.get(id(most), (most, None))
        if trial is None:
            trial = most.fork()
            if not exposed:
                trial.give(attempt.slots)
            rooms[id(most)] = most, trial
        return trial.can_fit(job.spec.roles, job.spec.labels, everywhere & ~doors.shut(group))

    return helped
