"""Defragmentation: what runs exposed on parts of hosts moves together, so that a gang in turn finds whole ones.

Only where GPUs enough for the gang are free, or held by what it may evict, and merely in the wrong places. What moves
is resumable and exposed, has a place to go to, and loses less than the gang gains. It is evicted for the gang, keeps
its seniority, and starts again in the next pass: on what is free then, whoever outranks whom.
"""

from __future__ import annotations

from tenure.core.decisions import Claim
from tenure.core.model import HOUR, MINUTE
from tenure.core.placement import Room
from tenure.core.preemption import (
    Contest,
    because,
    charged_victims,
    evictions,
    grace_of,
    smallest_set,
    unallocated_victims,
)
from tenure.core.reasons import Because, Number, Reason
from tenure.core.state import Attempt, ClusterState, Job

RESTART = 5 * MINUTE
"""What a move costs besides the work since the last checkpoint and the grace: coming up again."""


def moves_left(contest: Contest) -> int:
    """How many attempts the cap per hour still lets move."""
    recent = sum(1 for at in contest.cluster.recent_moves if at > contest.now - HOUR)
    return contest.state.policy.moves_per_hour - recent


def plan(contest: Contest, job: Job, hosts: int, elsewhere: int) -> Claim | None:
    """A claim of ``job`` on ``hosts``, with what has to move to ``elsewhere`` for it (both as bits); None: no such.

    The cheap test first: moving changes where GPUs are free, not how many.
    """
    room, spec = contest.cluster.room, job.spec
    lawful = {a.id: a for a in (*unallocated_victims(contest, job), *charged_victims(contest, job))}
    if room.free_gpus + sum(a.gpus for a in lawful.values()) < spec.gpus or moves_left(contest) <= 0:
        return None
    candidates = [*lawful.values(), *(a for a in _movable(contest) if a.id not in lawful)]
    found = smallest_set(room, spec, [a for a in candidates if room.opens(a.slots, hosts)], hosts)
    if found is None:
        return None
    victims, slots = found
    moved = [a for a in victims if a.id not in lawful]
    if not moved or len(moved) > moves_left(contest):
        return None
    after = room.fork()
    for attempt in victims:
        after.give(attempt.slots)
    after.take(slots)
    amount = room.amount(slots)
    gained, lost = amount * spec.contract.min_runtime, sum(_loss(contest, a) for a in victims)
    if gained <= lost or not _fit(contest, moved, after, elsewhere):
        return None
    numbers: dict[str, Number] = {"gainer": job.id, "gained": gained, "lost": lost}
    ids = {a.id for a in moved}

    def why(attempt: Attempt) -> Because:
        return Because(Reason.EVICTED_MOVED, numbers) if attempt.id in ids else because(contest, job, attempt)

    records = evictions(contest, job, victims, amount, why)
    started = Because(
        Reason.STARTED_BY_EVICTION, {"victims": len(records), "kill_at": max(each.kill_at for each in records)}
    )
    attempt_id, name = f"{job.id}.{job.attempts + 1}", contest.cluster.spec.name
    return Claim(contest.now, job.id, attempt_id, name, slots, amount, records, started)


def _movable(contest: Contest) -> list[Attempt]:
    """Exposed, resumable attempts, those first whose hosts are cleared at the least loss."""
    cluster = contest.cluster
    found = [
        attempt
        for attempts in cluster.exposed.values()
        for attempt in attempts.values()
        if contest.state.jobs[attempt.job_id].spec.contract.resumable
    ]
    losses: dict[str, int] = {}
    for attempt in found:
        for host in attempt.hosts():
            losses[host] = losses.get(host, 0) + _loss(contest, attempt)

    def order(attempt: Attempt) -> tuple[int, int, int, int]:
        first = min(attempt.hosts(), key=lambda host: (losses[host], cluster.room.index[host]))
        return losses[first], cluster.room.index[first], _loss(contest, attempt), attempt.job_id

    return sorted(found, key=order)


def _loss(contest: Contest, attempt: Attempt) -> int:
    """What stopping it costs: amount x (work since the last checkpoint, the grace, coming up again)."""
    return attempt.at_risk(contest.now) + attempt.amount * (grace_of(contest.state, attempt) + RESTART)


def _fit(contest: Contest, moved: list[Attempt], after: Room, elsewhere: int) -> bool:
    """Whether everything that moves has a place when the gang has its own, the largest first."""
    for attempt in sorted(moved, key=lambda a: (-a.gpus, a.job_id)):
        spec = contest.state.jobs[attempt.job_id].spec
        slots = after.place(spec.roles, spec.labels, elsewhere)
        if slots is None:
            return False
        after.take(slots)
    return True


def note_move(cluster: ClusterState, at: int) -> None:
    """Count a move towards the cap per hour."""
    recent = cluster.recent_moves
    recent.append(at)
    while recent and recent[0] <= at - HOUR:
        recent.popleft()
