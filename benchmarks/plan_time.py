"""How long `tenure submit --plan` and "what would help" take at the size of a large lab.

Two states of 128 hosts x 8 GPUs and 10,000 jobs queued in 15 budgets (synthetic, seeded): ``singles`` is that of
``pass_time``, with about 1,000 attempts of 1 GPU; in ``hosts`` each attempt has a whole host and a time-out, and hosts
are held for gangs in turn. Four hours later, planned are jobs as the others of it are, and helped are jobs that wait.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from pass_time import Load, build, clear, equilibrium, settle, timed

from tenure.core import compiled
from tenure.core.codec import dumps
from tenure.core.events import Submitted
from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR
from tenure.core.state import State
from tenure.core.trial import trial
from tenure.why.help import help_for
from tenure.why.mistakes import warnings
from tenure.why.plan import planned


class WholeHosts(Load):
    """What runs has a whole host, for 12 hours at most."""

    def job(self, at: int, *, small: bool = False) -> Submitted:
        event = super().job(at, small=small)
        spec = replace(event.spec, timeout=12 * HOUR)
        if small:
            spec = replace(spec, roles=(replace(spec.roles[0], gpus=8, cpus=64_000, mem=8 * 65_536),))
        return replace(event, spec=spec)


KINDS = {"singles": (Load, 1000, 0), "hosts": (WholeHosts, 128, 50)}
"""What draws jobs, how many run, and how much of the cluster may be held, in percent."""


def prepared(seed: int, kind: str, hosts: int, queued: int) -> tuple[State, Load]:
    draw, running, reserved = KINDS[kind]
    state, load, now = build(seed, hosts, running, queued, draw)
    state.policy = replace(state.policy, reserved_percent=reserved)
    timed(state, [], now)
    equilibrium(state, settle(state, now), 4)
    clear(state)
    return state, load


def times(calls: Iterable[Callable[[], object]]) -> dict[str, float]:
    """Milliseconds of this process: median, p99 and longest. Others on the machine do not count."""
    took = []
    for call in calls:
        began = time.process_time()
        call()
        took.append((time.process_time() - began) * 1000)
    took.sort()
    return {
        "median": round(statistics.median(took), 2),
        "p99": round(took[int(len(took) * 0.99)], 2),
        "max": round(took[-1], 2),
    }


def measure(seed: int, kind: str, hosts: int, queued: int, count: int) -> dict[str, object]:
    state, load = prepared(seed, kind, hosts, queued)
    gc.freeze()
    specs = [load.job(state.now).spec for _ in range(count)]
    waiting = [job for job in state.jobs.values() if job.state is JobState.QUEUED]
    some = random.Random(seed).sample(waiting, min(count, len(waiting)))
    plain = [job for job in some if job.reservation is None]
    held = [job for job in waiting if job.reservation is not None][:10]

    def plan(n: int) -> object:
        found = planned(state, specs[n])
        return found.text, found.after, warnings(found, ())

    return {
        "seed": seed,
        "core": "compiled" if compiled() else "interpreted",
        "state": kind,
        "running": len(state.attempts),
        "queued": len(waiting),
        "reservations": sum(job.reservation is not None for job in waiting),
        "trial_ms": times(lambda spec=spec: trial(state, spec) for spec in specs),
        "plan_ms": times(lambda n=n: plan(n) for n in range(count)),
        "help_ms": times(lambda job=job: help_for(state, job) for job in plain),
        "help_reserved_ms": times(lambda job=job: help_for(state, job) for job in held) if held else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--hosts", type=int, default=128)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for seed in range(options.seeds):
        for kind in KINDS:
            row = measure(seed, kind, options.hosts, options.queued, options.count)
            rows.append(row)
            print(dumps(row), flush=True)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=2) + "\n")
    sys.exit(0)


if __name__ == "__main__":
    main()
