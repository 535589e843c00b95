"""How long jobs waited, and how often they were evicted, by class.

A wait runs from the submission to the first GPUs (*to the start*) or to the first plan (*to the decision*, without the
grace of whoever is evicted). Jobs that never started count with the wait they had when they were cancelled or the run
ended: a lower bound, so their number is given beside the figures. Only jobs submitted after the warm-up count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tenure.core.model import MINUTE
from tenure.reports.owed import measured_from
from tenure.reports.records import JobRow, Run

DEBUG_GPUS = 8
DEBUG_RUNTIME = 15 * MINUTE
LARGE_GPUS = 128

DEBUG, MID, LARGE, UNFUNDED = "debug", "mid", "large", "unfunded"
CLASSES = (DEBUG, MID, LARGE, UNFUNDED)
"""Every job is in exactly one."""
FUNDED, EVERY = "funded", "every"
GROUPS = {
    DEBUG: (DEBUG,),
    MID: (MID,),
    LARGE: (LARGE,),
    FUNDED: (DEBUG, MID, LARGE),
    UNFUNDED: (UNFUNDED,),
    EVERY: CLASSES,
}
"""What waits are given for: classes, all funded jobs, and all jobs."""
PERCENTILES = (50, 90, 99)


def class_of(job: JobRow) -> str:
    """``debug``: funded, at most 8 GPUs and 15 min; ``large``: funded, 128 GPUs and more; ``mid``; ``unfunded``."""
    if not job.funded:
        return UNFUNDED
    if job.gpus >= LARGE_GPUS:
        return LARGE
    return DEBUG if job.gpus <= DEBUG_GPUS and job.min_runtime <= DEBUG_RUNTIME else MID


@dataclass(slots=True)
class Waits:
    """Of one group of jobs, ms, ascending. ``never_started``: how many of them are lower bounds."""

    to_start: list[int] = field(default_factory=list)
    to_decision: list[int] = field(default_factory=list)
    never_started: int = 0


def waits(run: Run) -> dict[str, Waits]:
    """Group (see ``GROUPS``) -> the waits of its jobs."""
    since = measured_from(run)
    by_class = {name: Waits() for name in CLASSES}
    for job in run.jobs:
        if job.submitted < since:
            continue
        found = by_class[class_of(job)]
        gave_up = job.ended if job.ended is not None else run.until
        found.to_start.append((gave_up if job.started is None else job.started) - job.submitted)
        decided = job.started if job.decided is None else job.decided
        found.to_decision.append((gave_up if decided is None else decided) - job.submitted)
        found.never_started += job.started is None
    return {group: _join(by_class[name] for name in names) for group, names in GROUPS.items()}


def _join(parts: Iterable[Waits]) -> Waits:
    joined = Waits()
    for part in parts:
        joined.to_start += part.to_start
        joined.to_decision += part.to_decision
        joined.never_started += part.never_started
    joined.to_start.sort()
    joined.to_decision.sort()
    return joined


def percentile(ascending: list[int], percent: int) -> int | None:
    """The nearest rank: the least value that at least ``percent`` % of the values do not exceed. None of none."""
    if not ascending:
        return None
    return ascending[max(1, -(-percent * len(ascending) // 100)) - 1]


@dataclass(slots=True)
class Evictions:
    """After the warm-up. ``counts``: class -> reason code -> evictions. ``started``: class -> first starts of jobs."""

    counts: dict[str, dict[str, int]]
    started: dict[str, int]

    def of(self, *classes: str) -> int:
        return sum(sum(self.counts[name].values()) for name in classes)

    def starts(self, *classes: str) -> int:
        return sum(self.started[name] for name in classes)

    def by_reason(self) -> dict[str, int]:
        reasons: dict[str, int] = {}
        for counts in self.counts.values():
            for reason, count in counts.items():
                reasons[reason] = reasons.get(reason, 0) + count
        return dict(sorted(reasons.items()))


def evictions(run: Run) -> Evictions:
    """Evictions and first starts after the warm-up, whenever the jobs were submitted."""
    since = measured_from(run)
    classes = {job.id: class_of(job) for job in run.jobs}
    counts: dict[str, dict[str, int]] = {name: {} for name in CLASSES}
    for row in run.evictions:
        if row.at >= since:
            of_class = counts[classes[row.job_id]]
            of_class[row.because] = of_class.get(row.because, 0) + 1
    started = dict.fromkeys(CLASSES, 0)
    for job in run.jobs:
        if job.started is not None and job.started >= since:
            started[classes[job.id]] += 1
    return Evictions({name: dict(sorted(of_class.items())) for name, of_class in counts.items()}, started)
