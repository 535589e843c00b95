"""What the pane says about one job: why it waits, or how safe it is where it runs."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

from rich.console import Group, RenderableType
from rich.text import Text

from tenure.cli import render
from tenure.cli.detail import job_lines
from tenure.client import Client


def ask(client: Client, job_id: int) -> Group:
    """All about a job as it is now. Raises TenureError and Unreachable."""
    return Group(*_parts(client, job_id))


def _parts(client: Client, job_id: int) -> Iterator[RenderableType]:
    now = render.now_ms()
    if find_spec("tenure.cli.why_page") is not None:
        yield from import_module("tenure.cli.why_page").page(client.why(job_id), now)  # type: ignore[attr-defined]
        yield Text()
    job = client.job(job_id)
    if find_spec("tenure.cli.why_page") is None:
        yield Text(job.reason.text, "bold")
        yield Text()
    for line in job_lines(job, now):
        yield Text.from_markup(line)
