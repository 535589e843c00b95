"""A budget's statement worked out from spans, attempts and reservations alone, one by one.

With nothing of the product's sums: what the numbers of ``tenure.balance`` must be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tenure.balance import Parts
from tenure.core.ledger import Kind, Span
from tenure.core.model import SHARE_ONE
from tenure.core.state import State


@dataclass(frozen=True)
class Entry:
    """One thing that counts: ``worth`` amount x ms of the part that is called ``part``."""

    part: str
    worth: int
    leaf: str
    user: str
    job: int


def entries(state: State, cluster: str, closed: Iterable[Span], now: int) -> list[Entry]:
    """All that counts in one cluster at ``now``."""
    since = now - state.policy.lookback
    found = []
    for span in closed:
        inside = max(0, min(span.end, now) - max(span.start, since)) * span.amount
        part = "unallocated" if span.kind is Kind.UNALLOCATED else "settled"
        worth = -inside if span.kind is Kind.CREDIT else inside
        found.append(Entry(part, worth, span.leaf, span.user, int(span.attempt_id.split(".")[0])))
    for name, span in state.clusters[cluster].ledger.open.items():
        part = "running" if span.kind is Kind.CHARGED else "unallocated"
        worth = max(0, now - max(span.start, since)) * span.amount
        found.append(Entry(part, worth, span.leaf, span.user, int(name.split(".")[0])))
    for job in state.jobs.values():
        attempt, held = job.attempt, job.reservation
        if attempt is not None and attempt.cluster == cluster and attempt.charged and attempt.stop is None:
            until = attempt.protected_until
            left = attempt.min_runtime if until is None else max(0, until - now)
            found.append(Entry("committed", attempt.amount * left, attempt.leaf, attempt.user, job.id))
        if held is not None and held.cluster == cluster:
            worth = held.amount * job.spec.contract.min_runtime
            found.append(Entry("reserved", worth, job.leaf, job.spec.user, job.id))
    return [entry for entry in found if entry.worth]


def parts(found: Iterable[Entry], keep: Callable[[Entry], bool]) -> Parts:
    sums = dict.fromkeys(("settled", "running", "committed", "reserved", "unallocated"), 0)
    for entry in found:
        if keep(entry):
            sums[entry.part] += entry.worth
    return Parts(**sums)


def under(path: str) -> Callable[[Entry], bool]:
    return lambda entry: (entry.leaf + "/").startswith(path + "/")


def entitled(state: State, cluster: str, path: str, now: int) -> int:
    """E of rule 4 as the ledger has it, rounded down to a thousandth of a GPU x ms."""
    policy = state.policy
    amount = state.clusters[cluster].ledger.entitlement(path, policy.lookback, policy.entitlement_floor, now)
    return amount // SHARE_ONE ** path.count("/")
