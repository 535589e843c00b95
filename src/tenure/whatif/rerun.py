"""A course, run again: the simulation from a state in the middle of things, given what people and machines did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tenure.core import scheduler
from tenure.core.decisions import JobEnded
from tenure.core.events import (
    AttemptExited,
    CancelRequested,
    ClockAlarm,
    ConfigApplied,
    Event,
    EvictRequested,
    ForeignUse,
    HostStateChanged,
    Submitted,
)
from tenure.core.lifecycle import JobState
from tenure.core.model import SECOND, After, Broken, HostState, JobSpec
from tenure.core.outcomes import FINAL
from tenure.core.state import Attempt, Job
from tenure.engine import recovery
from tenure.policies import by_name
from tenure.reports.records import Run
from tenure.sim.driver import Driver, Observer
from tenure.sim.loop import QUIET, Simulation
from tenure.sim.onward import OnwardRecorder
from tenure.sim.site import STOPPED, Running
from tenure.sim.work import Action, Wake, Work
from tenure.units import counted
from tenure.whatif.change import BY, Places, Told, Variant, configuration_of, doubt, enter, fitted, follow_on
from tenure.whatif.course import Course, follow

_MACHINES = (HostStateChanged, ForeignUse, ConfigApplied, ClockAlarm)
"""Everything else is what people did."""


class Rerun(Simulation):
    """One variant of a course. ``told``: what it refused, cut or left out.

    Jobs keep the ids that they really had, so one job is one job in every run. ``quiet``: the longest time between two
    passes, ms: that of the server. Raises SettingError and ValueError for a variant that cannot be.
    """

    def __init__(self, course: Course, variant: Variant, observe: Observer | None = None, quiet: int = QUIET) -> None:
        self.course, self.variant = course, variant
        state = course.fresh()
        self.config = configuration_of(state)
        setup = variant.setup("the live server's jobs", self.config, course.since, course.until - course.since)
        super().__init__(setup)
        self.quiet = quiet
        policy = by_name(variant.policy, **setup.options)
        self.run_record.policy = variant.label
        self.recorder = self.onward = OnwardRecorder(self.run_record, policy)
        self.state = state
        self.driver = Driver(policy, self.recorder, observe, state)
        self._given = course.works
        if variant.later:
            # Machines are later, too: a queue that is long already goes its way whatever people do after.
            self._given = {job_id: replace(one, startup=one.startup + SECOND) for job_id, one in course.works.items()}
        self.told = Told()
        self.left_out = 0
        """Configurations that were applied meanwhile."""
        self.refused: set[int] = set()
        self.turned_away: set[int] = set()
        """Jobs that the change ended as they waited."""
        self.failed: dict[int, tuple[str, str]] = {}
        """Job or array that did not succeed -> (what people call it, its final state)."""
        self._succeeded: set[int] = set()
        self._array_of: dict[int, tuple[int, int]] = {}
        """Job -> its array and its index."""
        self._leaving: set[tuple[str, str]] = set()
        """Hosts that the configuration does not have, and that run empty."""
        self._repairs_due: dict[tuple[str, str], list[HostStateChanged]] = {}
        """Drained host -> what became of it once it was empty, which it is not yet."""
        self._repairs_late: dict[tuple[str, str], int] = {}
        """Host -> by how much that has come later, ms."""
        self._script: list[Callable[[int], None]] = []
        self._places: Places | None = None
        self.reached = course.since
        self._go_on()

    # ---- running

    def advance(self, until: int) -> None:
        """Up to ``until``, at most the end of the course."""
        until = min(until, self.course.until)
        while (upcoming := self._next()) is not None and upcoming <= until:
            self._moment(max(upcoming, self.state.now))
        self.reached = until

    def finish(self) -> Run:
        """The tables, up to where it came."""
        run = self._finish(self.reached)
        run.notes += self.lines()
        return run

    def lines(self) -> list[str]:
        """What it refused, cut or left out, in words."""
        changes = counted(self.left_out, "change")
        left = [
            f"{changes} of the configuration that {'was' if self.left_out == 1 else 'were'} made meanwhile left out"
        ]
        return [*(left if self.left_out else []), *self.told.lines()]

    def label(self, job_id: int) -> str:
        """What people call a job: 12, or 12_3 of an array."""
        array, index = self._array_of.get(job_id, (0, 0))
        return f"{array}_{index}" if array else str(job_id)

    # ---- beginning

    def _go_on(self) -> None:
        state, course = self.state, self.course
        for job in state.jobs.values():
            job.spec = _in_one_run(job.spec)
        self.works = {job_id: self._own(self._given[job_id], state.jobs[job_id].spec) for job_id in state.jobs}
        events: list[Event] = []
        if course.fit:
            self._places = Places(state.budgets, self.config.clusters, self.variant.moves)
        if self.variant.changes:
            config = self.variant.configuration(self.config)
            self._places = Places(config.budgets, config.clusters, self.variant.moves)
            events = self._turning_away(enter(state, config, self._places, self.told))
            self.works = {job_id: self._own(work, state.jobs[job_id].spec) for job_id, work in self.works.items()}
        self.onward.go_on(state, course.since, self.works)
        for job in state.jobs.values():
            self.waiting_since[job.id] = job.queued_at
            self._array_of[job.id] = (job.array, job.index)
            if (done := course.done.get(job.id, 0)) > 0:
                self.site.keep(job.id, done)
            if job.attempt is not None and job.attempt.started_at is not None:
                self._occupy(job, job.attempt, job.attempt.started_at)
        for event in course.events:
            self._later(event.at + (0 if isinstance(event, _MACHINES) else self.variant.later), self._telling(event))
        if events:
            self._out_of_its_way(events)
            self._react(self.driver.step(course.since, events), course.since)
            doubt(state, self.told)

    def _out_of_its_way(self, events: Sequence[Event]) -> None:
        """What the machines and the tables have to know of a configuration that is about to be applied."""
        for event in events:
            if isinstance(event, AttemptExited):
                self.site.running.pop(event.attempt_id, None)
            elif isinstance(event, HostStateChanged) and event.state is HostState.DRAINING:
                self._leaving.add((event.cluster, event.host))
        follow(self.run_record, events)

    def _turning_away(self, events: list[Event]) -> list[Event]:
        """``events`` that apply a configuration, with a note of whom they end."""
        self.turned_away |= {event.job_id for event in events if isinstance(event, CancelRequested)}
        return events

    @staticmethod
    def _own(work: Work, spec: JobSpec) -> Work:
        return work if work.spec == spec else replace(work, spec=spec)

    def _occupy(self, job: Job, attempt: Attempt, started: int) -> None:
        """An attempt that holds GPUs at the beginning."""
        work, done = self.works[job.id], self.course.done.get(job.id, 0)
        running = Running(attempt.id, work, started, done, job.starts > 1, base=attempt.running_since)
        self.site.take(running)
        if attempt.running_since is not None:
            running.exit_at = attempt.running_since + max(0, work.runtime - done)
            running.exit_code = work.exit_code
        stop = attempt.stop
        if stop is not None:
            leaves = self.course.left.get(attempt.id, min(stop.warn_at + work.save_time, stop.kill_at))
            running.stopped, running.given_up = True, stop.because.reason in FINAL
            running.saves_at = stop.warn_at if work.spec.contract.resumable else None
            if running.exit_at is None or leaves < running.exit_at:
                running.exit_at, running.exit_code = leaves, STOPPED
        if running.exit_at is None:
            attempt_id = attempt.id
            self._later(started + work.startup, lambda at: self._up(attempt_id, at))
            return
        running.exit_at = max(running.exit_at, self.course.since)
        self._push_exit(running)
        last = attempt.checkpoint_at if attempt.checkpoint_at is not None else running.base
        if work.checkpoint_every and last is not None and not running.stopped:
            self._push_checkpoint(running, last)

    # ---- what is told

    def _later(self, at: int, what: Callable[[int], None]) -> None:
        self._script.append(what)
        self._push(max(at, self.course.since), Wake(at, len(self._script) - 1))

    def _happen(self, what: Action | object, at: int) -> None:
        if isinstance(what, Wake):
            self._script[what.token](at)
        else:
            super()._happen(what, at)  # type: ignore[arg-type]  # what it put there itself

    def _telling(self, event: Event) -> Callable[[int], None]:
        emptied = isinstance(event, HostStateChanged) and event in self.course.emptied
        return lambda at: self._tell(replace(event, at=at), at, emptied=emptied)

    def _tell(self, event: Event, at: int, *, emptied: bool = False) -> None:
        match event:
            case HostStateChanged():
                self._host(event, emptied)
            case Submitted():
                self.submitted(event)
            case ConfigApplied():
                self._configured(event)
            case EvictRequested():
                job = self.state.jobs.get(int(event.attempt_id.partition(".")[0]))
                if job is not None and job.attempt is not None:
                    self._events.append(replace(event, attempt_id=job.attempt.id))
            case _:
                self._events.append(event)

    def _moment(self, at: int) -> None:
        super()._moment(at)
        for host in [key for key in self._repairs_due if not self._used(key)]:
            first, *more = self._repairs_due.pop(host)
            late = self._repairs_late[host] = at - first.at
            for event in (first, *more):
                self._later(event.at + late, self._repairing(event))

    def _used(self, host: tuple[str, str]) -> bool:
        cluster = self.state.clusters.get(host[0])
        return cluster is not None and bool(cluster.on_host.get(host[1]))

    def _host(self, event: HostStateChanged, emptied: bool) -> None:
        """What becomes of a host. Nobody repairs one that is drained before it is empty, which here may be later."""
        host = (event.cluster, event.host)
        if host in self._leaving and event.state is HostState.HEALTHY:
            return
        if host in self._repairs_due:
            self._repairs_due[host].append(event)
        elif host in self._repairs_late:
            self._later(event.at + self._repairs_late[host], self._repairing(event))
        elif emptied and self._used(host):
            self._repairs_due[host] = [event]
        else:
            self._events.append(event)

    def _repairing(self, event: HostStateChanged) -> Callable[[int], None]:
        def tell(at: int) -> None:
            if event.state is HostState.HEALTHY:
                self._repairs_late.pop((event.cluster, event.host), None)
            self._events.append(replace(event, at=at))

        return tell

    def _configured(self, event: ConfigApplied) -> None:
        """A configuration that was applied meanwhile: of no interest where another one is tried."""
        events = self._under(event, self.told)
        self._out_of_its_way(events)
        self._events += events

    def _under(self, event: ConfigApplied, told: Told) -> list[Event]:
        """What applies it here."""
        if self.variant.wanted is not None:
            self.left_out += 1
            return []
        config = self.variant.configuration(event) if self.variant.changes else event
        places = Places(config.budgets, config.clusters, self.variant.moves)
        if self.variant.changes:
            self._places = places
        there = {(cluster.name, host.name) for cluster in config.clusters for host in cluster.hosts}
        back, self._leaving = self._leaving & there, self._leaving - there
        events = self._turning_away(follow_on(self.state, config, places, told))
        events += (HostStateChanged(event.at, *host, HostState.HEALTHY, BY, "there again") for host in sorted(back))
        return [replace(one, at=event.at) for one in events]

    def rehearse(self) -> None:
        """Find what would be refused and cut, without running it: it must not be run afterwards."""
        for event in self.course.events:
            if isinstance(event, Submitted):
                self.submitted(event)
            elif isinstance(event, ConfigApplied):
                at = self.state.now
                events = [replace(one, at=at) for one in self._under(event, Told())]
                scheduler.absorb(self.state, events, at)
                recovery.forget_changes(self.state)

    def submitted(self, event: Submitted) -> None:
        """Somebody submits: a job, or an array. It may be refused here."""
        array = event.array
        ids = range(event.job_id, event.job_id + (len(array.indices) if array is not None else 1))
        labels = [str(event.job_id)] if array is None else [f"{event.job_id}_{index}" for index in array.indices]
        spec: JobSpec | None = _in_one_run(event.spec)
        if any(one.ok and one.job_id in self.refused for one in event.after):
            self.told.of("waiting for the success of a job that is refused, refused, too", *labels)
            spec = None
        elif self._places is not None:
            spec = fitted(self.state, _in_one_run(event.spec), self._places, self.told, labels)
        if spec is None:
            self.refused.update(ids)
            return
        for position, job_id in enumerate(ids):
            work = self.works[job_id] = self._own(self._given[job_id], spec)
            self.waiting_since[job_id] = event.at
            self.recorder.expect(job_id, work)
            if array is not None:
                self._array_of[job_id] = (event.job_id, array.indices[position])
        event = self._with_hope(event)
        self._events.append(replace(event, spec=spec, broken=event.broken or self._broken(event.after)))

    def _with_hope(self, event: Submitted) -> Submitted:
        """What it waited for in vain, as that had failed by then, may run on here, or have succeeded."""
        if event.broken is None:
            return event
        array, _, index = event.broken.job.partition("_")
        called = (int(array), int(index)) if index else None
        job_id = next((job for job, known in self._array_of.items() if known == called), 0) if called else int(array)
        if job_id in self.state.jobs:
            return replace(event, broken=None, after=(*event.after, After(job_id, whole=False, ok=True)))
        return replace(event, broken=None) if job_id in self._succeeded else event

    def _broken(self, after: Sequence[After]) -> Broken | None:
        """What it would wait for in vain: here it may have ended before."""
        for one in after:
            live = self.state.arrays if one.whole else self.state.jobs
            if one.ok and one.job_id in self.failed and one.job_id not in live:
                return Broken(*self.failed[one.job_id])
        return None

    def _job_ended(self, outcome: JobEnded, at: int) -> None:
        if outcome.state == JobState.SUCCEEDED.value:
            self._succeeded.add(outcome.job_id)
        else:
            array, _ = self._array_of.get(outcome.job_id, (0, 0))
            self.failed[outcome.job_id] = (self.label(outcome.job_id), outcome.state)
            if array:
                self.failed.setdefault(array, (self.label(outcome.job_id), outcome.state))
        super()._job_ended(outcome, at)


def _in_one_run(spec: JobSpec) -> JobSpec:
    """Attempts that failed and were tried again are part of one run (see ``lives``)."""
    return replace(spec, retries=0) if spec.retries else spec
