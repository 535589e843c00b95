"""One scheduling pass: numbered steps, state in, plans out. Each plan is applied as soon as it is made.

A pass ends when nothing more can be placed, so a second pass with nothing between them decides nothing. Groups that
could not be placed are parked and cost nothing until something has changed that could help them (see ``waking``): what
is decided does not depend on that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tenure.core import defrag, drain, headroom, prospects, reservation
from tenure.core.apply import apply
from tenure.core.decisions import Claim, Plan, Start, Unreserve
from tenure.core.ledger import OCCUPANCY, Kind
from tenure.core.model import MINUTE, SHORT_GPUS
from tenure.core.preemption import Contest
from tenure.core.prospects import Prospects
from tenure.core.queue import Group, Parked
from tenure.core.reasons import Because, Number, Reason
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
        self.prospects = Prospects(self.contest, self._outranked)
        self._waking = {kind: Waking(self.contest, kind, self.prospects.hosts) for kind in OCCUPANCY}
        self.deferred = False
        """Whether some jobs were left to a cluster that they prefer and that can start them."""

    def place(self) -> None:
        """Steps 1 to 4, until nothing more can be placed."""
        self.deferred = False
        self.prospects.placed()
        while True:
            # 1. Drain: hosts on their way to repair give up what is exposed.
            for stop in drain.plans(self.contest):
                self._commit(stop)
            # 2. Reservations whose time has come.
            self._keep()
            self._gained |= self._freed()
            # 3. Charged jobs, in the order of the tree.
            self._place(Kind.CHARGED)
            # Drained gangs go where what these leave is a place for them.
            for stop in drain.gangs(self.contest):
                self._commit(stop)
            # 4. Unallocated jobs, on what is left, by the same rules over unallocated usage.
            self._place(Kind.UNALLOCATED)
            self._gained = self._freed()
            if not self._gained:
                break

    def _outranked(self, kind: Kind, leaf: str, gpus: int) -> tuple[str, ...]:
        return self._waking[kind].outranked(leaf, gpus)

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
            if isinstance(plan, Claim) and not self.prospects.under_cap():
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
        for _, job in in_turn(self.contest, self.prospects.reserve_from(), self._head, reserved=False):
            self._hold(job)

    def keep_free(self) -> None:
        """Keep as much for short contracts as arrived lately, and clear it."""
        if not self.cluster.looking or not (self.state.policy.headroom_percent or self.cluster.headroom):
            return
        change = headroom.plan(self.contest)
        if change is not None:
            self._commit(change)
        for stop in list(headroom.clearings(self.contest)):
            if self.prospects.under_cap():
                self._commit(stop)

    def defragment(self) -> None:
        """Move what runs exposed out of the way of gangs in turn, as far as the cap per hour goes."""
        state, cluster = self.state, self.cluster
        if not cluster.looking or not state.policy.moves_per_hour or state.paused_starts:
            return
        for group, job in in_turn(self.contest, SHORT_GPUS, self._head, reserved=True):
            if not state.evictions_allowed() or not self.prospects.under_cap() or defrag.moves_left(self.contest) <= 0:
                return
            elsewhere = self.prospects.nobodys() & ~cluster.headroom_mask
            claim = defrag.plan(self.contest, job, self.prospects.claimable(group), elsewhere)
            if claim is not None:
                self._commit(claim)

    def _hold(self, job: Job) -> None:
        """Hold hosts for a job in the one of its clusters where it starts earliest (rule 14), if there are any."""
        there = [each.prospects for name in job.spec.clusters if (each := self.passes.get(name)) is not None]
        plan = prospects.earliest(there, job)
        if plan is not None:
            where = self.passes[plan.cluster]
            held = where.cluster.held
            for other in sorted({held[host] for host in plan.hosts if host in held}):
                where._commit(where._displaced(self.state.jobs[other], job))
            where._commit(plan)

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
                freed = self._freed()
                self._gained |= freed  # for the other kind, whose turn comes after this one's
                walk.add(waking.moved(leaf, freed))
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
        reason = self.prospects.obstacle(group)
        if reason is not None:
            self._park(group, reason)
        return reason is None

    def _plan(self, group: Group) -> Start | Claim | None:
        """How the group's first job could be placed now, by eviction if need be; None: it cannot, and is parked."""
        first = self._head(group)[2] if len(group.people) > 1 else group.anyone()
        plan = self.prospects.plan(group, self.state.jobs[first])
        if plan is None:
            self._park(group, Reason.WAITING_CAPACITY)
        return plan

    def _commit(self, plan: Plan) -> None:
        """Apply a plan at once."""
        apply(self.state, plan)
        self.plans.append(plan)
        self.prospects.decided(plan)

    def _park(self, group: Group, reason: Reason) -> None:
        group.parked = Parked(reason)
        if reason is Reason.WAITING_EVICTION_CAP:
            self._await_cap()

    def _await_cap(self) -> None:
        """Come back when so many evictions are a minute old that the cap lets another plan evict."""
        cap, recent = self.state.policy.evictions_per_minute, self.cluster.recent_evictions
        if cap and self.cluster.cap_until <= self.now:
            self.cluster.cap_until = recent[-cap] + MINUTE
            self.state.due(self.cluster.cap_until, Due.EVICTION_CAP, self.cluster.spec.name)
