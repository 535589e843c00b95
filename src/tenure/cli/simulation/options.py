"""The options that all simulations share, and how they become setups and orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure import units
from tenure.cli.errors import CliError
from tenure.cli.simulation import completion, named
from tenure.cli.simulation.drawing import draw
from tenure.cli.simulation.folders import check_folder, ready_folder

if TYPE_CHECKING:
    from tenure.sim.runner import Order
    from tenure.sim.setup import Setup

_POLICIES_HELP = "Policies to compare, like budgets,priority, or all; `tenure simulate policies` lists them."


@dataclass(frozen=True)
class RunOptions:
    """Values as they were typed; the methods read them. All raise CliError."""

    policy: Annotated[
        str, typer.Option(metavar="NAME[,NAME...]", help=_POLICIES_HELP, autocompletion=completion.policies)
    ] = "budgets"
    seeds: Annotated[int, typer.Option(metavar="N", help="How many seeds, from --first-seed on.", min=1)] = 1
    first_seed: Annotated[int, typer.Option(metavar="N", help="The first of them.", min=0)] = 0
    warmup: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Left out of all metrics \\[a tenth, at most 3d].", show_default=False),
    ] = None
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            autocompletion=completion.settings,
            help="A setting of the scheduler or of a policy, like lookback=14d.",
            show_default=False,
        ),
    ] = None
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=V1,V2...",
            autocompletion=completion.settings,
            help="Try each value; with several: every combination.",
            show_default=False,
        ),
    ] = None
    host_faults: Annotated[
        str, typer.Option(metavar="TIME", help="Mean time between the faults of one host; 0: never.")
    ] = "250d"
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Where tables and reports go.", show_default=False)
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace the results of an earlier simulation there.")] = False
    processes: Annotated[
        int, typer.Option("--processes", "-j", metavar="N", help="Runs at a time; 0: one for each CPU.", min=0)
    ] = 0
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write HTML reports and PNGs to DIR.")] = True
    window: Annotated[
        str | None,
        typer.Option(metavar="FROM..TO", help="What the GPU timeline shows, like 5d..6d12h.", show_default=False),
    ] = None
    hosts: Annotated[
        int | None, typer.Option(metavar="N", help="How many hosts it shows.", min=1, show_default=False)
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="The summaries as JSON.")] = False

    def setups(self, base: Callable[[int], Setup]) -> Iterator[Setup]:
        """``base`` (of a seed) under every policy, setting and seed asked for."""
        from tenure.sim.settings import SettingError, parse_assignment, varied

        seeds = range(self.first_seed, self.first_seed + self.seeds)
        try:
            given = []
            for name, values in map(parse_assignment, self.setting or ()):
                if len(values) > 1:
                    raise CliError(f"set {name} = {','.join(values)}: one value; to try several: --vary")
                given.append((name, values[0]))
            choices = [parse_assignment(text) for text in self.vary or ()]
            yield from varied(base, self.policies(), seeds, given, choices)
        except SettingError as error:
            raise CliError(str(error)) from error

    def told(self) -> list[str]:
        """What of these options makes the work another one, for titles."""
        return unusual([("host-faults", self.host_faults, RunOptions.host_faults)])

    def policies(self) -> list[str]:
        from tenure.policies import NAMES

        names = named.policies([self.policy])
        if not names:
            raise CliError(f"policy = (none): there are {', '.join(NAMES)}")
        return names

    def orders(self, setups: Iterable[Setup]) -> list[Order]:
        """Numbered runs with their folders."""
        from tenure.sim.runner import Order

        made = list(setups)
        labels = [setup.label for setup in made]
        for label in labels:
            if labels.count(label) > 1:
                raise CliError(f"two runs would be called {label}: name each policy, value and seed once")
        window = self.window_ms()
        finish = partial(draw, window=window, hosts=self.hosts) if self.report else None
        return [
            Order(i, setup, None if self.out is None else self.out / setup.label, finish)
            for i, setup in enumerate(made)
        ]

    def window_ms(self) -> tuple[int, int] | None:
        """From and to, ms after the start of the simulation."""
        if self.window is None:
            return None
        start, dots, end = self.window.partition("..")
        wrong = CliError(f"window = {self.window}: write FROM..TO, like 5d..6d12h")
        if not dots:
            raise wrong
        window = duration("window", start), duration("window", end)
        if window[0] >= window[1]:
            raise wrong
        return window

    def check_folder(self) -> None:
        """Whether results can go to DIR; to be asked before anything takes long."""
        if self.out is not None:
            check_folder(self.out, self.force)

    def ready_folder(self) -> None:
        """Make DIR. An earlier simulation there is only replaced when that was asked for."""
        if self.out is not None:
            ready_folder(self.out, self.force)


def unusual(options: Iterable[tuple[str, object, object]]) -> list[str]:
    """``name=value`` of those (name, value, default) that are not as usual."""
    return [f"{name}={value}" for name, value, default in options if value != default]


def days_ms(days: float) -> int:
    """Raises CliError."""
    if not isfinite(days):
        raise CliError(f"days = {days}: write a number of days, like 30")
    return round(days * 86_400_000)


def duration(name: str, text: str) -> int:
    """Milliseconds. Raises CliError."""
    try:
        return units.parse_duration(text)
    except units.UnitError as error:
        raise CliError(f"{name} = {text}: {error.fix}") from error


def numbers(name: str, text: str) -> list[int]:
    """``256,512``. Raises CliError."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part.isdecimal() or not int(part):
            raise CliError(f"{name} = {part}: write whole numbers, at least 1, like 256 or 256,512")
    return [int(part) for part in parts]


def check_sizes(name: str, sizes: Sequence[int], per_host: int) -> None:
    for size in sizes:
        if size % per_host or size < per_host:
            raise CliError(f"{name} = {size}: hosts have {per_host} GPUs, so write a multiple of {per_host}")
