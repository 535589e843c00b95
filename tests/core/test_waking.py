"""A pass tries only what a change could have helped, and decides what it would if it tried everything."""

from __future__ import annotations

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from support import invariants, plain
from support.world import T0, budgets, hosts
from tenure.core import scheduler
from tenure.core.events import (
    AttemptExited,
    ConfigApplied,
    Event,
    ExitKind,
    HostStateChanged,
    PriorityChanged,
    ReplicasUp,
    Submitted,
)
from tenure.core.ledger import Span
from tenure.core.model import HOUR, MINUTE, SECOND, Cluster, Contract, HostState, JobSpec, Policy, Role
from tenure.core.scheduler import Result
from tenure.core.state import State

SHARES = {"lab/a": 0.5, "lab/b": 0.3, "lab/a/x": 0.5, "lab/a/y": 0.3, "lab/b/x": 0.6, "lab/b/y": 0.4}
LEAVES = ("lab/a/x", "lab/a/y", "lab/a", "lab/b/x", "lab/b/y", "lab")


class Rush:
    """A small cluster for which far more is asked than there is: drawn from a seed, a step at a time."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.cluster = Cluster("main", hosts(4, 4), max_grace=MINUTE)
        # Small margins and windows, so that standings cross margins often.
        margin = self.draw.choice((0, MINUTE, 10 * MINUTE))
        self.policy = Policy(
            lookback=20 * HOUR,
            recent=3 * HOUR,
            entitlement_floor=HOUR,
            preemption_margin=margin,
            unallocated_turn=10 * MINUTE,
            evictions_per_minute=self.draw.choice((2, 60)),
            reserved_percent=self.draw.choice((0, 50, 100)),
            reserve_from=self.draw.choice((1, 4)),
            look_every=self.draw.choice((MINUTE, 5 * MINUTE)),
            headroom_percent=self.draw.choice((0, 0, 30)),
            moves_per_hour=self.draw.choice((0, 0, 4)),
        )
        self.state, self.now, self.jobs = State(), T0, 0
        self.spans: list[tuple[str, Span]] = []
        self.faulty = self.draw.random() < 0.3
        config = ConfigApplied(T0, (self.cluster,), self.policy, budgets(SHARES), (), "test")
        scheduler.step(self.state, [config], T0)

    def step(self) -> tuple[list[Event], str, Result]:
        """What usually happens, at a time at which something does; the state before it, and what was decided."""
        self.now += self.draw.choice((0, 1, SECOND, 20 * SECOND, MINUTE, 5 * MINUTE, 20 * MINUTE))
        due = self.state.next_due()
        if due is not None and self.draw.random() < 0.5:
            self.now = min(self.now, max(due, self.state.now))
        events = self._events()
        before = invariants.saved(self.state)
        result = scheduler.step(self.state, events, self.now)
        return events, before, result

    def _events(self) -> list[Event]:
        draw, now, events = self.draw, self.now, list[Event]()
        for attempt_id, attempt in sorted(self.state.attempts.items()):
            if attempt.stop is not None and attempt.stop.kill_at <= now + draw.choice((0, MINUTE)):
                events.append(AttemptExited(now, attempt_id, ExitKind.EXITED, (1,)))
            elif attempt.started_at is not None and attempt.running_since is None and attempt.stop is None:
                events.append(ReplicasUp(now, attempt_id))
            elif attempt.running_since is not None and draw.random() < 0.02:
                late = self.jobs % 3 * SECOND
                events.append(AttemptExited(now, attempt_id, ExitKind.EXITED, (0,), ended_at=now - late if late else 0))
        waiting = len(self.state.jobs) - len(self.state.attempts)
        for _ in range(draw.choice((0, 1, 3)) if waiting < 25 else 0):
            self.jobs += 1
            events.append(Submitted(now, self.jobs, self._spec()))
        if draw.random() < 0.02:
            events.append(PriorityChanged(now, draw.randint(1, max(1, self.jobs)), draw.choice((0, 5)), "ann"))
        if self.faulty and draw.random() < 0.05:
            host = draw.choice(self.cluster.hosts).name
            to = draw.choice((HostState.HEALTHY, HostState.HEALTHY, HostState.DRAINING, HostState.FAILED))
            events.append(HostStateChanged(now, "main", host, to, "op", "test"))
        return events

    def _spec(self) -> JobSpec:
        draw = self.draw
        replicas, gpus = draw.choice(((1, 1), (1, 1), (1, 2), (1, 4), (2, 4), (3, 2)))
        contract = Contract(draw.choice((0, 5, 5, 15, 60)) * MINUTE, True)
        role = Role("main", replicas, gpus, gpus * draw.choice((1_000, 30_000)), 0)
        user, priority = draw.choice(("ann", "bob")), draw.choice((0, 0, 5))
        return JobSpec("job", user, draw.choice(LEAVES), (role,), contract, ("main",), priority, grace=30 * SECOND)


@settings(max_examples=settings.get_profile(settings.get_current_profile_name()).max_examples // 4)  # long stories
@given(st.integers(0, 10_000))
@example(407)  # a host is marked, so a job needs the one that is kept for short contracts
@example(552)  # two come back that could have the place of a reserved job
def test_what_is_left_out_could_not_have_been_placed(seed: int) -> None:
    rush = Rush(seed)
    for _ in range(50):
        events, before, result = rush.step()
        everything = scheduler.step(invariants.restored(before, rush.spans), events, rush.now, plain.run)
        assert invariants.fingerprint(result) == invariants.fingerprint(everything)
        rush.spans += rush.state.closed_spans
        for changed in (rush.state.closed_spans, rush.state.ended_jobs, rush.state.ended_attempts):
            changed.clear()
