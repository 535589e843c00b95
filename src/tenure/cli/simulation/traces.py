"""``tenure simulate trace``: a real trace of jobs, on a cluster of one's choice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure import units
from tenure.cli.errors import CliError
from tenure.cli.options import takes
from tenure.cli.simulation import completion
from tenure.cli.simulation.options import RunOptions
from tenure.cli.simulation.running import go, timed

if TYPE_CHECKING:
    from tenure.sim.traces import Trace, TraceOptions

_MILLION = 1_000_000


@takes(RunOptions)
def trace(
    options: RunOptions,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace, packed or not, or a folder of files.")],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="itp, philly, sacct, supercloud or swf [by its header].",
            autocompletion=completion.formats,
        ),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(metavar="N", help="GPUs of the cluster [so that --demand holds].", show_default=False)
    ] = None,
    demand: Annotated[float, typer.Option(metavar="X", help="GPUs asked for over GPUs there.", min=0.01)] = 2.5,
    cut: Annotated[
        str | None,
        typer.Option(
            metavar="FROM..TO", help="Only jobs submitted then: dates, or times like 10d..40d.", show_default=False
        ),
    ] = None,
    thin: Annotated[float, typer.Option(metavar="X", help="Keep this part of the jobs.", min=0.000001, max=1)] = 1.0,
    stretch: Annotated[float, typer.Option(metavar="X", help="Multiply how long jobs run.", min=0.001)] = 1.0,
    only: Annotated[
        list[str] | None,
        typer.Option("--team", metavar="NAME", help="Only this team; may be repeated.", show_default=False),
    ] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(metavar="TEAM=NAME", help="The budget of a team; several may share one.", show_default=False),
    ] = None,
    shares: Annotated[
        str, typer.Option(metavar="HOW", help="gpu-time, equal, or BUDGET=PART,BUDGET=PART...")
    ] = "gpu-time",
    rule: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GPUS,RUNTIME,MIN_RUNTIME,RESUMABLE",
            help="Jobs up to so many GPUs and so long sign this; - is any. The first that matches.",
            show_default=False,
        ),
    ] = None,
    unallocated: Annotated[float, typer.Option(metavar="X", help="This part has min_runtime 0.", min=0, max=1)] = 0.0,
    add_debug: Annotated[
        float, typer.Option(metavar="X", help="Synthetic debug jobs for each job of the trace.", min=0)
    ] = 0.0,
    cap: Annotated[
        bool, typer.Option("--cap", help="Shrink what is larger than the cluster, not leave it out.")
    ] = False,
    days: Annotated[
        float | None, typer.Option(metavar="N", help="Simulate so long [the trace].", min=0.01, show_default=False)
    ] = None,
) -> None:
    """Replay a trace. Every job comes at its time; what each row became is told in the report."""
    chosen = _options(
        {
            "gpus": gpus,
            "demand": round(demand * _MILLION),
            "thin": round(thin * _MILLION),
            "durations": round(stretch * _MILLION),
            "teams_only": tuple(only or ()),
            "teams": tuple(_pair("budget", text) for text in budget or ()),
            "unallocated": round(unallocated * _MILLION),
            "add_debug": round(add_debug * _MILLION),
            "cap": cap,
        },
        cut,
        shares,
        rule,
    )
    opened = _open(file, form, chosen)

    from tenure.sim.months import trace_of

    length = None if days is None else round(days * 86_400_000)
    base = trace_of(opened, length)
    go(options, lambda: options.setups(timed(options, base, base.duration)), opened.notes())


def _open(file: Path, form: str | None, options: TraceOptions) -> Trace:
    from tenure.cli import render
    from tenure.sim.traces import TraceError, open_trace

    try:
        with render.errors().status(f"reading {file.name}"):
            return open_trace(file, form, options)
    except TraceError as error:
        raise CliError(str(error)) from error


def _options(values: dict[str, object], cut: str | None, shares: str, rules: list[str] | None) -> TraceOptions:
    from tenure.sim.traces import Shares, TraceOptions, Window

    try:
        if cut is not None:
            values["window"] = Window.parse(cut)
        if "=" in shares:
            pairs = [_pair("shares", text) for text in shares.split(",")]
            values["shares"] = tuple((name, units.parse_share(part)) for name, part in pairs)
        else:
            values["shares"] = Shares(shares)
        if rules:
            values["rules"] = tuple(_rule(text) for text in rules)
        return TraceOptions(**values)  # type: ignore[arg-type]  # each of its own type, above
    except ValueError as error:
        raise CliError(str(error)) from error


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise CliError(f"{option} = {text}: write NAME=VALUE")
    return name.strip(), value.strip()


def _rule(text: str) -> object:
    from tenure.sim.traces import Rule

    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 4 or parts[3] not in ("yes", "no"):
        raise CliError(f"rule = {text}: write GPUS,RUNTIME,MIN_RUNTIME,yes|no, like 8,1h,15m,yes or -,-,2h,yes")
    most, longest, protected, resumable = parts
    if most != "-" and not most.isdecimal():
        raise CliError(f"rule = {text}: GPUS is a whole number, or - for any")
    return Rule(
        None if most == "-" else int(most),
        None if longest == "-" else units.parse_duration(longest),
        units.parse_duration(protected),
        resumable == "yes",
    )
