"""Scenarios: what is guessed of jobs, and of what people will submit."""

from __future__ import annotations

from random import Random

from support.world import World
from tenure.core.model import DAY, HOUR, MINUTE, Contract, JobSpec, Role
from tenure.forecast.guesses import ENOUGH, Guesses
from tenure.forecast.past import KEPT, Past
from tenure.forecast.sorts import SIZE_CLASSES, size_class, sorts_of, stem


def spec(user: str = "ann", gpus: int = 8, min_runtime: int = HOUR, name: str = "train-1") -> JobSpec:
    role = Role("main", 1 if gpus <= 8 else gpus // 8, min(gpus, 8), 0, 0)
    return JobSpec(name, user, "lab/a", (role,), Contract(min_runtime, True), ("main",))


def ran(past: Past, of: JobSpec, *minutes: int, at: int = 0, first: int = 1000) -> None:
    for number, length in enumerate(minutes):
        past.attempt(of, first + number, at, at + length * MINUTE)
        past.ended(of, first + number, "succeeded", at)


def test_sorts_of_jobs() -> None:
    assert [stem(name) for name in ("pretrain-12", "eval_3", "x", "7", "run.4b")] == [
        "pretrain",
        "eval",
        "x",
        "",
        "run.4b",
    ]
    classes = [size_class(spec(gpus=g, min_runtime=m)) for g, m in ((1, 900_000), (8, HOUR), (16, 1), (128, 1), (8, 0))]
    assert classes == ["short", "small", "medium", "large", "free small"] and set(classes) < set(SIZE_CLASSES)
    assert sorts_of(spec())[1:] == sorts_of(spec(name="other-7"))[1:]
    assert sorts_of(spec())[2:] == sorts_of(spec(user="bob"))[2:] and sorts_of(spec())[1] != sorts_of(spec("bob"))[1]


def test_a_run_lasts_as_the_same_persons_did_else_as_others_in_the_budget_else_as_its_contract() -> None:
    past, world, rng = Past(), World(), Random(1)
    guesses = Guesses(world.state, past, world.now)
    unknown = [guesses.total(rng, spec(), 0) for _ in range(200)]
    assert HOUR // 2 < sorted(unknown)[100] < 4 * HOUR
    ran(past, spec("ann"), *range(10, 10 + ENOUGH), at=world.now)
    ran(past, spec("bob"), *range(500, 500 + ENOUGH), at=world.now, first=2000)
    guesses = Guesses(world.state, past, world.now)
    assert {guesses.total(rng, spec("ann"), 0) // MINUTE for _ in range(50)} == set(range(10, 10 + ENOUGH))
    assert {guesses.total(rng, spec("cy"), 0) // MINUTE for _ in range(90)} >= {10, 500}
    # None of hers lasted two hours, some of his did.
    assert min(guesses.total(rng, spec("ann"), 2 * HOUR) for _ in range(50)) >= 500 * MINUTE


def test_a_run_of_which_nothing_is_known_lasts_as_its_contract_whether_it_has_begun_or_not() -> None:
    world, rng = World(), Random(1)
    guesses = Guesses(world.state, Past(), world.now)
    begun = [guesses.total(rng, spec(), 5_000) for _ in range(200)]
    assert HOUR // 2 < sorted(begun)[100] < 4 * HOUR
    assert all(guesses.total(rng, spec(), 3 * HOUR) > 3 * HOUR for _ in range(100))
    assert guesses.total(rng, spec(), 500 * DAY) == 1000 * DAY


def test_what_runs_ends_later_than_now_and_what_it_ran_before_counts() -> None:
    world, past = World(), Past()
    job_id = world.submit("lab/a", 8)
    world.advance(30 * MINUTE)
    past.ran[job_id] = 5 * HOUR
    ran(past, world.state.jobs[job_id].spec, *([400] * ENOUGH), at=world.now)
    scenario = Guesses(world.state, past, world.now).scenario("1", world.now + DAY)
    (running,) = scenario.site.running.values()
    assert scenario.works[job_id].runtime == 400 * MINUTE and running.done == 5 * HOUR
    assert running.exit_at == world.now + (400 - 300 - 30) * MINUTE


def test_people_do_in_the_next_days_what_they_did_at_that_time_of_the_day() -> None:
    world, past = World(), Past()
    now = world.now
    for days in range(7, 0, -1):
        past.submitted(now - days * DAY + 3 * HOUR, days, spec("ann", name=f"daily-{days}"))
    past.submitted(now - 2 * DAY + 5 * HOUR, 9, spec("bob", 16))
    arrivals = Guesses(world.state, past, now).scenario("3", now + 2 * DAY).arrivals
    hers = [arrival.at - now for arrival in arrivals if arrival.work.spec.user == "ann"]
    assert hers == [3 * HOUR, DAY + 3 * HOUR]
    his = [arrival.at - now for arrival in arrivals if arrival.work.spec.user == "bob"]
    assert set(his) <= {5 * HOUR, DAY + 5 * HOUR}
    assert not Guesses(world.state, past, now).scenario("3", now + DAY, arrivals=False).arrivals
    assert not Guesses(world.state, Past(), now).scenario("3", now + DAY).arrivals


def test_names_that_were_used_long_ago_are_forgotten_with_all_that_belongs_to_them() -> None:
    past, now = Past(), 100 * DAY
    for number in range(200):
        past.submitted(now - 50 * DAY, number, spec(name=f"try-{number}-of-many"))
        ran(past, spec(name=f"try-{number}-of-many"), 5, at=now - 50 * DAY, first=number)
    past.submitted(now - 50 * DAY, 200, spec(name="late in the list"))
    past.submitted(now - DAY, 1000, spec(name="new"))
    ran(past, spec(name="new"), 7, at=now - DAY, first=1000)
    ran(past, spec(name="late in the list"), 9, at=now - 40 * DAY, first=200)  # as it may be in a history
    past.forget(now)
    assert {run for runs in past.runs.values() for run in runs} == {(now - DAY, 7 * MINUTE, True)}
    assert set(past.runs) == set(sorts_of(spec(name="new")))
    assert not past.ran and [*past.total] == [sent.job_id for sent in past.sent] == [1000]
    past.forget(now + KEPT)
    assert not past.runs and not past.total and not past.sent
