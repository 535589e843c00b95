"""Every metric of a run, exactly: integers inside, fractions at the edge.

``summary`` is what ``summary.json`` holds. docs/metrics.md explains each figure by a small example. Shares are
fractions of 1, waits seconds, GPU time GPU-hours; None stands where there was nothing to measure.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from tenure.core.model import DAY, SECOND
from tenure.reports.owed import Account, Standings, measured_from, standings
from tenure.reports.records import HourRow, Run, hours
from tenure.reports.waits import (
    CLASSES,
    DEBUG,
    FUNDED,
    GROUPS,
    LARGE,
    MID,
    PERCENTILES,
    Evictions,
    Waits,
    evictions,
    percentile,
    waits,
)
from tenure.units import format_time

Summary = dict[str, Any]
"""JSON-ready, with a stable order of keys."""
DIGITS = 6
AT_LEAST = Fraction(95, 100)


@dataclass(slots=True)
class Supply:
    """Sums over the hours of one cluster or of all, amount x ms. ``declared``: healthy or not."""

    declared: int = 0
    healthy: int = 0
    funded: int = 0
    unfunded: int = 0
    unusable: int = 0
    withheld: int = 0
    demand_funded: int = 0
    demand_unfunded: int = 0

    @property
    def occupied(self) -> int:
        return self.funded + self.unfunded

    def book(self, row: HourRow) -> None:
        for name in _OF_ROWS:
            setattr(self, name, getattr(self, name) + getattr(row, name))

    def add(self, other: Supply) -> None:
        for name in _OF_ROWS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_OF_ROWS = tuple(field.name for field in fields(Supply))


def supplies(run: Run) -> dict[str, Supply]:
    """Cluster -> what it had and did after the warm-up."""
    since = measured_from(run)
    found = {cluster: Supply() for cluster in run.hosts}
    for row in run.hours:
        if row.start >= since:
            found[row.cluster].book(row)
    return found


def gpus_of(run: Run, cluster: str) -> int:
    """Of all hosts that the cluster had at some time."""
    return sum(gpus for _, gpus in run.hosts[cluster])


def lost_time(run: Run) -> int:
    """What attempts lost, amount x ms, of those that ended after the warm-up or ran on: losses come with ends."""
    since = measured_from(run)
    return sum(row.lost for row in run.attempts if row.ended is None or row.ended >= since)


def summary(run: Run) -> Summary:
    """All metrics of ``run`` after its warm-up."""
    owed = standings(run)
    clusters = supplies(run)
    supply = Supply()
    for part in clusters.values():
        supply.add(part)
    waited = waits(run)
    evicted = evictions(run)
    lost = lost_time(run)
    return {
        "policy": run.policy,
        "seed": run.seed,
        "gpus": sum(gpus_of(run, cluster) for cluster in run.hosts),
        "days": _days(run.until - run.start),
        "jobs": len(run.jobs),
        "events": run.events,
        "wall_s": round(run.wall_s, DIGITS),
        **_delivery(owed),
        "occupancy": share(supply.occupied, supply.healthy),
        "unallocated_share": share(supply.unfunded, supply.occupied),
        "demand_over_supply": share(supply.demand_funded + supply.demand_unfunded, supply.healthy),
        **_main_waits(waited),
        "evictions_per_charged_job": share(evicted.of(DEBUG, MID, LARGE), evicted.starts(DEBUG, MID, LARGE)),
        "evictions_per_mid_job": share(evicted.of(MID), evicted.starts(MID)),
        "lost_share": share(lost, supply.occupied),
        **_more_of_budgets(owed, supply),
        **_more_of_supply(supply),
        **_other_waits(waited),
        **_more_evictions(evicted),
        "gpu_hours": _gpu_hours(supply, owed.total(), lost),
        "per_budget": [_of_budget(owed, budget) for budget in owed.budgets],
        "per_program": [_of_program(program, account) for program, account in owed.programs().items()],
        "per_cluster": [_of_cluster(run, cluster, part) for cluster, part in clusters.items()],
        **_about(run),
    }


def share(part: int, whole: int) -> float | None:
    """``part / whole`` to six decimals; None where there is no whole."""
    return round(part / whole, DIGITS) if whole else None


def _fraction(value: Fraction | None) -> float | None:
    return None if value is None else share(value.numerator, value.denominator)


def _days(ms: int) -> float:
    return round(ms / DAY, DIGITS)


def _hours(amount_ms: int) -> float:
    return round(hours(amount_ms), DIGITS)


def _delivery(owed: Standings) -> Summary:
    total = owed.total()
    week = owed.worst_week()
    return {
        "m1_delivered": share(total.within, total.owed),
        "m1_strict": share(total.met, total.owed),
        "m1_worst": _fraction(owed.worst()),
        "m1_worst_week": None if week is None else _fraction(week.delivered),
        "m3_delivered": share(total.filled_within, total.filled),
        "budgets_at_95": owed.at_least(AT_LEAST),
        "budgets": len(owed.owed()),
    }


def _more_of_budgets(owed: Standings, supply: Supply) -> Summary:
    total = owed.total()
    week = owed.worst_week()
    return {
        "m1_net": share(total.net, total.owed),
        "m3_strict": share(total.filled_met, total.filled),
        "m1_worst_week_budget": None if week is None else week.budget,
        "m1_worst_week_number": None if week is None else week.number + 1,
        "impact": share(total.within, supply.occupied),
        "funded_lost_share": share(total.lost, total.delivered),
        "surplus_share": share(total.surplus, total.delivered),
    }


def _more_of_supply(supply: Supply) -> Summary:
    return {
        "availability": share(supply.healthy, supply.declared),
        "funded_share": share(supply.funded, supply.occupied),
        "funded_occupancy": share(supply.funded, supply.healthy),
        "unfunded_occupancy": share(supply.unfunded, supply.healthy),
        "funded_demand_over_supply": share(supply.demand_funded, supply.healthy),
        "fragmentation_share": share(supply.unusable, supply.healthy),
        "withheld_share": share(supply.withheld, supply.healthy),
    }


def _wait(values: list[int], percent: int) -> float | None:
    found = percentile(values, percent)
    return None if found is None else round(found / SECOND, DIGITS)


def _main_waits(waited: dict[str, Waits]) -> Summary:
    """Those that comparisons begin with, to the start; ``wait_`` is over all funded jobs."""
    return {wait_key(group, "wait", p): _wait(waited[group].to_start, p) for group, p in _MAIN}


_MAIN = ((DEBUG, 50), (DEBUG, 90), (MID, 90), (MID, 99), (FUNDED, 50), (FUNDED, 90), (LARGE, 90))


def wait_key(group: str, what: str, percent: int) -> str:
    prefix = "" if group == FUNDED else f"{group}_"
    return f"{prefix}{what}_p{percent}_s"


def _other_waits(waited: dict[str, Waits]) -> Summary:
    found: Summary = {}
    for group in GROUPS:
        of_group = waited[group]
        for percent in PERCENTILES:
            if (group, percent) not in _MAIN:
                found[wait_key(group, "wait", percent)] = _wait(of_group.to_start, percent)
        for percent in PERCENTILES:
            found[wait_key(group, "decision", percent)] = _wait(of_group.to_decision, percent)
        found[f"{group}_jobs"] = len(of_group.to_start)
        found[f"{group}_never_started"] = of_group.never_started
    return found


def _more_evictions(evicted: Evictions) -> Summary:
    return {
        "evictions": evicted.of(*CLASSES),
        "evictions_by_class": {name: evicted.of(name) for name in CLASSES},
        "evictions_by_reason": evicted.by_reason(),
        "evictions_by_class_and_reason": evicted.counts,
        "jobs_started_by_class": evicted.started,
    }


def _gpu_hours(supply: Supply, total: Account, lost: int) -> Summary:
    return {
        "declared": _hours(supply.declared),
        "healthy": _hours(supply.healthy),
        "funded": _hours(supply.funded),
        "unfunded": _hours(supply.unfunded),
        "idle": _hours(supply.healthy - supply.occupied),
        "unusable": _hours(supply.unusable),
        "withheld": _hours(supply.withheld),
        "demand_funded": _hours(supply.demand_funded),
        "demand_unfunded": _hours(supply.demand_unfunded),
        "lost": _hours(lost),
        "funded_lost": _hours(total.lost),
        "entitled": _hours(total.entitled),
        "owed": _hours(total.owed),
        "within_owed": _hours(total.within),
        "met": _hours(total.met),
        "surplus": _hours(total.surplus),
        "filled": _hours(total.filled),
        "filled_within": _hours(total.filled_within),
    }


def _of_budget(owed: Standings, budget: str) -> Summary:
    account = owed.budgets[budget]
    week = owed.worst_week(budget)
    return {
        "budget": budget,
        "m1_delivered": share(account.within, account.owed),
        "m1_strict": share(account.met, account.owed),
        "m1_net": share(account.net, account.owed),
        "m1_worst_week": None if week is None else _fraction(week.delivered),
        "m3_delivered": share(account.filled_within, account.filled),
        "entitled_gpu_hours": _hours(account.entitled),
        "demand_gpu_hours": _hours(account.demand),
        "owed_gpu_hours": _hours(account.owed),
        "delivered_gpu_hours": _hours(account.delivered),
        "lost_gpu_hours": _hours(account.lost),
        "surplus_gpu_hours": _hours(account.surplus),
        "free_gpu_hours": _hours(account.free),
    }


def _of_program(program: str, account: Account) -> Summary:
    return {
        "program": program,
        "impact": share(account.within, account.delivered + account.free),
        "m1_delivered": share(account.within, account.owed),
        "owed_gpu_hours": _hours(account.owed),
        "delivered_gpu_hours": _hours(account.delivered),
        "free_gpu_hours": _hours(account.free),
    }


def _of_cluster(run: Run, cluster: str, supply: Supply) -> Summary:
    return {
        "cluster": cluster,
        "gpus": gpus_of(run, cluster),
        "occupancy": share(supply.occupied, supply.healthy),
        "unallocated_share": share(supply.unfunded, supply.occupied),
        "demand_over_supply": share(supply.demand_funded + supply.demand_unfunded, supply.healthy),
        **_more_of_supply(supply),
    }


def _about(run: Run) -> Summary:
    return {
        "warmup_days": _days(run.warmup),
        "measured_days": _days(max(0, run.until - measured_from(run))),
        "steps": run.steps,
        "plans": run.plans,
        "peak_mib": run.peak_mib,
        "workload": run.workload,
        "settings": dict(run.settings),
        "complete": run.complete,
        "simulated_until": format_time(run.until),
        "notes": list(run.notes),
    }
