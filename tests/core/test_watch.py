"""Alarms are never late: until then usage stays within its bounds, and reaches below their worst."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from support.world import budgets
from tenure.core.fairshare import FAR, Standing
from tenure.core.ledger import Kind, Ledger, OpenSpan
from tenure.core.model import GPU, HOUR, MINUTE, Policy
from tenure.core.tree import Tree
from tenure.core.watch import ENDLESS, HORIZON, Bounds, Watch

TREE = Tree(budgets({"lab/a": 0.4, "lab/b": 0.6}))
FEW = 40
POLICY = Policy(lookback=10 * HOUR, recent=2 * HOUR, entitlement_floor=HOUR)


def history(draw: random.Random) -> tuple[Ledger, int]:
    """A ledger in which attempts of two budgets started, ran and ended, and hosts came and went; and the time."""
    ledger, now, running = Ledger(), 0, list[tuple[str, str, int]]()
    ledger.set_allocations(TREE.allocations("main", 32, now), 32, now)
    for i in range(draw.randrange(30)):
        now += draw.choice((0, MINUTE, 20 * MINUTE, 2 * HOUR))
        if draw.random() < 0.3:
            ledger.set_allocations(TREE.allocations("main", 32, now), draw.choice((0, 1, 32)), now)
        if running and draw.random() < 0.4:
            attempt, leaf, end = running.pop(draw.randrange(len(running)))
            if end:
                ledger.promise(leaf, "ann", Kind.CHARGED, amount=-GPU, end=end)
            ledger.close_span(attempt, now)
        else:
            leaf, end = draw.choice(("lab/a", "lab/b")), now + draw.choice((0, 0, HOUR))
            ledger.open_span(str(i), OpenSpan(leaf, "ann", Kind.CHARGED, GPU, now))
            if end > now:
                ledger.promise(leaf, "ann", Kind.CHARGED, amount=GPU, end=end)
            running.append((str(i), leaf, end))
        for k, (attempt, leaf, end) in enumerate(running):
            if 0 < end <= now:  # its protection is over
                ledger.promise(leaf, "ann", Kind.CHARGED, amount=-GPU, end=end)
                running[k] = (attempt, leaf, 0)
    if draw.random() < 0.5:  # nobody runs any more: usage can only fall
        for attempt, leaf, end in running:
            if end:
                ledger.promise(leaf, "ann", Kind.CHARGED, amount=-GPU, end=end)
            ledger.close_span(attempt, now)
        running.clear()
    ends = [end for _, _, end in running if end]
    return ledger, min([now + draw.choice((0, MINUTE, HOUR)), *ends])


def standing(ledger: Ledger, now: int) -> Standing:
    return Standing(ledger, TREE, POLICY, Kind.CHARGED, now)


@given(st.integers(0, 100_000), st.integers(0, 3 * HOUR), st.integers(0, 10))
def test_usage_stays_within_its_bounds_until_the_alarm(seed: int, slack: int, share: int) -> None:
    draw = random.Random(seed)
    ledger, now = history(draw)
    watch, begin = Watch(), standing(ledger, now)
    watch.bind("lab/a", "lab/b", slack * GPU, begin, 1 << 62)
    for path in ("lab/a", "lab/b"):
        watch.set_alarm(path, begin)
        alarm = min(watch.alarms[path], now + 12 * HOUR)
        at = now + (alarm - 1 - now) * share // 10
        assert at < now or watch.bounds[path].hold(standing(ledger, at).figures(path), at)


@given(st.integers(0, 100_000), st.integers(0, HORIZON))
def test_a_reach_grows_no_further_than_its_worst_and_what_usage_moved(seed: int, after: int) -> None:
    ledger, now = history(random.Random(seed))
    begin, later = standing(ledger, now), standing(ledger, now + after)
    worst, until = begin.reach_at_worst("lab/a", "lab/b", HORIZON)
    if later.now >= until:
        return
    a, b = begin.figures("lab/a"), begin.figures("lab/b")
    then_a, then_b = later.figures("lab/a"), later.figures("lab/b")
    moved = max(
        a.used - then_a.used,
        a.used_recent - then_a.used_recent,
        then_b.used - b.used,
        then_b.used_recent - b.used_recent,
        0,
    )
    assert later.reach("lab/a", "lab/b") <= worst + moved + 1


def test_bounds_that_are_passed_already_are_looked_at_in_the_next_pass() -> None:
    ledger, now = history(random.Random(1))
    watch, begin = Watch(), standing(ledger, now)
    watch.bind("lab/a", "lab/b", -1, begin, 1 << 62)
    watch.set_alarm("lab/a", begin)
    assert watch.due(now) == ["lab/a"] and watch.due(now) == []


def test_without_bounds_nothing_is_passed() -> None:
    ledger, now = history(random.Random(1))
    figures = standing(ledger, now).figures("lab/a")
    assert Bounds().hold(figures, now) and figures.used < FAR


@given(st.integers(0, 100_000), st.integers(0, 3 * HOUR), st.integers(0, 12 * HOUR), st.integers(-FEW, FEW))
def test_what_was_measured_of_a_pair_holds_until_its_reach_could_have_grown_by_its_slack(
    seed: int, slack: int, later: int, charged: int
) -> None:
    """Whatever happened meanwhile, as long as entitlements are the same."""
    draw = random.Random(seed)
    ledger, now = history(draw)
    before, watch = standing(ledger, now), Watch()
    worst, until = before.reach_at_worst("lab/a", "lab/b", HORIZON)
    watch.bind("lab/a", "lab/b", slack * GPU, before, until)
    ledger.promise(draw.choice(("lab/a", "lab/b")), "ann", Kind.CHARGED, fixed=charged * GPU * HOUR)
    after = standing(ledger, now + later)
    if watch.holds("lab/a", "lab/b", after):
        assert after.reach("lab/a", "lab/b") <= worst + slack * GPU + 1
    else:
        moved = [abs(y - x) for path in ("lab/a", "lab/b") for x, y in _usages(before, after, path)]
        assert max(moved) > slack * GPU or now + later >= until


def _usages(before: Standing, after: Standing, path: str) -> list[tuple[int, int]]:
    a, b = before.figures(path), after.figures(path)
    return [(a.used, b.used), (a.used_recent, b.used_recent)]


def test_a_pair_that_still_holds_binds_its_nodes_again_when_another_has_broken_their_bounds() -> None:
    ledger, now = history(random.Random(3))
    begin, watch = standing(ledger, now), Watch()
    assert not watch.holds("lab/a", "lab/b", begin)  # never measured
    watch.bind("lab/a", "lab/b", 5 * GPU, begin, 1 << 62)
    bound = (watch.bounds["lab/a"], watch.bounds["lab/b"])
    watch.bounds.clear()
    assert watch.holds("lab/a", "lab/b", begin)
    assert (watch.bounds["lab/a"], watch.bounds["lab/b"]) == bound
    assert (bound[0].low, bound[1].high) == (
        begin.figures("lab/a").used - 5 * GPU,
        begin.figures("lab/b").used + 5 * GPU,
    )


def test_a_reach_above_every_margin_holds_for_ever() -> None:
    ledger, now = history(random.Random(3))
    watch = Watch()
    watch.slacks["lab/a", "lab/b"] = ENDLESS
    assert watch.holds("lab/a", "lab/b", standing(ledger, now + 100 * HOUR))
