"""Rule 10 in random worlds: who holds a reservation starts by the time told.

Hosts stay healthy here, but everything takes as long as it may: replicas come up just before the start time-out, who is
evicted uses its grace and the kill time-out. Short contracts stream in, and small windows let ratios cross.
"""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from support import invariants
from support.world import T0, World, budgets, hosts
from tenure.core import scheduler
from tenure.core.decisions import Claim, ClaimOpened, Reserve, Start, Unreserve
from tenure.core.events import (
    AttemptExited,
    CancelRequested,
    ConfigApplied,
    Event,
    ExitKind,
    PriorityChanged,
    ReplicasUp,
    Submitted,
)
from tenure.core.ledger import Span
from tenure.core.model import DAY, HOUR, MINUTE, SECOND, Cluster, Contract, JobSpec, Policy, Role
from tenure.core.reasons import Reason
from tenure.core.state import Reservation, State

EXAMPLES = settings.get_profile(settings.get_current_profile_name()).max_examples
SHARES = {"lab/a": 0.5, "lab/b": 0.3, "lab/c": 0.2, "lab/a/x": 0.5, "lab/a/y": 0.3}
LEAVES = ("lab/a/x", "lab/a/y", "lab/b", "lab/c")


class Slow:
    """A small cluster on which things happen as late as they may, or at any time before; every due time is a step."""

    def __init__(self, seed: int, clusters: int = 1) -> None:
        self.draw = draw = random.Random(seed)
        names = ("main", "aux")[:clusters]
        spec = Cluster("", (), max_grace=draw.choice((MINUTE, 5 * MINUTE)), start_timeout=10 * MINUTE)
        self.clusters = tuple(replace(spec, name=name, hosts=hosts(4, 4, prefix=name[0])) for name in names)
        self.policy = Policy(
            lookback=20 * HOUR,
            recent=3 * HOUR,
            entitlement_floor=HOUR,
            preemption_margin=draw.choice((0, MINUTE, 10 * MINUTE)),
            unallocated_turn=10 * MINUTE,
            evictions_per_minute=1_000,
            reserved_percent=draw.choice((50, 100)),
            reserve_from=draw.choice((2, 4)),
            look_every=draw.choice((MINUTE, 5 * MINUTE)),
            headroom_percent=draw.choice((0, 0, 30)),
            moves_per_hour=draw.choice((0, 0, 4)),
        )
        self.state, self.now, self.jobs = State(), T0, 0
        self.spans: list[tuple[str, Span]] = []
        self.agenda: dict[tuple[str, str], int] = {}
        """What happens to attempts, (what, attempt) -> when."""
        self.arrival = T0
        self.step(ConfigApplied(T0, self.clusters, self.policy, budgets(SHARES), (), "test"))

    def go_on(self) -> tuple[list[Event], scheduler.Result]:
        """The next moment at which anything happens."""
        due = self.state.next_due()
        times = [self.arrival, *self.agenda.values(), *([due] if due is not None else [])]
        self.now = max(self.now, min(times))
        events = self._events()
        return events, self.step(*events)

    def step(self, *events: Event) -> scheduler.Result:
        result = scheduler.step(self.state, events, self.now)
        self.spans += self.state.closed_spans
        for changed in (self.state.closed_spans, self.state.ended_jobs, self.state.ended_attempts):
            changed.clear()
        self._plan_ahead()
        return result

    def restore(self) -> None:
        self.state = invariants.restored(invariants.saved(self.state), self.spans)

    def _late(self, first: int, last: int) -> int:
        """At the last moment, at the first, or between."""
        return self.draw.choice((last, last, first, self.draw.randint(first, last)))

    def _plan_ahead(self) -> None:
        """When replicas come up, and when attempts are over."""
        old, self.agenda = self.agenda, {}
        for name, a in sorted(self.state.attempts.items()):
            if a.stop is not None:
                key, span = ("stopped", name), (min(self.now, a.stop.warn_at), a.stop.release_by - 1)
            elif a.started_at is None:
                continue
            elif a.running_since is None:
                key, span = ("up", name), (a.started_at, a.started_at + 10 * MINUTE - 1)
            else:
                key, span = ("done", name), (self.now + 1, self.now + self.draw.choice((HOUR, DAY)))
            self.agenda[key] = min(old[key], span[1]) if key in old else self._late(*span)

    def _events(self) -> list[Event]:
        events: list[Event] = []
        for (what, name), at in sorted(self.agenda.items()):
            if at <= self.now:
                if what == "up":
                    events.append(ReplicasUp(self.now, name))
                else:
                    codes = (0,) if what == "done" else (1,)
                    events.append(AttemptExited(self.now, name, ExitKind.EXITED, codes))
        if self.arrival <= self.now:
            waiting = len(self.state.jobs) - len(self.state.attempts)
            for _ in range(self.draw.choice((1, 1, 3)) if waiting < 20 else 0):
                self.jobs += 1
                events.append(Submitted(self.now, self.jobs, self._spec()))
            self.arrival = self.now + self.draw.choice((SECOND, MINUTE, 5 * MINUTE, 20 * MINUTE))
            if self.draw.random() < 0.03:
                some = self.draw.randint(1, max(1, self.jobs))
                cancel, change = CancelRequested(self.now, some, "ann"), PriorityChanged(self.now, some, 5, "ann")
                events.append(self.draw.choice((cancel, change)))
        return events

    def _spec(self) -> JobSpec:
        draw = self.draw
        replicas, gpus = draw.choice(((1, 1), (1, 2), (1, 4), (2, 4), (2, 4), (3, 4), (3, 2)))
        contract = Contract(draw.choice((0, 14, 14, 15, 15, 60, 180)) * MINUTE, True)
        if contract.min_runtime > 15 * MINUTE and draw.random() < 0.3:
            replicas, gpus = 4, 4
        names = tuple(c.name for c in self.clusters)
        return JobSpec(
            "job",
            draw.choice(("ann", "bob")),
            draw.choice(LEAVES),
            (Role("main", replicas, gpus, 0, 0),),
            contract,
            draw.choice((names, tuple(reversed(names)), names[:1])),
            draw.choice((0, 0, 0, 5)),
            timeout=draw.choice((None, 4 * HOUR)),
            grace=draw.choice((0, MINUTE, 5 * MINUTE)),
        )


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
