"""What orders and who may evict whom: Tenure's own policy and, for comparison, those that labs run today."""

from __future__ import annotations

from tenure.policies.base import Policy
from tenure.policies.budgets import Budgets

NAMES = ("budgets",)


def by_name(name: str, **settings: int) -> Policy:
    """The policy of that name. Raises ValueError naming those that there are."""
    if name not in NAMES or settings:
        raise ValueError(f"policy = {name}: there are {', '.join(NAMES)}")
    return Budgets()
