"""Waiting for the engine without holding a thread: what long polls stand on."""

from __future__ import annotations

import asyncio
import threading

from tenure.engine.engine import Engine, StepReport


class Changes:
    """Wakes whoever waits, on whichever event loop, after each commit."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._closed = False
        engine.observers.append(self._committed)

    def close(self) -> None:
        """Let everybody go: the server is stopping."""
        self._closed = True
        self._ring()

    @property
    def closed(self) -> bool:
        return self._closed

    def _committed(self, _report: StepReport) -> None:
        self._ring()

    def _ring(self) -> None:
        with self._lock:
            for loop, event in self._waiting:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(event.set)

    async def wait(self, after: int, timeout_s: float) -> int:
        """Until a batch later than ``after`` is committed, at most ``timeout_s``. Returns the newest number."""
        event = asyncio.Event()
        waiter = (asyncio.get_running_loop(), event)
        with self._lock:
            self._waiting.add(waiter)
        try:
            if self._engine.last_seq <= after and not self._closed and timeout_s > 0:
                await asyncio.wait_for(event.wait(), timeout_s)
        except TimeoutError:
            pass
        finally:
            with self._lock:
                self._waiting.discard(waiter)
        return self._engine.last_seq
