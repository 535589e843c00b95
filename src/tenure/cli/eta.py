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
    from tenure.cli import render
    from tenure.cli.render import escape

    console, now = render.output(), render.now_ms()
    console.print(f"[bold]job {found.label}[/]  {escape(found.text)}", soft_wrap=True)
    for line in range_lines(found.estimate, now):
        console.print(f"  [dim]{escape(line)}[/]", soft_wrap=True)


def range_lines(found: EstimateView | None, now: int, head: str = "") -> Iterator[str]:
    """The range by this machine's clock, as plain text behind ``head``, or that it has passed; nothing without one."""
    from tenure.api.eta_shown import shown
    from tenure.cli import render

    if found is None:
        return
    told, age = shown(found, now), render.ago(found.made_at, now)
    if told.passed is not None:
        yield f"it should have started by {render.soon(told.passed, now)}, by the estimate of {age} ago"
        return
    low = "now" if told.low == now else render.soon(told.low, now)
    until = render.soon(told.high, now) if told.high is not None else f"later than {render.soon(told.until, now)}"
    likely = f", most likely about {render.soon(told.likely, now)}" if told.likely is not None else ""
    yield f"{head}from {low} to {until}{likely} (estimated {age} ago, meant to hold {found.percent} times in 100)"
