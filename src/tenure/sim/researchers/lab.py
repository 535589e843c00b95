"""The settings of a synthetic lab: machines, budgets, people, habits. Times and durations in ms, shares in percent."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.core.model import DAY, HOUR, MINUTE, SHARE_ONE, Budget
from tenure.sim.researchers.mix import KINDS, Kind


@dataclass(frozen=True, slots=True)
class Machines:
    """A cluster as people see it. ``hosts`` machines with ``gpus_per_host`` GPUs each."""

    name: str = "main"
    hosts: int = 32
    gpus_per_host: int = 8

    @property
    def gpus(self) -> int:
        return self.hosts * self.gpus_per_host


@dataclass(frozen=True, slots=True)
class Program:
    """``share``: percent of the lab. ``projects``: (name, percent of the program)."""

    name: str
    share: int
    projects: tuple[tuple[str, int], ...]


PROGRAMS = (
    Program("language", 40, (("pretraining", 45), ("reasoning", 30), ("alignment", 15), ("data", 10))),
    Program(
        "multimodal", 30, (("vision-language", 40), ("video", 25), ("speech", 15), ("documents", 12), ("agents", 8))
    ),
    Program("science", 20, (("proteins", 50), ("climate", 30), ("mathematics", 20))),
    Program("platform", 10, (("efficiency", 60), ("benchmarks", 25), ("safety", 15))),
)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """When people work: by their local clock, in hours of the day where nothing else is said.

    ``zones``: (hours from UTC, weight). ``begins`` and ``ends``: means of a working day, which differ by
    ``between_people`` and from day to day by ``between_days`` (standard deviations). ``evening``: the fraction of days
    with another session, from ``evening_begins`` to about ``evening_ends``, which may be past midnight. ``weekdays``,
    ``weekends``: the fraction of such days that people work. ``night``: the fraction of submissions that do not wait
    for the owner's next working time. ``settle``: the mean time from the start of work until what waited overnight is
    submitted.
    """

    zones: tuple[tuple[int, float], ...] = ((-8, 0.80), (-5, 0.12), (1, 0.08))
    begins: float = 9.8
    ends: float = 19.0
    between_people: float = 1.6
    between_days: float = 0.7
    evening: float = 0.5
    evening_begins: float = 20.5
    evening_ends: float = 24.3
    weekdays: float = 0.95
    weekends: float = 0.62
    night: float = 0.1
    settle: int = 90 * MINUTE


@dataclass(frozen=True, slots=True)
class Season:
    """A phase of a project: ``level`` times the usual demand, for ``length`` on average, drawn with ``weight``."""

    name: str
    level: float
    length: int
    weight: float


SEASONS = (
    Season("quiet", 0.05, 3 * DAY, 0.25),
    Season("steady", 0.90, 6 * DAY, 0.45),
    Season("busy", 1.90, 4 * DAY, 0.30),
)
"""Levels count relative to those of the other budgets at the time, so that a lab always asks for about the same."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How people use the cluster. Durations in ms.

    ``zipf``: the exponent of the parts that the people of one budget have of its demand; ``even``: the fraction of it
    that is spread evenly instead. ``gang_of_cluster``: no job is larger than this part of a cluster.
    ``gang_of_budget``, ``gang_of_person``: nor than this many times the budget's allocation or the person's demand;
    one host is always allowed. ``plans_per_day``: how many different things somebody prepares and launches as charged
    work; who asks for more has more of the long kinds. ``try_max``: the longest try. ``pause``: the median time between
    the end of a try and the next. ``think``: the median time between a launch and the next preparations, less when much
    is missing from their demand. ``long_wait``: after a longer one the next launch is smaller or its contract shorter;
    after one below ``short_wait`` they go back. ``saved_from``: whoever plans a longer run makes it resumable, since
    no contract protects it to its end. ``patience``: the median time until a waiting launch is given up;
    ``try_patience``: a try. ``slack``: while the whole lab asks for less than this part of what it usually does, a
    launch may be too large for a person's demand at any time; otherwise it keeps them from another such one until their
    demand is back at its mean, for ``rest_max`` at most. ``timeouts``: the fraction of jobs with one. ``mend``: the
    fraction of failed launches that are mended and launched again. ``large``: jobs of at least this part of a cluster
    run for ``large_median``, with the deviation ``large_sigma`` of the logarithm, between ``large_min`` and
    ``large_max``.
    """

    zipf: float = 2.0
    even: float = 0.1
    gang_of_cluster: float = 0.5
    gang_of_budget: float = 4.0
    gang_of_person: float = 6.0
    plans_per_day: float = 3.0
    try_max: int = 15 * MINUTE
    pause: int = 6 * MINUTE
    think: int = 40 * MINUTE
    long_wait: int = 4 * HOUR
    short_wait: int = 30 * MINUTE
    saved_from: int = 8 * HOUR
    patience: int = 2 * DAY
    try_patience: int = 4 * HOUR
    slack: float = 0.8
    rest_max: int = 30 * DAY
    timeouts: float = 0.25
    mend: float = 0.6
    large: float = 0.125
    large_median: int = 60 * HOUR
    large_sigma: float = 0.8
    large_min: int = 12 * HOUR
    large_max: int = 21 * DAY


@dataclass(frozen=True, slots=True)
class Lab:
    """Everything that a synthetic lab is made from. The defaults are the preset ``published``.

    ``charged`` and ``free``: charged and unallocated demand that people keep outstanding, as a multiple of the GPUs.
    ``cpus_per_gpu`` in thousandths and ``mem_per_gpu`` in MiB are what jobs ask for beside their GPUs. ``flexible``:
    the fraction of people who accept any cluster rather than their own only.
    """

    clusters: tuple[Machines, ...] = (Machines(),)
    programs: tuple[Program, ...] = PROGRAMS
    people: int = 150
    seed: int = 1
    charged: float = 0.84
    free: float = 2.0
    kinds: tuple[Kind, ...] = KINDS
    rhythm: Rhythm = field(default_factory=Rhythm)
    seasons: tuple[Season, ...] = SEASONS
    habits: Habits = field(default_factory=Habits)
    flexible: float = 0.25
    cpus_per_gpu: int = 0
    mem_per_gpu: int = 0

    @property
    def gpus(self) -> int:
        """Of all clusters."""
        return sum(machines.gpus for machines in self.clusters)

    def tree(self) -> tuple[Budget, ...]:
        """The budgets: the root ``lab``, its programs, their projects."""
        budgets = [Budget("lab", SHARE_ONE)]
        for program in self.programs:
            path = f"lab/{program.name}"
            budgets.append(Budget(path, program.share * SHARE_ONE // 100))
            budgets += [Budget(f"{path}/{name}", share * SHARE_ONE // 100) for name, share in program.projects]
        return tuple(budgets)

    def shares(self) -> dict[str, float]:
        """Path of each project -> its share of the whole lab."""
        return {
            f"lab/{program.name}/{name}": program.share * share / 10_000
            for program in self.programs
            for name, share in program.projects
        }
