"""Hearing the warning before an eviction: a signal, and a file that says why and how long there is left.

The signal goes to the first process of each replica only; the file is for everybody.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

LOOK_EVERY_S = 0.5
"""How old a look for the file may be; on shared storage each costs a round trip."""

Handler = Callable[[int, FrameType | None], Any] | int | None


@dataclass(frozen=True, slots=True)
class KillWarning:
    """What the attempt was told. Times in ms UTC by the clock of the host that it runs on.

    ``reason``: a code of ``docs/reasons.md``, such as ``evicted_standing``; ``why``: the same in a sentence. Texts
    are '' and times None when only a signal has come: a job that runs in Slurm as its user has no file.
    """

    reason: str = ""
    why: str = ""
    signal: str = ""
    at: int | None = None
    kill_at: int | None = None
    grace: int | None = None


class Ear:
    """Listens until it is closed; for the signal only when it was made in the main thread.

    ``warn_signal``: its name, listened for in any case; None: what the scheduler has named, if this is a job of its.
    Raises ValueError for what is no signal.
    """

    def __init__(self, env: Mapping[str, str], warn_signal: str | None = None) -> None:
        path = env.get("TENURE_WARNING")
        self._path = Path(path) if path else None
        self._number: int | None = None
        self._previous: Handler = None
        self._heard = False
        self._told: KillWarning | None = None
        self._seen: tuple[int, int] | None = None
        self._deadline = 0.0
        self._looked: float | None = None
        name = warn_signal
        if name is None and "TENURE_JOB_ID" in env:
            name = env.get("TENURE_WARN_SIGNAL") or "SIGTERM"
        if name is not None:
            self._listen(name)

    def _listen(self, name: str) -> None:
        number = signal.Signals.__members__.get(name)
        if number is None:
            raise ValueError(f"warn_signal={name!r} is not a signal; use a name such as 'SIGTERM' or 'SIGUSR1'")
        if threading.current_thread() is threading.main_thread():
            self._number = number
            self._previous = signal.signal(number, self._hear)
            _ears.add(self)

    def insist(self) -> None:
        """Take the signal back from a handler that was installed since, which is not called any more."""
        if self._number is not None and threading.current_thread() is threading.main_thread():
            signal.signal(self._number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        """Only remember: it may interrupt anything, so no lock is taken here and no step cut short."""
        self._heard = True
        before = self._previous
        # Python's own answer to Ctrl-C would end the step.
        if callable(before) and before is not signal.default_int_handler:
            before(number, frame)

    def close(self) -> None:
        """Put the handler of before back, unless another has taken its place."""
        number, self._number = self._number, None
        if number is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(number) == self._hear:
            signal.signal(number, signal.SIG_DFL if self._previous is None else self._previous)

    def warned(self) -> bool:
        """By signal or by file."""
        if not self._heard and self._path is not None:
            now = time.monotonic()
            if self._looked is None or now - self._looked >= LOOK_EVERY_S:
                self._looked = now
                self._heard = self._read() is not None
        return self._heard

    def warning(self) -> KillWarning | None:
        """What is known, read again: a second order may leave less time."""
        if not self.warned():
            return None
        return self._read() or KillWarning()

    def time_left(self) -> float | None:
        """Seconds until the kill, by a clock that nobody sets once the file was read; None while that is unknown."""
        if not self.warned() or self._read() is None:
            return None
        return max(0.0, self._deadline - time.monotonic())

    def _read(self) -> KillWarning | None:
        """The file's content, None without one; the last that was read when it cannot be read any more."""
        if self._path is None:
            return None
        # It is replaced whole each time. A scheduler of a later release may say more.
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            found = self._path.stat()
            if (seen := (found.st_ino, found.st_mtime_ns)) != self._seen:
                content = json.loads(self._path.read_text(encoding="utf-8"))
                told = KillWarning(**{name: content[name] for name in KillWarning.__slots__})
                self._deadline = time.monotonic() + content["kill_at"] / 1000 - time.time()
                self._told, self._seen = told, seen
        return self._told


_ears: weakref.WeakSet[Ear] = weakref.WeakSet()


def _let_go() -> None:
    """In a forked child, a data loader for instance: whoever sends it SIGTERM wants it to end."""
    for ear in list(_ears):
        ear.close()


os.register_at_fork(after_in_child=_let_go)
