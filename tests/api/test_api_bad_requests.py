"""Malformed submissions, by hand: each answer names the field and the value, says what would work, and is no fault."""

from __future__ import annotations

import json
from typing import Any

import pytest
from api_kit import Api

JSON = {"Content-Type": "application/json"}
GOOD: dict[str, Any] = {"budget": "lab/language", "command": ["true"]}
ROLE: dict[str, Any] = {"name": "a", "command": ["true"]}


def with_(**more: Any) -> dict[str, Any]:
    return {**GOOD, **more}


def without(field: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != field}


CASES: list[tuple[dict[str, Any], str, str]] = [
    # body, the field that is named, a part of what would work
    ({}, "budget", "add it"),
    (without("budget"), "budget", "lab/language"),
    (without("command"), "command", "say what to run"),
    (with_(budget=""), "budget", "empty"),
    (with_(budget=5), "budget", "text"),
    (with_(budget=None), "budget", "text"),
    (with_(budget=["lab"]), "budget", "text"),
    (with_(budget="lab/langage"), "budget", "did you mean lab/language?"),
    (with_(budget="lab/language/self"), "budget", "name lab/language"),
    (with_(budget="lab/none"), "budget", "min_runtime 0"),
    (with_(budget="lab/vision"), "budget", "not a member"),
    (with_(budget="lab\u0000"), "budget", "control characters"),
    (with_(budget="\ud800"), "budget", "control characters"),
    (with_(budget="x" * 5000), "budget", ""),
    (with_(command=[]), "command", "at least one"),
    (with_(command="true"), "command", "list"),
    (with_(command=[1]), "command[0]", "text"),
    (with_(command=["a\u0000b"]), "command[0]", "no process"),
    (with_(command=[""]), "command", "say what to run"),
    (with_(name="a\u009b2J"), "name", "control characters"),
    (with_(name="a\u202eb"), "name", "control characters"),
    (with_(command={"0": "true"}), "command", "list"),
    (with_(gpus="8"), "gpus", "whole number"),
    (with_(gpus=0.5), "gpus", "whole number"),
    (with_(gpus=True), "gpus", "whole number"),
    (with_(gpus=-1), "gpus", "greater"),
    (with_(gpus=0), "gpus", "at least one GPU"),
    (with_(gpus=9), "gpus", "replicas"),
    (with_(gpus=10**30), "gpus", ""),
    (with_(gpus=17), "gpus", "16"),
    (with_(gpus=8, replicas=3), "gpus", "16"),
    (with_(replicas=0), "replicas", "greater"),
    (with_(replicas="two"), "replicas", "whole number"),
    (with_(replicas=10**6), "replicas", "less"),
    (with_(cpus="many"), "cpus", "4 or 0.5"),
    (with_(cpus=True), "cpus", "number"),
    (with_(cpus=0.0001), "cpus", "decimals"),
    (with_(cpus="0.0001"), "cpus", "decimals"),
    (with_(cpus=-1), "cpus", "number"),
    (with_(cpus=1000), "cpus", "largest"),
    (with_(cpus=10**10), "cpus", "at most"),
    (with_(memory="64"), "memory", "64M or 64G"),
    (with_(memory=64), "memory", "64G"),
    (with_(memory="lots"), "memory", "64G"),
    (with_(memory="2T"), "memory", "largest"),
    (with_(memory="1G", memory_mib=1), "memory_mib", "once"),
    (with_(memory_mib=-1), "memory_mib", "greater"),
    (with_(min_runtime="15"), "min_runtime", "15m"),
    (with_(min_runtime=900), "min_runtime", "2h30m"),
    (with_(min_runtime="soon"), "min_runtime", "2h30m"),
    (with_(min_runtime="-5m"), "min_runtime", "negative"),
    (with_(min_runtime="1m"), "min_runtime", "at least 5m"),
    (with_(min_runtime="9h"), "min_runtime", "at most 8h"),
    (with_(min_runtime="2h", timeout="1h"), "min_runtime", "timeout"),
    (with_(min_runtime="2h", min_runtime_ms=7_200_000), "min_runtime_ms", "once"),
    (with_(min_runtime_ms="2h"), "min_runtime_ms", "whole number"),
    (with_(min_runtime_ms=-1), "min_runtime_ms", "greater"),
    (with_(min_runtime_ms=10**20), "min_runtime_ms", ""),
    (with_(timeout="0"), "timeout", "more than 0"),
    (with_(timeout="1:30"), "timeout", "1h30m"),
    (with_(timeout_ms=2.5), "timeout_ms", "whole number"),
    (with_(grace="1h"), "grace", "at most 5m"),
    (with_(grace="forever"), "grace", "2h30m"),
    (with_(resumable="yes"), "resumable", "true or false"),
    (with_(resumable=1), "resumable", "true or false"),
    (with_(priority="high"), "priority", "whole number"),
    (with_(priority=10**9), "priority", "less"),
    (with_(retries=-1), "retries", "greater"),
    (with_(clusters=[]), "clusters", ""),
    (with_(clusters="main"), "clusters", "list"),
    (with_(clusters=["mian"]), "clusters", "did you mean main?"),
    (with_(clusters=["main", "mian"]), "clusters", "did you mean main?"),
    (with_(labels=[{"key": "rack", "value": "r9", "required": True}]), "labels", "r1"),
    (with_(labels=[{"key": "rak", "required": True}]), "labels", "rack"),
    (with_(labels=[{"value": "r1"}]), "labels[0].key", "add it"),
    (with_(labels=[{"key": "rack", "must": True}]), "labels[0].must", "no such field"),
    (with_(labels={"rack": "r1"}), "labels", "list"),
    (with_(env=["A=1"]), "env", "object"),
    (with_(env={"A": 1}), "env.A", "text"),
    (with_(env={"A=B": "1"}), "env", "no ="),
    (with_(env={"": "1"}), 'env.""', ""),
    (with_(env={"A": "\u0000"}), "env.A", "no process"),
    (with_(workdir="here"), "workdir", "from / on"),
    (with_(launch="mpi"), "launch", "per-gpu"),
    (with_(warn_signal="SIGKILL"), "warn_signal", "SIGUSR1"),
    (with_(warn_signal=15), "warn_signal", "SIGTERM"),
    (with_(hold="yes"), "hold", "true or false"),
    (with_(client_key=""), "client_key", ""),
    (with_(user="bob"), "user", "administrators"),
    (with_(gpu=8), "gpu", "did you mean gpus?"),
    (with_(minruntime="2h"), "minruntime", "did you mean min_runtime"),
    (with_(nonsense=1), "nonsense", "leave it out"),
    ({"budget": "lab/language", "roles": []}, "roles", ""),
    ({"budget": "lab/language", "roles": [{}]}, "roles[0].command", "add it"),
    ({"budget": "lab/language", "roles": ["true"]}, "roles[0]", "object"),
    ({"budget": "lab/language", "roles": [ROLE, ROLE]}, "roles[1].name", "of its own"),
    ({"budget": "lab/language", "gpus": 2, "roles": [ROLE]}, "gpus", "each of them"),
    ({"budget": "lab/language", "roles": [{**ROLE, "gpus": 9}]}, "roles[0].gpus", "largest"),
    ({"budget": "lab/language", "roles": [{**ROLE, "memory": "2T"}]}, "roles[0].memory", "largest"),
    ({"budget": "lab/language", "roles": [{**ROLE, "cpus": "x"}]}, "roles[0].cpus", "number"),
    ({"budget": "lab/small", "command": ["true"], "gpus": 8, "replicas": 2, "clusters": ["small"]}, "gpus", "8 GPUs"),
]


@pytest.mark.parametrize(("body", "field", "fix"), CASES, ids=[f"{i}-{case[1]}" for i, case in enumerate(CASES)])
def test_a_bad_submission_says_what_is_wrong_and_what_would_work(
    shared: Api, body: dict[str, Any], field: str, fix: str
) -> None:
    answer = shared.call("POST", "/v1/jobs", user="ann", content=json.dumps(body), headers=JSON)
    problem = answer.json()
    assert 400 <= answer.status_code < 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["status"] == answer.status_code and problem["title"] and problem["type"].startswith("urn:tenure:")
    named = [error for error in problem["errors"] if error["field"] == field]
    assert named, f"{field} is not named in {problem['errors']}"
    assert named[0]["value"] and named[0]["fix"] and fix in named[0]["fix"]
    assert problem["detail"]


def test_nothing_of_all_that_was_accepted(shared: Api) -> None:
    assert shared.get("/v1/jobs", params={"all": True})["items"] == []


RAW: list[tuple[bytes, int]] = [
    (b"", 422),
    (b"{", 400),
    (b'{"budget": "lab/language", "command": ["true"]', 400),
    (b"null", 422),
    (b"[]", 422),
    (b'"text"', 422),
    (b"\xff\xfe", 400),
    (b"[" * 100_000, 400),
    (b'{"budget": ' + b"[" * 500 + b"]" * 500 + b"}", 422),
    (b'{"gpus": ' + b"9" * 5000 + b"}", 400),
    (b'{"budget": "lab/language", "command": ["true"], "gpus": NaN}', 422),
    (b'{"budget": "lab/language", "command": ["true"], "priority": Infinity}', 422),
    (b'{"budget": "lab/language", "command": ["true"], "budget": "x"}', 422),
]


@pytest.mark.parametrize(("body", "status"), RAW, ids=[str(i) for i in range(len(RAW))])
def test_bodies_that_are_no_submission(shared: Api, body: bytes, status: int) -> None:
    answer = shared.call("POST", "/v1/jobs", user="ann", content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["errors"] and all(e["field"] and e["value"] and e["fix"] for e in problem["errors"])


def test_json_that_does_not_say_so_is_told(shared: Api) -> None:
    answer = shared.call("POST", "/v1/jobs", content=json.dumps(GOOD), headers={"Content-Type": "text/plain"})
    assert answer.status_code == 422 and "application/json" in answer.json()["errors"][0]["fix"]


def test_a_body_above_the_limit_is_refused_before_it_is_read(shared: Api) -> None:
    big = {"budget": "lab/language", "command": ["true"], "env": {"A": "x" * (1 << 20)}}
    answer = shared.call("POST", "/v1/jobs", json=big)
    assert answer.status_code == 413 and answer.headers["content-type"] == "application/problem+json"
    streamed = shared.call("POST", "/v1/jobs", content=(b" " * 65_536 for _ in range(20)))
    assert streamed.status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("GET", "/", 404),
        ("DELETE", "/v1/jobs", 405),
        ("GET", "/v1/jobs/12345", 404),
        ("GET", "/v1/jobs/0", 422),
        ("GET", "/v1/jobs/-1", 422),
        ("GET", "/v1/jobs/abc", 422),
        ("GET", f"/v1/jobs/{2**63}", 422),
        ("GET", f"/v1/jobs/{2**63 - 1}", 404),
        ("GET", "/v1/jobs?state=sleeping", 422),
        ("GET", "/v1/jobs?limit=0", 422),
        ("GET", "/v1/jobs?limit=1001", 422),
        ("GET", "/v1/jobs?after=-1", 422),
        ("GET", "/v1/jobs?since=yesterday", 422),
        ("GET", "/v1/jobs?user=%00", 422),
        ("GET", "/v1/jobs?budget=%ff", 200),
        ("GET", "/v1/budgets?cluster=mian", 404),
        ("GET", "/v1/hosts?cluster=%00", 422),
        ("GET", "/v1/decisions?wait_ms=30001", 422),
        ("GET", "/v1/jobs/1/logs?stream=stdin", 422),
        ("GET", "/v1/audit?since=x", 422),
        ("DELETE", "/v1/tokens/999", 404),
    ],
)
def test_bad_addresses_and_parameters(shared: Api, method: str, path: str, status: int) -> None:
    answer = shared.call(method, path)
    assert answer.status_code == status, answer.text
    if status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]


def test_a_fault_of_ours_is_a_problem_with_an_id(shared: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: Any, **_more: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(shared.engine.store, "list_users", broken)
    answer = shared.call("GET", "/v1/users")
    assert answer.status_code == 500 and answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["id"] in answer.json()["detail"]
    assert "a bug" not in answer.text


def test_a_stopped_engine_is_not_available_and_says_when_to_try_again(api: Api) -> None:
    api.engine.stop()
    answer = api.call("POST", "/v1/pause", json={"scope": "starts"})
    assert answer.status_code == 503 and answer.headers["retry-after"] == "2"
    assert answer.json()["type"] == "urn:tenure:unavailable"


def test_a_failed_engine_is_not_healthy(shared: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared.engine, "failure", RuntimeError("a bug"))
    answer = shared.call("GET", "/healthz", user=None)
    assert answer.status_code == 503 and "restarted" in answer.json()["detail"]
