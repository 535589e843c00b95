"""What a server leaves for clients on its machine, and how it ends."""

from __future__ import annotations

from pathlib import Path

from support.server import TestServer


def test_a_file_that_cannot_be_applied_does_not_stop_a_restart(tmp_path: Path) -> None:
    server = TestServer(tmp_path)
    server.start()
    try:
        assert server.cli("submit", "--gpus", "1", "--budget", "lab/vision", "--", "sleep", "600").returncode == 0
        server.wait_state(1, "running")
        server.stop()
        budgets = tmp_path / "budgets.toml"
        budgets.write_text(budgets.read_text().replace("[lab.vision]", "[lab.hearing]"))
        server.start()
        assert server.client.job(1).state == "running"
        assert "configuration_differs" in (tmp_path / "server.log").read_text()
    finally:
        server.end()


def test_a_restart_keeps_the_token_that_people_may_have_copied(tmp_path: Path) -> None:
    server = TestServer(tmp_path)
    server.start()
    try:
        file, before = tmp_path / ".tenure" / "client.toml", server.token
        assert file.stat().st_mode & 0o077 == 0
        server.stop()
        assert server.process.returncode == 0
        server.start()
        assert server.token == before
        server.stop()
        file.write_text('token = "made up"\n')
        server.start()
        assert server.token not in (before, "made up")
        assert server.client.me().name == "admin"
    finally:
        server.end()
