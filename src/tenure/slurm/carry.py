"""A site's partitions, hosts and accounts as a configuration, with a list of all that could not be carried over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tenure.config import Config, ConfigError, Server, dump, parse
from tenure.config.check import MAX_CLUSTERS, MAX_CPUS, MAX_GPUS, MAX_LABELS
from tenure.config.ranges import MAX_HOSTS, fold
from tenure.core.model import SHARE_ONE, Budget, Cluster, Host, Policy
from tenure.slurm.reading import Node, Partition
from tenure.slurm.shares import ROOT, budget_name, budgets_of
from tenure.slurm.site import Site
from tenure.units import MAX_MEMORY

RACK, LEVELS = "rack", ("rack", "zone", "region")
"""Labels for the switches next to the hosts, and for those above."""
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,62}")
_UNUSUAL = {
    "maxtime": ("UNLIMITED", "INFINITE"),
    "defaulttime": ("NONE", "UNLIMITED", "INFINITE"),
    "allowaccounts": ("ALL",),
    "denyaccounts": (),
    "allowgroups": ("ALL",),
    "allowqos": ("ALL",),
    "denyqos": (),
    "qos": (),
    "maxnodes": ("UNLIMITED", "INFINITE"),
    "minnodes": ("0", "1"),
    "prioritytier": ("1",),
    "priorityjobfactor": ("1",),
    "gracetime": ("0",),
    "exclusiveuser": ("NO",),
}
"""Settings of a partition that have no counterpart, and the values that mean nothing."""


class NothingToCarry(Exception):
    """There is nothing that could be a cluster; the message says why, for people."""


@dataclass(frozen=True, slots=True)
class Carried:
    """``cluster_notes`` and ``budget_notes``: what could not be carried over, one line each."""

    config: Config
    cluster_notes: tuple[str, ...]
    budget_notes: tuple[str, ...]
    partitions: dict[str, str]
    """Cluster of each partition that became one."""

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.cluster_notes, *self.budget_notes)

    def files(self) -> dict[str, str]:
        """Text of each file by its name; the notes stand above as comments."""
        clusters, budgets = dump(self.config, server=False)
        return {
            "tenure.toml": _comments(self.cluster_notes) + self._server() + clusters,
            "budgets.toml": _comments(self.budget_notes) + budgets,
        }

    def _server(self) -> str:
        """Jobs run through Slurm, in one partition: a server for each."""
        first, *others = self.partitions
        more = f"# {', '.join(others)}: the hosts of one partition for each server\n" if others else ""
        return f'{more}[server]\nexecutor = "slurm"\n\n[slurm]\npartition = "{first}"\n\n'

    def plain(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "clusters": [
                {
                    "name": cluster.name,
                    "partition": next(part for part, name in self.partitions.items() if name == cluster.name),
                    "hosts": [_plain_host(host) for host in cluster.hosts],
                }
                for cluster in self.config.clusters
            ],
            "budgets": [
                {
                    "path": one.path,
                    "share": one.share / SHARE_ONE,
                    "managers": list(one.managers),
                    "members": list(one.members),
                }
                for one in self.config.budgets
            ],
            "not_carried_over": list(self.notes),
            "files": self.files(),
        }


def _plain_host(host: Host) -> dict[str, Any]:
    return {
        "name": host.name,
        "gpus": host.gpus,
        "cpus": host.cpus / 1000,
        "memory_mib": host.mem,
        "labels": dict(host.labels),
    }


def _comments(notes: Sequence[str]) -> str:
    if not notes:
        return "# Read from Slurm.\n\n"
    return (
        "# Read from Slurm. Not carried over, or not as it was:\n" + "".join(f"# - {note}\n" for note in notes) + "\n"
    )


def carry_over(site: Site, partitions: Sequence[str] = (), organisation: str = ROOT) -> Carried:
    """``partitions``: those that become clusters, in this order; none: all with GPUs. Raises NothingToCarry."""
    chosen = list(dict.fromkeys(partitions)) or site.with_gpus()
    if unknown := site.unknown(chosen):
        known = ", ".join(one.name for one in site.partitions) or "none"
        raise NothingToCarry(f"partition = {unknown[0]}: Slurm has no such partition; there are: {known}")
    notes: list[str] = []
    clusters, names = _clusters(site, chosen, notes)
    if not clusters:
        why = "; ".join(notes) or "no partition has hosts with GPUs (Gres=gpu:N)"
        raise NothingToCarry(f"there is no cluster to write: {why}")
    budgets, budget_notes = _budgets(site, budget_name(organisation))
    config = Config(Server(), tuple(clusters), Policy(), budgets, (), ())
    carried = Carried(config, _one_line(notes), _one_line(budget_notes), names)
    files = carried.files()
    try:
        parse(files["tenure.toml"], files["budgets.toml"])
    except ConfigError as error:
        raise NothingToCarry(f"what Slurm says makes no configuration that can be applied: {error}") from error
    return carried


def _one_line(notes: Sequence[str]) -> tuple[str, ...]:
    """Comments of TOML may not have control characters."""
    return tuple(re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+", " ", note) for note in notes)


# ---- budgets


def _budgets(site: Site, organisation: str) -> tuple[tuple[Budget, ...], list[str]]:
    if site.associations is None:
        why = site.unread.get("associations", "there is no slurmdbd")
        return (Budget(organisation, SHARE_ONE),), [f"accounts, people and fair shares: {why}; write budgets yourself"]
    rows = [row for row in site.associations if row.cluster in ("", site.cluster)]
    budgets, notes = budgets_of(rows, site.users or (), organisation)
    notes.append("limits of associations and QOS (GrpTRES, MaxJobs, ...): a share says who gets how much instead")
    if "users" in site.unread:
        notes.append(f"coordinators, who would be managers: {site.unread['users']}")
    return budgets, notes


# ---- clusters


def _clusters(site: Site, chosen: Sequence[str], notes: list[str]) -> tuple[list[Cluster], dict[str, str]]:
    by_name = {partition.name: partition for partition in site.partitions}
    places = _places(site)
    taken: dict[str, str] = {}
    clusters: list[Cluster] = []
    names: dict[str, str] = {}
    for name in chosen:
        hosts = _hosts(site, name, taken, places, notes)
        if sum(len(cluster.hosts) for cluster in clusters) + len(hosts) > MAX_HOSTS:
            notes.append(f"partition {name}: more than {MAX_HOSTS} hosts in all; left out")
        elif len(clusters) == MAX_CLUSTERS:
            notes.append(f"partition {name}: more than {MAX_CLUSTERS} clusters; left out")
        elif hosts:
            taken |= {host.name: name for host in hosts}
            names[name] = _cluster_name(name, set(names.values()), notes)
            racks = all(host.label(RACK) for host in hosts)
            clusters.append(Cluster(names[name], tuple(hosts), gang_label=RACK if racks else ""))
            notes += _of_partition(by_name[name])
        else:
            notes.append(f"partition {name}: no cluster of its own, since no host of it is left")
    return clusters, names


def _cluster_name(partition: str, taken: set[str], notes: list[str]) -> str:
    name = base = re.sub(r"[^a-z0-9_-]", "-", partition.lower()).lstrip("-_")[:60] or "cluster"
    number = 2
    while name in taken:
        name = f"{base}-{number}"
        number += 1
    if name != partition:
        notes.append(f"partition {partition}: the cluster is called {name}")
    return name


def _places(site: Site) -> dict[str, dict[str, str]]:
    """Labels of each host from the switches above it: the nearest one is its rack."""
    found: dict[str, dict[str, str]] = {}
    for switch in site.switches:
        if switch.level < len(LEVELS) and _VALUE.fullmatch(switch.name):
            for name in switch.nodes:
                found.setdefault(name, {}).setdefault(LEVELS[switch.level], switch.name)
    return found


def _hosts(
    site: Site, partition: str, taken: dict[str, str], places: dict[str, dict[str, str]], notes: list[str]
) -> list[Host]:
    members = site.members(partition)
    _leave_out(partition, "have no GPUs", [node for node in members if not node.gpu_count], notes)
    for other in dict.fromkeys(taken[node.name] for node in members if node.name in taken):
        there = [node for node in members if taken.get(node.name) == other]
        _leave_out(partition, f"are in {other}, too, and in that cluster only", there, notes)
    hosts: list[Host] = []
    seen: set[str] = set()
    for node in members:
        if not node.gpu_count or node.name in taken or node.name in seen:
            continue
        seen.add(node.name)
        why = _unfit(node)
        if why:
            notes.append(f"host {node.name[:80]}: left out, since {why}")
        else:
            labels = _labels(node, places.get(node.name, {}), notes)
            hosts.append(Host(node.name, node.gpu_count, node.cpus * 1000, node.mem, labels))
    kept = {host.name for host in hosts}
    kinds = sorted({kind for node in members if node.name in kept for kind, _ in node.gpus})
    if len(kinds) > 1:
        shown = ", ".join(kind or "(no type)" for kind in kinds)
        notes.append(f"partition {partition}: GPUs of several types ({shown}); make a cluster of each")
    away = [node for node in members if node.name in kept and node.states & {"DOWN", "DRAIN", "FAIL", "FUTURE"}]
    if away:
        notes.append(f"partition {partition}: down or drained now: {_folded(away)}")
    return hosts


def _leave_out(partition: str, why: str, nodes: Sequence[Node], notes: list[str]) -> None:
    if nodes:
        notes.append(f"partition {partition}: left out, since they {why}: {_folded(nodes)}")


def _folded(nodes: Sequence[Node]) -> str:
    names = fold(node.name for node in nodes)
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _unfit(node: Node) -> str:
    """Why the node can be no host here, or ''."""
    if not _HOST.fullmatch(node.name):
        return "its name has other characters than letters, digits, '.', - and _"
    if node.gpu_count > MAX_GPUS:
        return f"it has more than {MAX_GPUS} GPUs"
    if not 1 <= node.cpus * 1000 <= MAX_CPUS:
        return f"{node.cpus} CPUs are outside what Tenure can count"
    return "" if 1 <= node.mem <= MAX_MEMORY else f"{node.mem} MiB of memory are outside what Tenure can count"


def _labels(node: Node, places: dict[str, str], notes: list[str]) -> tuple[tuple[str, str], ...]:
    """Switches, the GPU type, and each feature as ``NAME = "yes"``, so that ``--require NAME`` finds it."""
    labels = dict(places)
    kinds = [kind for kind, _ in node.gpus]
    if len(kinds) == 1 and _VALUE.fullmatch(kinds[0]):
        labels.setdefault("gpu", kinds[0])
    for feature in node.features:
        if not _KEY.fullmatch(feature) or feature in labels:
            notes.append(f"host {node.name}: feature {feature[:80]} cannot be a label")
        else:
            labels[feature] = "yes"
    if len(labels) > MAX_LABELS:
        notes.append(f"host {node.name}: more than {MAX_LABELS} features; the last ones are left out")
    return tuple(sorted(list(labels.items())[:MAX_LABELS]))


def _of_partition(partition: Partition) -> Iterator[str]:
    unusual = {
        key: value for key, usual in _UNUSUAL.items() if (value := partition.text(key)) and value.upper() not in usual
    }
    if unusual:
        shown = ", ".join(f"{key}={value[:60]}" for key, value in unusual.items())
        yield f"partition {partition.name}: {shown}"
