"""Who submits what in the demo, and on which GPUs: sized for the machine, timed for its speed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from tenure.api.requests import JobRequest
from tenure.executors import nvml

CLUSTER = "main"
LOOKBACK_S, RECENT_S, MARGIN_S, FLOOR_S, GRACE_S = 60, 20, 1, 5, 10
PACE_S = 0.25
SLOTS_PER_HOST, SLOT_HOSTS = 8, 2
LEAST_GPUS = 2
"""With fewer real GPUs there is nothing to share out."""


@dataclass(frozen=True, slots=True)
class Machine:
    """``gpus`` in all over ``hosts``; ``real`` ones, or slots that are only counted. ``note`` says which and why."""

    gpus: int
    hosts: int
    real: bool
    note: str

    @property
    def per_host(self) -> int:
        return self.gpus // self.hosts


def look_at_machine() -> Machine:
    """The GPUs of this machine, or two hosts with slots when there are too few."""
    found = nvml.discover_gpus()
    if len(found) >= LEAST_GPUS:
        kinds = ", ".join(sorted({gpu.name or "does not answer" for gpu in found}))
        note = (
            f"NVML finds {len(found)} GPUs here ({kinds}): the demo hands out these. Its training runs on the CPU, "
            "so they stay idle."
        )
        return Machine(len(found), 1, True, note)
    why = "This machine has no GPU" if not found else f"This machine has only {len(found)} GPU"
    note = (
        f"{why}, so the demo counts slots instead: {SLOT_HOSTS} hosts with {SLOTS_PER_HOST} each. The work in them "
        "is real: it trains on the CPU."
    )
    return Machine(SLOTS_PER_HOST * SLOT_HOSTS, SLOT_HOSTS, False, note)


@dataclass(frozen=True, slots=True)
class Part:
    """One job of the story. ``gpus`` for each replica, ``protect_s`` 0: unallocated; ``work_s`` of training."""

    name: str
    user: str
    budget: str
    replicas: int
    gpus: int
    protect_s: float
    work_s: float
    resumable: bool = True

    @property
    def all_gpus(self) -> int:
        return self.replicas * self.gpus

    @property
    def steps(self) -> int:
        return round(self.work_s / PACE_S)

    @property
    def size(self) -> str:
        each = f"{self.gpus} GPU{'s' if self.gpus > 1 else ''}"
        return f"{self.replicas} x {each}" if self.replicas > 1 else each

    def request(self, workdir: Path) -> JobRequest:
        """What the user sends."""
        command = [sys.executable, "-m", "tenure.demo.train", "--steps", str(self.steps), "--pace", str(PACE_S)]
        command += ["--checkpoint-every", "40", "--log-every", "4"]
        return JobRequest(
            budget=self.budget,
            name=self.name,
            replicas=self.replicas,
            gpus=self.gpus,
            command=command,
            min_runtime_ms=round(self.protect_s * 1000),
            resumable=self.resumable,
            workdir=str(workdir),
        )


@dataclass(frozen=True, slots=True)
class Cast:
    """All jobs of the story: ``victim`` is evicted, ``steady`` keeps ``gang`` waiting until its protection ends."""

    victim: Part
    steady: Part | None
    free: tuple[Part, ...]
    debug: Part
    gang: Part

    @property
    def users(self) -> tuple[str, ...]:
        steady = (self.steady,) if self.steady is not None else ()
        return tuple(dict.fromkeys(part.user for part in (self.victim, *steady, *self.free, self.debug, self.gang)))


def cast_for(machine: Machine, slowness: float) -> Cast:
    """Sizes for the machine's GPUs, times multiplied by ``slowness`` (1: an idle laptop)."""

    def seconds(usual: float) -> float:
        return round(usual * slowness, 1)

    quarter = machine.gpus // 4
    victim = Part("weather", "rosa", "lab/science/climate", 2, max(1, quarter), seconds(8), seconds(26))
    if not quarter:
        victim = Part("weather", "rosa", "lab/science/climate", 1, 1, seconds(8), seconds(26))
    steady = None
    if machine.gpus > LEAST_GPUS:
        steady = Part("video", "alan", "lab/vision/video", 1, max(1, quarter), seconds(13), seconds(20))
    rest = machine.gpus - victim.all_gpus - (steady.all_gpus if steady is not None else 0)
    each = max(1, rest // 2)
    free = [Part("sweep-a", "noor", "lab/science/protein", 1, rest - each or 1, 0, 1800)]
    if rest > 1:
        free.append(Part("sweep-b", "mika", "lab/vision/segment", 1, each, 0, 1800))
    debug = Part("debug", "li", "lab/language/align", 1, each, seconds(FLOOR_S), seconds(4), resumable=False)
    gang = Part("pretrain", "grace", "lab/language/pretrain", 2, machine.gpus // 2, seconds(10), seconds(7))
    return Cast(victim, steady, tuple(free), debug, gang)


def recent_s(slowness: float) -> int:
    """What stands for the last day."""
    return round(RECENT_S * slowness)


def configuration(machine: Machine, port: int, slowness: float) -> Mapping[str, str]:
    """The texts of the two configuration files by name."""
    hosts = "hosts = [{ discover = true }]"
    if not machine.real:
        hosts = 'every_host = { gpus = $gpus, cpus = 64, memory = "512G" }\nhosts = [{ name = "node[1-$count]" }]'
    hosts = Template(hosts).substitute(gpus=machine.per_host, count=machine.hosts)
    own = files("tenure.demo")
    main = Template(own.joinpath("tenure.toml").read_text("utf-8")).substitute(
        port=port,
        cluster=CLUSTER,
        hosts=hosts,
        lookback=f"{round(LOOKBACK_S * slowness)}s",
        recent=f"{recent_s(slowness)}s",
        margin=f"{MARGIN_S}s",
        floor=f"{FLOOR_S}s",
        grace=f"{GRACE_S}s",
    )
    return {"tenure.toml": main, "budgets.toml": own.joinpath("budgets.toml").read_text("utf-8")}
