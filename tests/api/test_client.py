"""The client: how it finds its server, what it tries again, and that it has every request of the API."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from api_kit import Api

import tenure
from tenure.api.address import find_server
from tenure.client import Client, TenureError, Unreachable

PROBLEM = {"type": "urn:tenure:x", "title": "t", "status": 422, "detail": "no"}


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory below nothing that names a server."""
    for name in ("TENURE_URL", "TENURE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    here = tmp_path / "project" / "deep"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    return tmp_path


def write(path: Path, url: str, token: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(f'url = "{url}"\ntoken = "{token}"\n')


def test_where_the_server_is_looked_for(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unreachable, match="tenure serve"):
        find_server()
    write(nowhere / "project" / ".tenure" / "client.toml", "http://nearest:1/", "t1")
    assert (find_server().url, find_server().token) == ("http://nearest:1", "t1")
    write(nowhere / "config" / "tenure" / "client.toml", "http://mine:2", "t2")
    assert find_server().url == "http://mine:2"
    monkeypatch.setenv("TENURE_URL", "http://env:3")
    monkeypatch.setenv("TENURE_TOKEN", "t3")
    assert (find_server().url, find_server().token) == ("http://env:3", "t3")
    assert find_server("http://given:4", "t4").url == "http://given:4"


def test_a_token_from_a_file_goes_to_its_own_server_only(nowhere: Path) -> None:
    write(nowhere / "project" / ".tenure" / "client.toml", "http://mine:1", "secret")
    assert find_server("http://mine:1/").token == "secret"
    with pytest.raises(Unreachable, match="no token for http://other:1"):
        find_server("http://other:1")


def test_a_broken_client_file_is_named(nowhere: Path) -> None:
    path = nowhere / "project" / ".tenure" / "client.toml"
    path.parent.mkdir()
    path.write_text("url = 5\n[")
    with pytest.raises(Unreachable, match=re.escape(str(path))):
        find_server()


def client_of(answer: Callable[[httpx.Request], httpx.Response], patience_s: float = 5) -> Client:
    return Client("http://server", "t", patience_s=patience_s, transport=httpx.MockTransport(answer))


def failing(error: type[Exception], times: int, seen: list[httpx.Request]) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if len(seen) <= times:
            raise error("broken")
        return httpx.Response(200, json={"seq": 7})

    return answer


def test_reads_are_tried_again_until_patience_is_over() -> None:
    seen: list[httpx.Request] = []
    assert client_of(failing(httpx.ReadError, 2, seen)).changes(0) == 7
    assert len(seen) == 3
    with pytest.raises(Unreachable, match="tenure serve"):
        client_of(failing(httpx.ConnectError, 99, []), patience_s=0).changes(0)


def test_an_action_is_sent_again_only_when_it_was_never_sent() -> None:
    seen: list[httpx.Request] = []
    with pytest.raises(Unreachable):
        client_of(failing(httpx.ReadError, 1, seen)).pause()
    assert len(seen) == 1
    refused: list[httpx.Request] = []
    with pytest.raises(Unreachable, match="does not answer as this version"):  # the answer is no status
        client_of(failing(httpx.ConnectError, 1, refused)).pause()
    assert len(refused) == 2


def test_a_submission_is_tried_again_under_one_key() -> None:
    seen: list[httpx.Request] = []
    with pytest.raises(Unreachable, match="does not answer as this version"):
        client_of(failing(httpx.ReadError, 1, seen)).submit({"budget": "lab", "command": ["true"]})
    keys = {json.loads(request.content)["client_key"] for request in seen}
    assert len(seen) == 2 and len(keys) == 1 and all(keys)


def test_a_cancellation_is_sent_again() -> None:
    """Once more does nothing (test_cancelling_once_more_does_nothing)."""
    for cancel in (lambda client: client.cancel(1), lambda client: client.cancel_array(1)):
        seen: list[httpx.Request] = []
        with pytest.raises(Unreachable, match="does not answer as this version"):
            cancel(client_of(failing(httpx.ReadError, 1, seen)))
        assert len(seen) == 2


def test_a_server_that_is_stopping_is_asked_again() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return (
            httpx.Response(503, json={**PROBLEM, "status": 503}) if len(seen) == 1 else httpx.Response(200, text="ok")
        )

    assert client_of(answer).metrics() == "ok"


def test_problems_are_raised_with_all_they_say() -> None:
    errors = [{"field": "budget", "value": "x", "fix": "y"}]
    with pytest.raises(TenureError, match="no") as raised:
        client_of(lambda _: httpx.Response(422, json={**PROBLEM, "errors": errors})).pause()
    assert raised.value.status == 422 and raised.value.problem.errors[0].fix == "y"
    with pytest.raises(Unreachable, match="is it the right address"):
        client_of(lambda _: httpx.Response(404, text="<html>")).pause()
    with pytest.raises(Unreachable, match="http://host:port"):
        Client("server:1", "t").status()


def test_every_request_of_the_api_has_a_method(shared: Api) -> None:
    """Each method is called once; together they reach every path that the API describes."""
    called: set[tuple[str, str]] = set()
    client = tenure.Client(str(shared.http.base_url), shared.tokens["root"])
    with client:
        client._http.event_hooks["request"] = [lambda r: called.add((r.method, r.url.path))]
        client.add_user("eve")
        client.change_user("eve", role="admin")
        client.add_token("eve", "x")
        client.revoke_token(client.tokens("eve")[0].id)
        client.set_notice("eve", {"webhook": "https://hooks.example.com/x"})
        assert client.notice("eve").webhook and client.test_notice("eve") and client.notice_log("eve").items
        client.users()
        assert client.me().name == "root"
        job = client.submit({"budget": "lab/language", "command": ["true"], "hold": True}).job.id
        array = client.submit({"budget": "lab/language", "command": ["true"], "array": "0-2", "hold": True}).array
        assert array is not None and client.array(array.id).states == {"queued": 3}
        client.release_array(array.id, "1")
        client.hold_array(array.id)
        assert client.cancel_array(array.id).count == 3
        client.set_priority(job, 3)
        client.release(job)
        shared.reach(job, "running")
        client.checkpoint(job)
        assert client.why(job).running is not None and client.eta(job).estimate is None
        assert client.plan({"budget": "lab/language", "command": ["true"]}).jobs == 1
        client.hold(job)
        assert next(client.jobs(limit=1)).id == job and client.job(job).priority == 3
        assert client.logs(job).attempt == 1
        with pytest.raises(TimeoutError):
            client.wait(job, timeout_s=0)
        client.evict(job, "test")
        assert client.wait(job).state == "preempted"
        with pytest.raises(TenureError):
            client.cancel(job)
        for action in (client.drain, client.fail_host, client.resume_host):
            action("main", "n1", "test")
        client.pause()
        client.resume()
        config = client.config()
        files = (config.clusters.name, config.clusters.text), (config.budgets.name, config.budgets.text)
        assert not client.apply(*files, dry_run=True).applied
        assert client.balance("lab").path == "lab"
        assert len(client.budgets()) > 3 and len(client.hosts()) == 4 and client.status().seq > 0
        assert client.decisions(0).items and client.evictions().items and client.audit()
        client.changes(0)
        client.metrics()
    described = shared.app.openapi()["paths"]
    for path, operations in described.items():
        pattern = re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path))
        for method in operations:
            if path != "/healthz":
                assert any(m == method.upper() and pattern.fullmatch(p) for m, p in called), f"{method} {path}"
