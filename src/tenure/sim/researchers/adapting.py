"""People who look at what colleagues get, and do as those do who get more.

An imitation dynamic with the Fermi function of pairwise comparison (A. Traulsen, M. A. Nowak and J. M. Pacheco:
Stochastic dynamics of invasion and fixation. Physical Review E 74, 011909, 2006). Unlike there, people are compared not
with one other at random but with the best of what they see: those whom they know, over the last weeks, in standard
errors; and nobody imitates what does worse. Times ms UTC, durations ms; everything is drawn from the seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import exp, inf, sqrt
from random import Random
from statistics import mean
from typing import Any

from tenure.core.model import DAY, HOUR
from tenure.reports.records import Run
from tenure.sim.researchers.gaming import HONEST, Gaming
from tenure.sim.researchers.lab import Lab
from tenure.sim.researchers.tricks import TRICKS
from tenure.sim.work import Action

LEARNED = ("squat", "idle-loop", "split", "declare-8h", "declare-15m", "declare-0", "high", "opt-out")
"""What people may come to do, unless others are named."""
LEAST_ASKED = HOUR
"""GPUs x ms outstanding without which nothing can be said about what somebody got."""


@dataclass(frozen=True, slots=True)
class Learning:
    """How people learn.

    ``look_every``: from one look to the next, on average. ``choices``: tricks that they know of. ``friends``: people
    outside of their budget whose figures they know, beside everybody's in it. ``noise``: standard errors by which
    somebody else's way has to do better before it is thought of. ``tries``: how often a look ends in trying something
    at random.
    """

    look_every: int = 7 * DAY
    choices: tuple[str, ...] = LEARNED
    friends: int = 10
    noise: float = 1.0
    tries: float = 0.05


@dataclass(slots=True)
class Mind:
    """Somebody's memory. ``marks``: (asked for, useful) at their last two looks, GPUs x ms, since they do what they do.
    ``before``: what they did before, and the part of what they asked for that they got then, while they try something.
    """

    rng: Random
    knows: tuple[int, ...]
    marks: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    before: tuple[str, float] | None = None


class Adapting(Gaming):
    """The ``Workload``. ``shares``: what people do at the beginning; the others are honest.

    ``drift``: at each midnight since the beginning, how many people do what. ``moves``: how often people changed what
    they do, by why: ``tried``, ``imitated``, ``went back``.
    """

    def __init__(self, lab: Lab, who: Mapping[int, str], reap_idle: int = 0, learning: Learning | None = None) -> None:
        self.learning = learning or Learning()
        names = dict.fromkeys([*self.learning.choices, *who.values()])
        super().__init__(lab, {name: TRICKS[name] for name in names}, who, reap_idle)
        self.ways = (HONEST, *names)
        self.minds: dict[int, Mind] = {}
        self.drift: list[dict[str, int]] = []
        self.moves: Counter[str] = Counter()

    def begin(self, at: int) -> Iterable[Action]:
        actions = list(super().begin(at))
        people = self.honest.people
        for person in people:
            rng = Random(f"{self.lab.seed}/learning/{person.number}")
            inside = [one.number for one in people if one.budget == person.budget and one is not person]
            outside = [one.number for one in people if one.budget != person.budget]
            friends = rng.sample(outside, min(self.learning.friends, len(outside)))
            self.minds[person.number] = Mind(rng, (*inside, *sorted(friends)))
            actions.append(self._next_look(person.number, at))
        return [*actions, *self._midnight(at)]

    def figures(self, run: Run) -> dict[str, Any]:
        """Also ``drift`` and ``moves``."""
        return {**super().figures(run), "drift": self.drift, "moves": dict(sorted(self.moves.items()))}

    def _midnight(self, at: int) -> list[Action]:
        counts = Counter(self.doing(number) for number in self.minds)
        self.drift.append({name: counts[name] for name in self.ways})
        return [self.alarm(at + DAY, self._midnight)]

    def _next_look(self, number: int, at: int) -> Action:
        after = round(self.learning.look_every * self.minds[number].rng.uniform(0.5, 1.5))
        return self.alarm(at + after // 1000 * 1000, lambda then: self._look(number, then))

    def _look(self, number: int, at: int) -> Iterable[Action]:
        mind, now = self.minds[number], self.doing(number)
        way, why = self._thought(number, at)
        if way == now:
            mind.marks = [mind.marks[-1], self.deals.of(number, at)]
            return [self._next_look(number, at)]
        got = self.payoff(number, at)
        mind.before = (now, got) if got is not None and why != "went back" else None
        mind.marks = [self.deals.of(number, at)]
        self.moves[why] += 1
        return [*self.become(at, number, way), self._next_look(number, at)]

    def _thought(self, number: int, at: int) -> tuple[str, str]:
        """What somebody comes to do, and why."""
        mind, now = self.minds[number], self.doing(number)
        got = self.payoff(number, at)
        if got is None:
            return now, ""  # they asked for nothing: there is nothing to think about
        before, mind.before = mind.before, None
        if before is not None and got <= before[1]:
            return before[0], "went back"
        if mind.rng.random() < self.learning.tries:
            return mind.rng.choice([way for way in self.ways if way != now]), "tried"
        way, errors = self._best(number, at, got)
        if errors > self.learning.noise and mind.rng.random() < fermi(errors):
            return way, "imitated"
        return now, ""

    def _best(self, number: int, at: int, got: float) -> tuple[str, float]:
        """What does best among those whom somebody knows, and by how many standard errors better than their own way."""
        now = self.doing(number)
        seen: dict[str, list[float]] = {now: [got]}
        for other in self.minds[number].knows:
            theirs = self.payoff(other, at)
            if theirs is not None:
                seen.setdefault(self.doing(other), []).append(theirs)
        best = max(seen, key=lambda way: (mean(seen[way]), way))
        return best, better(seen[best], seen[now], seen.values()) if best != now else 0.0

    def payoff(self, number: int, at: int) -> float | None:
        """The part of what somebody had outstanding lately, in GPUs x time, in which it got on: since the look before
        the last, or since they do what they do. None when they asked for next to nothing.
        """
        asked, got = self.deals.of(number, at)
        asked_before, got_before = self.minds[number].marks[0]
        return (got - got_before) / (asked - asked_before) if asked - asked_before >= LEAST_ASKED else None


def fermi(difference: float) -> float:
    """The chance to imitate somebody who does better by so much."""
    return 1 / (1 + exp(-difference))


def better(theirs: list[float], mine: list[float], groups: Iterable[list[float]]) -> float:
    """By how many standard errors the mean of ``theirs`` is above that of ``mine``. What figures of one group differ
    by, over all ``groups``, is what chance makes; 0 when that cannot be told.
    """
    squares, free = 0.0, 0
    for group in groups:
        middle = mean(group)
        squares += sum((one - middle) ** 2 for one in group)
        free += len(group) - 1
    difference = mean(theirs) - mean(mine)
    if not free or difference <= 0:
        return 0.0
    error = sqrt(squares / free * (1 / len(theirs) + 1 / len(mine)))
    return difference / error if error else inf
