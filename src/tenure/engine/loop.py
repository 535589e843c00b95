"""The live loop: one thread owns the state; requests and reports wake it; every step is committed before it acts."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from tenure import faults
from tenure.config import Config
from tenure.core import codec, scheduler
from tenure.core.effects import overdue
from tenure.core.events import AttemptExited, ClockAlarm, Event, ServerBack
from tenure.core.scheduler import Result
from tenure.core.state import State
from tenure.engine import execution, recovery, surroundings
from tenure.engine.clock import Clock
from tenure.engine.errors import EngineStopped
from tenure.engine.requests import Asked, Request
from tenure.engine.writer import Writer
from tenure.executors.base import Executor, HostCondition, Report, StaleEpoch
from tenure.store.rows import AuditRow
from tenure.store.store import Store

log = structlog.get_logger()

REQUEST_TIMEOUT_S = 60.0
REQUESTS_PER_ROUND = 50
"""However many ask, what runs is looked at and told to stop in between."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """What observers are told after each commit. Times in ms, durations in seconds."""

    seq: int
    at: int
    events: Sequence[Event]
    result: Result
    pass_seconds: float
    commit_seconds: float


@dataclass(slots=True)
class _Pending:
    request: Request
    by: str
    done: Future[None]


class Loop:
    """Recovers, decides, commits and acts. Requests may come from any thread.

    ``used_ids``: the highest job id that anything outside the database remembers; new jobs get higher ones.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        executor: Executor,
        clock: Callable[..., Clock] = Clock,
        used_ids: int = 0,
    ) -> None:
        self.config, self.store, self.executor = config, store, executor
        self.epoch = 0
        self.failure: BaseException | None = None
        self.observers: list[Callable[[StepReport], None]] = []
        self._lock = threading.RLock()
        self._wake = threading.Condition()
        self._changed = threading.Condition()
        self._pending: deque[_Pending] = deque()
        self._poked = True
        self._stopping = False
        self._first = True
        self._polled_at = self._tidied_at = 0
        self._ended: list[str] = []
        """Attempts whose end is committed and which the executor may forget."""
        self._unstarted: list[Event] = []
        self._conditions: Sequence[HostCondition] = ()
        """Hosts as another system had them when it was last asked."""
        self._wished_at = -1
        """The batch up to which the executor knows which hosts are out of service."""
        self.on_failure: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._make_clock, self._used_ids = clock, used_ids
        self._recover()
        self.started_at = self._now

    def _recover(self) -> None:
        restored = recovery.restore(self.store)
        self._state, self._seq = restored.state, restored.seq
        self.clock = self._make_clock(restored.anchor, restored.state.clock_alarm)
        self._next_job = max([self.store.max_job_id(), self._used_ids, *self._state.jobs]) + 1
        self._read_clock()

    # ---- life

    def start(self) -> None:
        """Take the lead, adopt what runs, and begin to schedule."""
        self._conductor = execution.Conductor(self.executor)
        self.epoch = self._take_lead()
        if self.store.last_seq() != self._seq:
            self._recover()  # another server wrote until a moment ago
        self._writer = Writer(self.store, self.epoch, self._seq)
        log.info("engine_started", epoch=self.epoch, seq=self._seq, jobs=len(self._state.jobs))
        self._thread.start()

    def _take_lead(self) -> int:
        """The new epoch. A database that was restored from a backup is behind the executor and has to catch up.

        Raises StaleEpoch when another server takes the lead meanwhile.
        """
        above = 0
        while True:
            epoch = self.store.take_leadership(above)
            try:
                self.executor.open(epoch, self.poke)
                return epoch
            except StaleEpoch:
                if self.store.epoch() != epoch:
                    raise
                above = 2 * epoch

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
        """The live state, still while you hold it: read quickly, keep and change nothing.

        Raises EngineStopped when the engine has failed: what it holds then may not be committed.
        """
        with self._lock:
            if self.failure is not None:
                raise EngineStopped("the scheduler has failed; try again when it is back")
            yield self._state

    def now(self) -> int:
        """Engine time in ms, not older than the last step."""
        return self._now

    def present(self) -> int:
        """Engine time in ms that goes on between steps, which may be ``slow_tick`` apart."""
        return max(self._now, self.clock.present())

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

    def _ask(self, request: Request, by: str) -> None:
        pending = _Pending(request, by, Future())
        with self._wake:
            if self._stopping or self.failure is not None:
                raise EngineStopped("the scheduler is stopping; try again when it is back")
            self._pending.append(pending)
            self._wake.notify()
        try:
            pending.done.result(REQUEST_TIMEOUT_S)
        except TimeoutError:
            if pending.done.cancel():
                raise EngineStopped("the scheduler is busy and has done nothing about it; try again later") from None
            pending.done.result()

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
            left, self._pending = self._pending, deque()
        for pending in left:
            if pending.done.set_running_or_notify_cancel():
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
        self._read_clock()
        with self._wake:
            poked, self._poked = self._poked, False
        reports: Sequence[Report] = ()
        conditions: Sequence[HostCondition] = ()
        if poked or self._now - self._polled_at >= self.config.server.slow_tick:
            reports = self.executor.poll()
            self._conditions = conditions = self.executor.conditions()
            self._polled_at = self._now
        # Reports tell ages. Read afterwards, the clock puts nothing before its time: no span ends too early.
        self._read_clock()
        around = surroundings.events_of(self._state, conditions, reports, self._now)
        self._step(execution.in_order([*self._back(), *around, *self._news(reports)], self._state.now), [])
        for _ in range(REQUESTS_PER_ROUND):
            with self._wake:
                if not self._pending:
                    break
                pending = self._pending.popleft()
            self._read_clock()
            self._answer(pending)
        ended, self._ended = self._ended, []
        self._unstarted = self._conductor.act(self._state, self._now, ended)
        if self._wished_at != self._writer.seq:
            self._wished_at = self._writer.seq
            self.executor.keep_out(surroundings.wishes_of(self._state))
        if self._unstarted:
            self.poke()
        if self._now - self._tidied_at >= self.config.server.slow_tick:
            self._tidied_at = self._now
            self.executor.tidy(self._state.jobs.__contains__)
        self._writer.snapshot_if_due(self._state)

    def _back(self) -> Iterator[Event]:
        """In the first round: that nobody knows what attempts were told which should have been gone by now."""
        first, self._first = self._first, False
        if first and any(overdue(attempt, self._now) for attempt in self._state.attempts.values()):
            yield ServerBack(self._state.now)

    def _read_clock(self) -> None:
        self._now = max(self.clock.now(), self._state.now)

    def _news(self, reports: Sequence[Report]) -> list[Event]:
        """What the executor knows of attempts and the state does not."""
        events, self._unstarted = self._unstarted, []
        for report in reports:
            if report.attempt_id not in self._state.attempts:
                self._conductor.end_unknown(report)
            else:
                events += execution.events_of(self._state, report, self._now)
        return events

    def _answer(self, pending: _Pending) -> None:
        """Do what was asked in a step of its own, so that the next request is checked against its effect."""
        if not pending.done.set_running_or_notify_cancel():
            return
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
        if self.clock.alarm != self._state.clock_alarm:
            log.warning("clock_alarm", on=self.clock.alarm, offset_ms=self.clock.offset)
            events = [*events, ClockAlarm(self._now, self.clock.alarm)]
        with self._lock:
            try:
                report = self._commit(events, audit)
            except BaseException as error:
                # Before anybody can look at a state that is not committed.
                self.failure = error
                raise
        if report is None:
            return
        faults.point("engine.after_step")
        with self._changed:
            self._seq = report.seq
            self._changed.notify_all()
        for observer in self.observers:
            observer(report)

    def _commit(self, events: Sequence[Event], audit: Sequence[AuditRow]) -> StepReport | None:
        began = time.perf_counter()
        recovery.look_further_back(self.store, self._state, events, self._seq)
        result = scheduler.step(self._state, events, self._now)
        decided = time.perf_counter()
        if not (events or result.outcomes or result.plans):
            return None
        self._writer.write(self._state, events, result, self.clock.anchor(), audit)
        written = time.perf_counter()
        self._ended += [e.attempt_id for e in events if isinstance(e, AttemptExited)]
        recovery.forget_changes(self._state)
        return StepReport(self._writer.seq, self._now, events, result, decided - began, written - decided)
