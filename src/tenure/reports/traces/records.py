"""A trace in figures. Times and durations are ms, GPU time is GPUs x ms; everything is frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from tenure.core.model import DAY, HOUR, MINUTE, SHARE_ONE

PERCENTILES = (10, 50, 90, 99)
SHORT = 10 * MINUTE
ENDED = ("completed", "failed", "cancelled", "timeout", "preempted", "host_failed", "running", "unknown")
"""How jobs may have ended, in the order in which it is shown."""
TOP = (1, 5, 10, 25)
"""Percent of the people, those with the most GPU time."""
SIZE_CLASSES = (("1 GPU", 1), ("2 to 8", 8), ("9 to 64", 64), ("over 64", None))
"""Name and the largest number of GPUs."""
HOURLY = 14 * DAY
"""What is no longer is shown in hours, not in days."""
LIMIT_STEP = 5
"""Percent of a limit: the width of a step of ``Limits.steps``."""


def size_class(gpus: int) -> str:
    """``2 to 8`` of 4 GPUs."""
    return next(name for name, most in SIZE_CLASSES if most is None or gpus <= most)


def files_told(files: Mapping[str, int]) -> str:
    """``LICENSE (2 files), notes.txt``: names of files, each once, and how many have it."""
    return ", ".join(name if count == 1 else f"{name} ({count:,} files)" for name, count in files.items())


def weekend_told(part: float) -> str:
    """``part``: jobs of a weekend day over those of another day."""
    return f"a weekend day has {100 * part:.0f} % of the jobs of a working day"


def earlier_told(jobs: int, gpu_ms: int) -> str:
    """What earlier runs of so many jobs held, as a sentence; '' without any."""
    if not jobs:
        return ""
    whose = "1 requeued or resized job" if jobs == 1 else f"{jobs:,} requeued or resized jobs"
    return (
        f"not in this: {gpu_ms / HOUR:,.1f} GPU-hours that earlier runs of {whose} held; of each, the last run counts"
    )


@dataclass(frozen=True, slots=True)
class Supply:
    """What a trace asks for: ``asked`` GPUs x ms, over ``span`` ms."""

    asked: int
    span: int

    @property
    def average_gpus(self) -> float:
        return self.asked / self.span

    def over(self, gpus: int) -> float:
        """Demand over the supply of so many GPUs."""
        return self.asked / (self.span * gpus)

    def gpus_for(self, demand: int, gpus_per_host: int = 8) -> int:
        """GPUs of the whole hosts, at least one, that come closest to a demand over supply of ``demand`` ppm."""
        per_host = self.span * gpus_per_host * demand
        return max(1, (2 * self.asked * SHARE_ONE + per_host) // (2 * per_host)) * gpus_per_host


@dataclass(frozen=True, slots=True)
class Bin:
    """Jobs whose values lie from ``least`` to ``most``, both of them values that occur."""

    least: int
    most: int
    jobs: int
    gpu_ms: int

    @property
    def value(self) -> int:
        """Stands for all of them: within 1 % of each."""
        return (self.least + self.most) // 2


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of one value a job; ``bins`` ascending. Percentiles are within 1 %, and exact where a bin has one value."""

    bins: tuple[Bin, ...]

    @property
    def jobs(self) -> int:
        return sum(one.jobs for one in self.bins)

    @property
    def gpu_ms(self) -> int:
        return sum(one.gpu_ms for one in self.bins)

    @property
    def most(self) -> int:
        """Exact. Raises IndexError without any job."""
        return self.bins[-1].most

    @property
    def least(self) -> int:
        """Exact. Raises IndexError without any job."""
        return self.bins[0].least

    def percentile(self, p: int, *, by_gpu_time: bool = False) -> int:
        """The smallest value that at least ``p`` percent of the jobs, or of their GPU time, do not exceed.

        Raises IndexError without any job.
        """
        weights = [one.gpu_ms if by_gpu_time else one.jobs for one in self.bins]
        needed = max(1, -(-sum(weights) * p // 100))
        for one, reached in zip(self.bins, accumulate(weights), strict=True):
            if reached >= needed:
                return one.value
        return self.bins[-1].most

    def part_up_to(self, value: int, *, by_gpu_time: bool = False) -> float:
        """The part of the jobs, or of their GPU time, at or below ``value``: bins count whole, by their middle."""
        total = self.gpu_ms if by_gpu_time else self.jobs
        below = sum(one.gpu_ms if by_gpu_time else one.jobs for one in self.bins if one.value <= value)
        return below / total if total else 0.0


@dataclass(frozen=True, slots=True)
class Holder:
    """A person or a team."""

    name: str
    jobs: int
    gpu_ms: int


@dataclass(frozen=True, slots=True)
class Holders:
    """People, or teams. ``largest``: those with the most GPU time, first. ``curve``: (part of them, the largest first;
    part of the GPU time that these hold). ``top``: percent of them -> part of the GPU time; at least one of them.

    ``uncounted_jobs``: of names that came when there were too many to keep; they are in no other figure here.
    """

    count: int
    largest: tuple[Holder, ...]
    curve: tuple[tuple[float, float], ...]
    top: dict[int, float]
    uncounted_jobs: int = 0


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Submissions. ``grid``: 7 rows of 24 counts, from Monday 00:00 UTC, or without dates from the trace's zero on.
    ``steps``: (start of an hour or, over more than ``HOURLY``, of a day; jobs; GPU time that they ask for); those in
    which nothing came are left out.

    ``hours``: from the first submission to the last, both counted. ``fano``: variance of the jobs an hour over their
    mean; 1 if people came at random. ``peak_to_trough``: of the hours of the day. ``weekend``: jobs on a day of the
    weekend over those on another day. Each is None where there is nothing to compare. ``busiest``: the most in an hour.
    ``silence``: the longest time without a whole submission hour, ms, and its start.
    """

    dated: bool
    grid: tuple[tuple[int, ...], ...]
    steps: tuple[tuple[int, int, int], ...]
    hours: int
    mean: float
    fano: float | None
    peak_to_trough: float | None
    weekend: float | None
    busiest: int
    busiest_at: int
    silence: int
    silence_at: int

    @property
    def by_hour(self) -> tuple[int, ...]:
        return tuple(sum(row[hour] for row in self.grid) for hour in range(24))

    @property
    def by_day(self) -> tuple[int, ...]:
        return tuple(sum(row) for row in self.grid)


@dataclass(frozen=True, slots=True)
class Limits:
    """Requested limits against runtimes. ``jobs``: with a limit. ``steps``: jobs by the part of their limit that they
    ran, in steps of 5 %; the last one is beyond the limit. ``requested``: the limits. ``past``: ran more than a minute
    longer. ``used``: runtimes over limits, both times GPUs.
    """

    jobs: int
    steps: tuple[int, ...]
    requested: Distribution
    past: int
    used: float

    def part_used(self, part: int) -> float:
        """The part of the jobs that ran for less than ``part`` percent of their limit, in whole steps."""
        return sum(self.steps[: part // LIMIT_STEP]) / self.jobs if self.jobs else 0.0


@dataclass(frozen=True, slots=True)
class Source:
    """Where it comes from, and what became of each row: ``rows`` = ``kept`` + left out + bad. ``complete``: False where
    reading was broken off. ``cut``: the window that was asked for, as written. ``skipped_files``: of another kind.
    """

    name: str
    format: str
    complete: bool
    cut: str | None
    rows: int
    kept: int
    outside: int
    left_out: dict[str, int]
    bad: dict[str, int]
    oddities: dict[str, int]
    examples: tuple[str, ...]
    skipped_files: dict[str, int]


@dataclass(frozen=True, slots=True)
class TraceFigures:
    """``jobs``: that were described, some of which may be ``synthetic``. ``start`` to ``start + span``: whole days, or
    the window; ms UTC where ``dated``, else from the trace's zero. ``first``, ``last``: submissions.

    ``gpus``: of the cluster that demand is compared with, or None. ``waits``: from the first submission to the first
    start, of the jobs whose trace tells. ``ends``: state -> (jobs, GPU time). ``short``: the part of the jobs that ran
    for less than 10 min. ``oddities``: what, how many. ``earlier``: GPU time that earlier runs of ``earlier_jobs``
    held, which is not in the demand: of a job, its last run counts.
    """

    source: Source
    jobs: int
    synthetic: int
    dated: bool
    start: int
    span: int
    first: int
    last: int
    gpus: int | None
    supply: Supply
    runtimes: Distribution
    sizes: Distribution
    waits: Distribution
    waits_by_size: dict[str, Distribution]
    limits: Limits
    people: Holders
    teams: Holders
    arrivals: Arrivals
    ends: dict[str, tuple[int, int]]
    short: float
    oddities: dict[str, int]
    earlier_jobs: int = 0
    earlier: int = 0

    @property
    def gpu_hours(self) -> float:
        return self.supply.asked / HOUR

    @property
    def days(self) -> float:
        return self.span / DAY

    @property
    def demand_over_supply(self) -> float | None:
        """Without a number of GPUs None."""
        return self.supply.over(self.gpus) if self.gpus else None

    @property
    def gpus_for_supply(self) -> dict[str, int]:
        """Demand over supply, ``1`` and ``2.5`` -> GPUs, in whole hosts of 8."""
        return {"1": self.supply.gpus_for(SHARE_ONE), "2.5": self.supply.gpus_for(5 * SHARE_ONE // 2)}

    @property
    def teamless(self) -> bool:
        """Whether people and teams are the same, which is so where the trace knows only one of them."""
        return self.people == self.teams

    @property
    def largest(self) -> int:
        """GPUs of the largest job."""
        return self.sizes.most
