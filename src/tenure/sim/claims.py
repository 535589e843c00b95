"""What people claim for their work where claims are free: priorities and protection under ``priority``.

Everybody has habits, drawn once from the seed and their number. ``Settled`` people keep to them. ``Escalating`` people
learn that a higher claim costs nothing: whoever waits longer than their patience, or is evicted, claims the most from
then on, and others slowly copy the colleagues who do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import exp, log
from random import Random

from tenure.core.model import DAY, HOUR, JobSpec
from tenure.policies import NAMES
from tenure.policies.priority import HIGH, LOW, NORMAL, PriorityCaps
from tenure.sim.work import AsSigned, Claims, Work

WEEK = 7 * DAY


@dataclass(frozen=True, slots=True)
class Habits:
    """How people claim. Durations in ms; the rest are fractions unless said otherwise.

    ``levels``: how many people usually claim each level. ``usual``: how often they do; else any level as likely as
    among all. ``protects``: people who claim protection for funded work. ``flexible``: people who submit work that can
    resume without it when their team seems to be at its cap, and have not been evicted for that. ``notice``: how long
    protected work of their team has waited, or waited within the last day, when it seems so. ``patience``: median, with
    the deviation ``spread`` of its logarithm. ``copying``: how often people copy others in a week, were all of their
    colleagues escalated.
    """

    levels: tuple[tuple[int, float], ...] = ((LOW, 0.2), (NORMAL, 0.6), (HIGH, 0.2))
    usual: float = 0.8
    protects: float = 0.8
    flexible: float = 0.3
    notice: int = HOUR
    patience: int = 12 * HOUR
    spread: float = 1.0
    copying: float = 0.5


class Waits:
    """Work that was submitted and has not started yet, oldest first."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[int, Work]] = {}
        """By identity: several pieces of work may be equal. Holding them keeps their identity."""

    def begin(self, at: int, work: Work) -> None:
        self._since[id(work)] = at, work

    def end(self, at: int, work: Work) -> int:
        """ms that it has waited by ``at``; 0 when it did not wait any more."""
        since, _ = self._since.pop(id(work), (at, work))
        return at - since

    def longest(self, at: int) -> int:
        """ms that the oldest has waited by ``at``, 0 when nothing waits."""
        return at - next(iter(self._since.values()))[0] if self._since else 0


@dataclass(slots=True)
class Person:
    """Somebody's habits, and what became of them."""

    rng: Random
    team: str
    level: int
    protects: bool
    flexible: bool
    patience: int
    escalated: bool = False
    evicted: bool = False
    looked: int = 0
    """When they last looked at what their colleagues claim, ms UTC."""
    waits: Waits = field(default_factory=Waits)


@dataclass(slots=True)
class Team:
    """The people of one budget. ``waited``: when protected work last started after a wait that they noticed."""

    people: list[Person] = field(default_factory=list)
    waits: Waits = field(default_factory=Waits)
    waited: int | None = None

    def escalated(self) -> float:
        return sum(person.escalated for person in self.people) / len(self.people)


class Settled:
    """People claim as they always did, whatever happens to them.

    Funded work has the level that its owner is used to and is protected by most; unfunded work is preemptible and LOW.
    """

    def __init__(self, seed: int, habits: Habits | None = None) -> None:
        self.seed = seed
        self.habits = habits or Habits()
        self.people: dict[int, Person] = {}
        self.teams: dict[str, Team] = {}

    def signed(self, work: Work) -> Work:
        return work

    def spec(self, at: int, work: Work) -> JobSpec:
        if not work.funded:
            return _claimed(work.spec, LOW, protected=False)
        person = self._person(at, work)
        self._reconsider(at, person)
        protected = person.protects and not self._does_without(at, person, work)
        if protected:
            self.teams[person.team].waits.begin(at, work)
        person.waits.begin(at, work)
        return _claimed(work.spec, self._level(person), protected=protected)

    def started(self, at: int, work: Work, waited: int) -> None:
        if work.funded:
            person = self._person(at, work)
            team = self.teams[person.team]
            person.waits.end(at, work)
            team.waits.end(at, work)
            if waited >= self.habits.notice and person.protects:
                team.waited = at

    def evicted(self, at: int, work: Work) -> None:
        if work.funded:
            self._person(at, work).evicted = True

    def gone(self, at: int, work: Work) -> None:
        if work.funded:
            person = self._person(at, work)
            self._gave_up(person, person.waits.end(at, work))
            self.teams[person.team].waits.end(at, work)

    def _gave_up(self, person: Person, waited: int) -> None:
        """Work of theirs is gone; it had waited so long, ms, if it was waiting."""

    def _level(self, person: Person) -> int:
        usual = person.rng.random() < self.habits.usual
        drawn = _draw(person.rng, self.habits.levels)  # drawn in any case: later draws must not depend on this one
        return person.level if usual else drawn

    def _does_without(self, at: int, person: Person, work: Work) -> bool:
        """Whether they claim no protection for once, since their team seems to be at its cap."""
        if not person.flexible or person.evicted or not work.spec.contract.resumable:
            return False
        team = self.teams[person.team]
        recently = team.waited is not None and at - team.waited < DAY
        return recently or team.waits.longest(at) >= self.habits.notice

    def _reconsider(self, at: int, person: Person) -> None:
        """Before they claim anything: nothing makes settled people think again."""

    def _person(self, at: int, work: Work) -> Person:
        person = self.people.get(work.owner)
        if person is None:
            rng, habits = Random(f"{self.seed}/{work.owner}"), self.habits
            person = self.people[work.owner] = Person(
                rng,
                work.spec.budget,
                level=_draw(rng, habits.levels),
                protects=rng.random() < habits.protects,
                flexible=rng.random() < habits.flexible,
                patience=round(rng.lognormvariate(log(habits.patience), habits.spread)),
                looked=at,
            )
            self.teams.setdefault(person.team, Team()).people.append(person)
        return person


class Escalating(Settled):
    """People who learn that claims are free. Nobody goes back."""

    def started(self, at: int, work: Work, waited: int) -> None:
        super().started(at, work, waited)
        if work.funded:
            person = self.people[work.owner]
            if waited > person.patience:
                _escalate(person)

    def evicted(self, at: int, work: Work) -> None:
        super().evicted(at, work)
        if work.funded:
            _escalate(self.people[work.owner])

    def _gave_up(self, person: Person, waited: int) -> None:
        if waited > person.patience:
            _escalate(person)

    def _level(self, person: Person) -> int:
        level = super()._level(person)
        return HIGH if person.escalated else level

    def _reconsider(self, at: int, person: Person) -> None:
        if person.escalated:
            return
        since, person.looked = at - person.looked, at
        rate = self.habits.copying * self.teams[person.team].escalated()
        copies = person.rng.random() < 1 - exp(-rate * since / WEEK)
        if copies or person.waits.longest(at) > person.patience:
            _escalate(person)


def _escalate(person: Person) -> None:
    person.escalated = True
    person.protects = True


def _claimed(spec: JobSpec, level: int, *, protected: bool) -> JobSpec:
    contract = spec.contract if protected else replace(spec.contract, min_runtime=0)
    return replace(spec, priority=level, contract=contract)


def _draw(rng: Random, weights: Iterable[tuple[int, float]]) -> int:
    values, chances = zip(*weights, strict=True)
    drawn: int = rng.choices(values, chances)[0]
    return drawn


def claims_for(policy: str, seed: int) -> Claims:
    """What people claim under a policy. Raises ValueError naming the policies that there are."""
    if policy not in NAMES:
        raise ValueError(f"policy = {policy}: there are {', '.join(NAMES)}")
    return Escalating(seed) if policy == PriorityCaps.name else AsSigned()
