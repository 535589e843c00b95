"""Commands that work on this machine and need no running server: init, serve, replay, backup, restore, compact."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.context import ConfigOption, config_path
from tenure.cli.errors import CliError, Exit, os_error

if TYPE_CHECKING:
    from tenure.config import Config


def init(directory: Annotated[Path, typer.Argument(metavar="[DIR]", show_default=False)] = Path()) -> None:
    """Write a sample configuration: 2 hosts with 8 GPU slots each, 3 programs, 6 projects."""
    from tenure.config import write_sample

    try:
        written = write_sample(directory)
    except OSError as error:
        raise CliError(os_error(error)) from error
    for path in written:
        print(f"wrote {path}")
    print("look at them, then start the scheduler: tenure serve" + ("" if directory == Path() else f" in {directory}"))


def serve(
    config: ConfigOption = None,
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Instead of the configured one.")] = None,
    port: Annotated[int | None, typer.Option(help="Instead of the configured one; 0: any.", min=0, max=65535)] = None,
    log_level: Annotated[str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")] = "info",
) -> None:
    """Run the scheduler, until Ctrl-C or SIGTERM. Jobs go on without it and are adopted by the next one."""
    from tenure import adoption, logs
    from tenure.api.serve import run
    from tenure.engine.serve import AlreadyRunning

    if log_level not in ("debug", "info", "warning", "error"):
        raise CliError(f"log-level = {log_level}: write debug, info, warning or error")
    logs.configure(log_level)
    try:
        code = run(config_path(config), host, port, adoption.running)
    except AlreadyRunning as error:
        raise CliError(str(error)) from error
    except OSError as error:
        raise CliError(f"cannot serve: {os_error(error)}") from error
    raise typer.Exit(code)


def _load(config: Path | None) -> Config:
    from tenure.config import load

    return load(config_path(config))


def replay(config: ConfigOption = None) -> None:
    """Decide the whole kept log again, and compare every decision byte for byte. May run beside the server."""
    from tenure.cli import render
    from tenure.engine.maintenance import replay as replay_log

    url = _load(config).server.database_url
    with render.errors().status("replaying") as spinner:
        report = replay_log(url, lambda count: spinner.update(f"replaying: {count} batches"))
    for mismatch in report.mismatches:
        print(mismatch)
    what = f"{report.batches} batches from number {report.first_seq} on, {report.decisions} decisions"
    if report.mismatches:
        raise CliError(f"{what}: {len(report.mismatches)} came out differently", Exit.FAILED)
    print(f"{what}: all came out the same")


def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)], config: ConfigOption = None
) -> None:
    """Copy the database into one file, checked, while the server runs."""
    from tenure.engine.maintenance import backup as copy

    copy(_load(config).server.database_url, target)
    print(f"wrote {target}")


def restore(
    source: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace the database that is there.")] = False,
    config: ConfigOption = None,
) -> None:
    """Put a backup in place of the database. The server must be stopped."""
    from tenure.engine.maintenance import restore as put_back
    from tenure.store.database import sqlite_path

    target = sqlite_path(_load(config).server.database_url)
    if target is None:
        raise CliError("this database is PostgreSQL, which has its own tools: put back with pg_restore")
    put_back(source, target, force=force)
    print(f"restored {target}; start the server: tenure serve")


def compact(config: ConfigOption = None) -> None:
    """Take away history that is older than the retention; no sum changes. The server does this once a day."""
    from tenure.engine.maintenance import compact as take_away

    settings = _load(config)
    now = time.time_ns() // 1_000_000
    done = take_away(settings.server.database_url, now, settings.server.retention, settings.policy.lookback)
    print(f"took away {done.batches} batches, {done.jobs} jobs, {done.attempts} attempts, {done.spans} spans")
