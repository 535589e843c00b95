"""Random histories under every policy: whatever happens, what each of them promises holds after every step."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_kit import Under, check_settled

from support import invariants
from tenure.core import admission, scheduler
from tenure.core.decisions import Claim, Stop
from tenure.core.events import (
    AttemptExited,
    CancelRequested,
    CheckpointReported,
    ClockAlarm,
    Event,
    EvictRequested,
    ExitKind,
    Held,
    HostStateChanged,
    Paused,
    PauseScope,
    PriorityChanged,
    Released,
    Resumed,
)
from tenure.core.lifecycle import JobState
from tenure.core.model import DAY, HOUR, MINUTE, SECOND, Cluster, Host, HostState, Label, Policy, Role
from tenure.core.reasons import Refusal
from tenure.policies import by_name, moves

LEAVES = ("lab/a", "lab/b", "lab")
SHARES = {"lab/a": 0.5, "lab/b": 0.4}
STEPS = (0, 1, 11 * SECOND, MINUTE, 6 * MINUTE, 20 * MINUTE, HOUR, HOUR, 5 * HOUR, 2 * DAY)
SETTINGS = {
    "priority": ({}, {"cap_percent": 50, "cap_least": 2}, {"cap_least": 0}),
    "fifo": ({}, {}, {}),
    "backfill": ({}, {"allowance": 0, "default_limit": HOUR}, {"default_limit": 3 * HOUR}),
    "slurm": (
        {},
        {"half_life": 3 * HOUR, "calc_period": 7 * MINUTE, "weight_qos": 500, "allowance": 0},
        {"half_life": 0, "max_age": HOUR, "weight_age": 20_000, "default_limit": 3 * HOUR},
    ),
    "slurm-preempt": (
        {},
        {"exempt": 2 * HOUR, "half_life": 3 * HOUR, "calc_period": 7 * MINUTE, "allowance": 0},
        {"exempt": 15 * MINUTE, "youngest_first": 1, "default_limit": 3 * HOUR},
    ),
    "kai": (
        {},
        {"quota_percent": 0, "half_life": 3 * HOUR, "reclaim_min_runtime": HOUR, "preempt_min_runtime": 15 * MINUTE},
        {
            "quota_percent": 50,
            "k_percent": 700,
            "window": 5 * HOUR,
            "tumbling": 1,
            "reclaim_min_runtime": HOUR,
            "reclaim_min_runtime_of": (("lab/a", 3 * HOUR), ("lab/self", 0)),
            "preempt_min_runtime_of": (("lab", 20 * MINUTE), ("lab/b", 0)),
        },
    ),
    "drf": ({}, {}, {}),
    "drf-tree": ({}, {}, {}),
    "quotas": ({}, {"quota_least": 2}, {"quota_least": 0}),
    "yarn": (
        {},
        {"min_share_percent": 0, "fair_share_timeout": MINUTE, "threshold_percent": 100},
        {"min_share_percent": 50, "min_share_timeout": 0, "fair_share_timeout": 0, "busy_percent": 0},
    ),
    "hadoop": (
        {},
        {"min_share_percent": 0, "fair_share_timeout": MINUTE},
        {"min_share_percent": 50, "min_share_timeout": 0, "fair_share_timeout": 0},
    ),
}
EVICTING = {"priority", "slurm-preempt", "yarn", "hadoop", "kai"}
"""Policies that evict, of those in ``SETTINGS``."""
LEAVES_NOBODY = {"drf", "drf-tree"}
"""Policies under which everybody starts who fits."""
EVERYTHING = Policy(lookback=90 * DAY)
"""What happened in these histories stays in the ledger: whoever remembers nothing finds all usage there."""


class Command(NamedTuple):
    """Something that happens; the numbers choose what it happens to, modulo how many of that there are."""

    kind: str
    a: int
    b: int
    c: int


KINDS = (
    *("submit",) * 20,
    *("exit",) * 6,
    *("cancel", "hold", "release", "priority", "checkpoint", "evict", "pause", "alarm"),
    *("host", "mend", "resume") * 2,
)
numbers = st.integers(0, 11)
commands = st.builds(Command, st.sampled_from(KINDS), numbers, numbers, numbers)
histories = st.lists(st.tuples(st.sampled_from(STEPS), st.lists(commands, max_size=4)), max_size=15)


class Chaos:
    """A world under a policy in which anything happens."""

    def __init__(self, name: str, start: int) -> None:
        clusters = [Cluster("main", _hosts("h", 3, 4))]
        if start % 2:
            clusters.append(Cluster("aux", _hosts("x", 2, 2)))
        self.name = name
        self.settings = SETTINGS[name][start % 3]
        self.world = Under(by_name(name, **self.settings), clusters, SHARES, policy=EVERYTHING)

    def step(self, after: int, todo: list[Command]) -> None:
        """Time passes as it does, then all commands happen at once."""
        self.world.advance(after, tick=DAY)
        events = [getattr(self, f"_{command.kind}")(command) for command in todo]
        self._make(*(event for event in events if event is not None))

    def _make(self, *events: Event) -> None:
        world, first = self.world, len(self.world.log)
        before, spans = invariants.saved(world.state), list(world.spans)
        world.step(*events)
        check_settled(world.rules, by_name(self.name, **self.settings), world.state, world.spans)
        # Whoever remembers nothing decides the same.
        now, todo, result = world.log[first]
        twin = invariants.restored(before, spans)
        again = scheduler.step(twin, todo, now, by_name(self.name, **self.settings).run)
        assert invariants.fingerprint(again) == invariants.fingerprint(result)
        self._check_evictions()
        if self.name in LEAVES_NOBODY:
            assert moves.usable(world.state) == 0, "somebody waits who fits"

    def _check_evictions(self) -> None:
        for now, _, result in self.world.log[-3:]:
            for plan in result.plans:
                victims = plan.victims if isinstance(plan, Claim) else (plan.victim,) if isinstance(plan, Stop) else ()
                for victim in victims:
                    assert self.name in EVICTING, "nobody is evicted"
                    attempt = self.world.state.attempts.get(victim.attempt_id)
                    assert attempt is None or not self.world.rules.protected(attempt, now)

    def settle(self) -> None:
        """Every brake is let go and nothing fails any more: every job comes to an end, none waits for ever."""
        world, state = self.world, self.world.state
        world.step(
            *(Resumed(world.now, scope, "op") for scope in PauseScope),
            ClockAlarm(world.now, False),
            *(
                HostStateChanged(world.now, name, host, HostState.HEALTHY, "op", "test")
                for name, cluster in state.clusters.items()
                for host in cluster.hosts
            ),
            *(Released(world.now, job, "op") for job in state.jobs),
        )
        world.advance(HOUR, tick=HOUR)
        for _ in range(2 + 3 * len(state.jobs)):
            if not state.jobs:
                break
            running = [a for a in state.attempts.values() if a.stop is None and a.running_since is not None]
            world.step(*(AttemptExited(world.now, a.id, ExitKind.EXITED, (0,)) for a in running))
            world.advance(10 * MINUTE, tick=HOUR)
        assert not state.jobs

    # ---- commands

    def _submit(self, c: Command) -> Event | None:
        shapes = (
            (Role("main", 1, 1, 0, 0),),
            (Role("main", 1, 4, 0, 0),),
            (Role("main", 2, 4, 0, 0),),
            (Role("main", 3, 2, 1_000, 10),),
            (Role("main", 1, 2, 9_000, 10),),
            (Role("main", 3, 4, 0, 0),),
        )
        labels = ((), (), (), (Label("rack", None, True),), (Label("rack", None, False),))
        roles = shapes[c.b % len(shapes)]
        clusters = ("main", "aux") if roles[0].gpus < 3 and c.a % 2 else ("main",)
        spec = self.world.spec(
            LEAVES[c.a % 3],
            roles=roles,
            min_runtime=(0, 15 * MINUTE, HOUR)[c.c % 3],
            resumable=c.a % 5 != 0,
            user=("ann", "bob")[c.b % 2],
            priority=(c.a + c.b + c.c) % 3,
            labels=labels[(c.b + c.c) % len(labels)],
            timeout=(None, 30 * MINUTE, 4 * HOUR, 30 * HOUR)[c.c % 4],
            grace=(5 * MINUTE, MINUTE, 0)[c.b % 3],
            retries=c.c % 2,
            clusters=tuple(reversed(clusters)) if c.b % 2 else clusters,
        )
        try:
            admission.check_job(self.world.state, spec)
        except Refusal:
            return None
        return self.world.queue_spec(spec, hold="ann" if c.c == 11 else "")

    def _attempt(self, c: Command) -> str | None:
        ids = sorted(self.world.state.attempts)
        return ids[c.a % len(ids)] if ids else None

    def _job(self, c: Command) -> int | None:
        ids = sorted(self.world.state.jobs)
        return ids[c.a % len(ids)] if ids else None

    def _exit(self, c: Command) -> Event | None:
        attempt = self._attempt(c)
        code = (0, 1, -9)[c.c % 3]
        return AttemptExited(self.world.now, attempt, ExitKind.EXITED, (code,)) if attempt else None

    def _cancel(self, c: Command) -> Event | None:
        job = self._job(c)
        return CancelRequested(self.world.now, job, "ann") if job else None

    def _hold(self, c: Command) -> Event | None:
        job = self._job(c)
        return Held(self.world.now, job, "ann") if job else None

    def _release(self, c: Command) -> Event | None:
        held = [job.id for job in self.world.state.jobs.values() if job.held_by]
        return Released(self.world.now, held[c.a % len(held)], "ann") if held else None

    def _priority(self, c: Command) -> Event | None:
        job = self._job(c)
        return PriorityChanged(self.world.now, job, c.b % 3, "ann") if job else None

    def _checkpoint(self, c: Command) -> Event | None:
        attempt = self._attempt(c)
        return CheckpointReported(self.world.now, attempt) if attempt else None

    def _evict(self, c: Command) -> Event | None:
        attempt = self._attempt(c)
        return EvictRequested(self.world.now, attempt, "op", "test") if attempt else None

    def _pause(self, c: Command) -> Event:
        return Paused(self.world.now, tuple(PauseScope)[c.a % 2], "op")

    def _resume(self, c: Command) -> Event:
        return Resumed(self.world.now, tuple(PauseScope)[c.a % 2], "op")

    def _alarm(self, c: Command) -> Event:
        return ClockAlarm(self.world.now, c.a % 3 == 0)

    def _host(self, c: Command) -> Event:
        cluster = self.world.clusters[c.a % len(self.world.clusters)]
        to = (HostState.DRAINING, HostState.DRAINING, HostState.FAILED, HostState.HEALTHY)[c.c % 4]
        host = cluster.hosts[c.b % len(cluster.hosts)].name
        return HostStateChanged(self.world.now, cluster.name, host, to, "op", "test")

    def _mend(self, c: Command) -> Event | None:
        for name, cluster in self.world.state.clusters.items():
            for host, record in cluster.hosts.items():
                if record.state is not HostState.HEALTHY:
                    return HostStateChanged(self.world.now, name, host, HostState.HEALTHY, "op", "test")
        return None


def _hosts(prefix: str, count: int, gpus: int) -> tuple[Host, ...]:
    return tuple(Host(f"{prefix}{i}", gpus, 10_000, 100, (("rack", f"r{i % 2}"),)) for i in range(count))


@pytest.mark.parametrize("name", SETTINGS)
@settings(max_examples=30)
@given(start=st.integers(0, 5), history=histories)
def test_what_a_policy_promises_holds_whatever_happens(
    name: str, start: int, history: list[tuple[int, list[Command]]]
) -> None:
    chaos = Chaos(name, start)
    for after, todo in history:
        chaos.step(after, todo)
    chaos.settle()
    assert all(job.state is not JobState.QUEUED for job in chaos.world.ended.values())


@pytest.mark.parametrize("name", ["fifo", "backfill", "slurm", "slurm-preempt", "quotas", "drf", "drf-tree"])
@pytest.mark.parametrize("seed", range(2))
def test_a_long_line_is_served_as_by_somebody_who_remembers_nothing(name: str, seed: int) -> None:
    """Many wait, of a few shapes and lengths, in two clusters; they come, end, are held, let go and cancelled."""
    rng, chaos = Random(seed), Chaos(name, 1 + 2 * seed)
    often = ("submit",) * 12 + ("exit",) * 8 + ("hold", "release", "release", "cancel", "priority", "host", "mend")
    for step in range(40):
        kinds = ["submit"] * 30 if step == 0 else [rng.choice(often) for _ in range(rng.randrange(4))]
        todo = [Command(kind, *(rng.randrange(720) for _ in range(3))) for kind in kinds]
        chaos.step(rng.choice((0, SECOND, MINUTE, 20 * MINUTE, 3 * HOUR)), todo)
    assert len(chaos.world.state.jobs) > len(chaos.world.state.attempts)
