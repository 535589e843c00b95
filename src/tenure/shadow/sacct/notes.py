"""What readers of a report must know: what was assumed, what was made up, what was left out, what nobody can know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tenure import units
from tenure.core.model import SECOND
from tenure.reports.catalogue import many
from tenure.reports.owed import measured_from
from tenure.shadow.replay import Side, Then
from tenure.shadow.sacct.report import ACCOUNTS, HOSTS, Report
from tenure.shadow.sacct.slurms import model_of
from tenure.shadow.words import uncertain
from tenure.sim.traces.options import Rule
from tenure.sim.traces.records import Reading

_NAMED = 6
_LISTED = 12
"""Things that are not carried over and told one by one."""
_MUCH = 0.02


def of_report(report: Report, was: Side, gained: dict[str, Any] | None) -> Iterator[str]:
    """``was``: as it was. ``gained``: Tenure's side against it, by ``gains``; None where that is no side."""
    yield from _times(report)
    yield from _hosts(report)
    yield from _budgets(report)
    yield from _contracts(report)
    yield from model(report)[1]
    again = sum(not piece.first for piece in was.jobs.values())
    if again:
        yield (
            f"Slurm ran jobs again {again:,} times after it had ended them: as it was, that is no eviction here, and "
            "what was lost nobody knows. Elsewhere such a job has to run as long as all of its runs did together."
        )
    yield "Hosts are taken to have been healthy all the time: sacct does not tell when they were down or drained."
    yield from _idle(was)
    if gained is not None:
        yield from uncertain(gained, report.record, 0)
    yield from report.reading.notes()


def model(report: Report) -> tuple[Then, list[str]]:
    """The policy that stands for this site's Slurm, and what to know about it."""
    return model_of(report.site.settings, scavengers=bool(report.chosen.unallocated))


def _times(report: Report) -> Iterator[str]:
    span = report.span
    begins, takes, ends = (
        units.format_time(at) for at in (report.record.since * SECOND, span.takeover, report.record.until * SECOND)
    )
    yield (
        f"The report begins at {begins}, with whatever ran and waited then, and ends at {ends}. What had been used "
        f"before it is unknown, so until {takes} every side starts what Slurm started, and nothing of that time counts."
    )
    yield (
        "A job waits since it was eligible: since its dependencies had ended and its begin time had come."
        if report.eligible
        else "The report has no Eligible: jobs that waited for others, or for their begin time, count as if they had "
        "waited for GPUs. Name Eligible in sacct's --format."
    )
    waits = len(report.waiting)
    if waits:
        they = "it" if waits == 1 else "they"
        yield f"Of {many(waits, 'job')} that still waited at the end nobody knows for how long {they} would have run."


def _hosts(report: Report) -> Iterator[str]:
    gpus = sum(cluster.gpus for cluster in report.terms.config.clusters)
    if HOSTS in report.made:
        hosts = [host for cluster in report.terms.config.clusters for host in cluster.hosts]
        yield (
            f"Hosts are made up: {len(hosts):,} of {hosts[0].gpus} GPUs, all in one cluster; CPUs, memory, and where "
            "jobs ran do not count."
        )
    if report.peak > gpus:
        yield (
            f"Up to {report.peak:,} GPUs were in use at a time in the report, and there are {gpus:,} here: as it was, "
            "some jobs start later than they did. Are there more hosts, or do jobs share GPUs?"
        )


def _idle(was: Side) -> Iterator[str]:
    """GPUs that seem to have been free although somebody waited who would have fitted."""
    since = measured_from(was.tables)
    hours = [row for row in was.tables.hours if row.start >= since]
    idle, healthy = sum(row.unusable + row.withheld for row in hours), sum(row.healthy for row in hours)
    if idle > _MUCH * healthy:
        yield (
            f"As it was, {100 * idle / healthy:.0f} % of the GPU time was free while jobs waited. Where the report "
            "does not have all jobs, or hosts were down, or limits and reservations held jobs back, it was not: every "
            "other side may use that time, and a part of what it gains may be nothing but this."
        )


def _budgets(report: Report) -> Iterator[str]:
    if ACCOUNTS in report.made and len(report.terms.config.budgets) == 1:
        yield "No associations were given, and the report names no accounts: all is one budget."
    elif ACCOUNTS in report.made:
        yield (
            "No associations were given: each account has a share by the GPU time that it used, so everybody seems to "
            "have got about what they were owed. Give the tree with --associations."
        )
    if report.strangers and len(report.terms.config.budgets) > 1:
        total, shareless = report.strangers.total(), report.terms.others in report.terms.no_share
        has = "which has no share of its own" if shareless else "to the share that it keeps for itself"
        yield f"{many(total, 'job')} {_strangers(report)}: they are charged to the root, {has}."
    free = [life for life in report.counting if report.terms.free(life.last)]
    without = sum(report.terms.budget_of(life.last) in report.terms.no_share for life in free)
    if without:
        yield f"{many(without, 'job')} of budgets without a share run on what is left over, as unallocated jobs."
    if report.chosen.unallocated:
        yield (
            f"{many(len(free) - without, 'job')} of {', '.join(report.chosen.unallocated)} run on what is left "
            "over, as unallocated jobs."
        )
    yield from _not_carried(report.record.site["notes"])


def _not_carried(dropped: Sequence[str]) -> Iterator[str]:
    """What of the site does not count here."""
    for one in dropped[:_LISTED]:
        yield f"Not carried over from Slurm as it is there: {one.rstrip('.')}."
    if more := dropped[_LISTED:]:
        yield f"Nor are {many(len(more), 'further thing')}: not_carried_over in sides.json has them all."


def _strangers(report: Report) -> str:
    if ACCOUNTS in report.made:
        return "without an account"
    names = [name or "none" for name, _ in report.strangers.most_common(_NAMED)]
    more = len(report.strangers) - len(names)
    listed = ", ".join(names) + (f" and {more} more" if more > 0 else "")
    return f"of accounts that the associations do not have ({listed})"


def _contracts(report: Report) -> Iterator[str]:
    rules = "; ".join(map(_rule, report.chosen.rules))
    yield (
        f"What jobs are taken to have signed under Tenure, by their size and by how long they ran: {rules}. A "
        "min_runtime is never longer than the job's time limit. Change that with --rule."
    )


def _rule(rule: Rule) -> str:
    size = "any size" if rule.max_gpus is None else f"up to {rule.max_gpus} GPUs"
    length = "" if rule.max_runtime is None else f", up to {units.format_duration(rule.max_runtime)}"
    resumes = "can resume" if rule.resumable else "cannot resume"
    return f"{size}{length}: min_runtime {units.format_duration(rule.min_runtime)}, {resumes}"


def rows(reading: Reading) -> dict[str, Any]:
    """What became of every row."""
    return {
        "rows": reading.rows,
        "kept": reading.kept,
        "left_out": dict(reading.left_out),
        "odd": dict(reading.oddities),
        "bad": dict(reading.bad),
        "examples": [str(one) for one in reading.examples],
    }
