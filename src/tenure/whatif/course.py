"""What a re-run starts from and is given: the state of a moment, what people and machines did since, and the works.

Read from the store alone, in one pass over the log. All times ms UTC, all durations ms.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from tenure import units
from tenure.core import pickling, scheduler
from tenure.core.decisions import Plan
from tenure.core.events import (
    AttemptExited,
    CancelRequested,
    CheckpointReported,
    ConfigApplied,
    Event,
    ExitKind,
    HostStateChanged,
    ReplicasUp,
    ServerBack,
)
from tenure.core.model import MINUTE, SECOND, HostState
from tenure.core.scheduler import Result
from tenure.core.state import State
from tenure.engine import record, recovery
from tenure.engine.past import Past as PastStates
from tenure.forecast.follow import Follower
from tenure.forecast.guesses import SAVE, STARTUP, Guesses
from tenure.forecast.sorts import size_class
from tenure.policies.budgets import Budgets
from tenure.reports.records import Run
from tenure.sim.onward import OnwardRecorder
from tenure.sim.work import Work
from tenure.store import Store
from tenure.whatif.lives import Life, Lives

pickling.register()

KNOWN, ESTIMATED = "known", "estimated"
"""Kinds of work: whether the log says how long the job runs, or the past of jobs like it."""
_NEVER = 1 << 62
_MACHINES = (ReplicasUp, AttemptExited, CheckpointReported, ServerBack)
"""What follows from when attempts start: a re-run has its own."""

Progress = Callable[[str, int, int], bool]
"""Called with what is being done, how much is, and how much there is; False breaks it off."""


class NothingKept(ValueError):
    """There is no history to begin with, or too little for what was asked."""


@dataclass(frozen=True, slots=True)
class Course:
    """``state``: that of ``since``, pickled, so that each run has its own. ``works``: of every job that lived then or
    came later. ``done``: useful work of live jobs before ``since``. ``left``: attempts that have ended since, and when
    their GPUs came back. ``events``: what people did and what became of hosts, in order. ``real``: the tables of
    what happened; None where it has not yet. ``notes``: what readers should know. ``emptied``: those of ``events`` that
    took a host out of service which had been drained until nothing ran there.
    """

    since: int
    until: int
    state: bytes
    works: Mapping[int, Work]
    done: Mapping[int, int]
    left: Mapping[str, int]
    events: Sequence[Event]
    real: Run | None
    notes: tuple[str, ...] = ()
    fit: bool = False
    """Whether submissions are of another time than the configuration, so that each has to be fitted into it."""
    emptied: frozenset[Event] = frozenset()

    def fresh(self) -> State:
        """A state of its own."""
        state: State = pickle.loads(self.state)  # our own bytes
        return state


@dataclass(slots=True)
class Reading:
    """The log from ``since`` on, as far as it goes."""

    store: Store
    since: int
    until: int
    lives: Lives = field(default_factory=Lives)
    events: list[Event] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    state: State = field(default_factory=State)
    begun: bytes = b""
    done: dict[int, int] = field(default_factory=dict)
    real: Run | None = None
    emptied: set[Event] = field(default_factory=set)

    def read(self, last: int, progress: Progress) -> None:
        """Up to batch ``last``. Raises KeyboardInterrupt when ``progress`` says so, Refusal where nothing is kept, and
        NothingKept where that is compacted away meanwhile.
        """
        _tell(progress, "the state of then", 0, 1)
        self.state = PastStates(self.store).state_at(
            self.since, _NEVER, lambda done, total: _tell(progress, "the state of then", done, total)
        )
        self.begun = pickle.dumps(self.state)
        self.done = worked_before(self.store, self.state, self.since)
        self.lives.begin(self.state, self.done)
        self.real = run_of(self.state, "what happened", self.since, self.until)
        recorder = OnwardRecorder(self.real, Budgets())
        recorder.go_on(self.state, self.since, {})
        first = max(self.store.seq_at(self.since), self.store.snapshot_seq_at(self.since))
        epochs, finished, reached = set[int](), False, first
        for row in self.store.batches(after=first, limit=max(0, last - first)):
            if row.seq != reached + 1:
                break
            reached = row.seq
            events, plans = record.events_of(row), record.plans_of(row)
            if row.at > self.until and not finished:
                recorder.finish(self.state, self.until)
                finished = True
            recovery.look_further_back(self.store, self.state, events, row.seq - 1)
            self._step(recorder if not finished else None, row.at, events, plans)
            if not finished:
                epochs.add(row.epoch)
            _tell(progress, "what happened since", row.seq - first, last - first)
        if reached < last:
            raise NothingKept("the history was compacted while it was read: run this again, or name a later moment")
        if not finished:
            recorder.finish(self.state, self.until)
        self.counts["restarts"] = max(0, len(epochs) - 1)

    def _step(self, recorder: OnwardRecorder | None, at: int, events: list[Event], plans: list[Plan]) -> None:
        if recorder is not None:
            recorder.until(self.state, at)
            if any(isinstance(event, ConfigApplied) for event in events):
                recorder.close(self.state, at)
        if recorder is not None:
            self.emptied.update(event for event in events if _emptied(self.state, event))
        outcomes = scheduler.redo(self.state, events, plans, at)
        lost = self.lives.note(self.state, events, outcomes)
        if recorder is not None:
            for attempt_id, work in lost:
                recorder.lose(attempt_id, work, 0)
            recorder.note(self.state, at, events, Result(outcomes, tuple(plans)))
            follow(recorder.run, events)
            self.events += [told for event in events if (told := self._of_people(event)) is not None]
        recovery.forget_changes(self.state)

    def _of_people(self, event: Event) -> Event | None:
        """What is told to a re-run, or None for what it finds out itself."""
        if isinstance(event, AttemptExited):
            if event.kind is ExitKind.LOST:
                self.counts["lost"] += 1
            if event.cancelled_by:
                return CancelRequested(event.at, int(event.attempt_id.partition(".")[0]), event.cancelled_by)
        if isinstance(event, ConfigApplied):
            self.counts["configured"] += 1
        return None if isinstance(event, _MACHINES) else event


def _emptied(state: State, event: Event) -> bool:
    """Whether it takes a host out of service that has been drained until nothing is left there."""
    if not isinstance(event, HostStateChanged) or event.state in (HostState.HEALTHY, HostState.DRAINING):
        return False
    cluster = state.clusters.get(event.cluster)
    record = cluster.hosts.get(event.host) if cluster is not None else None
    if cluster is None or record is None:
        return False
    return record.state is HostState.DRAINING and not cluster.on_host[event.host]


def run_of(state: State, policy: str, since: int, until: int) -> Run:
    """Empty tables that begin with ``state``."""
    hosts = {name: tuple((h.name, h.gpus) for h in cluster.spec.hosts) for name, cluster in state.clusters.items()}
    return Run(policy, 0, "the live server's jobs", {}, state.budgets, hosts, since, since, until, 0)


def follow(run: Run, events: Sequence[Event]) -> None:
    """The run has every host that ever was, with the most GPUs that it had, and the budgets of the end."""
    for event in events:
        if isinstance(event, ConfigApplied):
            run.budgets = event.budgets
            for cluster in event.clusters:
                known = dict(run.hosts.get(cluster.name, ()))
                for host in cluster.hosts:
                    known[host.name] = max(host.gpus, known.get(host.name, 0))
                run.hosts[cluster.name] = tuple(known.items())


def worked_before(store: Store, state: State, at: int) -> dict[int, int]:
    """Job -> how long its attempts that were over at ``at`` ran, for those that go on from it."""
    resumable = [job.id for job in state.jobs.values() if job.spec.contract.resumable and job.starts]
    found: dict[int, int] = {}
    for job_id, attempts in store.attempts_of_all(sorted(resumable)).items():
        ran = sum(
            row.ended_at - row.running_at
            for row in attempts
            if row.running_at is not None and row.ended_at is not None and row.running_at < row.ended_at <= at
        )
        if ran:
            found[job_id] = ran
    return found


class Works:
    """Works of lives: as long as the log says, else as long as jobs like it ran. Deterministic for a seed."""

    def __init__(self, guesses: Guesses, lives: Mapping[int, Life], seed: int) -> None:
        self.guesses, self.seed = guesses, seed
        saves = sorted(save for life in lives.values() for save in life.saves)
        self.save = saves[len(saves) // 2] if saves else SAVE
        self.startup = {name: sorted(took)[len(took) // 2] for name, took in guesses.past.startups.items()}

    def of(self, job_id: int, life: Life) -> Work:
        """The work behind a job."""
        spec, kind, runtime = life.spec, KNOWN, life.total
        if life.timed_out and spec.timeout is not None:
            runtime = life.done + spec.timeout + 10 * MINUTE
        if runtime is None:
            kind = ESTIMATED
            so_far = max(life.seen, self._running(job_id, life))
            runtime = self.guesses.total(Random(f"{self.seed}/{job_id}"), spec, so_far)
        startup = self.startup.get(size_class(spec), STARTUP)
        if life.startups:
            startup = sorted(life.startups)[len(life.startups) // 2]
        save = sorted(life.saves)[len(life.saves) // 2] if life.saves else self.save
        return Work(spec, 0, kind, max(1, runtime), life.exit_code, life.checkpoint_every, save, startup, 0)

    def _running(self, job_id: int, life: Life) -> int:
        """What a job that runs has done by the end of the log."""
        job = self.guesses.state.jobs.get(job_id)
        since = job.attempt.running_since if job is not None and job.attempt is not None else None
        return life.done + max(0, self.guesses.begin - since) if since is not None else 0


def _tell(progress: Progress, what: str, done: int, total: int) -> None:
    if not progress(what, done, total):
        raise KeyboardInterrupt


def kept_from(store: Store, wanted: int) -> tuple[int, str | None]:
    """The moment to begin with, and what to say when it is not the one that was asked for. Raises NothingKept."""
    kept = store.kept_since()
    if kept is None:
        raise NothingKept("the log is empty, or all of it has been compacted away: has this server ever run?")
    if wanted >= kept:
        return wanted, None
    return kept, f"History is kept from {units.format_time(kept)} on, so the run begins there and not earlier."


def then(store: Store, since: int, until: int | None, seed: int, progress: Progress) -> Course:
    """What would have been: from ``since`` to ``until`` (None: now). Raises NothingKept, and ValueError when there is
    nothing in between.
    """
    follower = Follower(store)
    now = follower.now()
    until = now if until is None else min(until, now)
    since, short = kept_from(store, since)
    if until - since < SECOND:
        raise ValueError("nothing has happened since then: name an earlier moment")
    reading = Reading(store, since, until)
    reading.read(follower.seq, progress)
    # Where the server has been away since, nobody knows more than it did.
    begin = max(follower.state.now, until)
    works = Works(Guesses(follower.state, follower.past, begin), reading.lives.all, seed)
    assert reading.real is not None
    ids = {row.id for row in reading.real.jobs}  # others came after the end
    made = {job_id: works.of(job_id, life) for job_id, life in sorted(reading.lives.all.items()) if job_id in ids}
    for row in reading.real.jobs:
        row.kind, row.runtime = made[row.id].kind, made[row.id].runtime
    left = {name: at for life in reading.lives.all.values() for name, at in life.left.items()}
    notes = [*([short] if short else []), *_said(reading, made)]
    return Course(
        since,
        until,
        reading.begun,
        made,
        reading.done,
        left,
        tuple(reading.events),
        reading.real,
        tuple(notes),
        emptied=frozenset(reading.emptied),
    )


def _said(reading: Reading, works: Mapping[int, Work]) -> list[str]:
    """What of the past a re-run cannot have, in words."""
    estimated = sum(work.kind == ESTIMATED for work in works.values())
    counts, said = reading.counts, []
    if estimated:
        have = (
            "has not ended by itself: how long it runs"
            if estimated == 1
            else ("have not ended by themselves: how long they run")
        )
        said.append(
            f"{estimated} of {units.counted(len(works), 'job')} {have} in all is estimated from how long jobs of the "
            "same people, budgets and sizes ran, and is the same in every run."
        )
    if counts["lost"]:
        said.append(
            f"{units.counted(counts['lost'], 'attempt')} {'was' if counts['lost'] == 1 else 'were'} lost by what runs "
            "them; in the re-runs that does not happen."
        )
    if counts["restarts"]:
        said.append(
            f"The server was started anew {units.counted(counts['restarts'], 'time')} meanwhile; in the re-runs it "
            "is never away, so what it could not decide then is decided at once."
        )
    if counts["configured"]:
        said.append(
            f"The configuration was changed {units.counted(counts['configured'], 'time')} meanwhile; the run as "
            "it is has each change at its time."
        )
    return said
