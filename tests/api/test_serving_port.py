"""The port of a server: a moment's patience with one that is in use, and what is said when it stays so."""

from __future__ import annotations

import socket
import threading

import pytest
import structlog

from support.ports import free_ports
from tenure.api import serve

HERE = "127.0.0.1"


def test_a_port_that_a_killed_server_left_for_a_moment_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told, found = threading.Event(), []
    monkeypatch.setattr(serve, "PORT_WITHIN_S", 60)
    with socket.create_server((HERE, free_ports())) as other:
        port = other.getsockname()[1]

        def listen(_: object, name: str, event: dict[str, object]) -> dict[str, object]:
            if event["event"] == "port_in_use":
                told.set()
            raise structlog.DropEvent

        monkeypatch.setattr(serve, "log", structlog.wrap_logger(None, processors=[listen]))
        asking = threading.Thread(target=lambda: found.append(serve.bind(HERE, port)))
        asking.start()
        assert told.wait(60)
    asking.join(60)
    with found[0] as bound:
        assert bound.getsockname() == (HERE, port)


def test_a_port_that_stays_taken_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "PORT_WITHIN_S", 0)
    with socket.create_server((HERE, free_ports())) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=f"{HERE}:{port}: Address already in use; stop what uses it, or choose"):
            serve.bind(HERE, port)
