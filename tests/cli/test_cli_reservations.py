"""What is held for a job, from a real server to the terminal."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from support.server import TestServer
from tenure.api.models import HostView
from tenure.cli import render
from tenure.core.model import DAY, HOUR, MINUTE

POLICY = 'look_every = "10s"\npreemption_margin = "15m"\nreserved_percent = 100'


def test_a_gang_is_told_when_it_starts(tmp_path: Path) -> None:
    server = TestServer(tmp_path, policy=POLICY)
    server.start()
    try:
        runs = [submit(server, "lab/language", "--gpus", "4", "--min-runtime", "2h") for _ in range(2)]
        for run in runs:
            server.wait_state(run, "running")
        gang = submit(server, "lab/vision", "--gpus", "4", "--replicas", "2", "--min-runtime", "1h")
        seq = server.client.changes(0)
        while server.client.job(gang).reservation is None:
            seq = server.client.changes(seq, 30_000)
        held = as_json(server, "show", str(gang))["reservation"]
        assert (held["cluster"], held["hosts"], held["gpus"]) == ("main", ["n1", "n2"], 8)
        shown = server.cli("show", str(gang)).stdout
        assert "reserved      2 hosts (n1, n2) free to it by " in shown and ", starts by " in shown
        assert "starts by " in server.cli("ls", "--state", "queued").stdout
        assert server.cli("hosts").stdout.count(f"held for job {gang} until ") == 2
        assert [host["held_for"] for host in as_json(server, "hosts")] == [gang, gang]
        assert "hosts with 8 GPUs are held for 1 job in turn" in server.cli("status").stdout
        assert as_json(server, "status")["clusters"][0]["reservations"] == 1
        assert f"n[1-2] held for job {gang}. Holds a reservation of 2 hosts" in server.cli("events").stdout
        assert "what holds a reservation" in server.cli("budgets").stdout
        assert 'tenure_reservations{cluster="main"} 1.0' in server.cli("metrics").stdout
        assert "reserved_percent = 100" in server.cli("config").stdout
        server.kill()
        server.start()
        assert as_json(server, "show", str(gang))["reservation"] == held
    finally:
        server.end()


def submit(server: TestServer, budget: str, *arguments: str) -> int:
    return int(server.cli("submit", "-q", "--budget", budget, *arguments, "sleep", "300").stdout)


def as_json(server: TestServer, *arguments: str) -> Any:
    return json.loads(server.cli(*arguments, "--json").stdout)


def test_a_moment_is_an_hour_today_and_a_date_later() -> None:
    noon = int(time.mktime((2026, 10, 9, 12, 0, 0, 0, 0, -1))) * 1000
    assert render.soon(noon + 2 * HOUR + 20 * MINUTE, noon) == "14:20"
    assert render.soon(noon + DAY, noon) == "2026-10-10 12:00"


def test_a_host_says_why_it_is_kept() -> None:
    noon = int(time.mktime((2026, 10, 9, 12, 0, 0, 0, 0, -1))) * 1000
    rest: dict[str, Any] = {"cluster": "main", "name": "n1", "since": "2026-10-09T00:00:00Z", "gpus": 8, "free_gpus": 8}
    rest |= {"cpus": 8, "memory_mib": 8, "labels": {}, "attempts": []}
    host = HostView(state="healthy", by="ada", why="fan", held_for=12, held_until=noon + HOUR, headroom=True, **rest)
    table = render.host_table([host, HostView(state="healthy", by="", why="", **rest)], noon)
    assert list(table.columns[-1].cells) == [
        "fan (ada); held for job 12 until 13:00; kept for short contracts",
        "",
    ]
