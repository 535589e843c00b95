"""What somebody sets out to do: tries, launches that fail at once, and a real launch, with their true durations."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from functools import cache
from math import log, log2
from random import Random

from tenure.core.model import MINUTE, SECOND
from tenure.sim.researchers.lab import Habits
from tenure.sim.researchers.mix import FALSE_START_ENDS, PUBLISHED_LARGEST, TRY_ENDS, Choice, Ends, Kind

HOST = 8
"""GPUs up to which published sizes are taken as they are."""


class Part(Enum):
    TRY = "try"
    FALSE_START = "false start"
    REAL = "real"


class End(Enum):
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


def choice_of(ends: Ends) -> Choice[End]:
    return Choice(((End.COMPLETED, ends.completed), (End.CANCELLED, ends.cancelled), (End.FAILED, ends.failed)))


TRY_END = choice_of(TRY_ENDS)
FALSE_START_END = choice_of(FALSE_START_ENDS)


@dataclass(frozen=True, slots=True)
class Run:
    """One job to be. ``duration``: how long it will run; ``planned``: how long its owner expects. ms."""

    kind: Kind
    part: Part
    gpus: int
    duration: int
    planned: int
    end: End
    resumable: bool


@dataclass(slots=True)
class Plan:
    """Steps one after another, each a number of jobs at once. The next step waits for the end of the one before."""

    steps: deque[tuple[Run, ...]]

    @property
    def gpu_ms(self) -> int:
        return sum(run.gpus * run.duration for step in self.steps for run in step)


def power_below(gpus: float) -> int:
    """The largest power of two that is at most this, and at least 1."""
    return 1 << max(0, int(log2(max(1.0, gpus))))


class Planner:
    """Draws plans for people whose largest gang is ``limit`` GPUs and whose largest launch of several jobs is
    about ``launch_gpus``, on a cluster where ``large`` GPUs are many.
    """

    def __init__(self, kinds: tuple[Kind, ...], habits: Habits, limit: int, launch_gpus: int, large: int) -> None:
        self.habits = habits
        self.kinds = {kind.name: kind for kind in kinds}
        self.sizes = {kind.name: Choice(kind.sizes) for kind in kinds}
        self.ends = {kind.name: choice_of(kind.ends) for kind in kinds}
        self.limit = limit
        self.launch_gpus = launch_gpus
        self.large = large
        self.stretch = log2(max(HOST, limit) / HOST) / log2(PUBLISHED_LARGEST / HOST)

    def plan(self, rng: Random, kind: Kind, charged: bool) -> Plan:
        """Everything from the first try to the real launch."""
        size = self._size(rng, kind)
        steps: deque[tuple[Run, ...]] = deque()
        if charged:
            tries = _some(rng, kind.tries)
            for i in range(tries):
                steps.append((self._try(rng, kind, size, last=i + 1 == tries),))
            for _ in range(_some(rng, kind.false_starts)):
                steps.append((self._false_start(rng, kind, size),))
        steps.append(self.launch(rng, kind, charged, size))
        return Plan(steps)

    def launch(self, rng: Random, kind: Kind, charged: bool, size: int | None = None) -> tuple[Run, ...]:
        """The last step of a plan alone."""
        gpus = self._at_once(kind, size if size is not None else self._size(rng, kind), charged)
        resumable = rng.random() < kind.resumable
        count = min(1 + _some(rng, self._sweep(kind, charged) - 1), self._most(gpus))
        return tuple(self._real(rng, kind, charged, gpus, resumable) for _ in range(count))

    def mended(self, rng: Random, run: Run) -> Plan:
        """After a failure that cost hours: one try, then the launch again."""
        launch = self._real(rng, run.kind, True, run.gpus, run.resumable)
        return Plan(deque(((self._try(rng, run.kind, run.gpus, last=True),), (launch,))))

    def expected(self, kind: Kind, charged: bool) -> float:
        """GPU-ms of a plan, on average."""
        short, real = means(kind, self.habits, charged)
        total = 0.0
        weight = sum(w for _, w in kind.sizes)
        for published, w in kind.sizes:
            for size, part in self._spread(published):
                gpus = self._at_once(kind, size, charged)
                one = self._large_mean() if charged and self._is_long(kind, gpus) else real
                time = gpus * _mean_up_to(self._sweep(kind, charged), self._most(gpus)) * one
                if charged:
                    time += kind.tries * min(HOST, gpus) * short + kind.false_starts * gpus * short
                total += w / weight * part * time
        return total

    # ---- sizes

    def _at_once(self, kind: Kind, gpus: int, charged: bool) -> int:
        """Long kinds are unallocated work only as runs of moderate size."""
        return gpus if charged or not kind.long else min(gpus, max(HOST, self.large // 4))

    def _most(self, gpus: int) -> int:
        """Jobs of this size in one launch."""
        return max(1, self.launch_gpus // max(gpus // 2, HOST // 2))

    def _sweep(self, kind: Kind, charged: bool) -> float:
        """The mean number of jobs of a launch: people with much work do more of it at once."""
        return kind.charged_sweep if charged else kind.sweep * max(1.0, self.launch_gpus / (8 * HOST))

    def _spread(self, published: int) -> tuple[tuple[int, float], ...]:
        """A published size on this cluster: (power of two, probability)."""
        if published <= HOST:
            gpus = min(published, self.limit)
            return ((gpus, 1.0),)
        exponent = log2(HOST) + self.stretch * log2(published / HOST)
        low = int(exponent)
        gpus, more = 1 << low, exponent - low
        if more == 0 or gpus * 2 > self.limit:
            return ((min(gpus, self.limit), 1.0),)
        return ((gpus, 1 - more), (gpus * 2, more))

    def _size(self, rng: Random, kind: Kind) -> int:
        return Choice(self._spread(self.sizes[kind.name].draw(rng))).draw(rng)

    # ---- runs

    def _try(self, rng: Random, kind: Kind, size: int, *, last: bool) -> Run:
        kind = self.kinds.get(kind.tries_as, kind)
        duration = kind.duration.draw(rng, longest=self.habits.try_max / SECOND)
        end = End.COMPLETED if last else TRY_END.draw(rng)
        return Run(kind, Part.TRY, min(HOST, size), duration, _planned(rng, duration, end), end, False)

    def _false_start(self, rng: Random, kind: Kind, gpus: int) -> Run:
        duration = kind.duration.draw(rng, longest=self.habits.try_max / SECOND)
        planned = self._lasting(rng, kind, gpus)
        return Run(kind, Part.FALSE_START, gpus, duration, max(planned, duration), FALSE_START_END.draw(rng), True)

    def _real(self, rng: Random, kind: Kind, charged: bool, gpus: int, resumable: bool) -> Run:
        duration = self._lasting(rng, kind, gpus) if charged and kind.tries else kind.duration.draw(rng)
        end = self.ends[kind.name].draw(rng)
        planned = _planned(rng, duration, end)
        return Run(kind, Part.REAL, gpus, duration, planned, end, resumable or planned > self.habits.saved_from)

    def _lasting(self, rng: Random, kind: Kind, gpus: int) -> int:
        """A duration beyond that of tries."""
        habits = self.habits
        if not self._is_long(kind, gpus):
            return kind.duration.draw(rng, shortest=habits.try_max / SECOND)
        drawn = rng.lognormvariate(log(habits.large_median), habits.large_sigma)
        return int(min(max(drawn, habits.large_min), habits.large_max)) // MINUTE * MINUTE

    def _is_long(self, kind: Kind, gpus: int) -> bool:
        return kind.long and gpus >= self.large

    def _large_mean(self) -> float:
        return _large_mean(self.habits)


@cache
def _large_mean(habits: Habits) -> float:
    rng = Random(0)
    drawn = (rng.lognormvariate(log(habits.large_median), habits.large_sigma) for _ in range(2000))
    return sum(min(max(one, habits.large_min), habits.large_max) for one in drawn) / 2000


@cache
def means(kind: Kind, habits: Habits, charged: bool) -> tuple[float, float]:
    """Mean durations of a try and of a real run that is not large, ms."""
    cut = kind.duration.at(habits.try_max / SECOND)
    start = cut if charged and kind.tries else 0.0
    steps = 500
    short = sum(kind.duration.quantile(cut * (i + 0.5) / steps) for i in range(steps)) / steps
    real = sum(kind.duration.quantile(start + (1 - start) * (i + 0.5) / steps) for i in range(steps)) / steps
    return short * SECOND, real * SECOND


def _planned(rng: Random, duration: int, end: End) -> int:
    """What its owner expects it to take: it would have gone on when it failed or was cancelled."""
    return duration if end is End.COMPLETED else int(duration * rng.uniform(1.3, 4.0)) // SECOND * SECOND


def _some(rng: Random, mean: float) -> int:
    """A geometric number from 0 with this mean."""
    if mean <= 0:
        return 0
    return int(log(1.0 - rng.random()) / log(mean / (1.0 + mean)))


def _mean_up_to(mean: float, most: int) -> float:
    """The mean of one more than a geometric number, ``mean`` in all, when it is cut at ``most``."""
    on = 1 - 1 / mean
    return (1 - on**most) * mean
