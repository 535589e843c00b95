"""How long one scheduling pass takes at the size of a large lab.

A cluster of 128 hosts x 8 GPUs, 15 budgets in 4 programs, about 1,000 attempts running and 10,000 jobs queued
(synthetic, seeded). Measured: the first pass of a process over the whole queue (cold), and a pass after one change
(one job ends, one arrives, one protection runs out). Run with ``make bench``.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import sys
import time
from pathlib import Path

from tenure.core import compiled, scheduler
from tenure.core.codec import dumps
from tenure.core.events import AttemptExited, ConfigApplied, Event, ExitKind, ReplicasUp, Submitted
from tenure.core.lifecycle import JobState
from tenure.core.model import (
    HOUR,
    MINUTE,
    SHARE_ONE,
    Budget,
    Cluster,
    Contract,
    Host,
    JobSpec,
    Policy,
    Role,
)
from tenure.core.state import State

START = 1_800_000_000_000
PEOPLE = 150


def budgets() -> tuple[Budget, ...]:
    """15 projects in 4 programs, unequal shares that add up to 1."""
    tree = [Budget("lab", SHARE_ONE)]
    for p, (share, projects) in enumerate(((400_000, 5), (300_000, 4), (200_000, 3), (100_000, 3))):
        tree.append(Budget(f"lab/p{p}", share))
        tree.extend(Budget(f"lab/p{p}/j{j}", SHARE_ONE // projects) for j in range(projects))
    return tuple(tree)


def cluster(hosts: int) -> Cluster:
    made = (Host(f"h{i}", 8, 128_000, 1024 * 1024, (("rack", f"r{i // 8}"),)) for i in range(hosts))
    return Cluster("main", tuple(made))


class Load:
    """Draws jobs: mostly small, some gangs of whole hosts, a third of them unallocated or short."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.leaves = [b.path for b in budgets() if b.path.count("/") == 2]
        self.next_id = 1

    def job(self, at: int, *, small: bool = False) -> Submitted:
        draw = self.random
        gpus = 1 if small else draw.choice((1, 1, 1, 2, 4, 8, 8, 8))
        replicas = 1 if small or gpus < 8 else draw.choice((1, 1, 1, 2, 4, 8, 16))
        min_runtime = draw.choice((0, 15 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR))
        leaf = draw.choice(self.leaves)
        user = f"u{draw.randrange(PEOPLE)}"
        role = Role("main", replicas, gpus, gpus * 8_000, gpus * 65_536, ("train",))
        spec = JobSpec("job", user, leaf, (role,), Contract(min_runtime, True), ("main",), draw.choice((0, 0, 0, 5)))
        event = Submitted(at, self.next_id, spec)
        self.next_id += 1
        return event


def build(seed: int, hosts: int, running: int, queued: int, draw: type[Load] = Load) -> tuple[State, Load, int]:
    """A state with about ``running`` attempts in all phases of their contracts and ``queued`` jobs, from ``draw``."""
    load, state, now = draw(seed), State(), START
    scheduler.step(state, [ConfigApplied(now, (cluster(hosts),), Policy(), budgets(), (), "bench")], now)
    while len(state.attempts) < running and state.clusters["main"].room.free_gpus:
        now += MINUTE
        events: list[Event] = [load.job(now, small=True) for _ in range(20)]
        scheduler.step(state, events, now)
        now = settle(state, now)
    state.paused_starts = "bench"  # the rest only queues, so that the pass after it is a cold one
    scheduler.step(state, [load.job(now) for _ in range(queued)], now)
    state.paused_starts = ""
    state.unpark_all()
    clear(state)
    return state, load, now


def settle(state: State, now: int) -> int:
    """Let what starts come up and what is stopped exit."""
    for _ in range(50):
        events: list[Event] = []
        for attempt in list(state.attempts.values()):
            if attempt.stop is not None and attempt.stop.kill_at <= now:
                events.append(AttemptExited(now, attempt.id, ExitKind.EXITED, (143,)))
            elif attempt.started_at is not None and attempt.running_since is None:
                events.append(ReplicasUp(now, attempt.id))
        if not events:
            break
        scheduler.step(state, events, now)
    return now


def clear(state: State) -> None:
    for changed in (state.ended_jobs, state.ended_attempts, state.closed_spans):
        changed.clear()
    state.touched_jobs.clear()


def timed(state: State, events: list[Event], now: int) -> float:
    """Seconds of one step."""
    began = time.perf_counter()
    scheduler.step(state, events, now)
    took = time.perf_counter() - began
    clear(state)
    return took


def equilibrium(state: State, now: int, hours: int) -> int:
    """Let ``hours`` pass, so that what is measured next is a lab at work and not the first rush."""
    end = now + hours * HOUR
    while now < end:
        now = min(end, max(now + 1, state.next_due() or end))
        scheduler.step(state, [], now)
        now = settle(state, now)
        clear(state)
    return now


def warm_changes(state: State, load: Load, now: int, count: int) -> list[float]:
    """``count`` steps with one change each: a job ends, a job arrives, time passes to the next due time."""
    times = []
    for i in range(count):
        now = settle(state, now)
        clear(state)
        running = [a for a in state.attempts.values() if state.jobs[a.job_id].state is JobState.RUNNING]
        if i % 3 == 0:
            victim = load.random.choice(running)
            times.append(timed(state, [AttemptExited(now, victim.id, ExitKind.EXITED, (0,))], now))
        elif i % 3 == 1:
            times.append(timed(state, [load.job(now)], now))
        else:
            due = state.next_due()
            now = max(now + 1, due or now)
            times.append(timed(state, [], now))
    return times


def measure(seed: int, hosts: int, running: int, queued: int, changes: int) -> dict[str, float | int | str]:
    state, load, now = build(seed, hosts, running, queued)
    gc.freeze()
    shape = {"running": len(state.attempts), "queued": sum(j.state is JobState.QUEUED for j in state.jobs.values())}
    cold = timed(state, [], now)
    now = equilibrium(state, settle(state, now), 4)
    times = sorted(warm_changes(state, load, now, changes))
    return {
        "seed": seed,
        "core": "compiled" if compiled() else "interpreted",
        "hosts": hosts,
        **shape,
        "cold_ms": round(cold * 1000, 2),
        "median_ms": round(statistics.median(times) * 1000, 3),
        "p99_ms": round(times[int(len(times) * 0.99)] * 1000, 3),
        "max_ms": round(times[-1] * 1000, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--hosts", type=int, default=128)
    parser.add_argument("--running", type=int, default=1000)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=600)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for seed in range(options.seeds):
        row = measure(seed, options.hosts, options.running, options.queued, options.changes)
        rows.append(row)
        print(dumps(row), flush=True)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=2) + "\n")
    sys.exit(0)


if __name__ == "__main__":
    main()
