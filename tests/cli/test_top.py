"""``tenure top`` against a real server: its keys, one frame as text, a server that goes and comes back."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import Input, Static

from support.server import TestServer
from tenure.cli import render
from tenure.cli.top.app import TopApp
from tenure.cli.top.views import BudgetPane, GpuMap, Headline, Help, JobTable
from tenure.client import Client
from tenure.core.model import HOUR, MINUTE

PATIENCE_S = 60
Body = Callable[["Screen"], Awaitable[None]]


class Screen:
    """A screen under test. Waits for what must come; nothing depends on how long that takes."""

    def __init__(self, pilot: Pilot[None], app: TopApp) -> None:
        self.pilot, self.app = pilot, app

    async def until(self, done: Callable[[], object], what: str) -> None:
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while not done():
            assert asyncio.get_running_loop().time() < end, f"not so after {PATIENCE_S} s: {what}; {self.jobs()}"
            await self.pilot.pause(0.02)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    def jobs(self) -> list[list[str]]:
        """The cells of the table, row by row."""
        table = self.app.query_one(JobTable)
        return [[cell.plain for cell in table.get_row_at(row)] for row in range(table.row_count)]

    def names(self) -> list[str]:
        return [row[2] for row in self.jobs()]

    def pane(self) -> str:
        """What the pane says; '' while it is closed."""
        shown = self.app.query_one("#why").display
        if not shown:
            return ""
        console = Console(file=io.StringIO(), width=300)
        console.print(self.app.query_one("#because", Static).content)
        return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]

    def away(self) -> str:
        banner = self.app.query_one("#away", Static)
        return str(banner.content) if banner.display else ""


def screen(server: TestServer, body: Body, size: tuple[int, int] = (80, 24)) -> None:
    """Run ``body`` on a screen of this size, as the administrator."""

    async def main() -> None:
        app = TopApp(lambda: Client(server.url, server.token, patience_s=0), user="admin")
        async with app.run_test(size=size) as pilot:
            on = Screen(pilot, app)
            await on.until(lambda: app.taken is not None, "the first frame")
            await body(on)

    asyncio.run(main())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    running = TestServer(tmp_path_factory.mktemp("top"))
    running.start()
    yield running
    running.end()


@pytest.fixture
def busy(server: TestServer) -> Iterator[dict[str, int]]:
    """Two hosts of 4 GPUs: one job on 4, a free one on 2, and one that waits for 8. By name."""
    asked = {
        "charged": {"gpus": 4, "min_runtime": "1h"},
        "free": {"gpus": 2, "min_runtime": "0s", "budget": "lab/vision", "grace": "0s"},
        "waits": {"gpus": 4, "replicas": 2, "min_runtime": "1h", "budget": "lab/vision"},
    }
    made = {}
    for name, more in asked.items():
        body = {"budget": "lab/language", "name": name, "command": ["sleep", "1000"], **more}
        made[name] = server.client.submit(body).job.id
        if name != "waits":
            server.wait_state(made[name], "running")
    yield made
    server.clear()


def test_a_frame_has_the_cluster_the_budgets_and_the_jobs(server: TestServer, busy: dict[str, int]) -> None:
    async def body(on: Screen) -> None:
        await on.until(lambda: len(on.jobs()) == 3, "three jobs")
        assert on.names() == ["charged", "free", "waits"], "what runs comes first, then the queue"
        assert [row[1] for row in on.jobs()] == ["running", "running", "queued"]
        assert on.jobs()[2][-1] == "capacity" and "protected 59m" in on.jobs()[0][-1]
        head = str(on.app.query_one(Headline).render())
        assert "main  6/8 GPUs busy  2 running  1 queued" in head and "● live" in head
        picture = str(on.app.query_one(GpuMap).render())
        assert "n1 ████" in picture and "n2 ▒▒··" in picture
        assert "█ 4  ▒ 2  · 2" in picture
        budgets = str(on.app.query_one(BudgetPane).query_one(Static).content).splitlines()
        names = [line.split()[0] for line in budgets[1:]]
        assert names == ["lab", "self", "vision", "language", "none"], "as rule 5 sorts them"

    screen(server, body)


def test_w_says_why_and_follows_the_cursor(server: TestServer, busy: dict[str, int]) -> None:
    async def body(on: Screen) -> None:
        await on.until(lambda: len(on.jobs()) == 3, "three jobs")
        assert on.pane() == ""
        await on.press("end", "w")
        text = server.client.job(busy["waits"]).reason.text
        await on.until(lambda: text.split(":")[0] in on.pane(), "the sentence of the queued job")
        await on.press("up")
        await on.until(lambda: "free, and evictable" in on.pane(), "the contract of the free one")
        await on.press("escape")
        assert on.pane() == "" and on.app.is_running
        await on.press("enter")
        await on.until(lambda: f"job {busy['free']}" in on.pane(), "Enter opens it, too")
        await on.press("w")
        assert on.pane() == ""

    screen(server, body)


def test_filter_sort_and_mine(server: TestServer, busy: dict[str, int]) -> None:
    async def body(on: Screen) -> None:
        await on.until(lambda: len(on.jobs()) == 3, "three jobs")
        await on.press("slash", *"vision que")
        assert on.names() == ["waits"]
        await on.press("enter", "s")
        assert on.app.by == "age" and on.names() == ["waits"], "the filter stays"
        await on.press("escape")
        assert on.names() == ["charged", "free", "waits"] and not on.app.query_one(Input).display
        await on.press("s")
        assert on.app.by == "gpus" and on.names() == ["waits", "charged", "free"]
        await on.press("down", "r")
        assert on.names() == ["free", "charged", "waits"]
        current = on.app.query_one(JobTable).current
        assert current is not None and current.name == "charged", "the cursor stays on its job"
        await on.press("m", "slash", *"no such job")
        assert on.names() == []
        await on.press("escape")
        assert len(on.names()) == 3, "all of them are the administrator's"

    screen(server, body)


def test_it_hears_of_what_happens(server: TestServer, busy: dict[str, int]) -> None:
    async def body(on: Screen) -> None:
        await on.until(lambda: len(on.jobs()) == 3, "three jobs")
        server.client.cancel(busy["charged"])
        server.client.cancel(busy["free"])
        await on.until(lambda: on.names() == ["waits"] and on.jobs()[0][1] == "running", "the next one runs")

    screen(server, body)


def test_times_count_on_without_news(server: TestServer, busy: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while no frame comes: what is shown is worked out from when it began, and until when it is protected."""

    async def body(on: Screen) -> None:
        await on.until(lambda: len(on.jobs()) == 3, "three jobs")
        on.app._follower.stop()
        last = on.app.taken
        later = render.now_ms() + 10 * MINUTE
        monkeypatch.setattr(render, "now_ms", lambda: later)
        await on.until(lambda: "protected 49m" in on.jobs()[0][-1], "ten minutes less")
        assert on.jobs()[0][5].startswith("10m") and on.jobs()[2][5].startswith("10m")
        later += HOUR
        await on.until(lambda: on.jobs()[0][-1] == "n1 exposed", "its protection is over")
        assert "▓ 4" in str(on.app.query_one(GpuMap).render())
        assert on.app.taken is last

    screen(server, body)


def test_in_a_quiet_cluster_it_asks_again(server: TestServer) -> None:
    async def body(on: Screen) -> None:
        first = on.app.taken
        assert first is not None
        await on.until(lambda: on.app.taken is not first, "another frame")
        assert on.app.taken is not None and on.app.taken.status.seq == first.status.seq, "nothing had happened"

    screen(server, body)


@pytest.mark.parametrize("width", [80, 120])
def test_the_pane_fits(server: TestServer, busy: dict[str, int], width: int) -> None:
    async def body(on: Screen) -> None:
        await on.until(lambda: len(on.jobs()) == 3, "three jobs")
        await on.press("end", "w")
        await on.until(lambda: "In its way" in on.pane(), "the arithmetic")
        inside = on.app.query_one("#why").scrollable_content_region.width
        console = Console(file=io.StringIO(), width=inside)
        console.print(on.app.query_one("#because", Static).content)
        said = console.file.getvalue()  # type: ignore[attr-defined]
        assert "…" not in said
        assert f"{busy['charged']}.1" in said and "protected" in said and "4 GPUs" in said
        assert all(head in said for head in ("BUDGET", "RATIO", "LAST DAY", "ATTEMPT", "UNTIL", "FREE TO IT THEN"))

    screen(server, body, (width, 24))


def test_a_wider_screen_has_the_sentence_as_far_as_it_fits(server: TestServer, busy: dict[str, int]) -> None:
    async def body(on: Screen) -> None:
        await on.until(lambda: len(on.jobs()) == 3, "three jobs")
        assert on.jobs()[2][-1].startswith("GPUs: it needs 8, and 2") and on.jobs()[2][-1].endswith("…")

    screen(server, body, (120, 40))


def test_the_keys_fit_a_small_screen(server: TestServer) -> None:
    async def body(on: Screen) -> None:
        await on.press("question_mark")
        box = on.app.screen.query_one(VerticalScroll)
        assert box.max_scroll_y == 0 and box.region.bottom <= 24 and box.region.y >= 0

    screen(server, body)


def test_the_terminal_has_the_size_that_it_has(server: TestServer, busy: dict[str, int]) -> None:
    """What a shell exports as COLUMNS may be of long ago."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    stale = {**os.environ, **server.environment, "COLUMNS": "40", "LINES": "8", "TERM": "xterm-256color"}
    done = subprocess.Popen(
        [sys.executable, "-m", "tenure", "top"],
        env=stale,
        cwd=server.directory,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        seen, lines = b"", {0}
        while max(lines) < 24:
            assert select.select([ours], [], [], PATIENCE_S)[0], f"it draws up to line {max(lines)} of 24"
            seen += os.read(ours, 65536)
            lines.update(int(line) for line in re.findall(rb"\x1b\[(\d+);\d+H", seen))
        os.write(ours, b"q")
        with contextlib.suppress(OSError):  # that is how a terminal is closed
            while os.read(ours, 65536):
                pass
    finally:
        os.close(ours)
        try:
            done.wait(PATIENCE_S)
        finally:
            done.kill()
    assert done.returncode == 0


def test_help_and_leaving(server: TestServer) -> None:
    async def body(on: Screen) -> None:
        await on.press("question_mark")
        assert isinstance(on.app.screen, Help)
        await on.press("q")
        assert not isinstance(on.app.screen, Help) and on.app.is_running
        await on.press("q")
        await on.until(lambda: not on.app.is_running, "it has left")

    screen(server, body)


def test_what_comes_while_it_closes_is_passed_over(server: TestServer, busy: dict[str, int]) -> None:
    """On a busy machine news, ticks and answers may find its parts gone."""
    tried = []

    class Late(TopApp):
        async def _close_all(self) -> None:
            await super()._close_all()
            assert self.taken is not None and self.asked is not None
            self._tick()
            self._moved()
            self._answer(self.asked, "late")
            tried.append(self._width())

    async def main() -> None:
        app = Late(lambda: Client(server.url, server.token, patience_s=0), user="admin")
        async with app.run_test() as pilot:
            on = Screen(pilot, app)
            await on.until(lambda: app.taken is not None and len(on.jobs()) == 3, "three jobs")
            await on.press("w")
            await on.until(lambda: on.pane() != "", "the pane")

    asyncio.run(main())
    assert len(tried) == 1


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (30, 8)])
def test_it_fits_every_terminal(server: TestServer, busy: dict[str, int], size: tuple[int, int]) -> None:
    async def body(on: Screen) -> None:
        await on.until(lambda: len(on.jobs()) == 3, "three jobs")
        table = on.app.query_one(JobTable)
        if size == (200, 60):
            assert "█ 4 protected  ▒ 2 unallocated  · 2 free" in str(on.app.query_one(GpuMap).render())
        if size != (30, 8):
            assert not table.show_horizontal_scrollbar, "nothing is out of sight to the right"
        await on.press("w")
        await on.until(lambda: on.pane() != "", "the pane")

    screen(server, body, size)


def test_a_server_that_goes_and_comes_back(tmp_path: Path) -> None:
    server = TestServer(tmp_path)
    server.start()
    job = server.client.submit({"budget": "lab/language", "name": "one", "command": ["sleep", "1000"]}).job.id

    async def body(on: Screen) -> None:
        await on.until(lambda: on.names() == ["one"], "the job")
        await asyncio.to_thread(server.kill)
        await on.until(lambda: "no server answers" in on.away(), "it says so")
        assert on.names() == ["one"] and "what is shown is old" in on.away()
        assert "○ away" in str(on.app.query_one(Headline).render())
        await on.press("w")
        await on.until(lambda: "no server answers" in on.pane(), "the pane says so, too")
        await asyncio.to_thread(server.start)
        await on.until(lambda: on.away() == "", "it is back")
        await on.until(lambda: f"job {job}" in on.pane(), "and so is the pane")

    try:
        screen(server, body)
    finally:
        server.end()


def test_one_frame_as_text(server: TestServer, busy: dict[str, int]) -> None:
    lines = server.cli("top", "--once").stdout.splitlines()
    assert lines[0].startswith("main  6/8 GPUs busy")
    assert any(line.startswith("n1 ████") for line in lines)
    assert any("lab/vision" in line and "waits" in line and "queued" in line for line in lines)
    assert not any("\x1b" in line for line in lines)
    mine = server.cli("top", "--once", "--me", "--cluster", "main").stdout
    assert "charged" in mine
    wrong = server.cli("top", "--once", "--cluster", "nope", code=2)
    assert "cluster = nope: there is no such cluster; use main" in wrong.stderr


def test_without_a_terminal_it_says_what_to_do(server: TestServer) -> None:
    assert "not in a terminal: add --once" in server.cli("top", code=2).stderr
