"""Somebody sets the clock of the machine by an hour under a real server, in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from support.server import TestServer
from tenure.engine import recovery
from tenure.engine.clock import SLEW_PPM
from tenure.store import Store

LIBRARIES = [
    path
    for place in ("/usr/lib", "/usr/lib64", "/usr/local/lib")
    for path in sorted(Path(place).glob("**/faketime/libfaketimeMT.so.1"))
]
pytestmark = pytest.mark.skipif(not LIBRARIES, reason="libfaketime is not installed (Debian: apt-get install faketime)")

TRIES = 60
"""Each commits twice, so the clock is looked at often."""


class Site:
    """A server whose wall clock reads a file: ``step`` sets it by so many seconds."""

    def __init__(self, directory: Path) -> None:
        self.offset = directory / "offset"
        self.step(0)
        fake = {
            "LD_PRELOAD": str(LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self.offset),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        self.server = TestServer(directory, policy='preemption_margin = "1s"', extra_env=fake)
        self.server.start()
        self.client = self.server.client

    def step(self, seconds: int) -> None:
        partial = self.offset.with_suffix(".new")
        partial.write_text(f"{seconds:+d}\n")
        partial.replace(self.offset)

    def restart(self) -> None:
        self.server.kill()
        self.server.start()
        self.client = self.server.client

    def submit(self, min_runtime: str, budget: str = "lab/language") -> int:
        request = {
            "budget": budget,
            "gpus": 4,
            "min_runtime": min_runtime,
            "resumable": True,
            # The library that fakes the clock breaks sleeping, so it is not for the jobs.
            "command": ["/usr/bin/env", "-u", "LD_PRELOAD", "sleep", "1000"],
            "workdir": "/",
        }
        return self.client.submit(request).job.id

    def await_alarm(self, on: bool) -> None:
        """Any request has the server look at its clock."""
        for _ in range(TRIES):
            status = self.client.pause("starts")
            self.client.resume("starts")
            if status.clock_alarm == on:
                return
        raise AssertionError(f"the alarm is {'off' if on else 'on'}")

    def state(self, job_id: int) -> str:
        return self.client.job(job_id).state


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.step(0)
    made.server.end()


def test_steps_of_an_hour_expose_nothing_and_lose_no_time(site: Site) -> None:
    protected = site.submit("1h")
    site.server.wait_state(protected, "running")
    free = site.submit("0")
    site.server.wait_state(free, "running")
    before = site.client.job(protected).attempt
    assert before is not None

    site.step(3600)
    site.await_alarm(True)
    debug = site.submit("1m", budget="lab/vision")
    assert site.state(debug) == "queued", "no evictions while the alarm is on, not even of what is free"
    assert "paused_evictions" in site.client.job(debug).reason.model_dump_json()

    # A crash in the middle changes nothing, and does not end the alarm either.
    site.restart()
    assert site.client.status().clock_alarm
    assert [site.state(job) for job in (protected, free, debug)] == ["running", "running", "queued"]

    site.step(0)
    site.await_alarm(False)
    site.server.wait_state(debug, "running")
    assert site.state(free) == "queued"

    site.step(-3600)
    site.await_alarm(True)
    assert [site.state(job) for job in (protected, free, debug)] == ["running", "queued", "running"]
    after = site.client.job(protected).attempt
    assert after is not None and after.protected_until == before.protected_until
    check_log(site)


def check_log(site: Site) -> None:
    """Engine time has gone on as the machine's own clock has, whatever the wall clock said."""
    with Store.open(f"sqlite:///{site.server.directory / '.tenure' / 'tenure.db'}") as store:
        anchors = [recovery.record.anchor_of(row) for row in store.batches()]
        assert len({anchor.boot for anchor in anchors}) == 1
        for first, second in pairwise(anchors):
            true = second.boottime - first.boottime
            assert abs(second.at - first.at - true) <= true * SLEW_PPM // 1_000_000 + 1
        for row in store.list_jobs(limit=None):
            for attempt in store.attempts_of(row.id):
                if attempt.running_at is not None and attempt.min_runtime:
                    assert attempt.protected_until == attempt.running_at + attempt.min_runtime
        assert recovery.replay(store).mismatches == ()
