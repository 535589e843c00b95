"""Crowded clusters, drawn from a seed: far more is asked of them than there is, and things happen at any time."""

from __future__ import annotations

import random
from dataclasses import replace

from support import invariants
from support.world import T0, budgets, hosts
from tenure.core import scheduler
from tenure.core.events import (
    AttemptExited,
    CancelRequested,
    ConfigApplied,
    Event,
    ExitKind,
    HostStateChanged,
    PriorityChanged,
    ReplicasUp,
    Submitted,
)
from tenure.core.ledger import Span
from tenure.core.model import DAY, HOUR, MINUTE, SECOND, Cluster, Contract, HostState, JobSpec, Policy, Role
from tenure.core.scheduler import Result
from tenure.core.state import State

SLOW_SHARES = {"lab/a": 0.5, "lab/b": 0.3, "lab/c": 0.2, "lab/a/x": 0.5, "lab/a/y": 0.3}
SLOW_LEAVES = ("lab/a/x", "lab/a/y", "lab/b", "lab/c")
RUSH_SHARES = {"lab/a": 0.5, "lab/b": 0.3, "lab/a/x": 0.5, "lab/a/y": 0.3, "lab/b/x": 0.6, "lab/b/y": 0.4}
RUSH_LEAVES = ("lab/a/x", "lab/a/y", "lab/a", "lab/b/x", "lab/b/y", "lab")


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
        self.step(ConfigApplied(T0, self.clusters, self.policy, budgets(SLOW_SHARES), (), "test"))

    def go_on(self) -> tuple[list[Event], Result]:
        """The next moment at which anything happens."""
        due = self.state.next_due()
        times = [self.arrival, *self.agenda.values(), *([due] if due is not None else [])]
        self.now = max(self.now, min(times))
        events = self._events()
        return events, self.step(*events)

    def step(self, *events: Event) -> Result:
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
                events.append(Submitted(self.now, self.jobs, self.spec()))
            self.arrival = self.now + self.draw.choice((SECOND, MINUTE, 5 * MINUTE, 20 * MINUTE))
            if self.draw.random() < 0.03:
                some = self.draw.randint(1, max(1, self.jobs))
                cancel, change = CancelRequested(self.now, some, "ann"), PriorityChanged(self.now, some, 5, "ann")
                events.append(self.draw.choice((cancel, change)))
        return events

    def spec(self) -> JobSpec:
        draw = self.draw
        replicas, gpus = draw.choice(((1, 1), (1, 2), (1, 4), (2, 4), (2, 4), (3, 4), (3, 2)))
        contract = Contract(draw.choice((0, 14, 14, 15, 15, 60, 180)) * MINUTE, True)
        if contract.min_runtime > 15 * MINUTE and draw.random() < 0.3:
            replicas, gpus = 4, 4
        names = tuple(c.name for c in self.clusters)
        return JobSpec(
            "job",
            draw.choice(("ann", "bob")),
            draw.choice(SLOW_LEAVES),
            (Role("main", replicas, gpus, 0, 0),),
            contract,
            draw.choice((names, tuple(reversed(names)), names[:1])),
            draw.choice((0, 0, 0, 5)),
            timeout=draw.choice((None, 4 * HOUR)),
            grace=draw.choice((0, MINUTE, 5 * MINUTE)),
        )


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
        config = ConfigApplied(T0, (self.cluster,), self.policy, budgets(RUSH_SHARES), (), "test")
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
            events.append(Submitted(now, self.jobs, self.spec()))
        if draw.random() < 0.02:
            events.append(PriorityChanged(now, draw.randint(1, max(1, self.jobs)), draw.choice((0, 5)), "ann"))
        if self.faulty and draw.random() < 0.05:
            host = draw.choice(self.cluster.hosts).name
            to = draw.choice((HostState.HEALTHY, HostState.HEALTHY, HostState.DRAINING, HostState.FAILED))
            events.append(HostStateChanged(now, "main", host, to, "op", "test"))
        return events

    def spec(self) -> JobSpec:
        draw = self.draw
        replicas, gpus = draw.choice(((1, 1), (1, 1), (1, 2), (1, 4), (2, 4), (3, 2)))
        contract = Contract(draw.choice((0, 5, 5, 15, 60)) * MINUTE, True)
        role = Role("main", replicas, gpus, gpus * draw.choice((1_000, 30_000)), 0)
        user, priority = draw.choice(("ann", "bob")), draw.choice((0, 0, 5))
        return JobSpec("job", user, draw.choice(RUSH_LEAVES), (role,), contract, ("main",), priority, grace=30 * SECOND)
