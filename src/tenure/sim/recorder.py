"""Turns what happens and what is decided into the tables of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenure.core.decisions import (
    AttemptEnded,
    Claim,
    ClaimOpened,
    Evict,
    JobEnded,
    Outcome,
    Plan,
    Requeued,
    Start,
    Stop,
    Stopping,
)
from tenure.core.events import Event, Submitted
from tenure.core.model import GPU
from tenure.core.outcomes import EVICTED
from tenure.core.scheduler import Result
from tenure.core.state import Attempt, State
from tenure.policies.base import Policy
from tenure.reports.records import AttemptRow, EvictionRow, JobRow, Run
from tenure.sim.meter import SAMPLE, ClusterMeter, next_hour
from tenure.sim.work import Work


@dataclass(slots=True)
class _Known:
    """A live job: its row, its leaf, and where its demand counts ('' while it does not)."""

    row: JobRow
    leaf: str
    wanted_on: str = ""


class Recorder:
    """Keeps a ``Run`` up to date. ``expect`` and ``lose`` tell it what the core does not know."""

    def __init__(self, run: Run, policy: Policy) -> None:
        self.run = run
        self.policy = policy
        self.meters: dict[str, ClusterMeter] = {}
        self.live: dict[int, _Known] = {}
        self.rows: dict[str, AttemptRow] = {}
        """Attempts that hold GPUs."""
        self._works: dict[int, Work] = {}
        self._lost: dict[str, tuple[int, int]] = {}
        self._evictions: dict[str, EvictionRow] = {}
        self._backing_off: list[int] = []
        self._next_hour = 0
        self._next_sample = 0
        self.begin_at(run.start)

    def begin_at(self, at: int) -> None:
        """Hours are counted from here."""
        self._next_hour = self._next_sample = at

    def expect(self, job_id: int, work: Work) -> None:
        """The work behind the ``Submitted`` of ``job_id`` that is about to happen."""
        self._works[job_id] = work

    def lose(self, attempt_id: str, work: int, overhead: int) -> None:
        """The attempt is about to end with so much work lost and so much spent on its restart, in ms."""
        self._lost[attempt_id] = (work, overhead)

    def until(self, state: State, at: int) -> None:
        """Close the hours that end up to ``at``: nothing changes before it."""
        while self.meters and self._next_hour <= at:
            self._close(state, self._next_hour)
        if at >= self._next_sample and self.meters:
            self._next_sample = at + SAMPLE
            self._sample_withheld(state, at)

    def _sample_withheld(self, state: State, at: int) -> None:
        withheld = self.policy.withheld(state) * GPU
        free = {name: state.clusters[name].room.free_gpus for name in self.meters}
        total = sum(free.values())
        for name, meter in self.meters.items():
            meter.withheld.set(at, withheld * free[name] // total if total else 0)

    def _close(self, state: State, at: int) -> None:
        for name, meter in self.meters.items():
            if meter.hour < at:
                row, budgets = meter.close(state, state.clusters[name], at)
                self.run.hours.append(row)
                self.run.budget_hours.extend(budgets)
        self._next_hour = next_hour(self.run.start, at)

    def note(self, state: State, at: int, events: Sequence[Event], result: Result) -> None:
        """A step at ``at`` has been taken."""
        for event in events:
            if isinstance(event, Submitted):
                self._submitted(event, state, at)
        for outcome in result.outcomes:
            self._outcome(state, outcome)
        if result.plans:
            self.run.plans += len(result.plans)
            for plan in result.plans:
                self._plan(state, plan)
        if self._backing_off:
            self._count_again(state, at)
        for name, cluster in state.clusters.items():
            meter = self.meters.get(name)
            if meter is None:
                meter = self.meters[name] = ClusterMeter(name, state.the_tree().leaves(), at)
                self._next_hour = next_hour(self.run.start, at)
            meter.look(cluster, at)

    def _submitted(self, event: Submitted, state: State, at: int) -> None:
        work = self._works.pop(event.job_id, None)
        spec = event.spec
        signed = spec if work is None else work.spec
        row = JobRow(
            event.job_id,
            spec.user,
            signed.budget,
            spec.clusters[0],
            "" if work is None else work.kind,
            spec.gpus,
            signed.contract.min_runtime,
            signed.contract.resumable,
            signed.charged,
            spec.priority,
            0 if work is None else work.runtime,
            at,
        )
        self.run.jobs.append(row)
        self.live[row.id] = known = _Known(row, state.the_tree().leaf_of(spec.budget))
        self._want(known, spec.clusters[0], at)

    def _want(self, known: _Known, cluster: str, at: int) -> None:
        """Its demand counts once: on ``cluster``, or nowhere ('')."""
        if known.wanted_on == cluster:
            return
        for name, sign in ((known.wanted_on, -1), (cluster, 1)):
            meter = self.meters.get(name)
            if meter is not None:
                meter.want(known.leaf, known.row.funded, sign * known.row.gpus * GPU, at)
        known.wanted_on = cluster

    def _outcome(self, state: State, outcome: Outcome) -> None:
        match outcome:
            case AttemptEnded():
                self._ended(state, outcome)
            case ClaimOpened():
                self._started(state.attempts[outcome.attempt_id], outcome.at)
            case Requeued():
                known = self.live[outcome.job_id]
                known.row.state = "queued"
                if outcome.not_before > outcome.at:
                    self._want(known, "", outcome.at)
                    self._backing_off.append(outcome.job_id)
            case JobEnded():
                known = self.live.pop(outcome.job_id)
                self._want(known, "", outcome.at)
                known.row.state, known.row.ended = outcome.state, outcome.at
            case Stopping():
                if outcome.victim.because.reason in EVICTED:
                    self._evicted(state, outcome.victim, outcome.at)
            case _:
                pass

    def _plan(self, state: State, plan: Plan) -> None:
        if isinstance(plan, Stop):
            self._evicted(state, plan.victim, plan.at)
            return
        known = self.live[plan.job_id]
        row = known.row
        if row.decided is None:
            row.decided = plan.at
        row.cluster = plan.cluster
        self._want(known, plan.cluster, plan.at)
        if isinstance(plan, Start):
            self._started(state.attempts[plan.attempt_id], plan.at)
        elif isinstance(plan, Claim):
            for victim in plan.victims:
                self._evicted(state, victim, plan.at)

    def _started(self, attempt: Attempt, at: int) -> None:
        known = self.live[attempt.job_id]
        job = known.row
        if job.started is None:
            job.started = at
        job.attempts += 1
        job.state = "running"
        slots = tuple((slot.host, slot.gpus) for slot in attempt.slots)
        row = AttemptRow(
            attempt.id, job.id, job.user, job.budget, attempt.cluster, job.funded, attempt.amount, slots, at
        )
        self.rows[row.id] = row
        self.run.attempts.append(row)
        self.meters[row.cluster].occupy(known.leaf, job.funded, attempt.amount, at)

    def _evicted(self, state: State, victim: Evict, at: int) -> None:
        attempt = state.attempts[victim.attempt_id]
        job, gainer = self.live[attempt.job_id].row, self.live.get(victim.gainer)
        job.evictions += 1
        row = EvictionRow(
            at,
            attempt.id,
            job.id,
            job.budget,
            attempt.cluster,
            job.funded,
            job.gpus,
            victim.because.reason.value,
            victim.gainer,
            "" if gainer is None else gainer.row.budget,
            victim.gained,
            victim.at_risk,
        )
        self._evictions[attempt.id] = row
        self.run.evictions.append(row)

    def _ended(self, state: State, outcome: AttemptEnded) -> None:
        row = self.rows.pop(outcome.attempt_id)
        known = self.live[row.job_id]
        row.ended, row.because = outcome.at, outcome.because.reason.value
        work, overhead = self._lost.pop(row.id, (0, 0))
        row.lost = (work + overhead) * row.amount
        known.row.lost += row.lost
        known.row.occupied += row.amount * (outcome.at - row.started)
        meter = self.meters[row.cluster]
        meter.occupy(known.leaf, row.funded, -row.amount, outcome.at)
        if row.funded:
            meter.leaf(known.leaf, outcome.at).lost += row.lost
        eviction = self._evictions.pop(row.id, None)
        if eviction is not None:
            eviction.lost = work * row.amount
        attempt = next(attempt for attempt, _ in reversed(state.ended_attempts) if attempt.id == row.id)
        self._complete(row, attempt)

    def _complete(self, row: AttemptRow, attempt: Attempt) -> None:
        row.running = attempt.running_since
        if not self.policy.protected(attempt, row.started):
            row.protected_until = row.started
        elif (until := attempt.protected_until) is not None and not self.policy.protected(attempt, until):
            row.protected_until = until

    def _count_again(self, state: State, at: int) -> None:
        """Jobs whose back-off is over are demand again."""
        waiting = []
        for job_id in self._backing_off:
            job, known = state.jobs.get(job_id), self.live.get(job_id)
            if job is None or known is None:
                continue
            if job.not_before > at:
                waiting.append(job_id)
            else:
                self._want(known, known.row.cluster, at)
        self._backing_off = waiting

    def finish(self, state: State, at: int) -> None:
        """The run is over, or broken off, at ``at``: close what is open."""
        self.until(state, at)
        if self.meters:
            self._close(state, at)
        for row in self.rows.values():
            job = self.live[row.job_id].row
            job.occupied += row.amount * (at - row.started)
            self._complete(row, state.attempts[row.id])
        self.run.until = at
