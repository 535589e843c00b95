"""Rule 10: which hosts are held for a job in turn, until when, whom they let in, and when their time has come.

A host is held for one job at most, and for a job whole hosts are held: those that become free to it earliest. Until
the time told they let in what is over by then, unallocated jobs, and short contracts, which may pass it once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from tenure.core.decisions import Claim, Reserve, Start
from tenure.core.foreign import wholly_ours
from tenure.core.ledger import Kind
from tenure.core.model import GPU, SHORT_GPUS, SHORT_RUNTIME, Cluster, Slots, short
from tenure.core.preemption import Contest, because, evictions, grace_of, smallest_set
from tenure.core.queue import Group
from tenure.core.reasons import Because, Number, Reason
from tenure.core.state import Attempt, Held, Job, protected

NEVER = 1 << 62
PERCENT = 100


def slack(cluster: Cluster) -> int:
    """Longest time from a decision to evict until the GPUs are back, ms."""
    return cluster.max_grace + cluster.kill_timeout


def bound(cluster: Cluster, told: int) -> int:
    """By when a job starts whose hosts are free at ``told``.

    Whoever was let in before ``told`` may have had to wait for a grace and for its start-up, and as a short contract is
    protected for 15 min then; the job itself may have to wait for one more grace.
    """
    return told + SHORT_RUNTIME + cluster.start_timeout + 2 * slack(cluster)


class Doors:
    """Who is let in on held hosts at ``contest.now``. Good until the next plan.

    ``but``: jobs for which nothing is held as far as this is concerned.
    """

    def __init__(self, contest: Contest, but: Collection[int] = ()) -> None:
        self.contest = contest
        held = contest.cluster.reservations
        self._held = {job: each for job, each in held.items() if job not in but} if but else held
        self._shut: dict[tuple[int, int, str, int], int] = {}

    def shut(self, group: Group) -> int:
        """Hosts that do not let the jobs of ``group`` in, as bits."""
        cluster = self.contest.cluster
        if not (self._held or cluster.headroom) or group.kind is Kind.UNALLOCATED:
            return 0
        least, key = group.key.shape.min_runtime, group.key
        brief = short(least, group.gpus)
        known = (least, key.reserved, key.leaf if brief else "", group.gpus if brief else 0)
        mask = self._shut.get(known)
        if mask is None:
            mask = self._shut[known] = self._mask(least, group.gpus, key.leaf, key.reserved)
        kept = 0 if brief else cluster.headroom_mask & mask
        if kept and self._needs(group, kept):
            mask &= ~kept
            for held in self._held.values():  # what is held for others stays so
                mask |= held.mask & kept
        return mask

    def _needs(self, group: Group, kept: int) -> bool:
        """Whether jobs could not run at all without kept hosts: headroom must not keep anybody out for ever."""
        contest = self.contest
        known = contest.needing.get((group.key.shape, kept))
        if known is None:
            spec, cluster = group.spec, contest.cluster
            others = cluster.room.open_hosts() & ~kept
            known = not cluster.empty.can_fit(spec.roles, spec.labels, others)
            contest.needing[group.key.shape, kept] = known
        return known

    def shut_to_claims(self, group: Group) -> int:
        """Hosts on which the jobs of ``group`` may not even evict: a claim there is in the way of a job in its time."""
        if group.kind is Kind.CHARGED:
            return self.shut(group)
        mask = 0
        for held in self._held.values():
            if held.reservation.told < self.contest.now:
                mask |= held.mask
        return mask

    def _mask(self, min_runtime: int, gpus: int, leaf: str, own: int) -> int:
        cluster, now = self.contest.cluster, self.contest.now
        brief = short(min_runtime, gpus)
        shut = brief and not self._has_room_for_short(leaf, gpus)
        over = now if brief else now + min_runtime + slack(cluster.spec)
        mask = 0 if brief else cluster.headroom_mask
        if own in self._held:
            mask &= ~self._held[own].mask
        for job_id, held in self._held.items():
            if job_id != own and (shut or over > held.reservation.told):
                mask |= held.mask
        return mask

    def _has_room_for_short(self, leaf: str, gpus: int) -> bool:
        """A budget's short contracts hold at most max(8 GPUs, its allocation) of what is held for others."""
        state, cluster = self.contest.state, self.contest.cluster
        used = 0
        hosts = (host for host, job in cluster.held.items() if job in self._held)
        for attempt_id in {a for host in hosts for a in cluster.on_host[host]}:
            attempt = state.attempts[attempt_id]
            if attempt.leaf == leaf and short(attempt.min_runtime, attempt.gpus):
                used += attempt.gpus
        allocation = cluster.ledger.account(leaf).allocation * cluster.ledger.healthy_gpus
        denominator = state.the_tree().denominator(leaf)
        return used + gpus <= max(SHORT_GPUS, allocation // denominator)


# ---- making one


@dataclass(frozen=True, slots=True)
class _Runs:
    """A charged attempt: where, and until when at most (its time-out), or NEVER."""

    attempt: Attempt
    hosts: tuple[int, ...]
    until: int


def protected_at_most(contest: Contest, attempt: Attempt) -> int:
    """The latest that a charged attempt is protected: what has not started yet takes its longest to start."""
    if attempt.protected_until is not None:
        return attempt.protected_until
    attempts, opened = contest.state.attempts, attempt.started_at
    if opened is None:
        stops = [stop for v in attempt.waiting_for if (stop := attempts[v].stop) is not None]
        opened = max([contest.now, *(stop.release_by for stop in stops)])
    return opened + contest.cluster.spec.start_timeout + attempt.min_runtime


class Outlook:
    """When each host of a cluster is going to be free, as far as contracts and time-outs say."""

    def __init__(self, contest: Contest) -> None:
        self.contest = contest
        cluster, room = contest.cluster, contest.cluster.room
        self.empty = cluster.empty
        self.free_at = [contest.now] * len(room.hosts)
        """Per host: the end of what is protected there, or being stopped, ms UTC."""
        self.charged: dict[str, list[_Runs]] = {}
        """Leaf -> its attempts that run on after their protection, if nobody may evict them."""
        for attempt in contest.state.attempts.values():
            if attempt.cluster == cluster.spec.name:
                self._add(attempt, tuple(room.index[host] for host in attempt.hosts()))

    def _add(self, attempt: Attempt, hosts: tuple[int, ...]) -> None:
        contest, spec = self.contest, self.contest.cluster.spec
        until = contest.now
        if attempt.stop is not None:
            until = max(until, attempt.stop.release_by)
        elif attempt.charged:
            if protected(attempt, contest.now):
                until = protected_at_most(contest, attempt)
            timeout, end = contest.state.jobs[attempt.job_id].spec.timeout, NEVER
            if timeout is not None:
                up = attempt.running_since or protected_at_most(contest, attempt) - attempt.min_runtime
                end = up + timeout + grace_of(contest.state, attempt) + spec.kill_timeout
            self.charged.setdefault(attempt.leaf, []).append(_Runs(attempt, hosts, end))
        for host in hosts:
            self.free_at[host] = max(self.free_at[host], until)

    def _lasting(self, job: Job, given_up: int) -> list[_Runs]:
        """Attempts that ``job`` may not evict even when their protection is over.

        By the standings of now, in which all that is protected is counted in full already.
        """
        standing, percent = self.contest.charged, self.contest.state.policy.reserve_margin_percent
        margin = standing.margin(job.spec.gpus * GPU) * percent // PERCENT
        found = []
        for leaf, runs in self.charged.items():
            split = standing.fork(job.leaf, leaf)
            if split is None:
                found += [each for each in runs if not self._behind(job, each.attempt)]
            elif standing.reach_without(*split, given_up) < margin:
                found += runs
        return found

    def _behind(self, job: Job, attempt: Attempt) -> bool:
        """Whether an attempt of its own budget sorts behind a job that holds a reservation (rule 7)."""
        other = self.contest.state.jobs[attempt.job_id]
        return (-job.spec.priority, job.submitted) < (-other.spec.priority, other.submitted)

    def candidate(self, job: Job, usable: int, given_up: int = 0) -> Reserve | None:
        """The hosts of ``usable`` that become free to ``job`` earliest; None when they never do for sure.

        ``given_up``: what others of its leaf, in whose place it comes, are promised until then.
        """
        contest, cluster, room = self.contest, self.contest.cluster, self.contest.cluster.room
        times, lasting = self.free_at.copy(), self._lasting(job, given_up)
        for each in lasting:
            for host in each.hosts:
                times[host] = max(times[host], each.until)
        spec = job.spec
        until = contest.now + contest.state.policy.reserve_ahead
        hosts = [
            i
            for i, at in enumerate(times)
            if at <= until and usable >> i & 1 and wholly_ours(cluster, room.hosts[i].name)
        ]
        hosts.sort(key=lambda i: (times[i], i))
        count = _shortest(hosts, lambda mask: self.empty.can_fit(spec.roles, spec.labels, mask))
        if count is None:
            return None
        slots = self.empty.place(spec.roles, spec.labels, _mask(hosts[:count]))
        assert slots is not None  # it fits there
        chosen = {room.index[slot.host] for slot in slots}
        told = max(times[i] for i in chosen)
        bounded = sorted(each.attempt.id for each in lasting if chosen.intersection(each.hosts))
        spec_of = cluster.spec
        numbers: dict[str, Number] = {
            "cluster": spec_of.name,
            "hosts": len(chosen),
            "gpus": spec.gpus,
            "told": told,
            "times": job.reserved + 1,
        }
        return Reserve(
            contest.now,
            job.id,
            spec_of.name,
            tuple(room.hosts[i].name for i in sorted(chosen)),
            self.empty.amount(slots),
            told,
            bound(spec_of, told),
            tuple(bounded),
            Because(Reason.RESERVED, numbers),
        )


def _shortest(hosts: list[int], fits: Callable[[int], bool]) -> int | None:
    """The length of the shortest prefix of ``hosts`` on which a job fits; None when it does not on all of them."""
    if not fits(_mask(hosts)):
        return None
    low, high = 0, len(hosts)  # it fits on high, and not on low
    while high - low > 1:
        middle = (low + high) // 2
        if fits(_mask(hosts[:middle])):
            high = middle
        else:
            low = middle
    return high


def _mask(hosts: Iterable[int]) -> int:
    mask = 0
    for i in hosts:
        mask |= 1 << i
    return mask


# ---- keeping it


def take(contest: Contest, job: Job, held: Held) -> Start | Claim | None:
    """How the job starts on the hosts that are held for it; None: something there is protected, or not gone yet.

    Notes then when it makes sense to look again.
    """
    cluster, room, spec = contest.cluster, contest.cluster.room, job.spec
    attempt_id, reservation = f"{job.id}.{job.attempts + 1}", held.reservation
    numbers: dict[str, Number] = {"made_at": reservation.made_at, "starts_by": reservation.starts_by}
    slots = room.place(spec.roles, spec.labels, held.mask)
    if slots is not None:
        started = Because(Reason.STARTED_RESERVED, {**numbers, "victims": 0})
        amount = room.amount(slots)
        return Start(contest.now, job.id, attempt_id, cluster.spec.name, slots, amount, started)
    found = _clearance(contest, job, held)
    if found is None:
        return None
    chosen, leaving, slots = found
    licence = Because(Reason.EVICTED_RESERVED, {"gainer": job.id, **numbers, "told": reservation.told})
    amount = room.amount(slots)
    records = evictions(contest, job, chosen, amount, lambda a: licence if a.charged else because(contest, job, a))
    started = Because(Reason.STARTED_RESERVED, {**numbers, "victims": len(records)})
    return Claim(contest.now, job.id, attempt_id, cluster.spec.name, slots, amount, records, started, leaving)


def _clearance(
    contest: Contest, job: Job, held: Held
) -> tuple[list[Attempt], tuple[str, ...], tuple[Slots, ...]] | None:
    """Whom to evict on held hosts, whom that goes already to wait for, and the GPUs that the job then gets.

    Waiting for one grace after the other would be later than what was told.
    """
    cleared = _evictable(contest, held)
    if cleared is None:
        return None
    victims, going = cleared
    room, spec, chosen = contest.cluster.room.fork(), job.spec, list[Attempt]()
    for attempt in going:
        room.give(attempt.slots)
    slots = room.place(spec.roles, spec.labels, held.mask)
    if slots is None:
        found = smallest_set(room, spec, victims, held.mask)
        if found is None:
            return None
        chosen, slots = found
    there = {slot.host for slot in slots}
    return chosen, tuple(sorted(a.id for a in going if there.intersection(a.hosts()))), slots


def _evictable(contest: Contest, held: Held) -> tuple[list[Attempt], list[Attempt]] | None:
    """What may be evicted on held hosts, unallocated first, then what loses least, and what is going already.

    None while anything there is neither.
    """
    found: dict[str, Attempt] = {}
    going: dict[str, Attempt] = {}
    until, attempts, told = 0, contest.state.attempts, held.reservation.told
    for host in held.reservation.hosts:
        for attempt_id in contest.cluster.on_host[host]:
            attempt = attempts[attempt_id]
            if attempt.stop is not None and not attempt.unreleased:
                going[attempt.id] = attempt
                until = max(until, told if told > contest.now else 0)  # before that it may come back and sort first
            elif attempt.stop is not None or attempt.id in held.reservation.bounded:
                until = NEVER  # its end makes passes look again
            elif attempt.started_at is None:
                until = max(until, contest.now + 1)
            elif attempt.charged and protected(attempt, contest.now):
                until = max(until, attempt.protected_until or contest.now + 1)
            else:
                found[attempt.id] = attempt
    held.look_at = until
    if until:
        return None
    jobs = contest.state.jobs
    order = {
        a.id: (a.charged, jobs[a.job_id].evictions_since_checkpoint, a.at_risk(contest.now), a.id)
        for a in found.values()
    }
    return sorted(found.values(), key=lambda a: order[a.id]), [going[attempt_id] for attempt_id in sorted(going)]


def displaces(contest: Contest, job: Job, other: Job) -> bool:
    """Whether ``job`` came after ``other`` was given a reservation, sorts before it by rule 5 and takes its place.

    Across budgets by rule 7's margin and only if it is new, so that ratios that cross all the time displace nobody; in
    one budget also when it comes back: by priority, then by seniority. Who came in the moment in which it was made had
    its turn: nothing that a pass holds is given up in it, or passes might never end.
    """
    held = other.reservation
    if held is None or job.queued_at <= held.made_at:
        return False
    standing = contest.charged
    split = standing.fork(job.leaf, other.leaf)
    if split is None:
        return (-job.spec.priority, job.submitted, job.id) < (-other.spec.priority, other.submitted, other.id)
    return job.submitted > held.made_at and standing.reach(*split) >= standing.margin(job.spec.gpus * GPU)
