"""The report in words first: what would have been better, what would not, and what nobody can know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenure import units
from tenure.core.model import DAY, SECOND
from tenure.reports.catalogue import many, wait
from tenure.reports.side_waits import told
from tenure.reports.sides_words import nothing_owed
from tenure.shadow.journal import Record

_POINTS = 0.005
"""From half a point on a share is said to differ."""
_SAME = 1.1
"""Waits that differ by less than a tenth are about the same."""
_LEAST_S = 5
"""As are those that differ by less than this."""


def said(found: dict[str, Any]) -> list[str]:
    """One sentence for each thing that is worth one, the most important first."""
    lines = [_whole(found), _evictions(found["evictions"])]
    lines += [line for row in found["sizes"] if (line := _waits(row["size"], row)) is not None]
    changed = [row for row in found["budgets"] if abs(_gain(row)) >= _POINTS]
    lines += [_budget(row) for row in sorted(changed, key=lambda row: (-abs(_gain(row)), row["budget"]))]
    return lines


def _whole(found: dict[str, Any]) -> str:
    owed, length = found["all"]["m1_delivered"], wait((found["until"] - found["from"]) / SECOND)
    there, here = owed["slurm"], owed["tenure"]
    if there is None or here is None:
        return f"Over {length} {nothing_owed(asked=bool(found['people']))}"
    more = "the same" if abs(here - there) < _POINTS else f"{_percent(here)} under Tenure"
    return f"Over {length} budgets got {_percent(there)} of what they were owed under Slurm, and {more}."


def _waits(who: str, row: dict[str, Any]) -> str | None:
    there, here = row["slurm"]["p90_s"], row["tenure"]["p90_s"]
    if there is None or here is None:
        return None
    jobs = many(row["jobs"], "job")
    if abs(there - here) < _LEAST_S or max(there, here) < _SAME * min(there, here):
        return f"{who} ({jobs}): about the same waits, 90 % within {told(row['slurm'], 90)}."
    how = "sooner" if here < there else "later"
    instead = f"{told(row['tenure'], 90)} instead of {told(row['slurm'], 90)}"
    return f"{who} ({jobs}): 90 % would have started within {instead}, {how}."


def _gain(row: dict[str, Any]) -> float:
    there, here = row["slurm"]["delivered_of_owed"], row["tenure"]["delivered_of_owed"]
    return 0.0 if there is None or here is None else float(here - there)


def _budget(row: dict[str, Any]) -> str:
    there, here = (row[side]["delivered_of_owed"] for side in ("slurm", "tenure"))
    return f"{row['budget']} would have got {_percent(here)} of what it was owed instead of {_percent(there)}."


def _evictions(found: dict[str, Any]) -> str:
    if not found["count"]:
        return "Nothing would have been evicted."
    evicted, jobs = many(found["count"], "eviction"), many(found["jobs"], "job")
    line = f"{evicted} of {jobs}, which would have cost {found['lost_gpu_hours']:,.1f} GPU-hours of work"
    if not found["ended_for_good"]:
        return line + "."
    return f"{line}; {found['ended_for_good']} of the jobs cannot resume, and would have ended before they were done."


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def uncertain(found: dict[str, Any], record: Record, silent: int) -> list[str]:
    """What readers should know. ``silent``: jobs of which nobody said a min_runtime."""
    return list(_uncertain(found, record, silent))


def _uncertain(found: dict[str, Any], record: Record, silent: int) -> Iterator[str]:
    yield "People answer to a scheduler and a record does not: who waits less submits other jobs."
    if found["until"] - found["from"] < DAY:
        yield "This is less than a day: a budget's shares are over 7 days, and weekends differ from Mondays."
    if silent:
        yield (
            f"Of {many(silent, 'job')} nobody said a min_runtime (--time-min, or min_runtime=2h in the comment), so "
            "it is assumed; try others with --min-runtime and --resumable."
        )
    unknown = found["unknown"]
    if unknown["jobs"]:
        yield (
            f"{many(unknown['jobs'], 'job')} that Tenure would have started had not ended, or not begun, under Slurm: "
            f"how long they take nobody knows. They are taken to go on, for {unknown['gpu_hours']:,.1f} GPU-hours of "
            "Tenure's."
        )
    if found["evictions"]["ended_for_good"]:
        yield "What was ended before it was done is not submitted again here, as its owner would do."
    if found["late"]["late"]:
        yield (
            f"{found['late']['late']} of Slurm's {found['late']['starts']} starts found no room here at their time: "
            "Slurm shares GPUs there, or other partitions have these hosts. Slurm's side is worse here than it was."
        )
    if found["refused"]:
        first = found["refused"][0]
        yield f"Tenure would have refused {many(len(found['refused']), 'job')}; {first['job']}: {first['why']}"
    for why, count in found["left_out"].items():
        yield f"Left out: {many(count, 'job')} {why}."
    if found["other_partitions_gpu_hours"]:
        yield (
            f"Jobs of other partitions took {found['other_partitions_gpu_hours']:,.1f} GPU-hours on these hosts. "
            "Tenure is taken to have had them: name those partitions, too, or move the hosts out of them."
        )
    guessed = sum(run.guessed for life in record.lives.all for run in life.runs)
    if guessed:
        yield f"Of {many(guessed, 'run')} nobody saw the end: it is taken to be when the job was missed."
    for start, end in record.gaps:
        length = wait(end - start)
        begins = units.format_time(start * 1000)
        yield f"Nobody looked for {length} from {begins} on: what came and went then is missing."
