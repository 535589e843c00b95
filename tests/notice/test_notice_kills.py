"""The server killed between any two steps of telling: everything arrives, and is told once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from receivers import Hook, hook, until
from test_notice_server import person, serving, submit

from support.server import TestServer
from tenure import faults
from tenure.client import Client, TenureError, Unreachable

JOBS = 50
"""More than are needed: several notices at a time may be one message."""


@pytest.fixture
def web() -> Iterator[Hook]:
    with hook() as made:
        yield made


def run_jobs(server: TestServer) -> None:
    """One after the other, so that there are several steps to be killed at, until the server is dead."""
    with Client(server.url, server.token, patience_s=0) as client, suppress(Unreachable, TenureError):
        for number in range(JOBS):
            command = ["true"] if number % 2 else ["false"]
            body = {"user": "ann", "budget": "lab/language", "gpus": 1, "command": command}
            client.wait(client.submit(body).job.id, timeout_s=60)


@pytest.mark.slow
def test_a_server_killed_anywhere_tells_everything_once(tmp_path: Path, web: Hook) -> None:
    """At each point, at its first hit, which may come before the server answers, and at a later one."""
    with serving(tmp_path, web) as server:
        person(server, "ann", "--webhook", f"{web.url}/ann")
        server.stop()
        for hit in (1, 3):
            for fault in faults.NOTICE_POINTS:
                server.environment["TENURE_FAULT"] = f"{fault}:{hit}"
                with suppress(AssertionError):
                    server.start()
                    run_jobs(server)
                assert server.process.wait(60) == -9, fault
        del server.environment["TENURE_FAULT"]
        server.start()
        known = sorted(job.id for job in server.client.jobs(all=True))
        assert len(known) >= len(faults.NOTICE_POINTS)
        for job in known:
            server.client.wait(job, timeout_s=60)
        wanted = sorted((kind, job) for job in known for kind in ("started", _end(server, job)))
        log = partial(server.client.notice_log, limit=1000)
        until(lambda: sum(one.state == "sent" for one in log("ann").items) == len(wanted), "all are delivered")
        assert sorted((one.kind, one.job) for one in log("ann").items) == wanted  # each once in the table
        messages = {got.id: got.body for got in web.good("/ann")}
        assert all(messages[got.id] == got.body for got in web.at("/ann"))  # what came twice was the same message
        told = [
            (one["kind"], one["job"]) for body in messages.values() for one in json.loads(body)["tenure"]["notices"]
        ]
        assert sorted(told) == wanted


def _end(server: TestServer, job: int) -> str:
    return "ended" if server.client.job(job).state == "succeeded" else "failed"


def test_what_is_waiting_when_the_server_stops_is_delivered_by_the_next(tmp_path: Path, web: Hook) -> None:
    web.answers["/ann"] = [500]
    with serving(tmp_path, web) as server:
        person(server, "ann", "--webhook", f"{web.url}/ann", "--kinds", "ended")
        job = submit(server, "ann", budget="lab/language", gpus=1, command=["true"])
        web.wait(lambda: len(web.at("/ann")) >= 2, "it is tried")
        server.stop()
        web.answers["/ann"] = [200]
        server.start()
        web.wait(lambda: len(web.good("/ann")) == 1)
        assert web.good("/ann")[0].json["tenure"]["job"] == job
        assert len({got.id for got in web.at("/ann")}) == 1
