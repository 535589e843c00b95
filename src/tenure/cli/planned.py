"""``tenure submit --plan``: what would become of a submission, on a page."""

from __future__ import annotations

from collections.abc import Iterator

from tenure import units
from tenure.api.plan_models import BalanceView, PlannedEviction, PlanView
from tenure.cli import render
from tenure.cli.render import escape
from tenure.core.model import SHARE_ONE

_WIDTH = 10
_LISTED = 10
"""Evictions that are listed at most."""


def plan_lines(plan: PlanView) -> Iterator[str]:
    """Lines of markup."""
    size = f"{plan.gpus} GPU{'s' if plan.gpus != 1 else ''}"
    if plan.replicas > 1:
        size += f" in {plan.replicas} replicas"
    if plan.jobs > 1:
        few = f", at most {plan.throttle} at a time" if plan.throttle is not None else ""
        size = f"an array of {plan.jobs} jobs of {size} each{few}"
    yield f"[bold]{escape(plan.name)}[/], {size}, for {escape(plan.budget)}: nothing is submitted"
    if plan.jobs > 1:
        yield _line("", "start and evictions are those of the first of them, cost and balance those of all")
    yield _line("start", f"{_when(plan)}  {escape(plan.text)}")
    yield _line("cost", escape(_cost(plan)))
    if plan.evictions:
        yield from _evictions(plan)
    yield _line("balance", escape(f"{plan.leaf} on {plan.cluster}, GPU-hours over the lookback:"))
    digits = units.digits_apart(_ppm(plan.before), _ppm(plan.after))
    yield _line("", _balance("now", plan.before, digits))
    if plan.after != plan.before:
        yield _line("", _balance("with it" if plan.jobs == 1 else "with all", plan.after, digits))
    for warning in plan.warnings:
        yield _line("warning", f"[yellow]{escape(warning.text)}[/]")
    for note in plan.notes:
        yield _line("default", f"[dim]{escape(note.field)} = {escape(note.value)}: {escape(note.text)}[/]")


def _when(plan: PlanView) -> str:
    style = {"now": "green", "after_evictions": "green", "reserved": "yellow", "never": "red"}.get(plan.when, "yellow")
    text = {"now": "now", "never": "never", "waits": "waits"}.get(plan.when, "")
    if not text and plan.starts_at is not None:
        text = f"by {render.soon(plan.starts_at, plan.at)}"
    return f"[{style}]{text}[/]"


def _cost(plan: PlanView) -> str:
    if not plan.min_runtime_ms:
        return "free, and evictable at any time"
    gpus, length = render.number(plan.charge.gpus), units.format_duration(plan.min_runtime_ms)
    many = "" if gpus == "1" else "s"
    text = f"{_hours(plan.charge.gpu_hours)} GPU-hours at least: {gpus} GPU{many} for {length}, "
    text += "and for as long as it runs on"
    if plan.jobs > 1:
        text += f"; {_hours(plan.charge.total_gpu_hours)} for all {plan.jobs}"
    return text


def _evictions(plan: PlanView) -> Iterator[str]:
    for n, eviction in enumerate(plan.evictions[:_LISTED]):
        yield _line("evicts" if n == 0 else "", escape(_eviction(eviction, plan.at)))
    if len(plan.evictions) > _LISTED:
        yield _line("", f"... and {len(plan.evictions) - _LISTED} more")


def _eviction(eviction: PlannedEviction, now: int) -> str:
    gpus = f"{eviction.gpus} GPU{'s' if eviction.gpus != 1 else ''}"
    who = f"{eviction.attempt} of {eviction.user} ({gpus}, {eviction.budget})"
    risk = f"{_hours(eviction.at_risk_gpu_hours)} GPU-hours at risk"
    return f"{who}, gone by {render.soon(eviction.kill_at, now)}, {risk}. {eviction.reason.text}"


def _ppm(balance: BalanceView) -> int | None:
    return None if balance.ratio is None else round(balance.ratio * SHARE_ONE)


def _balance(head: str, balance: BalanceView, digits: int) -> str:
    left = f"{_hours(balance.left)} left" if balance.left >= 0 else f"{_hours(-balance.left)} over"
    parts = f"{_hours(balance.used)} used + {_hours(balance.committed)} committed of {_hours(balance.entitled)}"
    return f"{head:<8} {parts}, {left} (ratio {render.ratio(balance.ratio, digits)})"


def _hours(value: float) -> str:
    return render.hours(value)


def _line(head: str, text: str) -> str:
    return f"  [dim]{head:<{_WIDTH}}[/]{text}"
