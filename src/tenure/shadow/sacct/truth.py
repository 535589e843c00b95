"""How well the model of Slurm tells the truth: its starts beside those that really were."""

from __future__ import annotations

from typing import Any

from tenure.core.model import MINUTE, SECOND
from tenure.reports.catalogue import many, wait
from tenure.reports.metrics import share
from tenure.reports.owed import measured_from
from tenure.reports.side_waits import Waits, starts, told
from tenure.reports.sides import Side, jobs_of
from tenure.reports.waits import percentile

NEAR = 10 * MINUTE
_WAITS = ("p50_s", "p50_at_least", "p90_s", "p90_at_least")


def truth(was: Side, model: Side) -> dict[str, Any]:
    """Of the jobs that had not started when measuring began. Seconds; shares are fractions of 1.

    ``starts``: of those that start in one or in both; ``one_sided``: those that start in one only, and so not within
    10 min. ``off``: by how much a job that starts in both starts sooner or later in the model.
    """
    since = measured_from(was.run)
    before, now = jobs_of(was), jobs_of(model)
    both = [(before[key], now[key]) for key in before if key in now]
    both = [pair for pair in both if all(job.left >= since for job in pair)]
    started = [(a.started, b.started) for a, b in both if a.started is not None and b.started is not None]
    off = sorted(abs(there - here) for there, here in started)
    waits = {"was": Waits(), "model": Waits()}
    for pair in both:
        for found, job in zip(waits.values(), pair, strict=True):
            found.add(job.wait, started=job.started is not None)
    one_sided = sum((a.started is None) != (b.started is None) for a, b in both)
    return {
        "jobs": len(both),
        "starts": len(off) + one_sided,
        "one_sided": one_sided,
        "within_10_min": share(sum(one <= NEAR for one in off), len(off) + one_sided),
        "sooner": share(sum(here < there for there, here in started), len(started)),
        "off_p50_s": _seconds(off, 50),
        "off_p90_s": _seconds(off, 90),
        **{f"{name}_{key}": value for name, found in waits.items() for key, value in found.plain().items()},
    }


def _seconds(ascending: list[int], percent: int) -> int | None:
    found = percentile(ascending, percent)
    return None if found is None else found // SECOND


def said(found: dict[str, Any]) -> str:
    if not found["jobs"]:
        return "How well the model tells the truth nobody can say: no job began in this time, or waited."
    if not found["starts"]:
        return "How well the model tells the truth nobody can say: no job ever started."
    some, off = found["one_sided"], ""
    only = f", and {some:,} {'starts' if some == 1 else 'start'} in one of the two only" if some else ""
    if found["off_p50_s"] is not None:
        half, most = wait(found["off_p50_s"]), wait(found["off_p90_s"])
        off = f"; half of {'the others' if some else 'them'} are off by at most {half}, 90 % by at most {most}"
    was, there = ({key: found[f"{side}_{key}"] for key in _WAITS} for side in ("was", "model"))
    return (
        f"How well the model tells the truth: of {many(found['starts'], 'job')} {100 * found['within_10_min']:.0f} % "
        f"start within 10 min of when they really did{only}{off}. The median wait is {told(there, 50)} "
        f"there and was {told(was, 50)}; {starts(there, '90 %')} there, instead of {told(was, 90)}."
    )
