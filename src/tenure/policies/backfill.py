"""First come, first served with EASY backfilling: the oldest job has a reservation, which others must respect.

A. W. Mu'alem and D. G. Feitelson: Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the
IBM SP2 with Backfilling. IEEE Transactions on Parallel and Distributed Systems 12(6), 2001.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tenure.core.apply import apply
from tenure.core.decisions import Plan, Start
from tenure.core.model import HOUR, MINUTE, Slots
from tenure.core.placement import Room
from tenure.core.queue import Group, Shape, shape_of
from tenure.core.reasons import Reason
from tenure.core.state import Attempt, ClusterState, Job, State
from tenure.policies import line, moves
from tenure.policies.standstill import Standstill


class Backfill:
    """The oldest job that does not fit is expected to start at its *shadow time*, when enough of what runs has ended.

    Another one may start before it if it ends by then, or if the oldest still fits at the shadow time beside it. Every
    job is expected to run to its limit: its timeout, or ``default_limit`` where it has none. Nobody is evicted.

    ``default_limit``, ``allowance`` (for coming up and shutting down, on top of every limit) in ms. Raises ValueError
    for settings that are not possible.
    """

    name = "backfill"

    def __init__(self, default_limit: int = 24 * HOUR, allowance: int = 5 * MINUTE) -> None:
        if default_limit <= 0:
            raise ValueError(f"default_limit = {default_limit}: must be more than 0")
        if allowance < 0:
            raise ValueError(f"allowance = {allowance}: must be 0 or more")
        self.default_limit = default_limit
        self.allowance = allowance
        self._still: Standstill | None = None

    def run(self, state: State) -> list[Plan]:
        if self._still is not None and self._still.lasts(state):
            return []
        self._still = None
        if state.paused_starts:
            for waiting in line.whole(state):
                line.say(waiting, Reason.PAUSED_STARTS)
            return []
        one = _Pass(self, state)
        one.run()
        ends = [reserved.first_end for reserved in one.reserved.values()]
        self._still = Standstill(state, one.passed, min(ends, default=None))
        return one.plans

    def protected(self, attempt: Attempt, now: int) -> bool:
        return True

    def withheld(self, state: State) -> int:
        """What jobs could use that would delay the oldest."""
        return moves.usable(state)

    def length(self, job: Job) -> int:
        """How long an attempt of the job is expected to hold its GPUs at most, ms."""
        return (job.spec.timeout or self.default_limit) + self.allowance

    def end(self, state: State, attempt: Attempt) -> int:
        """When an attempt is expected to end, ms UTC, always after now.

        One that runs past its expected length is expected to take twice as long, and twice that again. (Systems that
        predict lengths correct them in steps, too; with a true limit the difference is a few seconds of shutting down.)
        """
        length = self.length(state.jobs[attempt.job_id])
        since = attempt.planned_at
        return since + (length << ((state.now - since) // length).bit_length())


@dataclass(slots=True)
class Reservation:
    """What is kept for the oldest job of a cluster.

    ``at``: its shadow time. ``room``: the room as it will be then, without the job. ``first_end``: when the first of
    those who are expected to make room for it should have ended. ``beside``: for each shape the slots that a job may
    take for longer, None when there are none; since the last plan.
    """

    job: Job
    at: int
    room: Room
    first_end: int
    beside: dict[Shape, tuple[Slots, ...] | None] = field(default_factory=dict)
    spare: Room | None = None
    """What is free now and the reservation would not take; since the last plan, None until it is asked for."""

    def may_keep(self, now: Room, job: Job) -> tuple[Slots, ...] | None:
        """Slots that are free now and that the job may hold past the shadow time."""
        shape = shape_of(job.spec)
        if shape not in self.beside:
            self.beside[shape] = self._look(now, job)
        return self.beside[shape]

    def _look(self, now: Room, job: Job) -> tuple[Slots, ...] | None:
        """Beside what the reservation would take, else where it fits best, if the reservation can make way."""
        if self.spare is None:
            self.spare = now.fork()
            self.spare.take(moves.find(self.room, self.job) or ())
        slots = moves.find(self.spare, job)
        if slots is not None or self.room.free_gpus - job.spec.gpus < self.job.spec.gpus:
            return slots
        slots = moves.find(now, job)
        return slots if slots is not None and self._fits_beside(slots) else None

    def _fits_beside(self, slots: tuple[Slots, ...]) -> bool:
        trial = self.room.fork()
        trial.take(slots)
        return trial.can_fit(self.job.spec.roles, self.job.spec.labels)

    def forget(self) -> None:
        """A plan was made in its cluster."""
        self.beside.clear()
        self.spare = None


class _Pass:
    """One pass: the line from its head until every cluster has a reservation, then whoever respects it."""

    def __init__(self, policy: Backfill, state: State) -> None:
        self.policy = policy
        self.state = state
        self.plans: list[Plan] = []
        self.reserved: dict[str, Reservation] = {}
        self.full: set[str] = set()
        """Clusters in which nobody who waits fits."""
        self.passed: list[int] = []
        """Jobs that stood at the head of the line and cannot start."""
        self._fits: dict[tuple[str, Shape], bool] = {}

    def run(self) -> None:
        state = self.state
        waiting = before = line.whole(state)
        while len(self.reserved) + len(self.full) < len(state.clusters):
            job = line.oldest(state, before, self.passed)
            if job is None:
                break
            if not self._try(job, self._accepted(job)):
                self.passed.append(job.id)
                self._reserve(job, waiting)
                before = [here for here in waiting if any(self._unreserved(cluster) for cluster in here.clusters)]
        behind = [(each, here) for here in waiting if here.group.people for each in self._candidates(here)]
        for (_, job_id), here in sorted(behind, key=lambda one: one[0]):
            self._try(state.jobs[job_id], [c for c in here.clusters if self._fits_now(c, here.group)])
        for here in waiting:
            fits = here.group.people and any(self._fits_now(cluster, here.group) for cluster in here.clusters)
            line.say(here, Reason.WAITING_RESERVED if fits else Reason.WAITING_CAPACITY)

    def _unreserved(self, cluster: ClusterState) -> bool:
        return cluster.spec.name not in self.reserved and cluster.spec.name not in self.full

    def _accepted(self, job: Job) -> list[ClusterState]:
        clusters = self.state.clusters
        return [clusters[name] for name in job.spec.clusters if name in clusters]

    def _candidates(self, here: line.Waiting) -> list[tuple[int, int]]:
        """Jobs that are alike, as (submitted, id), that could start now as far as one can tell without trying."""
        group, longest = here.group, -1
        for cluster in here.clusters:
            if self._fits_now(cluster, group):
                reserved = self.reserved.get(cluster.spec.name)
                if reserved is None or reserved.may_keep(cluster.room, self.state.jobs[group.anyone()]) is not None:
                    return [each for jobs in group.people.values() for each in jobs]
                longest = max(longest, reserved.at - self.state.now)
        if longest < 0:
            return []
        jobs, length = self.state.jobs, self.policy.length
        return [each for theirs in group.people.values() for each in theirs if length(jobs[each[1]]) <= longest]

    def _fits_now(self, cluster: ClusterState, group: Group) -> bool:
        if group.gpus > cluster.room.free_gpus:
            return False
        key = cluster.spec.name, group.key.shape
        known = self._fits.get(key)
        if known is None:
            spec = self.state.jobs[group.anyone()].spec
            known = self._fits[key] = cluster.room.can_fit(spec.roles, spec.labels)
        return known

    def _try(self, job: Job, clusters: Iterable[ClusterState]) -> bool:
        """Start the job in the first of ``clusters`` that can take it without delaying the oldest."""
        for cluster in clusters:
            plan = self._plan(cluster, job)
            if plan is not None:
                apply(self.state, plan)
                self.plans.append(plan)
                self._fits.clear()
                return True
        return False

    def _plan(self, cluster: ClusterState, job: Job) -> Start | None:
        reserved = self.reserved.get(cluster.spec.name)
        if reserved is None:
            return moves.start_in(self.state, cluster, job)
        end = self.state.now + self.policy.length(job)
        if end <= reserved.at:
            plan = moves.start_in(self.state, cluster, job)
            if plan is not None:
                reserved.forget()
                reserved.first_end = min(reserved.first_end, end)
            return plan
        slots = reserved.may_keep(cluster.room, job)
        if slots is None:
            return None
        reserved.room.take(slots)
        reserved.forget()
        return moves.start(self.state, cluster, job, slots)

    def _reserve(self, job: Job, waiting: list[line.Waiting]) -> None:
        """Keep room for the job where it can be expected first, of the clusters that keep none for another.

        Where nobody fits anyway, nothing has to be kept in this pass.
        """
        clusters = [cluster for cluster in self._accepted(job) if self._unreserved(cluster)]
        if not any(self._anyone_fits(cluster, waiting) for cluster in clusters):
            self.full.update(cluster.spec.name for cluster in clusters)
            return
        best: Reservation | None = None
        for cluster in clusters:
            found = self._shadow(cluster, job)
            if found is not None and (best is None or found.at < best.at):
                best, where = found, cluster.spec.name
        if best is not None:
            self.reserved[where] = best

    def _anyone_fits(self, cluster: ClusterState, waiting: list[line.Waiting]) -> bool:
        here = (each.group for each in waiting if cluster in each.clusters and each.group.people)
        return any(self._fits_now(cluster, group) for group in here)

    def _shadow(self, cluster: ClusterState, job: Job) -> Reservation | None:
        """When the job fits as attempts come to their expected ends, one after the other; None: not even then."""
        state, spec = self.state, job.spec
        here = (attempt for attempt in state.attempts.values() if attempt.cluster == cluster.spec.name)
        ends = sorted((self.policy.end(state, attempt), attempt.id) for attempt in here)
        room = cluster.room.fork()
        for n, (end, attempt_id) in enumerate(ends):
            room.give(state.attempts[attempt_id].slots)
            if n + 1 < len(ends) and ends[n + 1][0] == end:
                continue
            if room.can_fit(spec.roles, spec.labels):
                return Reservation(job, end, room, ends[0][0])
        return None
