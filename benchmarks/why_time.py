"""How long the server's engine is held up by one `why`, at the size of a large lab.

The cluster of ``pass_time``: 128 hosts x 8 GPUs, 15 budgets in 4 programs, about 1,000 attempts running and 10,000 jobs
queued (synthetic, seeded). Measured: ``answer`` for queued and for running jobs, drawn at random, after the queue has
been tried. It is CPU time, which other programs on the machine do not add to. Words and JSON are made
while the engine goes on. Run with ``make bench``.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import time
from pathlib import Path

from pass_time import build, clear, settle, timed

from tenure.core import compiled
from tenure.core.codec import dumps
from tenure.core.lifecycle import JobState
from tenure.core.state import State
from tenure.why import answer


def answers(state: State, jobs: list[int], count: int, seed: int) -> list[float]:
    """Milliseconds of the thread's CPU time of ``answer`` for ``count`` of these jobs, ascending."""
    times = []
    for job_id in random.Random(seed).choices(jobs, k=count):
        began = time.thread_time()
        answer(state, state.jobs[job_id])
        times.append((time.thread_time() - began) * 1000)
    return sorted(times)


def measure(seed: int, hosts: int, running: int, queued: int, count: int) -> dict[str, float | int | str]:
    state, _, now = build(seed, hosts, running, queued)
    timed(state, [], now)
    now = settle(state, now)
    clear(state)
    gc.freeze()
    row: dict[str, float | int | str] = {"seed": seed, "core": "compiled" if compiled() else "interpreted"}
    for name, states in (("queued", (JobState.QUEUED,)), ("running", (JobState.STARTING, JobState.RUNNING))):
        jobs = [job.id for job in state.jobs.values() if job.state in states]
        times = answers(state, jobs, count, seed)
        row[name] = len(jobs)
        row[f"{name}_median_ms"] = round(statistics.median(times), 2)
        row[f"{name}_p99_ms"] = round(times[int(len(times) * 0.99)], 2)
        row[f"{name}_max_ms"] = round(times[-1], 2)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--hosts", type=int, default=128)
    parser.add_argument("--running", type=int, default=1000)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=200, help="answers of each kind")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for seed in range(options.seeds):
        rows.append(measure(seed, options.hosts, options.running, options.queued, options.jobs))
        print(dumps(rows[-1]), flush=True)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
