"""``tenure slurm doctor``, ``partitions``, ``import`` and ``jobs``: a site's Slurm, looked at. Nothing is changed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.context import ConfigOption, print_json
from tenure.cli.errors import CliError, Exit

if TYPE_CHECKING:
    from tenure.slurm import Finding, Site

app = typer.Typer(
    no_args_is_help=True,
    help="A site's Slurm: whether it suits Tenure, and a configuration from what it has. Changes nothing.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def complete_partitions(incomplete: str) -> list[str]:
    """Short answers from a Slurm that is there, nothing otherwise."""
    from tenure.slurm import CommandFailed, Commands

    try:
        names = Commands().run("sinfo", "-h", "-o", "%R", timeout_s=2).split()
    except CommandFailed:
        return []
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


Partitions = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        "-p",
        metavar="NAME",
        help="For Tenure; several times for more \\[default: those with GPUs].",
        show_default=False,
        autocompletion=complete_partitions,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON, one document.")]


@app.command()
def doctor(
    partition: Partitions = None,
    user: Annotated[
        str,
        typer.Option(metavar="NAME", help="Under whose name Tenure is to run \\[default: yours].", show_default=False),
    ] = "",
    json: Json = False,
) -> None:
    """Look at Slurm's settings, and say what to set and why. Ends with 1 while something must be set."""
    from tenure.slurm import Level, counted, examine

    site = _read(user)
    if site.answers:
        _check_partitions(site, partition or ())
    findings = examine(site, partition or ())
    if json:
        print_json([finding.plain() for finding in findings])
    else:
        _show(findings)
        print(counted(findings))
    if any(finding.level is Level.MUST for finding in findings):
        raise typer.Exit(Exit.FAILED)


@app.command()
def partitions(config: ConfigOption = None, json: Json = False) -> None:
    """Show under whose rule each partition is: Tenure decides, or Slurm's own scheduler, or both.

    With `--config` the partitions that this tenure.toml names count as Tenure's.
    """
    from tenure.slurm import CommandFailed, Commands, read_marks, regimes

    site = _read("")
    if not site.answers:
        raise CliError(site.unread["config"], Exit.UNREACHABLE)
    marks: str | CommandFailed
    try:
        marks = read_marks(Commands())
    except CommandFailed as error:
        marks = error
    found = regimes(site, marks, _configured(site, config))
    if json:
        print_json([one.plain() for one in found])
        return
    from tenure.cli import render
    from tenure.cli.render import escape

    heads = ("PARTITION", "DECIDES", "NODES", "GPUS", "TENURE'S JOBS", "OTHERS", "SHARES NODES WITH", "WHY")
    table = render.table(*heads, right=heads[2:6], fold=("WHY",), spare=("NODES", "GPUS", "SHARES NODES WITH"))
    for one in found:
        counts = (str(count) for count in (one.nodes, one.gpus, one.ours, one.others))
        table.add_row(one.partition, one.rule.value, *counts, ", ".join(one.shares_with) or "-", escape(one.why))
    render.output().print(table)


def _configured(site: Site, config: Path | None) -> set[str]:
    """Partitions that a configuration names; its '' is Slurm's default. Raises CliError."""
    from tenure.config import ConfigError, load

    if config is None:
        return set()
    try:
        found = load(config)
    except ConfigError as error:
        raise CliError(str(error)) from error
    if found.server.executor != "slurm":
        return set()
    named = {found.slurm.partition, *(found.slurm_for(name).partition for name, _ in found.slurm_of)}
    default = next((one.name for one in site.partitions if one.default), "")
    return {name or default for name in named}


@app.command("import")
def import_(
    partition: Partitions = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write tenure.toml and budgets.toml there.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the files that are there.")] = False,
    organisation: Annotated[str, typer.Option(metavar="NAME", help="What the account root is called here.")] = "root",
    json: Json = False,
) -> None:
    """Read partitions, hosts and accounts, and write a configuration. stderr has what could not be carried over."""
    from tenure.slurm import NothingToCarry, carry_over

    files = ("tenure.toml", "budgets.toml")
    if out is not None and not force and (there := [name for name in files if (out / name).exists()]):
        raise CliError(f"out = {out}: {there[0]} is there; name another directory, or add --force")
    site = _read("")
    if not site.answers:
        raise CliError(site.unread["config"], Exit.UNREACHABLE)
    try:
        carried = carry_over(site, partition or (), organisation)
    except NothingToCarry as error:
        raise CliError(str(error)) from error
    for note in carried.notes:
        print(f"not carried over: {note}", file=sys.stderr)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in carried.files().items():
            (out / name).write_text(text, "utf-8")
            print(f"wrote {out / name}", file=sys.stderr)
    if json:
        print_json(carried.plain())
    elif out is None:
        for name, text in carried.files().items():
            print(f"# ---- {name}\n\n{text}")


@app.command()
def jobs(partition: Partitions = None, json: Json = False) -> None:
    """Jobs that the plugin has held at birth: which of Tenure's jobs each one is, or why it is none."""
    from tenure.executors.slurm import rows
    from tenure.executors.slurm.look import sort
    from tenure.slurm.commands import CommandFailed, Commands

    try:
        found = [row for name in partition or ("",) for row in rows.ask(Commands(), name)]
    except CommandFailed as error:
        raise CliError(str(error), Exit.UNREACHABLE) from error
    shown = [
        {
            "id": row.id,
            "user": row.user,
            "account": row.account,
            "state": row.state,
            "job": mark.job or None,
            "refused": mark.refused or None,
        }
        for row, mark in sort(found, "", -1).marked
        if not row.over
    ]
    if json:
        print_json(shown)
    else:
        _show_jobs(shown)


def _show_jobs(shown: Sequence[Mapping[str, str | int | None]]) -> None:
    from rich.text import Text

    from tenure.cli import render

    table = render.table("ID", "USER", "ACCOUNT", "STATE", "JOB", "NOT ADOPTED", fold=("NOT ADOPTED",))
    for one in shown:
        table.add_row(*(Text("" if value is None else str(value)) for value in one.values()))
    render.output().print(table)


def _read(user: str) -> Site:
    from tenure.slurm import Commands, read_site

    return read_site(Commands(), user)


def _check_partitions(site: Site, names: Sequence[str]) -> None:
    if unknown := site.unknown(names):
        known = ", ".join(one.name for one in site.partitions) or "none"
        raise CliError(f"partition = {unknown[0]}: Slurm has no such partition; there are: {known}")


_STYLES = {"must": "bold red", "should": "yellow", "cannot tell": "cyan", "fine": "dim green"}


def _show(findings: Sequence[Finding]) -> None:
    """One line for each; of what is fine only what it is."""
    from rich.text import Text

    from tenure.cli import render
    from tenure.slurm import Level

    for one in findings:
        line = Text(f"{one.level:<12}", style=_STYLES[one.level]) + Text(f"{one.code}: {one.found}")
        if one.level is not Level.FINE:
            line += Text(f"; wanted: {one.wanted}. {one.why[:1].upper()}{one.why[1:]}.")
            line += Text(f" Write: {one.line}" if one.line else "", style="bold")
        render.output().print(line, soft_wrap=True)
