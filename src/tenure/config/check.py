"""Limits and references of a configuration, over the core's records: the same for files and for requests."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from tenure.config.check_budgets import check_budgets, check_grants
from tenure.config.problems import Names, Problem, did_you_mean, dotted, show
from tenure.config.ranges import MAX_HOSTS
from tenure.config.settings import LOOK_AT_LEAST, Server, Slurm
from tenure.core.model import DAY, HOUR, MINUTE, SECOND, Budget, Cluster, Grant, Host, Policy
from tenure.units import MAX_MEMORY, format_cpus, format_duration, format_memory

MAX_CLUSTERS = 64
MAX_GPUS = 1024
MAX_CPUS = 4_096_000
MAX_LABELS = 32
MAX_RESERVE_FROM = 100_000
EXECUTORS = ("local", "slurm")

_CLUSTER_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_LABEL_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,62}")
_PARTITION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LISTEN = re.compile(r"[A-Za-z0-9.:_-]{1,253}")


def check(
    clusters: Sequence[Cluster],
    policy: Policy,
    budgets: Sequence[Budget],
    grants: Sequence[Grant],
    names: Names | None = None,
) -> list[Problem]:
    """Everything that is wrong with a resolved configuration; empty when it can be applied."""
    names = names or Names()
    problems = check_policy(policy, names.clusters)
    problems += check_clusters(clusters, policy, names.clusters)
    problems += check_budgets(budgets, clusters, names.budgets)
    if not problems:
        problems += check_grants(grants, budgets, clusters, names.budgets)
    return problems


class Limits:
    """Collects problems of durations (ms) and numbers that are outside their limits."""

    def __init__(self, file: str, place: tuple[str, ...]) -> None:
        self.file = file
        self.place = place
        self.problems: list[Problem] = []

    def between(self, field: str, value: int, least: int, most: int, of_most: str = "") -> None:
        if least <= value <= most:
            return
        upper = f"{format_duration(most, exact=True)}{of_most and f' ({of_most})'}"
        remedy = f"from {format_duration(least, exact=True)} to {upper}"
        self.add(field, format_duration(value, exact=True), remedy)

    def number(self, field: str, value: int, least: int, most: int, more: str = "") -> None:
        if not least <= value <= most:
            self.add(field, show(value), f"from {least} to {most}{more}")

    def add(self, field: str, value: str, remedy: str) -> None:
        self.problems.append(Problem(self.file, dotted((*self.place, field)), value, remedy))


def check_server(server: Server, policy: Policy, file: str) -> list[Problem]:
    at = Limits(file, ("server",))
    at.between("retention", server.retention, policy.lookback, 3650 * DAY)
    at.between("slow_tick", server.slow_tick, SECOND, HOUR)
    if server.estimates:
        at.between("estimates", server.estimates, SECOND, DAY, "or 0 for none")
    if not 0 <= server.port <= 65535:
        at.add("port", show(server.port), "from 1 to 65535, or 0 for any free one")
    if not _LISTEN.fullmatch(server.listen):
        at.add("listen", show(server.listen), "write an address or host name, like 127.0.0.1")
    if server.executor not in EXECUTORS:
        at.add("executor", show(server.executor), did_you_mean(server.executor, EXECUTORS))
    if "\0" in str(server.data_dir):
        at.add("data_dir", show(str(server.data_dir)), "name a directory, like .tenure")
    if server.database and not _is_database(server.database):
        # The value may hold a password, so it is not repeated.
        remedy = "write sqlite:////path/to/file or postgresql+psycopg://host/name, or leave it away"
        at.add("database", "(not shown)", remedy)
    return at.problems


def check_slurm(slurm: Slurm, of: Mapping[str, Slurm], clusters: Iterable[Cluster], file: str) -> list[Problem]:
    """``of``: the tables of single clusters."""
    problems, known = _check_slurm(slurm, file, ("slurm",)), {cluster.name for cluster in clusters}
    for name, own in of.items():
        problems += _check_slurm(own, file, ("slurm", name))
        if name not in known:
            fix = f"no such cluster, and no such setting; {did_you_mean(name, known)}"
            problems.append(Problem(file, dotted(("slurm", name)), "(a table)", fix))
    roots = [own.root for own in (slurm, *of.values()) if own.root is not None]
    for root in sorted({root for root in roots if roots.count(root) > 1}):
        problems.append(Problem(file, "slurm.root", show(str(root)), "each Slurm needs a directory of its own"))
    return problems


def _check_slurm(slurm: Slurm, file: str, place: tuple[str, ...]) -> list[Problem]:
    at = Limits(file, place)
    if slurm.partition and not _PARTITION.fullmatch(slurm.partition):
        at.add("partition", show(slurm.partition), "name one partition, like gpu")
    for field, path, example in (
        ("root", slurm.root, "a directory, like /shared/tenure"),
        ("commands", slurm.commands, "a directory, like /usr/bin"),
        ("conf", slurm.conf, "a file, like /etc/slurm/slurm.conf"),
    ):
        if path is not None and "\0" in str(path):
            at.add(field, show(str(path)), f"name {example}")
    words = slurm.submit_as
    if words and (
        not words[0]
        or "{user}" in words[0]
        or not any("{user}" in word for word in words)
        or any(not word.isprintable() for word in words)
    ):
        fix = 'a command and its arguments, with {user} in one of these: ["sudo", "-n", "-u", "{user}", "--"]'
        at.add("submit_as", show(list(words)), fix)
    for account, budget in slurm.accounts:
        if not account or not budget.strip("/"):
            shown = f"{show(account)} = {show(budget)}"
            at.add("accounts", shown, 'name an account and the path of a budget, like vision = "lab/vision"')
    return at.problems


def _is_database(url: str) -> bool:
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        return False
    return "://" in url and scheme.partition("+")[0] in ("sqlite", "postgresql")


def check_policy(policy: Policy, file: str) -> list[Problem]:
    at = Limits(file, ("policy",))
    at.between("lookback", policy.lookback, MINUTE, 90 * DAY)
    lookback = min(max(policy.lookback, MINUTE), 90 * DAY)
    at.between("recent", policy.recent, SECOND, lookback, "the lookback")
    at.between("entitlement_floor", policy.entitlement_floor, SECOND, lookback, "the lookback")
    at.between("preemption_margin", policy.preemption_margin, 0, lookback, "the lookback")
    at.between("unallocated_turn", policy.unallocated_turn, 0, DAY)
    at.between("backoff_first", policy.backoff_first, 100, DAY)
    at.between("backoff_max", policy.backoff_max, max(100, min(policy.backoff_first, DAY)), DAY)
    brake = "; to stop evictions altogether use `tenure pause --evictions`"
    at.number("evictions_per_minute", policy.evictions_per_minute, 1, 10_000, brake)
    at.number("reserved_percent", policy.reserved_percent, 0, 100, " percent of the GPUs; 0 holds nothing for anybody")
    at.number("reserve_from", policy.reserve_from, 0, MAX_RESERVE_FROM, " GPUs; 0 is a sixteenth of the cluster")
    at.number("reserve_margin_percent", policy.reserve_margin_percent, 0, 100, " percent of preemption_margin")
    at.between("reserve_ahead", policy.reserve_ahead, 0, 7 * DAY)
    at.between("look_every", policy.look_every, LOOK_AT_LEAST, HOUR)
    at.number("headroom_percent", policy.headroom_percent, 0, 100, " percent of the GPUs; 0 keeps nothing free")
    at.number("moves_per_hour", policy.moves_per_hour, 0, 1_000, "; 0 moves nothing")
    return at.problems


def check_clusters(
    clusters: Sequence[Cluster],
    policy: Policy,
    file: str,
    *,
    left_open: bool = False,
    found: Collection[str] = (),
) -> list[Problem]:
    """``left_open``: 0 CPUs or memory are still to be filled in, and clusters in ``found`` may have no host."""
    problems: list[Problem] = []

    def add(place: tuple[str, ...], value: str, remedy: str) -> None:
        problems.append(Problem(file, dotted(place), value, remedy))

    total = sum(len(cluster.hosts) for cluster in clusters)
    if total > MAX_HOSTS:
        add(("clusters",), f"{total} hosts", f"at most {MAX_HOSTS} hosts over all clusters")
        return problems
    if not 1 <= len(clusters) <= MAX_CLUSTERS:
        add(("clusters",), f"{len(clusters)} clusters", f"declare 1 to {MAX_CLUSTERS} clusters")
    seen: set[str] = set()
    owners: dict[str, str] = {}
    for cluster in clusters:
        place = ("clusters", cluster.name)
        if not _CLUSTER_NAME.fullmatch(cluster.name):
            add(place, show(cluster.name), "use lowercase letters, digits, - and _, at most 63")
        if cluster.name in seen:
            add(place, show(cluster.name), "this name is taken; give each cluster its own")
        seen.add(cluster.name)
        problems += _check_bounds(cluster, policy, file)
        if cluster.name not in found:  # labels may be on hosts that are still to be found
            problems += _check_gang_label(cluster, file)
        if not cluster.hosts and cluster.name not in found:
            add((*place, "hosts"), "[]", 'add hosts, for instance { name = "n[01-16]", gpus = 8 }')
        for host in cluster.hosts:
            problems += _check_host(host, file, (*place, "hosts", host.name), left_open)
            if host.name in owners:
                where = owners[host.name]
                add(
                    (*place, "hosts", host.name),
                    show(host.name),
                    f"declared before, in {where}; a host is in one cluster once",
                )
            owners[host.name] = cluster.name
    return problems


def _check_bounds(cluster: Cluster, policy: Policy, file: str) -> list[Problem]:
    at = Limits(file, ("clusters", cluster.name))
    at.between("min_runtime_max", cluster.min_runtime_max, SECOND, policy.lookback, "the lookback")
    longest = max(cluster.min_runtime_max, SECOND)
    at.between("min_runtime_floor", cluster.min_runtime_floor, SECOND, longest, "min_runtime_max")
    if cluster.default_min_runtime != 0:
        floor = min(max(cluster.min_runtime_floor, SECOND), longest)
        at.between("default_min_runtime", cluster.default_min_runtime, floor, longest, "min_runtime_max")
    at.between("max_grace", cluster.max_grace, 0, HOUR)
    at.between("unallocated_grace", cluster.unallocated_grace, 0, max(cluster.max_grace, 0), "max_grace")
    at.between("kill_timeout", cluster.kill_timeout, SECOND, HOUR)
    at.between("start_timeout", cluster.start_timeout, SECOND, DAY)
    return at.problems


def _check_gang_label(cluster: Cluster, file: str) -> Iterable[Problem]:
    there = sorted({key for host in cluster.hosts for key, _ in host.labels})
    if cluster.gang_label and cluster.gang_label not in there:
        remedy = f"name a label that its hosts have: {', '.join(there)}" if there else "give its hosts that label first"
        yield Problem(file, dotted(("clusters", cluster.name, "gang_label")), show(cluster.gang_label), remedy)


def _check_host(host: Host, file: str, place: tuple[str, ...], left_open: bool) -> Iterable[Problem]:
    def problem(field: str, value: str, remedy: str, *more: str) -> Problem:
        return Problem(file, dotted((*place, field, *more)), value, remedy)

    if not _HOST_NAME.fullmatch(host.name):
        yield problem("name", show(host.name), "use letters, digits, '.', - and _, beginning with a letter or digit")
    if not 1 <= host.gpus <= MAX_GPUS:
        yield problem("gpus", show(host.gpus), f"from 1 to {MAX_GPUS} GPUs")
    if not (0 if left_open else 1) <= host.cpus <= MAX_CPUS:
        yield problem("cpus", format_cpus(host.cpus), f"more than 0, at most {format_cpus(MAX_CPUS)} CPUs")
    if not (0 if left_open else 1) <= host.mem <= MAX_MEMORY:
        yield problem("memory", format_memory(host.mem), f"from 1M to {format_memory(MAX_MEMORY)}")
    if len(host.labels) > MAX_LABELS:
        yield problem("labels", f"{len(host.labels)} labels", f"at most {MAX_LABELS}")
    if len({key for key, _ in host.labels}) < len(host.labels):
        yield problem("labels", show([key for key, _ in host.labels]), "give each label one value")
    for key, value in host.labels[:MAX_LABELS]:
        if not _LABEL_KEY.fullmatch(key):
            yield problem("labels", show(key), "use letters, digits, '.', '/', - and _ in labels, at most 63")
        if not _LABEL_VALUE.fullmatch(value):
            fix = "use letters, digits, '.', ':', '/', - and _ in values, 1 to 63"
            yield problem("labels", show(value), fix, key)
