"""What became of one try to deliver a message."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Delivered:
    """The receiver has it."""


@dataclass(frozen=True, slots=True)
class TryAgain:
    """It did not go through, and may later. ``after``: ms that the receiver asked to wait; 0: it did not say."""

    why: str
    after: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """The receiver does not want it, however often it is tried."""

    why: str


Result = Delivered | TryAgain | Refused
