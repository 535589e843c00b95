"""What people claim where claims are free: habits, escalation, optional preemptibility."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sim_kit import work

from tenure.core.model import DAY, HOUR, MINUTE, JobSpec
from tenure.policies import NAMES
from tenure.policies.priority import HIGH, LOW, NORMAL
from tenure.sim.claims import WEEK, Escalating, Habits, Settled, claims_for
from tenure.sim.setup import START
from tenure.sim.work import AsSigned, Claims, Work

MODEST = Habits(levels=((NORMAL, 1.0),), usual=1.0, protects=0.0, flexible=0.0, spread=0.0, copying=0.0)
"""Everybody claims NORMAL without protection, and waits for 12 hours."""
EAGER = replace(MODEST, protects=1.0, flexible=1.0)
"""Everybody claims protection, and does without it where it seems to be short."""


def of(owner: int, budget: str = "lab/a", **more: object) -> Work:
    return replace(work(budget, **more), owner=owner)  # type: ignore[arg-type]


def claims(spec: JobSpec) -> tuple[int, bool]:
    """The level, and whether it is protected."""
    return spec.priority, spec.charged


@pytest.mark.parametrize("kind", [Settled, Escalating])
def test_unfunded_work_is_preemptible_and_low_whatever_happens_to_it(kind: type[Settled]) -> None:
    people, one = kind(1), of(1, min_runtime=0, priority=2)
    assert claims(people.spec(START, one)) == (LOW, False)
    people.started(START + 30 * DAY, one, 30 * DAY)
    people.evicted(START + 31 * DAY, one)
    assert claims(people.spec(START + 32 * DAY, of(1, min_runtime=0))) == (LOW, False)
    assert not people.people, "it says nothing about who pays"


def test_only_level_and_protection_are_claimed() -> None:
    one = of(1, min_runtime=3 * HOUR, timeout=5 * HOUR)
    protected = Settled(1, EAGER).spec(START, one)
    assert protected == replace(one.spec, priority=NORMAL)
    plain = Settled(1, MODEST).spec(START, one)
    assert plain == replace(protected, contract=replace(one.spec.contract, min_runtime=0))


def test_people_differ_by_their_habits() -> None:
    people = Settled(1)
    first = [claims(people.spec(START, of(owner))) for owner in range(2000)]
    share = {level: sum(found == level for found, _ in first) / len(first) for level in (LOW, NORMAL, HIGH)}
    assert share[LOW] == pytest.approx(0.2, abs=0.03)
    assert share[NORMAL] == pytest.approx(0.6, abs=0.03)
    assert sum(protected for _, protected in first) / len(first) == pytest.approx(0.8, abs=0.03)
    assert {people.people[owner].flexible for owner in range(50)} == {True, False}
    usual = people.people[7].level
    again = [people.spec(START, of(7)).priority for _ in range(500)]
    assert again.count(usual) / len(again) > 0.75 and len(set(again)) == 3


def test_what_one_person_claims_does_not_depend_on_others() -> None:
    def history(crowd: int) -> list[tuple[int, bool]]:
        people = Escalating(3, Habits(flexible=0.0, copying=0.0))
        found = []
        for hour in range(50):
            for other in range(crowd):
                people.spec(START + hour * HOUR, of(100 + other))
            one = of(5)
            found.append(claims(people.spec(START + hour * HOUR, one)))
            people.started(START + hour * HOUR, one, 0)
        return found

    assert history(0) == history(3)
    assert history(0) != [claims(Escalating(4).spec(START, of(5)))] * 50


# ---- escalation


def test_a_wait_beyond_their_patience_makes_people_claim_the_most_for_good() -> None:
    people = Escalating(1, MODEST)
    one = of(1)
    assert claims(people.spec(START, one)) == (NORMAL, False)
    people.started(START + 12 * HOUR, one, 12 * HOUR)
    assert claims(people.spec(START + 12 * HOUR, of(1))) == (NORMAL, False), "not longer than their patience"
    people.started(START + 30 * HOUR, one, 12 * HOUR + 1)
    later = START + 30 * HOUR
    assert claims(people.spec(later, of(1))) == (HIGH, True)
    people.started(later, of(1), 0)
    assert claims(people.spec(later + 300 * DAY, of(1))) == (HIGH, True)
    assert claims(people.spec(later, of(2))) == (NORMAL, False), "nobody copies here"


def test_so_does_work_that_still_waits() -> None:
    people = Escalating(1, MODEST)
    people.spec(START, of(1))
    started = of(1)
    people.spec(START, started)
    people.started(START, started, 0)
    assert claims(people.spec(START + 12 * HOUR, of(1))) == (NORMAL, False)
    assert claims(people.spec(START + 12 * HOUR + 1, of(1))) == (HIGH, True)


def test_what_started_waits_no_longer_though_it_equals_what_waits() -> None:
    people = Escalating(1, MODEST)
    one, twin = of(1), of(1)
    assert one == twin
    for each in (one, twin):
        people.spec(START, each)
        people.started(START, each, 0)
    assert claims(people.spec(START + 2 * DAY, of(1))) == (NORMAL, False)


def test_what_was_given_up_or_refused_waits_no_longer() -> None:
    people = Escalating(1, MODEST)
    tried, refused = of(1), of(1)
    people.spec(START, tried)
    people.spec(START, refused)
    people.gone(START, refused)
    people.gone(START + 4 * HOUR, tried)
    assert people.people[1].waits.longest(START + DAY) == 0
    people.spec(START + DAY, of(1))
    assert not people.people[1].escalated


def test_who_gives_up_after_more_than_their_patience_has_learnt_from_it() -> None:
    people, settled = Escalating(1, MODEST), Settled(1, MODEST)
    for each in (people, settled):
        one = of(1)
        each.spec(START, one)
        each.gone(START + 3 * DAY, one)
    assert people.people[1].escalated and not settled.people[1].escalated


def test_an_eviction_makes_people_claim_the_most() -> None:
    people, settled, one = Escalating(1, MODEST), Settled(1, MODEST), of(1)
    for each in (people, settled):
        each.spec(START, one)
        each.evicted(START + HOUR, one)
    assert claims(people.spec(START + HOUR, of(1))) == (HIGH, True)
    assert claims(settled.spec(START + HOUR, of(1))) == (NORMAL, False)


def submit(people: Settled, at: int, work: Work) -> None:
    """Work that starts at once."""
    people.spec(at, work)
    people.started(at, work, 0)


def test_people_slowly_copy_the_colleagues_of_their_team() -> None:
    people = Escalating(1, replace(MODEST, copying=0.5))
    crowd, strangers = range(100), range(100, 150)
    for owner in crowd:
        submit(people, START, of(owner))
    for owner in strangers:
        submit(people, START, of(owner, "lab/b"))
    for owner in range(50):
        people.evicted(START, of(owner))
    counts = []
    for week in range(1, 5):
        at = START + week * WEEK
        for owner in range(50, 100):
            submit(people, at, of(owner))
        for owner in strangers:
            submit(people, at, of(owner, "lab/b"))
        counts.append(sum(people.people[owner].escalated for owner in crowd))
    assert 55 <= counts[0] <= 75, "a good fifth of the others in a week, as half of them have escalated"
    assert counts == sorted(counts) and counts[-1] >= 80
    assert not any(people.people[owner].escalated for owner in strangers)


def test_over_weeks_claims_drift_to_high() -> None:
    """150 people submit twice a day; one job in ten waits for a day, whatever they claim."""
    people = Escalating(1)
    share = []
    for day in range(28):
        high = 0
        for owner in range(150):
            for part in range(2):
                at, one = START + day * DAY + part * 8 * HOUR, of(owner, f"lab/{owner % 15}")
                high += people.spec(at, one).priority == HIGH
                people.started(at, one, 24 * HOUR if (day * 7 + owner + part) % 40 == 0 else MINUTE)
        share.append(high / 300)
    assert share[0] < 0.3 and share == pytest.approx(sorted(share), abs=0.1)
    assert 0.3 < share[7] < 0.9 and share[27] > 0.8


# ---- optional preemptibility


def test_some_do_without_protection_when_their_team_seems_to_be_at_its_cap() -> None:
    people = Settled(1, EAGER)
    waits = of(1)
    assert claims(people.spec(START, waits)) == (NORMAL, True)
    assert claims(people.spec(START + HOUR - 1, of(2))) == (NORMAL, True)
    at = START + HOUR
    assert claims(people.spec(at, of(2))) == (NORMAL, False), "protected work of the team has waited for an hour"
    assert claims(people.spec(at, of(2, resumable=False))) == (NORMAL, True), "it could not go on after an eviction"
    assert claims(people.spec(at, of(3, "lab/b"))) == (NORMAL, True), "another team"


def test_until_a_day_after_it_was_so_or_until_they_are_evicted() -> None:
    people = Settled(1, EAGER)
    one = of(1)
    people.spec(START, one)
    people.started(START + HOUR, one, HOUR)
    at = START + HOUR
    assert claims(people.spec(at + DAY - 1, of(2))) == (NORMAL, False)
    people.evicted(at, of(2))
    mine = of(2)
    assert claims(people.spec(at, mine)) == (NORMAL, True)
    people.started(at, mine, 0)
    assert claims(people.spec(at + DAY, of(1))) == (NORMAL, True)


def test_people_who_escalated_may_do_without_protection_but_not_without_the_level() -> None:
    people = Escalating(1, EAGER)
    one = of(1)
    people.spec(START, one)
    people.started(START + DAY, one, DAY)
    assert claims(people.spec(START + DAY, of(1))) == (HIGH, False)
    assert claims(people.spec(START + 3 * DAY, of(1))) == (HIGH, True)


@pytest.mark.parametrize(
    ("policy", "kind"),
    [("budgets", AsSigned), ("fifo", AsSigned), ("backfill", AsSigned), ("slurm", AsSigned), ("priority", Escalating)],
)
def test_claims_for_each_policy(policy: str, kind: type[Claims]) -> None:
    assert policy in NAMES
    assert type(claims_for(policy, 3)) is kind


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="policy = loudest: there are budgets, priority"):
        claims_for("loudest", 1)
