"""A launch divided by nodes, and what is asked of Slurm for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tenure.executors import launching, procs
from tenure.executors.base import Launch, ReplicaLaunch
from tenure.executors.files import AttemptFiles
from tenure.executors.slurm.node import directory_of

LOOK_EVERY_MS = 1_000
"""How often a supervisor on another host looks for an order to stop."""
FIRST_PORT, PORTS = 20_000, 10_000
"""MASTER_PORT is derived from the attempt: below the ports that Linux gives to outgoing connections."""


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes of a gang that are asked for alike: ``gpus``, ``cpus`` and ``mem`` (MiB) on each."""

    hosts: tuple[str, ...]
    gpus: int
    cpus: int
    mem: int


@dataclass(frozen=True, slots=True)
class Plan:
    """``launch.json`` of an attempt. Each part is a Slurm job of its own: a plain one asks for the same everywhere.

    ``ranks``: by host, the node ranks of the replicas there. ``hosts`` in the order of their first ranks.
    """

    attempt_id: str
    job: int
    number: int
    name: str
    cluster: str
    hosts: tuple[str, ...]
    ranks: Mapping[str, tuple[int, ...]]
    parts: tuple[Part, ...]


def plan_of(launch: Launch) -> Plan:
    by_host: dict[str, list[ReplicaLaunch]] = {}
    for replica in sorted(launch.replicas, key=lambda one: one.node_rank):
        by_host.setdefault(replica.host, []).append(replica)
    alike: dict[tuple[int, int, int], list[str]] = {}
    for host, replicas in by_host.items():
        alike.setdefault(_asked(replicas), []).append(host)
    return Plan(
        attempt_id=launch.attempt_id,
        job=launch.job_id,
        number=launch.number,
        name=launch.name,
        cluster=launch.cluster,
        hosts=tuple(by_host),
        ranks={host: tuple(one.node_rank for one in replicas) for host, replicas in by_host.items()},
        # The largest first, so that from attempt to attempt the same part keeps the same Slurm job.
        parts=tuple(Part(tuple(hosts), *asked) for asked, hosts in sorted(alike.items(), reverse=True)),
    )


def _asked(replicas: list[ReplicaLaunch]) -> tuple[int, int, int]:
    gpus = sum(len(one.gpus) for one in replicas)
    # Whole CPUs, rounded down, so that what fits in Tenure's thousandths fits in Slurm.
    cpus = max(1, sum(one.cpus for one in replicas) // 1000)
    return gpus, cpus, max(1, sum(one.mem for one in replicas))


def write(plan: Plan, attempt: AttemptFiles, launch: Launch, env: Mapping[str, str], address: str, news: Path) -> None:
    """The files that the nodes need, then ``launch.json`` of the whole. ``address``: of the first node."""
    whole = launching.render(launch, attempt.directory, env, address)
    port = FIRST_PORT + int(whole["tag"]) % PORTS
    for host in plan.hosts:
        node = AttemptFiles(directory_of(attempt.directory, host))
        node.directory.mkdir(parents=True, exist_ok=True)
        here = [one for one in whole["processes"] if one["env"]["TENURE_HOST"] == host]
        more = {
            "processes": here,
            "port": port,
            "logs": str(attempt.directory),
            "news": str(news),
            "look_every": LOOK_EVERY_MS,
        }
        procs.write_json(node.launch, {**whole, **more})
    procs.write_json(attempt.launch, asdict(plan))


def read(attempt: AttemptFiles) -> Plan | None:
    content: dict[str, Any] | None = procs.read_json(attempt.launch)
    if content is None:
        return None
    return Plan(
        **{
            **content,
            "hosts": tuple(content["hosts"]),
            "ranks": {host: tuple(ranks) for host, ranks in content["ranks"].items()},
            "parts": tuple(Part(**{**part, "hosts": tuple(part["hosts"])}) for part in content["parts"]),
        }
    )
