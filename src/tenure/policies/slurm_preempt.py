"""Slurm as in ``slurm``, with preemption by QOS: jobs of the QOS ``normal`` requeue those of a scavenger QOS."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenure.core.decisions import Claim, Plan
from tenure.core.model import DAY, HOUR, MINUTE
from tenure.core.placement import Room
from tenure.core.queue import Shape, shape_of
from tenure.core.reasons import Because, Reason
from tenure.core.state import Attempt, ClusterState, Job, State
from tenure.policies import moves
from tenure.policies.line import Age, Turn
from tenure.policies.slurm import Slurm
from tenure.policies.slurm_victims import choose


class SlurmPreempt(Slurm):
    """``slurm`` with PreemptType=preempt/qos and PreemptMode=REQUEUE.

    Charged jobs are of the QOS ``normal``, unallocated ones of a scavenger QOS that it may preempt; whoever may preempt
    comes before whom it may preempt in the queue, whatever their priorities. A scavenger that has run for less than
    ``exempt`` (PreemptExemptTime, ms) is left alone. Those on the fewest hosts go first, of these the oldest job; with
    ``youngest_first`` (preempt_youngest_first) whoever started last. The other settings are those of ``slurm``. Raises
    ValueError for settings that are not possible.
    """

    name = "slurm-preempt"

    def __init__(
        self,
        half_life: int = 7 * DAY,
        calc_period: int = 5 * MINUTE,
        max_age: int = 7 * DAY,
        weight_age: int = 1_000,
        weight_fairshare: int = 10_000,
        weight_job_size: int = 1_000,
        weight_qos: int = 20_000,
        default_limit: int = 24 * HOUR,
        allowance: int = 5 * MINUTE,
        exempt: int = 0,
        youngest_first: int = 0,
    ) -> None:
        if exempt < 0:
            raise ValueError(f"exempt = {exempt}: must be 0 or more")
        if youngest_first not in (0, 1):
            raise ValueError(f"youngest_first = {youngest_first}: must be on or off")
        super().__init__(
            half_life,
            calc_period,
            max_age,
            weight_age,
            weight_fairshare,
            weight_job_size,
            weight_qos,
            default_limit,
            allowance,
        )
        self.exempt = exempt
        self.youngest_first = bool(youngest_first)
        self._views: dict[str, _View] = {}
        self._allowed = True
        """Whether evictions were allowed when the last pass was made."""

    def run(self, state: State) -> list[Plan]:
        self._views = {}
        plans = super().run(state)
        self._allowed = state.evictions_allowed()
        return plans

    def protected(self, attempt: Attempt, now: int) -> bool:
        return attempt.charged or attempt.started_at is None or now < attempt.started_at + self.exempt

    def turns(self, job: Job, ages: Sequence[Age]) -> Sequence[Turn]:
        last = 0 if job.spec.charged else 1
        return [(last, *turn) for turn in super().turns(job, ages)]

    def yields(self, state: State, job: Job, attempt: Attempt) -> bool:
        view = self._view(state, state.clusters[attempt.cluster])
        return job.spec.charged and attempt.id in view.going

    def would_yield(self, state: State, job: Job, other: Job) -> bool:
        return job.spec.charged and not other.spec.charged and not self.exempt and state.evictions_allowed()

    def can_evict(self, state: State, cluster: ClusterState, job: Job) -> bool:
        return job.spec.charged and self._view(state, cluster).could_fit(job)

    def evict(self, state: State, cluster: ClusterState, job: Job) -> Claim | None:
        """What is leaving for others and is more than they need is counted in first."""
        if not self.can_evict(state, cluster, job):
            return None
        view, chosen = self._view(state, cluster), list[Attempt]()
        slots = moves.find(view.later, job)
        if slots is None:
            found = choose(view.later, job.spec, view.candidates)
            if found is None:
                return None
            chosen, slots = found
        hosts = {slot.host for slot in slots}
        because = Because(Reason.EVICTED_UNALLOCATED, {"gainer": job.id, "gainer_gpus": job.spec.gpus})
        waited_for = [attempt for attempt in view.leaving if hosts.intersection(attempt.hosts())]
        return moves.claim(state, cluster, job, slots, [(victim, because) for victim in chosen], waited_for)

    def planned(self) -> None:
        self._views = {}

    def changes(self, state: State) -> Iterable[int]:
        for attempt in state.attempts.values():
            if not attempt.charged and attempt.started_at is not None:
                over = attempt.started_at + self.exempt
                if over > state.now:
                    yield over

    def _lasts(self, state: State) -> bool:
        return super()._lasts(state) and state.evictions_allowed() == self._allowed

    def _view(self, state: State, cluster: ClusterState) -> _View:
        view = self._views.get(cluster.spec.name)
        if view is None:
            view = self._views[cluster.spec.name] = _View(self, state, cluster)
        return view


class _View:
    """Who could be preempted in a cluster, until the next plan: nobody while evictions are paused."""

    def __init__(self, policy: SlurmPreempt, state: State, cluster: ClusterState) -> None:
        self._cluster = cluster
        self.leaving: list[Attempt] = []
        self.candidates: list[Attempt] = []
        if state.evictions_allowed():
            here = [a for a in state.attempts.values() if a.cluster == cluster.spec.name and not a.charged]
            self.leaving = [a for a in here if a.id in cluster.leaving]
            self.candidates = [
                a
                for a in here
                if a.stop is None
                and not policy.protected(a, state.now)
                and any(cluster.room.is_open(slot.host) for slot in a.slots)
            ]
        if policy.youngest_first:
            self.candidates.sort(key=lambda a: (-(a.started_at or 0), a.job_id))
        else:
            self.candidates.sort(key=lambda a: (len(a.hosts()), a.job_id))
        self.going = {a.id for a in (*self.leaving, *self.candidates)}
        self.later = moves.room_later(cluster, self.leaving)
        self._without: Room | None = None
        self._fits: dict[Shape, bool] = {}

    def could_fit(self, job: Job) -> bool:
        """Whether a job fits without everybody who is leaving or could be preempted."""
        if not self.going:
            return False
        shape = shape_of(job.spec)
        known = self._fits.get(shape)
        if known is None:
            known = self._fits[shape] = self._room().can_fit(job.spec.roles, job.spec.labels)
        return known

    def _room(self) -> Room:
        if self._without is None:
            self._without = moves.room_later(self._cluster, (*self.leaving, *self.candidates))
        return self._without
