"""``tenure why``: why a job waits, or how safe it is where it runs, now or then, and what has happened to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli import moments
from tenure.cli.context import JobArgument, Json, connect, print_json
from tenure.cli.moments import AtOption
from tenure.cli.naming import Named, array_of, named, one

if TYPE_CHECKING:
    from tenure.api.why_models import Why
    from tenure.client import Client

ReasonsOption = Annotated[
    bool, typer.Option("--reasons", help="Say what held it up halfway through its longest waits, too.")
]

_WAIT = ("queued", "claiming")
_RUN = ("starting", "running", "stopping")


def why(job: JobArgument, at: AtOption = None, reasons: ReasonsOption = False, json: Json = False) -> None:
    """Say why a job waits, or how safe it is where it runs: one sentence, then the arithmetic and its story."""
    from tenure.cli import render

    given, now = named(job), render.now_ms()
    then = moments.moment(at, now) if at is not None else None
    with connect() as client, moments.patience("going back, by what was written down"):
        found = client.why(one(client, given), at=then, reasons=reasons)
        whole = _whole(client, given, found) if at is None and not json else []
    if json:
        print_json(found)
        return
    from tenure.cli.why_page import page
    from tenure.cli.why_story import story_lines
    from tenure.words import being

    if at is not None:
        now = found.at
        render.output().print(f"At {render.clock(found.at)} it {being(found.state, then=True)}:")
    for line in whole:
        render.output().print(line, markup=False)
    for part in (*page(found, now, render.output().width), *story_lines(found.story)):
        render.output().print(part)


def _whole(client: Client, given: Named, found: Why) -> list[str]:
    """How the jobs of an array are, in a line: when its number was given, which is its first job's as well."""
    array = array_of(client, given) if given.indices is None and "_" in found.label else None
    if array is None:
        return []
    counts = {"ended": 0, "run": 0, "wait": 0}
    for state, count in array.states.items():
        counts["wait" if state in _WAIT else "run" if state in _RUN else "ended"] += count
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return [f"array {array.id}: {told}. This is {found.label}:"]
