"""`tenure simulate --from-server` beside a real server: its past again, with other rules, and nothing of it touched."""

from __future__ import annotations

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.lived import site
from support.server import TestServer
from tenure import units
from tenure.core.model import DAY
from tenure.sim.months import month_of

LANGUAGE, VISION = ("--budget", "lab/language"), ("--budget", "lab/vision")
FROM_SERVER = ("simulate", "--from-server")
OTHER_TREE = """
[lab]
managers = ["ada"]

[lab.language]
share = 0.25

[lab.vision]
share = 0.75
members = ["alan", "admin"]
"""


def submit(server: TestServer, *arguments: str) -> int:
    return int(server.cli("submit", "-q", *arguments).stdout)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    """A server that has lived through 8 GPUs' worth of jobs of all kinds, and still runs one."""
    running = TestServer(tmp_path_factory.mktemp("lived"))
    running.start()
    try:
        _live(running)
        yield running
    finally:
        running.end()


def _live(server: TestServer) -> None:
    whole = ("--gpus", "4", "--replicas", "2", "--min-runtime", "5m")
    first = submit(server, *LANGUAGE, *whole, "--", "sleep", "2")
    jobs = [submit(server, *budget, *whole, "--", "sleep", "0.3") for budget in (LANGUAGE, VISION) * 3]
    tree = server.directory / "budgets.toml"
    tree.write_text(tree.read_text() + "\n[lab.new]\nshare = 0.1\n")
    server.cli("apply", "--yes")
    failing = submit(server, *LANGUAGE, "--gpus", "2", "--", "sh", "-c", "sleep 0.2; exit 3")
    waits = submit(server, *LANGUAGE, "--after-ok", str(jobs[-1]), "--", "true")
    in_vain = submit(server, *LANGUAGE, "--after-ok", str(failing), "--", "true")
    array = submit(server, *VISION, "--array", "0-3", "--gpus", "2", "--", "sleep", "0.2")
    held = submit(server, *VISION, "--hold", "--", "true")
    given_up = submit(server, *VISION, *whole, "--", "sleep", "60")
    server.cli("cancel", str(given_up))
    server.cli("release", str(held))
    for job in (first, *jobs, failing, waits, in_vain, held, *range(array, array + 4)):
        server.client.wait(job, timeout_s=120)
    free = submit(server, *VISION, "--gpus", "4", "--min-runtime", "0", "--resumable", "--", "sleep", "100")
    server.wait_state(free, "running")
    last = submit(server, *LANGUAGE, *whole, "--", "sleep", "0.3")  # which evicts it
    server.client.wait(last, timeout_s=60)
    server.wait_state(free, "running")


def contents(server: TestServer) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of the database."""
    with closing(sqlite3.connect(f"file:{server.directory / '.tenure' / 'tenure.db'}?mode=ro", uri=True)) as database:
        names = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        return {name: database.execute(f"select * from {name} order by rowid").fetchall() for name in names}


def as_json(server: TestServer, *arguments: str) -> Any:
    return json.loads(server.cli(*FROM_SERVER, *arguments, "--json").stdout)


def rows(folder: Path) -> dict[int, dict[str, str]]:
    with (folder / "jobs.csv").open() as file:
        return {int(row["id"]): row for row in csv.DictReader(file)}


def test_as_it_is_it_is_what_really_happened_and_the_server_is_not_touched(server: TestServer, tmp_path: Path) -> None:
    (server.directory / "other.toml").write_text(OTHER_TREE)
    before = contents(server)
    found = as_json(server, "--last", "1h", "--budgets", "other.toml", "--out", str(tmp_path / "out"))
    assert contents(server) == before
    assert any("History is kept from" in note for note in found["notes"])
    assert any("The configuration was changed 1 time meanwhile" in note for note in found["notes"])
    assert "changed: 1 change of the configuration that was made meanwhile left out." in found["notes"]
    honest = found["honesty"]
    assert honest["started_within"]["1m"] == 1, honest
    assert honest["evictions"] == {"really": 1, "as_it_is": 1}
    again = rows(tmp_path / "out" / "as-it-is")
    assert again.keys() == set(range(1, 19))
    live = {job_id: server.client.job(job_id) for job_id in again}
    assert honest["jobs_started"] == sum(job.first_started_at is not None for job in live.values()) >= 16
    assert {job_id: row["state"] for job_id, row in again.items()} == {
        job_id: job.state for job_id, job in live.items()
    }
    assert found["changes"]["changed"][0] == "budget lab/language: share 50% -> 25% (50% -> 25% of main, 4 -> 2 GPUs)"
    assert found["refused"] == {"as it is": {}, "changed": {}}
    assert {"sides.html", "sides.md", "sides.json", "comparison.html"} <= {p.name for p in (tmp_path / "out").iterdir()}
    again_out = server.cli(*FROM_SERVER, "--budgets", "other.toml", "--out", str(tmp_path / "out"), code=2)
    assert "it has an earlier simulation; name another directory, or add --force" in again_out.stderr


def test_a_dry_run_says_what_would_be_refused_and_runs_nothing(server: TestServer) -> None:
    (server.directory / "less.toml").write_text("[lab]\n\n[lab.language]\nshare = 1\n")
    said = server.cli(*FROM_SERVER, "--last", "1h", "--budgets", "less.toml", "--dry-run").stdout
    assert "18 jobs" in said
    assert "of lab/vision, which the tree does not have, refused (--move lab/vision=NEW keeps them)" in said
    assert "changed: 10 jobs (" in said
    moved = ("--budgets", "less.toml", "--move", "lab/vision=lab/language", "--dry-run")
    assert as_json(server, "--last", "1h", *moved)["refused"] == {
        "changed": ["1 change of the configuration that was made meanwhile left out"]
    }


def test_the_last_time_is_counted_back_from_until(server: TestServer) -> None:
    moment = server.client.job(18).submitted_at
    found = as_json(server, "--last", "1s", "--until", units.format_time(moment), "--policy", "fifo", "--dry-run")
    assert found["until"] == moment and found["from"] == moment - 1000


def test_it_looks_ahead_from_now_with_what_was_submitted_lately(server: TestServer) -> None:
    found = as_json(server, "--ahead", "5m", "--set", "max_min_runtime=1h", "--policy", "budgets,fifo")
    assert found["sides"] == ["as it is", "changed", "fifo"]
    assert found["honesty"] is None and found["until"] - found["from"] == 300_000
    assert any("submitted again" in note for note in found["notes"])
    assert found["all"]["figures"]["as it is"]["jobs"] >= 20
    text = server.cli(*FROM_SERVER, "--ahead", "5m", "--set", "preemption_margin=30m").stdout
    assert "changed against as it is" in text and "policy: preemption_margin 1h -> 30m" in text


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    """All runs are at the same moment then, so they can be compared."""
    start = int(time.time()) * 1000 - DAY
    setup = replace(month_of("saturated", {"main": 16}, people=15), duration=DAY, warmup=0, start=start)
    config, _ = site(tmp_path / "site", setup)
    out = tmp_path / "out"
    words = ("--config", str(config), "--ahead", "50d", "--policy", "fifo", "--out", str(out))
    process = subprocess.Popen(
        [sys.executable, "-m", "tenure", *FROM_SERVER, *words],
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": "160", "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    seen = ""
    while "running: " not in seen:
        more = process.stderr.read(64)
        assert more, f"it ended before it ran: {seen}"
        seen += more
    process.send_signal(signal.SIGINT)
    shown, rest = process.communicate(timeout=300)
    assert process.returncode == 130 and "the report is of what was run until then" in " ".join(rest.split())
    found = json.loads((out / "sides.json").read_text())
    assert 0 < found["until"] - found["from"] < 50 * DAY
    assert found["notes"][0].startswith("The run was broken off")
    assert "fifo against as it is" in shown
    assert {json.loads((out / name / "run.json").read_text())["until"] for name in ("as-it-is", "fifo")} == {
        found["until"]
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--last 1h", "nothing is changed: name another configuration"),
        ("--last 1h --policy budgets", "that is what the server runs"),
        ("--last 1h --policy nothing", "policy = nothing: there are"),
        ("--last 1h --since 2026-01-01 --policy fifo", "--last 1h says when to begin already"),
        ("--ahead 1d --last 1h --policy fifo", "--ahead begins now"),
        ("--last soon --policy fifo", "last = soon"),
        ("--since 2100-01-01 --policy fifo", "nothing lies between it and the end"),
        ("--last 1h --set lookback", "write NAME=VALUE"),
        ("--last 1h --set lookback=7d,14d", "one value; run again for another"),
        ("--last 1h --set weight_age=3", "it changes nothing under budgets"),
        ("--last 1h --set max_min_runtime=3h --set max_min_runtime=4h", "give each setting one value"),
        ("--last 1h --set evictions_per_minute=many", "evictions_per_minute = many: write a whole number"),
        ("--last 1h --policy fifo --move lab/vision", "write OLD=NEW"),
        ("--last 1h --policy fifo --move lab/vision=lab/nothing", "there is no budget lab/nothing"),
        ("--last 1h --with nothing.toml", "nothing.toml"),
        ("--last 1h --with tenure.toml --budgets budgets.toml", "give one of the two"),
        ("--config nothing.toml --policy fifo", "nothing.toml"),
        ("--last 1h --policy fifo --out budgets.toml", "this is a file; name a directory"),
        (
            "--last 1h --policy fifo --out budgets.toml/x",
            "out = budgets.toml/x: Not a directory; name a directory that",
        ),
        ("--ahead 365d --policy fifo", "comes again at most 60 times; look at most"),
    ],
)
def test_mistakes_are_told_with_what_would_do(server: TestServer, words: str, said: str) -> None:
    done = server.cli(*FROM_SERVER, *words.split(), code=None)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_a_server_that_never_ran_is_told(tmp_path: Path, server: TestServer) -> None:
    server.cli("init", str(tmp_path))
    done = server.cli(*FROM_SERVER, "--config", str(tmp_path / "tenure.toml"), "--policy", "fifo", code=2)
    assert "has this server ever run?" in done.stderr
    assert not (tmp_path / ".tenure").exists()
