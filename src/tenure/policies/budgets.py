"""Tenure's own policy: the pass that the live engine runs."""

from __future__ import annotations

from tenure.core import cycle
from tenure.core.decisions import Plan
from tenure.core.state import Attempt, State, protected


class Budgets:
    """Budgets, contracts and hierarchical fair share: ``core.cycle``, nothing added."""

    name = "budgets"

    def run(self, state: State) -> list[Plan]:
        return cycle.run(state)

    def protected(self, attempt: Attempt, now: int) -> bool:
        return protected(attempt, now)

    def withheld(self, state: State) -> int:
        """Nothing: whoever can use a free GPU gets it."""
        return 0
