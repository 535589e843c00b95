"""What becomes of what people insist on: each policy has its own words for it, or none.

Under Tenure they sign another contract. Under ``priority`` they claim HIGH and protection, or none. Where only time
limits are read, they name another limit. What a policy does not read is claimed as by anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tenure.core.model import HOUR, MINUTE, JobSpec
from tenure.policies.budgets import Budgets
from tenure.policies.priority import HIGH, PriorityCaps
from tenure.sim.claims import Settled, claims_for
from tenure.sim.work import Claims, Insists, Work

PROTECTED = 5 * MINUTE
"""The contract of work that would have none, where a contract of any length is protection to the end, ms."""
NO_CONTRACTS = frozenset({"fifo", "backfill", "slurm"})
"""Policies to which it is all the same whether work is charged, and for how long."""
NO_PRIORITIES = NO_CONTRACTS | {"slurm-preempt"}
NO_EVICTIONS = NO_CONTRACTS | {"quotas", "drf", "drf-tree"}
LIMITS = frozenset({"backfill", "slurm", "slurm-preempt"})
"""Policies under which time limits decide who fits in."""
BY_CLASS = frozenset({"slurm-preempt"})
"""Policies under which charged work is never evicted, and any work may be handed in as such."""
CLAIMED = {
    "declare-8h": Insists(8 * HOUR),
    "declare-15m": Insists(15 * MINUTE),
    "declare-0": Insists(0),
    "high": Insists(highest=True),
    "opt-out": Insists(stays=True),
}
"""Tricks that change nothing but what is claimed, and what that is at most."""


def heard(policy: str, wish: Insists) -> Insists:
    """What of it a policy reads."""
    length = wish.min_runtime
    if policy in NO_CONTRACTS or (policy == PriorityCaps.name and length):
        length = None
    return Insists(
        length,
        wish.highest and policy not in NO_PRIORITIES,
        wish.stays and policy not in NO_EVICTIONS,
        wish.limit if policy in LIMITS else None,
    )


def heeds(policy: str, trick: str) -> bool:
    """Whether a trick changes anything under a policy. ``renew`` begins a new protection, which Tenure alone ends."""
    if trick == "renew":
        return policy == Budgets.name
    return trick not in CLAIMED or heard(policy, CLAIMED[trick]) != Insists()


class Insisting:
    """The ``Claims`` of people some of whom insist on something; the others claim as ``usual``."""

    def __init__(self, policy: str, usual: Claims) -> None:
        self.policy = policy
        self.usual = usual

    def signed(self, work: Work) -> Work:
        work = self.usual.signed(work)
        if work.insists is None or self.policy == PriorityCaps.name:
            return work
        wish = heard(self.policy, work.insists)
        if wish == Insists():
            return work
        if wish.stays and self.policy in BY_CLASS:
            wish = replace(wish, stays=False, min_runtime=_protecting(work))
        return replace(work, spec=insisted(work.spec, wish))

    def spec(self, at: int, work: Work) -> JobSpec:
        spec = self.usual.spec(at, work)
        if work.insists is None or self.policy != PriorityCaps.name:
            return spec
        return _claimed(spec, work, heard(self.policy, work.insists))

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
    """The job as somebody signs it who insists on that, where all of it is read."""
    contract, timeout = spec.contract, spec.timeout if wish.limit is None else wish.limit
    if wish.min_runtime is not None:
        contract = replace(contract, min_runtime=wish.min_runtime)
        timeout = None if timeout is None else max(timeout, wish.min_runtime)
    if wish.stays:
        contract = replace(contract, resumable=False)
    return replace(spec, contract=contract, timeout=timeout, priority=HIGH if wish.highest else spec.priority)


def _protecting(work: Work) -> int:
    """A contract for work that is to have one."""
    return max(PROTECTED, work.spec.contract.min_runtime)


def _claimed(spec: JobSpec, work: Work, wish: Insists) -> JobSpec:
    """Under ``priority``, where a contract of any length is protection, and protects to the end."""
    if wish.highest:
        spec = replace(spec, priority=HIGH)
    if wish.stays:
        return replace(spec, contract=replace(spec.contract, min_runtime=_protecting(work)))
    if wish.min_runtime == 0:
        return replace(spec, contract=replace(spec.contract, min_runtime=0))
    return spec
