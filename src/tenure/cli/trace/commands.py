"""``tenure trace describe``."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.context import print_json
from tenure.cli.errors import CliError, Exit
from tenure.cli.simulation import completion
from tenure.cli.simulation.folders import make_folder

if TYPE_CHECKING:
    from tenure.reports.traces.records import TraceFigures
    from tenure.sim.traces import Gauge

DATA_FILE = "figures.json"

app = typer.Typer(
    help="Look into a trace of jobs: a report of sacct, or a published one. Needs no server.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def group() -> None:
    """Keeps ``describe`` a command of its own while there is no other."""


@app.command()
def describe(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace, packed or not, or a folder of files.")],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="sacct, swf, helios, philly, ... \\[by its header].",
            autocompletion=completion.formats,
            show_default=False,
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(metavar="N", help="GPUs of the cluster, to compare the demand with.", min=1, show_default=False),
    ] = None,
    cut: Annotated[
        str | None,
        typer.Option(
            metavar="FROM..TO", help="Only jobs submitted then: dates, or times like 10d..40d.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="A report with plots goes here.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
) -> None:
    """What a trace asks for, and of whom: demand, sizes, durations, people, arrivals, ends, waits, limits, oddities.

    It is read as a stream, in memory that does not grow with it. Ctrl-C shows what was read by then.
    """
    if out is not None:
        make_folder(out)
    figures = _read(file, form, gpus, cut)
    _show(figures, out, as_json=as_json)
    if not figures.source.complete:
        raise CliError("interrupted: the figures are of what was read by then", Exit.INTERRUPTED)


def _read(file: Path, form: str | None, gpus: int | None, cut: str | None) -> TraceFigures:
    from tenure.sim.traces import describe_file

    with _gauged(file.name) as gauge:
        try:
            return describe_file(file, form, gpus=gpus, cut=cut, gauge=gauge)
        except ValueError as error:
            code = Exit.INTERRUPTED if gauge.stopped else Exit.REFUSED
            raise CliError(str(error), code) from error


def _show(figures: TraceFigures, out: Path | None, *, as_json: bool) -> None:
    from tenure.reports.traces.data import as_data

    if as_json:
        print_json(as_data(figures))
    else:
        from tenure.cli.trace.screen import show

        show(figures)
    if out is not None:
        _write(figures, out, told=not as_json)


def _write(figures: TraceFigures, out: Path, *, told: bool) -> None:
    import json

    from tenure.cli import render
    from tenure.reports.traces.data import as_data
    from tenure.reports.traces.page import write_report

    with render.errors().status("drawing"):
        page, *pictures = write_report(figures, out)
        data = out / DATA_FILE
        data.write_text(json.dumps(as_data(figures), indent=2, ensure_ascii=False) + "\n", "utf-8")
    if told:
        render.output().print(
            f"wrote {page}, {data} and {len(pictures)} pictures beside them", markup=False, soft_wrap=True
        )


@contextmanager
def _gauged(name: str) -> Iterator[Gauge]:
    """A bar of the bytes read on stderr; the first Ctrl-C ends the reading, a second one everything."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from tenure.cli import render
    from tenure.cli.render import escape
    from tenure.sim.traces import Gauge
    from tenure.units import printable

    columns = (TextColumn("reading {task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = render.errors()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(escape(printable(name)), total=None)
        gauge = Gauge(lambda done, there: bars.update(task, completed=done, total=there))
        before = signal.getsignal(signal.SIGINT)

        def stop(*_: object) -> None:
            signal.signal(signal.SIGINT, before)
            gauge.stop()

        signal.signal(signal.SIGINT, stop)
        try:
            yield gauge
        finally:
            signal.signal(signal.SIGINT, before)
