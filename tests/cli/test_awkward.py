"""The command line where something is missing, somebody is faster, or thinks better of it."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from support.server import TestServer
from tenure.api import address
from tenure.cli import operator
from tenure.cli.main import run
from tenure.client import Client, Unreachable

WITHOUT_HOME = "Could not determine home directory."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    running = TestServer(tmp_path_factory.mktemp("awkward"))
    running.start()
    yield running
    running.end()


def test_a_user_without_a_home(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in containers: no HOME, and no entry in the list of users."""

    def nowhere() -> Path:
        raise RuntimeError(WITHOUT_HOME)

    monkeypatch.setattr(address.Path, "home", nowhere)
    without = {"XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""}
    assert "admin (admin)" in server.cli("whoami", env=without).stdout
    done = server.cli("submit", "-q", "-b", "lab/language", "--priority", "1", "--hold", "true", env=without)
    assert int(done.stdout) and "orders jobs inside one budget" in done.stderr


@pytest.mark.parametrize("token", ["tnr_a\nb", "tnr_日本", "tnr_\x1b"])
def test_a_token_that_cannot_be_one_is_not_shown(server: TestServer, token: str) -> None:
    said = server.cli("ls", token=token, code=3).stderr
    assert said == "error: the token from TENURE_URL and TENURE_TOKEN has characters that no token has: copy it anew\n"
    with pytest.raises(Unreachable, match="characters that no token has"):
        Client(server.url, token)


def test_ctrl_c_while_the_program_is_still_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(types.ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "tenure.cli.app", Interrupted("tenure.cli.app"))
    assert run(["ls"]) == 130


def test_what_cannot_be_opened_is_named(server: TestServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = server.config.read_text().replace('data_dir = ".tenure"', 'data_dir = "file/data"')
    (tmp_path / "tenure.toml").write_text(config)
    (tmp_path / "budgets.toml").write_text((server.directory / "budgets.toml").read_text())
    said = server.cli("serve", cwd=tmp_path, code=2).stderr
    assert said == f"error: cannot serve: {tmp_path}/file/data: Not a directory\n"
    assert server.cli("init", str(tmp_path / "file"), code=2).stderr.startswith(f"error: {tmp_path}/file")
    assert "Errno" not in server.cli("backup", str(tmp_path / "file" / "x.db"), code=2).stderr


class Asked:
    """``tenure apply`` in a terminal, up to its question."""

    def __init__(self, server: TestServer) -> None:
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tenure", "apply"],
            env={**server.environment, "COLUMNS": "300"},
            cwd=server.directory,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.said = ""
        while "Apply this?" not in self.said:
            self.said += os.read(self.ours, 65536).decode()

    def answer(self, keys: bytes) -> int:
        os.write(self.ours, keys)
        with contextlib.suppress(OSError):  # that is how a terminal is closed
            while part := os.read(self.ours, 65536):
                self.said += part.decode()
        os.close(self.ours)
        return self.process.wait()


def test_who_applies_is_told_when_somebody_was_faster(server: TestServer, tmp_path: Path) -> None:
    """What would change is shown before; if that is not so any more, nothing is changed."""
    budgets = server.directory / "budgets.toml"
    before = budgets.read_text()
    budgets.write_text(before.replace("share = 0.5", "share = 0.4"))
    asked = Asked(server)
    (tmp_path / "tenure.toml").write_text(server.config.read_text())
    (tmp_path / "budgets.toml").write_text(before.replace("share = 0.25", "share = 0.2"))
    server.cli("apply", "--yes", str(tmp_path / "tenure.toml"))
    assert asked.answer(b"y\n") == 2 and "somebody else has applied" in asked.said
    assert "share = 0.5" in server.cli("config").stdout
    again = Asked(server)
    assert again.answer(b"y\n") == 0 and again.said.rstrip().endswith("applied")
    budgets.write_text(before)
    server.cli("apply", "--yes")


def test_ctrl_c_at_the_question_applies_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_question: str) -> bool:
        raise typer.Abort  # what Ctrl-C becomes there

    monkeypatch.setattr(typer, "confirm", interrupted)
    with pytest.raises(typer.Exit) as left:
        operator._asked()
    assert left.value.exit_code == 130 and capsys.readouterr().out == "\nnothing was applied\n"
