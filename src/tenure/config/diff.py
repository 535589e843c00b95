"""What applying a configuration would change, in lines that a manager can read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from fractions import Fraction
from typing import Protocol

from tenure.config.ranges import fold
from tenure.config.settings import COUNTS
from tenure.core.model import GPU, SHARE_ONE, Budget, Cluster, Grant, Host, Policy
from tenure.core.tree import parent_of
from tenure.units import format_cpus, format_duration, format_memory, format_share, format_thousandths, format_time


class Applicable(Protocol):
    """What is compared: a ``Config`` or the event that applied one."""

    @property
    def clusters(self) -> tuple[Cluster, ...]: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def budgets(self) -> tuple[Budget, ...]: ...
    @property
    def grants(self) -> tuple[Grant, ...]: ...


class ChangeKind(StrEnum):
    POLICY = "policy"
    CLUSTER = "cluster"
    HOST = "host"
    BUDGET = "budget"
    ALLOCATION = "allocation"
    """Follows from a change further up or of the hosts; the budget itself is as it was."""
    GRANT = "grant"


@dataclass(frozen=True, slots=True)
class Change:
    """``what`` names the thing, ``old`` and ``new`` are '' where there is none; ``line`` says it all."""

    kind: ChangeKind
    what: str
    old: str
    new: str
    line: str


def diff(old: Applicable, new: Applicable) -> list[Change]:
    """Changes in a fixed order: policy, clusters with their hosts, budgets, what follows for others, grants."""
    changes = _settings(ChangeKind.POLICY, "policy", old.policy, new.policy)
    before = {cluster.name: cluster for cluster in old.clusters}
    after = {cluster.name: cluster for cluster in new.clusters}
    for name in sorted(before.keys() | after.keys()):
        changes += _cluster(name, before.get(name), after.get(name))
    changes += _budgets(old, new)
    changes += _grants(old.grants, new.grants)
    return changes


def _settings(kind: ChangeKind, what: str, old: Policy | Cluster, new: Policy | Cluster) -> list[Change]:
    changes = []
    for field in fields(new):
        if field.name in ("name", "hosts"):
            continue
        before, after = (_value(field.name, getattr(record, field.name)) for record in (old, new))
        if before != after:
            line = f"{what}: {field.name} {before} -> {after}"
            changes.append(Change(kind, f"{what}.{field.name}", before, after, line))
    return changes


def _value(name: str, value: bool | int | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value or "(none)"
    return str(value) if name in COUNTS else format_duration(value, exact=True)


def _cluster(name: str, old: Cluster | None, new: Cluster | None) -> list[Change]:
    changes = []
    if old is None or new is None:
        there = old or new
        size = f"{len(there.hosts)} hosts, {_gpus(there)} GPUs" if there is not None else ""
        word = "added" if old is None else "removed"
        before, after = ("", size) if old is None else (size, "")
        changes.append(Change(ChangeKind.CLUSTER, name, before, after, f"cluster {name} {word}: {size}"))
    if old is not None and new is not None:
        changes += _settings(ChangeKind.CLUSTER, f"cluster {name}", old, new)
        changes += _hosts(name, old, new)
    return changes


def _gpus(cluster: Cluster | None) -> int:
    return sum(host.gpus for host in cluster.hosts) if cluster is not None else 0


def _hosts(cluster: str, old: Cluster, new: Cluster) -> list[Change]:
    before = {host.name: host for host in old.hosts}
    after = {host.name: host for host in new.hosts}
    pairs: dict[tuple[str, str], list[str]] = {}
    for name in [*before, *(name for name in after if name not in before)]:
        texts = (_host(before.get(name)), _host(after.get(name)))
        if texts[0] != texts[1]:
            pairs.setdefault(texts, []).append(name)
    changes = []
    for (was, is_now), names in pairs.items():
        for folded in fold(names):
            what = f"{cluster}/{folded}"
            if not was:
                line = f"host {what} added: {is_now}"
            elif not is_now:
                line = f"host {what} removed: {was}"
            else:
                line = f"host {what}: {was} -> {is_now}"
            changes.append(Change(ChangeKind.HOST, what, was, is_now, line))
    return changes


def _host(host: Host | None) -> str:
    if host is None:
        return ""
    parts = [f"{host.gpus} GPUs", f"{format_cpus(host.cpus)} CPUs", format_memory(host.mem)]
    return ", ".join(parts + [f"{key}={value}" for key, value in host.labels])


class _Allocations:
    """Effective shares of one side, by budget and cluster; grants left out, since they come and go."""

    def __init__(self, side: Applicable) -> None:
        self.budgets = {budget.path: budget for budget in side.budgets}
        self.gpus = {cluster.name: _gpus(cluster) for cluster in side.clusters}
        self._known: dict[tuple[str, str], Fraction] = {}

    def of(self, path: str, cluster: str) -> Fraction:
        key = (path, cluster)
        if key not in self._known:
            budget, parent = self.budgets.get(path), parent_of(path)
            share = Fraction(budget.share_on(cluster), SHARE_ONE) if budget is not None else Fraction(0)
            self._known[key] = share * self.of(parent, cluster) if parent is not None else share
        return self._known[key]

    def in_gpus(self, path: str, cluster: str) -> Fraction:
        return self.of(path, cluster) * self.gpus.get(cluster, 0)


def _budgets(old: Applicable, new: Applicable) -> list[Change]:
    before, after = _Allocations(old), _Allocations(new)
    clusters = [cluster.name for cluster in new.clusters]
    moved = {budget.moved_from for budget in new.budgets if budget.moved_from is not None}
    changes: list[Change] = []
    follows: list[Change] = []
    for path in sorted(before.budgets.keys() | after.budgets.keys()):
        was, is_now = before.budgets.get(path), after.budgets.get(path)
        effects = _effects(path, clusters, before, after)
        if was is None and is_now is not None:
            changes.append(_appeared(is_now, before, effects))
        elif is_now is None:
            if path not in moved:
                changes.append(_gone(path))
        elif was is not None:
            own = _budget_fields(was, is_now)
            changes += [
                Change(
                    ChangeKind.BUDGET,
                    f"{path}.{field}",
                    a,
                    b,
                    f"budget {path}: {field} {a or '-'} -> {b or '-'}"
                    + (f" ({effects})" if effects and field in ("share", "cluster_shares") else ""),
                )
                for field, a, b in own
            ]
            if effects and not any(field in ("share", "cluster_shares") for field, _, _ in own):
                follows.append(Change(ChangeKind.ALLOCATION, path, "", effects, f"budget {path}: {effects}"))
    return changes + follows


def _effects(path: str, clusters: Iterable[str], before: _Allocations, after: _Allocations) -> str:
    """``35% -> 28% of main (22.4 -> 17.9 GPUs)`` for each cluster where it changes."""
    parts = []
    for cluster in clusters:
        a, b = before.of(path, cluster), after.of(path, cluster)
        x, y = before.in_gpus(path, cluster), after.in_gpus(path, cluster)
        if (a, x) != (b, y):
            share = f"{_percent(a)} -> {_percent(b)}" if a != b else _percent(b)
            gpus = f"{_amount(x)} -> {_amount(y)}" if x != y else _amount(y)
            parts.append(f"{share} of {cluster}, {gpus} GPUs")
    return "; ".join(parts)


def _percent(share: Fraction) -> str:
    return format_share(round(share * SHARE_ONE / 100) * 100)


def _amount(gpus: Fraction) -> str:
    return format_thousandths(round(gpus * GPU / 100) * 100)


def _appeared(budget: Budget, before: _Allocations, effects: str) -> Change:
    source = budget.moved_from
    share = format_share(budget.share)
    tail = f" ({effects})" if effects else ""
    if source is not None and source in before.budgets:
        line = f"budget {source} moves to {budget.path}, share {share}{tail}"
        return Change(ChangeKind.BUDGET, budget.path, source, budget.path, line)
    return Change(ChangeKind.BUDGET, budget.path, "", share, f"budget {budget.path} added, share {share}{tail}")


def _gone(path: str) -> Change:
    return Change(ChangeKind.BUDGET, path, path, "", f"budget {path} removed; its jobs must have ended")


def _budget_fields(old: Budget, new: Budget) -> list[tuple[str, str, str]]:
    shown = [
        ("share", format_share(old.share), format_share(new.share)),
        ("cluster_shares", _cluster_shares(old), _cluster_shares(new)),
        ("managers", ", ".join(old.managers), ", ".join(new.managers)),
        ("members", ", ".join(old.members), ", ".join(new.members)),
    ]
    return [(field, a, b) for field, a, b in shown if a != b]


def _cluster_shares(budget: Budget) -> str:
    return ", ".join(f"{name} {format_share(share)}" for name, share in sorted(budget.cluster_shares))


def _grants(old: Sequence[Grant], new: Sequence[Grant]) -> list[Change]:
    changes = []
    for grant in (grant for grant in old if grant not in new):
        text = _grant(grant)
        changes.append(Change(ChangeKind.GRANT, grant.to, text, "", f"grant withdrawn: {text}"))
    for grant in (grant for grant in new if grant not in old):
        text = _grant(grant)
        changes.append(Change(ChangeKind.GRANT, grant.to, "", text, f"grant added: {text}"))
    return changes


def _grant(grant: Grant) -> str:
    period = f"{format_time(grant.start)} to {format_time(grant.end)}"
    return f"{grant.amount} GPU-hours of {grant.cluster} to {grant.to} from {', '.join(grant.taken_from)}, {period}"
