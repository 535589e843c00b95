"""One scheduling pass: numbered steps, state in, plans out. Each plan is applied as soon as it is made.

A pass ends when nothing more can be placed, so a second pass with nothing between them decides nothing. Groups that
could not be placed are parked and cost nothing until something has changed that could help them (see ``waking``): what
is decided does not depend on that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tenure.core import defrag, drain, headroom, preemption, reservation
from tenure.core.apply import apply
from tenure.core.decisions import Claim, Headroom, Plan, Reserve, Start, Stop, Unreserve
from tenure.core.ledger import OCCUPANCY, Kind
from tenure.core.model import MINUTE, SHORT_GPUS, Slots, short
from tenure.core.packing import longer
from tenure.core.preemption import Contest
from tenure.core.queue import Group, Parked, Shape
from tenure.core.reasons import Because, Number, Reason
from tenure.core.reservation import Doors, Outlook
from tenure.core.state import ClusterState, Due, Held, Job, State
from tenure.core.waking import Waking
from tenure.core.walk import Walk, head_of, in_turn


def run(state: State) -> list[Plan]:
    """A pass over all clusters at ``state.now``. The returned plans have been applied."""
    plans: list[Plan] = []
    passes: dict[str, _Pass] = {}
    for name in sorted(state.clusters):
        cluster = state.clusters[name]
        if cluster.draining or any(queue.leaves for queue in cluster.queues.values()):
            passes[name] = _Pass(state, cluster, passes, plans)
    settle(passes.values(), plans)
    for each in passes.values():
        each.end()
    return plans


def settle(passes: Collection[_Pass], plans: list[Plan]) -> None:
    """Go through the steps until they decide nothing more."""
    while True:
        before = len(plans)
        for each in passes:
            each.place()
        # A job that one cluster takes leaves the queues of the others; one that it cannot take is theirs to try.
        if len(passes) > 1 and (len(plans) > before or any(each.deferred for each in passes)):
            continue
        placed = len(plans)
        # 5. Jobs in turn that have found no place get a reservation, and another look: it is a licence.
        for each in passes:
            each.reserve()
        # 6. Headroom for short contracts.
        for each in passes:
            each.keep_free()
        # 7. Defragmentation for gangs in turn.
        for each in passes:
            each.defragment()
        if len(plans) == placed:
            break


class _Pass:
    """The part of a pass that one cluster has. ``passes``: those of all clusters; ``plans``: what all have made."""

    def __init__(self, state: State, cluster: ClusterState, passes: Mapping[str, _Pass], plans: list[Plan]) -> None:
        self.state = state
        self.cluster = cluster
        self.passes = passes
        self.now = state.now
        self.contest = Contest(state, cluster)
        self.plans = plans
        self._gained = self._freed()
        self._doors = Doors(self.contest)
        self._waking = {kind: Waking(self.contest, kind, self._hosts) for kind in OCCUPANCY}
        self._fits: dict[tuple[Shape, int], bool] = {}
        """Shapes that fit without evictions, and without some hosts, since the last plan."""
        self._offers: dict[tuple[Kind, str, int, int, bool], tuple[int, int]] = {}
        """What could be evicted at most for jobs of a kind, leaf, priority, size, brief or not, since the last plan."""
        self._recent = sum(1 for at in cluster.recent_evictions if at > state.now - MINUTE)
        """Evictions of the last minute, which the cap counts."""
        self._everywhere = (1 << len(cluster.room.hosts)) - 1
        self.deferred = False
        """Whether some jobs were left to a cluster that they prefer and that can start them."""
        self._outlook: Outlook | None = None
        """When its hosts are going to be free, since something was placed."""

    def place(self) -> None:
        """Steps 1 to 4, until nothing more can be placed."""
        self.deferred, self._outlook = False, None
        while True:
            # 1. Drain: hosts on their way to repair give up what is exposed.
            for stop in drain.plans(self.contest):
                self._commit(stop)
            # 2. Reservations whose time has come.
            self._keep()
            self._gained |= self._freed()
            # 3. Charged jobs, in the order of the tree.
            self._place(Kind.CHARGED)
            # 4. Unallocated jobs, on what is left, by the same rules over unallocated usage.
            self._place(Kind.UNALLOCATED)
            self._gained = self._freed()
            if not self._gained:
                break

    def end(self) -> None:
        for waking in self._waking.values():
            waking.end()

    def _freed(self) -> int:
        """Hosts on which something has become free, or let in who was shut out, since this was last asked."""
        freed, self.cluster.room.gained = self.cluster.room.gained, 0
        return freed

    def _keep(self) -> None:
        """Start those jobs whose hosts are free to them, the first told first."""
        state, waiting = self.state, self.cluster.reservations
        if not waiting or state.paused_starts:
            return
        due = [job_id for job_id, held in waiting.items() if held.look_at <= self.now]
        for job_id in sorted(due, key=lambda job_id: (waiting[job_id].reservation.told, job_id)):
            job = state.jobs[job_id]
            plan = None
            if self.contest.charged.entitled(job.leaf):
                plan = reservation.take(self.contest, job, waiting[job_id])
            if isinstance(plan, Claim) and not state.evictions_allowed():
                continue
            if isinstance(plan, Claim) and not self._under_cap():
                self._await_cap()
            elif plan is not None:
                self._commit(self._senior(job, waiting[job_id]) or plan)

    def _senior(self, job: Job, held: Held) -> Unreserve | None:
        """Give the reservation up when one of its leaf has come back that sorts before it and fits in its place."""
        groups = self.cluster.queues[Kind.CHARGED].leaves.get(job.leaf, {}).values()
        heads = [self.state.jobs[self._head(group)[2]] for group in groups]
        seniors = [head for head in heads if head is not job and reservation.displaces(self.contest, head, job)]
        # In an order of their own: that of the groups is another one after a restart.
        for head in sorted(seniors, key=lambda head: (-head.spec.priority, head.submitted, head.id)):
            if reservation.take(self.contest, head, held) is not None:
                return self._displaced(job, head)
        return None

    def _displaced(self, job: Job, by: Job) -> Unreserve:
        assert job.reservation is not None
        numbers: dict[str, Number] = {"by": by.id, "budget": by.budget, "starts_by": job.reservation.starts_by}
        return Unreserve(self.now, job.id, Because(Reason.RESERVATION_DISPLACED, numbers))

    def reserve(self) -> None:
        """Walk rule 5's order over the jobs that wait, and hold hosts for them until enough is held."""
        state, policy = self.state, self.state.policy
        if not self.cluster.looking or not policy.reserved_percent or state.paused_starts:
            return
        for job_id in sorted(self.cluster.reservations):
            if not self.contest.charged.entitled(state.jobs[job_id].leaf):
                numbers = {"budget": state.jobs[job_id].budget, "cluster": self.cluster.spec.name}
                self._commit(Unreserve(self.now, job_id, Because(Reason.HELD_NO_SHARE, numbers)))
        least = policy.reserve_from or max(SHORT_GPUS, self.cluster.spec.gpus // 16)
        for _, job in in_turn(self.contest, least, self._head, reserved=False):
            self._hold(job)

    def keep_free(self) -> None:
        """Keep as much for short contracts as arrived lately, and clear it."""
        if not self.cluster.looking or not (self.state.policy.headroom_percent or self.cluster.headroom):
            return
        change = headroom.plan(self.contest)
        if change is not None:
            self._commit(change)
        for stop in list(headroom.clearings(self.contest)):
            if self._under_cap():
                self._commit(stop)

    def defragment(self) -> None:
        """Move what runs exposed out of the way of gangs in turn, as far as the cap per hour goes."""
        state, cluster = self.state, self.cluster
        if not cluster.looking or not state.policy.moves_per_hour or state.paused_starts:
            return
        for group, job in in_turn(self.contest, SHORT_GPUS, self._head, reserved=True):
            if not state.evictions_allowed() or not self._under_cap() or defrag.moves_left(self.contest) <= 0:
                return
            elsewhere = self._nobodys() & ~cluster.headroom_mask
            claim = defrag.plan(self.contest, job, self._hosts(group) & ~self._doors.shut_to_claims(group), elsewhere)
            if claim is not None:
                self._commit(claim)

    def _hold(self, job: Job) -> bool:
        """Hold hosts for a job in the one of its clusters where it starts earliest (rule 14), if there are any.

        Others make way only where nothing can be held without that.
        """
        there = [each for name in job.spec.clusters if (each := self.passes.get(name)) is not None]
        there = [each for each in there if each.contest.charged.entitled(job.leaf)]
        for look in (_Pass._unheld, _Pass._held_behind):
            found = [(each, plan) for each in there if (plan := look(each, job)) is not None]
            if found:
                where, plan = min(found, key=lambda each: each[1].starts_by)  # of equals the one listed first
                held = where.cluster.held
                for other in sorted({held[host] for host in plan.hosts if host in held}):
                    where._commit(where._displaced(self.state.jobs[other], job))
                where._commit(plan)
                return True
        return False

    def _unheld(self, job: Job) -> Reserve | None:
        """Hosts that nobody holds, while less than the limit is held."""
        return self._candidate(job, self._nobodys()) if self._may_hold() else None

    def _held_behind(self, job: Job) -> Reserve | None:
        """Hosts that are held for jobs that sort behind this one, which came later."""
        others = [self.state.jobs[other] for other in self.cluster.reservations]
        behind = [other for other in others if reservation.displaces(self.contest, job, other)]
        if not behind:
            return None
        usable, given_up = self._nobodys() if self._may_hold() else 0, 0
        for other in behind:
            held = self.cluster.reservations[other.id]
            usable |= held.mask
            if other.leaf == job.leaf:
                given_up += held.reservation.amount * other.spec.contract.min_runtime
        return self._candidate(job, usable, given_up)

    def _candidate(self, job: Job, usable: int, given_up: int = 0) -> Reserve | None:
        if self._outlook is None:
            self._outlook = Outlook(self.contest)
        return self._outlook.candidate(job, usable, given_up)

    def _may_hold(self) -> bool:
        limit = self.state.policy.reserved_percent * self.cluster.healthy_gpus() // reservation.PERCENT
        return self.cluster.held_gpus < limit

    def _nobodys(self) -> int:
        """Hosts that are held for nobody, as bits."""
        taken = 0
        for held in self.cluster.reservations.values():
            taken |= held.mask
        return self._everywhere & ~taken

    def _place(self, kind: Kind) -> None:
        """Place the first job in rule 5's order that can be placed, and walk again from the root, until none can."""
        if not self.cluster.queues[kind].leaves:
            return
        waking = self._waking[kind]
        walk = Walk(self.contest, kind, waking.begin(self._gained))
        while leaf := walk.first_leaf():
            group = self._first_possible(walk, leaf)
            plan = self._plan(group) if group is not None else None
            if group is not None and plan is not None:
                self._commit(plan)
                walk.add(waking.moved(leaf, self._freed()))
            if group is not None and (plan is None or not group.people):
                walk.drop(group)

    def _first_possible(self, walk: Walk, leaf: str) -> Group | None:
        """The group that is first in the leaf's order among those with a chance; the others are done with."""
        while groups := list(walk.awake[leaf]):
            top = max(group.key.priority for group in groups)
            possible = []
            for group in groups:
                if group.key.priority == top:
                    if self._possible(group) and self._ours(group):
                        possible.append(group)
                    else:
                        walk.drop(group)
            if possible:
                return min(possible, key=self._head) if len(possible) > 1 else possible[0]
        return None

    def _head(self, group: Group) -> tuple[int, int, int]:
        return head_of(self.contest, group)

    def _ours(self, group: Group) -> bool:
        """Rule 14: whether no cluster that these jobs prefer to this one can start them now."""
        for name in group.key.shape.clusters:
            other = self.passes.get(name)
            if other is self:
                break
            if other is None or (group.kind is Kind.CHARGED and not other.contest.charged.entitled(group.key.leaf)):
                continue
            there = other.cluster.queues[group.kind].leaves.get(group.key.leaf, {}).get(group.key)
            if there is not None and other._possible(there) and other._plan(there) is not None:
                group.parked = None  # its turn here comes when the others have tried
                self.cluster.queues[group.kind].fresh[group] = None
                self.deferred = True
                return False
        return True

    def _possible(self, group: Group) -> bool:
        """Whether the group's next job has a chance; else it is parked. Any of its jobs answers for all."""
        reason = self._obstacle(group)
        if reason is not None:
            self._park(group, reason)
        return reason is None

    def _obstacle(self, group: Group) -> Reason | None:
        """The first thing that is sure to keep the group from being placed now, cheapest test first."""
        if self.state.paused_starts:
            return Reason.PAUSED_STARTS
        room, (leaf, priority, shape, _) = self.cluster.room, group.key
        hosts = self._hosts(group)
        fits = self._fits.get((shape, hosts))
        if fits is None:
            spec = self.state.jobs[group.anyone()].spec
            fits = self._fits[shape, hosts] = room.can_fit(spec.roles, spec.labels, hosts)
        if fits:
            return None
        if group.key.reserved:  # it may evict its equals in its leaf
            priority += 1
        brief = group.kind is Kind.CHARGED and short(shape.min_runtime, group.gpus)
        known = (group.kind, leaf, priority, group.gpus, brief)
        offer = self._offers.get(known)
        if offer is None:
            outranked = self._waking[group.kind].outranked(leaf, group.gpus)
            offer = preemption.evictable_at_most(self.contest, group.kind, leaf, priority, outranked, brief)
            self._offers[known] = offer
        gpus, by_host = offer
        if room.free_gpus + gpus < group.gpus or not room.holds(by_host, shape.roles, hosts):
            return Reason.WAITING_CAPACITY
        if not self.state.evictions_allowed():
            return Reason.PAUSED_EVICTIONS
        if not self._under_cap():
            return Reason.WAITING_EVICTION_CAP
        job = self.state.jobs[group.anyone()]
        if not preemption.room_at_most(self.contest, job).can_fit(job.spec.roles, job.spec.labels, hosts):
            return Reason.WAITING_CAPACITY
        return None

    def _hosts(self, group: Group) -> int:
        """Hosts that let the group's jobs in, as bits."""
        return self._everywhere & ~self._doors.shut(group)

    def _plan(self, group: Group) -> Start | Claim | None:
        """How the group's first job could be placed now, by eviction if need be; None: it cannot, and is parked."""
        job = self.state.jobs[self._head(group)[2] if len(group.people) > 1 else group.anyone()]
        room, spec = self.cluster.room, job.spec
        hosts = self._hosts(group)
        slots = None
        if self._fits.get((group.key.shape, hosts), True):
            slots = room.place(spec.roles, spec.labels, hosts, longer(self.contest, job))
        if slots is not None:
            return self._start(job, slots)
        found = preemption.search(self.contest, job, hosts & ~self._doors.shut_to_claims(group))
        if found is None:
            self._park(group, Reason.WAITING_CAPACITY)
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

    def _commit(self, plan: Plan) -> None:
        """Apply a plan at once. Standings move for who gains and for who loses what was still promised."""
        apply(self.state, plan)
        self.plans.append(plan)
        self.contest.moved()
        self._fits.clear()
        self._offers.clear()
        self._doors = Doors(self.contest)
        if not isinstance(plan, Stop | Headroom):
            job = self.state.jobs[plan.job_id]
            self.contest.standing(job.kind).charged(job.leaf)
        victims = plan.victims if isinstance(plan, Claim) else (plan.victim,) if isinstance(plan, Stop) else ()
        self._recent += len(victims)
        for victim in victims:
            attempt = self.state.attempts[victim.attempt_id]
            self.contest.standing(attempt.kind).charged(attempt.leaf)

    def _park(self, group: Group, reason: Reason) -> None:
        group.parked = Parked(reason)
        if reason is Reason.WAITING_EVICTION_CAP:
            self._await_cap()

    def _under_cap(self) -> bool:
        """Whether the cap per minute lets another plan evict.

        Plans are whole, so the last one of a minute may go over the cap: if it had to fit under it, smaller plans
        that come later would keep a large one waiting for ever.
        """
        return self._recent < self.state.policy.evictions_per_minute

    def _await_cap(self) -> None:
        """Come back when so many evictions are a minute old that the cap lets another plan evict."""
        cap, recent = self.state.policy.evictions_per_minute, self.cluster.recent_evictions
        if cap and self.cluster.cap_until <= self.now:
            self.cluster.cap_until = recent[-cap] + MINUTE
            self.state.due(self.cluster.cap_until, Due.EVICTION_CAP, self.cluster.spec.name)


def _next_attempt(job: Job) -> str:
    return f"{job.id}.{job.attempts + 1}"
