"""A line on which processes of a test speak to it."""

from __future__ import annotations

import os
import select
from pathlib import Path

PATIENCE_S = 120
"""How long a test waits for what must come. Nothing depends on it when all is well."""


class Line:
    """A FIFO: programs write lines into it, the test waits for them."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        # Both ways, so that a program never waits for a reader and the test never sees an end.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = b""

    def hear(self) -> str:
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._descriptor], [], [], PATIENCE_S)
            assert ready, "the program said nothing"
            self._rest += os.read(self._descriptor, 65_536)
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def hear_until(self, start: str) -> list[str]:
        """Everything up to the first line that begins with ``start``, which is the last."""
        heard = [self.hear()]
        while not heard[-1].startswith(start):
            heard.append(self.hear())
        return heard

    def close(self) -> None:
        os.close(self._descriptor)
