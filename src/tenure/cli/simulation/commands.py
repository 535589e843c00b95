"""The commands of ``tenure simulate``: months, traces, sites with Slurm, live servers, behaviours, comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.context import ConfigOption, config_path, print_json
from tenure.cli.errors import CliError, Exit
from tenure.cli.options import takes
from tenure.cli.simulation import completion
from tenure.cli.simulation.behaving import LOOK_EVERY, Behaving
from tenure.cli.simulation.behaviours import behaviours
from tenure.cli.simulation.drawing import draw
from tenure.cli.simulation.folders import read_summaries, run_folders
from tenure.cli.simulation.group import SimulateGroup
from tenure.cli.simulation.options import RunOptions, check_sizes, days_ms, numbers, unusual
from tenure.cli.simulation.running import go, timed
from tenure.cli.simulation.sacct import from_sacct
from tenure.cli.simulation.server import from_server
from tenure.cli.simulation.traces import trace

if TYPE_CHECKING:
    from tenure.sim.setup import Setup

_PER_HOST = 8
_DEFAULT_GPUS = "256"
_DAYS, _PEOPLE, _FOR_GPUS = 30.0, 150, 256
_PEOPLE_HELP = (
    f"Researchers, in 15 budgets of 4 programs; as many whatever --gpus says, which suits {_FOR_GPUS}: on 64 it is 4 "
    "times as crowded."
)

app = typer.Typer(
    cls=SimulateGroup,
    help="Try a policy on a month of work, or on a trace, before it is rolled out. Needs no server.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
@takes(RunOptions)
def month(
    options: RunOptions,
    gpus: Annotated[
        str, typer.Option(metavar="N[,N...]", help="GPUs of the cluster; several: each is tried.")
    ] = _DEFAULT_GPUS,
    also: Annotated[
        list[str] | None,
        typer.Option("--cluster", metavar="NAME=GPUS", help="Another cluster beside it.", show_default=False),
    ] = None,
    per_host: Annotated[int, typer.Option(metavar="N", help="GPUs of each host.", min=1, max=1024)] = _PER_HOST,
    days: Annotated[
        float, typer.Option(metavar="N", help="Simulated days, warm-up included.", min=0.01, max=36500)
    ] = _DAYS,
    mix: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="published or saturated: how much people ask for.", autocompletion=completion.mixes
        ),
    ] = "published",
    people: Annotated[int, typer.Option(metavar="N", help=_PEOPLE_HELP, min=1)] = _PEOPLE,
    behave: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[=SHARE][,...]",
            help="What parts of the people do, like squat=10%,high=20%; adaptive: all of them learn what pays.",
            autocompletion=completion.behaviours,
            show_default=False,
        ),
    ] = None,
    look_every: Annotated[str, typer.Option(metavar="TIME", help="How often adaptive people look.")] = LOOK_EVERY,
    reap_idle: Annotated[
        str, typer.Option(metavar="TIME", help="End jobs whose GPUs are idle for so long; 0: never.")
    ] = "0",
) -> None:
    """A month of synthetic researchers, who work by day, debug in bursts, and answer to waiting."""
    sizes = numbers("gpus", gpus)
    check_sizes("gpus", sizes, per_host)
    others = dict(_cluster(text, per_host) for text in also or ())
    if len(others) < len(also or ()):
        raise CliError(f"cluster = {', '.join(also or ())}: give each cluster its own name")
    behaving = Behaving.read(behave, reap_idle, look_every)
    go(options, lambda: _months(options, sizes, others, per_host, days, mix, people, behaving))


def _cluster(text: str, per_host: int) -> tuple[str, int]:
    name, equals, gpus = text.partition("=")
    if not equals or not name.strip() or name == "main":
        raise CliError(f"cluster = {text}: write NAME=GPUS, like west=128; the first one is called main")
    (size,) = numbers("cluster", gpus)
    check_sizes("cluster", [size], per_host)
    return name.strip(), size


def _months(
    options: RunOptions,
    sizes: Sequence[int],
    others: Mapping[str, int],
    per_host: int,
    days: float,
    mix: str,
    people: int,
    behaving: Behaving | None,
) -> Iterator[Setup]:
    from tenure.sim.months import MIXES, month_of

    if mix not in MIXES:
        raise CliError(f"mix = {mix}: there are {', '.join(MIXES)}")
    told = [f"{name}={size}" for name, size in others.items()]
    told += unusual(
        [("people", people, _PEOPLE), ("days", f"{days:g}", f"{_DAYS:g}"), ("GPUs per host", per_host, _PER_HOST)]
    )
    for size in sizes:
        try:
            base = month_of(mix, {"main": size, **others}, people=people, per_host=per_host)
        except ValueError as error:
            raise CliError(f"people = {people}: {error}") from error
        if len(sizes) > 1:
            base = replace(base, settings=(("gpus", str(size)),), varied=("gpus",))
        more = behaving.told() if behaving is not None else []
        one = timed(options, base, days_ms(days)).told([*told, *more, *options.told()])
        one = replace(one, notes=(*one.notes, *_crowd(people, size + sum(others.values()))))
        yield from options.setups(partial(_played, one, behaving))


def _crowd(people: int, gpus: int) -> list[str]:
    """A note when nobody chose how many people there are, and the cluster is not of the size that they suit."""
    if people != _PEOPLE or gpus == _FOR_GPUS:
        return []
    times, alike = _FOR_GPUS / gpus, max(15, round(_PEOPLE * gpus / _FOR_GPUS))
    return [
        f"{people} people on {gpus} GPUs: {times:.2g} times as many for each GPU as on {_FOR_GPUS}; "
        f"--people {alike} {'is the fewest' if alike == 15 else 'makes it as crowded as there'}"
    ]


def _played(base: Setup, behaving: Behaving | None, seed: int) -> Setup:
    """The month of a seed, with what its people do."""
    return base if behaving is None else behaving.played(base, seed)


app.command()(trace)
app.command("from-sacct")(from_sacct)
app.command()(behaviours)
app.command("from-server")(from_server)


@app.command()
def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Results of simulations, or single runs.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where the comparison goes.")],
    as_json: Annotated[bool, typer.Option("--json", help="The comparison as JSON.")] = False,
) -> None:
    """Put runs of the same workload side by side, with their spread over seeds, and say what exceeds it."""
    from tenure.cli.simulation import view

    summaries = read_summaries([run for folder in folders for run in run_folders(folder)])
    view.show_comparison(view.write_comparison(summaries, out), summaries, out, as_json=as_json)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Results of a simulation, or a single run.")],
    window: Annotated[
        str | None,
        typer.Option(metavar="FROM..TO", help="What the GPU timeline shows, like 5d..6d12h.", show_default=False),
    ] = None,
    hosts: Annotated[
        int | None, typer.Option(metavar="N", help="How many hosts it shows.", min=1, show_default=False)
    ] = None,
) -> None:
    """Write the report of each run anew, to look at another window."""
    from tenure.cli import render

    shown = RunOptions(window=window).window_ms()
    for run in run_folders(folder):
        with render.errors().status(f"drawing {run.name}"):
            draw(run, window=shown, hosts=hosts)
        print(f"wrote {run / 'report.html'}")


@app.command()
def log(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where tables and the report go.")],
    config: ConfigOption = None,
    window: Annotated[
        str | None,
        typer.Option(metavar="FROM..TO", help="What the GPU timeline shows, like 5d..6d12h.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace earlier results there.")] = False,
) -> None:
    """Run a live server's event log through the simulator: the same decisions, and a report of what happened."""
    from tenure.cli import render
    from tenure.cli.simulation.live import run_log
    from tenure.config import load
    from tenure.reports import tables
    from tenure.sim.runner import write_summaries

    options = RunOptions(out=out, force=force, window=window)
    shown = options.window_ms()
    options.check_folder()
    url = load(config_path(config)).server.database_url
    with render.errors().status("replaying the log") as spinner:
        run, batches, different = run_log(url, lambda count: spinner.update(f"replaying the log: {count} batches"))
    options.ready_folder()
    folder = out / "log"
    write_summaries(out, [tables.write_run(run, folder)])
    with render.errors().status("drawing"):
        draw(folder, window=shown, hosts=None)
    print(f"{batches} batches, {run.plans} plans, {len(run.jobs)} jobs; wrote {folder / 'report.html'}")
    if different:
        raise CliError(f"{different} batches were decided differently: see `tenure replay`", Exit.FAILED)


@app.command()
def policies(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """List the policies that can be compared."""
    from tenure.policies import DESCRIPTIONS

    if as_json:
        print_json(dict(DESCRIPTIONS))
        return
    longest = max(map(len, DESCRIPTIONS))
    for name, description in DESCRIPTIONS.items():
        print(f"{name:{longest}}  {description}")
