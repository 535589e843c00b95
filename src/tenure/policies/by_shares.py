"""What both Fair Schedulers do in the same way: queues that go short of a share for long enough take it from others.

For how long is read from the ledger and the queue: nothing is remembered from pass to pass.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from tenure.core.ledger import OCCUPANCY, Kind, Ledger
from tenure.core.model import GPU
from tenure.core.reasons import Because, Reason
from tenure.core.state import Attempt, Job
from tenure.policies.queue_tree import QueueNode, Queues
from tenure.policies.queues import QueuePolicy
from tenure.policies.yarn_shares import Amount, Queue, order, starved

Shares = dict[str, Fraction]
"""Queue -> fair share, thousandths of a GPU."""
_KEPT = 1_000
"""Sets of fair shares."""
Due = tuple[bool, bool]
"""Whether a queue may take others' for its minimum share, and for its fair share."""


@dataclass(slots=True)
class _Known:
    """What was worked out in a pass."""

    queues: Queues
    shares: Shares
    least: dict[str, int]
    """Queue -> what it keeps of its fair share whoever goes short: a whole number, as what it holds."""
    due: dict[str, Due]
    """Queues that had gone short for long enough when the pass began."""
    held: object = None
    """Until somebody gets something, this holds:"""
    owed: list[str] = field(default_factory=list)
    """Queues that may take something from others, the first in need first."""
    line: list[Attempt] | None = None
    """Who may be stopped, once somebody has asked."""
    most: int | None = None
    """GPUs of a job for which they could make room at most, once somebody has asked."""


class BySharesPolicy(QueuePolicy):
    """Queues have minimum shares, in percent of what their allocations are worth, and fair shares.

    A charged job of a queue that is owed something may have jobs of others stopped; an unallocated one takes what is
    free. Raises ValueError for a percentage that is none.
    """

    preempts: ClassVar[bool] = True

    def __init__(self, min_share_percent: int) -> None:
        self.min_share_percent = percentage("min_share_percent", min_share_percent)
        self._known: _Known | None = None
        self._shares: dict[object, tuple[Shares, dict[str, int]]] = {}
        """Fair shares, and what is kept of them, by all that they depend on: the same again and again."""

    @abstractmethod
    def queue_of(self, queues: Queues, node: QueueNode) -> Queue:
        """A budget as a queue; amounts in thousandths of a GPU."""

    @abstractmethod
    def fair_shares(self, queues: Queues) -> Shares:
        """The fair shares of all queues now."""

    @abstractmethod
    def wants(self, queues: Queues) -> tuple[object, ...]:
        """What fair shares depend on besides the tree with its allocations and the healthy GPUs."""

    def kept(self, share: Fraction) -> int:
        """What nobody takes from a queue with such a fair share: all of it. Thousandths of a GPU."""
        return -(-share.numerator // share.denominator)

    @abstractmethod
    def due(self, queues: Queues, queue: Queue, share: Fraction) -> Due:
        """Whether a queue has gone short for long enough of its minimum share, and of its fair share."""

    @abstractmethod
    def lack(self, queue: Queue, share: Fraction, due: Due) -> Amount:
        """What a queue may take from others then."""

    @abstractmethod
    def goers(self, queues: Queues, least: Mapping[str, int]) -> Iterable[Attempt]:
        """Attempts without which no queue would have less than ``least``, in the order in which they go."""

    def preempting(self, queues: Queues) -> bool:
        """Whether anybody is stopped at all now."""
        return True

    def protected(self, attempt: Attempt, now: int) -> bool:
        """Nobody: whether an attempt may be stopped depends on what its queue holds."""
        return False

    def starved(self, queues: Queues) -> Iterable[str]:
        return self._now(queues).owed

    def victims(self, queues: Queues, job: Job) -> list[tuple[Attempt, Because]]:
        known = self._now(queues)
        # A complete claim of an unallocated job is given back, so it would be evicted for again and again.
        if not job.spec.charged or job.leaf not in known.owed:
            return []
        if known.most is None:
            held, least = staying(queues), known.least
            spare = sum(max(0, held[leaf.path] - least[leaf.path]) for leaf in queues.leaves)
            known.most = queues.cluster.room.free_gpus + queues.root.leaving.gpus + spare // GPU
        if job.spec.gpus > known.most:
            return []
        if known.line is None:
            known.line = list(self.goers(queues, known.least))
        return [(attempt, _because(job, attempt)) for attempt in known.line]

    def minimum(self, queues: Queues, node: QueueNode) -> int:
        """A budget's minimum share now, thousandths of a GPU, rounded down."""
        return node.allocation * queues.capacity.gpus * GPU * self.min_share_percent // (node.denominator * 100)

    def _now(self, queues: Queues) -> _Known:
        known = self._known
        if known is None or known.queues is not queues:
            known = self._known = self._begin(queues)
        held = queues.root.amount, queues.root.leaving
        if known.held != held:
            short = [self.queue_of(queues, queues.nodes[path]) for path in known.due]
            owed = [queue for queue in short if self.lack(queue, known.shares[queue.name], known.due[queue.name]) > 0]
            known.owed = [queue.name for queue in sorted(owed, key=order)]
            known.held, known.line, known.most = held, None, None
        return known

    def _begin(self, queues: Queues) -> _Known:
        waiting = queues.cluster.queues[Kind.CHARGED].leaves
        if not waiting or not self.preempting(queues):
            return _Known(queues, {}, {}, {})
        (shares, least), due = self._shares_of(queues), dict[str, Due]()
        for leaf in queues.leaves:
            if leaf.path in waiting and leaf.amount < max(least[leaf.path], self.minimum(queues, leaf)):
                found = self.due(queues, self.queue_of(queues, leaf), shares[leaf.path])
                if any(found):
                    due[leaf.path] = found
        return _Known(queues, shares, least, due)

    def _shares_of(self, queues: Queues) -> tuple[Shares, dict[str, int]]:
        allocations = tuple(node.allocation for node in queues.nodes.values())
        key = queues.state.the_tree(), allocations, queues.capacity.gpus, self.wants(queues)
        known = self._shares.get(key)
        if known is None:
            if len(self._shares) >= _KEPT:
                self._shares.clear()
            shares = self.fair_shares(queues)
            least = {path: self.kept(share) for path, share in shares.items()}
            known = self._shares[key] = shares, least
        return known


def percentage(setting: str, value: int) -> int:
    """Raises ValueError for a percentage that is none."""
    if not 0 <= value <= 100:
        raise ValueError(f"{setting} = {value}: must be between 0 and 100")
    return value


def demand(queues: Queues, node: QueueNode) -> int:
    """What a budget holds, and the GPUs that its waiting jobs ask for; thousandths of a GPU."""
    return node.amount + (queues.demand(node.path).gpus - node.used.gpus) * GPU


def in_need(queues: Queues, queue: Queue, share: Amount, timeout: int) -> bool:
    """Whether a queue uses less than a share, and than it wants, and has done so for ``timeout`` ms.

    Measured by the share that it has now. That charged jobs have waited all the time is known if one of those that wait
    now has.
    """
    since = queues.now - timeout
    return (
        starved(queue, share)
        and _waits_since(queues, queue.name, since)
        and _below(queues.cluster.ledger, queue.name, share, since)
    )


def _waits_since(queues: Queues, leaf: str, since: int) -> bool:
    jobs = queues.state.jobs
    return any(
        jobs[job_id].queued_at <= since
        for group in queues.cluster.queues[Kind.CHARGED].leaves.get(leaf, {}).values()
        for ages in group.people.values()
        for _, job_id in ages
    )


def _below(ledger: Ledger, leaf: str, amount: Amount, since: int) -> bool:
    """Whether a queue has held less than ``amount`` all the time from ``since`` on; thousandths of a GPU."""
    changes: list[tuple[int, int]] = []
    held = 0
    for kind in OCCUPANCY:
        series = ledger.account(leaf).used[kind]
        i = bisect_right(series.times, since)
        rate = series.rates[i - 1] if i else 0
        held += rate
        for at, later in zip(series.times[i:], series.rates[i:], strict=True):
            changes.append((at, later - rate))
            rate = later
    changes.sort()  # at one moment who leaves is before who comes: nobody held both
    for change in (0, *(change for _, change in changes)):
        held += change
        if held >= amount:
            return False
    return True


def staying(queues: Queues) -> dict[str, int]:
    """Path -> what every budget holds and claims, thousandths of a GPU, without whoever is being stopped."""
    held = {node.path: node.amount for node in queues.nodes.values()}
    for leaf in queues.leaves:
        going = sum(attempt.amount for attempt in leaf.attempts.values() if attempt.stop is not None)
        for node in queues.line(leaf.path) if going else ():
            held[node.path] -= going
    return held


def evictable(queues: Queues, leaf: QueueNode) -> list[Attempt]:
    """Attempts of a queue that may be stopped, in no particular order.

    Nobody goes in the moment in which it starts: what starts and goes at once could do so for ever.
    """
    now = queues.now
    return [a for a in leaf.attempts.values() if a.stop is None and a.started_at is not None and a.started_at < now]


def _because(job: Job, attempt: Attempt) -> Because:
    return Because(Reason.EVICTED_STANDING, {"first": job.leaf, "gainer": job.id, "second": attempt.leaf})
