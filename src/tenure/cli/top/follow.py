"""Follows the server from a thread: waits for news, asks for a new frame, and goes on trying when nobody answers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from tenure.cli.top.snapshot import Snapshot, take
from tenure.client import Client

T = TypeVar("T")
WAIT_MS = 5_000
"""Without news a frame is this old at most: ratios change by themselves."""
PAUSE_S = 1.0
"""Between two frames at least; a server that takes long to answer is asked in proportion."""
SHARE = 4
"""At most one part in so many of the time is spent asking."""
AGAIN_S, LONGEST_S = 0.5, 5.0
"""Between two tries to reach a server that is away."""


class Follower:
    """Calls ``fresh`` with each frame and ``away`` with the reason when there is none, from its own thread.

    ``connect`` is called again after a failure: a server that comes back may have another address or token.
    """

    def __init__(
        self, connect: Callable[[], Client], fresh: Callable[[Snapshot], None], away: Callable[[str], None]
    ) -> None:
        self._connect, self._fresh, self._away = connect, fresh, away
        self._over = threading.Event()
        self._hurry = threading.Event()
        # It may be waiting for an answer when all is over; nobody waits for it.
        self._thread = threading.Thread(target=self._run, name="top", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Nothing is called any more once the current call has returned."""
        self._over.set()
        self._hurry.set()

    def hurry(self) -> None:
        """Do not wait for the next try."""
        self._hurry.set()

    def _run(self) -> None:
        pause = AGAIN_S
        while not self._over.is_set():
            try:
                with self._connect() as client:
                    seq = client.changes(0)
                    while not self._over.is_set():
                        began = time.monotonic()
                        taken = take(client)
                        spent = time.monotonic() - began
                        self._tell(self._fresh, taken)
                        pause = AGAIN_S
                        pause_s = max(PAUSE_S, SHARE * spent)
                        self._sleep(pause_s)
                        seq = client.changes(seq, max(0, WAIT_MS - int(1000 * (pause_s + spent))))
            except Exception as error:  # whatever it is: a screen that stands still and says "live" is worse
                self._tell(self._away, str(error) or type(error).__name__)
                self._sleep(pause)
                pause = min(2 * pause, LONGEST_S)

    def _tell(self, whom: Callable[[T], None], what: T) -> None:
        if not self._over.is_set():
            # The screen may close in this very moment.
            with contextlib.suppress(RuntimeError):
                whom(what)

    def _sleep(self, seconds: float) -> None:
        self._hurry.wait(seconds)
        if not self._over.is_set():
            self._hurry.clear()
