"""Why a live job is where it is, now, with the numbers: asked for when somebody looks, not kept for everybody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tenure.core.foreign import without
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import MINUTE, After
from tenure.core.placement import Misfit, Room
from tenure.core.preemption import Contest, contrast, outranks, room_at_most
from tenure.core.reasons import Because, Number, Reason
from tenure.core.reservation import Doors
from tenure.core.state import Attempt, Job, Reservation, State, protected

NAMED = 3
"""Attempts that a reason names at most."""
OTHER_POLICIES = frozenset({Reason.WAITING_TEAM_CAP, Reason.WAITING_TURN, Reason.WAITING_RESERVED})
"""What only the policies that this one is compared with let jobs wait for; the reason is all that they leave."""


class Explainer:
    """Answers for many jobs at one moment; jobs that are alike share an answer."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._contests: dict[str, Contest] = {}
        self._groups: dict[tuple[str, object, str], Because] = {}

    def why(self, job: Job) -> Because:
        """The current reason of a live job."""
        state = self.state
        if job.state is JobState.CLAIMING and job.attempt is not None:
            return _claim(state, job.attempt)
        if job.state is not JobState.QUEUED:
            return job.last
        if job.held_by:
            return Because(Reason.HELD_BY_PERSON, {"by": job.held_by})
        if job.behind or state.pending:
            waiting = _others(state, job)
            if waiting is not None:
                return waiting
        if job.not_before > state.now:
            numbers: dict[str, Number] = {
                "until": job.not_before,
                "failures": job.failures,
                "last": job.last.reason.value,
            }
            return Because(Reason.BACKING_OFF, numbers)
        if state.paused_starts:
            return Because(Reason.PAUSED_STARTS, {"by": state.paused_starts})
        if job.reservation is not None:
            return _reserved(job.reservation)
        reasons = [self.in_cluster(job, name) for name in job.spec.clusters if name in state.clusters]
        return foremost(reasons)

    def contest(self, name: str) -> Contest:
        """What decides in one cluster; measured once for all that is asked here. Raises KeyError: no such cluster."""
        contest = self._contests.get(name)
        if contest is None:
            contest = self._contests[name] = Contest(self.state, self.state.clusters[name])
        return contest

    def in_cluster(self, job: Job, name: str) -> Because:
        """Why a queued job is not placed in this one of its clusters. Raises KeyError when there is no such cluster."""
        contest = self.contest(name)
        if job.kind is Kind.CHARGED and not contest.charged.entitled(job.leaf):
            return Because(Reason.HELD_NO_SHARE, {"budget": job.budget, "cluster": name})
        group = contest.cluster.queues[job.kind].group_of(job.id)
        key = (name, group.key if group is not None else job.id, job.kind)
        known = self._groups.get(key)
        if known is None:
            parked = group.parked.reason if group is not None and group.parked is not None else None
            shut = Doors(contest).shut(group) if group is not None else 0
            known = self._groups[key] = waiting(contest, job, parked, shut)
        return known


def why(state: State, job: Job) -> Because:
    """The current reason of one live job (see ``Explainer``)."""
    return Explainer(state).why(job)


def _others(state: State, job: Job) -> Because | None:
    """What keeps it out of the queue: the jobs that it waits for, or the throttle of its array."""
    pending = state.pending.get(job.submission)
    if pending is not None:
        return dependency(state, pending.after)
    if job.behind:
        throttle = state.arrays[job.array].array.throttle
        return Because(Reason.WAITING_THROTTLE, {"array": job.array, "throttle": throttle})
    return None


def dependency(state: State, after: Sequence[After]) -> Because:
    """Which jobs and arrays, all of them live, something waits for."""
    found: dict[str, Number] = {"left": len(after)}
    for key, ok in (("ok", True), ("any", False)):
        named = [one for one in after if one.ok is ok]
        if named:
            labels = tuple(str(one.job_id) if one.whole else state.jobs[one.job_id].label for one in named[:NAMED])
            found[key] = (*labels, "...") if len(named) > NAMED else labels
    return Because(Reason.WAITING_DEPENDENCY, found)


def _claim(state: State, claim: Attempt) -> Because:
    victims = sorted(claim.waiting_for)
    ends = [stop.kill_at for v in victims if v in state.attempts and (stop := state.attempts[v].stop) is not None]
    return Because(Reason.WAITING_CLAIM, {"victims": tuple(victims), "kill_at": max(ends, default=state.now)})


def _reserved(held: Reservation) -> Because:
    numbers: dict[str, Number] = {"cluster": held.cluster, "hosts": held.hosts[:NAMED], "held": len(held.hosts)}
    return Because(Reason.WAITING_RESERVATION, {**numbers, "told": held.told, "starts_by": held.starts_by})


def foremost(reasons: list[Because]) -> Because:
    """Of the reasons of each cluster that a job accepts, in its order, the one that tells most."""
    held = [b for b in reasons if b.reason is not Reason.HELD_NO_SHARE]
    return (held or reasons or [Because(Reason.WAITING_HOST_STATE, {"closed": 0})])[0]


def waiting(contest: Contest, job: Job, parked: Reason | None, shut: int) -> Because:
    """Why a job that could be tried is not placed in this cluster.

    ``parked``: what kept its group from being placed when it was last tried. ``shut``: hosts that do not let it in, as
    bits.
    """
    state, cluster, spec = contest.state, contest.cluster, job.spec
    name = cluster.spec.name
    if parked in OTHER_POLICIES:
        return Because(parked, {"cluster": name})
    misfit = cluster.room.fit(spec.roles, spec.labels)
    # A pass does not look further when it may not evict: whether evicting would help is found out here.
    most, inside = room_at_most(contest, job), ~shut & (1 << len(cluster.room.hosts)) - 1
    helps = most.can_fit(spec.roles, spec.labels, inside)
    if not helps and shut and most.can_fit(spec.roles, spec.labels):
        return _kept_out(contest, shut)
    if helps and parked is Reason.WAITING_EVICTION_CAP:
        recent = sum(1 for at in cluster.recent_evictions if at > state.now - MINUTE)
        return Because(parked, {"cluster": name, "cap": state.policy.evictions_per_minute, "recent": recent})
    if helps and parked is Reason.PAUSED_EVICTIONS:
        by = state.paused_evictions or "clock alarm"
        return Because(parked, {"cluster": name, "by": by})
    if not isinstance(misfit, Misfit):
        return Because(Reason.WAITING_NEW, {"cluster": name})
    if misfit.fits_without_labels:
        return Because(Reason.WAITING_LABELS, {"cluster": name, "labels": _labels(job), **_counts(misfit, job)})
    trial = cluster.room.fork()
    others = [a for a in _evictable(contest, job.kind) if any(cluster.room.is_open(s.host) for s in a.slots)]
    for attempt in others:
        trial.give(attempt.slots)
    if trial.can_fit(spec.roles, spec.labels):
        return _standing(contest, job, others)
    if misfit.fits_if_open:
        closed = tuple(h for h, r in sorted(cluster.hosts.items()) if not cluster.room.is_open(h))
        return Because(Reason.WAITING_HOST_STATE, {"cluster": name, "closed": misfit.closed, "hosts": closed[:NAMED]})
    if cluster.foreign and without(trial, cluster).can_fit(spec.roles, spec.labels):
        return _around(contest, job, trial)
    return _no_room(contest, job, trial, misfit)


def _kept_out(contest: Contest, shut: int) -> Because:
    """It would fit on hosts that are held for others: which they are, and until when at most."""
    cluster = contest.cluster
    until = {job: held.reservation.told for job, held in cluster.reservations.items() if held.mask & shut}
    first = sorted(until, key=lambda job: (until[job], job))[:NAMED]
    named = tuple((str(job), until[job]) for job in first)
    return Because(Reason.WAITING_RESERVED, {"cluster": cluster.spec.name, "hosts": shut.bit_count(), "for": named})


def _evictable(contest: Contest, kind: Kind) -> Iterator[Attempt]:
    """What anybody with the best standing could evict for a job of this kind."""
    for leaf in contest.cluster.unallocated.values():
        yield from leaf.values()
    if kind is Kind.CHARGED:
        for leaf in contest.cluster.exposed.values():
            yield from leaf.values()


def _standing(contest: Contest, job: Job, others: list[Attempt]) -> Because:
    """It would fit if it came before those who run exposed: name the one who comes first, and both ratios."""
    ahead = [a for a in others if not outranks(contest, job, a)]
    numbers: dict[str, Number] = {"cluster": contest.cluster.spec.name, "gpus": job.spec.gpus}
    if not ahead:
        return Because(Reason.WAITING_CAPACITY, {**numbers, "free_gpus": contest.cluster.room.free_gpus})
    standing = contest.standing(job.kind)
    rival = min(ahead, key=lambda a: (standing.fork(job.leaf, a.leaf) is None, a.leaf, a.job_id))
    split = standing.fork(job.leaf, rival.leaf)
    numbers["attempt"] = rival.id
    if split is None:
        rival_job = contest.state.jobs[rival.job_id]
        numbers |= {"first": rival.leaf, "first_priority": rival_job.spec.priority, "priority": job.spec.priority}
        numbers["rule"] = "turn" if rival.promised_until is not None else "priority"
    else:
        mine, theirs = split
        numbers |= contrast(standing, theirs, mine)
        numbers |= _rule(contest, job, rival, standing.reach(theirs, mine) >= 0)
    if rival.promised_until is not None:
        numbers["turn_until"] = rival.promised_until
    return Because(Reason.WAITING_STANDING, numbers)


def _rule(contest: Contest, job: Job, rival: Attempt, comes_first: bool) -> dict[str, Number]:
    """What lets an attempt of another budget stay: its turn, the order of the two, or the margin alone."""
    if rival.promised_until is not None:
        return {"rule": "turn"}
    if comes_first:
        return {"rule": "order"}
    return {"rule": "margin", "margin": job.spec.gpus * contest.state.policy.preemption_margin}


def _around(contest: Contest, job: Job, trial: Room) -> Because:
    """It would fit if jobs around Tenure used nothing: how much they use, and where."""
    cluster = contest.cluster
    used = sum(use.gpus for use in cluster.foreign.values())
    numbers: dict[str, Number] = {"cluster": cluster.spec.name, "gpus": job.spec.gpus, "free_gpus": trial.free_gpus}
    return Because(Reason.WAITING_OTHERS, {**numbers, "others": used, "hosts": tuple(sorted(cluster.foreign))[:NAMED]})


def _no_room(contest: Contest, job: Job, trial: Room, now: Misfit) -> Because:
    """Even without everything that is exposed there is no room: what is missing, and who holds it until when.

    ``now``: why it does not fit beside what runs. What is free is told as of now, not as if evictions had been made.
    """
    misfit = trial.fit(job.spec.roles, job.spec.labels)
    assert isinstance(misfit, Misfit)  # the caller has tried it
    numbers: dict[str, Number] = {"cluster": contest.cluster.spec.name, **_counts(now, job)}
    if misfit.free_gpus > now.free_gpus:
        numbers["evictable_gpus"] = misfit.free_gpus - now.free_gpus
    if misfit.fits_without_labels:
        return Because(Reason.WAITING_LABELS, {**numbers, "labels": _labels(job)})
    if misfit.cpu_mem_short and not misfit.gpus_short:
        return Because(Reason.WAITING_CPU_MEMORY, {**numbers, "hosts_short": misfit.cpu_mem_short})
    until = sorted(
        (a.protected_until, a.id)
        for a in contest.state.attempts.values()
        if a.cluster == contest.cluster.spec.name and a.protected_until is not None and protected(a, contest.now)
    )
    numbers["protected"] = tuple((attempt, end) for end, attempt in until[:NAMED])
    if misfit.whole_needed and misfit.free_gpus >= job.spec.gpus:
        return Because(Reason.WAITING_WHOLE_HOSTS, numbers)
    return Because(Reason.WAITING_CAPACITY, numbers)


def _counts(misfit: Misfit, job: Job) -> dict[str, Number]:
    return {
        "gpus": job.spec.gpus,
        "free_gpus": misfit.free_gpus,
        "whole_free": misfit.whole_free,
        "whole_needed": misfit.whole_needed,
    }


def _labels(job: Job) -> tuple[str, ...]:
    required = [label for label in job.spec.labels if label.required]
    return tuple(label.key if label.value is None else f"{label.key}={label.value}" for label in required)
