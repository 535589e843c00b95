"""What stands between a queued job and the GPUs that it needs: which attempts, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tenure.core.placement import Room
from tenure.core.preemption import Contest, grace_of, room_at_most
from tenure.core.reservation import Doors, protected_at_most
from tenure.core.state import Attempt, Job, protected
from tenure.why.ranks import Ranks
from tenure.why.records import Blocker, Blocking, Space

LISTED = 20
"""Attempts that an answer lists at most: those that end first, and the one that decides."""
_NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class _Stay:
    """An attempt that the job may not evict now: until when it keeps its GPUs, and why so long."""

    attempt: Attempt
    until: int
    why: Blocking
    rule: str | None = None


def space(contest: Contest, job: Job) -> Space:
    """What ``job`` needs in this cluster, what it finds, and what is in its way."""
    cluster, spec = contest.cluster, job.spec
    room, (largest, _, _) = cluster.room, cluster.room.most
    inside, most, stays = _ways(contest, job)
    stays.sort(key=lambda stay: (stay.until, stay.attempt.protected_until or 0, stay.attempt.job_id, stay.attempt.id))
    needed, enough_at, others = _needed(contest, most, job, stays, inside)
    listed = [*needed[: LISTED - 1], *needed[LISTED - 1 :][-1:]]
    return Space(
        gpus=spec.gpus,
        whole_hosts=sum(role.replicas for role in spec.roles if 0 < role.gpus == largest),
        free_gpus=most.free_within(inside),
        free_hosts=most.whole_free(inside),
        evictable_gpus=most.free_within(inside) - room.free_within(inside),
        blockers=tuple(_blockers(contest, most, stays, listed, inside)),
        blocking=len(needed),
        others=others,
        enough_at=enough_at,
    )


def _ways(contest: Contest, job: Job) -> tuple[int, Room, list[_Stay]]:
    """Hosts that let the job in, as bits; the room without what it may evict; and what it may not."""
    cluster, now = contest.cluster, contest.now
    attempts = [a for a in contest.state.attempts.values() if a.cluster == cluster.spec.name]
    held = cluster.reservations.get(job.id)
    if held is not None:  # on its own hosts everything that is exposed makes way, but for what it was told does not
        most, stays = cluster.room.fork(), []
        for attempt in attempts:
            if cluster.room.mask(attempt.slots) & held.mask:
                bounded = attempt.id in held.reservation.bounded
                if bounded or attempt.started_at is None or attempt.stop is not None or protected(attempt, now):
                    stays.append(_stay(contest, attempt, "" if bounded else None))
                else:
                    most.give(attempt.slots)
        return held.mask, most, stays
    everywhere = (1 << len(cluster.room.hosts)) - 1
    group = cluster.queues[job.kind].group_of(job.id)
    inside = everywhere & ~Doors(contest).shut(group) if group is not None else everywhere
    ranks = Ranks(contest, job)
    stays = [_stay(contest, a, None if ranks.over(a) else ranks.kept_by(a)) for a in attempts if not ranks.evictable(a)]
    return inside, room_at_most(contest, job), stays


def _stay(contest: Contest, attempt: Attempt, rule: str | None) -> _Stay:
    """``rule``: what keeps it even then; None: the job may evict it once it is exposed, or has had its turn."""
    now, stop = contest.now, attempt.stop
    if stop is not None:
        return _Stay(attempt, _NEVER if attempt.unreleased else max(now, stop.kill_at), Blocking.LEAVING)
    if attempt.started_at is None and not attempt.charged:  # given back as soon as it is complete
        return _Stay(attempt, _claimed_until(contest, attempt), Blocking.LEAVING)
    if rule is not None:
        return _Stay(attempt, _ends_by(contest, attempt), Blocking.FIRST, rule or None)
    if not attempt.charged:
        return _Stay(attempt, attempt.promised_until or now, Blocking.TURN)
    until = protected_at_most(contest, attempt)
    return _Stay(attempt, until, Blocking.PROTECTED if attempt.protected_until is not None else Blocking.STARTING)


def _claimed_until(contest: Contest, claim: Attempt) -> int:
    attempts = contest.state.attempts
    stops = [attempts[victim].stop for victim in claim.waiting_for]
    return max([contest.now, *(stop.kill_at for stop in stops if stop is not None)])


def _ends_by(contest: Contest, attempt: Attempt) -> int:
    """When its time-out ends it at the latest, grace included."""
    timeout = contest.state.jobs[attempt.job_id].spec.timeout
    if timeout is None:
        return _NEVER
    up = attempt.running_since
    if up is None:
        opened = attempt.started_at if attempt.started_at is not None else _claimed_until(contest, attempt)
        up = opened + contest.cluster.spec.start_timeout
    return max(contest.now, up + timeout + grace_of(contest.state, attempt))


def _needed(
    contest: Contest, most: Room, job: Job, stays: Sequence[_Stay], inside: int
) -> tuple[list[_Stay], int | None, int]:
    """Which of ``stays``, which are sorted, are in the way, when the job fits, and how many others (see ``Space``).

    The fewest of the earliest that will do. Found by halving: what fits when some have gone fits when more have.
    """
    roles, labels = job.spec.roles, job.spec.labels
    trial = most.fork()
    if trial.can_fit(roles, labels, inside):
        return [], contest.now, 0
    count = known = sum(stay.until < _NEVER for stay in stays)
    _give(trial, stays[:known])
    if not trial.can_fit(roles, labels, inside):
        _give(trial, stays[known:])
        count = len(stays)
        if not trial.can_fit(roles, labels, inside):
            return [], None, 0
    where = inside & trial.open_hosts()
    low, high, at = 0, count, count
    while high - low > 1:
        middle = (low + high) // 2
        at = _move(trial, stays, at, middle)
        if trial.can_fit(roles, labels, inside):
            high = middle
        else:
            low = middle
    _move(trial, stays, at, high)
    slots = trial.place(roles, labels, inside)
    assert slots is not None  # it fits there
    there = trial.mask(slots)
    needed = _fewest(most, job, [stay for stay in stays[:high] if trial.mask(stay.attempt.slots) & there], inside)
    if count == known:
        return needed, stays[high - 1].until, 0
    # Nobody knows which of those without an end goes first.
    able = sum(bool(trial.mask(stay.attempt.slots) & where) for stay in stays[known:])
    return needed, None, able - sum(stay.until == _NEVER for stay in needed)


def _fewest(most: Room, job: Job, stays: Sequence[_Stay], inside: int) -> list[_Stay]:
    """Those of ``stays`` without which the job does not fit, when it does with all of them gone; the last one is."""
    trial, needed = most.fork(), list(stays)
    _give(trial, stays)
    for stay in stays[:-1]:
        trial.take(stay.attempt.slots)
        if trial.can_fit(job.spec.roles, job.spec.labels, inside):
            needed.remove(stay)
        else:
            trial.give(stay.attempt.slots)
    return needed


def _give(trial: Room, stays: Iterable[_Stay]) -> None:
    for stay in stays:
        trial.give(stay.attempt.slots)


def _move(trial: Room, stays: Sequence[_Stay], at: int, to: int) -> int:
    """Make the first ``to`` of ``stays`` gone where the first ``at`` were. Returns ``to``."""
    _give(trial, stays[at:to])
    for stay in reversed(stays[to:at]):
        trial.take(stay.attempt.slots)
    return to


def _blockers(
    contest: Contest, most: Room, stays: Sequence[_Stay], listed: Sequence[_Stay], inside: int
) -> Iterable[Blocker]:
    """``listed`` with what is free to the job when each of them is out of the way."""
    trial, at = most.fork(), 0
    wanted = {stay.attempt.id: i + 1 for i, stay in enumerate(stays)}
    for stay in listed:
        attempt = stay.attempt
        at = _move(trial, stays, at, wanted[attempt.id])
        yield Blocker(
            attempt=attempt.id,
            job=attempt.job_id,
            label=contest.state.jobs[attempt.job_id].label,
            user=attempt.user,
            budget=attempt.leaf,
            gpus=attempt.gpus,
            why=stay.why,
            rule=stay.rule,
            until=stay.until if stay.until < _NEVER else None,
            protected_until=attempt.protected_until,
            free_gpus=trial.free_within(inside),
            whole_hosts=trial.whole_free(inside),
        )
