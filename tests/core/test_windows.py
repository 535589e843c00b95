"""Both windows of a budget's ratio, however they are set."""

from __future__ import annotations

import pytest

from support.world import World, hosts
from tenure.core.ledger import Kind
from tenure.core.model import DAY, GPU, HOUR, MINUTE, Policy

JOBS = 70
"""Enough changes for the ledger to forget some."""


@pytest.mark.parametrize("lookback", [2 * HOUR, 7 * DAY])
def test_usage_is_kept_for_the_longer_of_both_windows(lookback: int) -> None:
    world = World(hosts(1), {"lab/a": 1.0}, policy=Policy(lookback=lookback, recent=DAY))
    for _ in range(JOBS):
        job = world.submit("lab/a", 8, min_runtime=5 * MINUTE)
        world.advance(5 * MINUTE)
        world.finish(job)
        world.advance(5 * MINUTE)
    used = world.state.clusters["main"].ledger.account("lab/a").usage(Kind.CHARGED, world.now - DAY, world.now)
    assert used == JOBS * 8 * GPU * 5 * MINUTE
