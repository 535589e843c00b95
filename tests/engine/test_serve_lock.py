"""One server for a data directory: a moment's patience with the lock of one that was killed, and what is said then."""

from __future__ import annotations

import fcntl
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
import structlog

from tenure.engine import serve
from tenure.executors import procs


def test_a_lock_that_a_killed_server_left_for_a_moment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, stack = threading.Event(), ExitStack()
    monkeypatch.setattr(procs, "LOCK_WITHIN_S", 60)

    def listen(_: object, name: str, event: dict[str, object]) -> dict[str, object]:
        if event["event"] == "data_dir_in_use":
            told.set()
        raise structlog.DropEvent

    monkeypatch.setattr(serve, "log", structlog.wrap_logger(None, processors=[listen]))
    with (tmp_path / "lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        waiting = threading.Thread(target=serve._lock, args=(stack, tmp_path))
        waiting.start()
        assert told.wait(60)
    waiting.join(60)
    with (tmp_path / "lock").open("a") as late, pytest.raises(BlockingIOError):
        fcntl.flock(late, fcntl.LOCK_EX | fcntl.LOCK_NB)
    stack.close()


def test_a_server_that_runs_on_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procs, "LOCK_WITHIN_S", 0)
    with ExitStack() as first, ExitStack() as second:
        serve._lock(first, tmp_path)
        with pytest.raises(serve.AlreadyRunning, match="stop it first, or use another data_dir"):
            serve._lock(second, tmp_path)
