"""What a configuration leaves to the machines: found hosts, their CPUs and memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from tenure.config.check import check
from tenure.config.problems import ConfigError, Names, Problem
from tenure.config.settings import Config, Discover
from tenure.core.model import Cluster, Host


class Machine(Protocol):
    """What an executor tells of a machine: ``cpus`` in thousandths, ``mem`` in MiB, ``cluster`` '' for any."""

    @property
    def name(self) -> str: ...
    @property
    def gpus(self) -> int: ...
    @property
    def cpus(self) -> int: ...
    @property
    def mem(self) -> int: ...
    @property
    def cluster(self) -> str: ...


def needs_machines(config: Config) -> bool:
    """Whether ``resolve`` has something to fill in."""
    return bool(config.discover) or any(
        host.cpus == 0 or host.mem == 0 for cluster in config.clusters for host in cluster.hosts
    )


def resolve(config: Config, machines: Iterable[Machine], names: Names | None = None) -> Config:
    """Fill in what was left to the machines.

    A declared host takes missing values from the found machine of its name, else an equal part of the first one
    (declared hosts that live together on one machine). Raises ConfigError when there is nothing to take from.
    """
    if not needs_machines(config):
        return config
    file = (names or Names()).clusters
    found = list(machines)
    sharing = sum(
        1
        for cluster in config.clusters
        for host in cluster.hosts
        if (host.cpus == 0 or host.mem == 0) and host.name not in {machine.name for machine in found}
    )
    problems: list[Problem] = []
    clusters = []
    for cluster in config.clusters:
        here = [machine for machine in found if machine.cluster in ("", cluster.name)]
        hosts = [_completed(host, here, sharing) for host in cluster.hosts]
        for place in config.discover:
            if place.cluster == cluster.name:
                hosts += _discovered(place, here, file, problems)
        problems += [_unknown(file, cluster, host) for host in hosts if host.cpus == 0 or host.mem == 0]
        clusters.append(replace(cluster, hosts=tuple(hosts)))
    if problems:
        raise ConfigError(problems)
    problems = check(tuple(clusters), config.policy, config.budgets, config.grants, names)
    if problems:
        raise ConfigError(problems)
    return replace(config, clusters=tuple(clusters), discover=())


def _completed(host: Host, found: list[Machine], sharing: int) -> Host:
    if (host.cpus and host.mem) or not found:
        return host
    own = next((machine for machine in found if machine.name == host.name), None)
    source, parts = (own, 1) if own is not None else (found[0], sharing)
    return replace(host, cpus=host.cpus or source.cpus // parts, mem=host.mem or source.mem // parts)


def _discovered(place: Discover, found: list[Machine], file: str, problems: list[Problem]) -> list[Host]:
    with_gpus = [machine for machine in found if machine.gpus > 0]
    if not with_gpus:
        problems.append(
            Problem(
                file,
                f"clusters.{place.cluster}.hosts.discover",
                "true",
                'no GPU was found on this machine; declare slots instead: { name = "slots", gpus = 8 }',
            )
        )
    return [
        Host(machine.name, machine.gpus, place.cpus or machine.cpus, place.mem or machine.mem, place.labels)
        for machine in with_gpus
    ]


def _unknown(file: str, cluster: Cluster, host: Host) -> Problem:
    field = "cpus" if host.cpus == 0 else "memory"
    return Problem(
        file,
        f"clusters.{cluster.name}.hosts.{host.name}.{field}",
        "(left to the machine)",
        f"the machine does not tell; set {field}",
    )
