"""``tenure simulate month``, ``trace``, ``log``, ``compare``, ``report`` and ``policies``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.context import ConfigOption, config_path, print_json
from tenure.cli.errors import CliError, Exit
from tenure.cli.options import takes
from tenure.cli.simulation import completion
from tenure.cli.simulation.drawing import draw
from tenure.cli.simulation.options import RunOptions, check_sizes, numbers
from tenure.cli.simulation.running import go, timed
from tenure.cli.simulation.traces import trace

if TYPE_CHECKING:
    from tenure.sim.setup import Setup

_PER_HOST = 8
_DEFAULT_GPUS = "256"

app = typer.Typer(
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
    days: Annotated[float, typer.Option(metavar="N", help="Simulated days, warm-up included.", min=0.01)] = 30,
    mix: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="published or saturated: how much people ask for.", autocompletion=completion.mixes
        ),
    ] = "published",
    people: Annotated[int, typer.Option(metavar="N", help="Researchers, in 15 budgets of 4 programs.", min=1)] = 150,
) -> None:
    """A month of synthetic researchers, who work by day, debug in bursts, and answer to waiting."""
    sizes = numbers("gpus", gpus)
    check_sizes("gpus", sizes, _PER_HOST)
    others = [_cluster(text) for text in also or ()]
    go(options, lambda: _months(options, sizes, others, days, mix, people))


def _cluster(text: str) -> tuple[str, int]:
    name, equals, gpus = text.partition("=")
    if not equals or not name.strip() or name == "main":
        raise CliError(f"cluster = {text}: write NAME=GPUS, like west=128; the first one is called main")
    (size,) = numbers("cluster", gpus)
    check_sizes("cluster", [size], _PER_HOST)
    return name.strip(), size


def _months(
    options: RunOptions, sizes: Sequence[int], others: Sequence[tuple[str, int]], days: float, mix: str, people: int
) -> Iterator[Setup]:
    from tenure.sim.months import MIXES, month_of

    if mix not in MIXES:
        raise CliError(f"mix = {mix}: there are {', '.join(MIXES)}")
    for size in sizes:
        base = month_of(mix, {"main": size, **dict(others)}, people=people, per_host=_PER_HOST)
        settings = (("gpus", str(size)),) if len(sizes) > 1 else ()
        yield from options.setups(timed(options, replace(base, settings=settings), round(days * 86_400_000)))


app.command()(trace)


@app.command()
def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Results of simulations, or single runs.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where the comparison goes.")],
    as_json: Annotated[bool, typer.Option("--json", help="The comparison as JSON.")] = False,
) -> None:
    """Put runs of the same workload side by side, with their spread over seeds, and say what exceeds it."""
    from tenure.cli.simulation import view

    runs = [run for folder in folders for run in run_folders(folder)]
    out.mkdir(parents=True, exist_ok=True)
    view.show_comparison(view.write_comparison(runs, out), out, as_json=as_json)


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


def run_folders(folder: Path) -> list[Path]:
    """The runs in ``folder``, which may be one itself. Raises CliError."""
    if (folder / "run.json").is_file():
        return [folder]
    runs = sorted(path.parent for path in folder.glob("*/run.json"))
    if not runs:
        raise CliError(f"folder = {folder}: no simulated run is there; name the DIR of `tenure simulate ... --out DIR`")
    return runs


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

    options = RunOptions(out=out, force=force, window=window)
    shown = options.window_ms()
    url = load(config_path(config)).server.database_url
    with render.errors().status("replaying the log") as spinner:
        run, batches, different = run_log(url, lambda count: spinner.update(f"replaying the log: {count} batches"))
    options.ready_folder()
    folder = out / "log"
    tables.write_run(run, folder)
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
    for name, description in DESCRIPTIONS.items():
        print(f"{name:12} {description}")
