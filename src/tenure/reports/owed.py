"""What budgets were owed hour by hour and what they got: M1, its strict form, M3, net of losses, the worst week.

Shares are per cluster, so a surplus on one cluster does not make up for a shortfall on another: everything is capped
per cluster and budget, and added up over clusters afterwards. Amounts are amount x ms throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction

from tenure.core.model import DAY
from tenure.core.tree import line_of
from tenure.reports.filling import Shape
from tenure.reports.records import BudgetHourRow, HourRow, Run

WEEK = 7 * DAY
PART_WEEK = 3 * DAY
"""A last week that is shorter does not count."""
LEAST_OWED = Fraction(1, 100)
"""Of what it was entitled to: a budget that was owed less in a week is not judged by that week."""


@dataclass(slots=True)
class Account:
    """Sums over hours; ``within``, ``net`` and ``filled_within`` are capped and so made last, by ``close``.

    ``owed``: min(entitled, demand) of each hour. ``within``: min(delivered, owed). ``met``: what was delivered of what
    was owed in the same hour. ``net``: like ``within``, of what was delivered and not lost. ``filled``: M3's share;
    ``filled_within``, ``filled_met`` as for ``owed``. ``surplus``: delivered above the entitlement of the same hour.
    """

    entitled: int = 0
    demand: int = 0
    owed: int = 0
    delivered: int = 0
    lost: int = 0
    free: int = 0
    met: int = 0
    filled: int = 0
    filled_met: int = 0
    surplus: int = 0
    within: int = 0
    net: int = 0
    filled_within: int = 0

    def close(self) -> None:
        self.within = min(self.delivered, self.owed)
        self.net = min(max(0, self.delivered - self.lost), self.owed)
        self.filled_within = min(self.delivered, self.filled)

    def add(self, other: Account) -> None:
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_SUMS = tuple(field.name for field in fields(Account))


@dataclass(frozen=True, slots=True)
class Week:
    """A budget's week: ``number`` from 0, the end of the warm-up."""

    number: int
    budget: str
    owed: int
    within: int

    @property
    def delivered(self) -> Fraction:
        return Fraction(self.within, self.owed)


@dataclass(slots=True)
class Standings:
    """``budgets``: leaf -> its account over all clusters. ``weeks``: those budget-weeks that count."""

    budgets: dict[str, Account]
    weeks: list[Week]

    def total(self) -> Account:
        total = Account()
        for account in self.budgets.values():
            total.add(account)
        return total

    def programs(self) -> dict[str, Account]:
        """Accounts by the first level below the root, or by the root when it is a leaf itself."""
        programs: dict[str, Account] = {}
        for budget, account in self.budgets.items():
            programs.setdefault(program_of(budget), Account()).add(account)
        return dict(sorted(programs.items()))

    def owed(self) -> dict[str, Account]:
        """The budgets that were owed anything: those that metrics of budgets are about."""
        return {budget: account for budget, account in self.budgets.items() if account.owed > 0}

    def worst(self) -> Fraction | None:
        return min((Fraction(a.within, a.owed) for a in self.owed().values()), default=None)

    def at_least(self, share: Fraction) -> int:
        """How many budgets got at least this share of what they were owed."""
        return sum(Fraction(a.within, a.owed) >= share for a in self.owed().values())

    def worst_week(self, budget: str | None = None) -> Week | None:
        weeks = [week for week in self.weeks if budget is None or week.budget == budget]
        return min(weeks, key=lambda week: (week.delivered, week.number, week.budget), default=None)


def program_of(budget: str) -> str:
    line = line_of(budget)
    return line[min(1, len(line) - 1)]


def measured_from(run: Run) -> int:
    """From when on metrics count, ms UTC: the end of the warm-up. Hours that began earlier are left out whole."""
    return run.start + run.warmup


def standings(run: Run) -> Standings:
    """Accounts of every leaf after the warm-up, and its weeks."""
    since = measured_from(run)
    rows = [row for row in run.budget_hours if row.start >= since]
    fills = water_filled(rows, [row for row in run.hours if row.start >= since])
    accounts: dict[tuple[str, str], Account] = {}
    weekly: dict[tuple[int, str, str], Account] = {}
    for row in rows:
        filled = fills[row.cluster, row.start][row.budget]
        _book(accounts.setdefault((row.budget, row.cluster), Account()), row, filled)
        week = (row.start - since) // WEEK
        _book(weekly.setdefault((week, row.budget, row.cluster), Account()), row, filled)
    budgets: dict[str, Account] = {}
    for (budget, _), account in sorted(accounts.items()):
        account.close()
        budgets.setdefault(budget, Account()).add(account)
    return Standings(budgets, _weeks(weekly, run.until - since))


def water_filled(rows: Iterable[BudgetHourRow], hours: Iterable[HourRow]) -> dict[tuple[str, int], dict[str, int]]:
    """(cluster, hour) -> leaf -> what M3 gives it: the hour's healthy GPUs, filled down the tree."""
    by_hour: dict[tuple[str, int], list[BudgetHourRow]] = {}
    for row in rows:
        by_hour.setdefault((row.cluster, row.start), []).append(row)
    healthy = {(row.cluster, row.start): row.healthy for row in hours}
    shapes: dict[frozenset[str], Shape] = {}
    fills = {}
    for hour, leaves in by_hour.items():
        names = frozenset(row.budget for row in leaves)
        shape = shapes.get(names)
        if shape is None:
            shape = shapes[names] = Shape(names)
        wants = {row.budget: row.demand for row in leaves}
        weights = {row.budget: row.entitled for row in leaves}
        fills[hour] = shape.fill(healthy.get(hour, sum(weights.values())), wants, weights)
    return fills


def _book(account: Account, row: BudgetHourRow, filled: int) -> None:
    owed = min(row.entitled, row.demand)
    account.entitled += row.entitled
    account.demand += row.demand
    account.owed += owed
    account.delivered += row.delivered
    account.lost += row.lost
    account.free += row.free
    account.met += min(row.delivered, owed)
    account.filled += filled
    account.filled_met += min(row.delivered, filled)
    account.surplus += max(0, row.delivered - row.entitled)


def _weeks(weekly: Mapping[tuple[int, str, str], Account], length: int) -> list[Week]:
    """Budget-weeks that are long enough and in which enough was owed, in order."""
    merged: dict[tuple[int, str], Account] = {}
    for (number, budget, _), account in sorted(weekly.items()):
        if min(WEEK, length - number * WEEK) >= PART_WEEK:
            account.close()
            merged.setdefault((number, budget), Account()).add(account)
    return [
        Week(number, budget, account.owed, account.within)
        for (number, budget), account in merged.items()
        if account.owed > 0 and account.owed >= LEAST_OWED * account.entitled
    ]
