"""Whatever has happened, a statement's numbers are those of spans and promises, and they add up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.chaos import KINDS, STEPS, Chaos, Command, commands
from support.statements import entitled, entries, parts, under
from tenure import balance
from tenure.balance import Facts, Outlook, Parts
from tenure.core.events import Event
from tenure.core.fairshare import Standing
from tenure.core.ledger import Kind, Span
from tenure.core.model import MINUTE
from tenure.core.state import State

NOTHING = Parts()
Seen = Counter[str]


class Quick(Chaos):
    """The same histories, without the checks of other tests."""

    def _make(self, after: int, events: tuple[Event, ...]) -> None:
        self.world.step(*events, after=after)


History = list[tuple[int, list[Command]]]
histories = st.lists(st.tuples(st.sampled_from(STEPS), st.lists(commands, min_size=1, max_size=4)), min_size=5)


@settings(max_examples=60)
@given(st.integers(0, 1000), histories, st.integers(0, 90))
def test_every_number_is_that_of_spans_and_promises(start: int, history: History, later: int) -> None:
    chaos = Quick(start)
    for after, todo in history:
        chaos.step(after, todo)
    check_all(chaos, later)


OFTEN = (*(kind for kind in KINDS if kind != "back"), *("move", "host") * 9, *("submit",) * 20)
"""More of what statements are about than in other histories: moves, failed hosts, work. No server is ever away."""


@pytest.mark.slow
def test_so_it_is_through_months_in_which_everything_occurs() -> None:
    """Histories that are long enough for all that a statement can show, which is asserted as well."""
    seen: Seen = Counter()
    for seed in range(9):
        draw = random.Random(seed)
        chaos = Quick(16 + 18 * seed if seed % 2 else 3 * seed)  # reservations for small jobs; two clusters
        for step in range(80):
            many = [draw.choice(OFTEN) for _ in range(draw.randrange(5))]
            todo = [Command(kind, *(draw.randrange(12) for _ in range(3))) for kind in many]
            chaos.step(draw.choice(STEPS[:-2]), todo)
            if step % 8 == 7:
                check_all(chaos, draw.randrange(90), seen)
    assert all(seen[kind] >= 5 for kind in KINDS_SEEN), seen


def check_all(chaos: Chaos, later: int, seen: Seen | None = None) -> None:
    state, now = chaos.world.state, chaos.world.now
    due = state.next_due(signals=False)
    # The clock may be ahead of the last step, but not beyond what the next one would change.
    now = max(now, min(now + later * MINUTE, due if due is not None else now))
    for cluster in state.clusters:
        closed = [span for name, span in chaos.world.spans if name == cluster]
        for path in state.the_tree().nodes:
            made = check(state, cluster, path, closed, now)
            if seen is not None:
                seen.update(kinds(made, closed))


KINDS_SEEN = (
    *("settled", "running", "committed", "reserved", "unallocated"),
    *(
        "over",
        "back",
        "back later",
        "never back",
        "gone",
        "itself",
        "credit",
        "grant",
        "stopping",
        "overused",
        "lapses",
    ),
)


def kinds(made: balance.Statement, closed: list[Span]) -> Iterator[str]:
    """What of all that a statement can show is in this one."""
    facts = made.facts
    yield from (name for name in KINDS_SEEN[:5] if getattr(facts.parts, name))
    found = {
        "over": made.over,
        "back": made.back_at is not None,
        "back later": made.back_at is not None and made.back_at_going_on not in (None, made.back_at),
        "never back": made.over and made.back_at_going_on is None,
        "gone": any(child.figures is None and child.path != facts.path for child in facts.children),
        "itself": any(child.path == facts.path for child in facts.children),
        "credit": any(span.kind is Kind.CREDIT and span.end > facts.since for span in closed),
        "grant": len(facts.periods) > 1,
        "stopping": any(one.stopping for one in facts.going),
        "overused": any(day.unused < 0 for day in made.days),
        "lapses": made.lapses > 0,
    }
    yield from (name for name, there in found.items() if there)


def check(state: State, cluster: str, path: str, closed: list[Span], now: int) -> balance.Statement:
    facts = balance.gather(state, cluster, path, now)
    made, found = balance.statement(facts), entries(state, cluster, closed, now)
    here = under(path)
    assert facts.parts == parts(found, here)
    # U + C and E of rule 4
    figures = Standing(state.clusters[cluster].ledger, state.the_tree(), state.policy, Kind.CHARGED, now).figures(path)
    assert facts.parts.total == figures.used
    assert made.entitled == entitled(state, cluster, path, now)
    assert made.left == made.entitled - facts.parts.total
    assert (made.left < 0) == (figures.used * figures.denominator > figures.entitled)
    # who
    for user, theirs in facts.people.items():
        assert theirs == parts(found, lambda entry, user=user: here(entry) and entry.user == user)
    assert sum(facts.people.values(), NOTHING) == facts.parts
    if facts.children:
        assert sum((child.parts for child in facts.children), NOTHING) == facts.parts
        for child in facts.children:
            if child.path != path:
                assert child.parts == parts(found, under(child.path))
    of_jobs = balance.jobs(facts, closed)
    for job in of_jobs:
        assert job.parts == parts(found, lambda entry, job=job: here(entry) and entry.job == job.job_id)
    assert sum((job.parts for job in of_jobs), NOTHING) == facts.parts
    assert len({job.job_id for job in of_jobs}) == len(of_jobs)
    check_days(facts, made, closed)
    check_back(facts, made)
    return made


def check_days(facts: Facts, made: balance.Statement, closed: list[Span]) -> None:
    """Over a lookback all of settled and running comes back, and the days are those of the spans."""
    assert sum(day.used for day in made.days) == facts.parts.used
    assert sum(day.used - day.running for day in made.days) == facts.parts.settled
    assert made.points[-1].back == facts.parts.used and made.points[0].back == 0
    assert made.days[0].start == facts.since and made.days[-1].end == facts.now
    for i, day in enumerate(made.days):
        brute = 0
        for span in closed:
            if span.kind is not Kind.UNALLOCATED and (span.leaf + "/").startswith(facts.path + "/"):
                sign = -1 if span.kind is Kind.CREDIT else 1
                brute += sign * span.amount * max(0, min(span.end, day.end) - max(span.start, day.start))
        assert day.used - day.running == brute
        assert sum(daily[i] for daily in facts.daily.values()) == day.used
    assert 0 <= made.lapses <= max(0, made.left)


def check_back(facts: Facts, made: balance.Statement) -> None:
    """The moment that is told is the first at which nothing is missing."""
    outlook = Outlook(facts)
    assert outlook.left(facts.now) == facts.figures.entitled - facts.parts.total * facts.figures.denominator
    for going_on, told in ((False, made.back_at), (True, made.back_at_going_on)):
        moments = range(facts.now, outlook.until + 1, max(1, facts.lookback // 97))
        if not made.over:
            assert told is None
            continue
        for at in moments:
            assert (told is not None and at >= told) or outlook.left(at, going_on=going_on) < 0
        if told is not None:
            assert outlook.left(told, going_on=going_on) >= 0 > outlook.left(told - 1, going_on=going_on)
