"""From setups to results on the screen and in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tenure.cli.context import print_json
from tenure.cli.errors import CliError
from tenure.cli.simulation.options import RunOptions, duration

if TYPE_CHECKING:
    from tenure.sim.setup import Setup

_WARMUP = 3 * 86_400_000


def timed(options: RunOptions, base: Setup, length: int) -> Setup:
    """``base`` over ``length`` ms, with the warm-up and the faults that were asked for. Raises CliError."""
    warmup = min(length // 10, _WARMUP) if options.warmup is None else duration("warmup", options.warmup)
    if warmup >= length:
        raise CliError(
            f"warmup = {options.warmup}: nothing would be left to measure; make it shorter, or the run longer"
        )
    faults = replace(base.faults, between=duration("host-faults", options.host_faults))
    return replace(base, duration=length, warmup=warmup, faults=faults)


def go(options: RunOptions, setups: Callable[[], Iterable[Setup]], notes: Sequence[str] = ()) -> None:
    """Run what was asked for; show it, and keep it. ``notes``: what is known about the workload. Raises CliError."""
    from tenure.cli import render
    from tenure.cli.simulation import progress, view
    from tenure.sim.runner import write_notes

    orders = options.orders(setups())
    options.ready_folder()
    for note in notes:
        render.errors().print(note, markup=False)
    if options.out is not None and notes:
        write_notes(options.out, notes)
    summaries = progress.run_orders(orders, options.processes, options.out)
    if options.out is not None and options.report and len(summaries) > 1:
        view.write_comparison([order.folder for order in orders if order.folder is not None], options.out)
    if options.as_json:
        print_json(summaries)
    else:
        view.show(summaries, options.out)
