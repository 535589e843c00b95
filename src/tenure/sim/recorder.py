"""Turns what happens and what is decided into the tables of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenure.core.decisions import (
    AttemptEnded,
    Claim,
    ClaimOpened,
    Evict,
    Headroom,
    JobEnded,
    Outcome,
    Plan,
    Requeued,
    ReservationLost,
    Reserve,
    Start,
    Stop,
    Stopping,
    Unreserve,
)
from tenure.core.events import ConfigApplied, Event, Submitted
from tenure.core.model import GPU
from tenure.core.outcomes import EVICTED
from tenure.core.scheduler import Result
from tenure.core.state import Attempt, ClusterState, Job, State
from tenure.policies.base import Policy
from tenure.policies.budgets import Budgets
from tenure.reports.records import AttemptRow, EvictionRow, JobRow, Run
from tenure.sim.meter import SAMPLE, ClusterMeter, next_hour
from tenure.sim.work import Work


@dataclass(slots=True)
class _Known:
    """A live job: its row, its leaf, what it wants or is charged, and where that counts ('' while it does not)."""

    row: JobRow
    leaf: str
    amount: int
    wanted_on: str = ""
    after_others: bool = False
    """It waits for the ends of others, or for a place in its array; its own wait begins after that."""


@dataclass(slots=True)
class _Runnable:
    """What of a cluster decides whether a waiting job could run there at all."""

    changes: int
    """Of the ledger's entitlements, when this was looked up."""
    healthy: int
    without_share: frozenset[str]
    """Leaves."""

    @classmethod
    def of(cls, cluster: ClusterState, leaves: Sequence[str]) -> _Runnable:
        ledger = cluster.ledger
        return cls(
            ledger.entitlements,
            ledger.healthy_gpus,
            frozenset(leaf for leaf in leaves if not ledger.account(leaf).allocation),
        )


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
        self._runnable: dict[str, _Runnable] = {}
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
            self.close(state, self._next_hour)
        if at >= self._next_sample and self.meters:
            self._next_sample = at + SAMPLE
            self._sample_withheld(state, at)

    def _sample_withheld(self, state: State, at: int) -> None:
        withheld = self.policy.withheld(state) * GPU
        free = {name: state.clusters[name].room.free_gpus for name in self.meters}
        total = sum(free.values())
        for name, meter in self.meters.items():
            meter.withheld.set(at, withheld * free[name] // total if total else 0)

    def close(self, state: State, at: int) -> None:
        """Close the hour, or the part of one, that ends at ``at``: before a new configuration, too."""
        for name, meter in self.meters.items():
            if meter.hour < at:
                row, budgets = meter.close(state, state.clusters[name], at)
                self.run.hours.append(row)
                self.run.budget_hours.extend(budgets)
        self._next_hour = next_hour(self.run.start, at)

    def note(self, state: State, at: int, events: Sequence[Event], result: Result) -> None:
        """A step at ``at`` has been taken."""
        configured = any(isinstance(event, ConfigApplied) for event in events)
        if configured:
            self._configured(state, at)
        for event in events:
            if isinstance(event, Submitted):
                self._submitted(event, state, at)
        for outcome in result.outcomes:
            self._outcome(state, outcome, at)
        if result.plans:
            self.run.plans += len(result.plans)
            for plan in result.plans:
                self._plan(state, plan, at)
        self._count_demand(state, at)
        for name, cluster in state.clusters.items():
            self.meters[name].look(cluster, at)
        if configured:  # only now: what ended on a cluster that is gone has been told
            for name in [name for name in self.meters if name not in state.clusters]:
                del self.meters[name], self._runnable[name]

    def _configured(self, state: State, at: int) -> None:
        """Follow new clusters, new leaves and jobs whose budgets moved."""
        leaves = state.the_tree().leaves()
        for name, cluster in state.clusters.items():
            if name not in self.meters:
                self.meters[name] = ClusterMeter(name, at, by_ledger=self.policy.name == Budgets.name)
                self._next_hour = next_hour(self.run.start, at)
            self.meters[name].configure(cluster.spec.gpus, leaves, at)
            self._runnable[name] = _Runnable.of(cluster, leaves)
        running = {row.job_id: row for row in self.rows.values()}
        for known in self.live.values():
            job = state.jobs.get(known.row.id)
            if job is not None:
                self._move(known, job.leaf, running.get(job.id), at)
                self._place(state, known, at)  # clusters, shares and healthy GPUs may have changed

    def _move(self, known: _Known, leaf: str, running: AttemptRow | None, at: int) -> None:
        """What it wants and occupies counts in ``leaf`` from now on."""
        if leaf == known.leaf:
            return
        old, known.leaf = known.leaf, leaf
        for path, sign in ((old, -1), (leaf, 1)):
            if known.wanted_on:
                self.meters[known.wanted_on].want(path, known.row.funded, sign * known.amount, at)
            if running is not None:
                self.meters[running.cluster].occupy(path, running.funded, sign * running.amount, at)

    def _submitted(self, event: Submitted, state: State, at: int) -> None:
        """The job, or the jobs of an array; some may have ended in the same step."""
        count = 1 if event.array is None else len(event.array.indices)
        leaves = {job.id: job.leaf for job in state.ended_jobs}
        for job_id in range(event.job_id, event.job_id + count):
            job = state.jobs.get(job_id)
            self._one_submitted(event, job_id, leaves[job_id] if job is None else job.leaf, at)

    def _one_submitted(self, event: Submitted, job_id: int, leaf: str, at: int) -> None:
        work = self._works.pop(job_id, None)
        spec = event.spec
        signed = spec if work is None else work.spec
        row = JobRow(
            job_id,
            spec.user,
            signed.budget,
            spec.clusters[0],
            "" if work is None else work.kind,
            spec.gpus,
            signed.contract.min_runtime,
            signed.contract.resumable,
            signed.charged,
            spec.priority,
            spec.charged,
            0 if work is None else work.runtime,
            at,
        )
        self.run.jobs.append(row)
        self.live[row.id] = _Known(row, leaf, spec.gpus * GPU)

    # ---- demand

    def _count_demand(self, state: State, at: int) -> None:
        """Of every job that the step touched, and of those that can run again, or no longer, where they could not."""
        for job_id in state.touched_jobs:
            known = self.live.get(job_id)
            if known is not None:
                self._place(state, known, at)
        for name, cluster in state.clusters.items():
            before = self._runnable[name]
            if before.changes == cluster.ledger.entitlements:
                continue
            now = self._runnable[name] = _Runnable.of(cluster, state.the_tree().leaves())
            low, high = sorted((before.healthy, now.healthy))
            for known in self.live.values():
                if low < known.row.gpus <= high or before.without_share != now.without_share:
                    self._place(state, known, at)

    def _place(self, state: State, known: _Known, at: int) -> None:
        """Rule 14: its demand counts once, where it runs, else at the first listed cluster that could run it."""
        job = state.jobs.get(known.row.id)
        if job is not None:
            self._let_in(known, job, job.behind or job.submission in state.pending)
        if job is None:
            self._want(known, "", known.amount, at)
        elif job.attempt is not None:
            self._want(known, job.attempt.cluster, job.attempt.amount, at)
        else:
            waits = not job.held_by and job.not_before <= state.now and not known.after_others
            self._want(known, self._first(state, known, job) if waits else "", known.amount, at)

    def _let_in(self, known: _Known, job: Job, others: bool) -> None:
        """Its wait begins when it may queue, unless it has started before."""
        started = known.row.started
        if known.after_others and not others and (started is None or started >= job.queued_at):
            known.row.submitted = job.queued_at
        known.after_others = others

    def _first(self, state: State, known: _Known, job: Job) -> str:
        for name in job.spec.clusters:
            if name in state.clusters:
                there = self._runnable[name]
                if known.row.gpus <= there.healthy and not (known.row.funded and job.leaf in there.without_share):
                    return name
        return ""

    def _want(self, known: _Known, cluster: str, amount: int, at: int) -> None:
        if (known.wanted_on, known.amount) == (cluster, amount):
            return
        if known.wanted_on:
            self.meters[known.wanted_on].want(known.leaf, known.row.funded, -known.amount, at)
        known.wanted_on, known.amount = cluster, amount
        if cluster:
            self.meters[cluster].want(known.leaf, known.row.funded, amount, at)

    # ---- attempts

    def _outcome(self, state: State, outcome: Outcome, at: int) -> None:
        match outcome:
            case AttemptEnded():
                self._ended(state, outcome, at)
            case ClaimOpened():
                self._started(state.attempts[outcome.attempt_id], outcome.at, at)
            case Requeued():
                self.live[outcome.job_id].row.state = "queued"
            case JobEnded():
                known = self.live.pop(outcome.job_id)
                self._want(known, "", known.amount, at)
                if known.after_others and known.row.started is None:
                    known.row.submitted = at
                known.row.state, known.row.ended = outcome.state, outcome.at
            case Stopping():
                if outcome.victim.because.reason in EVICTED:
                    self._evicted(outcome.victim, outcome.at)
            case ReservationLost():
                if outcome.job_id in self.live:
                    self.live[outcome.job_id].row.starts_by = None
            case _:
                pass

    def _plan(self, state: State, plan: Plan, at: int) -> None:
        if isinstance(plan, Stop):
            self._evicted(plan.victim, plan.at)
            return
        if isinstance(plan, Headroom):
            return
        known = self.live[plan.job_id]
        row = known.row
        if isinstance(plan, Unreserve):
            row.starts_by = None
            return
        if isinstance(plan, Reserve):
            row.reservations += 1
            row.reserved = row.reserved or plan.at
            row.told_by = row.told_by or plan.starts_by
            row.starts_by = plan.starts_by
            return
        if row.decided is None:
            row.decided = plan.at
        row.cluster = plan.cluster
        if isinstance(plan, Start):
            self._started(state.attempts[plan.attempt_id], plan.at, at)
        elif isinstance(plan, Claim):
            for victim in plan.victims:
                self._evicted(victim, plan.at)

    def _started(self, attempt: Attempt, started: int, at: int) -> None:
        known = self.live[attempt.job_id]
        job = known.row
        if job.started is None:
            job.started = started
        job.attempts += 1
        job.state = "running"
        slots = tuple((slot.host, slot.gpus) for slot in attempt.slots)
        row = AttemptRow(
            attempt.id, job.id, job.user, job.budget, attempt.cluster, job.funded, attempt.amount, slots, started
        )
        self.rows[row.id] = row
        self.run.attempts.append(row)
        self.meters[row.cluster].occupy(known.leaf, job.funded, attempt.amount, at)

    def _evicted(self, victim: Evict, at: int) -> None:
        attempt = self.rows[victim.attempt_id]  # it may have ended in the same step
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

    def _ended(self, state: State, outcome: AttemptEnded, at: int) -> None:
        row = self.rows.pop(outcome.attempt_id)
        known = self.live[row.job_id]
        row.ended, row.because = outcome.at, outcome.because.reason.value
        work, overhead = self._lost.pop(row.id, (0, 0))
        row.lost = (work + overhead) * row.amount
        known.row.lost += row.lost
        known.row.occupied += row.amount * (outcome.at - row.started)
        meter = self.meters[row.cluster]
        meter.occupy(known.leaf, row.funded, -row.amount, at)
        if row.funded:
            meter.leaf(known.leaf, at).lost += row.lost
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

    def finish(self, state: State, at: int) -> None:
        """The run is over, or broken off, at ``at``: close what is open."""
        self.until(state, at)
        if self.meters:
            self.close(state, at)
        for row in self.rows.values():
            job = self.live[row.job_id].row
            job.occupied += row.amount * (at - row.started)
            self._complete(row, state.attempts[row.id])
        self.run.until = at
