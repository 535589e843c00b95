"""What the pane says about one job: why it waits, runs or ended."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from tenure.cli import render
from tenure.cli.detail import job_lines
from tenure.client import Client


def ask(client: Client, job_id: int) -> list[Text]:
    """Lines about a job as it is now. Raises TenureError and Unreachable."""
    return list(_lines(client, job_id))


def _lines(client: Client, job_id: int) -> Iterator[Text]:
    job = client.job(job_id)
    yield Text(job.reason.text, "bold")
    yield Text()
    for line in job_lines(job, client.status().now or render.now_ms()):
        yield Text.from_markup(line)
