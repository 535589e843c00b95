"""Rules 6 to 8: who may be evicted for a job, and the smallest sufficient set of victims.

The search is a transaction on a fork of the room: nothing changes until the plan is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tenure.core.decisions import Evict
from tenure.core.fairshare import Standing
from tenure.core.ledger import Kind
from tenure.core.model import GPU, JobSpec, Slots, short
from tenure.core.placement import Room
from tenure.core.queue import Shape
from tenure.core.reasons import Because, Number, Reason
from tenure.core.state import Attempt, ClusterState, Job, State, margin_amount
from tenure.core.tally import spread, total

GENEROUS = 8
"""Whole GPUs that a set of victims may free too many before a larger set is looked at last (rule 8)."""


class Contest:
    """What decides a contest for GPUs in one cluster at ``state.now``: the state and both standings."""

    def __init__(self, state: State, cluster: ClusterState) -> None:
        self.state = state
        self.cluster = cluster
        self.now = state.now
        self._standings: dict[Kind, Standing] = {}
        self.rooms: dict[tuple[Kind, tuple[str, ...], tuple[str, int, int] | None, bool], Room] = {}
        """Rooms as they would be without everything that may be evicted, by what that depends on."""
        self.needing: dict[tuple[Shape, int], bool] = {}
        """Whether a shape needs some of the hosts that are kept for short contracts, by these hosts."""

    @property
    def charged(self) -> Standing:
        return self.standing(Kind.CHARGED)

    @property
    def unallocated(self) -> Standing:
        return self.standing(Kind.UNALLOCATED)

    def standing(self, kind: Kind) -> Standing:
        known = self._standings.get(kind)
        if known is None:
            ledger, tree, policy = self.cluster.ledger, self.state.the_tree(), self.state.policy
            known = self._standings[kind] = Standing(ledger, tree, policy, kind, self.now)
        return known

    def moved(self) -> None:
        """A plan was applied: what may be evicted is different now."""
        self.rooms.clear()

    def outranked(self, kind: Kind, leaf: str, amount: int) -> tuple[str, ...]:
        """Siblings along the path of ``leaf`` with something to evict that a job of ``amount`` outranks."""
        pool = self.cluster.pools[kind].gpus
        if not pool:
            return ()
        standing, tree = self.standing(kind), self.state.the_tree()
        margin = standing.margin(amount)
        return tuple(
            sibling
            for child in tree.line(leaf)[1:]
            for sibling in tree.siblings[child]
            if sibling in pool and standing.reach(child, sibling) >= margin
        )


def evictable_at_most(
    contest: Contest, kind: Kind, leaf: str, priority: int, outranked: Sequence[str], brief: bool
) -> tuple[int, int]:
    """GPUs that may be evicted for such a job, in all and by host (see ``tally``). ``brief``: a short contract."""
    cluster, pool = contest.cluster, contest.cluster.pools[kind]
    gpus, by_host = pool.below(leaf, priority)
    if kind is Kind.CHARGED:
        gpus += cluster.unallocated_gpus
        by_host += cluster.unallocated_tally
    for sibling in outranked:
        gpus += pool.gpus[sibling]
        by_host += pool.tallies[sibling]
    if brief and cluster.headroom:
        kept = pool.tallies.get(contest.state.the_tree().root, 0) & spread(cluster.headroom_mask)
        gpus += total(kept, cluster.headroom_mask)
        by_host += kept
    return gpus, by_host


def room_at_most(contest: Contest, job: Job) -> Room:
    """The room as it would be with everything gone that ``job`` may evict: what does not fit there never will."""
    cluster, kind = contest.cluster, job.kind
    index = cluster.exposed if kind is Kind.CHARGED else cluster.unallocated
    outranked = contest.outranked(kind, job.leaf, margin_amount(job.spec))
    reserved = job.id if job.reservation is not None else 0
    own = (job.leaf, job.spec.priority, reserved) if job.leaf in index else None
    licence = _on_headroom(contest, job) if kind is Kind.CHARGED and cluster.headroom else []
    key = (kind, outranked, own, bool(licence))
    room = contest.rooms.get(key)
    if room is None:
        room = contest.rooms[key] = cluster.room.fork()
        sources = list(cluster.unallocated.values()) if kind is Kind.CHARGED else []
        line = contest.state.the_tree().line
        sources += [attempts for leaf, attempts in index.items() if not set(outranked).isdisjoint(line(leaf))]
        for attempts in sources:
            for attempt in attempts.values():
                if kind is Kind.CHARGED or attempt.promised_until is None:
                    room.give(attempt.slots)
        given = set()
        for attempt in index[job.leaf].values() if own is not None else ():
            if outranks(contest, job, attempt):
                given.add(attempt.id)
                room.give(attempt.slots)
        for attempt in licence:
            if attempt.id not in given and set(outranked).isdisjoint(line(attempt.leaf)):
                room.give(attempt.slots)
    return room


def outranks(contest: Contest, job: Job, attempt: Attempt) -> bool:
    """Whether ``job`` may evict the evictable ``attempt`` (rules 6 and 7)."""
    if attempt.kind is Kind.UNALLOCATED:
        if job.kind is Kind.CHARGED:
            return True
        if attempt.promised_until is not None:  # it has its first hour
            return False
    elif job.kind is Kind.UNALLOCATED:
        return False
    elif contest.cluster.headroom and licensed(contest, job, attempt):
        return True
    standing = contest.standing(job.kind)
    split = standing.fork(job.leaf, attempt.leaf)
    if split is None:
        victim = contest.state.jobs[attempt.job_id]
        mine, theirs = job.spec.priority, victim.spec.priority
        return mine > theirs or (mine == theirs and job.reservation is not None and job.submitted < victim.submitted)
    return standing.reach(*split) >= standing.margin(margin_amount(job.spec))


def licensed(contest: Contest, job: Job, attempt: Attempt) -> bool:
    """Whether a short contract may evict what runs exposed on hosts that are kept for such, whoever it is (rule 10)."""
    kept = contest.cluster.headroom
    return short(job.spec.contract.min_runtime, job.spec.gpus) and all(host in kept for host in attempt.hosts())


def charged_victims(contest: Contest, job: Job) -> Iterator[Attempt]:
    """Exposed charged attempts that ``job`` outranks, rule 5 walked backwards: the least deserving first."""
    yield from _walk(contest, contest.charged, contest.cluster.exposed, contest.state.the_tree().root, job)


def unallocated_victims(contest: Contest, job: Job) -> Iterator[Attempt]:
    """Unallocated attempts that ``job`` may evict, the budgets that had the most free time first."""
    yield from _walk(contest, contest.unallocated, contest.cluster.unallocated, contest.state.the_tree().root, job)


def _walk(
    contest: Contest, standing: Standing, index: dict[str, dict[str, Attempt]], path: str, job: Job
) -> Iterator[Attempt]:
    tree = contest.state.the_tree()
    if tree.nodes[path].children:
        live = {line for leaf in index for line in tree.line(leaf)}
        below = [child for child in tree.nodes[path].children if child in live]
        if standing.kind is job.kind and path in tree.line(job.leaf):  # here it is decided who of them may be evicted
            own, margin = tree.line(job.leaf), standing.margin(margin_amount(job.spec))
            mine = own[own.index(path) + 1]
            below = [child for child in below if child == mine or standing.reach(mine, child) >= margin]
        for child in reversed(standing.order(below)):
            yield from _walk(contest, standing, index, child, job)
        return
    jobs = contest.state.jobs

    def least_deserving(attempt: Attempt) -> tuple[int, int, int, int, int]:
        owner = jobs[attempt.job_id]
        return (
            owner.spec.priority,
            -standing.person_used(path, attempt.user),
            owner.evictions_since_checkpoint,
            attempt.at_risk(contest.now),
            -attempt.job_id,
        )

    attempts: Iterable[Attempt] = index.get(path, {}).values()
    if standing.kind is job.kind:
        attempts = [attempt for attempt in attempts if outranks(contest, job, attempt)]
    yield from sorted(attempts, key=least_deserving)


@dataclass(frozen=True, slots=True)
class Found:
    """How a job would fit: who must go, who is going already and is waited for, and the GPUs that it would get."""

    victims: list[Attempt]
    leaving: list[Attempt]
    slots: tuple[Slots, ...]


def search(contest: Contest, job: Job, hosts: int | None = None) -> Found | None:
    """The victims whose GPUs make ``job`` fit, on ``hosts`` if given; None when there are none.

    Unallocated ones first; within a class first sets that free at most max(8, the job's) GPUs too many. What earlier
    plans free beyond their need by the time that these victims would be gone is counted in: nobody goes for what is
    on its way.
    """
    room = contest.cluster.room
    found = _search_in(contest, job, room, hosts)
    if found is None:
        return None
    gone_by = contest.now + max(grace_of(contest.state, attempt) for attempt in found[0])
    leaving = [a for a in contest.cluster.leaving.values() if a.stop is not None and a.stop.kill_at <= gone_by]
    if leaving:
        later = room.fork()
        for attempt in leaving:
            later.give(attempt.slots)
        free = later.place(job.spec.roles, job.spec.labels, hosts)
        fewer = _search_in(contest, job, later, hosts) if free is None else ([], free)
        if fewer is not None and sum(a.gpus for a in fewer[0]) < sum(a.gpus for a in found[0]):
            there = {slot.host for slot in fewer[1]}
            return Found(fewer[0], [a for a in leaving if there.intersection(a.hosts())], fewer[1])
    return Found(found[0], [], found[1])


def _search_in(
    contest: Contest, job: Job, room: Room, hosts: int | None
) -> tuple[list[Attempt], tuple[Slots, ...]] | None:
    unallocated = [a for a in unallocated_victims(contest, job) if room.opens(a.slots, hosts)]
    found = smallest_set(room, job.spec, unallocated, hosts)
    if found is None and job.kind is Kind.CHARGED:
        charged = [a for a in charged_victims(contest, job) if room.opens(a.slots, hosts)]
        known = {a.id for a in charged}
        charged += [a for a in _on_headroom(contest, job) if a.id not in known]
        if charged:
            found = smallest_set(room, job.spec, unallocated + charged, hosts)
    return found


def _on_headroom(contest: Contest, job: Job) -> list[Attempt]:
    """What ``job`` is licensed to evict on kept hosts, what loses least first."""
    cluster, attempts, found = contest.cluster, contest.state.attempts, dict[str, Attempt]()
    if cluster.headroom and short(job.spec.contract.min_runtime, job.spec.gpus):
        for host in cluster.headroom:
            for attempt_id in cluster.on_host[host]:
                attempt = attempts[attempt_id]
                if attempt_id in cluster.exposed.get(attempt.leaf, ()) and licensed(contest, job, attempt):
                    found[attempt_id] = attempt
    return sorted(found.values(), key=lambda a: (a.at_risk(contest.now), a.id))


def smallest_set(
    room: Room, spec: JobSpec, candidates: Sequence[Attempt], hosts: int | None = None
) -> tuple[list[Attempt], tuple[Slots, ...]] | None:
    """The first of ``candidates``, in their order, whose GPUs make a job fit, and the slots it gets; None: no such set.

    On ``hosts`` if given.

    First from those that free few too many; when their set still does, from all, and the less wasteful of both.
    """
    limit = max(GENEROUS, spec.gpus)
    small = [a for a in candidates if a.gpus <= spec.gpus + limit]
    found = _greedy(room, spec, small, hosts)
    if (found is not None and _wasted(*found) <= limit) or len(small) == len(candidates):
        return found
    larger = _greedy(room, spec, candidates, hosts)
    if found is None or larger is None:
        return found or larger
    return min(found, larger, key=lambda each: _wasted(*each))


def _greedy(
    room: Room, spec: JobSpec, candidates: Sequence[Attempt], hosts: int | None
) -> tuple[list[Attempt], tuple[Slots, ...]] | None:
    """Add candidates in turn until the job fits, then drop every one that turned out not to be needed."""
    trial = room.fork()
    alone = len(spec.roles) == 1 and spec.roles[0].replicas == 1

    def fits(attempt: Attempt) -> bool:
        """Whether the job fits, when it did not before the attempt went: a single replica then is where that was."""
        if trial.free_gpus < spec.gpus:
            return False
        if not alone:
            return trial.can_fit(spec.roles, spec.labels, hosts)
        there = trial.mask(attempt.slots)
        return trial.can_fit(spec.roles, spec.labels, there if hosts is None else there & hosts)

    chosen: list[Attempt] = []
    for attempt in candidates:
        trial.give(attempt.slots)
        chosen.append(attempt)
        if fits(attempt):
            break
    else:
        return None
    last = chosen.pop()
    needed, where = [last], trial.mask(last.slots)
    for attempt in reversed(chosen):
        if alone and not trial.mask(attempt.slots) & where:
            continue  # there is nothing of it where the job fits
        trial.take(attempt.slots)
        if not fits(last):
            trial.give(attempt.slots)
            needed.append(attempt)
    slots = trial.place(spec.roles, spec.labels, hosts)
    if slots is None:
        return None
    needed.reverse()
    return needed, slots


def _wasted(victims: Sequence[Attempt], slots: Sequence[Slots]) -> int:
    """GPUs that the victims free and the job does not take."""
    taken = {(s.host, gpu) for s in slots for gpu in s.gpus}
    freed = {(s.host, gpu) for v in victims for s in v.slots for gpu in s.gpus}
    return len(freed - taken)


def evictions(
    contest: Contest,
    job: Job,
    victims: Sequence[Attempt],
    amount: int,
    why: Callable[[Attempt], Because] | None = None,
) -> tuple[Evict, ...]:
    """The records of a plan's evictions: staggered so that all graces end together.

    ``why``: what allows each of them, where standing does not have to.
    """
    cluster, now = contest.cluster.spec, contest.now
    graces = [grace_of(contest.state, attempt) for attempt in victims]
    kill_at = now + max(graces, default=0)
    worth = amount * (job.spec.contract.min_runtime or contest.state.policy.unallocated_turn)
    total = sum(v.amount for v in victims)
    records = []
    for attempt, grace in zip(victims, graces, strict=True):
        records.append(
            Evict(
                attempt.id,
                why(attempt) if why is not None else because(contest, job, attempt),
                job.id,
                worth * attempt.amount // total,
                attempt.at_risk(now),
                kill_at - grace,
                kill_at,
                kill_at + cluster.kill_timeout,
            )
        )
    return tuple(records)


def grace_of(state: State, attempt: Attempt) -> int:
    """How long an attempt gets between warning and kill."""
    cluster = state.clusters[attempt.cluster].spec
    most = cluster.max_grace if attempt.charged else cluster.unallocated_grace
    return min(state.jobs[attempt.job_id].spec.grace, most)


def because(contest: Contest, job: Job, attempt: Attempt) -> Because:
    """Why ``job`` may evict ``attempt``, with the numbers."""
    if attempt.kind is Kind.UNALLOCATED and job.kind is Kind.CHARGED:
        return Because(Reason.EVICTED_UNALLOCATED, {"gainer": job.id, "gainer_gpus": job.spec.gpus})
    standing = contest.standing(job.kind)
    split = standing.fork(job.leaf, attempt.leaf)
    by_rank = split is not None and standing.reach(*split) >= standing.margin(margin_amount(job.spec))
    if not by_rank and attempt.charged and licensed(contest, job, attempt):
        kept = len(contest.cluster.headroom)
        return Because(Reason.EVICTED_HEADROOM, {"gainer": job.id, "hosts": kept, "wanted": job.spec.gpus})
    if split is None:
        victim = contest.state.jobs[attempt.job_id]
        if job.reservation is not None and job.spec.priority == victim.spec.priority:
            held = {"made_at": job.reservation.made_at, "starts_by": job.reservation.starts_by}
            return Because(Reason.EVICTED_RESERVED, {"gainer": job.id, **held, "told": job.reservation.told})
        numbers: dict[str, Number] = {
            "gainer": job.id,
            "gainer_priority": job.spec.priority,
            "victim_priority": victim.spec.priority,
        }
        return Because(Reason.EVICTED_PRIORITY, numbers)
    return Because(
        Reason.EVICTED_STANDING,
        {
            "gainer": job.id,
            **contrast(standing, *split),
            "margin": margin_amount(job.spec) * contest.state.policy.preemption_margin // GPU,
        },
    )


def contrast(standing: Standing, first: str, second: str) -> dict[str, Number]:
    """Two siblings' ratios over the lookback and the last day, in parts per million, for a reason's numbers."""
    a, b = standing.figures(first), standing.figures(second)
    return {
        "first": first,
        "first_ratio_ppm": a.ratio_ppm(),
        "first_recent_ppm": a.recent_ppm(),
        "second": second,
        "second_ratio_ppm": b.ratio_ppm(),
        "second_recent_ppm": b.recent_ppm(),
    }
