"""What requests to the engine raise besides ``core.reasons.Refusal``."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


class NotFound(Exception):
    """There is no such thing. ``known``: names that exist, for a suggestion."""

    def __init__(self, what: str, name: str, known: Sequence[str] = ()) -> None:
        self.what, self.name, self.known = what, name, tuple(known)
        close = get_close_matches(name, self.known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        super().__init__(f"there is no {what} {name}{hint}")


class Conflict(Exception):
    """It cannot be done to this thing in its state; ``fix`` says what can."""

    def __init__(self, message: str, fix: str) -> None:
        self.message, self.fix = message, fix
        super().__init__(f"{message}: {fix}")


class EngineStopped(Exception):
    """The engine no longer takes requests: it is stopping, or it has failed and must be restarted."""
