"""Rule 10 in random worlds: who holds a reservation starts by the time told.

Hosts stay healthy here, but everything takes as long as it may: replicas come up just before the start time-out, who is
evicted uses its grace and the kill time-out. Short contracts stream in, and small windows let ratios cross.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from support import invariants
from support.crowds import Slow
from support.world import World, hosts
from tenure.core import scheduler
from tenure.core.decisions import Claim, ClaimOpened, Reserve, Start, Unreserve
from tenure.core.events import (
    CancelRequested,
    Event,
)
from tenure.core.model import DAY, HOUR, MINUTE, Policy
from tenure.core.reasons import Reason
from tenure.core.state import Reservation

EXAMPLES = settings.get_profile(settings.get_current_profile_name()).max_examples


class Told:
    """Follows what jobs were told, and holds the scheduler to it."""

    def __init__(self, slow: Slow) -> None:
        self.slow = slow
        self.held: dict[int, Reservation] = {}
        self.claims: dict[str, int] = {}
        """Claims of jobs that held a reservation -> by when they were told to start."""
        self.starts = self.displaced = 0

    def follow(self, events: list[Event], result: scheduler.Result) -> None:
        slow, now, held = self.slow, self.slow.now, self.held
        for event in events:
            if isinstance(event, CancelRequested):
                held.pop(event.job_id, None)
        for outcome in result.outcomes:
            if isinstance(outcome, ClaimOpened) and outcome.attempt_id in self.claims:
                assert outcome.at <= self.claims.pop(outcome.attempt_id)
                self.starts += 1
        for plan in result.plans:
            if isinstance(plan, Start | Claim) and plan.job_id in held:
                by = held.pop(plan.job_id).starts_by
                assert now <= by
                if isinstance(plan, Claim):
                    self.claims[plan.attempt_id] = by
                else:
                    self.starts += 1
            elif isinstance(plan, Unreserve):
                assert plan.because.reason is Reason.RESERVATION_DISPLACED
                by_job = slow.state.jobs[int(str(plan.because.numbers["by"]))]
                assert by_job.queued_at >= held.pop(plan.job_id).made_at
                self.displaced += 1
            elif isinstance(plan, Reserve):
                made = Reservation(plan.cluster, plan.hosts, plan.amount, now, plan.told, plan.starts_by, plan.bounded)
                held[plan.job_id] = made
        assert held == {j.id: j.reservation for j in slow.state.jobs.values() if j.reservation is not None}
        for job_id, reservation in held.items():
            assert now < reservation.starts_by, f"job {job_id} waits at {now}: {reservation}"


@settings(max_examples=EXAMPLES // 4)
@given(st.integers(0, 100_000), st.sampled_from((1, 1, 2)))
def test_no_reserved_job_starts_later_than_told_unless_it_was_displaced_and_told_so(seed: int, clusters: int) -> None:
    slow = Slow(seed, clusters)
    told = Told(slow)
    for _ in range(250):
        told.follow(*slow.go_on())
        invariants.check_held(slow.state)
        if slow.draw.random() < 0.02:
            slow.restore()


@settings(max_examples=max(1, EXAMPLES // 12))
@given(st.data())
def test_equal_budgets_evict_each_other_at_most_once_for_each_min_runtime_and_margin(data: st.DataObject) -> None:
    programs = data.draw(st.lists(st.sampled_from((0, 2, 3)), min_size=2, max_size=3))
    shares = {f"lab/{i}": int(1000 / len(programs)) / 1000 for i in range(len(programs))}
    shares |= {f"lab/{i}/{k}": int(1000 / count) / 1000 for i, count in enumerate(programs) for k in range(count)}
    leaves = [f"lab/{i}/{k}" for i, count in enumerate(programs) for k in range(count)]
    leaves += [f"lab/{i}" for i, count in enumerate(programs) if not count]
    margin, least = data.draw(st.sampled_from((10, 60))) * MINUTE, data.draw(st.sampled_from((15, 60, 120))) * MINUTE
    world = World(hosts(3), shares, policy=Policy(reserved_percent=100, preemption_margin=margin))
    for leaf in leaves:
        for _ in range(3):
            world.submit(leaf, replicas=data.draw(st.integers(1, 3)), min_runtime=least)
    world.advance(DAY // 2, tick=HOUR)
    assert len(world.evictions()) <= 3 * 8 * 12 * HOUR // (8 * (least + margin))
