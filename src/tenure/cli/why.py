"""``tenure why``: why a job waits, or how safe it is where it runs, now or then, and what has happened to it."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli import moments
from tenure.cli.context import JobArgument, Json, connect, print_json
from tenure.cli.moments import AtOption
from tenure.cli.naming import named, one

ReasonsOption = Annotated[
    bool, typer.Option("--reasons", help="Say what held it up halfway through its longest waits, too.")
]


def why(job: JobArgument, at: AtOption = None, reasons: ReasonsOption = False, json: Json = False) -> None:
    """Say why a job waits, or how safe it is where it runs: one sentence, then the arithmetic and its story."""
    from tenure.cli import render

    given, now = named(job), render.now_ms()
    then = moments.moment(at, now) if at is not None else None
    with connect() as client, moments.patience("going back, by what was written down"):
        found = client.why(one(client, given), at=then, reasons=reasons)
    if json:
        print_json(found)
        return
    from tenure.cli.why_page import page
    from tenure.cli.why_story import story_lines

    if at is not None:
        now = found.at
        render.output().print(f"At {render.clock(found.at)} it was {found.state.replace('_', ' ')}:")
    for part in (*page(found, now), *story_lines(found.story)):
        render.output().print(part)
