"""``tenure why``: why a job waits, or how safe it is where it runs."""

from __future__ import annotations

from tenure.cli.context import JobArgument, Json, connect, print_json
from tenure.cli.naming import named, one


def why(job: JobArgument, json: Json = False) -> None:
    """Say why a job waits, or how safe it is where it runs: one sentence, then the arithmetic."""
    given = named(job)
    with connect() as client:
        found = client.why(one(client, given))
    if json:
        print_json(found)
        return
    from tenure.cli import render
    from tenure.cli.why_page import page

    for part in page(found, render.now_ms()):
        render.output().print(part)
