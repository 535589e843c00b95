"""The application over a real engine, with an executor that runs nothing: attempts are up at once and end when told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from tenure.api.app import create_app
from tenure.config import Config, parse
from tenure.core.model import Policy
from tenure.engine.clock import Clock
from tenure.engine.engine import Engine
from tenure.executors.base import DiscoveredHost, HostCondition, HostWish, Launch, Phase, Report, StopOrder
from tenure.store import Store

CLUSTERS = """
[clusters.main]
min_runtime_floor = "5m"
min_runtime_max = "8h"
default_min_runtime = "15m"
max_grace = "5m"
every_host = { gpus = 8, cpus = 64, memory = "512G" }
hosts = [
    { name = "n[1-2]", labels = { rack = "r1" } },
]

[clusters.small]
default_min_runtime = "30m"
default_resumable = true
gang_label = "rack"
every_host = { gpus = 4, cpus = 16, memory = "64G" }
hosts = [
    { name = "s[1-2]", labels = { rack = "r2" } },
]
"""
BUDGETS = """
[lab]
managers = ["ada"]

[lab.language]
share = 0.5
managers = ["grace"]

[lab.language.pretrain]
share = 0.7

[lab.vision]
share = 0.25
members = ["alan"]

[lab.none]
share = 0

[lab.small]
share = 0
cluster_shares = { small = 0.25 }
"""


class StillExecutor:
    """Attempts run as soon as they are started. ``finish`` ends one; a stop ends it by SIGTERM."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.reports: dict[str, Report] = {}
        self.launches: dict[str, Launch] = {}
        self.surroundings: list[HostCondition] = []
        self.wishes: list[HostWish] = []
        self._on_change: Callable[[], None] = lambda: None

    def open(self, epoch: int, on_change: Callable[[], None]) -> None:
        self._on_change = on_change

    def start(self, launch: Launch) -> None:
        if launch.attempt_id not in self.launches:
            self.launches[launch.attempt_id] = launch
            self.reports[launch.attempt_id] = Report(launch.attempt_id, Phase.RUNNING)
            self._on_change()

    def stop(self, order: StopOrder) -> None:
        self.finish(order.attempt_id, -15)

    def finish(self, attempt_id: str, code: int = 0) -> None:
        codes = tuple(code for _ in self.launches[attempt_id].replicas)
        self.reports[attempt_id] = Report(attempt_id, Phase.EXITED, exit_codes=codes)
        self._on_change()

    def poll(self) -> Sequence[Report]:
        return list(self.reports.values())

    def tidy(self, alive: Callable[[int], bool]) -> None:
        pass

    def forget(self, attempt_id: str) -> None:
        self.reports.pop(attempt_id, None)

    def log_path(self, attempt_id: str, node_rank: int, stream: str) -> str:
        return str(self.directory / f"{attempt_id}-{node_rank}.{stream}")

    def conditions(self) -> Sequence[HostCondition]:
        return self.surroundings

    def keep_out(self, wishes: Sequence[HostWish]) -> None:
        self.wishes = list(wishes)

    def discover(self) -> Sequence[DiscoveredHost]:
        return [DiscoveredHost("here", 0, 8000, 16_384)]

    def close(self) -> None:
        pass


class Api:
    """Requests as one of the users; ``admin`` by default."""

    def __init__(self, engine: Engine, executor: StillExecutor, app: FastAPI, http: httpx.Client) -> None:
        self.engine, self.executor, self.app, self.http = engine, executor, app, http
        self.tokens = {
            name: self._add(name, role)
            for name, role in {
                "root": "admin",
                "ann": "user",
                "bob": "user",
                "ada": "user",
                "grace": "user",
                "alan": "user",
            }.items()
        }

    def _add(self, name: str, role: str) -> str:
        self.engine.store.add_user(name, role, 1)
        return self.engine.store.create_token(name, "test", 1)

    def call(self, method: str, path: str, *, user: str | None = "root", **more: Any) -> httpx.Response:
        headers = dict(more.pop("headers", {}))
        if user is not None:
            headers["Authorization"] = f"Bearer {self.tokens[user]}"
        answer: httpx.Response = self.http.request(method, path, headers=headers, **more)
        return answer

    def get(self, path: str, *, user: str | None = "root", **more: Any) -> Any:
        answer = self.call("GET", path, user=user, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, *, user: str | None = "root", code: int = 200, **more: Any) -> Any:
        answer = self.call("POST", path, user=user, json=body, **more)
        assert answer.status_code == code, answer.text
        return answer.json()

    def submit(self, *, user: str = "ann", **more: Any) -> dict[str, Any]:
        """Submit a job and return its view."""
        body = {"budget": "lab/language", "command": ["true"], **more}
        done: dict[str, Any] = self.post("/v1/jobs", body, user=user, code=201)
        view: dict[str, Any] = done["job"]
        return view

    def reach(self, job: int, *states: str) -> dict[str, Any]:
        """Wait until the job is in one of ``states``."""
        while True:
            seq = self.engine.last_seq
            view: dict[str, Any] = self.get(f"/v1/jobs/{job}")
            if view["state"] in states:
                return view
            assert not view["ended"], view
            assert self.engine.wait_change(seq, 30) > seq, f"job {job} stays {view['state']}"


def config_of(clusters: str = CLUSTERS, budgets: str = BUDGETS) -> Config:
    return parse(clusters, budgets)


@contextmanager
def serving(directory: Path, policy: Policy | None = None, clock: Callable[..., Clock] = Clock) -> Iterator[Api]:
    """An engine with its application, configured, until the end of the block."""
    config = config_of()
    server = replace(config.server, data_dir=directory)
    config = replace(config, policy=policy or config.policy, server=server)
    executor = StillExecutor(directory)
    with Store.open(f"sqlite:///{directory / 'tenure.db'}") as store:
        engine = Engine(config, store, executor, clock)
        engine.start()
        try:
            engine.apply(config.clusters, config.policy, config.budgets, config.grants, by="test", dry_run=False)
            app = create_app(engine)
            with _listening(app) as url, httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
                yield Api(engine, executor, app, http)
        finally:
            engine.stop()


@contextmanager
def _listening(app: FastAPI) -> Iterator[str]:
    """The application behind a real socket; its address."""
    options = uvicorn.Config(app, port=0, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    bound = options.bind_socket()
    server = uvicorn.Server(options)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
