"""Spans of the ledger: who occupied what, and when. Plain data, as in ``records``."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.core.model import Word


class Kind(Word):
    CHARGED = "charged"
    UNALLOCATED = "unallocated"
    CREDIT = "credit"


OCCUPANCY = (Kind.CHARGED, Kind.UNALLOCATED)


@dataclass(frozen=True, slots=True)
class Span:
    """``amount`` thousandths of a GPU over [start, end) under the path that was charged. Credits count negative."""

    attempt_id: str
    leaf: str
    user: str
    kind: Kind
    amount: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class OpenSpan:
    leaf: str
    user: str
    kind: Kind
    amount: int
    start: int
