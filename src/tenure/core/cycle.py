"""One scheduling pass: numbered steps, state in, plans out. Each plan is applied as soon as it is made.

A pass ends when nothing more can be placed, so a second pass with nothing between them decides nothing. Groups that
could not be placed are parked and cost nothing until what they could use has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tenure.core import drain, preemption
from tenure.core.apply import apply
from tenure.core.decisions import Claim, Plan, Start, Stop
from tenure.core.fairshare import Standing
from tenure.core.ledger import Kind
from tenure.core.model import GPU, MINUTE, Slots
from tenure.core.placement import Misfit
from tenure.core.preemption import Contest
from tenure.core.queue import Asleep, Group, Parked, Queue, Shape
from tenure.core.reasons import Because, Reason
from tenure.core.state import ClusterState, Due, Job, State


def run(state: State) -> list[Plan]:
    """A pass over all clusters at ``state.now``. The returned plans have been applied."""
    plans: list[Plan] = []
    passes: dict[str, _Pass] = {}
    for name in sorted(state.clusters):
        passes[name] = _Pass(state, state.clusters[name], passes, plans)
    while True:
        before = len(plans)
        for each in passes.values():
            each.run()
        # A job that one cluster takes leaves the queues of the others; one that it cannot take is theirs to try.
        if len(passes) == 1 or (len(plans) == before and not any(each.deferred for each in passes.values())):
            return plans


class _Pass:
    """The part of a pass that one cluster has. ``passes``: those of all clusters; ``plans``: what all have made."""

    def __init__(self, state: State, cluster: ClusterState, passes: Mapping[str, _Pass], plans: list[Plan]) -> None:
        self.state = state
        self.cluster = cluster
        self.passes = passes
        self.now = state.now
        self.contest = Contest(state, cluster)
        self.plans = plans
        self._fits: dict[Shape, bool] = {}
        """Shapes that fit without evictions, since the last plan."""
        self._recent = sum(1 for at in cluster.recent_evictions if at > state.now - MINUTE)
        """Evictions of the last minute, which the cap counts."""
        self.deferred = False
        """Whether some jobs were left to a cluster that they prefer and that can start them."""

    def run(self) -> None:
        self.deferred = False
        # 1. Drain: hosts on their way to repair give up what is exposed.
        for stop in drain.plans(self.contest):
            self._commit(stop)
        # 2. Reservations whose time has come go here.
        # 3. Charged jobs, in the order of the tree.
        self._place(Kind.CHARGED)
        # 4. Unallocated jobs, on what is left, by the same rules over unallocated usage.
        self._place(Kind.UNALLOCATED)
        # 5. Headroom and defragmentation go here.

    def _place(self, kind: Kind) -> None:
        """Sweep until a sweep places nothing: each placement moves standings, which may wake what was parked."""
        while self.cluster.queues[kind].leaves:
            before = len(self.plans)
            self._sweep(kind)
            if len(self.plans) == before:
                return

    def _sweep(self, kind: Kind) -> None:
        queue = self.cluster.queues[kind]
        awake: dict[str, list[Group]] = {}
        least: dict[str, dict[str, int]] = {}
        for path, groups in queue.leaves.items():
            if kind is Kind.CHARGED and not self.contest.charged.entitled(path):
                continue
            asleep = queue.asleep.get(path)
            if asleep is not None and self.cluster.freed < asleep.wake_at and asleep.sleeps(self._reach(path, kind)):
                continue
            queue.asleep.pop(path, None)
            live = self._live(groups.values(), kind)
            if len(live) < len(groups):
                least[path] = self._reach(path, kind)
            if live:
                awake[path] = live
            else:
                self._put_to_sleep(queue, path, least[path])
        walk = _Walk(self.contest.standing(kind), awake)
        seen = dict.fromkeys(awake, len(self.plans))
        while leaf := walk.first_leaf():
            if seen[leaf] != len(self.plans):  # what was placed since may have taken the chance of others
                seen[leaf] = len(self.plans)
                possible = [group for group in awake[leaf] if self._possible(group)]
                if len(possible) < len(awake[leaf]):
                    least[leaf] = _least(least.get(leaf), self._reach(leaf, kind))
                walk.keep(leaf, possible)
            else:
                group, job = self._first_in(leaf, awake[leaf], kind)
                placed = self._try(group, job)
                if not placed:
                    least[leaf] = _least(least.get(leaf), self._reach(leaf, kind))
                if not (placed and group.people):
                    walk.drop(leaf, group)
            if not awake[leaf] and leaf in queue.leaves:
                self._put_to_sleep(queue, leaf, _least(least[leaf], self._reach(leaf, kind)))

    def _live(self, groups: Iterable[Group], kind: Kind) -> list[Group]:
        """Groups that have a chance now; the others are parked, or left to a cluster that they prefer."""
        live = []
        freed, there = self.cluster.freed, self._something_to_evict(kind)
        for group in groups:
            parked = group.parked
            unchanged = parked is not None and freed - parked.freed < parked.short
            if unchanged and not (there and parked is not None and self._overtook(group, parked, kind)):
                continue
            if not self._ours(group, kind):
                group.parked = None  # its turn here comes when the others have tried
            elif self._possible(group):
                live.append(group)
        return live

    def _reach(self, leaf: str, kind: Kind) -> dict[str, int]:
        """Siblings along the path of ``leaf`` with something to evict, and the margin that it reaches over them."""
        standing, index = self.contest.standing(kind), self.cluster.exposed_gpus
        if not self._something_to_evict(kind):
            return {}
        return {
            sibling: most
            for child in standing.tree.line(leaf)[1:]
            for sibling, most in standing.reaches(child).items()
            if kind is Kind.UNALLOCATED or index.get(sibling)
        }

    def _put_to_sleep(self, queue: Queue, leaf: str, reach: dict[str, int]) -> None:
        """When all groups of the leaf are parked, the next passes look at the leaf and not at each of them."""
        groups = queue.leaves[leaf].values()
        parked = [group.parked for group in groups if group.parked is not None]
        if len(parked) == len(groups):
            wake_at = min(p.freed + p.short for p in parked)
            margin = self.contest.charged.margin(GPU)
            margins = tuple(sorted({group.gpus * margin for group in groups}))
            queue.asleep[leaf] = Asleep(wake_at, reach, margins)

    def _something_to_evict(self, kind: Kind) -> bool:
        """Whether standing could matter at all."""
        if kind is Kind.CHARGED:
            return bool(self.cluster.exposed_gpus.get(self.contest.charged.tree.root))
        return bool(self.cluster.unallocated_gpus)

    def _awake(self, group: Group, kind: Kind) -> bool:
        """Whether something has changed that could let the group be placed."""
        parked = group.parked
        if parked is None or self.cluster.freed - parked.freed >= parked.short:
            return True
        return self._something_to_evict(kind) and self._overtook(group, parked, kind)

    def _overtook(self, group: Group, parked: Parked, kind: Kind) -> bool:
        """Whether the group outranks a sibling with something to evict which it did not when it was parked."""
        new = self.contest.standing(kind).outranked(group.key.leaf, group.gpus * GPU)
        if new <= parked.outranked:
            return False
        index = self.cluster.exposed_gpus
        return kind is Kind.UNALLOCATED or any(index.get(sibling) for sibling in new - parked.outranked)

    def _ours(self, group: Group, kind: Kind) -> bool:
        """Rule 14: whether no cluster that these jobs prefer to this one can start them now."""
        for name in group.key.shape.clusters:
            other = self.passes.get(name)
            if other is self:
                break
            if other is None or (kind is Kind.CHARGED and not other.contest.charged.entitled(group.key.leaf)):
                continue
            there = other.cluster.queues[kind].leaves.get(group.key.leaf, {}).get(group.key)
            if there is not None and other._awake(there, kind) and other._placeable(there):
                self.deferred = True
                return False
        return True

    def _placeable(self, group: Group) -> bool:
        """Whether the group's next job could be placed now; else the group is parked."""
        return self._possible(group) and self._plan(group, self.state.jobs[group.anyone()]) is not None

    def _first_in(self, leaf: str, groups: Sequence[Group], kind: Kind) -> tuple[Group, Job]:
        """Rule 5 in the leaf: highest priority, person least charged, oldest first submission, id."""
        if len(groups) == 1 and len(groups[0].people) == 1:
            return groups[0], self.state.jobs[groups[0].anyone()]
        top = max(group.key.priority for group in groups)
        standing = self.contest.standing(kind)
        best: tuple[int, int, int] | None = None
        chosen: Group | None = None
        for group in groups:
            if group.key.priority != top:
                continue
            for user, (submitted, job_id) in group.heads():
                key = (standing.person_used(leaf, user), submitted, job_id)
                if best is None or key < best:
                    best, chosen = key, group
        assert best is not None and chosen is not None  # the walk only offers leaves with waiting jobs
        return chosen, self.state.jobs[best[2]]

    def _possible(self, group: Group) -> bool:
        """Whether the group's next job has a chance; else it is parked. Any of its jobs answers for all."""
        obstacle = self._obstacle(group)
        if obstacle is not None:
            self._park(group, *obstacle)
        return obstacle is None

    def _obstacle(self, group: Group) -> tuple[Reason, int] | None:
        """The first thing that is sure to keep the group from being placed now, cheapest test first.

        With it the least number of GPUs that must become free or evictable before a new try can end otherwise.
        """
        if self.state.paused_starts:
            return Reason.PAUSED_STARTS, 1
        room, shape = self.cluster.room, group.key.shape
        fits = self._fits.get(shape)
        if fits is None:
            spec = self.state.jobs[group.anyone()].spec
            fits = self._fits[shape] = room.can_fit(spec.roles, spec.labels)
        if fits:
            return None
        bound = preemption.evictable_bound(self.contest, group.kind, group.key.leaf, group.gpus * GPU)
        short = group.gpus - room.free_gpus - bound
        if short > 0:
            return Reason.WAITING_CAPACITY, short
        if not self.state.evictions_allowed():
            return Reason.PAUSED_EVICTIONS, max(1, group.gpus - room.free_gpus)
        if not self._under_cap():
            return Reason.WAITING_EVICTION_CAP, max(1, group.gpus - room.free_gpus)
        job = self.state.jobs[group.anyone()]
        if not preemption.room_at_most(self.contest, job).can_fit(job.spec.roles, job.spec.labels):
            return Reason.WAITING_CAPACITY, 1
        return None

    def _try(self, group: Group, job: Job) -> bool:
        """Place the job, by eviction if need be, or park its group."""
        plan = self._plan(group, job)
        if plan is not None:
            self._commit(plan)
        return plan is not None

    def _plan(self, group: Group, job: Job) -> Start | Claim | None:
        """How the job could be placed now, by eviction if need be; None when it cannot, and its group is parked."""
        room, spec = self.cluster.room, job.spec
        slots = room.fit(spec.roles, spec.labels) if room.can_fit(spec.roles, spec.labels) else None
        if slots is not None and not isinstance(slots, Misfit):
            return self._start(job, slots)
        found = preemption.search(self.contest, job)
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
        if not isinstance(plan, Stop):
            job = self.state.jobs[plan.job_id]
            self.contest.standing(job.kind).charged(job.leaf)
        victims = plan.victims if isinstance(plan, Claim) else (plan.victim,) if isinstance(plan, Stop) else ()
        self._recent += len(victims)
        for victim in victims:
            attempt = self.state.attempts[victim.attempt_id]
            self.contest.standing(attempt.kind).charged(attempt.leaf)

    def _park(self, group: Group, reason: Reason, short: int = 1) -> None:
        outranked = self.contest.standing(group.kind).outranked(group.key.leaf, group.gpus * GPU)
        group.parked = Parked(reason, self.cluster.freed, short, outranked)
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


def _least(a: dict[str, int] | None, b: dict[str, int]) -> dict[str, int]:
    """The smaller reach of each sibling: groups were parked at both moments, and must wake for what neither had."""
    if a is None:
        return b
    return {sibling: min(most, b[sibling]) for sibling, most in a.items() if sibling in b}


class _Walk:
    """Rule 5's walk from the root over the leaves that have something left to try."""

    def __init__(self, standing: Standing, awake: dict[str, list[Group]]) -> None:
        self.standing = standing
        self.awake = awake
        self.live: dict[str, int] = {}
        """Node -> groups below it that are left to try."""
        for leaf, groups in awake.items():
            for path in standing.tree.line(leaf):
                self.live[path] = self.live.get(path, 0) + len(groups)

    def first_leaf(self) -> str | None:
        path = self.standing.tree.root
        if not self.live.get(path):
            return None
        leaf = path
        while self.standing.tree.nodes[leaf].children:
            live = [child for child in self.standing.tree.nodes[leaf].children if self.live.get(child)]
            leaf = live[0] if len(live) == 1 else next(c for c in self.standing.order(leaf) if c in live)
        return leaf

    def drop(self, leaf: str, group: Group) -> None:
        self.awake[leaf].remove(group)
        for path in self.standing.tree.line(leaf):
            self.live[path] -= 1

    def keep(self, leaf: str, groups: list[Group]) -> None:
        """Drop all groups of ``leaf`` but these."""
        dropped = len(self.awake[leaf]) - len(groups)
        self.awake[leaf] = groups
        for path in self.standing.tree.line(leaf):
            self.live[path] -= dropped


def _next_attempt(job: Job) -> str:
    return f"{job.id}.{job.attempts + 1}"
