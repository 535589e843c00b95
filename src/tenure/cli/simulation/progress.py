"""Runs on the screen: a bar for each that runs, simulated time, speed, what is left."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from tenure import units
from tenure.cli import render

if TYPE_CHECKING:
    from tenure.sim.runner import Order, Tick


class _Bars:
    """One bar a run that has begun, and one for all of them when there are several."""

    def __init__(self, progress: Progress, orders: Sequence[Order]) -> None:
        self.progress = progress
        self.orders = orders
        self.tasks: dict[int, TaskID] = {}
        self.began: dict[int, float] = {}
        several = len(orders) > 1
        self.all = progress.add_task("all runs", total=len(orders), detail="", visible=several)

    def seen(self, tick: Tick) -> None:
        setup = self.orders[tick.number].setup
        task = self.tasks.get(tick.number)
        if task is None:
            self.began[tick.number] = time.monotonic()
            task = self.tasks[tick.number] = self.progress.add_task(setup.label, total=setup.duration, detail="")
        spent, gone = max(time.monotonic() - self.began[tick.number], 0.001), tick.at - setup.start
        speed = gone / 86_400_000 / spent
        left = units.format_duration(round((setup.duration - gone) * spent / max(gone, 1)) * 1000)
        detail = f"{units.format_duration(gone - gone % 3_600_000)}, {tick.jobs} jobs, {speed:.1f} days/s, {left} left"
        self.progress.update(task, completed=gone, detail=detail)

    def done(self, number: int) -> None:
        self.progress.advance(self.all)
        if number in self.tasks:
            self.progress.remove_task(self.tasks.pop(number))


def _line(count: int, total: int, label: str, summary: dict[str, Any]) -> str:
    """What a log of this command has of a run: ``3 of 24: drf-seed1, 42 s``."""
    from tenure.reports.catalogue import wait

    broken = "" if summary["complete"] else ", broken off"
    return f"{count} of {total}: {label}, {wait(summary['wall_s'])}{broken}"


def run_orders(orders: Sequence[Order], processes: int, out: Path | None) -> tuple[list[dict[str, Any]], bool]:
    """Run them with bars on stderr, or a line for each that is over if that is no terminal.

    ``out`` gets ``summary.json``, anew whenever a run is over.

    Returns the summaries of what was done, and whether that is all: False after Ctrl-C.
    """
    from tenure.sim.runner import run_all, write_summaries

    summaries: dict[int, dict[str, Any]] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[detail]}"))
    with Progress(*columns, console=render.errors(), transient=True) as progress:
        bars = _Bars(progress, orders)

        def done(number: int, summary: dict[str, Any]) -> None:
            summaries[number] = summary
            bars.done(number)
            if not progress.console.is_terminal:
                progress.console.print(
                    _line(len(summaries), len(orders), orders[number].setup.label, summary),
                    markup=False,
                    soft_wrap=True,
                )
            if out is not None:
                write_summaries(out, [summaries[i] for i in sorted(summaries)])

        whole = run_all(orders, processes or os.cpu_count() or 1, bars.seen, done)
    return [summaries[i] for i in sorted(summaries)], whole
