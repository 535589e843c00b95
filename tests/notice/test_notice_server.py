"""A real server, real jobs and a real eviction: who is told what, in which words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from receivers import Hook, Post, hook, mail_server, until

from support.server import TestServer

SETTINGS = """
[notice]
webhook_hosts = ["127.0.0.1:{hooks}"]
retry_first = "100ms"
timeout = "1m"
link = "https://tenure.lab.example/jobs/{{job}}"

[notice.smtp]
host = "127.0.0.1"
port = {mail}
tls = "none"
from = "tenure@lab.example"
"""
FREE = {"budget": "lab/language", "gpus": 4, "replicas": 2, "min_runtime": "0", "resumable": True}
CHARGED = {"budget": "lab/vision", "gpus": 4, "replicas": 2, "min_runtime": "1m"}
SLEEP = ["sleep", "1000"]


@contextmanager
def serving(directory: Path, web: Hook, post: Post | None = None, more: str = "") -> Iterator[TestServer]:
    settings = SETTINGS.format(hooks=web.port, mail=post.port if post is not None else 25)
    server = TestServer(directory, policy=settings + more)
    server.start()
    try:
        yield server
    finally:
        server.end()


@pytest.fixture
def web() -> Iterator[Hook]:
    with hook() as made:
        yield made


def person(server: TestServer, name: str, *options: str) -> str:
    """A new user who is told so; their token."""
    server.client.add_user(name)
    token = server.client.add_token(name)
    if options:
        server.cli("notice", "set", *options, token=token)
    return token


def submit(server: TestServer, user: str, **more: object) -> int:
    return server.client.submit({"user": user, "command": SLEEP, **more}).job.id


def test_an_eviction_from_the_warning_to_the_end(tmp_path: Path, web: Hook) -> None:
    with mail_server() as post, serving(tmp_path, web, post) as server:
        token = person(server, "ann")
        said = server.cli("notice", "set", "--webhook", f"{web.url}/ann", "--email", "ann@lab.example", token=token)
        secret = said.stdout.split("secret")[1].split()[0]
        free = submit(server, "ann", name="probe", **FREE)
        server.wait_state(free, "running")
        gang = submit(server, "alan", name="gang", **CHARGED)
        server.wait_state(gang, "running")
        web.wait(lambda: len([kind for got in web.good("/ann") for kind in got.kinds]) >= 3)
        notices = {one["kind"]: one for got in web.good("/ann") for one in got.json["tenure"]["notices"]}
        assert all(got.signed_with(secret) for got in web.good("/ann"))
        assert list(notices) == ["started", "will_be_preempted", "preempted"]
        warned, gone = notices["will_be_preempted"], notices["preempted"]
        who = {"job": gang, "label": str(gang), "name": "gang", "user": "alan", "budget": "lab/vision"}
        assert warned["gainer"] == who and warned["reason"]["code"] == "evicted_unallocated"
        assert warned["at"] < warned["by"] and gone["attempt"] == f"{free}.1" and "state" not in gone
        log = {one.kind: one for one in server.client.notice_log("ann").items if one.channel == "email"}
        assert log["started"].title == f"Job {free} (probe) has started on 8 GPUs of main"
        assert log["will_be_preempted"].title.startswith(f"Job {free} (probe) will be preempted: it has until 20")
        assert log["preempted"].title == f"Job {free} (probe) was preempted and is queued again"
        assert log["preempted"].text.splitlines() == [
            f"Evicted for job {gang} (8 GPUs): it ran unallocated, and charged jobs come first.",
            f"Job {gang} (gang) is of alan and charged to lab/vision.",
            "It keeps its place in the queue, and is protected anew when it starts again.",
        ]
        server.client.cancel(gang)
        web.wait(lambda: [kind for got in web.good("/ann") for kind in got.kinds].count("started") == 2)
        titles = [one.title for one in server.client.notice_log("ann").items if one.kind == "started"]
        assert titles[0] == f"Job {free} (probe) has started again on 8 GPUs of main"
        post.wait(lambda: sum(len(mail["X-Tenure-Kind"].split(", ")) for mail in post.got) == 4)
        assert {mail["References"] for mail in post.got} == {f"<tenure-job-{free}@lab.example>"}
        assert f"https://tenure.lab.example/jobs/{free}" in post.got[0].get_content()


def test_ends_failures_and_holds(tmp_path: Path, web: Hook) -> None:
    with serving(tmp_path, web) as server:
        person(server, "ann", "--webhook", f"{web.url}/ann", "--kinds", "ended,failed,held")
        base = {"budget": "lab/language", "gpus": 1}
        good = submit(server, "ann", **base, name="good", command=["true"])
        server.client.wait(good)
        bad = submit(server, "ann", **base, name="bad", command=["sh", "-c", "exit 3"])
        server.client.wait(bad)
        stopped = submit(server, "ann", **base, name="stopped")
        server.wait_state(stopped, "running")
        server.client.cancel(stopped)
        server.client.wait(stopped)
        held = submit(server, "ann", **base, name="held")
        server.client.hold(held)
        titles = [
            f"Job {good} (good) has succeeded",
            f"Job {bad} (bad) has failed",
            f"Job {stopped} (stopped) was cancelled by admin",
            f"Job {held} (held) is held by admin",
        ]
        until(lambda: [one.title for one in reversed(server.client.notice_log("ann").items)] == titles)
        failed = next(one for one in server.client.notice_log("ann").items if one.job == bad)
        assert failed.text == "Failed: exit code 3 (replica 0 of role main exited with 3)."


def test_a_share_that_becomes_0_is_told_once(tmp_path: Path, web: Hook) -> None:
    with serving(tmp_path, web) as server:
        person(server, "ann", "--webhook", f"{web.url}/ann", "--kinds", "held")
        submit(server, "admin", **{**CHARGED, "min_runtime": "1h"})
        waiting = submit(server, "ann", budget="lab/language", gpus=4, replicas=2, min_runtime="1m")
        other = submit(server, "ann", budget="lab", gpus=4, replicas=2, min_runtime="1m")
        budgets = tmp_path / "budgets.toml"
        budgets.write_text(budgets.read_text().replace("share = 0.5", "share = 0"))
        server.cli("apply", "--yes")
        web.wait(lambda: len(web.good("/ann")) == 1)
        budgets.write_text(budgets.read_text().replace("share = 0.25", "share = 0.3"))
        server.cli("apply", "--yes")
        server.client.hold(other)  # so that there is something that comes after
        web.wait(lambda: len(web.good("/ann")) == 2)
        titles = [one.title for one in reversed(server.client.notice_log("ann").items)]
        assert titles == [
            f"Job {waiting} (sleep) is held: its budget has no share any more",
            f"Job {other} (sleep) is held by admin",
        ]


def test_the_scheduler_does_not_wait_for_whoever_hangs(tmp_path: Path, web: Hook) -> None:
    web.answers["/ann"] = [web.hang]
    with serving(tmp_path, web) as server:
        person(server, "ann", "--webhook", f"{web.url}/ann")
        first = submit(server, "ann", budget="lab/language", gpus=1, command=["true"])
        web.wait(lambda: web.hanging == 1)
        assert server.client.wait(first, timeout_s=30).state == "succeeded"
        for _ in range(5):
            job = submit(server, "ann", budget="lab/language", gpus=1, command=["true"])
            assert server.client.wait(job, timeout_s=30).state == "succeeded"
        assert web.hanging == 1 and not web.got  # nothing was delivered in all that time
        assert server.client.notice_log("ann").items[-1].state == "waiting"


def test_nobody_is_told_anything_who_did_not_ask(tmp_path: Path, web: Hook) -> None:
    with serving(tmp_path, web) as server:
        token = person(server, "ann")
        server.client.wait(submit(server, "ann", budget="lab/language", gpus=1, command=["false"]))
        server.cli("notice", "set", "--webhook", f"{web.url}/ann", token=token)
        done = submit(server, "ann", budget="lab/language", gpus=1, command=["true"])
        web.wait(lambda: "ended" in [kind for got in web.good("/ann") for kind in got.kinds])
        assert {one.job for one in server.client.notice_log("ann").items} == {done}


def test_the_operator_may_have_everybody_told_the_least(tmp_path: Path, web: Hook) -> None:
    more = SETTINGS.replace("[notice]\n", '[notice]\ndefault_domain = "lab.example"\n')
    with mail_server() as post:
        server = TestServer(tmp_path, policy=more.format(hooks=web.port, mail=post.port))
        server.start()
        try:
            person(server, "ann")
            assert "by default" in server.cli("notice", "show", "--user", "ann").stdout
            bad = submit(server, "ann", budget="lab/language", gpus=1, command=["false"])
            post.wait(lambda: len(post.got) == 1)
            assert post.to == [["ann@lab.example"]]
            assert post.got[0]["Subject"] == f"Job {bad} (false) has failed"
            server.cli("notice", "set", "--email", "", "--user", "ann")
            server.client.wait(submit(server, "ann", budget="lab/language", gpus=1, command=["false"]))
            worse = submit(server, "bob", budget="lab/language", gpus=1, command=["false"])
            post.wait(lambda: len(post.got) == 2)
            assert post.got[1]["Subject"] == f"Job {worse} (false) has failed"
        finally:
            server.end()


def test_the_command_line_sets_tests_and_lists(tmp_path: Path, web: Hook) -> None:
    with serving(tmp_path, web) as server:
        token = person(server, "ann")
        assert "webhook     none" in server.cli("notice", "show", token=token).stdout
        done = server.cli("notice", "test", token=token, code=None)
        assert done.returncode and "tenure notice set --webhook" in done.stderr
        server.cli("notice", "set", "--webhook", f"{web.url}/services/T0/B0/very-secret", token=token)
        options = ["--digest", "1h", "--quiet", "22:00-07:00", "--zone", "Europe/Berlin", "--kinds", "all"]
        said = server.cli("notice", "set", *options, "--through", "", token=token).stdout
        assert "quiet       22:00-07:00 in Europe/Berlin" in said and "digest      1h" in said
        assert "at once     nothing" in said and "exposed" in said and "secret" not in said
        assert server.cli("notice", "test", token=token).stdout == "webhook: sent\n"
        log = json.loads(server.cli("notice", "log", "--json", token=token).stdout)
        assert [(one["kind"], one["state"]) for one in log] == [("test", "sent")]
        again = server.cli("notice", "test", token=token, code=None)
        assert again.returncode and "less than a minute ago" in again.stderr
        web.answers["/services/T0/B0/very-secret"] = [410]
        eve = person(server, "eve", "--webhook", f"{web.url}/services/T0/B0/very-secret")
        failed = server.cli("notice", "test", token=eve, code=None)
        assert failed.returncode and "webhook: failed: answered 410" in failed.stdout
        shown = server.cli("notice", "log", token=token).stdout + server.cli("audit").stdout
        shown += server.cli("notice", "show", "--json", token=token).stdout
        assert "A test, asked for by ann" in shown and "very-secret" not in shown
        assert "notice changed" in shown and "very-secret" not in (tmp_path / "server.log").read_text()
        metrics = server.client.metrics()
        assert 'tenure_notices_delivered_total{channel="webhook"} 1.0' in metrics
        assert 'tenure_notices_failed_total{channel="webhook"} 1.0' in metrics
        assert server.cli("notice", "set", token=token, code=None).returncode
        other = person(server, "bob")
        assert server.cli("notice", "show", "--user", "ann", token=other, code=None).returncode
