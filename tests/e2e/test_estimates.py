"""Estimates of a real server: made beside it, told, judged when the job starts, and gone with it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from support.server import TestServer
from tenure.core.model import DAY
from tenure.store import Store

PATIENCE_S = 400
"""Estimates are made with what nobody else wants of the machine (nice 19), which may be little."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TestServer]:
    running = TestServer(tmp_path, estimates='"1s"')
    running.start()
    yield running
    running.end()


def submit(server: TestServer, *arguments: str) -> int:
    return int(server.cli("submit", "-q", "--budget", "lab/language", *arguments).stdout)


def until(met: Callable[[], bool], what: str) -> None:
    """Nobody is told when an estimate is written, so it is asked for."""
    end = time.monotonic() + PATIENCE_S
    while not met():
        assert time.monotonic() < end, f"{what} does not happen"
        time.sleep(0.05)


def estimators(server: TestServer) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(server.process.pid).children():
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            if "tenure.forecast" in child.cmdline():
                found.append(child)
    return found


def test_a_queued_job_is_told_when_it_starts_and_the_error_is_shown_beside_the_next(server: TestServer) -> None:
    file = server.directory / "go"
    wait_for_file = ("sh", "-c", f"while ! test -e {file}; do sleep 0.1; done")
    first = [submit(server, "--gpus", "4", "--min-runtime", "1h", *wait_for_file) for _ in range(2)]
    for job in first:
        server.wait_state(job, "running")
    waits = submit(server, "--gpus", "4", "--min-runtime", "1h", "sleep", "600")
    until(lambda: server.client.eta(waits).estimate is not None, "an estimate")
    told = server.client.eta(waits)
    assert told.estimate is not None and told.state == "queued"
    assert told.estimate.made_at <= told.estimate.low and told.estimate.age_ms >= 0
    assert (told.past.size_class, told.past.count, told.past.median_error_ms) == ("small", 0, None)
    assert "No estimate of a small job that is a day old" in server.cli("eta", str(waits)).stdout
    assert "  starts        from " in server.cli("show", str(waits)).stdout
    file.touch()
    server.wait_state(waits, "running")
    with Store.open(f"sqlite:///{server.directory / '.tenure' / 'tenure.db'}") as store:
        until(lambda: bool(store.past_estimates(0, 2**60, "small", 9, started=True)), "the start is noted")
        noted = store.past_estimates(0, 2**60, "small", 9, started=True)
        # As if it had been a day ago: younger ones are not judged.
        store.write_estimates((replace(row, made_at=row.made_at - 2 * DAY), row.made_at) for row in noted)
    after = server.client.eta(waits)
    assert after.estimate is None and after.text.endswith("does not wait: it is running.")
    assert after.past.count >= 1 and after.past.median_error_ms is not None and after.past.inside_percent is not None
    submit(server, "--gpus", "4", "--min-runtime", "1h", "sleep", "600")  # on the other host
    next_one = submit(server, "--gpus", "4", "--min-runtime", "1h", "sleep", "600")
    assert f"Of {after.past.count} past estimates of small jobs" in server.client.eta(next_one).text
    shown = json.loads(server.cli("eta", str(next_one), "--json").stdout)
    assert shown["past"]["count"] == after.past.count
    server.client.hold(next_one)
    assert f"job {next_one} is held by admin" in server.client.eta(next_one).text


def test_the_process_ends_with_the_server_however_that_ends(server: TestServer) -> None:
    until(lambda: len(estimators(server)) == 1, "the process")
    (process,) = estimators(server)
    until(lambda: process.nice() == 19, "it takes what others leave")
    server.kill()
    psutil.wait_procs([process], timeout=PATIENCE_S)
    assert not process.is_running()
    server.start()
    until(lambda: len(estimators(server)) == 1, "the process")
    (process,) = estimators(server)
    server.stop()
    assert not process.is_running() and server.process.returncode == 0


def test_the_server_goes_on_without_it(server: TestServer) -> None:
    until(lambda: len(estimators(server)) == 1, "the process")
    estimators(server)[0].kill()
    log = server.directory / "server.log"
    until(lambda: "estimates_ended" in log.read_text(), "a line in the log")
    server.wait_state(submit(server, "--gpus", "1", "true"), "succeeded")


def test_without_estimates_there_is_no_process_and_it_is_said(tmp_path: Path) -> None:
    server = TestServer(tmp_path)
    server.start()
    try:
        for _ in range(3):
            waits = submit(server, "--gpus", "4", "--min-runtime", "1h", "sleep", "600")
        assert "the server makes none (estimates = 0)" in server.client.eta(waits).text
        assert estimators(server) == []
    finally:
        server.end()
