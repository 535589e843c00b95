"""What the pane says about one job: why it waits, or how safe it is where it runs."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from tenure.cli import render
from tenure.cli.detail import job_lines
from tenure.cli.render import Harmless
from tenure.cli.why_page import page
from tenure.client import Client


def ask(client: Client, job_id: int, width: int) -> Harmless:
    """As ``tenure why`` and ``tenure show`` say it now, in ``width`` columns. Raises TenureError and Unreachable."""
    return Harmless(Group(*_parts(client, job_id, width)))


def _parts(client: Client, job_id: int, width: int) -> Iterator[RenderableType]:
    now = render.now_ms()
    yield from page(client.why(job_id), now, width)
    yield Text()
    for line in job_lines(client.job(job_id), now):
        yield Text.from_markup(line)
