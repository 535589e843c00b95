"""A job of Slurm's as Tenure would have it: what account, ``--time-min``, ``--requeue`` and time limit become."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tenure import units
from tenure.config import Config, parse
from tenure.config import load as load_config
from tenure.core.model import MINUTE, SECOND, Cluster, Contract, JobSpec, Label, Role
from tenure.shadow.journal import RecordError
from tenure.shadow.lives import Life
from tenure.shadow.seen import Seen
from tenure.sim.traces.options import Rule
from tenure.slurm import Carried, Site, carry_over
from tenure.slurm.shares import ROOT, account_paths, budget_name

LIMIT = -1
"""In place of an assumed min_runtime: each job's own time limit."""
SPARE = 10 * MINUTE
"""What a job may take beyond its time limit here, since a restart must not end what Slurm let end."""
_FOR_EVER = 3660 * 86_400
_WORD = re.compile(r"(?:^|[\s,;])min[-_]runtime=([0-9A-Za-z:.]{1,20})(?=$|[\s,;])")
_RESUMABLE = re.compile(r"(?:^|[\s,;])resumable(?=$|[\s,;])")
_MARK = re.compile(r"(?:^|\s)requeue=(yes|no)(?=$|\s)")
_FEATURE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")


@dataclass(frozen=True, slots=True)
class Terms:
    """``accounts``: account -> budget; ``others``: the budget of accounts without one. ``partitions``: partition -> its
    clusters. ``asks_memory``: Slurm counts memory. ``asked_requeue``: only who asked for it is requeued.

    ``min_runtime``: of jobs that say nothing, ms, LIMIT, or None: the cluster's default. ``resumable``: whether what
    Slurm may requeue counts as resumable though nobody said so; None: the cluster's default. ``rules``: in place of
    both, by a job's size and how long Slurm ran it. ``asks_cpus``: not where hosts are made up.

    ``unallocated``: QOS and partitions whose jobs have min_runtime 0, and ``no_share``: budgets whose jobs have.
    """

    config: Config
    accounts: Mapping[str, str]
    others: str
    partitions: Mapping[str, tuple[str, ...]]
    asks_memory: bool
    asked_requeue: bool
    min_runtime: int | None = None
    resumable: bool | None = None
    rules: tuple[Rule, ...] = ()
    unallocated: frozenset[str] = frozenset()
    no_share: frozenset[str] = frozenset()
    asks_cpus: bool = True

    def clusters_of(self, job: Seen) -> tuple[str, ...]:
        """The clusters whose hosts its partitions have, in their order."""
        names = [name for part in job.partition.split(",") for name in self.partitions.get(part, ())]
        return tuple(dict.fromkeys(names))

    def spec(self, life: Life) -> JobSpec | None:
        """What would be submitted; None for a job that is none of these clusters'."""
        job = life.last
        clusters = self.clusters_of(job)
        if not clusters or not job.gpus:
            return None
        first = next(one for one in self.config.clusters if one.name == clusters[0])
        contract, timeout = self._contract(life, first)
        return JobSpec(
            name=life.key,
            user=job.user or "unknown",
            budget=self.budget_of(job),
            roles=self._roles(job, first),
            contract=contract,
            clusters=clusters,
            labels=self._labels(job, first),
            timeout=timeout,
            grace=first.max_grace,
        )

    def budget_of(self, job: Seen) -> str:
        return self.accounts.get(job.account, self.others)

    def free(self, job: Seen) -> bool:
        """Whether it runs on what is left over, whatever it would sign."""
        named = {job.qos, *job.partition.split(",")}
        return not self.unallocated.isdisjoint(named) or self.budget_of(job) in self.no_share

    def silent(self, life: Life) -> bool:
        """Whether nobody said how long it must run: its min_runtime is an assumption."""
        return not life.last.least and _said(life.last.comment) is None

    def _contract(self, life: Life, cluster: Cluster) -> tuple[Contract, int | None]:
        job = life.last
        limit = job.limit * SECOND
        said = _said(job.comment)
        if said is None and job.least:
            said = job.least * SECOND
        rule = self._rule(life) if self.rules else None
        if said is None:
            said = rule.min_runtime if rule is not None else self._assumed(limit, cluster)
        if said is None:
            said = cluster.default_min_runtime
        if self.free(job):
            said = 0
        if said:
            longest = max(limit, cluster.min_runtime_floor) if limit else cluster.min_runtime_max
            said = min(max(said, cluster.min_runtime_floor), longest, cluster.min_runtime_max)
        timeout = max(limit, said) if limit else None
        return Contract(said, self._resumable(job, cluster, rule)), timeout

    def _assumed(self, limit: int, cluster: Cluster) -> int | None:
        return (limit or cluster.min_runtime_max) if self.min_runtime == LIMIT else self.min_runtime

    def _rule(self, life: Life) -> Rule:
        """By how long Slurm ran it, or where it did not, by its time limit."""
        ran = sum(run.ended - run.started for run in life.runs if run.ended) or life.last.limit or _FOR_EVER
        return next(rule for rule in self.rules if rule.matches(life.last.gpus, ran * SECOND))

    def _resumable(self, job: Seen, cluster: Cluster, rule: Rule | None) -> bool:
        mark = _MARK.search(job.mark)
        if mark is not None:
            return mark[1] == "yes"
        if _RESUMABLE.search(job.comment) or (job.requeue == 1 and self.asked_requeue):
            return True
        if rule is not None:
            return rule.resumable and job.requeue != 0
        if self.resumable is None:
            return cluster.default_resumable and job.requeue != 0
        return self.resumable and job.requeue != 0

    def _roles(self, job: Seen, cluster: Cluster) -> tuple[Role, ...]:
        """As many replicas as nodes; where GPUs do not come out even, the first ones have one more."""
        largest = max(host.gpus for host in cluster.hosts)
        replicas = min(max(job.nodes, -(-job.gpus // largest)), job.gpus)
        each, more = divmod(job.gpus, replicas)
        cpus = min(max(host.cpus for host in cluster.hosts), job.cpus * 1000 // replicas) if self.asks_cpus else 0
        mem = min(max(host.mem for host in cluster.hosts), job.mem // replicas) if self.asks_memory else 0
        if not more:
            return (Role("main", replicas, each, cpus, mem),)
        return (Role("main", more, each + 1, cpus, mem), Role("rest", replicas - more, each, cpus, mem))

    def _labels(self, job: Seen, cluster: Cluster) -> tuple[Label, ...]:
        """Features that are all required: ``a&b``. Other expressions are left out."""
        words = [word.strip() for word in re.split("[&,]", job.features)] if job.features else []
        if not all(_FEATURE.fullmatch(word) for word in words):
            return ()
        known = {key for host in cluster.hosts for key, _ in host.labels}
        return tuple(Label(word, "yes", True) for word in dict.fromkeys(words) if word in known)


def _said(comment: str) -> int | None:
    match = _WORD.search(comment)
    if match is None:
        return None
    try:
        return units.parse_duration(match[1])
    except units.UnitError:
        return None


def of_site(site: Site, partitions: Sequence[str]) -> dict[str, Any]:
    """What the record keeps of a site. Raises NothingToCarry."""
    return of_carried(site, carry_over(site, partitions), partitions)


def of_carried(site: Site, carried: Carried, partitions: Sequence[str]) -> dict[str, Any]:
    """The same, of a site that has been carried over."""
    chosen = list(dict.fromkeys(partitions)) or site.with_gpus()
    files = carried.files()
    rows = [row for row in site.associations or () if row.cluster in ("", site.cluster)]
    parameters = site.settings.words("SelectTypeParameters")
    return {
        "cluster": site.cluster,
        "tenure": files["tenure.toml"],
        "budgets": files["budgets.toml"],
        "accounts": account_paths(rows, budget_name(ROOT)),
        "partitions": {name: [node.name for node in site.members(name)] for name in chosen},
        "asks_memory": any("memory" in word for word in parameters),
        "asked_requeue": site.settings.text("JobRequeue") == "0",
        "accounting": site.settings.text("AccountingStorageType").endswith("/slurmdbd"),
        "notes": list(carried.notes),
    }


def terms_of(
    kept: Mapping[str, Any], config: Path | None = None, min_runtime: int | None = None, resumable: bool | None = None
) -> Terms:
    """The terms of a recorded site, or of a configuration in its place.

    Raises ConfigError, and RecordError for a configuration that has none of the site's hosts.
    """
    used = load_config(config) if config is not None else parse(kept["tenure"], kept["budgets"])
    # People ran under these accounts: who may is settled.
    budgets = tuple(replace(budget, members=(), managers=()) for budget in used.budgets)
    used = replace(used, budgets=budgets)
    paths = {budget.path for budget in budgets}
    root = next(path for path in (budget.path for budget in budgets) if "/" not in path)
    accounts = {}
    for account, path in kept["accounts"].items():
        found = path if path in paths else _by_last_name(paths, path)
        if found is not None:
            accounts[account] = found
    clusters = {host.name: cluster.name for cluster in used.clusters for host in cluster.hosts}
    partitions = {
        part: tuple(dict.fromkeys(clusters[host] for host in hosts if host in clusters))
        for part, hosts in kept["partitions"].items()
    }
    if not any(partitions.values()):
        named = ", ".join(partitions)
        raise RecordError(
            f"config = {config}: no cluster of it names a host of partition {named}; `tenure slurm import` writes them"
        )
    return Terms(
        used,
        accounts,
        root,
        partitions,
        bool(kept["asks_memory"]),
        bool(kept["asked_requeue"]),
        min_runtime,
        resumable,
    )


def _by_last_name(paths: set[str], path: str) -> str | None:
    """Where a configuration of one's own has moved the budget to."""
    name = path.rpartition("/")[2]
    found = [one for one in paths if one.rpartition("/")[2] == name]
    return found[0] if len(found) == 1 else None
