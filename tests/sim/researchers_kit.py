"""A stand-in for a cluster: one pool of GPUs that starts charged work in order, and evicts free work for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from heapq import heappop, heappush
from random import Random

from tenure.core.model import DAY, HOUR, SECOND
from tenure.sim.researchers import Lab, Machines, Researchers, presets
from tenure.sim.researchers.people import Person
from tenure.sim.work import Action, Cancel, Submit, Wake, Work, Workload

MONDAY = 1_767_571_200_000
"""2026-01-05 00:00 UTC, ms."""


@dataclass
class Entry:
    """One job of the pool. ``ran``: ms of all its attempts; ``left``: ms of useful work."""

    job_id: int
    work: Work
    submitted: int
    gpus: int
    state: str = ""
    started: int | None = None
    first_started: int | None = None
    ended: int | None = None
    ran: int = 0
    left: int = 0
    generation: int = 0


class Pool:
    """Runs a workload. ``delay``: every job waits at least this long, for tests of what people do then."""

    def __init__(self, workload: Workload, gpus: int, *, at: int = MONDAY, delay: int = 0) -> None:
        self.workload = workload
        self.free = gpus
        self.delay = delay
        self.begun = self.now = at
        self.heap: list[tuple[int, int, object]] = []
        self.count = 0
        self.jobs: list[Entry] = []
        self.waiting: dict[bool, dict[int, Entry]] = {True: {}, False: {}}
        self.evictable: dict[int, Entry] = {}
        self.evictable_gpus = 0
        self.outstanding = {True: 0, False: 0}
        self.stopped: list[tuple[int, int]] = []
        """(time, job) of every cancellation that had an effect."""
        self.samples: list[tuple[int, int]] = []
        """(charged GPUs, unallocated GPUs) outstanding, every hour."""
        self._act(workload.begin(at))

    def run(self, duration: int) -> Pool:
        end = self.now + duration
        sample = self.now
        while self.heap and self.heap[0][0] <= end:
            at = self.heap[0][0]
            while sample <= at:
                self.samples.append((self.outstanding[True], self.outstanding[False]))
                sample += HOUR
            self.now = at
            while self.heap and self.heap[0][0] <= at:
                self._happen(heappop(self.heap)[2])
            self._start()
        self.now = end
        return self

    def used(self, entry: Entry) -> int:
        """GPU-ms of a job so far."""
        running = self.now - entry.started if entry.started is not None else 0
        return (entry.ran + running) * entry.gpus

    def _push(self, at: int, what: object) -> None:
        self.count += 1
        heappush(self.heap, (max(at, self.now), self.count, what))

    def _act(self, actions: Iterable[Action]) -> None:
        for action in actions:
            assert action.at % SECOND == 0 or action.at <= self.now
            self._push(action.at, action)

    def _happen(self, what: object) -> None:
        match what:
            case Submit():
                entry = Entry(len(self.jobs) + 1, what.work, self.now, what.work.spec.gpus, left=what.work.runtime)
                self.jobs.append(entry)
                self.outstanding[what.work.funded] += entry.gpus
                self.waiting[entry.work.funded][entry.job_id] = entry
                self._act(self.workload.accepted(self.now, what.token, entry.job_id, what.work))
                if self.delay:
                    self._push(self.now + self.delay, None)
            case Wake():
                self._act(self.workload.wake(self.now, what.token))
            case Cancel():
                entry = self.jobs[what.job_id - 1]
                if entry.ended is None:
                    self.stopped.append((self.now, entry.job_id))
                    self._leave(entry, "cancelled")
            case (Entry() as entry, generation):
                if entry.generation == generation:
                    self._leave(entry, "failed" if entry.work.exit_code else "succeeded")
            case _:
                pass

    def _leave(self, entry: Entry, state: str) -> None:
        self._release(entry)
        self.outstanding[entry.work.funded] -= entry.gpus
        self.waiting[entry.work.funded].pop(entry.job_id, None)
        entry.ended, entry.state = self.now, state
        self._act(self.workload.ended(self.now, entry.job_id, entry.work, state))

    def _release(self, entry: Entry) -> None:
        if entry.started is not None:
            self.free += entry.gpus
            entry.ran += self.now - entry.started
            if self.evictable.pop(entry.job_id, None) is not None:
                self.evictable_gpus -= entry.gpus
        entry.started, entry.generation = None, entry.generation + 1

    def _start(self) -> None:
        """Charged jobs in order; past one that does not fit only those of at most one host. Then free ones."""
        blocked = False
        for entry in list(self.waiting[True].values()):
            gpus = entry.gpus
            if self.now < entry.submitted + self.delay or (blocked and gpus > 8):
                continue
            if gpus > self.free + self.evictable_gpus:
                blocked = True
                continue
            while gpus > self.free:
                self._evict(next(reversed(self.evictable.values())))
            self._begin(entry)
        if self.free:
            for entry in list(self.waiting[False].values()):
                if entry.gpus <= self.free and self.now >= entry.submitted + self.delay:
                    self._begin(entry)
                if not self.free:
                    break

    def _begin(self, entry: Entry) -> None:
        del self.waiting[entry.work.funded][entry.job_id]
        self.free -= entry.gpus
        entry.started = self.now
        if entry.first_started is None:
            entry.first_started = self.now
        if not entry.work.funded:
            self.evictable[entry.job_id] = entry
            self.evictable_gpus += entry.gpus
        self._push(self.now + entry.work.startup + entry.left, (entry, entry.generation))
        waited = self.now - entry.submitted
        self._act(self.workload.started(self.now, entry.job_id, entry.work, waited))

    def _evict(self, entry: Entry) -> None:
        assert entry.started is not None
        entry.left = max(SECOND, entry.left - max(0, self.now - entry.started - entry.work.startup))
        self._release(entry)
        if entry.work.spec.contract.resumable:
            self.waiting[entry.work.funded][entry.job_id] = entry
            self._act(self.workload.requeued(self.now, entry.job_id, entry.work))
        else:
            self._leave(entry, "preempted")


def lab_of(preset: str = "published", gpus: int = 256, seed: int = 1) -> Lab:
    return replace(presets[preset], clusters=(Machines("main", gpus // 8, 8),), seed=seed)


@cache
def lived(preset: str, seed: int = 1) -> Pool:
    """A pool of 256 GPUs after 14 days of a preset: look, but do not run it on."""
    return Pool(Researchers(lab_of(preset, 256, seed)), 256).run(14 * DAY)


def one_of(researchers: Researchers, *, leads: bool) -> Person:
    """The person with most demand who may have gangs, or the first one who may not."""
    able = [p for p in researchers.people if (p.planner.limit >= 32) == leads]
    return max(able, key=lambda person: person.charged.account.usual)


def submits(actions: Iterable[Action]) -> list[Submit]:
    return [action for action in actions if isinstance(action, Submit)]


def empty(researchers: Researchers, person: Person, at: int) -> None:
    """Their jobs of the beginning are over."""
    for token, held in list(researchers.sent.items()):
        if held.stream in (person.charged, person.free):
            work = person.signer.work(Random(0), held.run, held.stream.charged, 0)
            researchers.accepted(at, token, token, work)
            list(researchers.ended(at, token, work, "succeeded"))
    for stream in (person.charged, person.free):
        stream.plan, stream.wake_at, stream.account.credit = None, -1, 0.0
        stream.team.account.credit = 0.0
