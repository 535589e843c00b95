"""The pass that policies of queues share: whose turn is it, start its first job that fits, ask again.

How to use it: subclass ``QueuePolicy``, give it a ``name`` and ``next``, and override what else differs.

- ``next(queues)`` names the queue (a leaf of the tree of budgets) whose first job is started. It is asked again after
  every start. Only queues with a job that *can* start now are offered: ``queues.ready()``, each with that job in
  ``first``. For a tree, ``queues.descend(pick)`` asks ``pick`` at each level for one of the children with such a queue
  below. What nodes know (share, use, allocation) is in ``queue_tree``; ``queues.demand(path)`` adds what waits.
- ``over(queues, leaf, job)`` is for limits: how many GPUs of the queue (or of a budget above) must be released before
  the job may start; at most 0 when it may. Such jobs are shown as ``waiting_team_cap``.
- ``preempts = True`` switches the second phase on, when all has started that can. ``starved(queues)`` names queues that
  should get GPUs, the first in need first; ``victims(queues, job)`` whom a job of theirs may evict, in the order in
  which they go, each with its reason. Any part of that list must be allowed: the smallest sufficient part is taken
  (``core.preemption.smallest_set``). ``starved`` is asked again after every claim, with ``used`` and ``leaving`` of the
  nodes up to date; ``used`` counts whoever is being evicted until the GPUs are back.
- ``protected(attempt, now)``: whoever it names is never evicted, whatever ``victims`` says.

Within a queue charged jobs come before unallocated ones, then the higher priority, the older first submission, the id;
what does not fit is skipped. A job that accepts several clusters goes to the first it lists that can start it.

Groups that cannot be placed are parked until as many GPUs as they lack have become free, so that a pass costs what has
changed. The second phase looks at starved queues in every pass. A simulation makes one for every event and at least
every five minutes (``sim.loop.QUIET``): time-outs, which a policy has to remember itself from pass to pass (and forget
when it is given another ``State``), are that exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import ClassVar

from tenure.core.apply import apply
from tenure.core.decisions import Claim, Plan
from tenure.core.ledger import Kind
from tenure.core.queue import Group, GroupKey, Shape
from tenure.core.reasons import Because, Reason
from tenure.core.state import Attempt, ClusterState, Job, State
from tenure.policies import moves
from tenure.policies.queue_tree import QueueNode, Queues

Entry = tuple[tuple[int, ...], Group]
"""A group in the line of its queue, by the order of its first job: that ends with the job's id, so none are tied."""


class QueuePolicy(ABC):
    """A policy that shares a cluster among queues. Without more than ``next`` there are no limits and no evictions.

    What its methods answer depends on the queues and the time alone, and on what it remembers itself.
    """

    name: str
    preempts: ClassVar[bool] = False

    def run(self, state: State) -> list[Plan]:
        """A pass at ``state.now``. The returned plans have been applied; a second pass decides nothing."""
        return _Pass(self, state).run()

    def protected(self, attempt: Attempt, now: int) -> bool:
        """Whether this policy evicts the attempt for nobody at ``now`` (ms UTC)."""
        return True

    def withheld(self, state: State) -> int:
        """Nothing, without limits: whoever can use a free GPU gets it. With them it is ``moves.usable(state)``."""
        return 0

    @abstractmethod
    def next(self, queues: Queues) -> str:
        """The path of the queue whose turn it is: one of those that are ready."""

    def over(self, queues: Queues, leaf: QueueNode, job: Job) -> int:
        """GPUs of its queue, or of one above, that must be released before the job may start, whatever is free."""
        return 0

    def starved(self, queues: Queues) -> Iterable[str]:
        """Paths of the queues that should get GPUs of others now."""
        return ()

    def victims(self, queues: Queues, job: Job) -> Sequence[tuple[Attempt, Because]]:
        """Whom a job of a starved queue may evict, in the order in which they go, and why."""
        return ()


def order(job: Job) -> tuple[int, ...]:
    """Sorts the jobs of a queue: the smallest is first."""
    return (not job.spec.charged, -job.spec.priority, job.submitted, job.id)


def first_of(state: State, group: Group) -> Job:
    """The first job of a group, which must not be empty."""
    return state.jobs[min(head for _, head in group.heads())[1]]


class _Pass:
    def __init__(self, policy: QueuePolicy, state: State) -> None:
        self.policy = policy
        self.state = state
        self.plans: list[Plan] = []
        self.hot: set[tuple[str, Kind, GroupKey]] = set()
        """Groups that are still to be tried, by cluster."""
        self._queues: dict[str, Queues] = {}

    def run(self) -> list[Plan]:
        self.plans += moves.empty_draining(self.state, self.policy.protected)
        awake = [
            (cluster, group)
            for cluster, group in moves.groups(self.state)
            if group.parked is None or cluster.freed - group.parked.freed >= group.parked.short
        ]
        self.hot = {(cluster.spec.name, group.kind, group.key) for cluster, group in awake}
        while awake:  # again while somebody was left to a cluster that would not have him
            left: list[moves.Place] = []
            for cluster in self.state.clusters.values():
                here = [group for there, group in awake if there is cluster and group.people]
                if here:
                    left += [(cluster, group) for group in _Turns(self, cluster).run(here)]
            awake = left
        if self.policy.preempts and not self.state.paused_starts and self.state.evictions_allowed():
            for cluster in self.state.clusters.values():
                _Preemption(self, cluster).run()
        return self.plans

    def queues(self, cluster: ClusterState) -> Queues:
        known = self._queues.get(cluster.spec.name)
        if known is None:
            known = self._queues[cluster.spec.name] = Queues(self.state, cluster)
        return known

    def place(self, plan: Plan, cluster: ClusterState, job: Job) -> None:
        apply(self.state, plan)
        self.plans.append(plan)
        assert job.attempt is not None
        queues = self.queues(cluster)
        queues.hold(job.attempt)
        for victim in plan.victims if isinstance(plan, Claim) else ():
            queues.stopped(self.state.attempts[victim.attempt_id])

    def over(self, cluster: ClusterState, group: Group, job: Job) -> int:
        queues = self.queues(cluster)
        return self.policy.over(queues, queues.nodes[group.key.leaf], job)


class _Turns:
    """One cluster during a sweep: its queues take turns until nobody who waits there can start."""

    def __init__(self, one: _Pass, cluster: ClusterState) -> None:
        self.one = one
        self.state = one.state
        self.cluster = cluster
        self.queues = one.queues(cluster)
        self.lines: dict[str, list[Entry]] = {}
        self.left: list[Group] = []
        """Groups that a cluster which they prefer has not tried yet."""
        self._fits: dict[Shape, bool] = {}

    def run(self, groups: Iterable[Group]) -> list[Group]:
        """Serve the groups that have a chance here. Returns those that were not tried for another cluster's sake."""
        for group in groups:
            entry = self._entry(group)
            if self._may_try(entry):
                self.lines.setdefault(group.key.leaf, []).append(entry)
        for line in self.lines.values():
            heapify(line)
        self._settle()
        while self.lines:
            leaf = self.one.policy.next(self.queues)
            line = self.lines[leaf]
            (*_, job_id), group = heappop(line)
            job = self.state.jobs[job_id]
            plan = moves.start_in(self.state, self.cluster, job)
            assert plan is not None, f"job {job_id} could be placed and was not"
            self.one.place(plan, self.cluster, job)
            if group.people:
                heappush(line, self._entry(group))
            else:
                self.one.hot.discard((self.cluster.spec.name, group.kind, group.key))
            self._fits.clear()
            self._settle()
        return self.left

    def _entry(self, group: Group) -> Entry:
        return order(first_of(self.state, group)), group

    def _settle(self) -> None:
        """Only those are left at the head of a queue's line who can start."""
        for leaf, line in list(self.lines.items()):
            while line and not self._may_try(line[0]):
                heappop(line)
            self.queues.offer(leaf, self.state.jobs[line[0][0][-1]] if line else None)
            if not line:
                del self.lines[leaf]

    def _may_try(self, entry: Entry) -> bool:
        """Whether the group's first job can start here now; else the group is parked, or left to another cluster."""
        (*_, job_id), group = entry
        name = self.cluster.spec.name
        for other in group.key.shape.clusters:
            if other == name:
                break
            if (other, group.kind, group.key) in self.one.hot:
                self.left.append(group)
                return False
        obstacle = self._obstacle(group, self.state.jobs[job_id])
        if obstacle is not None:
            moves.park(self.cluster, group, *obstacle)
            self.one.hot.discard((name, group.kind, group.key))
        return obstacle is None

    def _obstacle(self, group: Group, job: Job) -> tuple[Reason, int] | None:
        """What keeps the group's jobs from starting, and how many GPUs must become free before that can change."""
        if self.state.paused_starts:
            return Reason.PAUSED_STARTS, 1
        over = self.one.over(self.cluster, group, job)
        if over > 0:
            return Reason.WAITING_TEAM_CAP, over
        short = group.gpus - self.cluster.room.free_gpus
        if short > 0:
            return Reason.WAITING_CAPACITY, short
        shape, fits = group.key.shape, self._fits.get(group.key.shape)
        if fits is None:
            fits = self._fits[shape] = self.cluster.room.can_fit(group.spec.roles, group.spec.labels)
        return None if fits else (Reason.WAITING_CAPACITY, 1)


class _Preemption:
    """One cluster after all has started that can: starved queues claim GPUs of others."""

    def __init__(self, one: _Pass, cluster: ClusterState) -> None:
        self.one = one
        self.state = one.state
        self.cluster = cluster

    def run(self) -> None:
        in_vain: set[str] = set()
        if not any(queue.groups for queue in self.cluster.queues.values()):
            return
        while True:
            starved = (leaf for leaf in self.one.policy.starved(self.one.queues(self.cluster)) if leaf not in in_vain)
            leaf = next(starved, None)
            if leaf is None:
                return
            if self._serve(leaf):
                in_vain.clear()
            else:
                in_vain.add(leaf)

    def _serve(self, leaf: str) -> bool:
        """Whether the first job of a queue for which there are victims has got a claim."""
        waiting = [
            (order(job), group, job)
            for queue in self.cluster.queues.values()
            for group in queue.leaves.get(leaf, {}).values()
            for job in (first_of(self.state, group),)
        ]
        waiting.sort(key=lambda entry: entry[0])
        for _, group, job in waiting:
            if self.one.over(self.cluster, group, job) <= 0:
                plan = self._claim(job)
                if plan is not None:
                    self.one.place(plan, self.cluster, job)
                    return True
        return False

    def _claim(self, job: Job) -> Claim | None:
        policy, now = self.one.policy, self.state.now
        why: dict[str, Because] = {}
        victims: list[Attempt] = []
        for attempt, because in policy.victims(self.one.queues(self.cluster), job):
            if attempt.started_at is None or attempt.stop is not None or policy.protected(attempt, now):
                continue
            victims.append(attempt)
            why[attempt.id] = because
        leaving = list(self.cluster.leaving.values())
        gone = victims + leaving
        if job.spec.gpus > self.cluster.room.free_gpus + sum(a.gpus for a in gone):
            return None
        if not moves.room_later(self.cluster, gone).can_fit(job.spec.roles, job.spec.labels):
            return None
        return moves.claim_of(self.state, self.cluster, job, victims, leaving, lambda a: why[a.id])
