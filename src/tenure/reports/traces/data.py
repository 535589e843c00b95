"""A trace's figures as data for JSON, and its distributions in steps that people read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.reports.traces.records import HOURLY, PERCENTILES, SHORT, Distribution, Holders, TraceFigures
from tenure.units import format_time

DURATIONS = (
    ("under 1 min", MINUTE),
    ("1 to 10 min", SHORT),
    ("10 to 60 min", HOUR),
    ("1 to 6 h", 6 * HOUR),
    ("6 to 24 h", DAY),
    ("1 to 7 d", 7 * DAY),
    ("over 7 d", None),
)
"""Name, and where the next step begins."""
DURATION_EDGES = tuple(below for _, below in DURATIONS if below is not None)
SIZE_EDGES = tuple((1 << power) + 1 for power in range(40))
"""Where steps begin. A distribution whose bins end there has in each step what belongs there, whatever is rounded."""
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PARTS_OF_LIMIT = (10, 50, 90)
_HOURS = tuple(hours * HOUR for hours in (1, 2, 3, 4, 6, 8, 12))
_MOST_HOURS = 72


@dataclass(frozen=True, slots=True)
class Step:
    """``jobs`` and ``gpu_time``: parts of all."""

    name: str
    jobs: float
    gpu_time: float


def duration_steps(found: Distribution) -> list[Step]:
    """From under a minute to over a week. Exact where bins of the distribution end at ``DURATION_EDGES``."""
    return list(_steps(found, DURATIONS))


def size_steps(found: Distribution) -> list[Step]:
    """By powers of two, up to the largest job. Exact where bins of the distribution end at ``SIZE_EDGES``."""
    steps: list[tuple[str, int | None]] = [("1", 2), ("2", 3)]
    most = 2
    while found.bins and most < found.most:
        steps.append((f"{most + 1:,} to {2 * most:,}", 2 * most + 1))
        most *= 2
    return list(_steps(found, tuple(steps)))


def _steps(found: Distribution, steps: tuple[tuple[str, int | None], ...]) -> Iterator[Step]:
    jobs, gpu_ms = found.jobs or 1, found.gpu_ms or 1
    least = 0
    for name, below in steps:
        inside = [one for one in found.bins if one.value >= least and (below is None or one.value < below)]
        yield Step(name, sum(one.jobs for one in inside) / jobs, sum(one.gpu_ms for one in inside) / gpu_ms)
        least = below or least


def squeezed(figures: TraceFigures, most: int) -> tuple[int, list[tuple[int, int]]]:
    """The span in at most ``most`` steps, with the jobs and the GPU time that came in each: steps of whole days, and of
    hours, at most some 70, where it is short.

    Returns the length of a step, ms, and the steps.
    """
    span = max(figures.span, 1)
    days = -(-span // DAY)
    width = -(-days // most) * DAY
    if span <= HOURLY:
        width = next((each for each in _HOURS if -(-span // each) <= min(most, _MOST_HOURS)), width)
    count = -(-span // width)
    jobs, gpu_ms = [0] * count, [0] * count
    for at, came, asked in figures.arrivals.steps:
        step = min(max(0, (at - figures.start) // width), count - 1)
        jobs[step] += came
        gpu_ms[step] += asked
    return width, list(zip(jobs, gpu_ms, strict=True))


def days_shown(figures: TraceFigures) -> tuple[str, ...]:
    """Names of the rows of ``Arrivals.grid``."""
    return WEEKDAYS if figures.dated else tuple(f"day {day} of 7" for day in range(1, 8))


def moment(figures: TraceFigures, at: int) -> str:
    """``2026-10-09T12:00:00Z``, or without dates ``day 3, 14:00``."""
    if figures.dated:
        return format_time(at)
    day, rest = divmod(at, DAY)
    return f"day {day + 1}, {rest // HOUR:02}:{rest % HOUR // MINUTE:02}"


def as_data(figures: TraceFigures) -> dict[str, Any]:
    """Plain data: ``_s`` are seconds, ``_part`` parts of a whole. Times are RFC 3339, or without dates seconds."""
    return {
        **_account(figures),
        "start": _at(figures, figures.start),
        "days": figures.days,
        "first_submission": _at(figures, figures.first),
        "last_submission": _at(figures, figures.last),
        "demand": {
            "gpu_hours": round(figures.gpu_hours, 3),
            "average_gpus": round(figures.supply.average_gpus, 3),
            "gpus": figures.gpus,
            "over_supply": figures.demand_over_supply,
            "gpus_for": figures.gpus_for_supply,
            "not_in_it": {
                "jobs_that_ran_before": figures.earlier_jobs,
                "gpu_hours_of_earlier_runs": round(figures.earlier / HOUR, 3),
            },
        },
        "duration": {
            **_percentiles(figures.runtimes, SECOND, "_s"),
            "under_10_min_part": figures.short,
            "steps": _plain(duration_steps(figures.runtimes)),
        },
        "gpus": {**_percentiles(figures.sizes, 1, ""), "steps": _plain(size_steps(figures.sizes))},
        "people": _holders(figures.people),
        "teams": _holders(figures.teams),
        "arrivals": _arrivals(figures),
        "ends": {
            name: {"jobs": jobs, "gpu_hours": round(gpu_ms / HOUR, 3)} for name, (jobs, gpu_ms) in figures.ends.items()
        },
        "waits": {
            name: _percentiles(found, SECOND, "_s")
            for name, found in {"all": figures.waits, **figures.waits_by_size}.items()
            if found.bins
        },
        "limits": _limits(figures),
    }


def _at(figures: TraceFigures, ms: int) -> str | int:
    return format_time(ms) if figures.dated else ms // SECOND


def _account(figures: TraceFigures) -> dict[str, Any]:
    source = figures.source
    return {
        "name": source.name,
        "format": source.format,
        "complete": source.complete,
        "cut": source.cut,
        "rows": source.rows,
        "jobs": figures.jobs,
        "synthetic_jobs": figures.synthetic,
        "jobs_outside_cut": source.outside,
        "left_out": source.left_out,
        "bad_rows": source.bad,
        "bad_row_examples": list(source.examples),
        "files_of_another_kind": source.skipped_files,
        "oddities": figures.oddities,
    }


def _arrivals(figures: TraceFigures) -> dict[str, Any]:
    found = figures.arrivals
    return {
        "jobs_per_hour": found.mean,
        "hourly_fano_factor": found.fano,
        "peak_to_trough": found.peak_to_trough,
        "weekend_part": found.weekend,
        "busiest_hour": {"start": _at(figures, found.busiest_at), "jobs": found.busiest},
        "longest_silence": {"start": _at(figures, found.silence_at), "length_s": found.silence // SECOND},
        "by_hour_of_day": list(found.by_hour),
        "by_weekday": dict(zip(days_shown(figures), found.by_day, strict=True)),
    }


def _limits(figures: TraceFigures) -> dict[str, Any]:
    found = figures.limits
    return {
        "jobs": found.jobs,
        "past_by_over_a_minute": found.past,
        "gpu_time_used_part": found.used,
        **{f"ran_under_{part}_percent_part": found.part_used(part) for part in _PARTS_OF_LIMIT},
        "requested": _percentiles(found.requested, SECOND, "_s") if found.jobs else None,
    }


def _percentiles(found: Distribution, unit: int, suffix: str) -> dict[str, Any]:
    """With the number of jobs, by job and by GPU time."""
    said: dict[str, Any] = {"jobs": found.jobs}
    for name, by_gpu_time in (("by_job", False), ("by_gpu_time", True)):
        said[name] = {f"p{p}{suffix}": found.percentile(p, by_gpu_time=by_gpu_time) // unit for p in PERCENTILES}
    return said | {f"least{suffix}": found.least // unit, f"most{suffix}": found.most // unit}


def _holders(found: Holders) -> dict[str, Any]:
    return {
        "count": found.count,
        "jobs_of_names_beyond_the_bound": found.uncounted_jobs,
        "top_percent_hold_part": {str(p): part for p, part in found.top.items()},
        "largest": [
            {"name": one.name, "jobs": one.jobs, "gpu_hours": round(one.gpu_ms / HOUR, 3)} for one in found.largest
        ],
    }


def _plain(steps: list[Step]) -> list[dict[str, Any]]:
    return [{"step": one.name, "jobs_part": one.jobs, "gpu_time_part": one.gpu_time} for one in steps]
