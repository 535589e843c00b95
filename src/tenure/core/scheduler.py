"""The core's front door: events and ``now`` in, decisions out. The live engine and the simulator call ``step``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tenure.core import cycle, transitions
from tenure.core.apply import apply
from tenure.core.decisions import Outcome, Plan
from tenure.core.events import Event
from tenure.core.state import State


@dataclass(frozen=True, slots=True)
class Result:
    """What one step decided: what followed from events and due times, then the plans of the pass."""

    outcomes: tuple[Outcome, ...]
    plans: tuple[Plan, ...]


def step(
    state: State, events: Sequence[Event], now: int, decide: Callable[[State], Sequence[Plan]] = cycle.run
) -> Result:
    """Let ``events`` happen in order, let time pass until ``now``, then run one pass.

    Event times before the last recorded time count as that time, later ones than ``now`` as ``now``. ``decide`` is the
    pass: Tenure's own, unless a simulation compares it with another policy's.
    """
    outcomes = absorb(state, events, now)
    plans = decide(state) if state.tree is not None else ()
    return Result(outcomes, tuple(plans))


def absorb(state: State, events: Sequence[Event], now: int) -> tuple[Outcome, ...]:
    """Everything of a step but the pass. Time never runs backwards."""
    outcomes: list[Outcome] = []
    state.acting_at = max(state.now, now)
    for cluster in state.clusters.values():
        cluster.looking = False
    for event in events:
        _until(state, min(event.at, now), outcomes)
        outcomes.extend(transitions.absorb(state, event))
    _until(state, now, outcomes)
    outcomes.extend(transitions.open_claims(state))
    for cluster in state.clusters.values():
        cluster.ledger.trim_sometimes(state.now - max(state.policy.lookback, state.policy.recent))
    return tuple(outcomes)


def redo(state: State, events: Sequence[Event], plans: Sequence[Plan], now: int) -> tuple[Outcome, ...]:
    """Repeat a recorded step after a restart: outcomes are derived anew, the plans are those that were committed."""
    outcomes = absorb(state, events, now)
    for plan in plans:
        apply(state, plan)
    return outcomes


def _until(state: State, at: int, outcomes: list[Outcome]) -> None:
    """Let due times come up in order until ``at``."""
    for when, kind, key in state.pop_due(at):
        state.now = max(state.now, when)
        outcomes.extend(transitions.due(state, kind, key, when))
    state.now = max(state.now, at)
