"""What a statement foretells comes true, exactly, when nothing new happens."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from support.world import World, hosts
from tenure import balance
from tenure.balance import Outlook
from tenure.core.model import DAY, HOUR, MINUTE, Grant, Policy

PATHS = ("lab", "lab/a", "lab/b", "lab/b/x", "lab/self", "lab/b/self")


class Work(NamedTuple):
    """A job of ``gpus`` that begins ``after`` the one before, and has ended by the end of the history or not."""

    budget: str
    gpus: int
    min_runtime: int
    after: int
    ends: bool


work = st.builds(
    Work,
    st.sampled_from(("lab/a", "lab/b/x", "lab")),
    st.integers(1, 4),
    st.sampled_from((HOUR, 5 * HOUR, 8 * HOUR)),
    st.sampled_from((0, 7 * MINUTE, 3 * HOUR, 17 * HOUR, 2 * DAY)),
    st.booleans(),
)
shares = st.fixed_dictionaries(
    {"lab/a": st.sampled_from((0.0, 0.1, 0.4)), "lab/b": st.sampled_from((0.2, 0.6)), "lab/b/x": st.just(0.5)}
)
grants = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 5), st.integers(1, 200)), max_size=2)


@settings(max_examples=40)
@given(st.lists(shares, min_size=1, max_size=3), st.lists(work, max_size=8), grants, st.booleans())
def test_balances_become_what_was_foretold(
    trees: list[dict[str, float]], history: list[Work], given_: list[tuple[int, int, int]], going_on: bool
) -> None:
    """Attempts go on, or end when their protection does; grants come and go; the window slides over it all."""
    # Room for everything at once, so that nobody waits and nobody is evicted.
    world = World(hosts(8), trees[0], policy=Policy(headroom_percent=0))
    for i, one in enumerate(history):
        if i < len(trees):
            world.configure(trees[i])
        world.advance(one.after, tick=DAY)
        if not _no_share(world, one.budget):
            job = world.submit(one.budget, one.gpus, min_runtime=one.min_runtime)
            if one.ends:
                world.advance(HOUR, tick=DAY)
                world.finish(job)
    world.grants = tuple(
        Grant("lab/b", ("lab/a",), amount, "main", world.now + start * DAY, world.now + (start + length) * DAY)
        for start, length, amount in given_
    )
    world.configure()
    outlooks = {path: Outlook(balance.gather(world.state, "main", path, world.now)) for path in PATHS}
    told = [max(now_or_until, 0) for now_or_until in (HOUR, 5 * HOUR, DAY, 4 * DAY + MINUTE, 6 * DAY, 7 * DAY)]
    moments = [world.now + after for after in told]
    if not going_on:
        _finish_exposed(world)
    for at in moments:
        _go(world, at, going_on)
        for path, outlook in outlooks.items():
            then = balance.gather(world.state, "main", path, at)
            assert outlook.entitled(at) == then.figures.entitled, (path, at)
            left = then.figures.entitled - then.parts.total * then.figures.denominator
            # Time in which nothing was charged yet has left the window a lookback after it was told, not before.
            assert outlook.left(at, going_on=going_on) == left, (path, at)


def _no_share(world: World, budget: str) -> bool:
    leaf = world.state.the_tree().leaf_of(budget)
    return not world.state.clusters["main"].ledger.account(leaf).allocation


def _go(world: World, at: int, going_on: bool) -> None:
    while world.now < at:
        ends = [a.protected_until for a in world.state.attempts.values() if a.protected_until is not None]
        until = min([at, *(end for end in ends if end > world.now)])
        world.advance(until - world.now, tick=DAY)
        if not going_on:
            _finish_exposed(world)


def _finish_exposed(world: World) -> None:
    """What has kept its contract ends at once."""
    for attempt in sorted(world.state.attempts.values(), key=lambda a: a.id):
        if attempt.protected_until is not None and attempt.protected_until <= world.now:
            world.finish(attempt.job_id)
