"""Courses that things may take, drawn from what is known: contracts, time-outs, people's past.

Deterministic: the same past, state and seed give the same scenarios. All times ms UTC, all durations ms.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from math import exp
from random import Random

from tenure.core.events import HostStateChanged
from tenure.core.model import DAY, HOUR, MINUTE, SECOND, HostState, JobSpec
from tenure.core.outcomes import FINAL
from tenure.core.state import Attempt, Job, State
from tenure.forecast.forward import Arrival, Scenario
from tenure.forecast.lifetimes import Lifetimes
from tenure.forecast.past import HABITS, KEPT, Past, Sent
from tenure.forecast.sorts import Sort, size_class, sorts_of
from tenure.sim.site import Running, Site
from tenure.sim.work import Work

ENOUGH = 5
"""Jobs of a sort that must have ended later than the one in question has run, or a wider sort is asked."""
SAVE = 30 * SECOND
STARTUP = 30 * SECOND
REPAIR = 8 * HOUR
"""What is out of service is back after so long, unless it is out for longer already: then nobody knows."""
TRIES = 20
"""What by its contract should have ended so many times is thought to run for as long again."""
_LAST = 3
"""Sorts at the end of the line that are asked whatever they know."""


class Guesses:
    """Draws scenarios for the state as it is at ``begin``. The state is only read."""

    def __init__(self, state: State, past: Past, begin: int) -> None:
        self.state, self.past, self.begin = state, past, begin
        self._curves: dict[Sort, Lifetimes] = {}
        self._running: dict[Sort, list[int]] = defaultdict(list)
        self._startup = {name: sorted(took)[len(took) // 2] for name, took in past.startups.items()}
        self._people: dict[str, list[Sent]] = defaultdict(list)
        for sent in past.sent:
            self._people[sent.spec.user].append(sent)
        for job in state.jobs.values():
            so_far = self.so_far(job)
            if so_far:
                for sort in sorts_of(job.spec):
                    self._running[sort].append(so_far)

    def scenario(self, seed: str, until: int, *, arrivals: bool = True) -> Scenario:
        """One course until ``until``."""
        rng = Random(seed)
        site, works = Site(), {}
        for job_id in sorted(self.state.jobs):
            job = self.state.jobs[job_id]
            so_far = self.so_far(job)
            work = works[job_id] = self._work(job.spec, self.total(rng, job.spec, so_far))
            before = self._before(job)
            if job.attempt is not None and job.attempt.started_at is not None:
                site.take(self._occupying(job, job.attempt, work, before))
            if before:
                site.keep(job_id, before)
        coming = tuple(self._arrivals(rng, until)) if arrivals else ()
        return Scenario(site, works, coming, tuple(self._hosts()))

    # ---- how long

    def so_far(self, job: Job) -> int:
        """How long it has run, former attempts that it goes on from included."""
        attempt = job.attempt
        since = attempt.running_since if attempt is not None else None
        return self._before(job) + (max(0, self.begin - since) if since is not None else 0)

    def _before(self, job: Job) -> int:
        return self.past.ran.get(job.id, 0) if job.spec.contract.resumable else 0

    def total(self, rng: Random, spec: JobSpec, so_far: int) -> int:
        """How long it runs in all, longer than ``so_far``."""
        sorts = sorts_of(spec)
        for place, sort in enumerate(sorts):
            curve = self._curve(sort)
            if curve.beyond(so_far) >= ENOUGH or (place >= len(sorts) - _LAST and curve.beyond(0) >= ENOUGH):
                return curve.draw(rng, so_far)
        guesses = (self._by_contract(rng, spec) for _ in range(TRIES))
        return next((guess for guess in guesses if guess > so_far), 2 * so_far)

    def _curve(self, sort: Sort) -> Lifetimes:
        curve = self._curves.get(sort)
        if curve is None:
            since = self.begin - KEPT
            seen = [(ran, ended) for at, ran, ended in self.past.runs.get(sort, ()) if at >= since]
            curve = self._curves[sort] = Lifetimes([*seen, *((ran, False) for ran in self._running[sort])])
        return curve

    @staticmethod
    def _by_contract(rng: Random, spec: JobSpec) -> int:
        """Nothing has been seen yet: what runs at all runs about as long as it wants to be protected, or longer."""
        usual = max(spec.contract.min_runtime, 5 * MINUTE) if spec.charged else HOUR
        return int(usual * exp(rng.gauss(0.3, 1.0)))

    # ---- machines

    def _work(self, spec: JobSpec, total: int) -> Work:
        every = HOUR if spec.contract.resumable else 0
        startup = self._startup.get(size_class(spec), STARTUP)
        return Work(spec, 0, "", total, 0, every, SAVE, startup, restart_cost=0)

    def _occupying(self, job: Job, attempt: Attempt, work: Work, before: int) -> Running:
        """An attempt that holds GPUs, with its exit if it has come up, or is to stop."""
        assert attempt.started_at is not None
        running = Running(attempt.id, work, attempt.started_at, before, job.starts > 1, base=attempt.running_since)
        if attempt.running_since is not None:
            running.exit_at = max(self.begin + SECOND, attempt.running_since + work.runtime - before)
        stop = attempt.stop
        if stop is not None:
            running.stopped = True
            running.given_up = stop.because.reason in FINAL
            running.saves_at = stop.warn_at if job.spec.contract.resumable else None
            leaves = min(stop.warn_at + SAVE, stop.kill_at) if attempt.running_since is not None else stop.warn_at
            running.exit_at = min(running.exit_at or leaves, max(self.begin + SECOND, leaves))
        return running

    def _hosts(self) -> list[HostStateChanged]:
        found = []
        for name, cluster in self.state.clusters.items():
            for host, record in cluster.hosts.items():
                back = record.since + REPAIR
                if record.state is not HostState.HEALTHY and back > self.begin:
                    found.append(HostStateChanged(back, name, host, HostState.HEALTHY, "forecast", "repair"))
        return found

    # ---- what people will submit

    def _arrivals(self, rng: Random, until: int) -> list[Arrival]:
        """Each person does in the next days what they did on one of the last, at the same times of the day."""
        oldest = self.past.sent[0].at if self.past.sent else self.begin
        days = min(HABITS, self.begin - oldest) // DAY
        found = []
        for ahead in range(-(-(until - self.begin) // DAY)):
            start = self.begin + ahead * DAY
            choices = [k for k in range(ahead + 1, days + 1) if _weekend(start) == _weekend(start - k * DAY)]
            choices = choices or list(range(ahead + 1, days + 1))
            if not choices:
                continue
            for user in sorted(self._people):
                back = rng.choice(choices) * DAY
                for sent in self._people[user]:
                    if start - back <= sent.at < start - back + DAY and sent.at + back <= until:
                        found.append(Arrival(sent.at + back, self._work(sent.spec, self._of_old(rng, sent))))
        return sorted(found, key=lambda arrival: arrival.at)

    def _of_old(self, rng: Random, sent: Sent) -> int:
        """How long what was submitted ran, if that is known."""
        known = self.past.total.get(sent.job_id)
        if known is not None:
            return known
        job = self.state.jobs.get(sent.job_id)
        return self.total(rng, sent.spec, self.so_far(job) if job is not None else 0)


def _weekend(at: int) -> bool:
    return datetime.fromtimestamp((at + DAY // 2) // 1000, UTC).weekday() >= 5
