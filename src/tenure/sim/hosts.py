"""Hosts that break and are repaired. Drawn once per host from a seed, so policies are compared on the same faults."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tenure.core.model import SECOND, Cluster, HostState
from tenure.sim.setup import Faults


@dataclass(frozen=True, slots=True)
class Fault:
    """A host breaks at ``at``: at once, or so that it only has to be drained. ``repair``: ms from empty to healthy."""

    at: int
    cluster: str
    host: str
    severe: bool
    repair: int

    @property
    def state(self) -> HostState:
        return HostState.FAILED if self.severe else HostState.DRAINING


def faults(clusters: Sequence[Cluster], how: Faults, seed: int, start: int, until: int) -> list[Fault]:
    """Every fault between ``start`` and ``until``, in the order of time. Whole seconds.

    Times between the faults of a host are exponential, repairs log-normal around their median.
    """
    if not how.between:
        return []
    drawn = [
        fault
        for cluster in clusters
        for host in cluster.hosts
        for fault in _of_host(cluster.name, host.name, how, seed, start, until)
    ]
    return sorted(drawn, key=lambda fault: (fault.at, fault.cluster, fault.host))


def _of_host(cluster: str, host: str, how: Faults, seed: int, start: int, until: int) -> Iterator[Fault]:
    draw = random.Random(f"{seed}/faults/{cluster}/{host}")
    at = start
    while True:
        at += _seconds(draw.expovariate(1 / how.between))
        if at >= until:
            return
        severe = draw.randrange(1000) < how.severe
        repair = _seconds(how.repair * draw.lognormvariate(0, 0.7))
        yield Fault(at, cluster, host, severe, repair)
        at += repair


def _seconds(ms: float) -> int:
    return max(1, round(ms / SECOND)) * SECOND
