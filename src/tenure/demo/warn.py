"""Hearing the warning before an eviction, also in the middle of a wait."""

from __future__ import annotations

import select
import signal
import socket
import time
from types import FrameType


class Warned:
    """Remembers that a warning signal came, and cuts waits short when it does.

    To be made in the main thread, once per process: it takes over the signals and the wake-up descriptor.
    """

    def __init__(self, *signals: signal.Signals) -> None:
        self.by: signal.Signals | None = None
        self._wake, self._woken_by_signals = socket.socketpair()
        self._woken_by_signals.setblocking(False)
        signal.set_wakeup_fd(self._woken_by_signals.fileno())
        for number in signals:
            signal.signal(number, self._remember)

    def __bool__(self) -> bool:
        return self.by is not None

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        # Only remember: saving from inside a handler would save a half-made step.
        self.by = signal.Signals(number)

    def wait(self, seconds: float, until_readable: socket.socket | None = None) -> bool:
        """Wait ``seconds``, less if the warning has come or comes. True: ``until_readable`` has something."""
        deadline = time.monotonic() + seconds
        watched = [self._wake] if until_readable is None else [self._wake, until_readable]
        while not self and (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select(watched, [], [], left)
            if self._wake in ready:
                # A byte for a signal that is not ours must not end the wait, nor keep it busy.
                self._wake.recv(64)
            elif ready:
                return True
        return False
