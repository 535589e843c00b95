"""A thread that hears of changed statuses and of the deaths of supervisors, and sleeps in between."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from tenure.executors import files


class Watcher:
    """Calls ``on_status()`` after a status has changed and ``on_death(attempt_id)`` when a watched process ends.

    Both are called in the watcher's thread. ``on_status`` may be called once for several changes.
    """

    def __init__(self, root: Path, on_status: Callable[[], None], on_death: Callable[[str], None]) -> None:
        self._on_status = on_status
        self._on_death = on_death
        self._new: deque[tuple[int, str]] = deque()
        self._closing = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        # The name may be left over from a server that was killed, or still in use by one that was replaced.
        (root / files.NOTIFY_SOCKET).unlink(missing_ok=True)
        with files.open_directory(root) as directory:
            self._socket.bind(files.short_path(directory, files.NOTIFY_SOCKET))
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="tenure-executor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def watch(self, attempt_id: str, pidfd: int) -> None:
        """Report the end of this process; the watcher owns ``pidfd`` from now on and reaps it if it is a child."""
        self._new.append((pidfd, attempt_id))
        self._wake()

    def close(self) -> None:
        """Stop the thread; it reports nothing more."""
        self._closing = True
        self._wake()
        if self._thread.is_alive():
            self._thread.join()
        for sock in (self._socket, self._woken, self._waker):
            sock.close()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._waker.send(b"!")

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._closing:
                self._turn(selector)
            for key in selector.get_map().values():
                if isinstance(key.data, str):
                    os.close(key.fd)
        for pidfd, _ in self._new:
            os.close(pidfd)

    def _turn(self, selector: selectors.BaseSelector) -> None:
        while self._new:
            pidfd, attempt_id = self._new.popleft()
            selector.register(pidfd, selectors.EVENT_READ, attempt_id)
        for key, _ in selector.select():
            if self._closing:
                return
            if isinstance(key.data, str):
                selector.unregister(key.fd)
                _reap(key.fd)
                self._on_death(key.data)
            elif key.fileobj is self._socket:
                _drain(self._socket)
                self._on_status()
            else:
                _drain(self._woken)


def _drain(sock: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            sock.recv(4096)


def _reap(pidfd: int) -> None:
    """Free what the kernel keeps of it, unless an earlier server was its parent."""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    os.close(pidfd)
