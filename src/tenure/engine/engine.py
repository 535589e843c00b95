"""The live loop: one thread owns the state; requests and reports wake it; every step is committed before it acts."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from tenure import faults
from tenure.config import Config, diff
from tenure.core import codec, scheduler
from tenure.core.decisions import Claim, Evict, Start, Stop
from tenure.core.events import AttemptExited, ClockAlarm, ConfigApplied, Event, PauseScope
from tenure.core.model import Budget, Cluster, Grant, HostState, JobSpec, Policy
from tenure.core.scheduler import Result
from tenure.core.state import State
from tenure.engine import execution, recovery, requests
from tenure.engine.clock import Clock
from tenure.engine.errors import EngineStopped
from tenure.engine.requests import Asked, Request
from tenure.engine.writer import Writer
from tenure.executors.base import Executor, Report
from tenure.store.rows import AuditRow
from tenure.store.store import Store

log = structlog.get_logger()

REQUEST_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class StepReport:
    """What observers are told after each commit. Times in ms, durations in seconds."""

    seq: int
    at: int
    events: Sequence[Event]
    result: Result
    pass_seconds: float
    commit_seconds: float


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """What a configuration changes, and what the next pass would do, or did, because of it."""

    changes: list[str]
    evictions: list[Evict]
    starts: list[Start | Claim]
    applied: bool


@dataclass(slots=True)
class _Pending:
    request: Request
    by: str
    done: Future[None]


class Engine:
    """See the module. Requests may come from any thread; they return when their effect is committed."""

    def __init__(self, config: Config, store: Store, executor: Executor, clock: Callable[..., Clock] = Clock) -> None:
        self.config, self.store, self.executor = config, store, executor
        restored = recovery.restore(store)
        self.clock = clock(restored.anchor)
        self._state = restored.state
        self._now = max(self.clock.now(), self._state.now)
        self.epoch = 0
        self.started_at = self._now
        self.failure: BaseException | None = None
        self.observers: list[Callable[[StepReport], None]] = []
        self._seq = restored.seq
        self._lock = threading.RLock()
        self._wake = threading.Condition()
        self._changed = threading.Condition()
        self._pending: list[_Pending] = []
        self._poked = True
        self._stopping = False
        self._next_job = max([store.max_job_id(), *self._state.jobs]) + 1
        self._submitting = threading.Lock()
        self._polled_at = 0
        self._ended: list[str] = []
        """Attempts whose end is committed and which the executor may forget."""
        self._unstarted: list[Event] = []
        self.on_failure: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    # ---- life

    def start(self) -> None:
        """Take the lead, adopt what runs, and begin to schedule."""
        self.epoch = self.store.take_leadership()
        self._writer = Writer(self.store, self.epoch, self._seq)
        self._conductor = execution.Conductor(self.executor)
        self.executor.open(self.epoch, self.poke)
        log.info("engine_started", epoch=self.epoch, seq=self._seq, jobs=len(self._state.jobs))
        self._thread.start()

    def stop(self) -> None:
        """Finish the step under way, save a snapshot, and leave attempts running."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()
        self.executor.close()

    def poke(self) -> None:
        """The executor has news. Any thread may call this."""
        with self._wake:
            self._poked = True
            self._wake.notify()

    # ---- reading

    @contextmanager
    def view(self) -> Iterator[State]:
        """The live state, still while you hold it: read quickly, keep and change nothing."""
        with self._lock:
            yield self._state

    def now(self) -> int:
        """Engine time in ms, not older than the last step."""
        return self._now

    @property
    def last_seq(self) -> int:
        return self._seq

    @property
    def clock_alarm(self) -> bool:
        return self.clock.alarm

    def wait_change(self, after: int, timeout_s: float) -> int:
        """Block until a batch later than ``after`` is committed, at most ``timeout_s``; the newest number."""
        with self._changed:
            self._changed.wait_for(lambda: self._seq > after or self._stopping, timeout_s)
            return self._seq

    # ---- requests

    def submit(self, spec: JobSpec, *, by: str, client_key: str | None = None, hold: bool = False) -> tuple[int, bool]:
        """The job's id, and whether it is new: a client key that was used before names its job.

        Raises Refusal when the job could never run.
        """
        with self._submitting:
            if client_key:
                known = self.store.find_by_client_key(spec.user, client_key)
                if known is not None:
                    return known.id, False
            job_id = self._next_job
            self._ask(requests.submit(job_id, spec, client_key or "", by if hold else ""), by)
            self._next_job += 1
            return job_id, True

    def cancel(self, job_id: int, by: str) -> None:
        self._ask(requests.cancel(job_id, by), by)

    def hold(self, job_id: int, by: str) -> None:
        self._ask(requests.hold(job_id, by), by)

    def release(self, job_id: int, by: str) -> None:
        self._ask(requests.release(job_id, by), by)

    def set_priority(self, job_id: int, priority: int, by: str) -> None:
        self._ask(requests.set_priority(job_id, priority, by), by)

    def checkpoint(self, job_id: int, by: str) -> None:
        self._ask(requests.checkpoint(job_id, by), by)

    def evict(self, job_id: int, by: str, why: str) -> None:
        self._ask(requests.evict(job_id, by, why), by)

    def set_host(
        self, cluster: str, host: str, state: HostState, by: str, why: str, deadline: int | None = None
    ) -> None:
        self._ask(requests.set_host(cluster, host, state, by, why, deadline), by)

    def pause(self, scope: PauseScope, by: str) -> None:
        self._ask(requests.pause(scope, by), by)

    def resume(self, scope: PauseScope, by: str) -> None:
        self._ask(requests.resume(scope, by), by)

    def apply(
        self,
        clusters: tuple[Cluster, ...],
        policy: Policy,
        budgets: tuple[Budget, ...],
        grants: tuple[Grant, ...],
        *,
        by: str,
        dry_run: bool,
    ) -> AppliedChange:
        """Say what a configuration changes and what the next pass would do; apply it unless ``dry_run``.

        Raises Refusal when it would take hosts or budgets from under live jobs.
        """
        request = requests.apply_config(clusters, policy, budgets, grants, by)
        with self._lock:
            copied: State = pickle.loads(pickle.dumps(self._state))  # our own bytes
            now = max(self._now, copied.now)
        specs = tuple(cluster.spec for cluster in copied.clusters.values())
        old = ConfigApplied(0, specs, copied.policy, copied.budgets, copied.grants, "")
        asked = request(copied, now)
        result = scheduler.step(copied, asked.events, now)
        event = asked.events[0]
        assert isinstance(event, ConfigApplied)  # what apply_config makes
        changes = [change.line for change in diff(old, event)]
        victims = [v for p in result.plans if isinstance(p, Claim) for v in p.victims]
        victims += [p.victim for p in result.plans if isinstance(p, Stop)]
        starts = [p for p in result.plans if isinstance(p, Start | Claim)]
        if not dry_run:
            self._ask(request, by)
        return AppliedChange(changes, victims, starts, not dry_run)

    def _ask(self, request: Request, by: str) -> None:
        pending = _Pending(request, by, Future())
        with self._wake:
            if self._stopping or self.failure is not None:
                raise EngineStopped("the scheduler is stopping; try again when it is back")
            self._pending.append(pending)
            self._wake.notify()
        pending.done.result(REQUEST_TIMEOUT_S)

    # ---- the loop

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._round()
                self._sleep()
            self._writer.snapshot_if_due(self._state, force=True)
        except BaseException as error:  # whatever it is, nothing may be decided on a state that is not committed
            self.failure = error
            log.critical("engine_failed", error=repr(error), exc_info=True)
        finally:
            self._fail_pending()
        if self.failure is not None:
            self.on_failure()

    def _fail_pending(self) -> None:
        with self._wake:
            self._stopping = True
            left, self._pending = self._pending, []
        for pending in left:
            pending.done.set_exception(EngineStopped("the scheduler is stopping; try again when it is back"))
        with self._changed:
            self._changed.notify_all()

    def _sleep(self) -> None:
        """Until something happens, the next due time, or the slow tick."""
        due = self._state.next_due()
        until = self.config.server.slow_tick
        if due is not None:
            until = min(until, max(0, due - self._now))
        with self._wake:
            if not (self._pending or self._poked or self._stopping):
                self._wake.wait(until / 1000)

    def _round(self) -> None:
        with self._wake:
            pending, self._pending = self._pending, []
            poked, self._poked = self._poked, False
            tick = self._now - self._polled_at >= self.config.server.slow_tick
        self._now = max(self.clock.now(), self._state.now)
        reports: Sequence[Report] = ()
        if poked or tick:
            reports = self.executor.poll()
            self._polled_at = self._now
        with self._lock:
            if self.clock.alarm != self._state.clock_alarm:
                log.warning("clock_alarm", on=self.clock.alarm, offset_ms=self.clock.offset)
                self._step([ClockAlarm(self._now, self.clock.alarm)], [])
            self._step(self._news(reports), [])
            for one in pending:
                self._answer(one)
        ended, self._ended = self._ended, []
        self._unstarted = self._conductor.act(self._state, self._now, ended)
        if self._unstarted:
            self.poke()
        self._writer.snapshot_if_due(self._state)

    def _news(self, reports: Sequence[Report]) -> list[Event]:
        """What the executor knows and the state does not, in the order in which it happened."""
        events, self._unstarted = self._unstarted, []
        for report in reports:
            if report.attempt_id not in self._state.attempts:
                self._conductor.end_unknown(report)
            else:
                events += execution.events_of(self._state, report, self._now)
        return sorted(events, key=lambda event: event.at)

    def _answer(self, pending: _Pending) -> None:
        """Do what was asked in a step of its own, so that the next request is checked against its effect."""
        try:
            asked = pending.request(self._state, self._now)
        except Exception as refused:  # whoever asked gets it
            pending.done.set_exception(refused)
            return
        try:
            self._step(asked.events, [self._audit(asked, pending.by)] if asked.action else [])
        except BaseException as error:
            pending.done.set_exception(EngineStopped("the scheduler failed; it must be restarted"))
            raise error
        pending.done.set_result(None)

    def _audit(self, asked: Asked, by: str) -> AuditRow:
        return AuditRow(self._now, by, asked.action, asked.target, codec.dumps(asked.detail))

    def _step(self, events: Sequence[Event], audit: Sequence[AuditRow]) -> None:
        """Decide and commit. A step in which nothing happened is not written."""
        began = time.perf_counter()
        result = scheduler.step(self._state, events, self._now)
        decided = time.perf_counter()
        if not (events or result.outcomes or result.plans):
            return
        self._writer.write(self._state, events, result, self.clock.anchor(), audit)
        written = time.perf_counter()
        self._ended += [e.attempt_id for e in events if isinstance(e, AttemptExited)]
        recovery.forget_changes(self._state)
        faults.point("engine.after_step")
        with self._changed:
            self._seq = self._writer.seq
            self._changed.notify_all()
        report = StepReport(self._seq, self._now, events, result, decided - began, written - decided)
        for observer in self.observers:
            observer(report)
