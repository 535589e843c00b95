"""Who used what: child budgets from the accounts of the ledger, jobs from its spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenure.balance.parts import NOTHING, Parts, below, parts_of
from tenure.core.fairshare import Figures, Standing
from tenure.core.ledger import Account, Kind, Ledger
from tenure.core.spans import Span
from tenure.core.tree import parent_of
from tenure.store.rows import SpanRow

if TYPE_CHECKING:
    from tenure.balance.facts import Facts, Going, Promised


@dataclass(frozen=True, slots=True)
class Child:
    """A part of a budget. ``figures`` None: it is no budget any more, and what was charged to it ages out here.

    With the path of the budget itself: what was charged there before it had children.
    """

    path: str
    parts: Parts
    figures: Figures | None


@dataclass(frozen=True, slots=True)
class JobPart:
    """What one job used and is promised here. ``leaf``: where it was charged last."""

    job_id: int
    user: str
    leaf: str
    parts: Parts


def children_of(
    ledger: Ledger,
    standing: Standing,
    path: str,
    going: Sequence[Going],
    promised: Sequence[Promised],
    since: int,
) -> Iterator[Child]:
    """The children of a node, then those that are gone, then what was charged to itself: they add up to it."""
    known = standing.tree.nodes[path].children
    gone = sorted(name for name in ledger.accounts if parent_of(name) == path and name not in standing.tree.nodes)
    rest = _parts(ledger.accounts[path], path, going, promised, since, standing.now)
    if not known and not gone:
        return
    for child in (*known, *gone):
        parts = _parts(ledger.accounts[child], child, going, promised, since, standing.now)
        rest -= parts
        if child in known:
            yield Child(child, parts, standing.figures(child))
        elif parts != NOTHING:
            yield Child(child, parts, None)
    if rest != NOTHING:
        yield Child(path, rest, None)


def _parts(
    account: Account, path: str, going: Sequence[Going], promised: Sequence[Promised], since: int, now: int
) -> Parts:
    running = sum(one.charged(since, now) for one in going if below(one.leaf, path))
    reserved = sum(one.worth for one in promised if one.reserved and below(one.leaf, path))
    return parts_of([account], running, reserved, since, now)


def jobs(facts: Facts, closed: Iterable[Span | SpanRow]) -> list[JobPart]:
    """Every job that used or is promised something, the largest charge first.

    ``closed``: at least the closed spans of this cluster that end inside the window. Some may have been written since
    ``facts`` were gathered: what was running then is not counted as settled.
    """
    sums: dict[int, _Sums] = {}
    open_since = {one.attempt_id: one.since for one in (*facts.going, *facts.free)}
    for span in closed:
        worth = span.amount * (min(span.end, facts.now) - max(span.start, facts.since))
        before = facts.first_record is not None and span.start < facts.first_record  # of a cluster of this name
        since_then = span.start >= open_since.get(span.attempt_id, facts.now)
        if worth <= 0 or before or since_then or not below(span.leaf, facts.path):
            continue
        theirs = _of(sums, job_of(span.attempt_id), span.user, span.leaf)
        if span.kind == Kind.UNALLOCATED:
            theirs.unallocated += worth
        else:
            theirs.settled += worth if span.kind == Kind.CHARGED else -worth
    for one in facts.going:
        _of(sums, job_of(one.attempt_id), one.user, one.leaf).running += one.charged(facts.since, facts.now)
    for one in facts.free:
        _of(sums, job_of(one.attempt_id), one.user, one.leaf).unallocated += one.charged(facts.since, facts.now)
    for promise in facts.promised:
        theirs = _of(sums, promise.job_id, promise.user, promise.leaf)
        if promise.reserved:
            theirs.reserved += promise.worth
        else:
            theirs.committed += promise.worth
    found = (
        JobPart(job_id, s.user, s.leaf, Parts(s.settled, s.running, s.committed, s.reserved, s.unallocated))
        for job_id, s in sums.items()
    )
    used = (part for part in found if part.parts != NOTHING)
    return sorted(used, key=lambda part: (-part.parts.total, -part.parts.unallocated, part.job_id))


@dataclass(slots=True)
class _Sums:
    """Parts of one job that are being added up: many spans are read."""

    user: str
    leaf: str
    settled: int = 0
    running: int = 0
    committed: int = 0
    reserved: int = 0
    unallocated: int = 0


def _of(sums: dict[int, _Sums], job_id: int, user: str, leaf: str) -> _Sums:
    known = sums.get(job_id)
    if known is None:
        known = sums[job_id] = _Sums(user, leaf)
    known.leaf = leaf
    return known


def job_of(attempt_id: str) -> int:
    """The job of an attempt, ``12`` of ``12.3``."""
    return int(attempt_id.partition(".")[0])
