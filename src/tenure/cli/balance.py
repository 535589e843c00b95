"""``tenure balance``: a budget's week as a statement."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.context import ClusterOption, Json, complete_budgets, connect, print_json
from tenure.cli.errors import CliError

if TYPE_CHECKING:
    from tenure.api.balance_models import BalanceView
    from tenure.client import Client

_LOOKED_AT = 1000
"""So many of the caller's newest jobs say which budgets are theirs."""
_FORMATS = (".png", ".svg")


def balance(
    budget: Annotated[
        str | None,
        typer.Argument(
            metavar="BUDGET",
            help="A budget's path \\[those of which you are a member, or where you have jobs].",
            show_default=False,
            autocompletion=complete_budgets,
        ),
    ] = None,
    cluster: ClusterOption = None,
    person: Annotated[str | None, typer.Option(metavar="NAME", help="Of people and jobs only theirs.")] = None,
    jobs: Annotated[int, typer.Option(metavar="N", help="So many of the largest jobs.", min=0, max=1000)] = 10,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A picture of it, .png or .svg.", dir_okay=False)
    ] = None,
    json: Json = False,
) -> None:
    """Show a budget's week as a statement: what was used and is promised, what is left, what comes back when.

    Without BUDGET: those of which you are a member, or where you have jobs, in short.
    """
    if plot is not None and plot.suffix.lower() not in _FORMATS:
        raise CliError(f"plot = {plot}: name a file that ends in {' or '.join(_FORMATS)}")
    with connect() as client:
        paths = [budget] if budget is not None else _own(client)
        if plot is not None and len(paths) != 1:
            raise CliError(f"plot = {plot}: a picture is of one budget; name it, one of {', '.join(paths)}")
        found = [client.balance(path, cluster, person=person, jobs=jobs) for path in paths]
    if plot is not None:
        try:
            _draw(found[0], plot)
        except OSError as error:
            raise CliError(f"plot = {plot}: {error.strerror or error}; name a file that can be written") from error
    if json:
        print_json(found if budget is None else found[0])
        return
    from tenure.cli import render, statement

    console = render.output()
    for view in found:
        statement.show(console, view, brief=len(found) > 1, person=person)
    if len(found) > 1:
        console.print("[dim]tenure balance BUDGET: day by day, and who used what[/]")
    if plot is not None:
        render.errors().print(f"wrote {plot}", markup=False, soft_wrap=True)


def _own(client: Client) -> list[str]:
    """Budgets of which the caller is a member or where they have jobs; else the root's children, else the root."""
    me = client.me().name
    known = client.budgets()
    charged = {job.budget for job in client.jobs(user=[me], all=True, limit=_LOOKED_AT)}
    own = [one.path for one in known if me in one.members or one.path in charged]
    top = [one.path for one in known if one.depth == 1 and not one.implicit]
    return own or top or [one.path for one in known]


def _draw(view: BalanceView, file: Path) -> None:
    from tenure.cli.balance_chart import chart
    from tenure.reports.charts import pictures

    spec = chart(view)
    if file.suffix.lower() == ".svg":
        file.write_text(pictures.svg(spec), "utf-8")
    else:
        file.write_bytes(pictures.png(spec))
