"""One greedy pass: in the order of a policy's rules, whatever fits starts; what does not is skipped.

A job that does not fit evicts the smallest sufficient set of those that it outranks. Groups that could not be placed
are parked until enough GPUs have become free, so that a pass costs what changed.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from tenure.core.apply import apply
from tenure.core.decisions import Claim, Plan, Start
from tenure.core.ledger import Kind
from tenure.core.placement import Room
from tenure.core.queue import Group, GroupKey, Shape
from tenure.core.reasons import Reason
from tenure.core.state import Attempt, ClusterState, Job, State
from tenure.policies import moves
from tenure.policies.rules import Rules


def run(rules: Rules, state: State) -> list[Plan]:
    """A pass at ``state.now``. The returned plans have been applied."""
    plans = moves.empty_draining(state, rules.protected)
    awake: list[moves.Place] = []
    for cluster, group in moves.groups(state):
        parked = group.parked
        if parked is None or cluster.freed - parked.freed >= parked.short:
            awake.append((cluster, group))
    if awake:
        _Sweep(rules, state, plans).run(awake)
    return plans


class _Sweep:
    """Tries every group that may have a chance, once more for each job of it that starts."""

    def __init__(self, rules: Rules, state: State, plans: list[Plan]) -> None:
        self.rules = rules
        self.state = state
        self.plans = plans
        self._views: dict[str, _View] = {}

    def run(self, awake: list[moves.Place]) -> None:
        possible: dict[tuple[Kind, GroupKey], Group] = {}
        for cluster, group in awake:
            obstacle = self._view(cluster).obstacle(group)
            if obstacle is None:
                possible[group.kind, group.key] = group
            else:
                moves.park(cluster, group, *obstacle)
        line = [(self._first(group), n, group) for n, group in enumerate(possible.values())]
        heapify(line)
        while line:
            (*_, job_id), n, group = heappop(line)
            plan = self._place(group, self.state.jobs[job_id])
            if plan is not None:
                apply(self.state, plan)
                self.plans.append(plan)
                self._views[plan.cluster].placed(self.state.jobs[job_id])
                if group.people:
                    heappush(line, (self._first(group), n, group))

    def _first(self, group: Group) -> tuple[int, ...]:
        """The order of the group's first job, and its id."""
        jobs = self.state.jobs
        return min((*self.rules.order(jobs[job_id]), job_id) for _, (_, job_id) in group.heads())

    def _place(self, group: Group, job: Job) -> Start | Claim | None:
        """How the first cluster that the job lists and that can start it does so; else its groups are parked."""
        places = moves.places(self.state, group.kind, group.key)
        obstacles = []
        for cluster, there in places:
            view = self._view(cluster)
            obstacle = view.obstacle(there)
            plan = view.plan(there, job) if obstacle is None else None
            if plan is not None:
                return plan
            obstacles.append(obstacle or (Reason.WAITING_CAPACITY, 1))
        for (cluster, there), (reason, short) in zip(places, obstacles, strict=True):
            moves.park(cluster, there, reason, short)
        return None

    def _view(self, cluster: ClusterState) -> _View:
        view = self._views.get(cluster.spec.name)
        if view is None:
            view = self._views[cluster.spec.name] = _View(self.rules, self.state, cluster)
        return view


class _View:
    """One cluster during a sweep: who holds it, and what was found out since the last plan."""

    def __init__(self, rules: Rules, state: State, cluster: ClusterState) -> None:
        self.rules = rules
        self.state = state
        self.cluster = cluster
        name = cluster.spec.name
        self.attempts = [attempt for attempt in state.attempts.values() if attempt.cluster == name]
        self._over: dict[tuple[str, Kind, int], int] = {}
        self._fits: dict[Shape, bool] = {}
        self._below: dict[int, tuple[list[Attempt], list[Attempt], int]] = {}
        self._rooms: dict[int, Room] = {}
        self._fits_without: dict[tuple[int, Shape], bool] = {}

    def placed(self, job: Job) -> None:
        """A plan for the job was applied."""
        assert job.attempt is not None
        self.attempts.append(job.attempt)
        for known in (self._over, self._fits, self._below, self._rooms, self._fits_without):
            known.clear()

    def obstacle(self, group: Group) -> tuple[Reason, int] | None:
        """What is sure to keep the group's jobs from being placed now, cheapest test first.

        With it the number of GPUs that must become free before that can change.
        """
        room, key = self.cluster.room, group.key
        if self.state.paused_starts:
            return Reason.PAUSED_STARTS, 1
        job = self.state.jobs[group.anyone()]
        over = self._too_many(group, job)
        if over > 0:
            return Reason.WAITING_TEAM_CAP, over
        if self._fits_now(group, job):
            return None
        victims, _, gpus = self._outranked(job)
        short = group.gpus - room.free_gpus - gpus
        if short > 0 or not gpus:
            return Reason.WAITING_CAPACITY, max(1, short)
        rank = self.rules.rank(job)
        fits = self._fits_without.get((rank, key.shape))
        if fits is None:
            fits = self._without(job).can_fit(job.spec.roles, job.spec.labels)
            self._fits_without[rank, key.shape] = fits
        if not fits:
            return Reason.WAITING_CAPACITY, 1
        if victims and not self.state.evictions_allowed():
            return Reason.PAUSED_EVICTIONS, 1
        return None

    def plan(self, group: Group, job: Job) -> Start | Claim | None:
        """How the job can be placed here now, when there is no obstacle."""
        started = moves.start_in(self.state, self.cluster, job) if self._fits_now(group, job) else None
        return started or self._claim(job)

    def _too_many(self, group: Group, job: Job) -> int:
        key = group.key.leaf, group.kind, group.gpus
        known = self._over.get(key)
        if known is None:
            now, protected = self.state.now, self.rules.protected
            running = sum(a.gpus for a in self.attempts if a.leaf == job.leaf and protected(a, now))
            known = self._over[key] = self.rules.over(self.state, self.cluster, job, running)
        return known

    def _fits_now(self, group: Group, job: Job) -> bool:
        if group.gpus > self.cluster.room.free_gpus:
            return False
        known = self._fits.get(group.key.shape)
        if known is None:
            known = self._fits[group.key.shape] = self.cluster.room.can_fit(job.spec.roles, job.spec.labels)
        return known

    def _outranked(self, job: Job) -> tuple[list[Attempt], list[Attempt], int]:
        """Whom the job may evict, first those who go first; who of them is leaving already; and all their GPUs."""
        rank = self.rules.rank(job)
        known = self._below.get(rank)
        if known is None:
            jobs, rules, now = self.state.jobs, self.rules, self.state.now
            loose = (a for a in self.attempts if a.started_at is not None and not rules.protected(a, now))
            here = [a for a in loose if rules.outranks(job, jobs[a.job_id])]
            victims = [a for a in here if a.stop is None]
            victims.sort(key=lambda a: (*rules.evict_order(jobs[a.job_id], a), a.job_id))
            leaving = [a for a in here if a.id in self.cluster.leaving]
            known = self._below[rank] = victims, leaving, sum(a.gpus for a in victims) + sum(a.gpus for a in leaving)
        return known

    def _without(self, job: Job) -> Room:
        """The room as it would be without everybody whom the job outranks."""
        rank = self.rules.rank(job)
        room = self._rooms.get(rank)
        if room is None:
            victims, leaving, _ = self._outranked(job)
            room = self._rooms[rank] = moves.room_later(self.cluster, [*leaving, *victims])
        return room

    def _claim(self, job: Job) -> Claim | None:
        victims, leaving, _ = self._outranked(job)
        jobs = self.state.jobs
        return moves.claim_of(
            self.state, self.cluster, job, victims, leaving, lambda a: self.rules.because(job, jobs[a.job_id])
        )
