"""The slurm policy in the simulator, beside the one that it differs from in its order alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sim_kit import Watch, setup_of, simulate, work

from tenure.core.model import HOUR, MINUTE
from tenure.sim.settings import with_settings
from tenure.sim.setup import Setup


def flood(policy: str, **settings: str) -> Setup:
    """Two people, each with half of the shares: 60 jobs of a host for an hour, and as many a second later; 2 hosts."""
    jobs = [(0, work("lab/a", 8, HOUR, user="ann")) for _ in range(60)]
    jobs += [(1000, work("lab/b", 8, HOUR, user="bob")) for _ in range(60)]
    setup = replace(setup_of(jobs, gpus=16, duration=21 * HOUR), policy=policy)
    return with_settings(setup, list(settings.items()))


@pytest.mark.parametrize(
    ("policy", "settings", "parts"),
    [
        ("backfill", {}, {"lab/a": 40, "lab/b": 0}),
        ("slurm", {}, {"lab/a": 20, "lab/b": 20}),
        ("slurm", {"weight_fairshare": "0"}, {"lab/a": 40, "lab/b": 0}),
    ],
)
def test_who_asks_for_more_gets_no_more(policy: str, settings: dict[str, str], parts: dict[str, int]) -> None:
    run, _ = simulate(flood(policy, **settings), Watch())
    for budget, hours in parts.items():
        done = sum(row.delivered for row in run.budget_hours if row.budget == budget) / (8 * 1000 * HOUR)
        assert done == pytest.approx(hours, abs=2), budget
    assert not run.evictions


def test_it_is_recorded_what_was_set() -> None:
    setup = flood("slurm", half_life="2d", calc_period="10m", weight_age="7")
    assert setup.options == {"half_life": 48 * HOUR, "calc_period": 10 * MINUTE, "weight_age": 7}
    assert dict(setup.settings) == {"half_life": "2d", "calc_period": "10m", "weight_age": "7"}
