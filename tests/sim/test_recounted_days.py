"""Two lookbacks and a day at 64 GPUs, simulated: the numbers behind every decision, recounted from the spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from support.recount import Recount
from support.recount_reasons import follow
from tenure.core.decisions import Claim, Credited, Stop, Stopping
from tenure.core.events import Event
from tenure.core.model import DAY, Policy
from tenure.core.reasons import Reason
from tenure.core.scheduler import Result
from tenure.core.state import State
from tenure.sim.loop import Simulation
from tenure.sim.months import month_of
from tenure.sim.setup import Faults

HELD = Policy(lookback=2 * DAY, reserved_percent=50, headroom_percent=10, moves_per_hour=4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mix", "days", "policy", "shown"),
    [
        (
            "saturated",
            4,
            HELD,
            {
                *(Reason.EVICTED_STANDING, Reason.EVICTED_RESERVED, Reason.EVICTED_UNALLOCATED, Reason.EVICTED_MOVED),
                *(Reason.EVICTED_HEADROOM, Reason.HOST_FAILED, Reason.RESERVATION_DISPLACED),
            },
        ),
        # Without held hosts it is known who could have had each place: rule 5's order is looked at as well.
        ("published", 1, Policy(headroom_percent=0), {Reason.EVICTED_STANDING, Reason.EVICTED_UNALLOCATED}),
    ],
)
def test_every_number_of_simulated_days(mix: str, days: int, policy: Policy, shown: set[Reason]) -> None:
    faults = Faults(between=5 * DAY)
    setup = replace(month_of(mix, {"main": 64}, people=40), seed=2, duration=days * DAY, scheduling=policy)
    recount, seen = Recount(), Counter[Reason]()

    def look(state: State, at: int, events: Sequence[Event], result: Result) -> None:
        follow(recount, at, events, result)
        for decision in (*result.outcomes, *result.plans):
            victims = decision.victims if isinstance(decision, Claim) else ()
            if isinstance(decision, Stop | Stopping):
                victims = (decision.victim,)
            else:
                seen[decision.because.reason] += 1
            seen.update(victim.because.reason for victim in victims)
            if isinstance(decision, Credited):
                assert decision.end > decision.start

    Simulation(replace(setup, faults=faults), look).run()
    assert shown <= seen.keys()
    assert sum(seen.values()) > 500
