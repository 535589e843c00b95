"""Put a server together from its configuration file, and run it."""

from __future__ import annotations

import fcntl
import os
import socket
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import structlog

from tenure.config import Config, load, resolve
from tenure.core.model import DAY
from tenure.engine.clock import wall_ms
from tenure.engine.engine import Engine
from tenure.engine.errors import EngineStopped
from tenure.executors.base import Executor
from tenure.executors.local import LocalExecutor
from tenure.store.store import Store

log = structlog.get_logger()

ADMIN = "admin"
FAILED = 70
"""Exit status when the engine failed: a service manager should start the server again."""


class AlreadyRunning(Exception):
    """Another server uses this data directory."""


@dataclass(slots=True)
class Server:
    """A started engine with what it holds open."""

    engine: Engine
    config: Config
    resources: ExitStack

    def close(self) -> None:
        self.engine.stop()
        self.resources.close()


def executor_for(config: Config) -> Executor:
    """The executor that the configuration names."""
    return LocalExecutor(config.server.data_dir / "runs")


def build(config_path: Path) -> Server:
    """Read the configuration, open everything, recover, and start to schedule.

    The configuration of a new database is applied at once; later changes go through ``tenure apply``. Raises
    ConfigError, AlreadyRunning and StoreError.
    """
    config = load(config_path)
    data = config.server.data_dir
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with ExitStack() as stack:
        _lock(stack, data)
        executor = executor_for(config)
        config = resolve(config, executor.discover())
        store = stack.enter_context(Store.open(config.server.database_url))
        engine = Engine(config, store, executor)
        engine.start()
        try:
            _first_configuration(engine, config)
        except BaseException:
            engine.stop()
            raise
        return Server(engine, config, stack.pop_all())


def _lock(stack: ExitStack, data: Path) -> None:
    handle = stack.enter_context((data / "lock").open("a"))
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AlreadyRunning(f"a server is running on {data}; stop it first, or use another data_dir") from None


def _first_configuration(engine: Engine, config: Config) -> None:
    with engine.view() as state:
        configured = state.tree is not None
    change = engine.apply(
        config.clusters, config.policy, config.budgets, config.grants, by="tenure serve", dry_run=configured
    )
    if configured and change.changes:
        log.warning("configuration_differs", changes=change.changes, fix="run tenure apply to put it in force")


def write_client_file(server: Server, url: str) -> Path:
    """Let clients on this machine in: the address and an administrator's token, readable by the owner only."""
    store, path = server.engine.store, server.config.server.data_dir / "client.toml"
    if store.user(ADMIN) is None:
        store.add_user(ADMIN, "admin", wall_ms())
    for token in store.list_tokens(ADMIN):
        if token.label == str(path):
            store.revoke_token(token.id)
    plain = store.create_token(ADMIN, str(path), wall_ms())
    temporary = path.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(f'url = "{url}"\ntoken = "{plain}"\n')
    temporary.replace(path)
    return path


def _keep_house(server: Server, stopping: threading.Event) -> None:
    """Compact history once a day while the server runs."""
    while not stopping.wait(60):
        settings = server.config.server
        try:
            with server.engine.view() as state:
                lookback = state.policy.lookback
        except EngineStopped:
            return
        done = server.engine.store.compact(server.engine.now() - settings.retention, lookback)
        log.info("history_compacted", batches=done.batches, spans=done.spans, jobs=done.jobs)
        if stopping.wait(DAY / 1000):
            return


def run(config_path: Path, host: str | None = None, port: int | None = None, *, announce: bool = True) -> int:
    """Serve until a signal. Returns the exit status."""
    import uvicorn

    from tenure.api.app import create_app

    server = build(config_path)
    stopping = threading.Event()
    try:
        settings = server.config.server
        options = uvicorn.Config(
            create_app(server.engine),
            host=host or settings.listen,
            port=settings.port if port is None else port,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=3,
            lifespan="on",
        )
        bound = options.bind_socket()
        url = _url(bound)
        client_file = write_client_file(server, url)
        web = uvicorn.Server(options)

        def fail() -> None:
            web.should_exit = True

        server.engine.on_failure = fail
        if server.engine.failure is not None:
            fail()
        threading.Thread(target=_keep_house, args=(server, stopping), name="housekeeping", daemon=True).start()
        log.info("serving", url=url, data_dir=str(settings.data_dir), client_file=str(client_file))
        if announce:
            print(f"tenure: serving on {url}", flush=True)
        web.run(sockets=[bound])
    finally:
        stopping.set()
        server.close()
    return FAILED if server.engine.failure is not None else 0


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"
