"""What one simulated run is made of. A ``Setup`` can be sent to another process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tenure.core.model import DAY, GPU, HOUR, Budget, Cluster, Host, Policy
from tenure.policies.base import Setting
from tenure.sim.work import Claims, Workload

START = 1_767_571_200_000
"""When simulations start unless told otherwise: Monday 2026-01-05, midnight UTC."""

_CPUS_PER_GPU, _MIB_PER_GPU = 16, 128 * 1024
_HOSTS_PER_RACK = 8


@dataclass(frozen=True, slots=True)
class Faults:
    """How hosts break. ``between``: mean ms between faults of one host, 0 for never. ``severe``: part of them, in
    thousandths, that end everything on the host at once; the others only ask for a drain. ``repair``: median ms from
    empty to healthy.
    """

    between: int = 250 * DAY
    severe: int = 600
    repair: int = 4 * HOUR


@dataclass(frozen=True, slots=True)
class Setup:
    """One run. ``workload`` (of a seed) and ``claims`` (of a policy and a seed) make fresh ones, to run it again.

    ``policy``: the name of a policy and its options. ``scheduling``: the core's settings. ``duration`` and ``warmup``
    in ms; metrics leave the warm-up out. ``settings``: what was set or varied, for people; ``varied``: the names of
    those that runs of one command differ in. ``notes``: what readers of the results should know.
    """

    title: str
    clusters: tuple[Cluster, ...]
    budgets: tuple[Budget, ...]
    workload: Callable[[int], Workload]
    claims: Callable[[str, int], Claims]
    policy: str
    seed: int
    duration: int
    options: Mapping[str, Setting] = field(default_factory=dict)
    scheduling: Policy = field(default_factory=Policy)
    faults: Faults = field(default_factory=Faults)
    start: int = START
    warmup: int = 3 * DAY
    settings: tuple[tuple[str, str], ...] = ()
    varied: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What tells this run from the others of its folder: policy, what was varied, seed. A name for a folder."""
        varied = "".join(f"-{name}={value}" for name, value in self.settings if name in self.varied).replace("/", ".")
        return f"{self.policy}{varied}-seed{self.seed}"

    def told(self, options: Iterable[str]) -> Setup:
        """With options of its workload in the title, so that runs of other work are not taken for the same."""
        said = ", ".join(options)
        return replace(self, title=f"{self.title} ({said})") if said else self


def make_cluster(gpus: int, name: str = "main", per_host: int = 8) -> Cluster:
    """A cluster of equal hosts. Raises ValueError unless hosts come out whole."""
    if gpus < per_host or gpus % per_host:
        raise ValueError(f"gpus = {gpus}: must be a multiple of the {per_host} GPUs of a host")
    cpus, mem = per_host * _CPUS_PER_GPU * GPU, per_host * _MIB_PER_GPU
    width = len(str(gpus // per_host - 1))
    hosts = tuple(
        Host(f"{name}-{i:0{width}d}", per_host, cpus, mem, (("rack", f"r{i // _HOSTS_PER_RACK}"),))
        for i in range(gpus // per_host)
    )
    return Cluster(name, hosts)
