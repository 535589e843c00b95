"""What people type is data: whatever it is, every listing shows it, and a terminal does nothing of it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from textual.widgets import Static

from support.server import TestServer
from tenure.cli.top.app import TopApp
from tenure.cli.top.views import JobTable
from tenure.client import Client, TenureError

NAMES = [
    "[/x]",
    "[red]a[/red]",
    "[b",
    "b]",
    "back\\",
    "two\\\\",
    "日本語の仕事",
    "שלום",
    "e\u0301clair",
    "👩\u200d🔬",
    "%s{x}",
    "x" * 200,
]
"""What the server takes as a name."""
STEERING = "a\x1b]0;gone\x07b\x1b[2Jc\x9b31md\re\u202ef"
"""What a command may have in it, and no terminal may get: title, clearing, colour, back to the start, direction."""


def harmless(text: str) -> str:
    """What may be left of a text: widths stay, and letters may be joined."""
    return "".join(c for c in text if c == "\u200d" or unicodedata.category(c) not in ("Cc", "Cf"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    running = TestServer(tmp_path_factory.mktemp("hostile"))
    running.start()
    yield running
    running.end()


@pytest.fixture(scope="module")
def jobs(server: TestServer) -> dict[str, int]:
    """A held job of each name, and of a user, a role, a label, a variable and a directory of that name."""
    made = {}
    for name in NAMES:
        body = {
            "budget": "lab/language",
            "name": name,
            "user": name,
            "roles": [{"name": name, "command": ["sleep", name, STEERING]}],
            "labels": [{"key": name, "value": name}],
            "env": {name: name},
            "workdir": f"/{name}",
            "hold": True,
        }
        made[name] = server.client.submit(body).job.id
    charged = {"budget": "lab/language", "name": "[/x]", "user": "[/x]", "command": ["sleep", "1000"]}
    server.wait_state(server.client.submit(charged).job.id, "running")
    return made


@pytest.mark.parametrize("name", NAMES)
def test_every_page_about_a_job_shows_what_was_written(server: TestServer, jobs: dict[str, int], name: str) -> None:
    number = str(jobs[name])
    shown = server.cli("show", number).stdout
    for line in (f"job {number}  {name}", f"user          {name}", f"role {name}", f"workdir       /{name}"):
        assert harmless(line) in shown
    assert "]0;gone" in shown and not set(shown) & set("\x1b\x07\x9b\r\u202e")
    for command in ("why", "eta"):
        server.cli(command, number)
    assert json.loads(server.cli("show", number, "--json").stdout)["name"] == name


def test_every_listing_has_them_all(server: TestServer, jobs: dict[str, int]) -> None:
    listed = server.cli("ls", "--user", "[/x]").stdout
    assert "[/x]" in listed
    for arguments in (
        ("ls", "--all"),
        ("squeue",),
        ("squeue", "-o", "%j|%u|%a|%i"),
        ("history", "-a", "-o", "JobName,User"),
        ("history", "-a", "-P", "-o", "JobName,User"),
        ("events",),
        ("top", "--once"),
        ("balance", "lab/language", "--jobs", "100"),
    ):
        said = server.cli(*arguments).stdout
        assert "[/x]" in said, arguments
        assert not set(said) & set("\x1b\x07\x9b\r\u202e"), arguments
    for arguments in (
        ("ls",),
        ("history", "-a"),
        ("hosts",),
        ("budgets",),
        ("audit",),
        ("evictions",),
        ("tokens", "ls"),
    ):
        assert isinstance(json.loads(server.cli(*arguments, "--json").stdout), list)


def test_a_plan_and_a_submission_show_what_was_written(server: TestServer) -> None:
    for name in NAMES:
        arguments = ("-b", "lab/language", "--name", name, "--hold", "--prefer", f"{name}={name}")
        assert harmless(name) in server.cli("submit", *arguments, "--plan", "--", "sleep", name, STEERING).stdout
        made = server.cli("submit", *arguments, "--", "sleep", name, STEERING).stdout
        assert harmless(name) in made and not set(made) & set("\x1b\x07\x9b\r\u202e")
        dry = server.cli("submit", *arguments, "--dry-run", "--", "sleep", name, STEERING).stdout
        assert harmless(name) in dry and not set(dry) & set("\x1b\x07\x9b\r\u202e")


@pytest.mark.parametrize("bad", ["\x1b[2J", "a\nb", "a\x7fb", "a\x9b2Jb", "a\x85b", "a\u2028b", "a\u202eb", "a\u2066b"])
def test_names_cannot_have_what_steers_a_terminal(server: TestServer, bad: str) -> None:
    for field in ("name", "user", "workdir", "client_key"):
        with pytest.raises(TenureError) as refused:
            server.client.submit({"budget": "lab/language", "command": ["true"], field: bad})
        error = refused.value.problem.errors[0]
        assert error.field == field and "no control characters" in error.fix and error.fix.isprintable()
    with pytest.raises(TenureError, match="no control characters"):
        server.client.drain("main", "n1", bad)


def test_a_reason_that_a_job_makes_is_shown_and_does_nothing(server: TestServer) -> None:
    """What could not be started is named in the reason, which everybody reads."""
    number = server.client.submit({"budget": "lab/language", "command": [STEERING], "workdir": "/"}).job.id
    server.client.wait(number)
    for arguments in (("wait", str(number)), ("ls", "--all"), ("show", str(number)), ("why", str(number)), ("events",)):
        done = server.cli(*arguments, code=None)
        assert not set(done.stdout) & set("\x1b\x07\x9b\r\u202e"), arguments


def test_a_terminal_gets_colours_and_nothing_else(server: TestServer, jobs: dict[str, int]) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {k: v for k, v in server.environment.items() if k != "NO_COLOR"} | {"TERM": "xterm-256color"}
    command = [sys.executable, "-m", "tenure", "show", str(jobs["[/x]"])]
    with subprocess.Popen(command, env=environment, cwd=server.directory, stdout=theirs, stderr=theirs) as done:
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # that is how a terminal is closed
            while part := os.read(ours, 65536):
                seen += part
        os.close(ours)
    assert done.returncode == 0
    text = seen.decode()
    assert "\x1b[" in text, "colours"
    assert "\x1b]" not in text and "\x1b[2J" not in text and not set(text) & set("\x07\x9b\u202e")


def test_top_shows_them_and_takes_any_filter(server: TestServer, jobs: dict[str, int]) -> None:
    async def main() -> None:
        app = TopApp(lambda: Client(server.url, server.token, patience_s=0), user="admin")
        async with app.run_test(size=(160, 44)) as pilot:

            async def until(done: Callable[[], bool], what: str) -> None:
                for _ in range(3000):
                    if done():
                        return
                    await pilot.pause(0.02)
                raise AssertionError(what)

            table = app.query_one(JobTable)
            await until(lambda: table.row_count >= len(NAMES), "all jobs")
            await pilot.press("slash")
            for typed in ("[/x]", "[bold]", "[", "\\"):
                for key in typed:
                    await pilot.press(key)
                await pilot.pause()
                assert typed in str(table.border_title).replace("\\[", "[")
                await pilot.press("escape", "slash")
            await pilot.press("escape")
            await until(lambda: table.row_count >= len(NAMES), "all jobs again")
            for row in range(table.row_count):
                table.move_cursor(row=row)
                await pilot.press("w")
                assert table.current is not None and app.asked == table.current.id
                await app.workers.wait_for_complete()
                assert app.query_one("#because", Static).content, "the pane says something"
                await pilot.press("w")

    asyncio.run(main())


def test_arguments_that_are_no_utf_8_are_refused_in_words(server: TestServer) -> None:
    odd = "a\udcffb"
    said = server.cli("submit", "-b", "lab/language", "--name", odd, "true", code=2).stderr
    assert said.startswith("error: name = ") and "Traceback" not in said
    assert "UTF-8" in server.cli("ls", "--user", odd, code=2).stderr
    server.cli("show", odd, code=2)


def test_an_output_of_another_encoding_shows_what_it_can(server: TestServer, jobs: dict[str, int]) -> None:
    environment = {**server.environment, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for arguments in (("ls",), ("squeue",), ("ls", "--json"), ("top", "--once"), ("show", str(jobs["日本語の仕事"]))):
        done = subprocess.run(
            [sys.executable, "-m", "tenure", *arguments],
            env=environment,
            cwd=server.directory,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert rb"\u65e5" in done.stdout


def test_a_directory_that_is_no_more(server: TestServer, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = 'cd gone && rmdir ../gone && exec "$0" -m tenure submit -b lab/language true'
    known = {"TENURE_URL": server.url, "TENURE_TOKEN": server.token}
    done = subprocess.run(
        ["sh", "-c", command, sys.executable],
        env={**server.environment, **known},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "error: this directory is no more: change to one that is there\n"
