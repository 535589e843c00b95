"""``tenure simulate behaviours``: what each way to behave gains or loses those who do it, under each policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tenure import units
from tenure.cli.context import print_json
from tenure.cli.errors import CliError, Exit
from tenure.cli.options import takes
from tenure.cli.simulation import completion
from tenure.cli.simulation.behaving import ADAPTIVE, LOOK_EVERY, SHARE, check_name, look_ms, parse_part
from tenure.cli.simulation.options import RunOptions, check_sizes, days_ms, duration
from tenure.cli.simulation.running import timed

if TYPE_CHECKING:
    from tenure.reports.behaviours import Behaviours
    from tenure.sim.setup import Setup

_GPUS, _PER_HOST, _DAYS = 64, 8, 14.0
_PEOPLE, _FOR_GPUS, _LEAST = 150, 256, 30
"""People for so many GPUs, and the fewest: a small cluster is not for as many as a large one."""


@takes(RunOptions)
def behaviours(
    options: RunOptions,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="What people do, like high squat; adaptive: all of them learn what pays.",
            autocompletion=completion.behaviours,
            show_default=False,
        ),
    ] = None,
    gpus: Annotated[int, typer.Option(metavar="N", help="GPUs of the cluster.", min=1)] = _GPUS,
    days: Annotated[float, typer.Option(metavar="N", help="Simulated days.", min=0.01, max=36500)] = _DAYS,
    mix: Annotated[
        str,
        typer.Option(metavar="NAME", help="published or saturated.", autocompletion=completion.mixes),
    ] = "saturated",
    people: Annotated[
        int | None, typer.Option(metavar="N", help="Researchers [150 for 256 GPUs].", min=1, show_default=False)
    ] = None,
    share: Annotated[str, typer.Option(metavar="SHARE", help="How many of them do it.")] = SHARE,
    look_every: Annotated[str, typer.Option(metavar="TIME", help="How often adaptive people look.")] = LOOK_EVERY,
    reap_idle: Annotated[
        str, typer.Option(metavar="TIME", help="End jobs whose GPUs are idle for so long; 0: never.")
    ] = "2h",
) -> None:
    """Run worlds with and without each behaviour, and say what it gains or loses those who do it under each policy."""
    for name, value in (("vary", options.vary), ("window", options.window), ("hosts", options.hosts)):
        if value:
            raise CliError(f"{name}: every world has the same settings and no report of its own; leave it out")
    check_sizes("gpus", [gpus], _PER_HOST)
    part = parse_part("share", share) / 1_000_000
    if not part:
        raise CliError(f"share = {share}: somebody has to do it")
    many = max(_LEAST, _PEOPLE * gpus // _FOR_GPUS) if people is None else people
    worlds = _Worlds(
        options, _named(names), gpus, days, mix, many, part, look_ms(look_every), duration("reap-idle", reap_idle)
    )
    worlds.run()


def _named(names: Sequence[str] | None) -> tuple[str, ...]:
    """With the one that shows what is chance. Raises CliError."""
    from tenure.reports.behaviours import CHANCE
    from tenure.sim.worlds import USUAL

    for name in names or ():
        if name != ADAPTIVE:
            check_name(name)
    return tuple(dict.fromkeys([*names, CHANCE])) if names else USUAL


@dataclass(frozen=True, slots=True)
class _Worlds:
    """What was asked for. ``part``: of the people, who do it. Durations in ms. All raise CliError."""

    options: RunOptions
    names: Sequence[str]
    gpus: int
    days: float
    mix: str
    people: int
    part: float
    look_every: int
    reap_idle: int

    @property
    def unheeded(self) -> set[tuple[str, str]]:
        from tenure.sim.worlds import unheeded

        return unheeded(self.options.policies(), self.names)

    def setups(self) -> Iterator[Setup]:
        from tenure.reports.behaviours import HONEST
        from tenure.sim.months import MIXES, month_of

        if self.mix not in MIXES:
            raise CliError(f"mix = {self.mix}: there are {', '.join(MIXES)}")
        try:
            base = month_of(self.mix, {"main": self.gpus}, people=self.people, per_host=_PER_HOST)
        except ValueError as error:
            raise CliError(f"people = {self.people}: {error}") from error
        base = timed(self.options, base, days_ms(self.days))
        unheeded = self.unheeded
        made = list(self.options.setups(lambda seed: replace(base, seed=seed)))
        for name in (HONEST, *self.names):
            yield from (self._world(one, name) for one in made if (one.policy, name) not in unheeded)

    def _world(self, base: Setup, name: str) -> Setup:
        from tenure.sim.researchers.adapting import Learning
        from tenure.sim.worlds import choices, world

        learning = Learning(self.look_every, choices(base.policy, self.names))
        try:
            return world(base, name, self.part, self.reap_idle, learning)
        except ValueError as error:
            raise CliError(f"{name}: {error}") from error

    def about(self) -> str:
        """What is run, in words."""
        seeds = range(self.options.first_seed, self.options.first_seed + self.options.seeds)
        reaped = units.format_duration(self.reap_idle)
        said = f"The site ends jobs whose GPUs are idle for {reaped}." if self.reap_idle else "Nobody ends idle jobs."
        days = units.counted(1, "day") if self.days == 1 else f"{self.days:g} days"
        more = ", ".join([*self.options.told(), *(self.options.setting or ())])
        return (
            f"{self.gpus} GPUs, {self.mix}, {days}, {self.people} people, of whom {100 * self.part:g} % do "
            f"it; seeds {', '.join(map(str, seeds))}. {said}{f' Settings: {more}.' if more else ''}"
        )

    def run(self) -> None:
        from tenure.cli.simulation import progress
        from tenure.reports.behaviours import collect
        from tenure.sim.runner import Order

        options = self.options
        options.check_folder()
        orders = [Order(i, setup, None) for i, setup in enumerate(self.setups())]
        options.ready_folder()
        summaries, whole = progress.run_orders(orders, options.processes, options.out)
        done = [summary for summary in summaries if summary["complete"]]
        found = collect(done, self.part, self.unheeded, self.about())
        self._show(found)
        if not whole:
            raise CliError("interrupted; worlds that were complete by then are compared", Exit.INTERRUPTED)

    def _show(self, found: Behaviours) -> None:
        from tenure.cli import render
        from tenure.reports import behaviour_tables

        told: dict[str, Any] = behaviour_tables.as_json(found)
        out = self.options.out
        if out is not None:
            with render.errors().status("writing"):
                behaviour_tables.write_behaviours(found, out, png=self.options.report)
        if self.options.as_json:
            print_json(told)
            return
        grids = behaviour_tables.grids(found)
        for grid in [grids[0], *(grid for grid in grids if grid.head[0] != grids[0].head[0])] if grids else []:
            table = Table(box=None, title=grid.title, title_justify="left", pad_edge=False)
            for i, name in enumerate(grid.head):
                table.add_column(name, justify="right" if i else "left")
            for row in grid.rows:
                table.add_row(*row)
            render.output().print(table)
        for line in (*behaviour_tables.sentences(found), behaviour_tables.RULE):
            render.output().print(line, markup=False)
        if out is not None:
            render.output().print(f"tables and pictures are in {out}", markup=False)
