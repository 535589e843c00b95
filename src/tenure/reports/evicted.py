"""Who is evicted in a run: charged jobs or unallocated ones, how many of them, which most often, and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tenure.reports.catalogue import many
from tenure.reports.owed import measured_from
from tenure.reports.records import Run, hours

_NAMED = 10
"""Jobs that are named among those that are evicted most often."""


def evicted(run: Run, keys: Mapping[int, str] | None) -> dict[str, Any]:
    """JSON-ready, of the evictions since measuring began. ``keys``: job id -> what the job is called, None: its id.

    ``most_often``: the jobs that are evicted most often, ``most`` times each, the first 10 of ``jobs_most_often``.
    GPU-hours are lost to restarts and work done again, of the time that counts, as in the figures of sides.
    """
    since = measured_from(run)
    rows = [row for row in run.evictions if row.at >= since]
    names = {row.id: str(row.id) if keys is None else keys.get(row.id, str(row.id)) for row in run.jobs}
    times = Counter(names[row.job_id] for row in rows)
    whose = {names[job.id]: job for job in run.jobs if names[job.id] in times}
    most = max(times.values(), default=0)
    worst = sorted(name for name, count in times.items() if count == most)
    lost = {True: 0, False: 0}
    for attempt in run.attempts:
        end = run.until if attempt.ended is None else attempt.ended
        if end >= since:
            lost[attempt.funded] += min(attempt.lost, attempt.amount * (end - max(attempt.started, since)))
    return {
        "evictions": len(rows),
        "charged": sum(row.funded for row in rows),
        "unallocated": sum(not row.funded for row in rows),
        "jobs": len(times),
        "most": most,
        "jobs_most_often": len(worst),
        "most_often": [
            {"job": name, "user": whose[name].user, "budget": whose[name].budget} for name in worst[:_NAMED]
        ],
        "lost_gpu_hours": round(hours(sum(lost.values())), 3),
        "lost_charged_gpu_hours": round(hours(lost[True]), 3),
        "lost_unallocated_gpu_hours": round(hours(lost[False]), 3),
    }


def said(found: Mapping[str, Any], where: str) -> str:
    """A sentence on what ``evicted`` gives. ``where``: on which side, as in "under Tenure"."""
    if not found["evictions"]:
        return f"Nothing is evicted {where}."
    split = f"all of {'charged' if found['charged'] else 'unallocated'} jobs"
    if found["charged"] and found["unallocated"]:
        split = f"{found['charged']:,} of charged jobs and {found['unallocated']:,} of unallocated ones"
    elif found["evictions"] == 1:
        split = f"of {'a charged' if found['charged'] else 'an unallocated'} job"
    both = found["lost_charged_gpu_hours"] and found["lost_unallocated_gpu_hours"]
    part = f", {found['lost_charged_gpu_hours']:,.1f} of them in charged jobs" if both else ""
    return (
        f"{many(found['evictions'], 'eviction')} {where}, {split}: {many(found['jobs'], 'job')} "
        f"{'is' if found['jobs'] == 1 else 'are'} hit{_most(found)}. Restarts and work done again cost "
        f"{found['lost_gpu_hours']:,.1f} GPU-hours{part}."
    )


def _most(found: Mapping[str, Any]) -> str:
    most, worst = found["most"], found["most_often"][0]
    if found["jobs"] == 1:
        return f", {_times(most)}: job {worst['job']} of {worst['user']} ({worst['budget']})"
    if most == 1:
        return ", each once"
    more = found["jobs_most_often"] - 1
    others = f", and {many(more, 'other')} as often" if more else ""
    return f", most often job {worst['job']} of {worst['user']} ({worst['budget']}), {_times(most)}{others}"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")
