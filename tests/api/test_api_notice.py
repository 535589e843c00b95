"""How people are told: who may see and change it, what is refused, and what is never shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from api_kit import Api, serving

from tenure.api.notice_models import ToldView
from tenure.api.requests import NoticeRequest
from tenure.cli.notice import _became
from tenure.core.model import HOUR, MINUTE
from tenure.engine.clock import Clock, wall_ms
from tenure.store import NoticeRow
from tenure.units import parse_time

HOOK = "https://hooks.example.com/services/T0/B0/very-secret"


def older_test(minutes: int, **more: Any) -> NoticeRow:
    """To ann by her webhook, so long ago."""
    at = wall_ms() - minutes * MINUTE
    row = NoticeRow(f"test:{minutes}", 0, at, "ann", "webhook", "test", 0, "A test", "", "{}", "sent", at)
    return replace(row, **more)


def change(api: Api, user: str, of: str | None = None, code: int = 200, **body: Any) -> Any:
    answer = api.call("PATCH", f"/v1/users/{of or user}/notice", user=user, json=body)
    assert answer.status_code == code, answer.text
    return answer.json()


def test_by_default_nobody_is_told_anything(api: Api) -> None:
    view = api.get("/v1/users/ann/notice", user="ann")
    assert (view["email"], view["webhook"], view["by_default"]) == ("", "", True)
    assert "exposed" not in view["kinds"] and "preempted" in view["kinds"]
    assert view["through"] == ["will_be_preempted"] and view["quiet"] == "" and view["digest_ms"] == 0


def test_a_secret_is_shown_once(api: Api) -> None:
    made = change(api, "ann", webhook=HOOK)
    assert made["secret"].startswith("tnw_") and made["webhook"] == "https://hooks.example.com/..."
    assert change(api, "ann", digest="1h")["secret"] is None
    assert api.get("/v1/users/ann/notice", user="ann")["secret"] is None
    assert change(api, "ann", webhook=HOOK)["secret"] is None  # the same address: the same secret
    again = change(api, "ann", new_secret=True)["secret"]
    assert again and again != made["secret"]
    assert change(api, "bob", webhook=HOOK)["secret"] not in (again, made["secret"])
    kept = json.dumps([api.get("/v1/audit"), api.get("/v1/users/ann/notice"), api.get("/v1/users/ann/notice/log")])
    assert "very-secret" not in kept and again not in kept
    assert api.get("/v1/audit")["items"][0]["action"] == "notice changed"


def test_what_is_not_named_stays(api: Api) -> None:
    change(api, "ann", webhook=HOOK, kinds=["failed", "preempted"], quiet="22:00-07:00", zone="Europe/Berlin")
    view = change(api, "ann", digest="1d")
    assert view["kinds"] == ["preempted", "failed"] and view["digest_ms"] == 86_400_000
    assert (view["quiet"], view["zone"]) == ("22:00-07:00", "Europe/Berlin")
    view = change(api, "ann", webhook="", quiet="", through=[])
    assert (view["webhook"], view["quiet"], view["through"]) == ("", "", [])


@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_others_are_none_of_ones_business(api: Api, method: str) -> None:
    for path in ("", "/log") if method == "GET" else ("",):
        body = None if method == "GET" else {"digest": "1h"}
        answer = api.call(method, f"/v1/users/ann/notice{path}", user="bob", json=body)
        assert answer.status_code == 403 and "only administrators" in answer.json()["detail"]
    assert api.call("POST", "/v1/users/ann/notice/test", user="bob").status_code == 403
    assert change(api, "root", "ann", digest="1h")["digest_ms"] == 3_600_000
    assert api.call("GET", "/v1/users/nobody/notice").status_code == 404


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("webhook", "http://hooks.example.com/very-secret", "use https"),
        ("webhook", "https://127.0.0.1/very-secret", "full host name"),
        ("webhook", "https://169.254.169.254/very-secret", "full host name"),
        ("webhook", "https://a:b@hooks.example.com/very-secret", "no user"),
        ("webhook", "nonsense", "https://hooks.example.com/path"),
        ("webhook", "https://a..example.com/very-secret", "1 to 63 letters"),
        ("webhook", f"https://{'a' * 64}.example.com/very-secret", "1 to 63 letters"),
        ("email", "ann@lab.example", "sends no mail"),
        ("email", "ann", "plain address"),
        ("kinds", ["fialed"], "known are started"),
        ("kinds", "failed", "write a list"),
        ("digest", "1s", "from 1m to 7d"),
        ("digest", "often", "2h30m"),
        ("quiet", "22-7", "22:00-07:00"),
        ("zone", "Berlin", "Europe/Berlin"),
        ("chanel", "x", "no such field"),
    ],
)
def test_what_is_refused_says_what_would_work(api: Api, field: str, value: object, words: str) -> None:
    problem = change(api, "ann", code=422, **{field: value})
    (error,) = problem["errors"]
    assert error["field"].partition("[")[0] == field and words in error["fix"], error
    assert "very-secret" not in json.dumps(problem)


def epoch(api: Api) -> int:
    return int(api.engine.store.meta("epoch") or 0)


def add(api: Api, key: str, *, at: int, due_at: int, channel: str = "webhook") -> int:
    row = NoticeRow(key, 1, at, "ann", channel, "failed", 1, key, "", "{}", "waiting", due_at)
    return api.engine.store.add_notices([row])[0]


def test_what_waits_is_told_by_the_new_quiet_hours_and_digest(api: Api) -> None:
    change(api, "ann", webhook=HOOK, quiet="22:00-07:00", digest="1h")
    at, morning = parse_time("2026-09-21T23:30:00Z"), parse_time("2026-09-22T07:00:00Z")
    add(api, "old", at=at, due_at=morning)
    add(api, "tried", at=at, due_at=at)
    (tried,) = api.engine.store.take_message(epoch(api), "ann", "webhook", at)
    assert tried.message is not None

    def due() -> dict[str, int]:
        items = api.get("/v1/users/ann/notice/log", user="ann")["items"]
        return {one["title"]: parse_time(one["due_at"]) for one in items}

    change(api, "ann", webhook=HOOK + "x")
    assert due() == {"old": morning, "tried": at}  # nothing that says when was changed
    change(api, "ann", quiet="")
    assert due() == {"old": parse_time("2026-09-22T00:00:00Z"), "tried": at}
    change(api, "ann", digest="0")
    assert due() == {"old": at, "tried": at}


def test_one_behind_another_that_is_tried_again_says_so(api: Api) -> None:
    change(api, "ann", webhook=HOOK)
    store, now = api.engine.store, api.engine.now()
    add(api, "first", at=now, due_at=now)
    (first,) = store.take_message(epoch(api), "ann", "webhook", now)
    store.put_off_message(str(first.message), now + HOUR, now, "it does not answer")
    add(api, "second", at=now, due_at=now)
    add(api, "mail", at=now, due_at=now, channel="email")
    items = api.get("/v1/users/ann/notice/log", user="ann")["items"]
    assert {one["title"]: one["behind"] for one in items} == {"first": False, "second": True, "mail": False}
    told = {item["title"]: _became(ToldView.model_validate(item)) for item in items}
    assert told["second"] == "waits behind the one before it" and "tried once" in told["first"]


def test_a_test_needs_somewhere_to_go_and_is_in_the_log(api: Api) -> None:
    assert api.call("POST", "/v1/users/ann/notice/test", user="ann").status_code == 409
    change(api, "ann", webhook=HOOK)
    (number,) = api.post("/v1/users/ann/notice/test", user="ann", code=202)["ids"]
    (entry,) = api.get("/v1/users/ann/notice/log", user="ann")["items"]
    assert (entry["id"], entry["kind"], entry["state"], entry["job"]) == (number, "test", "waiting", None)
    api.engine.store.add_notices([older_test(1), older_test(2)])
    first = api.get("/v1/users/ann/notice/log", user="ann", params={"limit": 2})
    rest = api.get("/v1/users/ann/notice/log", user="ann", params={"limit": 2, "after": first["next"]})
    assert [len(first["items"]), len(rest["items"]), rest["next"]] == [2, 1, None]


def test_tests_are_few(api: Api) -> None:
    """Without mail_domains anybody's address can be set."""
    change(api, "ann", webhook=HOOK)
    api.post("/v1/users/ann/notice/test", user="ann", code=202)
    for user in ("ann", "root"):
        answer = api.call("POST", "/v1/users/ann/notice/test", user=user)
        assert answer.status_code == 429 and 1 <= int(answer.headers["Retry-After"]) <= 60
        assert (answer.json()["type"], answer.json()["title"]) == ("urn:tenure:too-often", "Too often")
        assert answer.json()["detail"].startswith("ann was sent a test less than a minute ago: ask again in ")
    assert len(api.get("/v1/users/ann/notice/log", user="ann")["items"]) == 1
    change(api, "bob", webhook=HOOK)
    api.post("/v1/users/bob/notice/test", user="bob", code=202)


def test_there_is_no_second_test_while_one_is_on_its_way(api: Api) -> None:
    change(api, "ann", webhook=HOOK)
    api.engine.store.add_notices([older_test(2, state="waiting")])
    answer = api.call("POST", "/v1/users/ann/notice/test", user="ann")
    assert answer.status_code == 429 and "is still on its way" in answer.json()["detail"]


def test_what_is_kept_is_what_was_understood(api: Api) -> None:
    view = change(api, "ann", zone=" Europe/Berlin ", quiet=" 22:00-07:00\n", digest=" 1h ")
    assert (view["zone"], view["quiet"], view["digest_ms"]) == ("Europe/Berlin", "22:00-07:00", HOUR)
    row = api.engine.store.notice_person("ann")
    assert row is not None and (row.zone, row.quiet) == ("Europe/Berlin", "22:00-07:00")
    assert NoticeRequest(email="ann@lab.example\n").email == "ann@lab.example"


def test_who_asks_is_told_what_happens_from_then_on_by_engine_time(tmp_path: Path) -> None:
    def behind(*anchor: Any) -> Clock:
        return Clock(*anchor, wall=lambda: wall_ms() - HOUR)

    with serving(tmp_path, clock=behind) as api:
        change(api, "ann", webhook=HOOK)
        row = api.engine.store.notice_person("ann")
        assert row is not None and row.since < wall_ms() - HOUR // 2
