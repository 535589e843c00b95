"""One scheduling pass: numbered steps, state in, plans out. Each plan is applied as soon as it is made.

A pass ends when nothing more can be placed, so a second pass with nothing between them decides nothing. Groups that
could not be placed are parked and cost nothing until what they could use has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tenure.core import drain, preemption
from tenure.core.apply import apply
from tenure.core.decisions import Claim, Plan, Start
from tenure.core.fairshare import Standing
from tenure.core.ledger import Kind
from tenure.core.model import GPU, MINUTE, Slots
from tenure.core.placement import Misfit
from tenure.core.preemption import Contest
from tenure.core.queue import Group, Parked
from tenure.core.reasons import Because, Reason
from tenure.core.state import ClusterState, Job, State, margin_amount


def run(state: State) -> list[Plan]:
    """A pass over all clusters at ``state.now``. The returned plans have been applied."""
    plans: list[Plan] = []
    names = sorted(state.clusters)
    while True:
        before = len(plans)
        for name in names:
            plans.extend(_Pass(state, state.clusters[name]).run())
        # A job that one cluster takes leaves the queues of the others, which moves their standings.
        if len(plans) == before or len(names) == 1:
            return plans


def contest_for(state: State, cluster: ClusterState) -> Contest:
    """Both standings of a cluster at ``state.now``."""
    ledger, tree, policy, now = cluster.ledger, state.the_tree(), state.policy, state.now
    return Contest(
        state,
        cluster,
        Standing(ledger, tree, policy, Kind.CHARGED, now),
        Standing(ledger, tree, policy, Kind.UNALLOCATED, now),
        now,
    )


class _Pass:
    def __init__(self, state: State, cluster: ClusterState) -> None:
        self.state = state
        self.cluster = cluster
        self.now = state.now
        self.contest = contest_for(state, cluster)
        self.plans: list[Plan] = []

    def run(self) -> list[Plan]:
        # 1. Drain: hosts on their way to repair give up what is exposed.
        for stop in drain.plans(self.contest):
            self._commit(stop)
        # 2. Reservations whose time has come go here.
        # 3. Charged jobs, in the order of the tree.
        self._place(Kind.CHARGED)
        # 4. Unallocated jobs, on what is left, by the same rules over unallocated usage.
        self._place(Kind.UNALLOCATED)
        # 5. Headroom and defragmentation go here.
        return self.plans

    def _place(self, kind: Kind) -> None:
        """Sweep until a sweep places nothing: each placement moves standings, which may wake what was parked."""
        while True:
            before = len(self.plans)
            self._sweep(kind)
            if len(self.plans) == before:
                return

    def _sweep(self, kind: Kind) -> None:
        awake: dict[str, list[Group]] = {}
        for path, groups in self.cluster.queues[kind].leaves.items():
            if kind is Kind.CHARGED and not self.contest.charged.entitled(path):
                continue
            live = [group for group in groups.values() if self._awake(group, kind)]
            if live:
                awake[path] = live
        walk = _Walk(self.contest.standing(kind), awake)
        while leaf := walk.first_leaf():
            group, job = self._first_in(leaf, awake[leaf], kind)
            if self._try(group, job):
                walk.standing.charged(leaf)
                if not group.people:
                    walk.drop(leaf, group)
            else:
                walk.drop(leaf, group)

    def _awake(self, group: Group, kind: Kind) -> bool:
        parked = group.parked
        if parked is None or parked.grown != self.cluster.grown or parked.evictable != self.cluster.evictable:
            return True
        index = self.cluster.exposed_gpus
        if kind is Kind.UNALLOCATED:
            if not self.cluster.unallocated_gpus:
                return False
            standing = self.contest.unallocated
            now = standing.outranked(group.key.leaf, group.gpus * GPU)
            return any(sibling not in parked.outranked for sibling in now)
        if not any(index.values()):
            return False
        now = self.contest.charged.outranked(group.key.leaf, group.gpus * GPU)
        return any(index.get(sibling) and sibling not in parked.outranked for sibling in now)

    def _first_in(self, leaf: str, groups: Iterable[Group], kind: Kind) -> tuple[Group, Job]:
        """Rule 5 in the leaf: highest priority, person least charged, oldest first submission, id."""
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

    def _try(self, group: Group, job: Job) -> bool:
        """Place the job, by eviction if need be, or park its group."""
        if self.state.paused_starts:
            return self._park(group, job, Reason.PAUSED_STARTS)
        room, spec = self.cluster.room, job.spec
        if room.free_gpus >= spec.gpus and room.can_fit(spec.roles, spec.labels):
            slots = room.fit(spec.roles, spec.labels)
            if not isinstance(slots, Misfit):
                self._commit(self._start(job, slots))
                return True
        if room.free_gpus + preemption.evictable_bound(self.contest, job) < spec.gpus:
            return self._park(group, job, Reason.WAITING_CAPACITY)
        found = preemption.search(self.contest, job)
        if found is None:
            return self._park(group, job, Reason.WAITING_CAPACITY)
        if not self.state.evictions_allowed():
            return self._park(group, job, Reason.PAUSED_EVICTIONS)
        victims, slots = found
        if not self._under_cap(len(victims)):
            return self._park(group, job, Reason.WAITING_EVICTION_CAP)
        amount = room.amount(slots)
        evicted = preemption.evictions(self.contest, job, victims, amount)
        because = Because(Reason.STARTED_BY_EVICTION, {"victims": len(victims), "kill_at": evicted[0].kill_at})
        name = self.cluster.spec.name
        self._commit(Claim(self.now, job.id, _next_attempt(job), name, slots, amount, evicted, because))
        return True

    def _start(self, job: Job, slots: tuple[Slots, ...]) -> Start:
        amount = self.cluster.room.amount(slots)
        because = Because(Reason.STARTED_FREE, {"free_gpus": self.cluster.room.free_gpus, "gpus": job.spec.gpus})
        return Start(self.now, job.id, _next_attempt(job), self.cluster.spec.name, slots, amount, because)

    def _commit(self, plan: Plan) -> None:
        apply(self.state, plan)
        self.plans.append(plan)

    def _park(self, group: Group, job: Job, reason: Reason) -> bool:
        standing = self.contest.standing(job.kind)
        outranked = frozenset(standing.outranked(job.leaf, margin_amount(job.spec)))
        group.parked = Parked(reason, self.cluster.grown, self.cluster.evictable, outranked)
        return False

    def _under_cap(self, more: int) -> bool:
        """Whether ``more`` evictions keep the cap per minute. A plan larger than the cap goes alone."""
        recent = sum(1 for at in self.cluster.recent_evictions if at > self.now - MINUTE)
        return recent == 0 or recent + more <= self.state.policy.evictions_per_minute


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
            leaf = next(child for child in self.standing.order(leaf) if self.live.get(child))
        return leaf

    def drop(self, leaf: str, group: Group) -> None:
        self.awake[leaf].remove(group)
        for path in self.standing.tree.line(leaf):
            self.live[path] -= 1


def _next_attempt(job: Job) -> str:
    return f"{job.id}.{job.attempts + 1}"


def waiting_groups(state: State) -> Iterator[tuple[ClusterState, Group]]:
    """Every group of waiting jobs with its cluster."""
    for name in sorted(state.clusters):
        for queue in state.clusters[name].queues.values():
            for groups in queue.leaves.values():
                for group in groups.values():
                    yield state.clusters[name], group
