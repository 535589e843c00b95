"""People who learn: whom they look at, when they imitate, when they go back, and where that leads."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from statistics import mean

import pytest
from researchers_kit import MONDAY, lab_of
from test_behaving import lived, month, tables

from tenure.core.model import DAY, HOUR
from tenure.sim.behaviour import Behaviour
from tenure.sim.researchers.adapting import Adapting, Learning, better, fermi
from tenure.sim.researchers.deals import Deals
from tenure.sim.work import Wake

LAB = replace(lab_of("saturated", 64), people=40)


class Fixed(Deals):
    """Everybody has one GPU outstanding all the time, and gets of it what those get who behave like them."""

    def __init__(self, people: Adapting, worth: dict[str, float]) -> None:
        super().__init__()
        self.people = people
        self.worth = worth
        self.sums: dict[int, tuple[int, int]] = {}
        self.until = MONDAY

    def pass_time(self, at: int) -> None:
        for number in self.people.minds:
            asked, got = self.sums.get(number, (0, 0))
            worth = self.worth[self.people.doing(number)] + number % 7 / 100  # nobody is quite like another
            self.sums[number] = asked + at - self.until, got + round(worth * (at - self.until))
        self.until = at

    def of(self, owner: int, at: int) -> tuple[int, int]:
        return self.sums.get(owner, (0, 0))


def learnt(worth: dict[str, float], days: int, **more: float) -> Adapting:
    """A lab whose people learn for some days, where each way is worth what is said."""
    choices = tuple(name for name in worth if name != "honest")
    learning = replace(Learning(DAY, choices), **more)  # type: ignore[arg-type]
    people = Adapting(LAB, {}, learning=learning)
    deals = people.deals = Fixed(people, worth)
    alarms = [action for action in people.begin(MONDAY) if isinstance(action, Wake) and action.token in people.alarms]
    while alarms:
        alarms.sort(key=lambda wake: (wake.at, -wake.token))
        wake = alarms.pop(0)
        if wake.at > MONDAY + days * DAY:
            break
        deals.pass_time(wake.at)
        alarms += [action for action in people.wake(wake.at, wake.token) if isinstance(action, Wake)]
    return people


def test_what_is_worth_more_spreads_until_nearly_everybody_does_it() -> None:
    people = learnt({"honest": 0.3, "high": 0.6}, 60)
    assert people.drift[0] == {"honest": 40, "high": 0} and people.drift[-1]["high"] >= 35
    assert people.moves["imitated"] > 20


def test_what_is_worth_less_is_tried_and_given_up() -> None:
    people = learnt({"honest": 0.6, "declare-0": 0.1, "split": 0.3}, 60)
    assert people.moves["tried"] > 10 and people.moves["went back"] > 10
    assert mean(day["honest"] for day in people.drift[10:]) > 34


def test_without_trying_nobody_changes_and_without_anything_better_nobody_imitates() -> None:
    people = learnt({"honest": 0.3, "high": 0.9}, 30, tries=0.0)
    assert not people.moves and people.drift[-1]["honest"] == 40


def test_differences_within_chance_are_hardly_ever_imitated() -> None:
    alike = {"honest": 0.5, "high": 0.5}
    cautious, rash = (learnt(alike, 60, noise=noise).moves["imitated"] for noise in (3.0, 0.0))
    assert 5 * cautious < rash


def test_the_chance_to_imitate_is_the_fermi_function_of_standard_errors() -> None:
    assert fermi(0) == 0.5 and fermi(1) == pytest.approx(0.731, abs=0.001) and fermi(inf) == 1
    # Two groups with a standard deviation of 0.1 in each: pooled s = 0.1, s x sqrt(1/3 + 1/3) = 0.0816.
    mine, theirs = [0.2, 0.3, 0.4], [0.5, 0.6, 0.7]
    assert better(theirs, mine, [mine, theirs]) == pytest.approx(0.3 / (0.1 * (2 / 3) ** 0.5))
    assert better(mine, theirs, [mine, theirs]) == 0.0
    assert better([0.9], [0.1], [[0.9], [0.1]]) == 0.0  # one of each: nothing says what chance is
    assert better([0.9, 0.9], [0.1], [[0.9, 0.9], [0.1]]) == inf


def test_people_know_their_budget_and_some_friends() -> None:
    people = Adapting(LAB, {}, learning=Learning(friends=3))
    people.begin(MONDAY)
    homes = [person.budget for person in people.honest.people]
    for number, mind in people.minds.items():
        inside = [other for other in mind.knows if homes[other] == homes[number]]
        assert number not in mind.knows and len(mind.knows) == len(set(mind.knows)) == len(inside) + 3
        assert len(inside) == homes.count(homes[number]) - 1


def test_a_learning_world_is_the_same_again_and_has_its_own_draws() -> None:
    behaviour = Behaviour({"high": 0.2}, Learning(look_every=6 * HOUR, tries=0.3), 2 * HOUR, settled=True)
    first, people = lived(month("budgets", 2), behaviour)
    second, same = lived(month("budgets", 2), behaviour)
    assert isinstance(people, Adapting)
    assert tables(first) == tables(second) and people.figures(first) == same.figures(second)
    assert len(people.drift) == 3 and all(sum(day.values()) == 30 for day in people.drift)
    assert people.moves["tried"] > 5
    assert all(0 <= people.useful(job, first.until) <= job.occupied for job in first.jobs)


def test_who_stops_squatting_gives_back_what_has_nothing_to_run() -> None:
    behaviour = Behaviour({"squat": 0.5}, Learning(look_every=6 * HOUR, choices=("squat",), tries=0.5))
    run, people = lived(month("budgets", 2), behaviour)
    squat = people.tricks["squat"]
    idle = [
        place.owner
        for places in squat.parked.values()  # type: ignore[attr-defined]
        for place in places
        if place.up and place.errand is None
    ]
    assert people.figures(run)["moves"] and all(people.doing(owner) == "squat" for owner in idle)


@pytest.mark.slow
def test_people_come_to_say_high_where_it_wins_and_not_where_it_says_nothing() -> None:
    """Priority without caps, against first come, first served: three seeds of twelve days, from the fifth on."""
    behaviour = Behaviour({"high": 0.2}, Learning(DAY, ("high",)), settled=True)

    def share(policy: str, **options: int) -> float:
        found = []
        for seed in range(3):
            _, people = lived(replace(month(policy, 12, 64, 38, **options), seed=seed), behaviour)
            assert isinstance(people, Adapting)
            found += [day["high"] / 38 for day in people.drift[5:]]
        return mean(found)

    wins, nothing = share("priority", cap_percent=1000), share("fifo")
    assert wins > 0.5 > nothing and wins > nothing + 0.1
