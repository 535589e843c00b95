"""A trace in figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tenure.core.model import DAY, GPU, HOUR, SHARE_ONE
from tenure.reports.records import hours
from tenure.sim.traces.records import TraceJob

PERCENTILES = (10, 50, 90, 99)


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
class TeamFigures:
    team: str
    jobs: int
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class Figures:
    """``runtimes`` in ms and ``sizes`` in GPUs: percentile -> value, each job counting once. ``demand_over_supply`` is
    None without a number of GPUs. ``short``: the part of jobs below 10 min. ``teams``: the largest first.
    """

    jobs: int
    synthetic: int
    users: int
    days: float
    gpu_hours: float
    average_gpus: float
    demand_over_supply: float | None
    runtimes: dict[int, int]
    sizes: dict[int, int]
    largest: int
    short: float
    ends: dict[str, int]
    teams: tuple[TeamFigures, ...]


def describe(jobs: Iterable[TraceJob], span: int, gpus: int | None = None) -> Figures:
    """The figures of jobs that were submitted over ``span`` ms. Raises ValueError without any job."""
    jobs = list(jobs)
    if not jobs:
        raise ValueError("no jobs to describe")
    runtimes, sizes = sorted(job.runtime for job in jobs), sorted(job.gpus for job in jobs)
    ends: dict[str, int] = {}
    teams: dict[str, tuple[int, int]] = {}
    for job in jobs:
        ends[job.end.value] = ends.get(job.end.value, 0) + 1
        count, asked = teams.get(job.team, (0, 0))
        teams[job.team] = count + 1, asked + job.gpu_ms
    supply = Supply(sum(job.gpu_ms for job in jobs), span)
    return Figures(
        jobs=len(jobs),
        synthetic=sum(job.synthetic for job in jobs),
        users=len({(job.team, job.user) for job in jobs}),
        days=span / DAY,
        gpu_hours=hours(supply.asked * GPU),
        average_gpus=supply.average_gpus,
        demand_over_supply=supply.over(gpus) if gpus else None,
        runtimes={p: percentile(runtimes, p) for p in PERCENTILES},
        sizes={p: percentile(sizes, p) for p in PERCENTILES},
        largest=sizes[-1],
        short=sum(runtime < HOUR // 6 for runtime in runtimes) / len(jobs),
        ends=dict(sorted(ends.items())),
        teams=tuple(
            TeamFigures(team, count, hours(asked * GPU))
            for team, (count, asked) in sorted(teams.items(), key=lambda item: (-item[1][1], item[0]))
        ),
    )


def percentile(values: Sequence[int], p: int) -> int:
    """Of sorted values: the smallest that at least ``p`` percent of them do not exceed (nearest rank)."""
    return values[max(0, -(-len(values) * p // 100) - 1)]
