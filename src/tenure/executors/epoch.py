"""Which leader may command the processes below one directory: the one with the newest epoch."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from tenure.executors import procs
from tenure.executors.base import StaleEpoch


class EpochGate:
    """Keeps the newest epoch in ``root/epoch``. ``epoch`` is that of this leader, 0 before ``take``."""

    def __init__(self, root: Path) -> None:
        self._file = root / "epoch"
        self._lock = root / "epoch.lock"
        self.epoch = 0

    def take(self, epoch: int) -> None:
        """Become the leader. Waits for commands under way. Raises StaleEpoch when a newer one has been here."""
        with self._locked(fcntl.LOCK_EX):
            newest = self._newest()
            if epoch < newest:
                raise StaleEpoch(f"epoch {epoch} comes after epoch {newest} has taken over")
            if epoch > newest:
                procs.write_json(self._file, {"epoch": epoch})
            self.epoch = epoch

    @contextlib.contextmanager
    def command(self) -> Iterator[None]:
        """No newer leader takes over inside this block. Raises StaleEpoch when one has."""
        with self._locked(fcntl.LOCK_SH):
            newest = self._newest()
            if self.epoch < newest:
                raise StaleEpoch(f"a command of epoch {self.epoch}, but epoch {newest} has taken over")
            yield

    def _newest(self) -> int:
        content = procs.read_json(self._file)
        return int(content["epoch"]) if content else 0

    @contextlib.contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, how)
            yield
        finally:
            os.close(descriptor)
