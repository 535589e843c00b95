"""What one cluster could do for a job that waits, at one moment: start it, clear a place for it, hold hosts for it.

Nothing is changed here: a pass applies what it chooses of this, a trial (see ``trial``) only tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenure.core import preemption, reservation
from tenure.core.decisions import Claim, Headroom, Plan, Reserve, Start, Stop
from tenure.core.ledger import Kind
from tenure.core.model import MINUTE, SHORT_GPUS, Slots, short
from tenure.core.packing import longer
from tenure.core.preemption import Contest
from tenure.core.queue import Group, Shape
from tenure.core.reasons import Because, Reason
from tenure.core.reservation import Doors, Outlook
from tenure.core.state import Held, Job
from tenure.core.tally import bits

Outranked = Callable[[Kind, str, int], tuple[str, ...]]
"""Siblings along the path of a leaf with something to evict that a job of so many GPUs outranks now."""


class Prospects:
    """What is asked for is remembered until ``decided`` says that a plan has changed it."""

    def __init__(self, contest: Contest, outranked: Outranked, without: Job | None = None) -> None:
        """``without``: a job that is looked at as if nothing were held for it."""
        self.contest = contest
        self.state, self.cluster, self.now = contest.state, contest.cluster, contest.now
        self.displaced: set[int] = set()
        """Jobs of which what is held for them is looked at as given up (see ``leave``)."""
        if without is not None and without.id in self.cluster.reservations:
            self._give_up(without.id)
        self.doors = Doors(contest, self.displaced)
        self._outranked = outranked
        self._everywhere = (1 << len(self.cluster.room.hosts)) - 1
        self._recent = sum(1 for at in self.cluster.recent_evictions if at > self.now - MINUTE)
        """Evictions of the last minute, which the cap counts."""
        self._fits: dict[tuple[Shape, int], bool] = {}
        """Shapes that fit without evictions, and without some hosts."""
        self._offers: dict[tuple[Kind, str, int, int, bool], tuple[int, int]] = {}
        """What could be evicted at most for jobs of a kind, leaf, priority, size, brief or not."""
        self._aside = 0
        """Hosts that are left to others, as bits (see ``leave``)."""
        self._outlook: Outlook | None = None
        """When its hosts are going to be free, since something was placed."""

    def decided(self, plan: Plan) -> None:
        """A plan was applied. Standings move for who gains and for who loses what was still promised."""
        contest, state = self.contest, self.state
        contest.moved()
        self._fits.clear()
        self._offers.clear()
        self.doors = Doors(contest, self.displaced)
        if not isinstance(plan, Stop | Headroom):
            job = state.jobs[plan.job_id]
            contest.standing(job.kind).charged(job.leaf)
        victims = plan.victims if isinstance(plan, Claim) else (plan.victim,) if isinstance(plan, Stop) else ()
        self._recent += len(victims)
        for victim in victims:
            attempt = state.attempts[victim.attempt_id]
            contest.standing(attempt.kind).charged(attempt.leaf)

    def placed(self) -> None:
        """Attempts have begun or are being stopped: hosts are free at other times than before."""
        self._outlook = None

    # ---- starting it

    def hosts(self, group: Group) -> int:
        """Hosts that let the group's jobs in, as bits."""
        return self._everywhere & ~self.doors.shut(group)

    def claimable(self, group: Group) -> int:
        """Those of them on which its jobs may evict."""
        return self.hosts(group) & ~self.doors.shut_to_claims(group)

    def fits(self, group: Group) -> bool:
        """Whether its next job fits now, without evictions."""
        return self._fits_on(group, self.hosts(group))

    def _fits_on(self, group: Group, hosts: int) -> bool:
        known = group.key.shape, hosts
        fits = self._fits.get(known)
        if fits is None:
            spec = group.spec
            fits = self._fits[known] = self.cluster.room.can_fit(spec.roles, spec.labels, hosts)
        return fits

    def obstacle(self, group: Group, job: Job | None = None) -> Reason | None:
        """The first thing that is sure to keep the group from being placed now, cheapest test first.

        ``job``: one of the group; None: any that is queued. Any of them answers for all.
        """
        if self.state.paused_starts:
            return Reason.PAUSED_STARTS
        room, shape, hosts = self.cluster.room, group.key.shape, self.hosts(group)
        if self._fits_on(group, hosts):
            return None
        gpus, by_host = self._offer(group)
        if room.free_gpus + gpus < group.gpus or not room.holds(by_host, shape.roles, hosts):
            return Reason.WAITING_CAPACITY
        if not self.state.evictions_allowed():
            return Reason.PAUSED_EVICTIONS
        if not self.under_cap():
            return Reason.WAITING_EVICTION_CAP
        job = job or self.state.jobs[group.anyone()]
        if not preemption.room_at_most(self.contest, job).can_fit(job.spec.roles, job.spec.labels, hosts):
            return Reason.WAITING_CAPACITY
        return None

    def _offer(self, group: Group) -> tuple[int, int]:
        """GPUs that could be evicted for it at most, in all and by host."""
        key = group.key
        priority = key.priority + 1 if key.reserved else key.priority  # then it may evict its equals in its leaf
        brief = group.kind is Kind.CHARGED and short(key.shape.min_runtime, group.gpus)
        known = (group.kind, key.leaf, priority, group.gpus, brief)
        offer = self._offers.get(known)
        if offer is None:
            outranked = self._outranked(group.kind, key.leaf, group.gpus)
            offer = preemption.evictable_at_most(self.contest, group.kind, key.leaf, priority, outranked, brief)
            self._offers[known] = offer
        return offer

    def plan(self, group: Group, job: Job) -> Start | Claim | None:
        """How ``job``, one of the group, could be placed now, by eviction if need be; None: it cannot."""
        room, spec, hosts = self.cluster.room, job.spec, self.hosts(group)
        if self._fits_on(group, hosts):
            slots = room.place(spec.roles, spec.labels, hosts, longer(self.contest, job))
            if slots is not None:
                return self._start(job, slots)
        found = preemption.search(self.contest, job, self.claimable(group))
        if found is None:
            return None
        amount = room.amount(found.slots)
        evicted = preemption.evictions(self.contest, job, found.victims, amount)
        gone = [a.stop.kill_at for a in found.leaving if a.stop is not None] + [e.kill_at for e in evicted]
        because = Because(Reason.STARTED_BY_EVICTION, {"victims": len(evicted), "kill_at": max(gone)})
        leaving = tuple(sorted(attempt.id for attempt in found.leaving))
        name, attempt_id = self.cluster.spec.name, _next_attempt(job)
        return Claim(self.now, job.id, attempt_id, name, found.slots, amount, evicted, because, leaving)

    def _start(self, job: Job, slots: tuple[Slots, ...]) -> Start:
        amount = self.cluster.room.amount(slots)
        because = Because(Reason.STARTED_FREE, {"free_gpus": self.cluster.room.free_gpus, "gpus": job.spec.gpus})
        return Start(self.now, job.id, _next_attempt(job), self.cluster.spec.name, slots, amount, because)

    def under_cap(self) -> bool:
        """Whether the cap per minute lets another plan evict.

        Plans are whole, so the last one of a minute may go over the cap: if it had to fit under it, smaller plans
        that come later would keep a large one waiting for ever.
        """
        return self._recent < self.state.policy.evictions_per_minute

    # ---- holding hosts for it

    def reserve_from(self) -> int:
        """The smallest job that gets a reservation here, in GPUs."""
        return self.state.policy.reserve_from or max(SHORT_GPUS, self.cluster.spec.gpus // 16)

    def unheld(self, job: Job) -> Reserve | None:
        """Hosts that nobody holds, while less than the limit is held."""
        return self._candidate(job, self.nobodys()) if self._may_hold() else None

    def held_behind(self, job: Job) -> Reserve | None:
        """Hosts that are held for jobs that sort behind this one, which came later."""
        held_now = self._held()
        others = [self.state.jobs[other] for other in held_now]
        behind = [other for other in others if reservation.displaces(self.contest, job, other)]
        if not behind:
            return None
        usable, given_up = self.nobodys() if self._may_hold() else 0, 0
        for other in behind:
            held = held_now[other.id]
            usable |= held.mask & ~self._aside
            if other.leaf == job.leaf:
                given_up += held.reservation.amount * other.spec.contract.min_runtime
        return self._candidate(job, usable, given_up)

    def leave(self, plan: Reserve) -> None:
        """Look at the cluster as if hosts were held by this plan, which is not applied: who comes later gets others."""
        cluster, job = self.cluster, self.state.jobs[plan.job_id]
        for host in plan.hosts:
            self._aside |= 1 << cluster.room.index[host]
            if host in cluster.held:
                self._give_up(cluster.held[host])
        self.contest.charged.promise(job.leaf, job.spec.user, plan.amount * job.spec.contract.min_runtime)

    def _give_up(self, job_id: int) -> None:
        if job_id not in self.displaced:
            self.displaced.add(job_id)
            job, held = self.state.jobs[job_id], self.cluster.reservations[job_id].reservation
            self.contest.charged.promise(job.leaf, job.spec.user, -held.amount * job.spec.contract.min_runtime)

    def _held(self) -> dict[int, Held]:
        """Job -> what is held for it, but for those that are displaced."""
        held = self.cluster.reservations
        return {job: each for job, each in held.items() if job not in self.displaced} if self.displaced else held

    def nobodys(self) -> int:
        """Hosts that are held for nobody, as bits."""
        taken = self._aside
        for held in self._held().values():
            taken |= held.mask
        return self._everywhere & ~taken

    def _candidate(self, job: Job, usable: int, given_up: int = 0) -> Reserve | None:
        if self._outlook is None:
            self._outlook = Outlook(self.contest)
        return self._outlook.candidate(job, usable, given_up)

    def _may_hold(self) -> bool:
        limit = self.state.policy.reserved_percent * self.cluster.healthy_gpus() // reservation.PERCENT
        held = self.cluster.held_gpus
        if self._aside or self.displaced:
            held = sum(each.gpus for each in self._held().values())
            held += sum(self.cluster.room.hosts[i].gpus for i in bits(self._aside))
        return held < limit


def earliest(places: Sequence[Prospects], job: Job) -> Reserve | None:
    """Hosts to hold for a job in the one of its clusters (``places``, in its order) where it starts earliest.

    Rule 14. Others make way only where nothing can be held without that.
    """
    there = [each for each in places if each.contest.charged.entitled(job.leaf)]
    for look in (Prospects.unheld, Prospects.held_behind):
        found = [plan for each in there if (plan := look(each, job)) is not None]
        if found:
            return min(found, key=lambda plan: plan.starts_by)  # of equals the one listed first
    return None


def _next_attempt(job: Job) -> str:
    return f"{job.id}.{job.attempts + 1}"
