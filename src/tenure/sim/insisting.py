"""What becomes of what people insist on: each policy has its own words for it, or none.

Under Tenure they sign another contract. Under ``priority`` they claim HIGH and protection, or none. Where only time
limits are read, they name another limit. What a policy does not read is claimed as by anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tenure.core.model import MINUTE, JobSpec
from tenure.policies.backfill import Backfill
from tenure.policies.budgets import Budgets
from tenure.policies.fifo import Fifo
from tenure.policies.priority import HIGH, PriorityCaps
from tenure.policies.slurm import Slurm
from tenure.sim.claims import Settled, claims_for
from tenure.sim.work import Claims, Insists, Work

PROTECTED = 5 * MINUTE
"""The contract of work that would have none, where any contract is protection to the end, ms."""
LIMITS = frozenset({Backfill.name, Slurm.name})
"""Policies that read nothing of a job but its size and its time limit."""
BLIND = LIMITS | {Fifo.name}
"""Policies to which contracts and priorities say nothing."""
CLAIMED = frozenset({"declare-8h", "declare-15m", "declare-0", "high", "opt-out"})
"""Tricks that change nothing but what is claimed."""
LENGTHS = frozenset({"declare-8h", "declare-15m"})
"""Of these, those that say how long work is to be protected."""


def heeds(policy: str, trick: str) -> bool:
    """Whether a trick changes anything under a policy. ``renew`` begins a new protection, which Tenure alone ends."""
    if trick == "renew":
        return policy == Budgets.name
    if policy in BLIND:
        return trick not in CLAIMED
    return policy != PriorityCaps.name or trick not in LENGTHS


class Insisting:
    """The ``Claims`` of people some of whom insist on something; the others claim as ``usual``."""

    def __init__(self, policy: str, usual: Claims) -> None:
        self.policy = policy
        self.usual = usual

    def signed(self, work: Work) -> Work:
        work = self.usual.signed(work)
        wish = work.insists
        if wish is None or self.policy == PriorityCaps.name:
            return work
        if self.policy in BLIND:
            limited = wish.limit is not None and self.policy in LIMITS
            return replace(work, spec=replace(work.spec, timeout=wish.limit)) if limited else work
        return replace(work, spec=insisted(work.spec, wish))

    def spec(self, at: int, work: Work) -> JobSpec:
        spec = self.usual.spec(at, work)
        wish = work.insists
        return spec if wish is None or self.policy != PriorityCaps.name else _claimed(spec, work, wish)

    def started(self, at: int, work: Work, waited: int) -> None:
        self.usual.started(at, work, waited)

    def evicted(self, at: int, work: Work) -> None:
        self.usual.evicted(at, work)

    def gone(self, at: int, work: Work) -> None:
        self.usual.gone(at, work)


def insisting(usual: Callable[[str, int], Claims], policy: str, seed: int) -> Claims:
    """The claims of a policy and a seed, as ``usual`` but for what people insist on. Raises ValueError as it does."""
    return Insisting(policy, usual(policy, seed))


def settled_for(policy: str, seed: int) -> Claims:
    """As ``claims_for``, of people who do not learn from what happens to them. Raises ValueError as it does."""
    return Settled(seed) if policy == PriorityCaps.name else claims_for(policy, seed)


def insisted(spec: JobSpec, wish: Insists) -> JobSpec:
    """The job with the contract and the priority that somebody insists on, as they sign it under Tenure."""
    contract, timeout = spec.contract, spec.timeout
    if wish.min_runtime is not None:
        contract = replace(contract, min_runtime=wish.min_runtime)
        timeout = None if timeout is None else max(timeout, wish.min_runtime)
    if wish.stays:
        contract = replace(contract, resumable=False)
    return replace(spec, contract=contract, timeout=timeout, priority=HIGH if wish.highest else spec.priority)


def _claimed(spec: JobSpec, work: Work, wish: Insists) -> JobSpec:
    """Under ``priority``, where a contract of any length is protection, and protects to the end."""
    if wish.highest:
        spec = replace(spec, priority=HIGH)
    if wish.stays:
        least = max(PROTECTED, work.spec.contract.min_runtime)
        return replace(spec, contract=replace(spec.contract, min_runtime=least))
    if wish.min_runtime == 0:
        return replace(spec, contract=replace(spec.contract, min_runtime=0))
    return spec
