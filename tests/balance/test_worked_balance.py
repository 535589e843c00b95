"""The statement in examples that can be done in one's head. GPU-hours throughout."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from support.world import T0, World, budgets, hosts
from tenure import balance
from tenure.balance import Outlook, Statement
from tenure.core.model import DAY, GPU, HOUR, MINUTE, SECOND, Grant, HostState

UNIT = GPU * HOUR
WEEK = 7 * DAY
QUARTER = {"lab/a": 0.25, "lab/b": 0.75}


def told(world: World, path: str = "lab/a") -> Statement:
    return balance.statement(balance.gather(world.state, "main", path, world.now))


def gpu_hours(amount: int) -> Fraction:
    return Fraction(amount, UNIT)


def go_to(world: World, at: int) -> None:
    world.advance(at - world.now, tick=9 * HOUR)


def owed_then(made: Statement, at: int) -> Fraction:
    outlook = Outlook(made.facts)
    return Fraction(outlook.entitled(at), made.facts.figures.denominator * UNIT)


def ran(world: World, length: int, budget: str = "lab/a", **more: object) -> int:
    """A job of 8 GPUs that has run for ``length`` and ended."""
    job = world.submit(budget, 8, **more)
    go_to(world, world.now + length)
    world.finish(job)
    return job


def test_the_48_gpu_hours_come_back_within_6_hours() -> None:
    """A job that ran 10 h on 8 GPUs, read 7 d 4 h after it started, counts 48 GPU-hours."""
    world = World(hosts(1))
    job = ran(world, 10 * HOUR)
    go_to(world, T0 + WEEK + 4 * HOUR)
    made = told(world)
    parts, outlook = made.facts.parts, Outlook(made.facts)
    assert gpu_hours(parts.settled) == 48 and parts.total == parts.settled
    assert gpu_hours(made.entitled) == 4 * 168 and gpu_hours(made.left) == 672 - 48
    assert [gpu_hours(day.used) for day in made.days] == [48, 0, 0, 0, 0, 0, 0]
    assert [gpu_hours(outlook.back(world.now + hours * HOUR)) for hours in (0, 1, 3, 6, 7, 168)] == [
        0,
        8,
        24,
        48,
        48,
        48,
    ]
    assert {day.entitled for day in made.days} == {4 * 24 * UNIT}
    # Of 96 of the oldest day 48 were used, and nothing since: the other 48 go unused within a day.
    assert gpu_hours(made.lapses) == 48 and made.lapses_by == world.now + DAY
    closed = [span for _, span in world.spans]
    assert [(one.job_id, one.user, gpu_hours(one.parts.settled)) for one in balance.jobs(made.facts, closed)] == [
        (job, "ann", 48)
    ]


def test_what_runs_is_charged_and_what_it_was_promised_is_committed() -> None:
    world = World(hosts(1))
    world.submit("lab/a", 8, min_runtime=2 * HOUR)
    found = []
    for minutes in (0, 30, 120, 180):
        go_to(world, T0 + minutes * MINUTE)
        parts = told(world).facts.parts
        found.append((gpu_hours(parts.running), gpu_hours(parts.committed), gpu_hours(parts.settled)))
    assert found == [(0, 16, 0), (4, 12, 0), (16, 0, 0), (24, 0, 0)]


def test_a_reservation_is_a_part_of_its_own() -> None:
    world = World(hosts(2), policy=replace(World().policy, reserved_percent=100))
    world.submit("lab/b", 8, min_runtime=5 * HOUR)
    gang = world.submit("lab/a", 8, replicas=2, min_runtime=3 * HOUR)
    world.advance(6 * MINUTE)
    assert world.job(gang).reservation is not None
    made = told(world)
    assert gpu_hours(made.facts.parts.reserved) == 48 and made.facts.parts.total == made.facts.parts.reserved
    assert gpu_hours(told(world, "lab").facts.parts.reserved) == 48
    assert [gpu_hours(one.parts.reserved) for one in balance.jobs(made.facts, ())] == [48]


@pytest.mark.parametrize(
    ("timeout", "ends", "stops", "goes_on"),
    [(None, None, 18, None), (72 * HOUR, None, 18, 30), (None, 60 * HOUR, 18, 18)],
)
def test_a_budget_that_is_over_is_told_when_it_is_back(
    timeout: int | None, ends: int | None, stops: int, goes_on: int | None
) -> None:
    """2 of 8 GPUs: 336 a week. 8 GPUs for 60 h are 480, so 144 are too many: the first 18 h must leave the window.

    Going on without an end it uses what comes back at once; until its timeout after 72 h it is charged 96 more, which
    are another 12 h.
    """
    world = World(hosts(1), QUARTER)
    job = world.submit("lab/a", 8, timeout=timeout)
    go_to(world, T0 + 60 * HOUR)
    if ends is not None:
        world.finish(job)
    made = told(world)
    assert gpu_hours(made.entitled) == 336 and gpu_hours(made.left) == -144 and made.over and made.lapses == 0
    assert made.back_at == T0 + WEEK + stops * HOUR
    assert made.back_at_going_on == (None if goes_on is None else T0 + WEEK + goes_on * HOUR)
    assert told(world, "lab").back_at is None and not told(world, "lab").over


def test_what_protection_is_left_counts_when_it_is_told_when_a_budget_is_back() -> None:
    """As before with 60 h behind it, but with 4 h of protection left: 32 more, so 4 h more have to leave."""
    world = World(hosts(1), QUARTER)
    ran(world, 58 * HOUR)
    world.submit("lab/a", 8, min_runtime=6 * HOUR)
    go_to(world, T0 + 60 * HOUR)
    made = told(world)
    assert gpu_hours(made.facts.parts.committed) == 32 and gpu_hours(made.left) == -144 - 32
    assert made.back_at == T0 + WEEK + 22 * HOUR and made.back_at_going_on is None


def test_the_first_moment_counts_even_if_it_does_not_last() -> None:
    """Its share falls from 4 to 2 GPUs, so 2 GPU-hours fewer are owed with each hour of the week to come.

    48 too many are used. The first 10 h of 8 GPUs leave at once: 6 an hour, so 8 h suffice; then it falls behind again.
    """
    world = World(hosts(1))
    ran(world, 10 * HOUR)
    go_to(world, T0 + 60 * HOUR)
    ran(world, 80 * HOUR)
    go_to(world, T0 + WEEK)
    world.configure(QUARTER)
    made = told(world)
    assert gpu_hours(made.left) == -48
    assert made.back_at == world.now + 8 * HOUR
    outlook = Outlook(made.facts)
    assert outlook.left(world.now + 12 * HOUR) > 0 > outlook.left(world.now + 40 * HOUR)


def test_what_is_being_stopped_does_not_go_on() -> None:
    world = World(hosts(1), QUARTER, auto_release=False)
    job = world.submit("lab/a", 8)
    go_to(world, T0 + 60 * HOUR)
    world.cancel(job)
    made = told(world)
    assert [one.stopping for one in made.facts.going] == [True]
    assert made.back_at == made.back_at_going_on == T0 + WEEK + 18 * HOUR


def test_an_hour_that_was_credited_does_not_come_back() -> None:
    world = World(hosts(2))
    job = world.submit("lab/a", 8, min_runtime=2 * HOUR)
    world.advance(HOUR)
    world.host(world.attempt(job).hosts()[0], HostState.FAILED)
    world.cancel(job)
    world.advance(30 * SECOND)
    made = told(world)
    charged = sum(span.amount * (span.end - span.start) for _, span in world.spans if span.kind == "charged")
    assert charged > 8 * UNIT and made.facts.parts.settled == charged - 8 * UNIT
    assert [day.used for day in made.days] == [0, 0, 0, 0, 0, 0, charged - 8 * UNIT]
    (of_job,) = balance.jobs(made.facts, [span for _, span in world.spans])
    assert of_job.parts == made.facts.parts


def test_a_moved_budget_starts_anew_and_its_past_ages_out_where_it_was() -> None:
    shares = {"lab/a": 0.5, "lab/a/x": 0.5, "lab/b": 0.5}
    world = World(hosts(1), shares)
    job = world.submit("lab/a/x", 8)
    go_to(world, T0 + 10 * HOUR)
    tree = budgets({"lab/a": 0.5, "lab/b": 0.5, "lab/b/x": 0.5})
    world.configure(tree=tuple(replace(b, moved_from="lab/a/x") if b.path == "lab/b/x" else b for b in tree))
    go_to(world, T0 + 12 * HOUR)
    old, new = told(world), told(world, "lab/b/x")
    assert gpu_hours(old.facts.parts.settled) == 80 and old.facts.parts.total == old.facts.parts.settled
    gone = {child.path: child for child in old.facts.children}["lab/a/x"]
    assert gone.figures is None and gpu_hours(gone.parts.settled) == 80
    assert gpu_hours(new.facts.parts.running) == 16 and new.facts.parts.settled == 0
    # 2 GPUs since the move; the floor is 8 h of that.
    assert gpu_hours(new.accrued) == 4 and gpu_hours(new.entitled) == 16
    closed = [span for _, span in world.spans]
    assert [(one.job_id, gpu_hours(one.parts.total)) for one in balance.jobs(old.facts, closed)] == [(job, 80)]
    assert [(one.job_id, gpu_hours(one.parts.total)) for one in balance.jobs(new.facts, closed)] == [(job, 16)]


def test_what_was_charged_before_there_were_children_is_a_line_of_its_own() -> None:
    world = World(hosts(1))
    ran(world, 5 * HOUR)
    world.configure({"lab/a": 0.5, "lab/a/x": 0.5, "lab/b": 0.5})
    ran(world, HOUR, "lab/a/x")
    children = told(world).facts.children
    assert [(child.path, gpu_hours(child.parts.settled)) for child in children] == [
        ("lab/a/self", 0),
        ("lab/a/x", 8),
        ("lab/a", 40),
    ]


def test_a_raise_in_mid_window_is_counted_from_then_on() -> None:
    world = World(hosts(1), QUARTER)
    go_to(world, T0 + WEEK // 2)
    world.configure({"lab/a": 0.5, "lab/b": 0.5})
    go_to(world, T0 + WEEK)
    made = told(world)
    # 84 h of 2 GPUs and 84 h of 4; in half a week all of it is of 4.
    assert gpu_hours(made.entitled) == gpu_hours(made.accrued) == 2 * 84 + 4 * 84
    assert [gpu_hours(day.entitled) for day in made.days] == [48, 48, 48, 72, 96, 96, 96]
    assert owed_then(made, world.now) == 504
    assert owed_then(made, world.now + DAY) == 504 + 48
    assert owed_then(made, world.now + WEEK // 2) == owed_then(made, world.now + WEEK) == 672


def test_a_grant_to_come_is_known() -> None:
    """84 GPU-hours over the day after next, 3.5 GPUs more: they come, and go a week later."""
    start = T0 + WEEK + 2 * DAY
    grant = Grant("lab/a", ("lab/b",), 84, "main", start, start + DAY)
    world = World(hosts(1), grants=[grant])
    go_to(world, T0 + WEEK + DAY)
    made = told(world)
    moments = [start - HOUR, start, start + 12 * HOUR, start + DAY, start + 3 * DAY, world.now + WEEK]
    foretold = [owed_then(made, at) for at in moments]
    assert foretold == [672, 672, 672 + 42, 672 + 84, 672 + 84, 672 + 84]
    assert [owed_then(told(world, "lab/b"), at) for at in moments] == [672, 672, 630, 588, 588, 588]
    for at, then in zip(moments, foretold, strict=True):
        go_to(world, at)
        assert gpu_hours(told(world).entitled) == then
    go_to(world, start + WEEK + DAY)
    assert gpu_hours(told(world).entitled) == 672


def test_a_new_budget_has_the_floor_and_no_back_pay() -> None:
    world = World(hosts(1))
    go_to(world, T0 + 2 * WEEK)
    world.configure({"lab/a": 0.5, "lab/b": 0.25, "lab/c": 0.25})
    go_to(world, world.now + HOUR)
    made = told(world, "lab/c")
    assert gpu_hours(made.accrued) == 2 and gpu_hours(made.entitled) == 16
    assert owed_then(made, world.now + 7 * HOUR) == 16 and owed_then(made, world.now + 8 * HOUR) == 18


def test_what_lapses_is_no_more_than_what_is_left() -> None:
    """Idle for 6 days, then 624 of the week's 672 are used on one: of the 96 of the first day only 48 lapse."""
    world = World(hosts(4), {"lab/a": 0.125, "lab/b": 0.875})
    go_to(world, T0 + WEEK - 78 * HOUR // 4)
    jobs = [world.submit("lab/a", 8) for _ in range(4)]
    go_to(world, T0 + WEEK)
    for job in jobs:
        world.finish(job)
    made = told(world)
    assert gpu_hours(made.entitled) == 672 and gpu_hours(made.left) == 48
    assert gpu_hours(made.days[0].unused) == 96 and gpu_hours(made.lapses) == 48


@pytest.mark.parametrize("min_runtime", [HOUR, 0])
def test_spans_that_were_written_since_it_was_gathered_are_not_counted_twice(min_runtime: int) -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 8, min_runtime=min_runtime)
    go_to(world, T0 + 2 * HOUR)
    facts = told(world).facts
    world.finish(job)
    ran(world, HOUR)
    closed = [span for _, span in world.spans]
    assert len(closed) == 2
    (part,) = balance.jobs(facts, closed)
    assert part.parts == facts.parts and part.job_id == job


def test_a_claim_is_committed_before_it_holds_anything() -> None:
    world = World(hosts(1), auto_up=False)
    world.submit("lab/b", 8, min_runtime=0)
    world.submit("lab/a", 8, min_runtime=2 * HOUR)
    parts = [told(world).facts.parts]
    world.advance(MINUTE)
    parts.append(told(world).facts.parts)
    assert [gpu_hours(one.committed) for one in parts] == [16, 16]
    assert parts[0].running == 0 < parts[1].running
    assert [gpu_hours(one.parts.committed) for one in balance.jobs(told(world).facts, ())] == [16]


def test_free_time_is_counted_apart() -> None:
    world = World(hosts(1))
    job = world.submit("lab/a", 4, min_runtime=0, user="bob")
    world.submit("lab/a", 4, user="ann")
    go_to(world, T0 + 3 * HOUR)
    made = told(world)
    people = made.facts.people
    assert gpu_hours(people["bob"].unallocated) == 12 and people["bob"].total == 0
    assert gpu_hours(people["ann"].running) == 12 and people["ann"].unallocated == 0
    assert gpu_hours(made.facts.parts.unallocated) == 12 and gpu_hours(made.facts.parts.total) == 12
    assert {one.job_id: gpu_hours(one.parts.unallocated) for one in balance.jobs(made.facts, ())}[job] == 12


@pytest.mark.parametrize(("lookback", "length"), [(WEEK, DAY), (2 * DAY, 6 * HOUR), (60 * SECOND, 10 * SECOND)])
def test_the_window_is_cut_into_a_few_parts(lookback: int, length: int) -> None:
    world = World(hosts(1), policy=replace(World().policy, lookback=lookback, recent=lookback // 2))
    made = told(world)
    assert {day.end - day.start for day in made.days} == {length} and len(made.days) * length == lookback
    assert 40 < len(made.points) < 210
