"""Who writes much lets others write in between: seen from another connection, on a clock that no machine slows down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, event

from tenure.store import Store, database

TOOK = 1 / 32
"""Seconds that each transaction takes on that clock."""


class Pauses:
    """``seen``: each commit of the store as 'commit', and each pause by its length in seconds, in their order."""

    def __init__(self, url: str) -> None:
        self.seen: list[str | float] = []
        self._url, self._now = url, 0.0

    def monotonic(self) -> float:
        self._now += TOOK
        return self._now

    def sleep(self, seconds: float) -> None:
        self.seen.append(seconds)
        with Store.open(self._url) as other, other._write():  # what was written is committed, and no lock is held
            pass

    def take(self) -> list[str | float]:
        """What was seen since the last call."""
        found, self.seen = self.seen, []
        return found


@contextmanager
def pauses(store: Store, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pauses]:
    """Watch what ``store``, the database at ``url``, does from here on."""
    made = Pauses(url)

    def committed(connection: Connection) -> None:
        made.seen.append("commit")

    with monkeypatch.context() as patch:
        patch.setattr(database, "time", made)
        event.listen(store._writer, "commit", committed)
        try:
            yield made
        finally:
            event.remove(store._writer, "commit", committed)
