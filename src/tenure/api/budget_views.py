"""The tree of budgets with what each node was owed, used and still promises."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.api.job_views import hours
from tenure.api.models import BudgetUsage, BudgetView
from tenure.core.fairshare import Figures, Standing
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import SHARE_ONE
from tenure.core.state import ClusterState, State


@dataclass(slots=True)
class _Counts:
    """Of one node on one cluster: jobs and whole GPUs."""

    running_jobs: int = 0
    running_gpus: int = 0
    unallocated_gpus: int = 0
    queued_jobs: int = 0
    queued_gpus: int = 0


def budget_views(state: State, now: int, cluster: str | None = None) -> list[BudgetView]:
    """Every node, parents before children, on every cluster or one."""
    tree = state.the_tree()
    clusters = {name: c for name, c in state.clusters.items() if cluster in (None, name)}
    standings = {
        name: Standing(c.ledger, tree, state.policy, Kind.CHARGED, max(now, state.now)) for name, c in clusters.items()
    }
    counts = {name: _count(state, name) for name in clusters}
    views = []
    for path in _in_tree_order(state, tree.root):
        node = tree.nodes[path]
        views.append(
            BudgetView(
                path=path,
                depth=node.depth,
                implicit=node.budget is None,
                managers=list(node.budget.managers) if node.budget is not None else [],
                members=list(node.budget.members) if node.budget is not None else [],
                clusters={
                    name: _usage(c, standings[name], path, counts[name].get(path, _Counts()))
                    for name, c in clusters.items()
                },
            )
        )
    return views


def ratio_of(used: int, entitled: int, denominator: int) -> float | None:
    """A usage ratio to read; None without entitlement."""
    return round(used * denominator / entitled, 6) if entitled else None


def _in_tree_order(state: State, path: str) -> list[str]:
    found = [path]
    for child in state.the_tree().nodes[path].children:
        found += _in_tree_order(state, child)
    return found


def _usage(cluster: ClusterState, standing: Standing, path: str, counts: _Counts) -> BudgetUsage:
    figures: Figures = standing.figures(path)
    account = cluster.ledger.account(path)
    now, lookback = standing.now, standing.policy.lookback
    committed = account.promised[Kind.CHARGED].at(now)
    allocation = account.allocation / figures.denominator
    node = standing.tree.nodes[path]
    parent = cluster.ledger.account(node.parent).allocation if node.parent is not None else 0
    return BudgetUsage(
        # What the parent gives today, grants included.
        share=round(account.allocation / (parent * SHARE_ONE), 6) if parent else float(node.parent is None),
        allocation=round(allocation, 9),
        allocation_gpus=round(allocation * cluster.ledger.healthy_gpus, 6),
        used_gpu_hours=hours(figures.used - committed),
        committed_gpu_hours=hours(committed),
        entitled_gpu_hours=hours(figures.entitled // figures.denominator),
        unallocated_gpu_hours=hours(account.usage(Kind.UNALLOCATED, now - lookback, now)),
        ratio=ratio_of(figures.used, figures.entitled, figures.denominator),
        ratio_last_day=ratio_of(figures.used_recent, figures.entitled_recent, figures.denominator),
        running_jobs=counts.running_jobs,
        running_gpus=counts.running_gpus,
        unallocated_gpus=counts.unallocated_gpus,
        queued_jobs=counts.queued_jobs,
        queued_gpus=counts.queued_gpus,
    )


def _count(state: State, cluster: str) -> dict[str, _Counts]:
    """Rule 14: a job counts where it runs, else at the first cluster that it lists."""
    tree = state.the_tree()
    found: dict[str, _Counts] = {}
    for job in state.jobs.values():
        attempt = job.attempt
        place = attempt.cluster if attempt is not None else job.spec.clusters[0]
        if place != cluster:
            continue
        for path in tree.line(attempt.leaf if attempt is not None else job.leaf):
            counts = found.setdefault(path, _Counts())
            if job.state in (JobState.QUEUED, JobState.CLAIMING):
                counts.queued_jobs += 1
                counts.queued_gpus += job.spec.gpus
            else:
                counts.running_jobs += 1
                if job.spec.charged:
                    counts.running_gpus += job.spec.gpus
                else:
                    counts.unallocated_gpus += job.spec.gpus
    return found
