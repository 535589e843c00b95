"""What a policy is: one pass over the state, and which attempts nobody may evict."""

from __future__ import annotations

from typing import Protocol

from tenure.core.decisions import Plan
from tenure.core.state import Attempt, State

ByQueue = tuple[tuple[str, int], ...]
"""Paths of budgets, each with a value of its own."""
Setting = int | str | ByQueue
"""What a setting of a policy may be: a count or ms, a word, or one of these by queue."""


class Policy(Protocol):
    """A pure scheduling policy. The core's state machine, ledger and placement are the same under each of them."""

    name: str

    def run(self, state: State) -> list[Plan]:
        """One pass at ``state.now``. The returned plans have been applied; a second pass decides nothing."""

    def protected(self, attempt: Attempt, now: int) -> bool:
        """Whether this policy evicts the attempt for nobody at ``now`` (ms UTC)."""

    def withheld(self, state: State) -> int:
        """Free GPUs, over all clusters, that a waiting job could use but a rule of the policy keeps idle."""
