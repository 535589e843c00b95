"""What people sign for a run: the job as submitted, with its contract, and what only they know of it. Times ms."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log2
from random import Random

from tenure.core.model import DAY, HOUR, MINUTE, SECOND, Contract, Execution, JobSpec, Role
from tenure.sim.researchers.lab import Habits, Lab
from tenure.sim.researchers.plans import HOST, End, Part, Run
from tenure.sim.work import Work

SMALL = (30 * MINUTE, HOUR, 2 * HOUR)
MIDDLE = (HOUR, 2 * HOUR, 4 * HOUR)
LARGE = (4 * HOUR, 6 * HOUR, 8 * HOUR)
CHECKPOINTS = (10 * MINUTE, 15 * MINUTE, 30 * MINUTE, 60 * MINUTE)
EXECUTION = Execution()
QUARTER = 15 * MINUTE
FLOOR = 5 * MINUTE
MAXIMUM = 8 * HOUR
LOOKBACK = 7 * DAY


@dataclass(slots=True)
class Signer:
    """Writes the jobs of one person. ``allocation``: GPUs that the budget is allocated. ``large``: GPUs that are many
    on the cluster. ``host``: GPUs of one host.
    """

    user: str
    owner: int
    budget: str
    clusters: tuple[str, ...]
    allocation: float
    large: int
    host: int
    lab: Lab
    written: int = 0
    roles: dict[int, tuple[Role, ...]] = field(default_factory=dict)

    def work(self, rng: Random, run: Run, charged: bool, shrink: int) -> Work:
        """The job of a run. ``shrink``: how often the contract is halved after long waits."""
        habits = self.lab.habits
        guess = int(run.planned * rng.uniform(0.8, 1.4))
        min_runtime = self._min_runtime(rng, run, guess, shrink) if charged else 0
        timeout = None
        if rng.random() < habits.timeouts:
            timeout = max(_up(int(guess * rng.uniform(2, 3)), MINUTE), 2 * min_runtime, 10 * MINUTE)
        startup = min(self._startup(rng, run.gpus), max(SECOND, run.duration // 2 // SECOND * SECOND))
        asked = max(run.planned, run.duration + MINUTE) if run.end is End.CANCELLED else run.duration
        self.written += 1
        training = run.gpus >= HOST and run.part is not Part.TRY
        spec = JobSpec(
            name=f"{run.kind.name}-{self.written}",
            user=self.user,
            budget=self.budget,
            roles=self._roles(run.gpus),
            contract=Contract(min_runtime, run.resumable),
            clusters=self.clusters,
            timeout=timeout,
            execution=EXECUTION,
            grace=5 * MINUTE if run.resumable else 30 * SECOND,
        )
        return Work(
            spec,
            self.owner,
            run.kind.name,
            runtime=max(SECOND, asked - startup),
            exit_code=1 if run.end is End.FAILED else 0,
            checkpoint_every=self._checkpoint_every(rng, run),
            save_time=_between(rng, 20, 90, SECOND) if training else _between(rng, 2, 9, SECOND),
            startup=startup,
            restart_cost=_between(rng, 180, 420, SECOND) if training else _between(rng, 10, 30, SECOND),
        )

    def _min_runtime(self, rng: Random, run: Run, guess: int, shrink: int) -> int:
        if run.part is Part.TRY:
            return FLOOR if guess <= FLOOR and rng.random() < 0.7 else QUARTER
        if guess <= QUARTER:
            wanted = FLOOR if guess <= FLOOR else QUARTER
        elif not run.resumable:
            wanted = _up(guess * 6 // 5, QUARTER)
        else:
            large = run.gpus >= self.large
            steps = LARGE if large else MIDDLE if run.gpus > HOST else SMALL
            wanted = min(rng.choice(steps), _up(guess, QUARTER))
        if shrink and wanted > QUARTER:
            wanted = max(QUARTER, _up(wanted >> shrink, MINUTE))
        return max(FLOOR, min(wanted, MAXIMUM, self.affordable(run.gpus)))

    def affordable(self, gpus: int) -> int:
        """The longest contract that the budget can have for so many GPUs."""
        return int(self.allocation * LOOKBACK * 0.95 / gpus) // MINUTE * MINUTE

    def _checkpoint_every(self, rng: Random, run: Run) -> int:
        if not run.resumable or run.kind.name == "evaluation":
            return 0
        if run.gpus >= self.large:
            return _between(rng, 30, 60, MINUTE)
        return CHECKPOINTS[int(rng.random() * len(CHECKPOINTS))]

    def _startup(self, rng: Random, gpus: int) -> int:
        more = int(6 * log2(gpus / self.host)) * SECOND if gpus > self.host else 0
        return min(60 * SECOND, _between(rng, 10, 25, SECOND) + more)

    def _roles(self, gpus: int) -> tuple[Role, ...]:
        """Whole hosts from one host up."""
        roles = self.roles.get(gpus)
        if roles is None:
            replicas, each = (-(-gpus // self.host), self.host) if gpus > self.host else (1, gpus)
            cpus, mem = self.lab.cpus_per_gpu * each, self.lab.mem_per_gpu * each
            roles = self.roles[gpus] = (Role("main", replicas, each, cpus, mem, ("train",)),)
        return roles


def limit(habits: Habits, cluster_gpus: int, host: int, allocation: float, demand: float) -> float:
    """The largest gang of somebody: GPUs, before it is rounded down to a power of two."""
    wanted = max(float(host), min(habits.gang_of_budget * allocation, habits.gang_of_person * demand))
    return min(wanted, habits.gang_of_cluster * cluster_gpus)


def _between(rng: Random, low: int, high: int, unit: int) -> int:
    """``low`` to ``high`` units."""
    return (low + int(rng.random() * (high - low + 1))) * unit


def _up(duration: int, unit: int) -> int:
    return -(-duration // unit) * unit
