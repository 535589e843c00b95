"""The demo for real: `--once` shows and checks everything; what it leaves running works as printed, and stops whole."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure import units
from tenure.client import Client
from tenure.demo import ending
from tenure.demo.site import Site
from tenure.executors import procs

SOURCE = Path(tenure.__file__).parent.parent
HANGS = 420
"""Seconds after which a demo that should have ended is taken to hang."""

pytestmark = pytest.mark.slow


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Where a demo goes; whatever it leaves is ended."""
    made = Site(tmp_path / "demo")
    yield made
    made.stop(lambda text: None)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in ("TENURE_URL", "TENURE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    return dict(os.environ)


def demo(site: Site, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tenure.demo", "--directory", str(site.directory), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANGS, check=False)


def begin(site: Site, environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tenure.demo", "--directory", str(site.directory), *arguments]
    return subprocess.Popen(command, env={**environment, "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, text=True)


def shell(script: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANGS, check=False)


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Its output up to a line with ``text``."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    pytest.fail(f"it ended without saying {text!r}:\n{seen}")


def interrupt(process: subprocess.Popen[str]) -> str:
    """Ctrl-C. Returns what it still said."""
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=HANGS)
    assert process.returncode == 130, said
    return said


def left(site: Site) -> list[str]:
    """Processes that have the demo's directory in their arguments or environment."""
    mark, found = str(site.directory).encode(), []
    for process in procs.everything():
        try:
            command = (procs.PROC / str(process.pid) / "cmdline").read_bytes()
            told = command + (procs.PROC / str(process.pid) / "environ").read_bytes()
        except OSError:
            continue
        if mark in told and not process.dead:
            found.append(command.decode().replace("\0", " "))
    return found


def kinds(record: dict[str, Any], job: int) -> list[str]:
    return [fact["kind"] for fact in record["facts"] if fact["job"] == job and fact["kind"] != "log"]


def in_order(wanted: list[str], there: list[str]) -> bool:
    rest = iter(there)
    return all(one in rest for one in wanted)


def test_once_shows_everything_and_leaves_nothing(site: Site, environment: dict[str, str]) -> None:
    done = demo(site, environment, "--once")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MISSING" not in done.stdout
    assert left(site) == []
    check_output(done.stdout)
    check_record(json.loads((site.directory / "record.json").read_text()))
    check_simulated(site, environment)


def check_simulated(site: Site, environment: dict[str, str]) -> None:
    """The simulator decides the demo's log again, byte for byte, and draws what happened."""
    out = site.directory.parent / "simulated"
    command = [sys.executable, "-m", "tenure", "simulate", "log", "--config", str(site.config), "--out", str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^[1-9]\d+ batches, [1-9]\d* plans, [1-9]\d* jobs", done.stdout)
    with (out / "log" / "jobs.csv").open() as rows:
        jobs = list(csv.DictReader(rows))
    assert jobs[0]["evictions"] == "1" and jobs[0]["state"] == "succeeded"
    assert (out / "log" / "report.html").is_file()


def check_output(said: str) -> None:
    """The story in its order, for a reader of plain text."""
    expected = [
        "1. Charged work", "rosa submits weather", "weather runs, protected until", "allocation",
        "2. Free work", "sweep-b runs; its budget is not charged", "0 of 16 stand idle",
        "3. A debug job", "debug claims 2 GPUs", "must go: it is warned", "debug gets 2 GPUs", "The decision came",
        "4. A promise", "weather is exposed", "nobody outranks it. It runs on",
        "5. A budget that is owed more", "weather must go", "comes first: its usage ratio is",
        "weather | warned (SIGTERM): stopped after step", "weather is back in the queue",
        "pretrain runs, protected until",
        "6. The evicted job", "weather | job 1 attempt 2", "weather has finished",
        "7. What can never run", "gpus = 24: cluster main has 16 GPUs", "min_runtime = 1s: use 0",
        "All of it",
    ]  # fmt: skip
    position = 0
    for text in expected:
        found = said.find(text, position)
        assert found >= 0, f"{text!r} does not follow:\n{said[position:]}"
        position = found
    assert "Why does" in said and "\x1b" not in said
    assert all(len(line) <= 100 for line in said.splitlines() if str(Path.cwd()) not in line and "/" not in line)


def check_record(record: dict[str, Any]) -> None:
    """The numbers behind it."""
    jobs, roles = record["jobs"], record["roles"]
    victim, gang, debug = jobs["victim"], jobs["gang"], jobs["debug"]
    assert record["missed"] == []
    assert (victim["state"], victim["evictions"], victim["restarts"]) == ("succeeded", 1, 1)
    assert [role["replicas"] * role["gpus"] for role in gang["roles"]] == [16]
    by_standing = [e for e in record["evictions"] if e["reason"]["code"] == "evicted_standing"]
    assert (victim["id"], gang["id"]) in {(e["job"], e["gainer"]) for e in by_standing}
    for eviction in by_standing:
        numbers = eviction["reason"]["numbers"]
        assert numbers["first_ratio_ppm"] < numbers["second_ratio_ppm"]
        attempt = next(a for job in jobs.values() for a in job["attempts"] if a["id"] == eviction["attempt"])
        assert units.parse_time(eviction["at"]) >= units.parse_time(attempt["protected_until"])
    free = {job for role, job in roles.items() if role.startswith("free")}
    for_debug = [e for e in record["evictions"] if e["gainer"] == debug["id"]]
    assert for_debug and all(e["reason"]["code"] == "evicted_unallocated" and e["job"] in free for e in for_debug)
    life = [
        "submitted",
        "start",
        "running",
        "exposed",
        "evict",
        "attempt_ended",
        "requeued",
        "start",
        "running",
        "ended",
    ]
    assert in_order(life, kinds(record, victim["id"]))
    resumed = [f["text"] for f in record["facts"] if f["kind"] == "log" and f.get("attempt") == f"{victim['id']}.2"]
    assert resumed[0].endswith(f"resumed from step {record['saved'][str(victim['id'])]}")
    first, last = record["budgets"][0]["budgets"], record["budgets"][-1]["budgets"]
    assert last["lab/science/climate"]["used_gpu_hours"] > first["lab/science/climate"]["used_gpu_hours"] > 0
    assert last["lab/vision/segment"]["used_gpu_hours"] == 0 < last["lab/vision/segment"]["unallocated_gpu_hours"]
    assert {refusal["reason"] for refusal in record["refusals"]} == {"too_many_gpus", "min_runtime_below_floor"}


def test_what_is_left_running_works_as_printed_and_stops_whole(site: Site, environment: dict[str, str]) -> None:
    process = begin(site, environment)
    read_until(process, "weather runs, protected")
    said = interrupt(process)
    assert "Interrupted" in said and ending.stop_command(site) in " ".join(said.split())
    url = site.url
    with site.client() as client:
        assert client.status().jobs.get("running")
    try_commands(site, environment)

    again = begin(site, environment)
    said = read_until(again, "The server runs at")
    assert "A demo server of an earlier run is running here" in said
    interrupt(again)
    with site.client() as client:
        assert [job.name for job in client.jobs(all=True) if job.id > 2] == []

    stopped = shell(ending.stop_command(site), environment)
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert "The demo server is stopped" in stopped.stdout
    assert left(site) == []
    assert not site.answers() and url.startswith("http://127.0.0.1:")
    assert "No demo server is running" in demo(site, environment, "--stop").stdout


def try_commands(site: Site, environment: dict[str, str]) -> None:
    """Each as it is printed, from where the demo was started."""
    (change, _), *others = ending.commands(site)
    assert change.startswith("cd ") and len(others) >= 6
    for command, meaning in others:
        script = f"{change} && {command}" + (f"   # {meaning}" if meaning else "")
        done = shell(script, environment)
        assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
        assert "weather" in done.stdout or not ("ls" in command or "show" in command)


def test_a_server_that_died_leaves_jobs_that_stop_too(site: Site, environment: dict[str, str]) -> None:
    process = begin(site, environment)
    read_until(process, "weather runs, protected")
    for server in site.servers():
        procs.kill(server)
    said, _ = process.communicate(timeout=HANGS)
    assert process.returncode == 1 and "cannot go on" in said
    assert left(site) == []


def test_an_interrupted_check_leaves_nothing_and_a_taken_port_is_no_obstacle(
    site: Site, environment: dict[str, str]
) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # When somebody else has it already, that is just as good.
        with contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", 7788))
            taken.listen()
        process = begin(site, environment, "--once")
        read_until(process, "weather gets 8 GPUs")
        found = site.address()
        assert found is not None and not found[0].endswith(":7788")
        with Client(*found) as client:
            assert client.me().role == "admin"
        interrupt(process)
    assert left(site) == []
