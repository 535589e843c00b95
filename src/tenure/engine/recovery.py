"""Bring back the state that was running: newest snapshot, spans inside the lookback, and the log after it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from tenure.core import codec, scheduler, snapshot
from tenure.core.decisions import Outcome
from tenure.core.events import ConfigApplied, Event
from tenure.core.ledger import Span
from tenure.core.model import Policy
from tenure.core.state import State
from tenure.engine import record
from tenure.engine.clock import Anchor
from tenure.store.rows import BatchRow
from tenure.store.store import Store

log = structlog.get_logger()


def look_further_back(store: Store, state: State, events: Iterable[Event], seq: int) -> None:
    """Before a step with ``events``: should a longer lookback be among them, the sums of usage over that.

    ``seq``: the last batch of the state.
    """
    lookback = max([event.policy.lookback for event in events if isinstance(event, ConfigApplied)], default=0)
    if state.tree is not None and lookback > state.policy.lookback:
        snapshot.look_further_back(state, _closed(store, state.now - lookback, seq))


def _closed(store: Store, since: int, seq: int) -> dict[str, Iterable[Span]]:
    """Per cluster the closed spans that end after ``since``, up to a batch."""
    spans: dict[str, list[Span]] = {}
    for row in store.spans(ending_after=since, up_to_seq=seq):
        spans.setdefault(row.cluster, []).append(record.span_of(row))
    return dict(spans)


@dataclass(slots=True)
class Restored:
    """``anchor`` is None for a new database."""

    state: State
    seq: int
    anchor: Anchor | None


def from_snapshot(store: Store, found: tuple[int, int, bytes] | None) -> tuple[State, int]:
    """The state of a snapshot and its sequence number; a fresh state without one."""
    if found is None:
        return State(), 0
    seq, _, raw = found
    data = json.loads(raw)
    start = data["now"] - codec.record(Policy, data["policy"]).lookback
    return snapshot.load(data, _closed(store, start, seq)), seq


def restore(store: Store) -> Restored:
    """The state after the last committed batch. Committed plans are applied as they were, not decided again."""
    state, seq = from_snapshot(store, store.latest_snapshot())
    last: BatchRow | None = store.last_batch()
    for row in store.batches(after=seq):
        outcomes = redo(store, state, row)
        if record.decisions_text(outcomes) != row.outcomes:
            log.error("outcomes_differ_from_log", seq=row.seq)
        seq = row.seq
    forget_changes(state)
    return Restored(state, seq, record.anchor_of(last) if last is not None else None)


def redo(store: Store, state: State, row: BatchRow) -> tuple[Outcome, ...]:
    """Repeat a batch: the one after those that led to ``state``."""
    events = record.events_of(row)
    look_further_back(store, state, events, row.seq - 1)
    return scheduler.redo(state, events, record.plans_of(row), row.at)


def forget_changes(state: State) -> None:
    """What changed has been written: start the lists anew."""
    state.touched_jobs.clear()
    state.ended_jobs.clear()
    state.ended_attempts.clear()
    state.closed_spans.clear()


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """``mismatches`` has one line for each batch whose decisions came out differently."""

    first_seq: int
    batches: int
    decisions: int
    mismatches: tuple[str, ...]


def replay(store: Store, progress: Callable[[int], None] | None = None) -> ReplayReport:
    """Feed the kept log through the core again and compare every decision, byte for byte."""
    oldest = next(iter(store.batches(limit=1)), None)
    whole = oldest is None or oldest.seq == 1
    state, first = from_snapshot(store, None if whole else store.first_snapshot())
    mismatches: list[str] = []
    count = decisions = 0
    for row in store.batches(after=first):
        events = record.events_of(row)
        look_further_back(store, state, events, row.seq - 1)
        result = scheduler.step(state, events, row.at)
        forget_changes(state)
        for name, kept, made in (
            ("outcomes", row.outcomes, record.decisions_text(result.outcomes)),
            ("plans", row.plans, record.decisions_text(result.plans)),
        ):
            if kept != made:
                mismatches.append(f"batch {row.seq}: {name} were {kept} and are now {made}")
        count += 1
        decisions += len(result.outcomes) + len(result.plans)
        if progress is not None:
            progress(count)
    return ReplayReport(first + 1, count, decisions, tuple(mismatches))
