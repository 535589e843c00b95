"""Behaviours under policies: what each says in a policy's words, where it says nothing, and who ends idle jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import pytest
from researchers_kit import MONDAY, lab_of, submits

from tenure.core.model import DAY, HOUR, MINUTE
from tenure.policies import NAMES
from tenure.policies.priority import HIGH
from tenure.reports.records import Run
from tenure.sim.behaviour import Behaviour
from tenure.sim.insisting import CLAIMED, NO_EVICTIONS, NO_PRIORITIES, PROTECTED, Insisting, heeds, settled_for
from tenure.sim.loop import Simulation
from tenure.sim.months import behaving, month_of
from tenure.sim.researchers import Researchers
from tenure.sim.researchers.gaming import Gaming
from tenure.sim.researchers.parking import Parked, Squat
from tenure.sim.researchers.tricks import TRICKS
from tenure.sim.setup import Setup
from tenure.sim.work import AsSigned, Cancel, Insists, Wake, Work

LAB = lab_of("saturated", 64)


def month(policy: str, days: float = 1.0, gpus: int = 32, people: int = 30, **options: int) -> Setup:
    base = month_of("saturated", {"main": gpus}, people=people)
    return replace(base, policy=policy, options=options, duration=round(days * DAY), warmup=0)


def lived(setup: Setup, behaviour: Behaviour) -> tuple[Run, Gaming]:
    simulation = Simulation(behaving(setup, behaviour))
    run = simulation.run()
    assert isinstance(simulation.workload, Gaming)
    return run, simulation.workload


def tables(run: Run, *without: str) -> list[list[dict[str, Any]]]:
    """Jobs, attempts and evictions, without some columns."""
    found = [[asdict(row) for row in rows] for rows in (run.jobs, run.attempts, run.evictions)]
    return [[{key: row[key] for key in row if key not in without} for row in rows] for rows in found]


# ---- what is said under a policy


def one_work(*, funded: bool = True, resumable: bool = True) -> Work:
    works = [submit.work for submit in submits(Researchers(LAB).begin(MONDAY))]
    return next(
        work
        for work in works
        if work.funded is funded and work.spec.contract.resumable is resumable and work.spec.timeout is None
    )


def said(policy: str, wish: Insists, work: Work) -> Work:
    """As it is submitted under a policy where nobody claims anything but that."""
    claims = Insisting(policy, settled_for(policy, 0))
    signed = claims.signed(replace(work, insists=wish))
    return replace(signed, spec=claims.spec(MONDAY, signed))


@pytest.mark.parametrize("wish", [Insists(8 * HOUR), Insists(0), Insists(highest=True), Insists(stays=True)])
def test_under_tenure_a_wish_changes_its_field_and_no_other(wish: Insists) -> None:
    work = one_work()
    spec = said("budgets", wish, work).spec
    contract = work.spec.contract
    contract = replace(contract, resumable=not wish.stays)
    if wish.min_runtime is not None:
        contract = replace(contract, min_runtime=wish.min_runtime)
    priority = HIGH if wish.highest else work.spec.priority
    assert spec == replace(work.spec, contract=contract, priority=priority) != work.spec


def test_time_limits_are_named_where_they_decide_and_nowhere_else() -> None:
    work, wish = one_work(), Insists(limit=30 * MINUTE)
    for policy in ("slurm", "backfill"):
        assert said(policy, wish, work).spec == replace(work.spec, timeout=30 * MINUTE)
    assert said("fifo", wish, work).spec == said("budgets", wish, work).spec == work.spec


def test_under_priority_protection_is_claimed_for_everything_or_for_nothing() -> None:
    free, funded = one_work(funded=False), one_work()
    assert said("priority", Insists(stays=True), free).spec.contract.min_runtime == PROTECTED
    assert said("priority", Insists(stays=True), funded).spec.contract == funded.spec.contract
    assert said("priority", Insists(0), funded).spec.contract.min_runtime == 0
    assert said("priority", Insists(highest=True), free).spec == replace(free.spec, priority=HIGH)
    plain = said("priority", Insists(), funded).spec
    assert said("priority", Insists(8 * HOUR), funded).spec == plain


def test_nobody_opts_out_of_what_there_is_not_and_work_changes_its_class_where_that_protects() -> None:
    free = one_work(funded=False)
    for policy in ("quotas", "drf", "drf-tree"):
        assert said(policy, Insists(stays=True), free).spec == free.spec and not heeds(policy, "opt-out")
        assert said(policy, Insists(highest=True), free).spec == replace(free.spec, priority=HIGH)
    contract = replace(free.spec.contract, min_runtime=PROTECTED)
    claims = Insisting("slurm-preempt", AsSigned())
    assert claims.signed(replace(free, insists=Insists(stays=True))).spec == replace(free.spec, contract=contract)


def test_what_is_said_under_a_policy_keeps_what_the_work_is_to_its_owner() -> None:
    """Nobody stops paying for work because a policy cannot be told about contracts."""
    work = one_work()
    assert said("budgets", Insists(0), work).funded is False
    assert all(said(policy, Insists(0), work).spec.charged for policy in ("fifo", "backfill", "slurm"))


@pytest.mark.parametrize("policy", ["fifo", "backfill", "slurm"])
def test_claims_change_nothing_under_policies_that_read_none(policy: str) -> None:
    shares = dict.fromkeys(sorted(CLAIMED), 0.2)
    assert not any(heeds(policy, name) for name in shares)
    run, people = lived(month(policy), Behaviour(shares))
    assert len(people.who) == 30
    honest, _ = lived(month(policy), Behaviour())
    assert tables(run) == tables(honest) and len(run.jobs) > 100


@pytest.mark.parametrize(
    ("policy", "wish", "column"),
    [
        *((policy, Insists(highest=True), "priority") for policy in sorted(NO_PRIORITIES)),
        *((policy, Insists(stays=True), "resumable") for policy in sorted(NO_EVICTIONS)),
    ],
)
def test_what_a_policy_is_said_not_to_read_it_does_not_read(
    policy: str, wish: Insists, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where it is said to it, and not kept from it as ``heard`` does."""
    honest, _ = lived(month(policy, 0.5), Behaviour())
    monkeypatch.setattr("tenure.sim.insisting.heard", lambda _policy, _wish: wish)
    run, _ = lived(month(policy, 0.5), Behaviour({"high": 0.3}))
    assert tables(run, column) == tables(honest, column) and len(run.jobs) > 50
    assert tables(run) != tables(honest)  # it was said


def test_lengths_change_nothing_under_priority() -> None:
    run, _ = lived(month("priority"), Behaviour({"declare-8h": 0.5, "declare-15m": 0.5}))
    honest, _ = lived(month("priority"), Behaviour())
    assert tables(run) == tables(honest) and len(run.jobs) > 100


@pytest.mark.parametrize("trick", ["declare-8h", "declare-15m", "declare-0", "high", "opt-out"])
def test_claims_change_what_happens_where_they_are_heeded(trick: str) -> None:
    honest = {policy: tables(lived(month(policy), Behaviour())[0]) for policy in ("budgets", "priority")}
    for policy, without in honest.items():
        run, _ = lived(month(policy), Behaviour({trick: 0.3}))
        assert (tables(run) != without) is heeds(policy, trick)


def test_high_for_all_work_of_everybody_is_worth_nothing_under_tenure() -> None:
    """It orders jobs inside a budget only: when all say it, every decision is the one without it."""
    run, _ = lived(month("budgets"), Behaviour({"high": 1.0}))
    honest, _ = lived(month("budgets"), Behaviour())
    assert tables(run, "priority") == tables(honest, "priority") and {job.priority for job in run.jobs} == {HIGH}


def test_high_of_one_whole_budget_is_worth_nothing_to_it_against_others_under_tenure() -> None:
    setup = month("budgets")
    people = Behaviour().workload(lab_of("saturated", 32))
    people.begin(MONDAY)
    budget = "lab/language/pretraining"

    def high_in(setup: Setup) -> Setup:
        def workload(seed: int) -> Gaming:
            made = setup.workload(seed)
            assert isinstance(made, Researchers)
            who = {n: "high" for n, place in enumerate(places_of(made)) if place == budget}
            assert len(who) > 2
            return Gaming(made.lab, {"high": TRICKS["high"]}, who)

        return replace(behaving(setup, Behaviour()), workload=workload)

    run = Simulation(high_in(setup)).run()
    honest, _ = lived(setup, Behaviour())
    assert tables(run, "priority") == tables(honest, "priority")
    assert {job.budget for job in run.jobs if job.priority == HIGH} == {budget}


def places_of(people: Researchers) -> list[str]:
    from tenure.sim.researchers.people import places

    return [place.budget for place in places(people.lab)]


# ---- several at once


@pytest.mark.parametrize("policy", NAMES)
def test_all_behaviours_at_once_hold_under_every_policy_and_come_out_the_same_again(policy: str) -> None:
    shares = dict.fromkeys((name for name in TRICKS if name != "every-cluster"), 0.1)
    behaviour = Behaviour(shares, reap_idle=2 * HOUR)
    run, people = lived(month(policy, 0.5), behaviour)
    again, same = lived(month(policy, 0.5), behaviour)
    assert tables(run) == tables(again) and people.figures(run) == same.figures(again)
    assert not run.notes  # nothing was refused
    assert all(0 <= people.useful(job, run.until) <= job.occupied for job in run.jobs)
    figures = people.figures(run)
    assert {one["does"] for one in figures["people"].values()} == set(shares)
    assert all(one["useful"] >= 0 for one in figures["people"].values())


def test_nobody_is_honest_by_another_name_when_nobody_does_anything() -> None:
    run, people = lived(month("budgets"), Behaviour())
    plain = Simulation(month("budgets")).run()
    assert tables(run) == tables(plain) and not people.who


# ---- the site


def parked(people: Gaming, name: str) -> tuple[Squat, Parked]:
    """A parked job of somebody, which has GPUs."""
    trick = people.tricks[name]
    assert isinstance(trick, Squat)
    meant = next(one for one in submits(people.honest.begin(MONDAY)) if one.work.funded)
    (wake,) = trick.submits(meant)
    assert isinstance(wake, Wake)
    (job,) = submits(people.wake(wake.at, wake.token))
    people.accepted(wake.at, job.token, 1, job.work)
    people.started(wake.at, 1, job.work, 0)
    return trick, trick.jobs[1]


def finish(people: Gaming, trick: Squat, at: int) -> list[Wake]:
    """What runs in it is done; returns the times that were set."""
    (errand,) = trick.errands.values()
    found = people.wake(at, errand.timer)
    return [action for action in found if isinstance(action, Wake) and action.token in people.alarms]


def test_a_site_ends_what_does_nothing_for_as_long_as_it_says() -> None:
    people = Behaviour({"squat": 1.0}, reap_idle=2 * HOUR).workload(LAB)
    trick, place = parked(people, "squat")
    assert people.reaper is not None and not people.reaper.idle
    (alarm,) = finish(people, trick, MONDAY + DAY)
    assert alarm.at == MONDAY + DAY + 2 * HOUR
    assert list(people.wake(alarm.at, alarm.token)) == [Cancel(alarm.at, 1)]
    assert people.reaper.ended == 1 and place not in trick.parked[place.owner]


def test_who_keeps_gpus_busy_with_nothing_is_not_found() -> None:
    people = Behaviour({"idle-loop": 1.0}, reap_idle=2 * HOUR).workload(LAB)
    trick, place = parked(people, "idle-loop")
    assert finish(people, trick, MONDAY + DAY) == []
    assert place in trick.parked[place.owner] and place.up


def test_squatters_whose_gpus_are_used_again_in_time_keep_them() -> None:
    people = Behaviour({"squat": 1.0}, reap_idle=2 * HOUR).workload(LAB)
    _trick, place = parked(people, "squat")
    (alarm,) = finish(people, _trick, MONDAY + DAY)
    people.measured(MONDAY + DAY + HOUR, place.job_id, 100)
    assert list(people.wake(alarm.at, alarm.token)) == []


def test_without_a_reaper_loops_are_squatting_and_with_one_only_squatters_are_ended() -> None:
    both: Mapping[bool, list[tuple[Run, Gaming]]] = {
        reaps: [
            lived(month("budgets"), Behaviour({name: 0.4}, reap_idle=HOUR * reaps)) for name in ("squat", "idle-loop")
        ]
        for reaps in (False, True)
    }
    (squat, _), (loop, _) = both[False]
    assert tables(squat) == tables(loop)
    (squat, squatters), (again, loopers) = both[True]
    assert tables(again) == tables(loop) and loopers.figures(again)["reaped"] == 0
    assert squatters.figures(squat)["reaped"] > 3
    idle = [sum(job.occupied - people.useful(job, run.until) for job in run.jobs) for run, people in both[True]]
    assert idle[0] < idle[1]


def test_nobody_else_is_ended() -> None:
    run, people = lived(month("budgets"), Behaviour({"squat": 0.4}, reap_idle=HOUR))
    assert people.reaper is not None and people.reaper.ended
    names = {person.name for person in people.honest.people if person.number in people.who}
    mine = {job_id for job_id, trick in people.jobs.items() if trick is people.tricks["squat"]}
    assert {job.user for job in run.jobs if job.id in mine} <= names


# ---- claims that are as ever


def test_works_that_insist_on_nothing_are_claimed_as_by_anybody() -> None:
    work, usual = one_work(), AsSigned()
    assert Insisting("budgets", usual).signed(work) is work and Insisting("fifo", usual).spec(MONDAY, work) is work.spec
