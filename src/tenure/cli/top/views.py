"""The parts of the screen: each draws itself anew, to the size that it has, whenever that or its content changes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.coordinate import Coordinate
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import DataTable, Static

from tenure.api.models import BudgetView, HostView, JobView
from tenure.cli.top import pieces


class Headline(Widget):
    """How full the cluster is, and whether what is shown is as it is now."""

    left, away = Text("asking the server ..."), False

    def show(self, left: Text, *, away: bool) -> None:
        self.left, self.away = left, away
        self.refresh()

    def render(self) -> Text:
        mark = Text("○ away", "bold #ff8b94") if self.away else Text("● live", "#2fb58a")
        left = self.left.copy()
        left.truncate(max(0, self.content_size.width - mark.cell_len - 1), overflow="ellipsis", pad=True)
        return left.append(" ").append_text(mark)


class GpuMap(Widget):
    """Every GPU of the cluster, and what the colours mean."""

    hosts: Sequence[HostView] = ()
    now = 0

    def show(self, hosts: Sequence[HostView], now: int) -> None:
        self.hosts, self.now = hosts, now
        self.refresh()

    def render(self) -> Text:
        width, height = self.content_size
        legend = pieces.legend(self.hosts, width, now=self.now)
        if len(legend) > 1 and height < 10:
            legend = pieces.legend(self.hosts, width, short=True, now=self.now)
        colours = not os.environ.get("NO_COLOR")
        room = height - len(legend)
        found = pieces.map_lines(self.hosts, width, room, colours=colours, now=self.now)[:room]
        empty = [Text()] * max(0, height - len(legend) - len(found))
        return Text("\n", no_wrap=True).join([*found, *empty, *legend])


class BudgetPane(VerticalScroll):
    """Budgets, siblings in the order of their turns."""

    budgets: Sequence[BudgetView] = ()
    cluster = ""

    def compose(self) -> ComposeResult:
        yield Static()

    def show(self, budgets: Sequence[BudgetView], cluster: str) -> None:
        self.budgets, self.cluster = budgets, cluster
        self._draw()

    def on_resize(self, _event: Resize) -> None:
        self._draw()

    def _draw(self) -> None:
        width = self.scrollable_content_region.width
        if self.budgets and width:
            lines = pieces.budget_lines(self.budgets, self.cluster, width)
            self.query_one(Static).update(Text("\n", no_wrap=True).join(lines))


class JobTable(DataTable[Text]):
    """Jobs; the cursor stays on its job, wherever that goes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("home", "scroll_top", "first", show=False),
        Binding("end", "scroll_bottom", "last", show=False),
    ]

    def __init__(self, id: str) -> None:
        super().__init__(id=id, cursor_type="row", cell_padding=1)
        self._jobs: Sequence[JobView] = ()
        self._now = 0
        self._shown: tuple[list[str], int] = ([], 0)

    def show(self, jobs: Sequence[JobView], now: int) -> None:
        self._jobs, self._now = jobs, now
        self._draw()

    def on_resize(self, _event: Resize) -> None:
        self._draw()
        # It may have come to be out of sight.
        self.move_cursor(row=self.cursor_row, animate=False)

    @property
    def current(self) -> JobView | None:
        """The job under the cursor."""
        return self._jobs[self.cursor_row] if 0 <= self.cursor_row < len(self._jobs) else None

    def _draw(self) -> None:
        width = self.content_size.width - 1  # a scroll bar may come
        if width < 1:
            return
        rows = {str(job.id): pieces.job_row(job, self._now, width) for job in self._jobs}
        keys = list(rows)
        if (keys, width) == self._shown:
            for at, row in enumerate(rows.values()):
                for column, cell in enumerate(row):
                    if self.get_cell_at(Coordinate(at, column)) != cell:
                        self.update_cell_at(Coordinate(at, column), cell)
            return
        self._replace(rows, width)

    def _replace(self, rows: dict[str, list[Text]], width: int) -> None:
        keys, before = self._shown[0], self.cursor_row
        on = keys[before] if 0 <= before < len(keys) else None
        offset = self.scroll_offset
        changed = width != self._shown[1]
        self.clear(columns=changed)
        if changed:
            for name, size in pieces.job_columns(width).items():
                self.add_column(Text(name, justify="right" if name in pieces.RIGHT else "left"), width=size, key=name)
        for key, row in rows.items():
            self.add_row(*row, key=key)
        self._shown = (list(rows), width)
        found = self._shown[0].index(on) if on in rows else min(before, len(rows) - 1)
        self.move_cursor(row=max(0, found), scroll=False)
        self.scroll_to(offset.x, offset.y, animate=False, force=True)


KEYS = """\
[bold]w[/], [bold]Enter[/]   why the job under the cursor waits, runs or ended
[bold]↑ ↓[/], [bold]PgUp[/] ...  another job
[bold]/[/]          only jobs with these words; [bold]Esc[/] all of them
[bold]m[/]          only your own
[bold]s[/], [bold]r[/]       sort by the next column, or the other way round
[bold]c[/]          the next cluster
[bold]Tab[/]        to the budgets and back, to scroll there
[bold]q[/]          leave

[bold]GPUs[/]       █ charged and protected  ▓ charged, exposed
           ▒ unallocated  · free  ░ used by others than Tenure
           × out of service; ▀ stands for two, then one cell
           for a host

Bars reach to 1 (as budgeted) in the middle; who has less
than that over the last day comes first, then who has less
over the lookback."""


class Help(ModalScreen[None]):
    """The keys."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,question_mark,q,enter", "dismiss", "close")]

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title = "keys"
            yield Static(KEYS)
