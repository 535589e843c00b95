"""``tenure simulate --from-sacct``: a Slurm site's own time, as it was and under other policies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure import units
from tenure.cli.context import print_json
from tenure.cli.errors import CliError, Exit
from tenure.cli.options import takes
from tenure.cli.simulation import completion
from tenure.cli.simulation.folders import check_folder, make_folder, ready_folder
from tenure.cli.simulation.options import RunOptions, duration
from tenure.cli.simulation.sides import show_sides
from tenure.cli.simulation.traces import read_rule
from tenure.cli.slurm import Partitions

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tenure.reports.sides import Side
    from tenure.shadow.sacct.report import Chosen, Report
    from tenure.shadow.sacct.run import Result
    from tenure.shadow.sacct.site import Given
    from tenure.sim.traces.files import Source
    from tenure.slurm import Site

_SINCE = "30d"


@dataclass(frozen=True)
class SiteOptions:
    """What is given of the site, as it was typed."""

    associations: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The tree: what `sacctmgr --parsable2 show associations` prints.", show_default=False
        ),
    ] = None
    slurm_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="What `scontrol show config` prints: half-life, weights.", show_default=False
        ),
    ] = None
    nodes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What `scontrol show node` prints.", show_default=False)
    ] = None
    cluster: Annotated[
        str, typer.Option(metavar="NAME", help="Slurm's cluster, where the files are of several.", show_default=False)
    ] = ""
    gpus: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="GPUs of made-up hosts \\[the nodes, or as many as were in use at a time].",
            min=1,
            show_default=False,
        ),
    ] = None
    gpus_per_host: Annotated[int, typer.Option(metavar="N", help="GPUs of a made-up host.", min=1, max=1024)] = 8

    def given(self) -> Given:
        """Raises CliError."""
        from tenure.shadow.sacct.site import Given

        if self.gpus is not None and self.gpus % self.gpus_per_host:
            raise CliError(
                f"gpus = {self.gpus}: hosts have {self.gpus_per_host} GPUs, so write a multiple of {self.gpus_per_host}"
            )
        return Given(
            _text("associations", self.associations),
            _text("slurm-config", self.slurm_config),
            _text("nodes", self.nodes),
            self.cluster,
            self.gpus,
            self.gpus_per_host,
        )


def _text(name: str, path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text("utf-8-sig", "replace")
    except OSError as error:
        raise CliError(f"{name} = {path}: cannot be read: {error.strerror}") from error


@takes(SiteOptions)
def from_sacct(
    site: SiteOptions,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="What `sacct --parsable2` prints, packed or not \\[this Slurm].", show_default=False
        ),
    ] = None,
    partition: Partitions = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help=f"Begin there: a time, or so long ago \\[the file, or {_SINCE}].", show_default=False
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="End there \\[the file, or now].", show_default=False)
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME[,NAME...]",
            help="Under which policies, or all, beside as it was and a model of Slurm.",
            autocompletion=completion.policies,
        ),
    ] = "budgets",
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the scheduler or of a policy, like lookback=14d.",
            autocompletion=completion.settings,
            show_default=False,
        ),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GPUS,RUNTIME,MIN_RUNTIME,RESUMABLE",
            help="Jobs up to so many GPUs and so long sign this; - is any. The first that matches.",
            show_default=False,
        ),
    ] = None,
    unallocated_qos: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A QOS, or a partition, whose jobs run on what is left over.", show_default=False
        ),
    ] = None,
    warmup: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Left out at the beginning \\[a quarter, at most the lookback].", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Where reports and tables go.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the results of an earlier simulation there.")] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="A page for each side, too.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
) -> None:
    """A Slurm site's own time, as it was, in a model of Slurm, and under Tenure: who would have gained and lost."""
    policies = RunOptions(policy=policy).policies()
    now = int(time.time())
    chosen = _chosen(file, now, since, until, partition, rule, unallocated_qos, warmup)
    given = site.given()
    if out is not None:
        check_folder(out, force)
        make_folder(out)
    try:
        with _bars() as bars:
            read = _read(file, given, chosen, bars)
            if out is not None:
                ready_folder(out, force)
            result, files = _run(read, policies, setting or [], out, bars, pages=report)
    except KeyboardInterrupt as error:
        there = out is not None and any(out.glob("*/run.json"))
        kept = f"; the sides that were done are in {out}" if there else ""
        raise CliError(f"interrupted{kept}", Exit.INTERRUPTED) from error
    if as_json:
        print_json(result.found)
    else:
        show_sides(result.found, files)


def _chosen(
    file: Path | None,
    now: int,
    since: str | None,
    until: str | None,
    partitions: list[str] | None,
    rules: list[str] | None,
    unallocated: list[str] | None,
    warmup: str | None,
) -> Chosen:
    """Raises CliError."""
    from tenure.shadow.sacct.report import Chosen
    from tenure.sim.traces.options import DEFAULT_RULES, TraceOptions

    ends = _moment("until", until, now) if until is not None else 0 if file is not None else now
    begins = _moment("since", since or _SINCE, now) if since is not None or file is None else 0
    if begins and ends and begins >= ends:
        raise CliError(f"since = {since or _SINCE}: nothing lies between it and the end")
    read = tuple(read_rule(text) for text in rules) if rules else DEFAULT_RULES
    try:
        TraceOptions(rules=read)
    except ValueError as error:
        raise CliError(f"rule: {str(error).partition(': ')[2]}; add one like -,-,2h,yes") from error
    length = None if warmup is None else duration("warmup", warmup)
    return Chosen(begins, ends, tuple(partitions or ()), read, tuple(unallocated or ()), length)


def _moment(name: str, text: str, now: int) -> int:
    """Seconds since 1970. Raises CliError."""
    try:
        return now - units.parse_duration(text) // 1000
    except units.UnitError:
        pass
    try:
        return units.parse_time(f"{text}T00:00:00Z" if len(text) == 10 else text) // 1000
    except units.UnitError as error:
        raise CliError(f"{name} = {text}: {error.fix}, a day like 2026-09-01, or a duration like 30d") from error


def _read(file: Path | None, given: Given, chosen: Chosen, bars: Progress) -> Report:
    """Raises CliError."""
    from tenure.config import ConfigError
    from tenure.shadow.sacct import live
    from tenure.shadow.sacct.report import read_report
    from tenure.shadow.sacct.site import SiteError, site_of
    from tenure.sim.traces.records import Reading, TraceError
    from tenure.slurm import CommandFailed, Commands

    name = "sacct" if file is None else file.name
    task = bars.add_task(f"reading {name}", total=None)

    def rows(count: int) -> None:
        bars.update(task, description=f"reading {name}: {count:,} rows")

    try:
        if file is None:
            commands = Commands()
            site = _live_site(commands, given)

            def moved(part: float) -> None:
                bars.update(task, completed=part, total=1.0)

            sources = iter([live.ask(commands, chosen.since, chosen.until, moved)])
        else:
            site = site_of(given)
            sources = _reports(file)
        return read_report(sources, Reading(path=name, format="sacct"), site, given, chosen, rows)
    except CommandFailed as error:
        raise CliError(
            f"{error}\nOn a machine with Slurm's commands these make the files:\n\n{live.HOW}\n\nand then, here:\n\n"
            f"{live.THEN}",
            Exit.UNREACHABLE,
        ) from error
    except (TraceError, SiteError, ConfigError) as error:
        raise CliError(str(error)) from error
    finally:
        bars.remove_task(task)


def _reports(file: Path) -> Iterator[Source]:
    """Raises TraceError for a file that is known as a trace, and is no report of sacct."""
    from tenure.sim.traces.files import open_sources
    from tenure.sim.traces.records import TraceError
    from tenure.sim.traces.trace import format_of

    for source in open_sources(file):
        name = format_of(source)
        if name not in (None, "sacct"):
            raise TraceError(
                f"{source.name}: this is no report of sacct, but a trace of the format {name}, without the accounts of "
                f"a site; `tenure simulate trace {file}` reads it"
            )
        yield source


def _live_site(commands: object, given: Given) -> Site:
    """What Slurm says, but for what was given. Raises CommandFailed and SiteError."""
    from tenure.shadow.sacct.site import site_of
    from tenure.slurm import CommandFailed, Commands, read_site

    assert isinstance(commands, Commands)
    site = read_site(commands)
    if not site.answers:
        raise CommandFailed("scontrol", "show config", site.unread["config"])
    files = site_of(given)
    if given.config is not None:
        site.settings = files.settings
    if given.nodes is not None:
        site.nodes, site.partitions = files.nodes, files.partitions
    if given.associations is not None:
        site.associations = files.associations
    return site


def _run(
    report: Report, policies: list[str], settings: list[str], out: Path | None, bars: Progress, *, pages: bool
) -> tuple[Result, list[Path]]:
    """Raises CliError."""
    from tenure.shadow.sacct import run
    from tenure.sim.settings import SettingError, parse_assignment

    tasks: dict[str, TaskID] = {}
    over: list[str] = []

    def moved(label: str, part: float) -> None:
        bars.update(tasks[label], completed=part)

    def done(side: Side) -> None:
        moved(side.label, 1.0)
        over.append(side.label)
        if not bars.console.is_terminal:
            bars.console.print(f"{len(over)} of {len(tasks)}: {side.label}", markup=False, soft_wrap=True)
        if out is not None:
            run.write_tables(side, out)

    try:
        pairs = []
        for name, values in map(parse_assignment, settings):
            if len(values) > 1:
                raise CliError(f"set {name} = {','.join(values)}: one value")
            pairs.append((name, values[0]))
        orders = run.orders(report, policies, pairs)
        tasks = {order.label: bars.add_task(order.label, total=1.0) for order in orders}
        result = run.run(report, orders, moved, done)
    except SettingError as error:
        raise CliError(str(error)) from error
    if out is None:
        return result, []
    bars.add_task("writing", total=None)
    others = ", ".join(run.phrase_of(order.label) for order in orders[1:-1]) or run.phrase_of(orders[-1].label)
    return result, run.write(result, out, f"{report.reading.path}: as it was, and {others}", pages=pages)


def _bars() -> Progress:
    from rich.progress import Progress

    from tenure.cli import render

    return Progress(console=render.errors(), transient=True)
