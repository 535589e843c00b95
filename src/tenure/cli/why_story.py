"""What has happened to a job, for a terminal: the time of each chapter, and its sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tenure.api.story_models import Chapter
from tenure.cli import render

_PLAIN = {"submitted", "waited", "started", "exposed"}
"""What happens to every job; a story of these alone is told by the rest of the page."""
_STYLES = {"evicted": "red", "claim_lost": "red", "ended": "bold"}


def story_lines(story: Sequence[Chapter]) -> Iterator[RenderableType]:
    """Nothing when there is nothing to tell yet. Times are in this machine's time zone."""
    if {chapter.kind for chapter in story} <= _PLAIN:
        return
    yield ""
    yield Text("What has happened to it", style="cyan")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for chapter in story:
        table.add_row(Text(render.clock(chapter.at), style="dim"), Text(chapter.text, _STYLES.get(chapter.kind, "")))
    yield Padding(table, (0, 0, 0, 2), expand=False)
