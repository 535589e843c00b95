"""Makes estimates of all that waits, writes them down, and finds out how they came true. Times ms UTC."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from tenure.core import pickling
from tenure.core.model import DAY, HOUR, JobSpec
from tenure.core.state import Job, State
from tenure.engine.clock import Anchor, Clock
from tenure.forecast.follow import Follower
from tenure.forecast.forward import Forward
from tenure.forecast.guesses import Guesses
from tenure.forecast.past import Past
from tenure.forecast.ranges import COVERAGE_PERCENT, JUDGED, SETTLED, Calibration, Judged, Range, base
from tenure.forecast.sorts import SIZE_CLASSES, could_start, size_class
from tenure.store import EstimateRow, Store

log = structlog.get_logger()
pickling.register()

HORIZON = 2 * DAY
"""Nothing is said of what is further away."""
SCENARIOS = 16
LEAST_SCENARIOS = 4
"""Each may cost a part of the whole that lets so many be run."""
_SAME_PART = 20
"""An end of a range that moved by no more than such a part of what it is away is where it was."""
_JUDGED_AT_MOST = 500
"""Past estimates of each size class that new ones are widened by, the newest."""


def waiting(state: State) -> list[Job]:
    """Jobs that could start by themselves: queued or claiming. Held by nobody, and waiting neither for other jobs to
    end nor for a place in their array's throttle: of these nothing is said.
    """
    return [job for job in state.jobs.values() if could_start(state, job)]


def _holds_gpus(job: Job) -> bool:
    return job.attempt is not None and job.attempt.started_at is not None


def foresee(
    state: State, past: Past, now: int, spend_s: float, *, horizon: int = HORIZON, scenarios: int = SCENARIOS
) -> dict[int, Range]:
    """Job that waits -> when it starts, as scenarios have it. ``state`` is read only.

    ``spend_s``: CPU time of this process that it may cost. What is not reached by then is later than what is.
    """
    wanted, until = [job.id for job in waiting(state)], now + horizon
    if not wanted:
        return {}
    began = time.process_time()
    kept, guesses = pickle.dumps(state), Guesses(state, past, now)
    starts: dict[int, list[int | None]] = {job_id: [] for job_id in wanted}
    reached = until
    for number in range(scenarios):
        left = spend_s - (time.process_time() - began)
        if left <= 0 and number:
            break
        copied: State = pickle.loads(kept)  # our own bytes
        ends = time.process_time() + max(0.0, min(left, spend_s / LEAST_SCENARIOS))
        forward = Forward(copied, guesses.scenario(f"{now}/{number}", until), now)
        seen = forward.run(wanted, until, lambda ends=ends: time.process_time() > ends)  # type: ignore[misc]
        for job_id in wanted:
            starts[job_id].append(seen.starts.get(job_id))
        if seen.unfinished:
            reached = min(reached, seen.reached)
    return {job_id: base(found, reached, now) for job_id, found in starts.items()}


def alike(new: Range, old: Range, now: int) -> bool:
    """Whether each end is where it was, but for a small part of what it is away. What may start may start."""

    def near(new: int | None, old: int | None) -> bool:
        if new is None or old is None:
            return new is old
        return abs(new - max(old, now)) * _SAME_PART <= new - now

    pairs = ((new.low, old.low), (new.likely, old.likely), (new.high, old.high), (new.until, old.until))
    return all(near(*pair) for pair in pairs)


@dataclass(slots=True)
class _Told:
    """What was written of a job that waits: its newest estimate, when it was made, and when the newest that stays."""

    newest: int
    stays: int
    said: Range


class Estimator:
    """``spend_s``: CPU time that a round may cost."""

    def __init__(self, store: Store, spend_s: float, clock: Callable[[Anchor | None], Clock] = Clock) -> None:
        self.store = store
        self.spend_s = spend_s
        self.follower = Follower(store, clock)
        self._told: dict[int, _Told] = {}
        self._take_over()

    def follow(self) -> bool:
        """Catch up with the scheduler; whether there are jobs that have no estimate yet."""
        starts, ended = self.follower.catch_up()
        self._came_true((start.job_id, start.at) for start in starts)
        wanted = {job.id for job in waiting(self.follower.state)}
        self._gone([*ended, *(self._told.keys() - wanted)])  # the latter cannot start by themselves any more
        return not wanted <= self._told.keys()

    def round(self) -> int:
        """Estimate everything that waits; returns how many jobs that were."""
        self.follow()
        state, now = self.follower.state, self.follower.now()
        found = foresee(state, self.follower.past, now, self.spend_s)
        if not found:
            return 0
        known = Calibration(self._judged(now), now)
        specs = {job_id: state.jobs[job_id].spec for job_id in found}
        rows = (self._row(job_id, specs[job_id], raw, known, now) for job_id, raw in found.items())
        self.store.write_estimates(row for row in rows if row is not None)
        return len(found)

    def _row(
        self, job_id: int, spec: JobSpec, raw: Range, known: Calibration, now: int
    ) -> tuple[EstimateRow, int | None] | None:
        """The row to write, and when the one that it replaces was made. None: what is there says nearly the same."""
        told = known.widened(raw, now, name := size_class(spec))
        before, stays = self._told.get(job_id), self._stays(job_id, now)
        if before is not None and not stays and alike(told, before.said, now):
            return None
        self._told[job_id] = _Told(now, now if before is None or stays else before.stays, told)
        row = EstimateRow(
            job_id=job_id,
            made_at=now,
            seq=self.follower.seq,
            size_class=name,
            low=told.low,
            likely=told.likely,
            high=told.high,
            until=told.until,
            raw_low=raw.low,
            raw_high=raw.high,
            percent=COVERAGE_PERCENT,
        )
        return row, before.newest if before is not None and before.newest != before.stays else None

    def _stays(self, job_id: int, now: int) -> bool:
        """The first estimate stays, and then one each time the wait has doubled: those are judged later."""
        before, queued_at = self._told.get(job_id), self.follower.state.jobs[job_id].queued_at
        return before is None or now - queued_at >= 2 * max(before.stays - queued_at, 0) + _FIRST

    def _judged(self, now: int) -> Iterable[Judged]:
        for name in SIZE_CLASSES:
            rows = self.store.past_estimates(now - JUDGED, now - SETTLED, name, _JUDGED_AT_MOST)
            for row in rows:
                raw = Range(row.raw_low, row.likely, row.raw_high, row.until)
                yield Judged(row.made_at, name, raw, row.started_at)

    def _came_true(self, starts: Iterable[tuple[int, int]]) -> None:
        known = [(job_id, at) for job_id, at in starts if self._told.pop(job_id, None) is not None]
        self.store.estimates_came_true(known)

    def _gone(self, ended: Iterable[int]) -> None:
        self.store.drop_estimates([job_id for job_id in ended if self._told.pop(job_id, None) is not None])

    def _take_over(self) -> None:
        """Go on with what an earlier process has told, and note what happened since it ended."""
        jobs: dict[int, _Told] = {}
        for row in self.store.open_estimates():
            said = Range(row.low, row.likely, row.high, row.until)
            told = jobs.setdefault(row.job_id, _Told(row.made_at, row.made_at, said))
            told.newest, told.said = row.made_at, said
        attempts = self.store.attempts_of_all(sorted(jobs))
        starts, gone = [], []
        for job_id, told in jobs.items():
            job = self.follower.state.jobs.get(job_id)
            started = [at for a in attempts.get(job_id, ()) if (at := a.started_at) is not None]
            later = [at for at in started if at >= told.stays]
            if later:
                starts.append((job_id, min(later)))
            elif job is None:
                gone.append(job_id)
            elif started and (job.queued_at > told.newest or _holds_gpus(job)):
                starts.append((job_id, max(started)))  # just before what was told of it, and seen by nobody
            else:
                told.stays = told.newest
                self._told[job_id] = told
        self.store.estimates_came_true(starts)
        self.store.drop_estimates(gone)


_FIRST = HOUR // 4
"""The second one that stays is made after so long."""
