"""GPU time by the hour: exact integrals of what is occupied, wanted, free and lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenure.core.fairshare import Figures, Standing
from tenure.core.ledger import Kind
from tenure.core.model import GPU, HOUR
from tenure.core.series import Series
from tenure.core.state import ClusterState, State
from tenure.reports.records import BudgetHourRow, HourRow

SAMPLE = 10 * 60_000
"""How often it is asked what a policy keeps idle, ms: that is the one figure that is sampled."""


class Gauge:
    """A rate and its integral since it was last taken."""

    __slots__ = ("last", "rate", "total")

    def __init__(self, at: int) -> None:
        self.rate = 0
        self.total = 0
        self.last = at

    def add(self, at: int, change: int) -> None:
        self.total += self.rate * (at - self.last)
        self.last = at
        self.rate += change

    def set(self, at: int, rate: int) -> None:
        if rate != self.rate:
            self.add(at, rate - self.rate)

    def take(self, at: int) -> int:
        self.add(at, 0)
        total, self.total = self.total, 0
        return total


class _Leaf:
    """One leaf of the tree on one cluster."""

    __slots__ = ("delivered", "demand", "free", "lost", "used")

    def __init__(self, at: int) -> None:
        self.demand = Gauge(at)
        self.delivered = Gauge(at)
        self.free = Gauge(at)
        self.lost = 0
        self.used = Series()
        """What is delivered, over the lookback: kept where the ledger does not know it."""


class ClusterMeter:
    """One cluster, from ``start`` on.

    ``by_ledger``: usage ratios are the ledger's. Under other policies than budgets it counts what was claimed, which
    may be otherwise than the budgets fund.
    """

    def __init__(self, name: str, start: int, *, by_ledger: bool) -> None:
        self.name = name
        self.by_ledger = by_ledger
        self.leaves: dict[str, _Leaf] = {}
        self.hour = start
        self.declared = Gauge(start)
        self.healthy = Gauge(start)
        self.funded = Gauge(start)
        self.unfunded = Gauge(start)
        self.idle = Gauge(start)
        """Free GPUs while somebody waits."""
        self.withheld = Gauge(start)
        self.wanted = Gauge(start)
        self.wanted_unfunded = Gauge(start)

    def leaf(self, name: str, at: int) -> _Leaf:
        found = self.leaves.get(name)
        if found is None:
            found = self.leaves[name] = _Leaf(at)
        return found

    def configure(self, gpus: int, leaves: Iterable[str], at: int) -> None:
        """The cluster has ``gpus`` GPUs and these leaves from ``at`` on. Those that are gone are kept."""
        self.declared.set(at, gpus * GPU)
        for leaf in leaves:
            self.leaf(leaf, at)

    def occupy(self, leaf: str, funded: bool, amount: int, at: int) -> None:
        """An attempt of ``leaf`` takes ``amount`` from ``at`` on; a negative amount gives back."""
        (self.funded if funded else self.unfunded).add(at, amount)
        place = self.leaf(leaf, at)
        (place.delivered if funded else place.free).add(at, amount)
        if funded and not self.by_ledger:
            place.used.change(at, amount)

    def want(self, leaf: str, funded: bool, amount: int, at: int) -> None:
        if funded:
            self.wanted.add(at, amount)
            self.leaf(leaf, at).demand.add(at, amount)
        else:
            self.wanted_unfunded.add(at, amount)

    def look(self, cluster: ClusterState, at: int) -> None:
        """After a step: what is healthy, and what is free although somebody waits."""
        self.healthy.set(at, cluster.ledger.healthy_gpus * GPU)
        waiting = any(queue.leaves for queue in cluster.queues.values())
        self.idle.set(at, cluster.room.free_gpus * GPU if waiting else 0)

    def close(self, state: State, cluster: ClusterState, at: int) -> tuple[HourRow, Sequence[BudgetHourRow]]:
        """The rows of the hour that ends at ``at``."""
        start, length = self.hour, at - self.hour
        self.hour = at
        withheld, idle = self.withheld.take(at), self.idle.take(at)
        row = HourRow(
            self.name,
            start,
            length,
            self.declared.take(at),
            self.healthy.take(at),
            self.funded.take(at),
            self.unfunded.take(at),
            max(0, idle - withheld),
            min(withheld, idle),
            self.wanted.take(at),
            self.wanted_unfunded.take(at),
        )
        tree = state.the_tree()
        standing, entitled_now = Standing(cluster.ledger, tree, state.policy, Kind.CHARGED, at), set(tree.leaves())
        budgets = []
        for name, leaf in self.leaves.items():
            lost, leaf.lost = leaf.lost, 0
            demand, delivered, free = leaf.demand.take(at), leaf.delivered.take(at), leaf.free.take(at)
            entitled, ratios = 0, (-1, -1)
            if name in entitled_now:  # else it is gone, or an inner node by now
                entitled = cluster.ledger.account(name).entitled.window(start, at) // tree.denominator(name)
            if not (entitled or demand or delivered or free or lost):
                continue
            if name in entitled_now:
                figures = self._figures(standing, name, leaf)
                ratios = figures.ratio_ppm(), figures.recent_ppm()
            budgets.append(
                BudgetHourRow(self.name, start, length, name, entitled, demand, delivered, lost, free, *ratios)
            )
        return row, budgets

    def _figures(self, standing: Standing, name: str, leaf: _Leaf) -> Figures:
        """What its usage ratios are made of."""
        if self.by_ledger:
            return standing.figures(name)
        ledger, policy, at = standing.ledger, standing.policy, standing.now
        leaf.used.trim(at - max(policy.lookback, policy.recent))
        return Figures(
            leaf.used.window(at - policy.lookback, at),
            ledger.entitlement(name, policy.lookback, policy.entitlement_floor, at),
            leaf.used.window(at - policy.recent, at),
            ledger.entitlement(name, policy.recent, policy.entitlement_floor, at),
            standing.tree.denominator(name),
        )


def next_hour(start: int, at: int) -> int:
    """The end of the hour, counted from ``start``, in which ``at`` lies."""
    return at + HOUR - (at - start) % HOUR
