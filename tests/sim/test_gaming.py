"""People who game: who they are, that nothing else differs, and that each trick does what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import pytest
from researchers_kit import MONDAY, Pool, lab_of

from tenure.core.model import DAY, GPU, MINUTE, JobSpec
from tenure.policies.priority import HIGH
from tenure.reports.records import JobRow
from tenure.sim.behaviour import Behaviour
from tenure.sim.insisting import insisted
from tenure.sim.loop import Simulation
from tenure.sim.months import behaving, month_of
from tenure.sim.researchers import TRICKS, Lab, Machines, Researchers
from tenure.sim.researchers.chains import Chains, Renew, Split
from tenure.sim.researchers.gaming import Gaming, drawn, names_of
from tenure.sim.researchers.parking import FOR_EVER, Squat
from tenure.sim.researchers.tricks import longest
from tenure.sim.work import Action, Cancel, Insists, Submit, Wake, Work, Workload

LAB = lab_of("saturated", 64)
TWO = replace(LAB, clusters=(Machines("main", 4, 8), Machines("west", 4, 8)))
QUARTER = 15 * MINUTE
T = TypeVar("T", bound=Chains | Squat)


def submits(actions: Iterable[Action]) -> list[Submit]:
    return [action for action in actions if isinstance(action, Submit)]


def lived(workload: Workload, days: float = 1) -> list[tuple[int, Work]]:
    """Everything that was submitted, and when."""
    return [(entry.submitted, entry.work) for entry in Pool(workload, 64).run(round(days * DAY)).jobs]


def gaming(trick: str, lab: Lab, share: float) -> Gaming:
    return Behaviour({trick: share}).workload(lab)


def of_gamers(people: Gaming, jobs: Iterable[tuple[int, Work]]) -> list[JobSpec]:
    """As they are signed under Tenure."""
    theirs = [work for _, work in jobs if work.owner in people.gamers]
    return [work.spec if work.insists is None else insisted(work.spec, work.insists) for work in theirs]


# ---- who


def test_every_tenth_person_games_spread_over_the_budgets() -> None:
    names = names_of(LAB, {"high": 0.1})["high"]
    assert len(names) == 15 and len({name[-3:] for name in names}) == 15
    heads = Counter(person.budget for person in _people(LAB.seed))
    taken = Counter(person.budget for person in _people(LAB.seed) if person.number in drawn(LAB, {"high": 0.1}))
    assert all(abs(taken[budget] - count / 10) < 1 for budget, count in heads.items())


def test_the_seed_draws_who_games() -> None:
    found = [frozenset(drawn(replace(LAB, seed=seed), {"high": 0.1})) for seed in range(20)]
    assert drawn(LAB, {"high": 0.1}) == drawn(replace(LAB, charged=9.0), {"high": 0.1})
    assert set(drawn(LAB, {"high": 0.1})) == set(drawn(LAB, {"squat": 0.1}))
    assert len(set(found)) > 5 and all(len(one) == 15 for one in found)
    assert drawn(LAB, {"high": 0}) == {} and len(drawn(LAB, {"high": 1})) == 150
    with pytest.raises(ValueError, match=r"high: 1\.2 is no part of the people"):
        drawn(LAB, {"high": 1.2})


def test_several_tricks_have_their_parts_of_the_people_and_nobody_does_two() -> None:
    shares = {"squat": 0.1, "high": 0.2, "declare-8h": 0.05, "split": 0.65}
    for seed in range(5):
        who = drawn(replace(LAB, seed=seed), shares)
        counts = Counter(who.values())
        assert all(abs(counts[name] - 150 * share) < 1 for name, share in shares.items())
        alone = drawn(replace(LAB, seed=seed), {"squat": 0.1})
        assert {number for number, name in who.items() if name == "squat"} == set(alone)
    with pytest.raises(ValueError, match="at most 100 % together"):
        drawn(LAB, {"squat": 0.6, "high": 0.5})


def _people(seed: int) -> Sequence[object]:
    people = Researchers(replace(LAB, seed=seed))
    people.begin(MONDAY)
    return people.people


# ---- nothing else differs


@pytest.mark.parametrize("trick", TRICKS)
def test_when_nobody_games_the_submissions_are_those_of_honest_people(trick: str) -> None:
    assert lived(gaming(trick, TWO, 0)) == lived(Researchers(TWO))


@pytest.mark.parametrize("trick", TRICKS)
def test_a_trick_is_deterministic_and_leaves_others_their_first_submissions(trick: str) -> None:
    first = gaming(trick, TWO, 0.2)
    assert lived(first) == lived(gaming(trick, TWO, 0.2))

    def of_others(workload: Workload) -> list[Submit]:
        return [one for one in submits(workload.begin(MONDAY)) if one.work.owner not in first.gamers]

    mine, honest = of_others(gaming(trick, TWO, 0.2)), of_others(Researchers(TWO))
    assert [(one.at, one.work) for one in mine] == [(one.at, one.work) for one in honest] and len(mine) > 20


# ---- what is signed


def test_declaring_8h_is_for_everything_as_far_as_the_budget_can_have_it() -> None:
    people = gaming("declare-8h", LAB, 0.2)
    specs = of_gamers(people, lived(people))
    signers = {person.name: person.signer for person in people.honest.people}
    for spec in specs:
        work = Work(spec, 0, "", 0)
        assert spec.contract.min_runtime == max(5 * MINUTE, longest(signers[spec.user], work))
        assert spec.timeout is None or spec.timeout >= spec.contract.min_runtime
    assert max(spec.contract.min_runtime for spec in specs) == 8 * 60 * MINUTE


def test_declaring_0_leaves_nothing_charged() -> None:
    people = gaming("declare-0", LAB, 0.2)
    specs = of_gamers(people, lived(people))
    assert specs and not any(spec.charged for spec in specs)


def test_high_is_for_everything_of_theirs_and_for_nothing_else() -> None:
    people = gaming("high", LAB, 0.2)
    jobs = lived(people)
    assert {spec.priority for spec in of_gamers(people, jobs)} == {HIGH}
    assert {work.spec.priority for _, work in jobs if work.owner not in people.gamers} == {0}


def test_every_cluster_is_accepted_the_own_one_first() -> None:
    people = gaming("every-cluster", TWO, 0.2)
    specs = of_gamers(people, lived(people))
    assert {spec.clusters for spec in specs} == {("main", "west"), ("west", "main")}
    with pytest.raises(ValueError, match="takes a second cluster"):
        gaming("every-cluster", LAB, 0.2)


def test_late_is_a_minute_later() -> None:
    honest, late = (submits(w.begin(MONDAY)) for w in (Researchers(LAB), gaming("late", LAB, 1)))
    assert [(one.at + MINUTE, one.work) for one in honest] == [(one.at, one.work) for one in late]


# ---- chains


def trick_of(name: str, share: float, kind: type[T]) -> tuple[Gaming, T]:
    people = gaming(name, LAB, share)
    trick = people.tricks[name]
    assert isinstance(trick, kind)
    return people, trick


def long_run(people: Gaming, honest: Researchers) -> tuple[Submit, Submit | Wake]:
    """A long resumable run that ends by itself, as its owner means it, and what the trick makes of it."""
    pairs = zip(
        submits(honest.begin(MONDAY)),
        [a for a in people.begin(MONDAY) if not (isinstance(a, Wake) and a.token >= 0)],
        strict=True,
    )
    for meant, made in pairs:
        work = meant.work
        if work.funded and work.spec.contract.resumable and 3 * 60 * MINUTE < work.runtime < DAY and not work.exit_code:
            assert isinstance(made, Submit | Wake)
            return meant, made
    raise AssertionError("nobody has one")


def test_split_makes_a_chain_of_quarters_that_do_all_of_the_run_and_nothing_twice() -> None:
    people, chains = trick_of("split", 1, Split)
    meant, made = long_run(people, Researchers(LAB))
    assert isinstance(made, Submit)
    work, at, job_id, runtimes = meant.work, meant.at, 0, []
    while True:
        job_id += 1
        link = made.work
        runtimes.append(link.runtime)
        assert link.spec == replace(work.spec, contract=replace(work.spec.contract, min_runtime=QUARTER))
        assert link.insists == Insists(limit=2 * QUARTER)
        assert link.runtime <= QUARTER
        people.accepted(at, made.token, job_id, link)
        people.started(at, job_id, link, 0)
        assert list(people.honest.held) == list(chains.chains)  # to its owner it is one job
        at += link.startup + link.runtime
        following = submits(people.ended(at, job_id, link, "succeeded"))
        if not chains.chains:
            break
        (made,) = following
    assert not people.honest.held
    assert people.deals.of(work.owner, at)[0] == work.spec.gpus * (at - meant.at)  # the run once, not its links
    overhead = (len(runtimes) - 1) * (work.restart_cost + work.save_time)
    assert sum(runtimes) == work.runtime + overhead
    assert runtimes[:-1] == [QUARTER] * (len(runtimes) - 1)
    row = _row(made.work, job_id - 1, occupied=QUARTER)
    assert people.useful(row, at) == (QUARTER - work.restart_cost - work.save_time) * row.gpus * GPU


def test_renew_cancels_when_the_protection_ends_and_submits_the_rest() -> None:
    people, _ = trick_of("renew", 1, Renew)
    meant, made = long_run(people, Researchers(LAB))
    assert isinstance(made, Submit) and made.work == meant.work
    work, at = meant.work, meant.at
    people.accepted(at, made.token, 7, work)
    (timer,) = [a for a in people.started(at, 7, work, 0) if isinstance(a, Wake) and a.token < 0]
    assert timer.at == at + work.startup + work.spec.contract.min_runtime
    cancel, rest = people.wake(timer.at, timer.token)
    assert cancel == Cancel(timer.at, 7)
    assert isinstance(rest, Submit) and rest.work.spec == work.spec
    assert rest.work.runtime == work.restart_cost + work.runtime - work.spec.contract.min_runtime
    people.accepted(timer.at, rest.token, 8, rest.work)
    assert people.ended(timer.at + work.save_time, 7, work, "cancelled") == ()
    (held,) = people.honest.held.values()
    assert held.started is None and held.ran == work.spec.contract.min_runtime  # it waits again
    (end,) = people.honest.held
    people.ended(timer.at + DAY, 8, rest.work, "failed")
    assert end not in people.honest.held


def test_owners_give_up_chains_and_the_present_link_goes() -> None:
    people, chains = trick_of("split", 1, Split)
    meant, made = long_run(people, Researchers(LAB))
    assert isinstance(made, Submit)
    people.accepted(meant.at, made.token, 3, made.work)
    (inside,) = chains.chains
    assert people.said([Cancel(meant.at, inside)]) == [Cancel(meant.at, 3)]
    assert submits(people.ended(meant.at, 3, made.work, "cancelled")) == [] and not chains.chains


# ---- parking


def test_squatters_stay_and_the_next_run_of_that_size_begins_at_once() -> None:
    people, squat = trick_of("squat", 1, Squat)
    meant, made = long_run(people, Researchers(LAB))
    assert isinstance(made, Wake) and made.at == meant.at
    work, at = meant.work, meant.at
    (parked,) = submits(people.wake(at, made.token))
    assert parked.work.runtime == FOR_EVER and parked.work.spec.contract == work.spec.contract
    people.accepted(at, parked.token, 1, parked.work)
    (over,) = [a for a in people.started(at, 1, parked.work, 0) if isinstance(a, Wake) and a.token < 0]
    assert over.at == at + work.startup + work.runtime
    (first,) = people.honest.held
    people.wake(over.at, over.token)
    assert first not in people.honest.held
    assert people.useful(_row(parked.work, 1, occupied=DAY), over.at + DAY) == work.runtime * work.spec.gpus * GPU
    # The same run once more, into the GPUs that were kept.
    people.honest.sent[99] = next(iter(people.honest.sent.values()))
    (wake,) = people.said([replace(meant, at=over.at, token=99)])
    assert isinstance(wake, Wake)
    assert submits(people.wake(over.at, wake.token)) == []
    (place,) = squat.parked[work.owner]
    assert place.up and place.errand is not None and people.honest.held[place.errand.id].started == over.at
    # Evicted after half an hour: both wait, and nothing is lost of what can resume.
    people.requeued(over.at + work.startup + 30 * MINUTE, 1, parked.work)
    assert place.errand.done == 30 * MINUTE and place.errand.since is None


def test_no_more_stays_parked_than_somebody_usually_has() -> None:
    people, squat = trick_of("squat", 0.2, Squat)
    lived(people, 2)
    assert any(places for places in squat.parked.values())
    for number, places in squat.parked.items():
        usual = max(8, people.honest.people[number].charged.account.usual)
        assert sum(place.gpus for place in places if place.errand is None) <= usual


def _row(work: Work, job_id: int, occupied: int) -> JobRow:
    spec = work.spec
    row = JobRow(job_id, spec.user, spec.budget, "main", work.kind, spec.gpus, 0, True, True, 0, True, work.runtime, 0)
    row.occupied = occupied * spec.gpus * GPU
    return row


# ---- under the scheduler


@pytest.mark.parametrize("trick", ["squat", "split", "renew"])
def test_tricks_hold_under_the_scheduler(trick: str) -> None:
    base = replace(month_of("saturated", {"main": 32}), duration=DAY // 2, warmup=0)
    simulation = Simulation(behaving(base, Behaviour({trick: 0.3})))
    run, people = simulation.run(), simulation.workload
    assert isinstance(people, Gaming) and not run.notes  # nothing was refused
    mine = [job for job in run.jobs if job.user in names_of(people.lab, {trick: 0.3})[trick]]
    gained = [(people.useful(job, run.until), job.occupied) for job in mine]
    assert all(0 <= useful <= occupied for useful, occupied in gained)
    assert 0 < sum(useful for useful, _ in gained) < sum(occupied for _, occupied in gained)
