"""How things look in a terminal. Colours only when somebody looks (rich honours NO_COLOR and pipes)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from rich import markup
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from tenure import units
from tenure.api.models import AttemptView, BudgetView, EvictionView, HostView, JobView, StatusView
from tenure.cli.context import harmless
from tenure.cli.fitting import Fitting
from tenure.core.reasons import Reason

_PIPE_WIDTH = 240
"""Columns when the output is no terminal: tables are then not folded to 80."""

STYLES = {
    "queued": "yellow",
    "claiming": "yellow",
    "starting": "cyan",
    "running": "green",
    "stopping": "magenta",
    "succeeded": "dim green",
    "failed": "red",
    "cancelled": "dim",
    "preempted": "red",
    "timed_out": "red",
    "healthy": "green",
    "draining": "yellow",
}


_GUARD = "\u2060"
"""Takes no column, and is taken out again where it is shown."""


def escape(text: str) -> str:
    """``text`` inside of markup. What rich has for this takes backslashes at its end for its own."""
    bare = text.rstrip("\\")
    return markup.escape(bare) + (text[len(bare) :] + _GUARD if len(bare) < len(text) else "")


def _harmless(segments: Iterable[Segment]) -> Iterator[Segment]:
    """A colour or a move of the cursor that is meant is a segment's style or control, never its text."""
    for segment in segments:
        if segment.control or segment.text.isprintable():
            yield segment
        else:
            yield Segment(harmless(segment.text), segment.style)


class Screen(Console):
    """Names, commands and reasons are other people's: whatever is in them, it is shown and does nothing."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        return _harmless(super().render(renderable, options))


class Harmless:
    """The same for what another console shows."""

    def __init__(self, shown: RenderableType) -> None:
        self.shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return _harmless(console.render(self.shown, options))


@cache
def output() -> Console:
    console = Screen(highlight=False, emoji=False)
    return console if console.is_terminal else Screen(highlight=False, emoji=False, width=_PIPE_WIDTH)


@cache
def errors() -> Console:
    return Screen(stderr=True, highlight=False, emoji=False)


def state_text(state: str) -> Text:
    return Text(state.replace("_", " "), style=STYLES.get(state, "red"))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def clock(at: int | None) -> str:
    """A moment in this machine's time zone."""
    if at is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(at / 1000))


def soon(at: int, now: int) -> str:
    """A moment in this machine's time zone: the hour alone when it is today."""
    then = time.localtime(at / 1000)
    today = then[:3] == time.localtime(now / 1000)[:3]
    return time.strftime("%H:%M" if today else "%Y-%m-%d %H:%M", then)


def span(ms: int) -> str:
    """A length to glance at: the two largest units."""
    parts = units.format_duration(max(0, ms - ms % 1000))
    kept, count = "", 0
    for character in parts:
        kept += character
        count += character.isalpha()
        if count == 2:
            break
    return kept


def ago(at: int | None, now: int) -> str:
    return "-" if at is None else span(now - at)


def number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    return f"{number(round(share * 100, 4))}%"


def hours(value: float) -> str:
    return f"{value:.1f}" if value >= 0.05 or value == 0 else "<0.1"


def ratio(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def table(*columns: str, right: Iterable[str] = (), fold: Iterable[str] = (), spare: Iterable[str] = ()) -> Fitting:
    """A table that fits where it is shown. ``spare``: columns that it does without there, the first of them first."""
    made = Fitting(spare)
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold" if column in fold else "ellipsis",
            no_wrap=column not in fold,
        )
    return made


def protection(attempt: AttemptView, now: int) -> str:
    """``protected 12m more``, ``exposed for 3m``; '' while it only claims."""
    if attempt.stop is not None:
        return f"stopping, {span(attempt.kill_at - now)} left" if attempt.kill_at else "stopping"
    if attempt.protection is None:
        return ""
    if not attempt.charged:
        return "unallocated: may be evicted at any time"
    if attempt.protected_until is None:
        return "protected (starting)"
    if attempt.protection == "protected" and attempt.protected_until > now:
        return f"protected {span(attempt.protected_until - now)} more"
    return f"exposed for {span(now - attempt.protected_until)}"


def where(job: JobView, now: int) -> str:
    """Where a job runs and how safe it is there, or why it does not."""
    from tenure.config.ranges import fold

    attempt, held = job.attempt, job.reservation
    if held is not None and job.reason.code == Reason.WAITING_RESERVATION:
        return (
            f"starts by {soon(held.starts_by, now)}: {','.join(fold(held.hosts))} free to it by {soon(held.told, now)}"
        )
    if attempt is None or job.state == "claiming":
        return job.reason.text
    return f"{','.join(fold(attempt.hosts))}  {protection(attempt, now)}"


def counted(states: Mapping[str, int]) -> str:
    """``28 queued, 4 running``."""
    return ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in states.items())


def job_table(jobs: Sequence[JobView], now: int) -> Fitting:
    columns = ("ID", "STATE", "NAME", "USER", "BUDGET", "GPUS", "MIN", "PRI", "AGE", "RUN", "WHERE / WHY")
    spare = ("PRI", "AGE", "MIN", "BUDGET", "USER", "RUN")
    made = table(*columns, right=("ID", "GPUS", "PRI", "AGE", "RUN"), fold=("WHERE / WHY",), spare=spare)
    for job in jobs:
        made.add_row(
            escape(job.label),
            state_text("held" if job.held_by and job.state == "queued" else job.state),
            escape(job.name[:24]),
            escape(job.user),
            escape(job.budget),
            str(job.gpus),
            units.format_duration(job.min_runtime_ms) if job.charged else "free",
            str(job.priority),
            ago(job.submitted_at, now),
            _runtime(job, now),
            escape(where(job, now)),
        )
    return made


def _runtime(job: JobView, now: int) -> str:
    if job.attempt is not None:
        return ago(job.attempt.started_at, now)
    if job.ended and job.first_started_at is not None and job.ended_at is not None:
        return span(job.ended_at - job.first_started_at)
    return "-"


def budget_table(budgets: Sequence[BudgetView], cluster: str, *, everything: bool) -> Fitting:
    heads = ("BUDGET", "SHARE", "ALLOCATION", "GPUS", "USED", "COMMITTED", "OWED", "RATIO", "LAST DAY", "RUN", "QUEUED")
    made = table(*heads, right=heads[1:], spare=("ALLOCATION", "COMMITTED", "SHARE", "OWED", "USED", "GPUS"))
    for budget in budgets:
        use = budget.clusters[cluster]
        busy = use.allocation or use.used_gpu_hours or use.running_jobs or use.queued_jobs
        if budget.implicit and not busy and not everything:
            continue
        name = "  " * budget.depth + budget.path.rpartition("/")[2]
        made.add_row(
            Text(name, style="dim" if budget.implicit else "bold" if budget.depth < 2 else ""),
            percent(use.share),
            percent(use.allocation),
            number(round(use.allocation_gpus, 2)),
            hours(use.used_gpu_hours),
            hours(use.committed_gpu_hours),
            hours(use.entitled_gpu_hours),
            Text(ratio(use.ratio), style="" if use.ratio is None else "green" if use.ratio <= 1 else "yellow"),
            ratio(use.ratio_last_day),
            _load(use.running_jobs, use.running_gpus + use.unallocated_gpus),
            _load(use.queued_jobs, use.queued_gpus),
        )
    return made


def _load(jobs: int, gpus: int) -> str:
    return f"{jobs} ({units.counted(gpus, 'GPU')})" if jobs else "-"


def host_table(hosts: Sequence[HostView], now: int) -> Fitting:
    heads = ("CLUSTER", "HOST", "STATE", "SINCE", "GPUS", "FREE", "JOBS", "NOTE")
    made = table(*heads, right=("SINCE", "GPUS", "FREE"), fold=("JOBS", "NOTE"), spare=("SINCE", "GPUS"))
    for host in hosts:
        holders = [f"{a.job}x{len(a.gpus)}{'' if a.protection == 'protected' else ' (exposed)'}" for a in host.attempts]
        note = host.why
        if host.state == "draining" and not host.attempts:
            note += f"{'; ' if note else ''}empty"
        elif host.drained_by is not None:
            note += f"{'; ' if note else ''}empty in {span(host.drained_by - now)} at the latest"
        elif host.state == "draining":
            note += f"{'; ' if note else ''}waits for a gang that must restart elsewhere"
        note = f"{note} ({host.by})" if host.by else note
        note = "; ".join([*([note] if note else []), *_kept(host, now)])
        made.add_row(
            escape(host.cluster),
            escape(host.name),
            state_text(host.state),
            ago(host.since, now),
            str(host.gpus),
            str(host.free_gpus),
            ", ".join(holders) or "-",
            escape(note),
        )
    return made


def _kept(host: HostView, now: int) -> list[str]:
    """For whom a host is held or kept, and what others use of it."""
    found = []
    if host.others_gpus or host.others:
        found.append(
            f"{units.counted(host.others_gpus, 'GPU')} used by others{f': {host.others}' if host.others else ''}"
        )
    if host.held_for is not None:
        until = f" until {soon(host.held_until, now)}" if host.held_until is not None else ""
        found.append(f"held for job {host.held_for}{until}")
    return found + (["kept for short contracts"] if host.headroom else [])


def eviction_table(evictions: Sequence[EvictionView]) -> Fitting:
    heads = ("WHEN", "ATTEMPT", "BUDGET", "FOR JOB", "GAINED", "AT RISK", "WHY")
    made = table(*heads, right=("FOR JOB", "GAINED", "AT RISK"), fold=("WHY",), spare=("BUDGET", "GAINED", "AT RISK"))
    for eviction in evictions:
        made.add_row(
            clock(eviction.at),
            eviction.attempt,
            escape(eviction.budget),
            str(eviction.gainer or "-"),
            f"{eviction.gained_gpu_hours:.2f}",
            f"{eviction.at_risk_gpu_hours:.2f}",
            escape(eviction.reason.text),
        )
    return made


def status_lines(status: StatusView) -> list[str]:
    lines = []
    for cluster in status.clusters:
        hosts = ", ".join(f"{count} {state}" for state, count in cluster.hosts.items())
        lines.append(
            f"[bold]{escape(cluster.name)}[/]  {cluster.charged_gpus} charged, {cluster.unallocated_gpus} unallocated, "
            f"{cluster.free_gpus} free of {units.counted(cluster.gpus, 'GPU')} "
            f"({cluster.claimed_gpus} claimed); hosts: {hosts}"
        )
        kept = (
            [f"what Tenure did not start uses {units.counted(cluster.others_gpus, 'GPU')}"]
            if cluster.others_gpus
            else []
        )
        if cluster.reservations:
            jobs_there = units.counted(cluster.reservations, "job")
            kept.append(f"hosts with {units.counted(cluster.held_gpus, 'GPU')} are held for {jobs_there} in turn")
        if cluster.headroom_gpus:
            kept.append(f"hosts with {units.counted(cluster.headroom_gpus, 'GPU')} are kept for short contracts")
        if kept:
            lines.append(f"  {'; '.join(kept)}")
    jobs = ", ".join(f"{count} {state}" for state, count in status.jobs.items())
    lines.append(f"[bold]jobs[/]  {jobs or 'none'}")
    if status.waiting:
        waits = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in status.waiting.items())
        lines.append(f"[bold]why[/]   {waits}")
    if status.paused_starts:
        lines.append(f"[bold yellow]all starts are paused by {escape(status.paused_starts)}[/] (tenure resume)")
    if status.paused_evictions:
        lines.append(
            f"[bold yellow]evictions are paused by {escape(status.paused_evictions)}[/] (tenure resume --evictions)"
        )
    if status.clock_alarm:
        lines.append("[bold red]the wall clock stepped: evictions stop until it has passed[/]")
    return lines
