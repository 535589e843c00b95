"""Who may do what."""

from __future__ import annotations

from typing import Any

import pytest
from api_kit import Api

WHY = {"why": "test"}
FILES = {"clusters": {"name": "a", "text": ""}, "budgets": {"name": "b", "text": ""}}

READS = [
    "/v1/jobs",
    "/v1/budgets",
    "/v1/budgets/lab/balance",
    "/v1/hosts",
    "/v1/status",
    "/v1/decisions",
    "/v1/evictions",
    "/v1/changes",
    "/v1/me",
    "/v1/tokens",
]
ADMIN: list[tuple[str, str, Any]] = [
    ("POST", "/v1/hosts/main/n1/drain", WHY),
    ("POST", "/v1/hosts/main/n1/resume", WHY),
    ("POST", "/v1/hosts/main/n1/fail", WHY),
    ("POST", "/v1/pause", {"scope": "starts"}),
    ("POST", "/v1/resume", {"scope": "starts"}),
    ("POST", "/v1/apply", FILES),
    ("POST", "/v1/jobs/{job}/evict", WHY),
    ("GET", "/v1/config", None),
    ("GET", "/v1/audit", None),
    ("GET", "/v1/users", None),
    ("POST", "/v1/users", {"name": "eve"}),
    ("PATCH", "/v1/users/bob", {"role": "admin"}),
    ("POST", "/v1/users/root/tokens", {}),
    ("GET", "/v1/tokens?of=root", None),
]
ON_A_JOB: list[tuple[str, str, Any]] = [
    ("PATCH", "", {"priority": 1}),
    ("POST", "/hold", None),
    ("POST", "/release", None),
    ("POST", "/cancel", None),
]


@pytest.fixture
def job(shared: Api) -> int:
    """A held job of ann's in lab/language."""
    number: int = shared.submit(user="ann", hold=True)["id"]
    return number


@pytest.mark.parametrize("path", READS)
def test_everybody_with_a_token_reads(shared: Api, path: str) -> None:
    shared.get(path, user="bob")
    for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic eDp5"}, {"Authorization": ""}):
        answer = shared.call("GET", path, user=None, headers=headers)
        assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(("method", "path", "body"), ADMIN, ids=[f"{m} {p}" for m, p, _ in ADMIN])
def test_what_only_administrators_may(shared: Api, job: int, method: str, path: str, body: Any) -> None:
    for user in ("ann", "grace"):
        answer = shared.call(method, path.format(job=job), user=user, json=body)
        assert answer.status_code == 403, answer.text
    assert shared.call(method, path.format(job=job), user=None, json=body).status_code == 401


@pytest.mark.parametrize(("method", "path", "body"), ON_A_JOB, ids=[p or m for m, p, _ in ON_A_JOB])
def test_jobs_are_changed_by_their_owner_a_manager_above_and_administrators(
    shared: Api, job: int, method: str, path: str, body: Any
) -> None:
    for user, status in (("bob", 403), ("alan", 403), (None, 401)):
        answer = shared.call(method, f"/v1/jobs/{job}{path}", user=user, json=body)
        assert answer.status_code == status, answer.text
    for user in ("ann", "grace", "ada", "root"):
        number = shared.submit(user="ann", hold=True)["id"]
        answer = shared.call(method, f"/v1/jobs/{number}{path}", user=user, json=body)
        assert answer.status_code == 200, answer.text


def test_the_owner_cannot_release_what_a_manager_holds(shared: Api) -> None:
    number = shared.submit(user="ann", hold=True)["id"]
    shared.post(f"/v1/jobs/{number}/hold", user="grace")
    assert shared.call("POST", f"/v1/jobs/{number}/release", user="ann").status_code == 403
    shared.post(f"/v1/jobs/{number}/release", user="ada")


def test_users_and_tokens(api: Api) -> None:
    api.post("/v1/users", {"name": "eve"}, code=201)
    assert api.call("POST", "/v1/users", json={"name": "eve"}).status_code == 409
    assert api.call("POST", "/v1/users", json={"name": "a/b"}).status_code == 422
    api.tokens["eve"] = api.post("/v1/users/eve/tokens", {"label": "laptop"}, code=201)["token"]
    assert api.get("/v1/me", user="eve")["role"] == "user"
    token = api.get("/v1/tokens", user="eve")["items"][0]
    assert token["label"] == "laptop" and "token" not in token
    assert api.call("DELETE", f"/v1/tokens/{token['id']}", user="bob").status_code == 404
    assert api.call("DELETE", f"/v1/tokens/{token['id']}", user="eve").status_code == 204
    assert api.call("GET", "/v1/me", user="eve").status_code == 401


def test_a_disabled_user_is_out_and_a_promoted_one_may_more(api: Api) -> None:
    assert api.call("PATCH", "/v1/users/bob", json={"role": "admin"}).json()["role"] == "admin"
    api.get("/v1/users", user="bob")
    assert api.call("PATCH", "/v1/users/root", json={"disabled": True}).status_code == 409
    assert api.call("PATCH", "/v1/users/root", user="bob", json={"disabled": True}).json()["disabled"]
    assert api.call("GET", "/v1/me").status_code == 401
    assert api.call("PATCH", "/v1/users/nobody", user="bob", json={}).status_code == 404


def test_a_token_ends_when_it_was_to_end(api: Api) -> None:
    past = api.call("POST", "/v1/users/ann/tokens", json={"expires_at": "2001-01-01T00:00:00Z"})
    assert past.status_code == 422 and past.json()["errors"][0]["field"] == "expires_at"
    made = api.post("/v1/users/ann/tokens", {"expires_at": "2999-01-01T00:00:00Z"}, code=201)
    assert made["token"].startswith("tnr_")
    assert api.get("/v1/tokens", user="ann")["items"][-1]["expires_at"] == "2999-01-01T00:00:00Z"


def test_health_and_metrics_need_no_token(shared: Api) -> None:
    assert shared.call("GET", "/healthz", user=None).json()["status"] == "ok"
    assert shared.call("GET", "/metrics", user=None).status_code == 200
