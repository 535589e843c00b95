"""``tenure simulate trace``: a real trace of jobs, on a cluster of one's choice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure import units
from tenure.cli.errors import CliError
from tenure.cli.options import takes
from tenure.cli.simulation import completion
from tenure.cli.simulation.options import RunOptions, days_ms, duration, unusual
from tenure.cli.simulation.running import go, timed

if TYPE_CHECKING:
    from tenure.sim.setup import Setup
    from tenure.sim.traces import Rule, Trace, TraceOptions

_MILLION = 1_000_000
_DEMAND, _SHARES = 2.5, "gpu-time"
_ALIKE = (
    "every seed replays the same jobs: only faults of hosts differ, and what people claim under priority; with --thin, "
    "--unallocated or --add-debug each seed draws its own"
)


@takes(RunOptions)
def trace(
    options: RunOptions,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace, packed or not, or a folder of files.")],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="acme, helios, itp, pai-2020, pai-2023, philly, philly-json, sacct, supercloud or swf \\[by its "
            "header or name].",
            autocompletion=completion.formats,
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(metavar="N", help="GPUs of the cluster \\[so that --demand holds].", show_default=False),
    ] = None,
    demand: Annotated[
        float, typer.Option(metavar="X", help="GPUs asked for over GPUs there.", min=0.01, max=1000)
    ] = _DEMAND,
    cut: Annotated[
        str | None,
        typer.Option(
            metavar="FROM..TO", help="Only jobs submitted then: dates, or times like 10d..40d.", show_default=False
        ),
    ] = None,
    thin: Annotated[float, typer.Option(metavar="X", help="Keep this part of the jobs.", min=0.000001, max=1)] = 1.0,
    stretch: Annotated[float, typer.Option(metavar="X", help="Multiply how long jobs run.", min=0.001, max=1000)] = 1.0,
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
    ] = _SHARES,
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
        float, typer.Option(metavar="X", help="Synthetic debug jobs for each job of the trace.", min=0, max=100)
    ] = 0.0,
    cap: Annotated[
        bool, typer.Option("--cap", help="Shrink what is larger than the cluster, not leave it out.")
    ] = False,
    days: Annotated[
        float | None,
        typer.Option(metavar="N", help="Simulate so long \\[the trace].", min=0.01, max=36500, show_default=False),
    ] = None,
) -> None:
    """Replay a trace. Every job comes at its time; what each row became is told in the report."""
    chosen = _options(
        {
            "gpus": gpus,
            "demand": _millionths("demand", demand),
            "thin": _millionths("thin", thin),
            "durations": _millionths("stretch", stretch),
            "teams_only": tuple(only or ()),
            "teams": tuple(_budget("budget", text) for text in budget or ()),
            "unallocated": _millionths("unallocated", unallocated),
            "add_debug": _millionths("add-debug", add_debug),
            "cap": cap,
        },
        cut,
        shares,
        rule,
    )
    told = unusual(
        [
            ("demand", demand if gpus is None else _DEMAND, _DEMAND),
            ("cut", cut, None),
            ("thin", thin, 1.0),
            ("stretch", stretch, 1.0),
            *(("team", name, None) for name in only or ()),
            *(("budget", text, None) for text in budget or ()),
            ("shares", shares, _SHARES),
            *(("rule", text, None) for text in rule or ()),
            ("unallocated", unallocated, 0.0),
            ("add-debug", add_debug, 0.0),
            ("cap", "yes" if cap else None, None),
            ("days", days, None),
        ]
    )
    length = None if days is None else days_ms(days)
    go(options, lambda: _replays(options, file, form, chosen, length, told))


def _replays(
    options: RunOptions, file: Path, form: str | None, chosen: TraceOptions, length: int | None, told: list[str]
) -> Iterator[Setup]:
    from tenure.core.model import SHARE_ONE
    from tenure.sim.months import trace_of

    first = _open(file, form, chosen)
    selected = chosen.thin < SHARE_ONE or chosen.add_debug > 0
    """Whether the jobs themselves are drawn from the seed; the cluster is the same for all seeds."""
    alike = options.seeds > 1 and not selected and not chosen.unallocated

    def base(seed: int) -> Setup:
        opened = first
        if selected and seed != chosen.seed:
            opened = _open(file, form, replace(chosen, seed=seed, gpus=first.gpus))
        made = trace_of(opened, length)
        made = timed(options, made, made.duration).told([*told, *options.told()])
        return replace(made, notes=(*made.notes, _ALIKE)) if alike else made

    yield from options.setups(base)


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
            for name, _ in pairs:
                _check_name("shares", shares, name)
            values["shares"] = tuple((name, units.parse_share(part)) for name, part in pairs)
        else:
            values["shares"] = Shares(shares)
        if rules:
            values["rules"] = tuple(read_rule(text) for text in rules)
        return TraceOptions(**values)  # type: ignore[arg-type]  # each of its own type, above
    except ValueError as error:
        raise CliError(str(error)) from error


def _millionths(option: str, value: float) -> int:
    if not isfinite(value):
        raise CliError(f"{option} = {value}: write a number")
    return round(value * _MILLION)


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise CliError(f"{option} = {text}: write NAME=VALUE")
    return name.strip(), value.strip()


def _budget(option: str, text: str) -> tuple[str, str]:
    """Something and the name of its budget, which must be one that a configuration would accept."""
    team, name = _pair(option, text)
    _check_name(option, text, name)
    return team, name


def _check_name(option: str, text: str, name: str) -> None:
    from tenure.config.check_budgets import check_budgets
    from tenure.core.model import SHARE_ONE, Budget

    if "/" in name:
        raise CliError(f"{option} = {text}: budgets of a trace are not nested; write a name without /")
    for problem in check_budgets([Budget("lab", SHARE_ONE), Budget(f"lab/{name}", 0)], (), ""):
        raise CliError(f"{option} = {text}: {problem.remedy}")


def read_rule(text: str) -> Rule:
    """What ``--rule`` says. Raises CliError."""
    from tenure.sim.traces import Rule

    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 4 or parts[3] not in ("yes", "no"):
        raise CliError(f"rule = {text}: write GPUS,RUNTIME,MIN_RUNTIME,yes|no, like 8,1h,15m,yes or -,-,2h,yes")
    most, longest, protected, resumable = parts
    if most != "-" and not most.isdecimal():
        raise CliError(f"rule = {text}: GPUS is a whole number, or - for any")
    return Rule(
        None if most == "-" else int(most),
        None if longest == "-" else duration("rule", longest),
        duration("rule", protected),
        resumable == "yes",
    )
