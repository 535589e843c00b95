"""Whatever happens: what is restored is what was running, and the kept log decides the same again, to the byte."""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from pathlib import Path

from engine_kit import BUDGETS, CLUSTER, T0, equal_after_recovery, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.core import admission, scheduler
from tenure.core.events import (
    AttemptExited,
    CancelRequested,
    CheckpointReported,
    ClockAlarm,
    ConfigApplied,
    Event,
    EvictRequested,
    ExitKind,
    ForeignUse,
    Held,
    HostStateChanged,
    Paused,
    PauseScope,
    PriorityChanged,
    Released,
    ReplicasUp,
    Resumed,
    ServerBack,
    Submitted,
)
from tenure.core.model import HOUR, MINUTE, SECOND, SHARE_ONE, After, Array, Budget, HostState, Policy
from tenure.core.reasons import Refusal
from tenure.core.state import Attempt, State
from tenure.engine import execution, recovery
from tenure.engine.clock import Anchor
from tenure.engine.writer import Writer
from tenure.store import Store

LOOKBACKS = (2 * HOUR, HOUR, 6 * HOUR)
POLICY = Policy(
    lookback=LOOKBACKS[0],
    recent=30 * MINUTE,
    entitlement_floor=10 * MINUTE,
    preemption_margin=MINUTE,
    unallocated_turn=5 * MINUTE,
    evictions_per_minute=3,
)
MOVED = (
    Budget("lab", SHARE_ONE),
    Budget("lab/c", SHARE_ONE // 4),
    Budget("lab/c/a", SHARE_ONE // 2, moved_from="lab/a"),
    Budget("lab/b", SHARE_ONE // 2),
)

Op = tuple[str, int, int]
"""What, which of those there are, and after how many ms."""
WEIGHTS = {"submit": 4, "up": 3, "exit": 3, "nothing": 2}
KINDS = (
    *("submit", "up", "exit", "lost", "evict", "checkpoint", "cancel", "hold", "release", "priority"),
    *("host", "drain", "healthy", "others", "pause", "resume", "alarm", "back", "shares", "move", "lookback"),
    *("nothing", "snapshot", "compact", "restart"),
)
WEIGHTED = [kind for kind in KINDS for _ in range(WEIGHTS.get(kind, 1))]
LENGTH = 40


def plan_of(seed: int) -> list[Op]:
    """What happens, evenly spread; a strategy of lists prefers the short and the simple, where little happens."""
    chance = random.Random(seed)
    pauses = (lambda: 0, lambda: chance.randint(0, 10 * SECOND), lambda: chance.randint(0, 20 * MINUTE), lambda: HOUR)
    return [
        (chance.choice(WEIGHTED), chance.randint(0, 1000), chance.choices(pauses, (2, 4, 2, 1))[0]())
        for _ in range(LENGTH)
    ]


class Life:
    """A scheduler without an engine: steps are written as the engine writes them."""

    def __init__(self, store: Store) -> None:
        self.store, self.state, self.now, self.next_job = store, State(), T0, 1
        self.writer = Writer(store, store.take_leadership(), 0)
        self.usage: dict[tuple[str, str], int] = {}
        self.step(ConfigApplied(T0, (CLUSTER,), POLICY, BUDGETS, (), "test"))

    def step(self, *events: Event) -> None:
        recovery.look_further_back(self.store, self.state, events, self.writer.seq)
        result = scheduler.step(self.state, events, self.now)
        if events or result.outcomes or result.plans:
            for _, span in self.state.closed_spans:
                key = (span.leaf, span.kind.value)
                self.usage[key] = self.usage.get(key, 0) + span.amount * (span.end - span.start)
            self.writer.write(self.state, events, result, Anchor(self.now, "boot", self.now - T0), [])
        recovery.forget_changes(self.state)

    def do(self, what: str, which: int, after: int) -> None:
        # An event may have happened before the step that hears of it, and before others that heard of nothing.
        happened = self.now + after // 2 - which * 100
        self.now += after
        if what == "snapshot":
            self.writer.snapshot_if_due(self.state, force=True)
        elif what == "compact":
            self.store.compact(self.now - max(LOOKBACKS) - which * MINUTE, max(LOOKBACKS))
        elif what == "restart":
            self.state = recovery.restore(self.store).state
        else:
            self.step(*execution.in_order(self.events(what, which, happened), self.state.now))

    def events(self, what: str, which: int, at: int) -> list[Event]:
        job_id = self._pick(sorted(self.state.jobs), which)
        attempt = self._pick([a for a in self.state.attempts.values() if a.started_at is not None], which)
        host = CLUSTER.hosts[which % len(CLUSTER.hosts)].name
        if what == "submit":
            return self._submit(which)
        if what in _OF_ATTEMPT:
            return [] if attempt is None else [_OF_ATTEMPT[what](at, attempt, which)]
        if what in _OF_JOB:
            return [] if job_id is None else [_OF_JOB[what](self.now, job_id, which)]
        return [_OF_CLUSTER[what](self.now, host, which)] if what in _OF_CLUSTER else self._configure(what, which)

    def _pick(self, among: list, which: int):  # type: ignore[no-untyped-def,type-arg]
        return among[which % len(among)] if among else None

    def _submit(self, which: int) -> list[Event]:
        shape = spec(
            ("lab/b", "lab/a", "lab")[which % 3],
            1 + which % 4,
            replicas=1 + which // 4 % 2,
            min_runtime=(0, 0, SECOND, MINUTE, 10 * MINUTE)[which % 5],
            resumable=which % 3 > 0,
            user="ann" if which % 7 else "bob",
            priority=which % 2,
            grace=(0, SECOND, MINUTE)[which % 3],
            timeout=(None, 15 * MINUTE)[which // 3 % 2],
            retries=which % 2,
        )
        try:
            admission.check_job(self.state, shape)
        except Refusal:
            return []
        first = self.next_job
        array = Array(tuple(range(which % 4 + 1)), which % 3) if which % 5 == 0 else None
        self.next_job += len(array.indices) if array is not None else 1
        target = self._pick(list(self.state.jobs.values()), which // 2)
        after: tuple[After, ...] = ()
        if target is not None and which % 4 == 0:
            whole = target.submission in self.state.arrays and which % 3 == 0
            after = (After(target.submission if whole else target.id, whole, which % 8 == 0),)
        return [Submitted(self.now, first, shape, array=array, after=after)]

    def _configure(self, what: str, which: int) -> list[Event]:
        if what == "nothing":
            return []
        budgets, lookback = MOVED, self.state.policy.lookback
        if what == "shares":
            half = SHARE_ONE * (which % 10) // 10
            budgets = (BUDGETS[0], replace(BUDGETS[1], share=half), replace(BUDGETS[2], share=SHARE_ONE - half))
        if what == "lookback":
            budgets, lookback = self.state.budgets, LOOKBACKS[which % 3]
        event = ConfigApplied(self.now, (CLUSTER,), replace(POLICY, lookback=lookback), budgets, (), "test")
        try:
            admission.check_config(self.state, event)
        except Refusal:
            return []
        return [event]


def _exit(at: int, attempt: Attempt, which: int) -> Event:
    return AttemptExited(at, attempt.id, ExitKind.EXITED, (which % 2,), done=which % 5 == 0)


_OF_ATTEMPT = {
    "up": lambda at, attempt, _: ReplicasUp(at, attempt.id),
    "exit": _exit,
    "lost": lambda at, attempt, _: AttemptExited(at, attempt.id, ExitKind.LOST),
    "evict": lambda at, attempt, _: EvictRequested(at, attempt.id, "op", "test"),
    "checkpoint": lambda at, attempt, _: CheckpointReported(at, attempt.id),
}
_OF_JOB = {
    "cancel": lambda now, job, _: CancelRequested(now, job, "ann"),
    "hold": lambda now, job, _: Held(now, job, "ann"),
    "release": lambda now, job, _: Released(now, job, "ann"),
    "priority": lambda now, job, which: PriorityChanged(now, job, which % 3, "ann"),
}
_OF_CLUSTER = {
    "host": lambda now, host, _: HostStateChanged(now, "main", host, HostState.FAILED, "op", "test"),
    "drain": lambda now, host, w: HostStateChanged(now, "main", host, HostState.DRAINING, "op", "x", deadline=now + w),
    "healthy": lambda now, host, _: HostStateChanged(now, "main", host, HostState.HEALTHY, "op", "test"),
    "others": lambda now, host, which: ForeignUse(now, "main", host, which % 5, which % 3 * 1000, 0, "job 7 of eve"),
    "pause": lambda now, _host, which: Paused(now, list(PauseScope)[which % 2], "op"),
    "resume": lambda now, _host, which: Resumed(now, list(PauseScope)[which % 2], "op"),
    "back": lambda now, _host, _which: ServerBack(now),
    "alarm": lambda now, _host, which: ClockAlarm(now, which % 2 == 0),
}


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_restored_is_what_was_running_and_replay_decides_the_same(seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory, Store.open(f"sqlite:///{Path(directory, 'tenure.db')}") as store:
        life = Life(store)
        for number, (what, which, after) in enumerate(plan_of(seed)):
            life.do(what, which, after)
            if (seed + number) % 3 == 0:
                equal_after_recovery(life.state, store)
        report = recovery.replay(store)
        assert report.mismatches == ()
        kept: dict[tuple[str, str], int] = {}
        day = 24 * HOUR
        for row in store.usage(None, None, T0 // day * day, (life.now // day + 2) * day):
            if row.amount_ms:
                kept[row.leaf, row.kind] = kept.get((row.leaf, row.kind), 0) + row.amount_ms
        assert kept == {key: used for key, used in life.usage.items() if used}, "compaction changed a sum"
