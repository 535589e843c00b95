"""Rule 4 to 7: usage ratios, the order of siblings, and who outranks whom. All comparisons are exact.

A ``Standing`` is one cluster at one moment for one kind of usage. Everything in it is fixed but for the path that
is charged during the pass, so figures and orders are computed once and forgotten only along that path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from tenure.core.ledger import Kind, Ledger
from tenure.core.model import GPU, HOUR, Policy
from tenure.core.tree import Tree


@dataclass(frozen=True, slots=True)
class Figures:
    """One node's numbers: usage plus commitments, and entitlement, over the lookback and over the last day.

    ``used`` and ``used_recent`` are thousandths of a GPU x ms; the entitlements are that x ``denominator``.
    """

    used: int
    entitled: int
    used_recent: int
    entitled_recent: int
    denominator: int

    def entitled_to(self, more: int) -> Figures:
        """The same with both entitlements raised by ``more``."""
        return Figures(self.used, self.entitled + more, self.used_recent, self.entitled_recent + more, self.denominator)

    def without(self, promise: int) -> Figures:
        """The same with both usages lowered by what was promised and is not any more."""
        used, recent = self.used - promise, self.used_recent - promise
        return Figures(used, self.entitled, recent, self.entitled_recent, self.denominator)

    def below_recent(self, shift: int = 0) -> bool:
        """Below its allocation over the last day, with ``shift`` added to its usage."""
        return (self.used_recent + shift) * self.denominator < self.entitled_recent

    def ratio_ppm(self) -> int:
        """The usage ratio in parts per million for people to read; -1 when it is entitled to nothing."""
        return self.used * self.denominator * 1_000_000 // self.entitled if self.entitled else -1

    def recent_ppm(self) -> int:
        return self.used_recent * self.denominator * 1_000_000 // self.entitled_recent if self.entitled_recent else -1


def compare(a: Figures, b: Figures, shift_a: int = 0, shift_b: int = 0) -> int:
    """Rule 5's order of two siblings without the id: negative when ``a`` comes first, 0 on a tie.

    ``shift_a`` and ``shift_b`` are added to their usage in both tests. An entitlement of 0 sorts last.
    """
    if not a.entitled or not b.entitled:
        return (not a.entitled) - (not b.entitled)
    below_a, below_b = a.below_recent(shift_a), b.below_recent(shift_b)
    if below_a != below_b:
        return -1 if below_a else 1
    left = (a.used + shift_a) * b.entitled
    right = (b.used + shift_b) * a.entitled
    return (left > right) - (left < right)


FAR = 1 << 200
"""A reach beyond any usage."""


def reach(a: Figures, b: Figures) -> int:
    """The largest shift for which ``a`` still comes strictly first, with it added to ``a`` and taken from ``b``.

    Negative when ``a`` does not come first even without a shift. This is ``compare`` solved for the shift: up to the
    smaller of two bounds only ``a`` is below its last day's allocation, up to the larger the ratios decide.
    """
    if not a.entitled:
        return -1
    if not b.entitled:
        return FAR
    a_below = (a.entitled_recent - 1) // a.denominator - a.used_recent
    b_not_below = b.used_recent + (-b.entitled_recent // b.denominator)
    by_ratio = (b.used * a.entitled - a.used * b.entitled - 1) // (a.entitled + b.entitled)
    return max(min(a_below, b_not_below), min(by_ratio, max(a_below, b_not_below)))


class Standing:
    """Figures, orders and outranking of one cluster at ``now`` for charged or unallocated usage."""

    def __init__(self, ledger: Ledger, tree: Tree, policy: Policy, kind: Kind, now: int) -> None:
        self.ledger = ledger
        self.tree = tree
        self.policy = policy
        self.kind = kind
        self.now = now
        self._figures: dict[str, Figures] = {}
        self._reaches: dict[str, dict[str, int]] = {}
        self._people: dict[str, dict[str, int]] = {}

    def figures(self, path: str) -> Figures:
        known = self._figures.get(path)
        if known is None:
            known = self._figures[path] = self._measure(path)
        return known

    def _measure(self, path: str) -> Figures:
        ledger, now, policy = self.ledger, self.now, self.policy
        account = ledger.account(path)
        promised = account.promised[self.kind].at(now)
        return Figures(
            account.usage(self.kind, now - policy.lookback, now) + promised,
            ledger.entitlement(path, policy.lookback, policy.entitlement_floor, now),
            account.usage(self.kind, now - policy.recent, now) + promised,
            ledger.entitlement(path, policy.recent, policy.entitlement_floor, now),
            self.tree.denominators[path],
        )

    def rise(self, path: str) -> int:
        """How much the usage of a node rises in a ms at most while nothing is charged to it."""
        account = self.ledger.account(path)
        rise = account.used[self.kind].rate - account.promised[self.kind].rate
        if self.kind is Kind.CHARGED:
            rise += sum(amount for _, _, amount in account.credits)
        return rise

    def falls(self, path: str, window: int, room: int) -> int:
        """Until when the usage of a node over ``window`` falls by at most ``room``, if nothing is charged to it.

        It falls by what leaves the window: what runs out of promises is being used.
        """
        until = self.ledger.account(path).used[self.kind].until(self.now - window, room)
        return until + window + 1 if until is not None else 1 << 62

    def charged(self, leaf: str) -> None:
        """What is used by or promised to ``leaf`` changed: forget what was known along its path."""
        for path in self.tree.line(leaf)[1:]:
            self._figures.pop(path, None)
            self._reaches.pop(path, None)
            for sibling in self.tree.siblings[path]:
                if sibling in self._reaches:
                    self._reaches[sibling].pop(path, None)
        self._people.pop(leaf, None)

    def promise(self, leaf: str, user: str, worth: int) -> None:
        """Count ``worth`` as promised to a person in ``leaf``, though nothing is: to see what then follows."""
        changed = {path: self.figures(path).without(-worth) for path in self.tree.line(leaf)}
        person = self.person_used(leaf, user) + worth
        self.charged(leaf)
        self._figures.update(changed)
        self._people.setdefault(leaf, {})[user] = person

    def order(self, siblings: Sequence[str]) -> list[str]:
        """Siblings, given by id, first come first: below their last day's allocation, lower ratio, id."""
        return sorted(siblings, key=cmp_to_key(self._compare)) if len(siblings) > 1 else list(siblings)

    def first(self, siblings: Sequence[str]) -> str:
        """The first of ``order``."""
        best = siblings[0]
        for other in siblings[1:]:
            if self._compare(other, best) < 0:
                best = other
        return best

    def _compare(self, a: str, b: str) -> int:
        return compare(self.figures(a), self.figures(b))

    def person_used(self, leaf: str, user: str) -> int:
        """What the person was charged in this leaf over the lookback, promises included."""
        people = self._people.setdefault(leaf, {})
        known = people.get(user)
        if known is None:
            account, known = self.ledger.people.get((leaf, user)), 0
            if account is not None:
                known = account.usage(self.kind, self.now - self.policy.lookback, self.now)
                known += account.promised[self.kind].at(self.now)
            people[user] = known
        return known

    def fork(self, leaf: str, victim_leaf: str) -> tuple[str, str] | None:
        """The two children of the lowest common ancestor, towards each leaf; None when it is one leaf."""
        for a, b in zip(self.tree.line(leaf), self.tree.line(victim_leaf), strict=False):
            if a != b:
                return a, b
        return None

    def margin(self, amount: int) -> int:
        """Rule 7's margin of a job of ``amount`` thousandths of a GPU: thousandths of a GPU x ms."""
        return amount * self.policy.preemption_margin

    def reach(self, child: str, sibling: str) -> int:
        """The largest margin with which ``child`` outranks ``sibling``, rule 7 across budgets (see ``reach``)."""
        known = self._reaches.setdefault(child, {})
        if sibling not in known:
            known[sibling] = reach(self.figures(child), self.figures(sibling))
        return known[sibling]

    def reach_without(self, child: str, sibling: str, promise: int) -> int:
        """The reach, if ``promise`` below ``child`` were given up."""
        if not promise:
            return self.reach(child, sibling)
        return reach(self.figures(child).without(promise), self.figures(sibling))

    def reach_at_worst(self, child: str, sibling: str, horizon: int) -> tuple[int, int]:
        """The reach, were entitlements as favourable as they can become while that holds, and until when it does (ms).

        For ever, and the reach itself, when they do not drift.
        """
        ledger, window = self.ledger, self.policy.lookback
        mine = ledger.drift(child, window, self.now)
        theirs = ledger.drift(sibling, window, self.now)
        if not mine and not theirs:
            return self.reach(child, sibling), 1 << 62
        a, b = self.figures(child), self.figures(sibling)
        gain, loss = mine * horizon, theirs * horizon
        if min(b.entitled, b.entitled_recent) <= loss:
            return FAR, self.now + 1
        return reach(a.entitled_to(gain), b.entitled_to(-loss)), self.now + horizon

    def entitled(self, leaf: str) -> bool:
        """Whether the leaf has any share today."""
        return self.ledger.account(leaf).allocation > 0


def gpu_hours(amount_ms: int) -> str:
    """Thousandths of a GPU x ms as GPU-hours with two digits, exactly rounded down, for people."""
    sign = "-" if amount_ms < 0 else ""
    hundredths = abs(amount_ms) * 100 // (GPU * HOUR)
    return f"{sign}{hundredths // 100}.{hundredths % 100:02d}"
