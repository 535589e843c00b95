"""Run a server: the engine with its API, until a signal."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
import time
import tomllib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FrameType

import structlog
import uvicorn
from sqlalchemy.exc import SQLAlchemyError

from tenure.api.app import create_app
from tenure.config import load
from tenure.core.model import DAY
from tenure.engine.clock import wall_ms
from tenure.engine.errors import EngineStopped
from tenure.engine.serve import Server, build
from tenure.forecast.beside import estimating
from tenure.notice import service
from tenure.notice.courier import Courier

log = structlog.get_logger()

ADMIN = "admin"
FAILED = 70
"""Exit status when the engine failed: a service manager should start the server again."""
HOUSEKEEPING_DELAY_S = 60
PORT_WITHIN_S = 2.0
"""So long a port that is in use is tried."""


Beside = Callable[[Server], AbstractContextManager[None]]


def run(config_path: Path, host: str | None = None, port: int | None = None, beside: Beside | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C; attempts go on. Returns the exit status.

    ``host`` and ``port`` replace the configured ones; port 0 takes any. ``beside``: what else goes on meanwhile. Raises
    ConfigError, AlreadyRunning, StoreError, and OSError when the address is taken.
    """
    settings = load(config_path).server
    with bind(host or settings.listen, settings.port if port is None else port) as bound:
        server = build(config_path)
        stopping = threading.Event()
        try:
            with (
                estimating(server.config.server),
                service.running(server.engine) as courier,
                beside(server) if beside is not None else nullcontext(),
            ):
                _serve(server, courier, bound, stopping)
        finally:
            stopping.set()
            server.close()
    return FAILED if server.engine.failure is not None else 0


def _serve(server: Server, courier: Courier, bound: socket.socket, stopping: threading.Event) -> None:
    options = uvicorn.Config(
        create_app(server.engine, courier),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=3,
        lifespan="on",
    )
    web = uvicorn.Server(options)

    def leave(number: int = 0, _frame: FrameType | None = None) -> None:
        log.info("stopping", signal=signal.Signals(number).name if number else "none: the engine failed")
        web.should_exit = True

    # Uvicorn raises the signal again when it has shut down; what is open must be closed before this process ends.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    server.engine.on_failure = leave
    if server.engine.failure is not None:
        leave()
    threading.Thread(target=_keep_house, args=(server, stopping), name="housekeeping", daemon=True).start()
    url = _url(bound)
    client_file = write_client_file(server, url)
    log.info("serving", url=url, data_dir=str(server.config.server.data_dir), client_file=str(client_file))
    print(f"tenure: serving on {url}", flush=True)
    web.run(sockets=[bound])


def bind(host: str, port: int) -> socket.socket:
    """Bound before anything is scheduled, so that a taken port costs nothing.

    What a killed server was just starting may hold its port for a moment.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    deadline = time.monotonic() + PORT_WITHIN_S
    told = False
    while True:
        try:
            return socket.create_server((host, port), family=family)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                fix = "stop what uses it, or choose another with --port or server.port"
                raise OSError(error.errno, f"{host}:{port}: {os.strerror(error.errno or 0)}; {fix}") from error
        if not told:
            log.info("port_in_use", host=host, port=port, tried_for_s=PORT_WITHIN_S)
            told = True
        time.sleep(0.05)


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


def write_client_file(server: Server, url: str) -> Path:
    """Let clients on this machine in: the address and an administrator's token, readable by the owner only.

    A token that still works is kept: people may have copied it.
    """
    store, path = server.engine.store, server.config.server.data_dir / "client.toml"
    if store.user(ADMIN) is None:
        store.add_user(ADMIN, "admin", wall_ms())
    plain = _token_in(path)
    if plain is None or store.authenticate(plain, wall_ms()) is None:
        plain = store.create_token(ADMIN, str(path), wall_ms())
    temporary = path.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(f'url = "{url}"\ntoken = "{plain}"\n')
    temporary.replace(path)
    return path


def _token_in(path: Path) -> str | None:
    """The token of an earlier run; None when there is none that can be read."""
    try:
        token = tomllib.loads(path.read_text()).get("token")
    except (OSError, ValueError):
        return None
    return token if isinstance(token, str) else None


def _keep_house(server: Server, stopping: threading.Event) -> None:
    """Compact history once a day while the server runs."""
    while not stopping.wait(HOUSEKEEPING_DELAY_S):
        settings = server.config.server
        try:
            with server.engine.view() as state:
                lookback = state.policy.lookback
        except EngineStopped:
            return
        try:
            done = server.engine.store.compact(server.engine.now() - settings.retention, lookback)
            log.info("history_compacted", batches=done.batches, spans=done.spans, jobs=done.jobs)
        except SQLAlchemyError as error:
            log.error("history_not_compacted", error=str(error), fix="tried again in a day; or run tenure compact")
        if stopping.wait(DAY / 1000):
            return
