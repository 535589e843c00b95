"""The simulation: from event to event, over the same core as the live engine.

Everything that will happen is in one heap, ordered by time and then by when it was put there; the core has its own
due times. The next moment is the earlier of both. What people do, what machines do and what the scheduler decides all
happen there, and each may put more into the heap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from tenure.core.admission import check_job
from tenure.core.decisions import Claim, ClaimOpened, Evict, JobEnded, Requeued, Start, Stop, Stopping
from tenure.core.events import (
    CancelRequested,
    CheckpointReported,
    ConfigApplied,
    Event,
    HostStateChanged,
    ReplicasUp,
    Submitted,
)
from tenure.core.model import MINUTE, Cluster, HostState, JobSpec
from tenure.core.outcomes import EVICTED
from tenure.core.queue import shape_of
from tenure.core.reasons import Reason, Refusal
from tenure.core.scheduler import Result
from tenure.core.state import State
from tenure.policies import by_name
from tenure.policies.base import Policy
from tenure.reports.records import Run
from tenure.sim.driver import Driver, Observer
from tenure.sim.hosts import Fault, faults
from tenure.sim.recorder import Recorder
from tenure.sim.setup import Setup
from tenure.sim.site import Running, Site
from tenure.sim.work import Action, Cancel, HostBecomes, Submit, Wake, Work
from tenure.units import counted

Progress = Callable[[int, int], bool]
"""Called now and then with the simulated time and the jobs so far; False breaks the run off."""

QUIET = 5 * MINUTE
"""The longest time between two passes, ms. The live engine looks again every few seconds."""
_FOR_OTHERS = EVICTED - {Reason.EVICTED_DRAIN, Reason.EVICTED_BY_PERSON}
"""Evictions that made room for somebody else's job: what people take to heart."""
_BETWEEN_PROGRESS = 200
"""Steps between two calls of it."""
_BY = "simulation"


class Simulation:
    """One run of a setup.

    ``policy``: in place of the one that the setup names. ``admit_from``: jobs that are submitted before have been
    accepted already, ms UTC.
    """

    def __init__(
        self, setup: Setup, observe: Observer | None = None, policy: Policy | None = None, admit_from: int = 0
    ) -> None:
        self.setup = setup
        self.workload = setup.workload(setup.seed)
        self.claims = setup.claims(setup.policy, setup.seed)
        policy = by_name(setup.policy, **setup.options) if policy is None else policy
        hosts = {c.name: tuple((h.name, h.gpus) for h in c.hosts) for c in setup.clusters}
        end = setup.start + setup.duration
        self.run_record = Run(
            setup.policy,
            setup.seed,
            setup.title,
            dict(setup.settings),
            setup.budgets,
            hosts,
            setup.start,
            setup.start,
            end,
            min(setup.warmup, setup.duration),
            notes=list(setup.notes),
        )
        self.recorder = Recorder(self.run_record, policy)
        self.driver = Driver(policy, self.recorder, observe)
        self.state = self.driver.state
        self.site = Site()
        self.quiet = QUIET
        self.works: dict[int, Work] = {}
        """Live jobs."""
        self.waiting_since: dict[int, int] = {}
        self._heap: list[tuple[int, int, Action | Fault | _Todo]] = []
        self._checkpoints: list[tuple[int, int, Running]] = []
        self._count = 0
        self._next_job = 1
        self._repairs: dict[tuple[str, str], int] = {}
        """Hosts to be repaired when they are empty -> how long that takes."""
        self._events: list[Event] = []
        self._refused: dict[str, int] = {}
        self._admit_from = admit_from
        self._members_only = any(budget.members for budget in setup.budgets)
        self._admitted: set[object] = set()
        """What submissions that were found possible had in common."""

    def run(self, progress: Progress | None = None) -> Run:
        """Simulate to the end, or until ``progress`` says no; what was done until then is a valid run."""
        self._begin()
        end = self.run_record.planned_until
        at, steps = self.setup.start, 0
        while True:
            upcoming = self._next()
            if upcoming is None or upcoming > end:
                at = end
                break
            at = upcoming
            self._moment(at)
            steps += 1
            if progress is not None and steps % _BETWEEN_PROGRESS == 0 and not progress(at, len(self.run_record.jobs)):
                self.run_record.notes.append("broken off before its end")
                break
        return self._finish(at)

    def _begin(self) -> None:
        setup, start = self.setup, self.setup.start
        config = ConfigApplied(start, setup.clusters, setup.scheduling, setup.budgets, (), _BY)
        self.driver.step(start, [config])
        for fault in faults(setup.clusters, setup.faults, setup.seed, start, start + setup.duration):
            self._push(fault.at, fault)
        self._act(self.workload.begin(start), start)

    def _next(self) -> int | None:
        due = self.state.next_due(signals=False)
        first = self._heap[0][0] if self._heap else due
        if first is None or (due is not None and due < first):
            first = due
        if first is not None and first > self.state.now + self.quiet:
            return self.state.now + self.quiet  # ratios drift with time alone, and may come to allow an eviction
        return first

    def _moment(self, at: int) -> None:
        """Everything that happens at ``at``, as one step of the core, and what follows from it."""
        heap, events = self._heap, self._events
        while heap and heap[0][0] <= at:
            self._happen(heappop(heap)[2], at)
        before = self._checkpoints_until(at)
        result = self.driver.step(at, before + events if before else events)
        self._events = []
        self._react(result, at)
        if self._repairs:
            self._begin_repairs(at)

    def _finish(self, at: int) -> Run:
        run = self.run_record
        self.recorder.finish(self.state, at)
        run.events, run.steps = self.driver.events, self.driver.steps
        run.notes += [
            f"{counted(count, 'job')} {'was' if count == 1 else 'were'} refused: {why}"
            for why, count in sorted(self._refused.items())
        ]
        return run

    # ---- what happens

    def _push(self, at: int, what: Action | Fault | _Todo) -> None:
        self._count += 1
        heappush(self._heap, (at, self._count, what))

    def _act(self, actions: Iterable[Action], at: int) -> None:
        for action in actions:
            self._push(max(at, action.at), action)

    def _happen(self, what: Action | Fault | _Todo, at: int) -> None:
        match what:
            case _Todo():
                what.do(at)
            case Submit():
                self._submit(what, at)
            case Wake():
                self._act(self.workload.wake(at, what.token), at)
            case Cancel():
                if what.job_id in self.works:
                    self._events.append(CancelRequested(at, what.job_id, self.works[what.job_id].spec.user))
            case HostBecomes():
                self._events.append(HostStateChanged(at, what.cluster, what.host, what.state, _BY, what.why))
            case Fault():
                self._break(what, at)

    def _submit(self, submit: Submit, at: int) -> None:
        work = self.claims.signed(submit.work)
        spec = within_limits(self.state, self.claims.spec(at, work))
        try:
            if at >= self._admit_from:
                self._admit(spec)
        except Refusal as refusal:
            why = refusal.reason.value
            self._refused[why] = self._refused.get(why, 0) + 1
            self.claims.gone(at, work)
            self._act(self.workload.refused(at, submit.token, work, str(refusal)), at)
            return
        job_id, self._next_job = self._next_job, self._next_job + 1
        self.works[job_id] = work
        self.waiting_since[job_id] = at
        self.recorder.expect(job_id, work)
        self._events.append(Submitted(at, job_id, spec))
        self._act(self.workload.accepted(at, submit.token, job_id, work), at)

    def _admit(self, spec: JobSpec) -> None:
        """Raises Refusal as the server would. What it depends on does not change during a run, so it is remembered."""
        user = spec.user if self._members_only else ""
        key = (user, spec.budget, spec.contract, spec.timeout, spec.grace, shape_of(spec))
        if key not in self._admitted:
            check_job(self.state, spec)
            self._admitted.add(key)

    def _break(self, fault: Fault, at: int) -> None:
        record = self.state.clusters[fault.cluster].hosts[fault.host]
        if record.state is not HostState.HEALTHY:
            return  # it is broken already
        why = "GPU lost" if fault.severe else "GPU errors"
        self._events.append(HostStateChanged(at, fault.cluster, fault.host, fault.state, _BY, why))
        self._repairs[fault.cluster, fault.host] = fault.repair

    def _begin_repairs(self, at: int) -> None:
        for (cluster, host), repair in list(self._repairs.items()):
            if not self.state.clusters[cluster].on_host[host]:
                del self._repairs[cluster, host]
                self._push(at, _Todo(self._host_event(cluster, host, HostState.REPAIRING)))
                self._push(at + repair, _Todo(self._host_event(cluster, host, HostState.HEALTHY)))

    def _host_event(self, cluster: str, host: str, to: HostState) -> Callable[[int], None]:
        return lambda at: self._events.append(HostStateChanged(at, cluster, host, to, _BY, "repair"))

    # ---- attempts

    def _react(self, result: Result, at: int) -> None:
        for outcome in result.outcomes:
            match outcome:
                case ClaimOpened():
                    self._start(outcome.attempt_id, at)
                case Stopping():
                    self._stop(outcome.victim, at)
                case Requeued():
                    self.waiting_since[outcome.job_id] = at
                    self._act(self.workload.requeued(at, outcome.job_id, self.works[outcome.job_id]), at)
                case JobEnded():
                    self._job_ended(outcome, at)
                case _:
                    pass
        for plan in result.plans:
            match plan:
                case Start():
                    self._start(plan.attempt_id, at)
                case Claim():
                    for victim in plan.victims:
                        self._stop(victim, at)
                case Stop():
                    self._stop(plan.victim, at)

    def _start(self, attempt_id: str, at: int) -> None:
        job_id = self.state.attempts[attempt_id].job_id
        work, waited = self.works[job_id], at - self.waiting_since[job_id]
        up_at = self.site.start(attempt_id, job_id, work, at, again=self.state.jobs[job_id].starts > 1)
        self._push(up_at, _Todo(lambda then: self._up(attempt_id, then)))
        self.claims.started(at, work, waited)
        self._act(self.workload.started(at, job_id, work, waited), at)

    def _up(self, attempt_id: str, at: int) -> None:
        running = self.site.up(attempt_id, at)
        if running is None:
            return
        self._events.append(ReplicasUp(at, attempt_id))
        self._push_exit(running)
        if running.work.checkpoint_every and running.work.spec.contract.resumable and running.base is not None:
            self._push_checkpoint(running, running.base)

    def _push_exit(self, running: Running) -> None:
        generation, exit_at = running.generation, running.exit_at
        assert exit_at is not None

        def leave(at: int) -> None:
            if running.generation == generation and running.attempt_id in self.site.running:
                job_id = self.state.attempts[running.attempt_id].job_id
                event, work, overhead = self.site.exit(job_id, running, at)
                self.recorder.lose(running.attempt_id, work, overhead)
                self._events.append(event)

        self._push(exit_at, _Todo(leave))

    def _push_checkpoint(self, running: Running, last: int) -> None:
        due = last + running.work.checkpoint_every
        if running.exit_at is not None and due < running.exit_at:
            self._count += 1
            heappush(self._checkpoints, (due, self._count, running))

    def _checkpoints_until(self, at: int) -> list[Event]:
        """Checkpoints reported since the last step. They wake nobody, so they need no step of their own."""
        reported: list[Event] = []
        while self._checkpoints and self._checkpoints[0][0] <= at:
            due, _, running = heappop(self._checkpoints)
            if running.attempt_id in self.site.running and not running.stopped:
                reported.append(CheckpointReported(due, running.attempt_id))
                self._push_checkpoint(running, due)
        return reported

    def _stop(self, victim: Evict, at: int) -> None:
        running = self.site.stop(victim)
        if running is None:
            return
        if victim.because.reason in _FOR_OTHERS:
            self.claims.evicted(at, running.work)
        self._push_exit(running)

    def _job_ended(self, outcome: JobEnded, at: int) -> None:
        work = self.works.pop(outcome.job_id)
        del self.waiting_since[outcome.job_id]
        self.site.forget(outcome.job_id)
        self.claims.gone(at, work)
        self._act(self.workload.ended(at, outcome.job_id, work, outcome.state), at)


def within_limits(state: State, spec: JobSpec) -> JobSpec:
    """What people sign where the longest contract or grace is shorter than they would like."""
    return within([state.clusters[name].spec for name in spec.clusters if name in state.clusters], spec)


def within(specs: Sequence[Cluster], spec: JobSpec) -> JobSpec:
    """The same, of these clusters."""
    longest = min((cluster.min_runtime_max for cluster in specs), default=spec.contract.min_runtime)
    grace = min((cluster.max_grace for cluster in specs), default=spec.grace)
    if spec.contract.min_runtime > longest:
        spec = replace(spec, contract=replace(spec.contract, min_runtime=longest))
    return replace(spec, grace=grace) if spec.grace > grace else spec


class _Todo:
    """Something of the simulation's own that happens at its time."""

    __slots__ = ("do",)

    def __init__(self, do: Callable[[int], None]) -> None:
        self.do = do
