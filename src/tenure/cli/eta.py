"""``tenure eta``: when a job starts, and how good such estimates were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.cli.context import JobArgument, Json, connect, print_json
from tenure.cli.naming import named, one

if TYPE_CHECKING:
    from tenure.api.eta_models import EstimateView


def eta(job: JobArgument, json: Json = False) -> None:
    """Say when a job is expected to start, as a range, and how good such estimates were lately."""
    given = named(job)
    with connect() as client:
        found = client.eta(one(client, given))
    if json:
        print_json(found)
        return
    from rich.markup import escape

    from tenure.cli import render

    console, now = render.output(), render.now_ms()
    console.print(f"[bold]job {found.label}[/]  {escape(found.text)}", soft_wrap=True)
    for line in range_lines(found.estimate, now):
        console.print(f"  [dim]{escape(line)}[/]", soft_wrap=True)


def range_lines(found: EstimateView | None, now: int) -> Iterator[str]:
    """The range by this machine's clock, as plain text; nothing without one."""
    from tenure.cli import render

    if found is None:
        return
    until = render.soon(found.high, now) if found.high is not None else f"later than {render.soon(found.until, now)}"
    likely = f", most likely about {render.soon(found.likely, now)}" if found.likely is not None else ""
    made = f"estimated {render.ago(found.made_at, now)} ago, meant to hold {found.percent} times in 100"
    yield f"from {render.soon(found.low, now)} to {until}{likely} ({made})"
