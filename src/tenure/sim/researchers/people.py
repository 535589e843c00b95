"""The people of a lab: whose budget, how much demand, which kinds of work, how large. Made once, from the settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tenure.core.model import DAY
from tenure.sim.researchers.contracts import Signer, limit
from tenure.sim.researchers.lab import Lab, Machines, Season
from tenure.sim.researchers.mix import Choice, Kind
from tenure.sim.researchers.plans import Plan, Planner, Run, power_below
from tenure.sim.researchers.rhythm import Calendar, Seasons, Year

MOST_LONG = 0.97
"""Whoever leads long work does a little of something else."""


BUSY_GPUS = 24
"""GPUs of unallocated demand that somebody has outstanding while they have such work in mind: a few launches. People
with less on average have none at all in between.
"""
SPELL = 2 * DAY


@dataclass(slots=True)
class Held:
    """A job of somebody that waits or runs. Times ms UTC, durations ms.

    ``since``: submitted or requeued. ``ran``: before the last requeue. ``cancel_at``: when its owner will stop it.
    """

    stream: Stream
    run: Run
    gpus: int
    startup: int
    since: int
    patience: int
    in_step: bool
    started: int | None = None
    ran: int = 0
    cancel_at: int = -1
    given_up: bool = False


@dataclass(slots=True)
class Account:
    """What somebody holds or waits for, GPUs, beside what that usually is.

    ``credit``: GPU-ms by which it was below the target; negative after a launch that was larger. ``updated``: ms UTC.
    """

    usual: float = 0.0
    outstanding: int = 0
    credit: float = 0.0
    updated: int = 0

    def pass_time(self, at: int, season: float, rest_max: int) -> None:
        """Until ``at``, ms UTC. ``season``: what the usual demand is multiplied by. ``rest_max``: ms."""
        if at > self.updated:
            credit = self.credit + (self.usual * season - self.outstanding) * (at - self.updated)
            self.credit = min(max(credit, -rest_max * self.usual), DAY * self.usual)
            self.updated = at


@dataclass(slots=True)
class Team:
    """The people of one budget together, for one sort of work. ``lab``: that of everybody."""

    budget: str
    year: Year
    account: Account
    lab: Account

    def season(self, at: int) -> float:
        """What usual demand is multiplied by at ``at``, ms UTC."""
        return self.year.level(self.budget, at)


@dataclass(slots=True)
class Stream:
    """The charged or the unallocated work of one person.

    ``open``: jobs of the present step that have not ended. ``wake_at``: when the person comes back to it, -1 when no
    time is set.
    """

    charged: bool
    team: Team
    account: Account
    kinds: Choice[Kind]
    running: Choice[Kind]
    """By GPU time, which is what somebody finds running at the beginning."""
    interest: Seasons
    """When they have any of it in mind."""
    plan: Plan | None = None
    open: int = 0
    wake_at: int = -1
    again: list[Run] = field(default_factory=list)
    """What was evicted and cannot resume."""


@dataclass(slots=True)
class Person:
    """``shrink``: how often the next launches are halved after long waits, in GPUs (``smaller``) or in the contract."""

    number: int
    name: str
    budget: str
    rng: Random
    calendar: Calendar
    planner: Planner
    signer: Signer
    charged: Stream
    free: Stream
    smaller: bool
    shrink: int = 0
    waiting: dict[int, Held] = field(default_factory=dict)
    """Job id -> waiting job, in the order of submission."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where somebody belongs before anything is drawn: a budget and their part of its demand."""

    budget: str
    allocation: float
    """Of the budget, a fraction of the lab."""
    part: float


def places(lab: Lab) -> list[Place]:
    """One for each person. Budgets have people by their shares, at least one; within one the parts follow Zipf's law.

    Raises ValueError when there are fewer people than budgets with a share.
    """
    shares = {path: share for path, share in lab.shares().items() if share > 0}
    if lab.people < len(shares):
        raise ValueError(f"{lab.people} people are too few for {len(shares)} budgets: each needs one")
    out = []
    for path, count in _heads(shares, lab.people).items():
        weights = [(rank + 1) ** -lab.habits.zipf for rank in range(count)]
        total = sum(weights)
        for weight in weights:
            part = (1 - lab.habits.even) * weight / total + lab.habits.even / count
            out.append(Place(path, shares[path], part))
    return out


def _heads(shares: dict[str, float], people: int) -> dict[str, int]:
    """People of each budget: by largest remainder, at least one."""
    total = sum(shares.values())
    left = people - len(shares)
    exact = {path: left * share / total for path, share in shares.items()}
    heads = {path: 1 + int(value) for path, value in exact.items()}
    order = sorted(shares, key=lambda path: (int(exact[path]) - exact[path], path))
    for path in order[: people - sum(heads.values())]:
        heads[path] += 1
    return heads


class Hiring:
    """Makes the people of a lab for a simulation that begins at ``begin``."""

    def __init__(self, lab: Lab, begin: int) -> None:
        self.lab = lab
        self.begin = begin
        self.teams: dict[str, tuple[Team, Team]] = {}
        """Charged and unallocated work of each budget."""
        year = Year(lab.shares(), lab.seasons, lab.seed, begin)
        charged, free = Account(), Account()
        for path in lab.shares():
            self.teams[path] = (
                Team(path, year, Account(updated=begin), charged),
                Team(path, year, Account(updated=begin), free),
            )
        self.planners: dict[tuple[str, int, int], Planner] = {}
        self.long_least = 0.0
        """The part of long kinds in the charged work of everybody who may have gangs."""

    def people(self) -> list[Person]:
        """Everybody, in the order of their numbers."""
        where = places(self.lab)
        rngs = [Random(f"{self.lab.seed}/{number}") for number in range(len(where))]
        homes = Choice(tuple((machines, machines.gpus) for machines in self.lab.clusters))
        home = [homes.draw(rng) for rng in rngs]
        planners = [self._planner(place, home[i]) for i, place in enumerate(where)]
        self.long_least = self._least(where, planners)
        return [self._person(i, place, rngs[i], home[i], planners[i]) for i, place in enumerate(where)]

    def _planner(self, place: Place, machines: Machines) -> Planner:
        allocation = place.allocation * machines.gpus
        demand = (self.lab.charged + self.lab.free) * place.allocation * place.part * self.lab.gpus
        most = power_below(limit(self.lab.habits, machines.gpus, machines.gpus_per_host, allocation, demand))
        key = (machines.name, most, power_below(max(8.0, 2 * demand)))
        if key not in self.planners:
            self.planners[key] = Planner(self.lab.kinds, self.lab.habits, most, key[2], self._large(machines.gpus))
        return self.planners[key]

    def _large(self, gpus: int) -> int:
        return max(16, int(self.lab.habits.large * gpus))

    def _leads(self, planner: Planner) -> bool:
        """Whether somebody may have gangs worth the name: two hosts, and a quarter of what is large."""
        return planner.limit >= max(16, planner.large // 4)

    def _person(self, number: int, place: Place, rng: Random, home: Machines, planner: Planner) -> Person:
        lab = self.lab
        others = [machines.name for machines in lab.clusters if machines is not home]
        clusters = (home.name, *others) if rng.random() < lab.flexible else (home.name,)
        name = f"{place.budget.rpartition('/')[2]}-{number:03d}"
        allocation = place.allocation * home.gpus
        demand = place.allocation * place.part * lab.gpus
        return Person(
            number=number,
            name=name,
            budget=place.budget,
            rng=rng,
            calendar=Calendar(Random(f"{lab.seed}/{number}/days"), lab.rhythm, self.begin),
            planner=planner,
            signer=Signer(name, number, place.budget, clusters, allocation, planner.large, home.gpus_per_host, lab),
            charged=self._stream(rng, planner, self.teams[place.budget][0], lab.charged * demand, charged=True),
            free=self._stream(rng, planner, self.teams[place.budget][1], lab.free * demand, charged=False),
            smaller=rng.random() < 0.5,
        )

    def _stream(self, rng: Random, planner: Planner, team: Team, usual: float, *, charged: bool) -> Stream:
        times = self._times(planner, usual, charged)
        plans = tuple((kind, time / planner.expected(kind, charged)) for kind, time in times if time > 0)
        typical = sum(time * planner.expected(kind, charged) for kind, time in times) / sum(time for _, time in times)
        rest = min(typical, self.lab.habits.rest_max * usual)
        team.account.usual += usual
        team.lab.usual += usual
        account = Account(usual, credit=-rng.random() * rest, updated=self.begin)
        interest = Seasons(Random(rng.random()), self._interest(1.0 if charged else usual / BUSY_GPUS), self.begin)
        return Stream(charged, team, account, Choice(plans), Choice(times), interest)

    def _interest(self, part: float) -> tuple[Season, ...]:
        """Spells of work, ``part`` of all time, between which there is none."""
        on = Season("on", 1 / min(1.0, part), SPELL, 1.0)
        return (on,) if part >= 1 else (on, Season("off", 0.0, int(SPELL * (1 / part - 1)), 1.0))

    def _times(self, planner: Planner, usual: float, charged: bool) -> tuple[tuple[Kind, float], ...]:
        """The parts of the kinds in the GPU time of somebody: long kinds are left to those who may have gangs."""
        times = self._weights(charged)
        long = _long(times)
        if long in (0, 1):
            return times
        if not charged:
            mine = long
        elif self._leads(planner):
            mine = max(self.long_least, self._needed(planner, usual, times))
        else:
            mine = 0.0
        return tuple((kind, time * (mine / long if kind.long else (1 - mine) / (1 - long))) for kind, time in times)

    def _weights(self, charged: bool) -> tuple[tuple[Kind, float], ...]:
        weights = [(kind, kind.charged_time if charged else kind.free_time) for kind in self.lab.kinds]
        total = sum(weight for _, weight in weights)
        return tuple((kind, weight / total) for kind, weight in weights)

    def _needed(self, planner: Planner, usual: float, times: tuple[tuple[Kind, float], ...]) -> float:
        """The part of long kinds with which somebody's demand takes no more plans than they can make in a day."""
        long = _long(times)
        rates = [0.0, 0.0]
        for kind, time in times:
            if time > 0:
                rates[kind.long] += time / planner.expected(kind, True) / (long if kind.long else 1 - long)
        most = self.lab.habits.plans_per_day / (usual * DAY)
        return min(1.0, max(0.0, (rates[0] - most) / (rates[0] - rates[1]))) if rates[0] > rates[1] else 0.0

    def _least(self, where: list[Place], planners: list[Planner]) -> float:
        """What everybody who may have gangs must have of long kinds, so that the whole lab has its part of them."""
        times = self._weights(True)
        needed, able = [], []
        for place, planner in zip(where, planners, strict=True):
            part = place.allocation * place.part
            if self._leads(planner) and 0 < _long(times) < 1:
                able.append(part)
                needed.append(self._needed(planner, self.lab.charged * part * self.lab.gpus, times))
        wanted = _long(times) * sum(place.allocation * place.part for place in where)
        low, high = 0.0, MOST_LONG
        for _ in range(30):
            middle = (low + high) / 2
            have = sum(part * max(middle, need) for part, need in zip(able, needed, strict=True))
            low, high = (middle, high) if have < wanted else (low, middle)
        return high


def _long(times: tuple[tuple[Kind, float], ...]) -> float:
    """The part of long kinds."""
    return sum(time for kind, time in times if kind.long)
