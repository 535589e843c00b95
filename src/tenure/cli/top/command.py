"""The command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.context import ClusterOption, connect
from tenure.cli.errors import CliError

if TYPE_CHECKING:
    from tenure.api.models import ClusterStatus

AWAY_S = 0.0
"""The screen itself tries again when the server is away, and says so meanwhile."""


def top(
    cluster: ClusterOption = None,
    me: Annotated[bool, typer.Option("--me", help="Only your jobs.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Print one frame as text, and end.")] = False,
) -> None:
    """Watch cluster, budgets and queue live; `w` says why a job waits or runs, `?` lists the keys, `q` leaves."""
    if once:
        _print(cluster, me=me)
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CliError("top = not in a terminal: add --once for one frame as text")
    with connect() as client:  # a wrong address or name is an error, not an empty screen
        _check(client.status().clusters, cluster)
        user = client.me().name
    from tenure.cli.top.app import TopApp

    for name in ("COLUMNS", "LINES"):  # as exported by a shell, of a window that has been resized since
        os.environ.pop(name, None)

    TopApp(lambda: connect(AWAY_S), cluster=cluster, user=user, mine=me).run()


def _print(cluster: str | None, *, me: bool) -> None:
    from tenure.cli import render
    from tenure.cli.top import frame
    from tenure.cli.top.snapshot import take

    with connect() as client:
        taken = take(client)
        user = client.me().name if me else None
    _check(taken.status.clusters, cluster)
    console = render.output()
    for name in [cluster] if cluster is not None else [one.name for one in taken.status.clusters]:
        for line in frame.lines(taken, name, console.width, user=user):
            console.print(line, soft_wrap=True)


def _check(clusters: Sequence[ClusterStatus], cluster: str | None) -> None:
    names = [one.name for one in clusters]
    if cluster is not None and cluster not in names:
        raise CliError(f"cluster = {cluster}: there is no such cluster; use {' or '.join(names)}")
