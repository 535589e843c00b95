"""What is summed up over the jobs of a trace, one after the other, in memory that is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

from tenure.core.model import DAY, HOUR, MINUTE
from tenure.reports.traces.records import HOURLY, LIMIT_STEP, TOP, Arrivals, Holder, Holders, Limits
from tenure.sim.traces.records import TraceJob
from tenure.sim.traces.sketch import Sketch

MOST_NAMES = 100_000
"""People, or teams, that are told apart; whoever comes after them is counted together."""
MOST_HOURS = 300_000
"""Hours with submissions that are told apart: 34 years."""
_LARGEST = 20
_POINTS = 200
_PER_DAY = DAY // HOUR
_MONDAY = 3
"""1970-01-01 was a Thursday, the fourth day from Monday."""


class Names:
    """People or teams by name."""

    def __init__(self) -> None:
        self._found: dict[str, list[int]] = {}
        self._uncounted = 0

    def add(self, name: str, gpu_ms: int) -> None:
        found = self._found.get(name)
        if found is not None:
            found[0] += 1
            found[1] += gpu_ms
        elif len(self._found) < MOST_NAMES:
            self._found[name] = [1, gpu_ms]
        else:
            self._uncounted += 1

    def holders(self) -> Holders:
        ranked = sorted(self._found.items(), key=lambda item: (-item[1][1], item[0]))
        sums = list(accumulate(gpu_ms for _, (_, gpu_ms) in ranked))
        total, count = (sums[-1] if sums else 0), len(ranked)

        def part(first: int) -> float:
            return sums[first - 1] / total if total else 0.0

        steps = sorted({max(1, -(-count * step // _POINTS)) for step in range(1, _POINTS + 1)}) if count else []
        return Holders(
            count=count,
            largest=tuple(Holder(name, *sums) for name, sums in ranked[:_LARGEST]),
            curve=((0.0, 0.0), *((first / count, part(first)) for first in steps)),
            top={p: part(max(1, -(-count * p // 100))) for p in TOP} if count else {},
            uncounted_jobs=self._uncounted,
        )


class Hours:
    """Submissions, by the hour."""

    def __init__(self) -> None:
        self._found: dict[int, list[int]] = {}
        self.uncounted = 0

    def add(self, at: int, gpu_ms: int) -> None:
        hour = at // HOUR
        found = self._found.get(hour)
        if found is not None:
            found[0] += 1
            found[1] += gpu_ms
        elif len(self._found) < MOST_HOURS:
            self._found[hour] = [1, gpu_ms]
        else:
            self.uncounted += 1

    def arrivals(self, dated: bool, start: int) -> Arrivals:
        """``start``: where the days begin, ms. Raises ValueError without any job."""
        hours = sorted(self._found)
        count = hours[-1] - hours[0] + 1
        jobs = [self._found[hour][0] for hour in hours]
        mean = sum(jobs) / count
        squares = sum((each - mean) ** 2 for each in jobs) + (count - len(jobs)) * mean**2
        grid = self._grid(dated, start)
        of_day = [sum(row[hour] for row in grid) for hour in range(_PER_DAY)]
        busiest = max(hours, key=lambda hour: (self._found[hour][0], -hour))
        gap, before = max(((b - a - 1, a) for a, b in pairwise(hours)), default=(0, hours[0]))
        return Arrivals(
            dated=dated,
            grid=tuple(map(tuple, grid)),
            steps=tuple(self._steps(start, HOUR if count * HOUR <= HOURLY else DAY)),
            hours=count,
            mean=mean,
            fano=squares / count / mean if count > 1 else None,
            peak_to_trough=max(of_day) / min(of_day) if count >= 2 * _PER_DAY and min(of_day) else None,
            weekend=_weekend(grid, hours) if dated else None,
            busiest=self._found[busiest][0],
            busiest_at=busiest * HOUR,
            silence=gap * HOUR,
            silence_at=(before + 1) * HOUR,
        )

    def _grid(self, dated: bool, start: int) -> list[list[int]]:
        grid = [[0] * _PER_DAY for _ in range(7)]
        for hour, (jobs, _) in self._found.items():
            since = hour if dated else hour - start // HOUR
            day, of_day = divmod(since, _PER_DAY)
            grid[(day + _MONDAY if dated else day) % 7][of_day] += jobs
        return grid

    def _steps(self, start: int, length: int) -> Iterator[tuple[int, int, int]]:
        found: dict[int, tuple[int, int]] = {}
        for hour, (jobs, gpu_ms) in self._found.items():
            step = (hour * HOUR - start) // length
            before = found.get(step, (0, 0))
            found[step] = before[0] + jobs, before[1] + gpu_ms
        for step in sorted(found):
            yield start + step * length, *found[step]


def _weekend(grid: list[list[int]], hours: list[int]) -> float | None:
    """Jobs an hour on Saturday and Sunday over those on other days; None without both."""
    inside = [0] * 7
    first, last = hours[0], hours[-1]
    for day in range(first // _PER_DAY, last // _PER_DAY + 1):
        begins, ends = max(first, day * _PER_DAY), min(last, day * _PER_DAY + _PER_DAY - 1)
        inside[(day + _MONDAY) % 7] += ends - begins + 1
    jobs = [sum(row) for row in grid]
    free, work = sum(inside[5:]), sum(inside[:5])
    if not free or not work or not sum(jobs[:5]):
        return None
    return (sum(jobs[5:]) / free) / (sum(jobs[:5]) / work)


class LimitTally:
    """What people asked for, and what they then ran."""

    def __init__(self) -> None:
        self._steps = [0] * (100 // LIMIT_STEP + 1)
        self._requested = Sketch()
        self._asked = self._ran = self._past = 0

    def add(self, job: TraceJob) -> None:
        limit = job.timeout
        if not limit:
            return
        over = job.runtime > limit + MINUTE  # Slurm looks twice a minute, and lets a job end
        self._past += over
        self._steps[-1 if over else min(job.runtime * 100 // (limit * LIMIT_STEP), len(self._steps) - 2)] += 1
        self._requested.add(limit, job.gpu_ms)
        self._asked += limit * job.gpus
        self._ran += job.gpu_ms

    def limits(self) -> Limits:
        used = self._ran / self._asked if self._asked else 0.0
        return Limits(sum(self._steps), tuple(self._steps), self._requested.distribution(), self._past, used)
