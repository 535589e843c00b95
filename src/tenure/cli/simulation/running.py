"""From setups to results on the screen and in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from tenure import units
from tenure.cli.context import print_json
from tenure.cli.errors import CliError, Exit
from tenure.cli.simulation.options import RunOptions, duration

if TYPE_CHECKING:
    from tenure.sim.setup import Setup

_HOUR = 3_600_000
_WARMUP = 72 * _HOUR


def timed(options: RunOptions, base: Setup, length: int) -> Setup:
    """``base`` over ``length`` ms, with the warm-up and the faults that were asked for. Raises CliError."""
    if options.warmup is None:
        warmup = min(length // 10, _WARMUP) // _HOUR * _HOUR
    else:
        warmup = duration("warmup", options.warmup)
    # Metrics leave out hours that began in the warm-up.
    if length - -(-warmup // _HOUR) * _HOUR < _HOUR:
        named = f"days = {length / 86_400_000:g}" if options.warmup is None else f"warmup = {options.warmup}"
        raise CliError(
            f"{named}: nothing would be left to measure of {units.format_duration(length)}; it takes a whole hour "
            "after the warm-up"
        )
    faults = replace(base.faults, between=duration("host-faults", options.host_faults))
    return replace(base, duration=length, warmup=warmup, faults=faults)


def go(options: RunOptions, setups: Callable[[], Iterable[Setup]]) -> None:
    """Run what was asked for; show it, and keep it. Raises CliError, also when it was interrupted."""
    from tenure.cli import render
    from tenure.cli.simulation import progress, view
    from tenure.sim.runner import write_notes

    options.check_folder()
    orders = options.orders(setups())
    options.ready_folder()
    notes = list(dict.fromkeys(note for order in orders for note in order.setup.notes))
    for note in notes:
        render.errors().print(note, markup=False)
    if options.out is not None and notes:
        write_notes(options.out, notes)
    summaries, whole = progress.run_orders(orders, options.processes, options.out)
    if whole and options.out is not None and options.report and len(summaries) > 1:
        view.write_comparison(summaries, options.out)
    if options.as_json:
        print_json(summaries)
    elif summaries:
        view.show(summaries, options.out, said=notes)
    if not whole:
        kept = f"; what was done by then is in {options.out}" if options.out is not None and summaries else ""
        raise CliError(f"interrupted{kept}", Exit.INTERRUPTED)
