"""The screen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult, ScreenStackError
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.css.query import NoMatches
from textual.message import Message
from textual.widgets import DataTable, Footer, Input, Static

from tenure.cli import render
from tenure.cli.top import pieces, reason
from tenure.cli.top.follow import Follower
from tenure.cli.top.snapshot import SORTS, Snapshot, chosen
from tenure.cli.top.style import CSS
from tenure.cli.top.views import BudgetPane, GpuMap, Headline, Help, JobTable
from tenure.client import Client, TenureError, Unreachable

_COLUMNS = {"ID": "age", "STATE": "state", "NAME": "name", "USER": "user", "BUDGET": "budget", "GPUS": "gpus"}
"""What a click on a heading sorts by."""
TICK_S = 1.0
"""How often times count on between two frames."""


class Fresh(Message):
    """A new frame."""

    def __init__(self, taken: Snapshot) -> None:
        self.taken = taken
        super().__init__()


class Away(Message):
    """No frame, and why."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__()


class TopApp(App[None]):
    """``connect`` makes a client that gives up at once. ``user``: who looks; ``mine``: only that one's jobs."""

    TITLE = "tenure top"
    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  # so in the base class
    VERTICAL_BREAKPOINTS = [(0, "-low"), (44, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "why", "why"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("s", "sort", "sort"),
        Binding("r", "reverse", "reverse"),
        Binding("m", "mine", "mine"),
        Binding("c", "cluster", "cluster"),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("q", "quit", "quit"),
        Binding("escape", "leave", "back", show=False),
    ]

    def __init__(
        self, connect: Callable[[], Client], *, cluster: str | None = None, user: str = "", mine: bool = False
    ) -> None:
        super().__init__()
        self._connect, self._user = connect, user
        self._client: Client | None = None
        self.taken: Snapshot | None = None
        self.away = ""
        """Why there is no newer frame."""
        self.cluster, self.mine = cluster, mine
        self.by, self.backwards, self.words = SORTS[0], False, ""
        self.asked: int | None = None
        """The job that the pane is about; None: it is closed."""
        self._follower = Follower(connect, lambda taken: self._hear(Fresh(taken)), lambda why: self._hear(Away(why)))

    def _hear(self, message: Message) -> None:
        self.post_message(message)

    def compose(self) -> ComposeResult:
        yield Headline(id="head")
        yield Static(id="away")
        with Horizontal(id="overview"):
            yield GpuMap(id="map")
            yield BudgetPane(id="budgets")
        with VerticalScroll(id="why"):
            yield Static(id="because")
        yield Input(placeholder="words of a number, name, user, budget, state, reason or host", id="filter")
        yield JobTable(id="jobs")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(GpuMap).border_title = "cluster"
        self.query_one(BudgetPane).border_title = "budgets"
        self.query_one(JobTable).focus()
        self._follower.start()
        self.set_interval(TICK_S, self._tick)

    def on_unmount(self) -> None:
        self._follower.stop()
        if self._client is not None:
            self._client.close()

    # ---- news

    @on(Fresh)
    def _fresh(self, message: Fresh) -> None:
        self.taken, self.away = message.taken, ""
        names = [one.name for one in message.taken.status.clusters]
        if self.cluster not in names:
            self.cluster = names[0]
        self.draw()
        if self.asked is not None:
            self._ask(self.asked)

    @on(Away)
    def _gone(self, message: Away) -> None:
        self.away = message.why
        self.draw()

    def _tick(self) -> None:
        """Times count on without the server: since when, and until when, is all in the last frame."""
        if self.taken is not None and not self.away:
            self.draw()

    def draw(self) -> None:
        """All of it anew, from the last frame. While it closes, its parts are gone before news and ticks end."""
        if not self.is_running:
            return
        self.screen_stack[0].set_class(bool(self.away), "-away")
        old = "" if self.taken is None else "; what is shown is old"
        self.query_one("#away", Static).update(Text(f"trying again{old}: {self.away}", no_wrap=True))
        if self.taken is None or self.cluster is None:
            self.query_one(Headline).show(Text("tenure top", "bold"), away=bool(self.away))
            return
        taken, cluster = self.taken, self.cluster
        self.query_one(Headline).show(pieces.headline(taken, cluster), away=bool(self.away))
        now = taken.now(render.now_ms())
        self.query_one(GpuMap).show([host for host in taken.hosts if host.cluster == cluster], now)
        self.query_one(BudgetPane).show(taken.budgets, cluster)
        user = self._user if self.mine else None
        found = chosen(taken, cluster, by=self.by, reverse=self.backwards, words=self.words, user=user)
        table = self.query_one(JobTable)
        table.show(found, now)
        what = f"jobs of {user}" if user else "jobs"
        matching = f" with {self.words!r}" if self.words else ""
        # As a string it would be markup, and what is typed may be anything.
        table.border_title = Text(f"{what}{matching}, by {self.by}{' backwards' if self.backwards else ''}")
        table.border_subtitle = pieces.more(taken) or f"{len(found)}"

    # ---- why

    def action_why(self) -> None:
        job = self.query_one(JobTable).current
        if job is None or self.asked == job.id:
            self._close()
        else:
            self._open(job.id)

    @on(DataTable.RowSelected)
    def _entered(self) -> None:
        self.action_why()

    @on(DataTable.RowHighlighted)
    def _moved(self) -> None:
        if not self.is_running:
            return
        job = self.query_one(JobTable).current
        if self.asked is not None and job is not None and job.id != self.asked:
            self._open(job.id)

    def _open(self, job: int) -> None:
        self.asked = job
        self.query_one("#why").border_title = f"job {job}"
        self.screen_stack[0].set_class(True, "-asking")
        self._ask(job)

    def _close(self) -> None:
        self.asked = None
        self.screen_stack[0].set_class(False, "-asking")

    @work(thread=True, exclusive=True, group="why")
    def _ask(self, job: int) -> None:
        try:
            if self._client is None:
                self._client = self._connect()
            said: RenderableType = reason.ask(self._client, job, self._width())
        except (Unreachable, TenureError) as error:
            # A server that comes back may be another one.
            self._client = None
            said = Text(str(error))
        self.call_from_thread(self._answer, job, said)

    def _width(self) -> int:
        """Columns of the pane; before it is laid out those of the screen, less its border and padding."""
        with suppress(NoMatches, ScreenStackError):  # it closes: this is another thread
            return self.query_one("#why").scrollable_content_region.width or self.size.width - 5
        return self.size.width

    def _answer(self, job: int, said: RenderableType) -> None:
        if job == self.asked and self.is_running:
            self.query_one("#because", Static).update(said)

    # ---- which jobs, and in which order

    def action_sort(self) -> None:
        self._sort(SORTS[(SORTS.index(self.by) + 1) % len(SORTS)])

    def action_reverse(self) -> None:
        self.backwards = not self.backwards
        self.draw()

    @on(DataTable.HeaderSelected)
    def _heading(self, event: DataTable.HeaderSelected) -> None:
        by = _COLUMNS.get(str(event.column_key.value), "age")
        if by == self.by:
            self.action_reverse()
        else:
            self._sort(by)

    def _sort(self, by: str) -> None:
        self.by, self.backwards = by, False
        self.draw()

    def action_mine(self) -> None:
        self.mine = not self.mine
        self.draw()

    def action_cluster(self) -> None:
        if self.taken is not None:
            names = [one.name for one in self.taken.status.clusters]
            self.cluster = names[(names.index(self.cluster or names[0]) + 1) % len(names)]
            self.draw()

    def action_filter(self) -> None:
        self.screen_stack[0].set_class(True, "-filtering")
        self.query_one(Input).focus()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self.words = event.value
        self.draw()

    @on(Input.Submitted)
    def _filtered(self) -> None:
        self.query_one(JobTable).focus()
        self.screen_stack[0].set_class(bool(self.words), "-filtering")

    # ---- the rest

    def action_leave(self) -> None:
        """Out of what was opened last."""
        field = self.query_one(Input)
        if field.has_focus or (self.words and self.asked is None):
            field.value = self.words = ""
            self._filtered()
            self.draw()
        else:
            self._close()

    def action_help(self) -> None:
        self.push_screen(Help())
