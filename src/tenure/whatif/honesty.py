"""How far a re-run can be believed: the run as it is, beside what really happened.

The same rules, the same core, the same jobs: where the re-run differs from the past, that is the error of the method
(what nobody knows of jobs and machines), and a gain that is no larger is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenure.core.model import GPU, HOUR, MINUTE
from tenure.reports.metrics import share
from tenure.reports.records import JobRow, Run, hours
from tenure.units import counted, format_duration, format_gpu_time

WITHIN = (0, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR)
"""How far apart starts may be, ms."""
TOLD = 5 * MINUTE
"""What sentences are about."""
_SAID = f"{TOLD // MINUTE} min"
LEAST_TIME = GPU * HOUR
"""Of less GPU time, amount x ms, nobody can say whether a re-run is close."""
LEAST_HOURS = 0.5
MOST_NAMED = 12
LEAST_STARTS = 0.8
MOST_OFF = 0.05
"""A re-run is close when so many jobs start within ``TOLD``, and no more GPU time than this is in another budget."""


@dataclass(frozen=True, slots=True)
class Honesty:
    """``jobs``: those that started in either, but for such as did so in one only, minutes before the end. ``within``:
    how many of them started at most so many ms apart. GPU time in amount x ms, by budget: really, and in the re-run.
    ``person``: the most that a person's is apart.
    """

    jobs: int
    within: dict[int, int]
    real: dict[str, int]
    rerun: dict[str, int]
    evictions: tuple[int, int]
    person: int = 0

    @property
    def off(self) -> int:
        """GPU time that is in another budget than it really was, or in none; or in none really, and in one here."""
        apart = [self.rerun.get(name, 0) - self.real.get(name, 0) for name in {*self.real, *self.rerun}]
        # What has gone from one budget to another is more in the one and less in the other, and counts once.
        return max(sum(one for one in apart if one > 0), -sum(one for one in apart if one < 0))

    @property
    def starts(self) -> float:
        """The part of the jobs that started within ``TOLD``; 1 of none."""
        return self.within[TOLD] / self.jobs if self.jobs else 1.0

    @property
    def close(self) -> bool:
        whole = sum(self.real.values())
        return self.starts >= LEAST_STARTS and (self.off <= MOST_OFF * whole)

    @property
    def worst(self) -> tuple[str, int] | None:
        """The budget that is furthest off, and by how much GPU time; None when none is."""
        names = sorted({*self.real, *self.rerun})
        most = max(names, key=lambda name: abs(self.rerun.get(name, 0) - self.real.get(name, 0)), default=None)
        if most is None or self.rerun.get(most, 0) == self.real.get(most, 0):
            return None
        return most, self.rerun.get(most, 0) - self.real.get(most, 0)

    def _most(self) -> int:
        """GPU time by which the worst budget is off."""
        return abs(self.worst[1]) if self.worst is not None else 0

    def plain(self) -> dict[str, Any]:
        """JSON-ready: GPU-hours, shares of 1, durations as people write them."""
        return {
            "close": self.close,
            "jobs_started": self.jobs,
            "person_gpu_hours_apart": round(hours(self.person), 3),
            "started_within": {_written(limit): share(count, self.jobs) for limit, count in self.within.items()},
            "evictions": {"really": self.evictions[0], "as_it_is": self.evictions[1]},
            "budgets": [
                {
                    "budget": name,
                    "really_gpu_hours": round(hours(self.real.get(name, 0)), 3),
                    "as_it_is_gpu_hours": round(hours(self.rerun.get(name, 0)), 3),
                }
                for name in sorted({*self.real, *self.rerun})
            ],
        }

    def line(self) -> str:
        """What readers have to know first."""
        whole = sum(self.real.values())
        said = f"Run again as it is, {self._of_starts()}, and {self._of_time(whole)}"
        if self.close:
            return f"{said}. Differences that are no larger say nothing."
        if whole < LEAST_TIME:
            return f"{said}. All jobs together used {format_gpu_time(whole)}: too little to tell how close that is."
        if self.off <= MOST_OFF * whole:
            return (
                f"{said}. So what budgets get can be believed, and when a single job starts cannot: on a full "
                "cluster what differs a little early on differs much later."
            )
        return f"{said}. That is not close: take what follows as a hint and not as a figure."

    def _of_starts(self) -> str:
        if not self.jobs:
            return "there is no start to compare"
        return f"{100 * self.starts:.0f} % of {counted(self.jobs, 'job')} start within {_SAID} of when they really did"

    def _of_time(self, whole: int) -> str:
        """``whole``: the GPU time that all budgets really got together."""
        worst = self.worst
        if worst is None:
            return "every budget gets exactly the GPU time that it really got"
        if not whole:
            return f"budgets get {format_gpu_time(self.off)}, and really got none ({worst[0]}: {_more(worst[1])})"
        return (
            f"{100 * self.off / whole:.1f} % of the GPU time is in another budget than it was "
            f"({worst[0]}: {_more(worst[1])})"
        )

    def chance(self, gained: dict[str, float], honest: Honesty | None = None) -> list[str]:
        """What to say when the two are the run as it is and the same a moment later. ``gained``: budget -> GPU-hours
        that it gets more with a change. ``honest``: the run as it is beside what really happened, if that is known:
        what it is off by is no more certain.
        """
        most, off = self._most(), honest._most() if honest is not None else 0
        moved = f"{100 * (1 - self.starts):.0f} % of the jobs start more than {_SAID} sooner or later"
        said = (
            f"With everything that people did and every start a moment later, and nothing else changed, {moved}, and "
            f"no budget gets over {format_gpu_time(most)} more or less, and nobody over "
            f"{format_gpu_time(abs(self.person))}. Changes of that size are chance."
        )
        if off > most:
            said += f" So are those of budgets up to {format_gpu_time(off)}, by which the run as it is is off."
        least = max(hours(max(most, off)), LEAST_HOURS)
        beyond = sorted((pair for pair in gained.items() if abs(pair[1]) > least), key=lambda pair: -abs(pair[1]))
        if not beyond:
            return [said, "No budget gains or loses more GPU time than that."]
        named = ", ".join(f"{name} {more:+,.0f}" for name, more in beyond[:MOST_NAMED])
        rest = f" and {len(beyond) - MOST_NAMED} more" if len(beyond) > MOST_NAMED else ""
        return [said, f"Beyond chance, in GPU-hours: {named}{rest}."]


def _more(amount_ms: int) -> str:
    """``+2.4 GPU-hours``, ``-12 GPU-minutes``."""
    return ("+" if amount_ms > 0 else "") + format_gpu_time(amount_ms)


def _written(limit: int) -> str:
    return format_duration(limit) if limit else "0s"


def honesty(real: Run, rerun: Run, *, net: bool = False) -> Honesty:
    """Both from the same moment; what happened after the re-run's end does not count. ``net``: without lost work."""
    since, until = rerun.start, rerun.until
    before, now = ({row.id: row for row in run.jobs} for run in (real, rerun))
    apart: list[int | None] = []
    for job_id in before.keys() | now.keys():
        starts = [_start(rows.get(job_id), since, until) for rows in (before, now)]
        if any(start is not None for start in starts):
            really, again = starts
            if (really is None or again is None) and until - (really or again or 0) < TOLD:
                continue  # nobody knows: the other run ends before it could be far off
            apart.append(None if really is None or again is None else abs(again - really))
    within = {limit: sum(one is not None and one <= limit for one in apart) for limit in WITHIN}
    evictions = tuple(sum(row.at <= until for row in run.evictions) for run in (real, rerun))
    budgets, people = ([_used(run, until, net, by) for run in (real, rerun)] for by in ("budget", "user"))
    person = max((abs(people[1].get(name, 0) - people[0].get(name, 0)) for name in {*people[0], *people[1]}), default=0)
    return Honesty(len(apart), within, budgets[0], budgets[1], (evictions[0], evictions[1]), person)


def _start(row: JobRow | None, since: int, until: int) -> int | None:
    """The first start, if it was within the time that was run again."""
    if row is None or row.started is None or not since <= row.started <= until:
        return None
    return row.started


def _used(run: Run, until: int, net: bool, by: str) -> dict[str, int]:
    """Budget, or user -> GPU time from the beginning of the run to ``until``."""
    found: dict[str, int] = {}
    for row in run.attempts:
        end = until if row.ended is None else min(row.ended, until)
        time = row.amount * max(0, end - max(row.started, run.start))
        if net and row.ended is not None and row.ended <= until:
            time -= row.lost
        if time:
            name = getattr(row, by)
            found[name] = found.get(name, 0) + time
    return found
