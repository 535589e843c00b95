"""One frame as text, for scripts and pipes."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from tenure.cli import render
from tenure.cli.top import pieces
from tenure.cli.top.snapshot import Snapshot, chosen

_TALL = 1_000_000


def lines(taken: Snapshot, cluster: str, width: int, *, user: str | None = None) -> Iterator[Text]:
    """Headline, map, budgets and jobs of a cluster. Characters tell what colours would: a pipe has none."""
    now = taken.now(render.now_ms())
    hosts = [host for host in taken.hosts if host.cluster == cluster]
    yield pieces.headline(taken, cluster)
    yield Text()
    yield from pieces.map_lines(hosts, min(width, 120), _TALL, colours=False, now=now)
    yield from pieces.legend(hosts, min(width, 120), now=now)
    yield Text()
    yield from pieces.budget_lines(taken.budgets, cluster, min(width, 100))
    yield Text()
    columns = pieces.job_columns(width)
    yield _row([Text(name, "bold", justify="right" if name in pieces.RIGHT else "left") for name in columns], columns)
    for job in chosen(taken, cluster, user=user):
        yield _row(pieces.job_row(job, now, width), columns)
    if left_out := pieces.more(taken):
        yield Text(left_out, "dim")


def _row(cells: list[Text], columns: dict[str, int]) -> Text:
    line = Text(no_wrap=True)
    for cell, width in zip(cells, columns.values(), strict=True):
        padding = " " * max(0, width - cell.cell_len)
        right = cell.justify == "right"
        line.append(padding if right else "").append_text(cell).append("" if right else padding).append("  ")
    line.rstrip()
    return line
