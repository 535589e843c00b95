"""The core, run forward from a copy of a state: what happens if attempts last as long as they are said to.

The machines are those of the simulator (``sim.site``). All times ms UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from tenure.core import scheduler
from tenure.core.admission import check_job
from tenure.core.decisions import Claim, ClaimOpened, Evict, JobEnded, Start, Stop, Stopping
from tenure.core.events import CheckpointReported, Event, HostStateChanged, ReplicasUp, Submitted
from tenure.core.model import MINUTE
from tenure.core.reasons import Refusal
from tenure.core.scheduler import Result
from tenure.core.state import State
from tenure.sim.site import Running, Site
from tenure.sim.work import Work

QUIET = 5 * MINUTE
"""The longest time between two passes: standings drift with time alone."""
_BETWEEN_LOOKS = 16
"""Steps between two looks at whether it has cost enough."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job that is going to be submitted at ``at``."""

    at: int
    work: Work


@dataclass(frozen=True, slots=True)
class Scenario:
    """One course that things may take.

    ``site``: the attempts that hold GPUs, with their planned exits, and what queued jobs have saved. ``works``: every
    live job. ``arrivals``: what is submitted, in the order of time. ``hosts``: what becomes of hosts.
    """

    site: Site
    works: dict[int, Work]
    arrivals: tuple[Arrival, ...] = ()
    hosts: tuple[HostStateChanged, ...] = ()


@dataclass(frozen=True, slots=True)
class Foreseen:
    """``starts``: job -> when it is given GPUs next, of those asked for. ``reached``: nothing is known of later.

    ``unfinished``: it cost enough before all had started and before it came to its end.
    """

    starts: dict[int, int]
    reached: int
    unfinished: bool


class Forward:
    """Takes over ``state``, which must be a copy. ``begin``: now, if that is later than the state's last step."""

    def __init__(self, state: State, scenario: Scenario, begin: int = 0, quiet: int = QUIET) -> None:
        self.state = state
        self.site = scenario.site
        self.works = scenario.works
        self.quiet = quiet
        self.begin = max(begin, state.now)
        self.starts: dict[int, int] = {}
        self._wanted: set[int] = set()
        self._heap: list[tuple[int, int, _Happening]] = []
        self._checkpoints: list[tuple[int, int, Running]] = []
        self._count = 0
        self._events: list[Event] = []
        self._next_job = max(state.jobs, default=0) + 1
        self._plan(scenario)

    def run(self, wanted: Iterable[int], until: int, enough: Callable[[], bool] = lambda: False) -> Foreseen:
        """Until all jobs of ``wanted`` have started or are gone, or until ``until``, or ``enough`` says so."""
        self._wanted = {job_id for job_id in wanted if job_id in self.state.jobs}
        reached, steps, broken_off = self.begin, 0, False
        if self.begin > self.state.now:
            self._moment(self.begin)
        while self._wanted:
            at = self._next()
            if at > until:
                reached = until
                break
            self._moment(at)
            reached, steps = at, steps + 1
            if steps % _BETWEEN_LOOKS == 0 and enough():
                broken_off = bool(self._wanted)
                break
        return Foreseen(dict(self.starts), reached, broken_off)

    # ---- what is coming

    def _plan(self, scenario: Scenario) -> None:
        for running in self.site.running.values():
            if running.exit_at is not None:
                self._push_exit(running)
                self._push_checkpoint(running, self._last_checkpoint(running))
            else:
                up_at = max(self.begin, running.started + running.work.startup)
                self._push(up_at, self._coming_up(running.attempt_id))
        for arrival in scenario.arrivals:
            self._push(max(self.begin, arrival.at), self._submitting(arrival.work))
        for event in scenario.hosts:
            self._push(max(self.begin, event.at), self._telling(event))

    def _push(self, at: int, what: _Happening) -> None:
        self._count += 1
        heappush(self._heap, (at, self._count, what))

    def _push_exit(self, running: Running) -> None:
        assert running.exit_at is not None
        self._push(running.exit_at, self._leaving(running, running.generation))

    def _last_checkpoint(self, running: Running) -> int | None:
        """What was reported last, else when it began to be useful."""
        attempt = self.state.attempts[running.attempt_id]
        return attempt.checkpoint_at if attempt.checkpoint_at is not None else running.base

    def _push_checkpoint(self, running: Running, last: int | None) -> None:
        every = running.work.checkpoint_every
        if not every or last is None or not running.work.spec.contract.resumable or running.exit_at is None:
            return
        due = last + every
        if due < running.exit_at:
            self._count += 1
            heappush(self._checkpoints, (due, self._count, running))

    def _next(self) -> int:
        due = self.state.next_due(signals=False)
        first = self._heap[0][0] if self._heap else self.state.now + self.quiet
        if due is not None and due < first:
            first = due
        return max(self.state.now, min(first, self.state.now + self.quiet))

    # ---- what happens

    def _submitting(self, work: Work) -> _Happening:
        def happen(at: int) -> None:
            try:
                check_job(self.state, work.spec)
            except Refusal:
                return  # its budget or its hosts are not what they were
            job_id, self._next_job = self._next_job, self._next_job + 1
            self.works[job_id] = work
            self._events.append(Submitted(at, job_id, work.spec))

        return happen

    def _telling(self, event: HostStateChanged) -> _Happening:
        return lambda at: self._events.append(event)

    def _coming_up(self, attempt_id: str) -> _Happening:
        def happen(at: int) -> None:
            running = self.site.up(attempt_id, at)
            if running is not None:
                self._events.append(ReplicasUp(at, attempt_id))
                self._push_exit(running)
                self._push_checkpoint(running, running.base)

        return happen

    def _leaving(self, running: Running, generation: int) -> _Happening:
        def happen(at: int) -> None:
            if running.generation == generation and running.attempt_id in self.site.running:
                job_id = self.state.attempts[running.attempt_id].job_id
                self._events.append(self.site.exit(job_id, running, at)[0])

        return happen

    def _checkpoints_until(self, at: int) -> list[Event]:
        reported: list[Event] = []
        while self._checkpoints and self._checkpoints[0][0] <= at:
            due, _, running = heappop(self._checkpoints)
            if running.attempt_id in self.site.running and not running.stopped:
                reported.append(CheckpointReported(due, running.attempt_id))
                self._push_checkpoint(running, due)
        return reported

    def _moment(self, at: int) -> None:
        """Everything that happens at ``at``, as one step of the core, and what follows from it."""
        while self._heap and self._heap[0][0] <= at:
            heappop(self._heap)[2](at)
        events = [*self._checkpoints_until(at), *self._events]
        self._events = []
        self._react(scheduler.step(self.state, events, at), at)
        state = self.state
        for kept in (state.touched_jobs, state.ended_jobs, state.ended_attempts, state.closed_spans):
            kept.clear()

    def _react(self, result: Result, at: int) -> None:
        for outcome in result.outcomes:
            match outcome:
                case ClaimOpened():
                    self._start(outcome.attempt_id, at)
                case Stopping():
                    self._stop((outcome.victim,))
                case JobEnded():
                    self.works.pop(outcome.job_id, None)
                    self.site.forget(outcome.job_id)
                    self._wanted.discard(outcome.job_id)
                case _:
                    pass
        for plan in result.plans:
            match plan:
                case Start():
                    self._start(plan.attempt_id, at)
                case Claim():
                    self._stop(plan.victims)
                case Stop():
                    self._stop((plan.victim,))
                case _:
                    pass

    def _start(self, attempt_id: str, at: int) -> None:
        job_id = self.state.attempts[attempt_id].job_id
        again = self.state.jobs[job_id].starts > 1
        up_at = self.site.start(attempt_id, job_id, self.works[job_id], at, again=again)
        self._push(up_at, self._coming_up(attempt_id))
        if job_id in self._wanted:
            self._wanted.discard(job_id)
            self.starts[job_id] = at

    def _stop(self, victims: Collection[Evict]) -> None:
        for victim in victims:
            running = self.site.stop(victim)
            if running is not None:
                self._push_exit(running)


_Happening = Callable[[int], None]
