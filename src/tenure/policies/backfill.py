"""First come, first served with EASY backfilling: the first job has a reservation, which others must respect.

A. W. Mu'alem and D. G. Feitelson: Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the
IBM SP2 with Backfilling. IEEE Transactions on Parallel and Distributed Systems 12(6), 2001.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from tenure.core.apply import apply
from tenure.core.decisions import Claim, Plan, Start
from tenure.core.model import HOUR, MINUTE
from tenure.core.queue import Group, Shape, shape_of
from tenure.core.reasons import Reason
from tenure.core.state import Attempt, ClusterState, Job, State
from tenure.policies import moves
from tenure.policies.line import FIRST, Age, Alike, Line, Turn, by_age
from tenure.policies.shadow import Reservation
from tenure.policies.standstill import Standstill


class Backfill:
    """The first job that does not fit is expected to start at its *shadow time*, when enough of what runs has ended.

    Another one may start before it if it ends by then, or if the first still fits at the shadow time beside it. Every
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
        self._line = Line(self.length, self.turns)
        self._still: Standstill | None = None
        self._pass: _Pass | None = None
        """The last one."""
        self._said: dict[Shape, Reason] = {}

    def run(self, state: State) -> list[Plan]:
        came = self._line.update(state)
        if state.paused_starts:
            self._pass, self._said = None, {}
            self._line.say(state, lambda _: Reason.PAUSED_STARTS, everybody=came is None)
            return []
        if came is not None and self._lasts(state) and not any(self._may_start(job) for job in came):
            self._line.say(state, self._why, everybody=False)
            return []
        one = self._pass = _Pass(self, state, self._line)
        one.run()
        ends = [reserved.first_end for reserved in one.reserved.values()]
        self._still = Standstill(state, one.passed, min((*ends, *self.changes(state)), default=None))
        before, self._said = self._said, {alike.shape: one.why(alike.shape, alike.sample) for _, alike in one.alikes}
        changed = any(before.get(shape, reason) is not reason for shape, reason in self._said.items())
        self._line.say(state, self._why, everybody=came is None or changed)
        return one.plans

    def _lasts(self, state: State) -> bool:
        return self._pass is not None and self._still is not None and self._still.lasts(state)

    def _may_start(self, job: Job) -> bool:
        return self._pass is None or self._pass.may_start(job)

    def _why(self, group: Group) -> Reason:
        """Why jobs of a group wait since the last pass."""
        shape, known = group.key.shape, self._pass
        if shape not in self._said and known is not None:
            self._said[shape] = known.why(shape, known.state.jobs[group.anyone()])
        return self._said[shape]

    def protected(self, attempt: Attempt, now: int) -> bool:
        return True

    def withheld(self, state: State) -> int:
        """What jobs could use that would delay the first."""
        return moves.usable(state)

    def turns(self, job: Job, ages: Sequence[Age]) -> Sequence[Turn]:
        """Where jobs stand in the line that are a person's in one group of the queue."""
        return by_age(job, ages)

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

    # ---- for policies that evict

    def yields(self, state: State, job: Job, attempt: Attempt) -> bool:
        """Whether the attempt would go at once for the job, so that nothing has to be expected of its end."""
        return False

    def would_yield(self, state: State, job: Job, other: Job) -> bool:
        """Whether that would be so of an attempt of the other job that starts now."""
        return False

    def can_evict(self, state: State, cluster: ClusterState, job: Job) -> bool:
        """Whether ``evict`` would find a plan. Jobs of one shape are alike to it."""
        return False

    def evict(self, state: State, cluster: ClusterState, job: Job) -> Claim | None:
        """The plan that has others make room for a job that does not fit."""
        return None

    def planned(self) -> None:
        """A plan was applied: what was found out about evictions is out of date."""

    def changes(self, state: State) -> Iterable[int]:
        """When, ms UTC, time alone may change who can be evicted."""
        return ()


@dataclass(slots=True, eq=False)
class _Trial:
    """Those of one shape that are to be tried: shorter than ``limit`` (ms) by what was so before, None: all of them."""

    alike: Alike
    limit: int | None
    below: int | None = field(init=False)
    """And shorter than those that were tried in vain since the last plan."""

    def __post_init__(self) -> None:
        self.below = self.limit


class _Pass:
    """One pass: the line from its head until every cluster has a reservation, then whoever respects it.

    Until GPUs become free, those who come later are measured by it.
    """

    def __init__(self, policy: Backfill, state: State, line: Line) -> None:
        self.policy = policy
        self.state = state
        self.line = line
        self.plans: list[Plan] = []
        self.reserved: dict[str, Reservation] = {}
        self.full: set[str] = set()
        """Clusters in which nobody who waits fits."""
        self.passed: list[int] = []
        """Jobs that stood at the head of the line and cannot start."""
        self.last_passed = FIRST
        """The turn of the last of them."""
        self.alikes = list(line.alikes())
        self._fits: dict[tuple[str, Shape], bool] = {}
        self._hopeless: set[tuple[str, Shape]] = set()
        """Shapes that would not fit in a cluster even with everybody gone."""

    def run(self) -> None:
        self._serve_heads()
        self._backfill()

    def may_start(self, job: Job) -> bool:
        """Whether another pass could start somebody who has come into the line since this one.

        What others may take beside a reservation is not known any more once somebody has started.
        """
        if self.line.turn(job) < self.last_passed or len(self.reserved) + len(self.full) < len(self.state.clusters):
            return True
        clusters, end = self.state.clusters, self.state.now + self.policy.length(job)
        for name in job.spec.clusters:
            if name in clusters and self._fits_now(clusters[name], shape_of(job.spec), job):
                reserved = self.reserved.get(name)
                if reserved is None or self.plans or end <= reserved.at:
                    return True
                if reserved.may_keep(clusters[name].room, job) is not None:
                    return True
            if name in clusters and self.policy.can_evict(self.state, clusters[name], job):
                return True
        return False

    def why(self, shape: Shape, sample: Job) -> Reason:
        """Why jobs of a shape wait after the pass."""
        clusters = self.state.clusters
        fits = any(self._fits_now(clusters[name], shape, sample) for name in shape.clusters if name in clusters)
        return Reason.WAITING_RESERVED if fits else Reason.WAITING_CAPACITY

    def _serve_heads(self) -> None:
        waiting = self.alikes.copy()
        heapify(waiting)
        while waiting and len(self.reserved) + len(self.full) < len(self.state.clusters):
            turn, alike = heappop(waiting)
            if not any(self._unreserved(cluster) for cluster in alike.clusters):
                continue  # something is kept for others wherever they could go
            job = self.state.jobs[turn[-1]]
            if not self._try(job, alike.clusters):
                self.passed.append(job.id)
                self.last_passed = turn
                self._reserve(job, alike)
            following = self.line.after(alike, turn)
            if following is not None:
                heappush(waiting, (following, alike))

    def _backfill(self) -> None:
        """Everybody in turn who could start, as far as one can tell without trying.

        Who was tried in vain speaks for all that are like it and no shorter, until somebody else starts.
        """
        trials = [
            _Trial(alike, limit) for _, alike in self.alikes if (limit := self._limit(alike)) is None or limit > 0
        ]
        behind = self._next(trials, FIRST)
        while behind:
            turn, trial = heappop(behind)
            alike, job = trial.alike, self.state.jobs[turn[-1]]
            clusters = [cluster for cluster in alike.clusters if self._could(cluster, alike)]
            if not clusters:
                trials.remove(trial)
            elif self._try(job, clusters):
                for each in trials:
                    each.below = each.limit
                behind = self._next(trials, turn)
            else:
                trial.below = self.policy.length(job)
                following = self.line.after(alike, turn, trial.below)
                if following is not None:
                    heappush(behind, (following, trial))

    def _next(self, trials: list[_Trial], turn: Turn) -> list[tuple[Turn, _Trial]]:
        """A heap of the next of each trial, behind ``turn``."""
        found = ((self.line.after(trial.alike, turn, trial.below), trial) for trial in trials)
        heap = [(following, trial) for following, trial in found if following is not None]
        heapify(heap)
        return heap

    def _limit(self, alike: Alike) -> int | None:
        """Jobs that are alike and shorter than this (ms) could start; 0: none could; None: all of them could."""
        longest = -1
        for cluster in alike.clusters:
            if self.policy.can_evict(self.state, cluster, alike.sample):
                return None
            if self._fits_now(cluster, alike.shape, alike.sample):
                reserved = self.reserved.get(cluster.spec.name)
                if reserved is None or reserved.may_keep(cluster.room, alike.sample) is not None:
                    return None
                longest = max(longest, reserved.at - self.state.now)
        return longest + 1

    def _unreserved(self, cluster: ClusterState) -> bool:
        return cluster.spec.name not in self.reserved and cluster.spec.name not in self.full

    def _could(self, cluster: ClusterState, alike: Alike) -> bool:
        """Whether such a job fits in a cluster, or could by evicting others."""
        fits = self._fits_now(cluster, alike.shape, alike.sample)
        return fits or self.policy.can_evict(self.state, cluster, alike.sample)

    def _fits_now(self, cluster: ClusterState, shape: Shape, sample: Job) -> bool:
        spec = sample.spec
        if spec.gpus > cluster.room.free_gpus:
            return False
        key = cluster.spec.name, shape
        known = self._fits.get(key)
        if known is None:
            known = self._fits[key] = cluster.room.can_fit(spec.roles, spec.labels)
        return known

    def _try(self, job: Job, clusters: Iterable[ClusterState]) -> bool:
        """Start the job in the first of ``clusters`` that can take it without delaying the first."""
        for cluster in clusters:
            plan = self._plan(cluster, job)
            if plan is not None:
                apply(self.state, plan)
                self.plans.append(plan)
                self._fits.clear()
                self.policy.planned()
                return True
        return False

    def _plan(self, cluster: ClusterState, job: Job) -> Start | Claim | None:
        state, reserved = self.state, self.reserved.get(cluster.spec.name)
        if reserved is None:
            return moves.start_in(state, cluster, job) or self.policy.evict(state, cluster, job)
        end = state.now + self.policy.length(job)
        if end <= reserved.at:
            plan = moves.start_in(state, cluster, job) or self.policy.evict(state, cluster, job)
            if plan is not None:
                reserved.forget()
                reserved.first_end = min(reserved.first_end, end)
            return plan
        slots = reserved.may_keep(cluster.room, job)
        claim = self.policy.evict(state, cluster, job) if slots is None else None
        if claim is not None and reserved.fits_beside(claim.slots):
            slots = claim.slots
        if slots is None:
            return None
        if not self.policy.would_yield(state, reserved.job, job):
            reserved.room.take(slots)
        reserved.forget()
        return claim or moves.start(state, cluster, job, slots)

    def _reserve(self, job: Job, alike: Alike) -> None:
        """Keep room for the job where it can be expected first, of the clusters that keep none for another.

        Where nobody fits anyway, nothing has to be kept in this pass.
        """
        clusters = [cluster for cluster in alike.clusters if self._unreserved(cluster)]
        if not any(self._anyone_fits(cluster) for cluster in clusters):
            self.full.update(cluster.spec.name for cluster in clusters)
            return
        best: Reservation | None = None
        for cluster in clusters:
            if (cluster.spec.name, alike.shape) in self._hopeless:
                continue
            found = self._shadow(cluster, job)
            if found is None:
                self._hopeless.add((cluster.spec.name, alike.shape))
            elif best is None or found.at < best.at:
                best, where = found, cluster.spec.name
        if best is not None:
            self.reserved[where] = best

    def _anyone_fits(self, cluster: ClusterState) -> bool:
        return any(
            cluster in alike.clusters and self._could(cluster, alike) and self.line.after(alike, FIRST) is not None
            for _, alike in self.alikes
        )

    def _shadow(self, cluster: ClusterState, job: Job) -> Reservation | None:
        """When the job fits as attempts come to their expected ends, one after the other; None: not even then."""
        state, spec, room = self.state, job.spec, cluster.room.fork()
        ends = []
        for attempt in state.attempts.values():
            if attempt.cluster == cluster.spec.name:
                if self.policy.yields(state, job, attempt):
                    room.give(attempt.slots)
                else:
                    ends.append((self.policy.end(state, attempt), attempt.id))
        ends.sort()
        for n, (end, attempt_id) in enumerate(ends):
            room.give(state.attempts[attempt_id].slots)
            if n + 1 < len(ends) and ends[n + 1][0] == end:
                continue
            if room.can_fit(spec.roles, spec.labels):
                return Reservation(job, end, room, ends[0][0])
        return None
