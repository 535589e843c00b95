"""The ledger of one cluster: who occupied what, what is promised, what each node is entitled to.

Occupancy is kept as spans, appended and never edited. Each node of a span's path, and the user in the leaf, has a
running sum (``Series``), so any window of any node is two bisections, and children add up to their parent because
every change is written to the whole path. Sums are in thousandths of a GPU x ms.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.core.model import GPU, HOUR
from tenure.core.series import Series
from tenure.core.spans import OCCUPANCY, Kind, OpenSpan, Span
from tenure.core.tree import line_of

__all__ = ["OCCUPANCY", "Kind", "OpenSpan", "Span"]
"""What is at home elsewhere and found here as well."""


class Promise:
    """The sum of amount x time left of several promises, linear in time and exact.

    A promise is either fixed (its clock has not begun: ``amount`` x duration) or runs out at a known time.
    """

    __slots__ = ("fixed", "rate", "weighted_end")

    def __init__(self) -> None:
        self.fixed = 0
        self.rate = 0
        self.weighted_end = 0

    def at(self, now: int) -> int:
        return self.fixed + self.weighted_end - self.rate * now

    def run(self, amount: int, end: int) -> None:
        """Add a promise that runs out at ``end``. A negative ``amount`` takes it away again."""
        self.rate += amount
        self.weighted_end += amount * end


@dataclass(slots=True)
class Account:
    """Sums of one node, or of one user in a leaf (which has no entitlement)."""

    used: dict[Kind, Series] = field(default_factory=lambda: {k: Series() for k in OCCUPANCY})
    promised: dict[Kind, Promise] = field(default_factory=lambda: {k: Promise() for k in OCCUPANCY})
    credits: list[tuple[int, int, int]] = field(default_factory=list)
    """(start, end, amount) of credit spans: few, since hosts fail rarely."""
    entitled: Series = field(default_factory=Series)
    """Rate: allocation numerator x healthy GPUs x GPU."""
    created: int | None = None
    allocation: int = 0

    def usage(self, kind: Kind, start: int, end: int) -> int:
        """Amount x ms over [start, end), less credits."""
        total = self.used[kind].window(start, end)
        if kind is Kind.CHARGED:
            for c_start, c_end, amount in self.credits:
                overlap = min(c_end, end) - max(c_start, start)
                if overlap > 0:
                    total -= amount * overlap
        return total


class Ledger:
    """Accounts by node path and by (leaf, user), and the open spans by attempt id."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.people: dict[tuple[str, str], Account] = {}
        self.open: dict[str, OpenSpan] = {}
        self.first_record: int | None = None
        self.healthy_gpus = 0
        self.charged: dict[Kind, set[str]] = {kind: set() for kind in OCCUPANCY}
        """Leaves whose usage or promises have changed since the last pass."""
        self.entitlements = 0
        """How often allocations or healthy GPUs have been set."""
        self._trimmed = 0
        self._grown: set[tuple[str, str]] = set()
        """Leaves and users whose accounts have grown since they were last trimmed."""
        self._credited: list[Account] = []
        self._touched: dict[tuple[str, str], tuple[Account, ...]] = {}

    def account(self, path: str) -> Account:
        account = self.accounts.get(path)
        if account is None:
            account = self.accounts[path] = Account()
        return account

    def person(self, leaf: str, user: str) -> Account:
        account = self.people.get((leaf, user))
        if account is None:
            account = self.people[leaf, user] = Account()
        return account

    def touched(self, leaf: str, user: str) -> tuple[Account, ...]:
        """The accounts that everything of ``user`` in ``leaf`` is written to; they stay the same for ever."""
        self._grown.add((leaf, user))
        known = self._touched.get((leaf, user))
        if known is None:
            known = (*(self.account(path) for path in line_of(leaf)), self.person(leaf, user))
            self._touched[leaf, user] = known
        return known

    def open_span(self, attempt_id: str, span: OpenSpan) -> None:
        """GPUs were assigned at ``span.start``. Raises ValueError when the attempt has an open span already."""
        if attempt_id in self.open:
            raise ValueError(f"attempt {attempt_id} has an open span already")
        self.open[attempt_id] = span
        self.charged[span.kind].add(span.leaf)
        for account in self.touched(span.leaf, span.user):
            account.used[span.kind].change(span.start, span.amount)

    def close_span(self, attempt_id: str, at: int) -> Span:
        """GPUs were released at ``at``. Raises KeyError when the attempt has no open span."""
        span = self.open.pop(attempt_id)
        self.charged[span.kind].add(span.leaf)
        for account in self.touched(span.leaf, span.user):
            account.used[span.kind].change(at, -span.amount)
        return Span(attempt_id, span.leaf, span.user, span.kind, span.amount, span.start, at)

    def credit(self, span: Span) -> None:
        """Take a credit span off the charge of the path it names."""
        self.charged[Kind.CHARGED].add(span.leaf)
        for account in self.touched(span.leaf, span.user):
            account.credits.append((span.start, span.end, span.amount))
            self._credited.append(account)

    def promise(self, leaf: str, user: str, kind: Kind, *, fixed: int = 0, amount: int = 0, end: int = 0) -> None:
        """Change what is promised: ``fixed`` amount x ms, and ``amount`` until ``end``; negative takes away."""
        self.charged[kind].add(leaf)
        for account in self.touched(leaf, user):
            promise = account.promised[kind]
            promise.fixed += fixed
            promise.run(amount, end)

    def take_usage(self, other: Ledger) -> None:
        """Have the sums of usage and the credits of ``other``, in which the same spans are open."""
        pairs = {}
        for leaf, user in sorted(self.people.keys() | other.people.keys()):
            for mine, theirs in zip(self.touched(leaf, user), other.touched(leaf, user), strict=True):
                pairs[id(mine)] = mine, theirs
        for mine, theirs in pairs.values():
            mine.used, mine.credits = theirs.used, theirs.credits
        self._credited = [mine for mine, _ in pairs.values() if mine.credits]
        for kind in OCCUPANCY:
            self.charged[kind].update(leaf for leaf, _ in self.people)

    def forget_entitlements(self, before: int) -> None:
        """Let go what no window from ``before`` on reads: longer ones, from now on, count the oldest that is known."""
        for account in self.accounts.values():
            entitled = account.entitled
            entitled.times, entitled.cums, entitled.rates = times, cums, rates = entitled.since(before)
            if times and account.created is not None and account.created < times[0]:
                cums[0] -= rates[0] * (times[0] - account.created)
                times[0] = account.created

    def set_allocations(self, allocations: dict[str, int], healthy_gpus: int, at: int) -> None:
        """Today's allocation numerators and healthy GPUs hold from ``at`` on; the past is not rewritten."""
        if self.first_record is None:
            self.first_record = at
        self.healthy_gpus = healthy_gpus
        self.entitlements += 1
        for path, account in self.accounts.items():
            if path not in allocations and account.created is not None:
                account.allocation = 0
                account.entitled.set(at, 0)
        for path, numerator in allocations.items():
            account = self.account(path)
            if account.created is None:
                account.created = at
                account.entitled.change(at, 0)  # of a share of 0 as well: it was that then, whatever it becomes
            account.allocation = numerator
            account.entitled.set(at, numerator * healthy_gpus * GPU)

    def entitlement(self, path: str, window: int, floor: int, now: int) -> int:
        """Rule 4's E of a node: thousandths of a GPU x ms x the node's denominator.

        Time before the cluster's first record counts with today's values, for nodes that were there then; before a
        budget existed its share was 0. At least ``floor`` ms of today's allocation.
        """
        account = self.accounts.get(path)
        if account is None or account.created is None or self.first_record is None:
            return 0
        today = account.allocation * self.healthy_gpus * GPU
        if account.created == self.first_record and len(account.entitled.rates) == 1:  # it has always been what it is
            return today * max(window, floor)
        start = now - window
        total = account.entitled.window(start, now)
        if start < self.first_record and account.created == self.first_record:
            total += today * (self.first_record - start)
        return max(total, today * floor)

    def drift(self, path: str, window: int, now: int) -> int:
        """How much the entitlement over ``window``, or less, changes in a ms at most while nothing is set."""
        account = self.account(path)
        rates = account.entitled.since(now - window)[2]
        if account.created != self.first_record and now - window < (account.created or now):
            rates.append(0)
        return max(rates, default=0) - min(rates, default=0)

    def trim_sometimes(self, before: int) -> None:
        """Forget what no window from ``before`` on reads, once an hour of the ledger's time."""
        if before - self._trimmed >= HOUR:
            self._trimmed = before
            self.trim(before)

    def trim(self, before: int) -> None:
        """Costs what was written since the last time."""
        for leaf, user in self._grown:
            for account in self._touched[leaf, user]:
                for series in account.used.values():
                    series.trim(before)
        self._grown.clear()
        for account in self.accounts.values():
            account.entitled.trim(before)
        for account in self._credited:
            account.credits = [c for c in account.credits if c[1] > before]
        self._credited = [account for account in self._credited if account.credits]
