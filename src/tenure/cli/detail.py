"""``tenure show``: one job on a page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from tenure import units
from tenure.api.eta_models import EtaView
from tenure.api.models import ArrayView, AttemptView, JobDetail, JobView, ReservationView
from tenure.cli import render
from tenure.cli.eta import range_lines
from tenure.cli.render import escape
from tenure.config.ranges import fold
from tenure.scripts.launch import shown

_WIDTH = 14
_NAMED = 3
"""Held hosts that are named at most."""


_LISTED = 20
"""Jobs of an array that are listed at most."""


def array_lines(array: ArrayView, jobs: Sequence[JobView], now: int) -> Iterator[str]:
    """Lines of markup about an array, and about its jobs that have not succeeded, those that run first."""
    throttle = "" if array.throttle is None else f", at most {array.throttle} at a time"
    yield f"[bold]array {array.id}[/]  {escape(array.name)}"
    yield _line("user", escape(array.user))
    yield _line("budget", escape(array.budget))
    yield _line("indices", f"{array.indices} ({units.counted(array.count, 'job')}{throttle})")
    yield _line("jobs", render.counted(array.states))
    told = sorted((job for job in jobs if job.state != "succeeded"), key=lambda job: (job.attempt is None, job.id))
    for job in told[:_LISTED]:
        text = f"{render.state_text(job.state).markup}  {escape(render.where(job, now))}"
        yield _line(escape(job.label), text)
    if len(told) > _LISTED:
        yield _line("...", f"tenure ls --all --array {array.id} lists all of them")


def job_lines(job: JobDetail, now: int, eta: EtaView | None = None) -> Iterator[str]:
    """Lines of markup. ``eta``: of a job that waits."""
    number = "" if job.array_id is None else f" (number {job.id})"
    yield f"[bold]job {job.label}[/]{number}  {escape(job.name)}"
    yield _line("state", f"{render.state_text(job.state).markup}  {escape(job.reason.text)}")
    if job.state == "queued":
        yield _line("", f"[dim]tenure why {job.label}: whose turn it is, and what is in its way until when[/]")
    if job.reservation is not None:
        yield from _reserved(job.reservation, job, now)
    if eta is not None:
        lines = [*range_lines(eta.estimate, now)] or [eta.text]
        yield _line("starts", escape(lines[0]))
    if job.held_by:
        yield _line("held by", escape(job.held_by))
    yield _line("user", escape(job.user))
    yield _line("budget", escape(job.budget))
    if job.array is not None:
        throttle = "" if job.array.throttle is None else f", at most {job.array.throttle} at a time"
        yield _line("array", f"{job.array.id}: {job.array.indices}{throttle} ({render.counted(job.array.states)})")
    yield _line("contract", _contract(job))
    for role in job.roles:
        size = f"{role.replicas} x ({units.counted(role.gpus, 'GPU')}, {_number(role.cpus, 'CPU')}, "
        size += f"{units.format_memory(role.memory_mib)})"
        yield _line(escape(f"role {role.name}"), escape(f"{size}  {shlex.join(shown(role.command) or role.command)}"))
    yield _line("cluster", escape(", ".join(job.clusters)))
    if job.labels:
        wishes = [
            f"{w.key}{f'={w.value}' if w.value else ''} ({'required' if w.required else 'preferred'})"
            for w in job.labels
        ]
        yield _line("labels", escape(", ".join(wishes)))
    yield _line("priority", str(job.priority))
    limits = f"timeout {units.format_duration(job.timeout_ms) if job.timeout_ms is not None else 'none'}, "
    limits += f"grace {units.format_duration(job.grace_ms)}, warning {job.warn_signal}, retries {job.retries}"
    yield _line("limits", limits)
    yield _line("workdir", escape(job.workdir or "-"))
    if job.env:
        yield _line("variables", escape(", ".join(sorted(job.env))))
    yield _line("submitted", f"{render.clock(job.submitted_at)} ({render.ago(job.submitted_at, now)} ago)")
    if job.ended_at is not None:
        code = "" if job.exit_code is None else f", exit code {job.exit_code}"
        yield _line("ended", f"{render.clock(job.ended_at)}{code}")
    for attempt in job.attempts:
        yield from _attempt(attempt, now)
    for eviction in job.eviction_history:
        if eviction.job == job.id:
            yield _line("evicted", f"{render.clock(eviction.at)}  {escape(eviction.reason.text)}")
            gained, risk = eviction.gained_gpu_hours, eviction.at_risk_gpu_hours
            yield _line("", f"gained {gained:.2f} GPU-hours, put {risk:.2f} at risk")
        else:
            yield _line(
                "gained", f"{render.clock(eviction.at)}  from {eviction.attempt}: {escape(eviction.reason.text)}"
            )


def _number(amount: float, what: str) -> str:
    return f"{render.number(amount)} {what}{'' if amount == 1 else 's'}"


def _contract(job: JobDetail) -> str:
    resumable = "resumable" if job.resumable else "not resumable"
    if not job.charged:
        return f"unallocated: free, and evictable at any time; {resumable}"
    return f"protected for {units.format_duration(job.min_runtime_ms)} once it runs, charged throughout; {resumable}"


def _reserved(held: ReservationView, job: JobDetail, now: int) -> Iterator[str]:
    names = ", ".join(held.hosts[:_NAMED]) + (", ..." if len(held.hosts) > _NAMED else "")
    count = f"{len(held.hosts)} host{'s' if len(held.hosts) > 1 else ''}"
    text = f"{count} ({names}) free to it by {render.soon(held.told, now)}, "
    yield _line("reserved", escape(f"{text}starts by {render.soon(held.starts_by, now)}"))
    since = f"in {held.cluster} since {render.soon(held.made_at, now)}"
    if job.first_starts_by is not None and (job.reservations or 0) > 1:
        since += f"; its reservation number {job.reservations}, the first said {render.soon(job.first_starts_by, now)}"
    yield _line("", escape(since))


def _attempt(attempt: AttemptView, now: int) -> Iterator[str]:
    yield _line(f"attempt {attempt.number}", escape(_course(attempt, now)))
    for host in attempt.hosts:
        gpus = sorted(gpu for slot in attempt.slots if slot.host == host for gpu in slot.gpus)
        shown = ",".join(fold(str(gpu) for gpu in gpus)) if gpus else "-"
        yield _line("", escape(f"{host}: GPUs {shown.replace('[', '').replace(']', '')}"))
    if attempt.ended_at is None and attempt.started_at is not None:
        until = f", until {render.clock(attempt.protected_until)}" if attempt.protected_until is not None else ""
        yield _line("", escape(f"{render.protection(attempt, now)}{until}"))
        if attempt.charged:
            yield _line("", f"charged as {_number(attempt.charge_rate, 'GPU')}")


def _course(attempt: AttemptView, now: int) -> str:
    if attempt.started_at is None:
        return f"claims GPUs since {render.clock(attempt.planned_at)}"
    begun = f"from {render.clock(attempt.started_at)}"
    if attempt.ended_at is None:
        return f"{begun}, for {render.ago(attempt.started_at, now)} ({attempt.state})"
    why = attempt.reason.text if attempt.reason is not None else ""
    return f"{begun} for {render.span(attempt.ended_at - attempt.started_at)}: {why}"


def _line(head: str, text: str) -> str:
    return f"  [dim]{head:<{_WIDTH}}[/]{text}"
