"""A longer lookback counts what the shorter one had let go: from the spans, at once, and after a restart the same."""

from __future__ import annotations

import pytest
from engine_kit import Rig

from tenure.core.ledger import Kind
from tenure.core.model import DAY, GPU, HOUR, SHARE_ONE, HostState, Policy

SHORT = Policy(lookback=DAY)


def hours(bench: Rig, lookback: int) -> dict[str, tuple[int, int]]:
    """GPU-hours that each budget used and was entitled to."""
    found = {}
    with bench.engine.view() as state:
        ledger = state.clusters["main"].ledger
        for path in ("lab/a", "lab/b"):
            used = ledger.account(path).usage(Kind.CHARGED, state.now - lookback, state.now)
            entitled = ledger.entitlement(path, lookback, HOUR, state.now) // SHARE_ONE
            found[path] = (used // (GPU * HOUR), entitled // (GPU * HOUR))
    return found


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_longer_lookback_counts_what_ended_before_the_shorter_one_began(bench: Rig, snapshot: bool) -> None:
    bench.configure(SHORT)
    for day in range(5):
        steady = bench.submit("lab/b", 4)
        for _ in range(20):  # so many changes that the ledger lets the old ones go
            short = bench.submit("lab/a", 4)
            bench.advance(HOUR)
            bench.finish(short)
        with bench.engine.view() as state:
            (idle,) = {"h0", "h1"} - set(state.attempts[f"{steady}.1"].hosts())
        if day == 4:
            bench.engine.set_host("main", idle, HostState.FAILED, by="op", why="test")
            bench.advance(2 * HOUR)
            bench.engine.set_host("main", idle, HostState.HEALTHY, by="op", why="test")
            bench.advance(2 * HOUR)
        else:
            bench.advance(4 * HOUR)
        bench.finish(steady)
    owed = 4 * 24 - 2 * 2  # half of 8 GPUs, less half of a host for two hours
    assert hours(bench, DAY) == {"lab/a": (80, owed), "lab/b": (96, owed)}
    if snapshot:
        bench.restart()
    bench.configure(Policy())
    expected = {"lab/a": (5 * 80, owed + 6 * 96), "lab/b": (5 * 96, owed + 6 * 96)}
    assert hours(bench, 7 * DAY) == expected
    bench.check_recovery()
    bench.restart()
    assert hours(bench, 7 * DAY) == expected
    bench.submit("lab/a", 4)
    bench.check_recovery()
    bench.check_replay()
