"""All commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli import (
    balance,
    context,
    eta,
    follow,
    history,
    jobs,
    listing,
    local,
    notice,
    operator,
    people,
    shadow,
    simulation,
    slurm,
    top,
    trace,
    why,
)
from tenure.cli.main import version

app = typer.Typer(
    help="GPU time, not GPUs: budgets, contracts, and a scheduler that keeps its promises.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(version())
        raise typer.Exit


@app.callback()
def root(
    url: Annotated[str | None, typer.Option(metavar="URL", help="The server [TENURE_URL, or client.toml].")] = None,
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    context.set_url(url)


# What follows the command that is to run belongs to it, options included.
_COMMAND_LAST = {"allow_interspersed_args": False}

_JOBS = "Jobs"
app.command(rich_help_panel=_JOBS, context_settings=_COMMAND_LAST)(jobs.submit)
app.command(rich_help_panel=_JOBS, context_settings=_COMMAND_LAST)(jobs.run)
app.command(rich_help_panel=_JOBS)(listing.ls)
app.command(rich_help_panel=_JOBS)(history.history)
app.command(rich_help_panel=_JOBS)(listing.show)
app.command(rich_help_panel=_JOBS)(why.why)
app.command(rich_help_panel=_JOBS)(eta.eta)
app.command(rich_help_panel=_JOBS)(follow.logs)
app.command(rich_help_panel=_JOBS)(follow.wait)
app.command(rich_help_panel=_JOBS)(jobs.cancel)
app.command(rich_help_panel=_JOBS)(jobs.hold)
app.command(rich_help_panel=_JOBS)(jobs.release)
app.command(rich_help_panel=_JOBS, context_settings={"ignore_unknown_options": True})(jobs.priority)
app.command(rich_help_panel=_JOBS)(jobs.checkpoint)

_CLUSTER = "The cluster"
app.command(rich_help_panel=_CLUSTER)(listing.status)
app.command(rich_help_panel=_CLUSTER)(top.top)
app.command(rich_help_panel=_CLUSTER)(listing.budgets)
app.command(rich_help_panel=_CLUSTER)(balance.balance)
app.command(rich_help_panel=_CLUSTER)(listing.hosts)
app.command(rich_help_panel=_CLUSTER)(listing.events)
app.command(rich_help_panel=_CLUSTER)(listing.evictions)
app.command(rich_help_panel=_CLUSTER)(people.whoami)

_OPERATE = "For operators"
app.command(rich_help_panel=_OPERATE)(operator.apply)
app.command(rich_help_panel=_OPERATE)(operator.config)
app.command(rich_help_panel=_OPERATE)(operator.drain)
app.command(rich_help_panel=_OPERATE)(operator.undrain)
app.command("fail-host", rich_help_panel=_OPERATE)(operator.fail_host)
app.command(rich_help_panel=_OPERATE)(operator.pause)
app.command(rich_help_panel=_OPERATE)(operator.resume)
app.command(rich_help_panel=_OPERATE)(jobs.evict)
app.command(rich_help_panel=_OPERATE)(listing.audit)
app.command(rich_help_panel=_OPERATE)(operator.metrics)
app.add_typer(people.users, name="users", rich_help_panel=_OPERATE)
app.add_typer(people.tokens, name="tokens", rich_help_panel=_OPERATE)
slurm.app.command()(shadow.shadow)
slurm.app.command()(shadow.report)
app.add_typer(slurm.app, name="slurm", rich_help_panel=_OPERATE)

app.add_typer(notice.app, name="notice", rich_help_panel=_JOBS)
app.add_typer(simulation.app, name="simulate", rich_help_panel="Trying a policy first")
app.add_typer(trace.app, name="trace", rich_help_panel="Trying a policy first")

_MACHINE = "The server"
app.command(rich_help_panel=_MACHINE)(local.init)
app.command(rich_help_panel=_MACHINE)(local.serve)
app.command(rich_help_panel=_MACHINE)(local.replay)
app.command(rich_help_panel=_MACHINE)(local.backup)
app.command(rich_help_panel=_MACHINE)(local.restore)
app.command(rich_help_panel=_MACHINE)(local.compact)
