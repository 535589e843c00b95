"""``tenure`` under cProfile, with its runs in this process: ``_sim_profile_run.py FILE simulate ...``.

A user's runs each have a process of their own, which a profiler of the one that starts them does not see.
"""

from __future__ import annotations

import cProfile
import sys
from collections.abc import Callable, Sequence

from tenure.cli.main import main
from tenure.sim import runner


def _here(
    orders: Sequence[runner.Order],
    workers: int,
    seen: Callable[[runner.Tick], None],
    done: Callable[[int, runner.Summary], None],
) -> bool:
    """Instead of ``runner.run_all``: one after the other, never broken off."""
    for order in orders:
        done(order.number, runner.execute(order, lambda tick: True))
    return True


def profiled() -> None:
    file = sys.argv.pop(1)
    runner.run_all = _here
    profile = cProfile.Profile()
    try:
        profile.runcall(main)
    finally:
        profile.dump_stats(file)


if __name__ == "__main__":
    profiled()
