"""1,000 jobs of mixed sizes on 128 real Slurm nodes of 8 GPUs, with preemptions and crashes; nothing may be lost.

    python benchmarks/slurm_run.py                              the whole: 128 nodes, 1,000 jobs, six budgets
    python benchmarks/slurm_run.py --nodes 8 --jobs 60          a small one

While it runs two nodes crash and come back, and slurmctld, a slurmd and Tenure's server are each killed once. At the
end every job must have succeeded, what the jobs wrote down themselves must not have a GPU twice, and the ledger is held
against Slurm's own records (jobcomp). Needs root and Debian's Slurm. Jobs are synthetic: they sleep, and save nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import _slurm_check
from _slurm_site import BUDGETS, SlurmCluster, TestServer, site

POLICY = """lookback = "15m"
recent = "3m"
entitlement_floor = "1m"
preemption_margin = "20s"
unallocated_turn = "10s"
evictions_per_minute = 300
"""
SIZES = ((1, 40), (2, 15), (4, 12), (8, 18), (16, 7), (32, 4), (64, 3), (128, 1))
"""GPUs, and how many of a hundred jobs ask for so many."""
# One line when it starts, one when it ends by itself or hears its warning: what nobody else can have made up.
JOB = """say() {
    echo "$1 $(date +%s%3N) $TENURE_ATTEMPT_ID $TENURE_REPLICA $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES" \
        >> "$RECORDS/$SLURMD_NODENAME"
}
trap 'say end; exit 3' TERM
say start
sleep "$1" & wait $!
say end
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job: ``at`` seconds after the beginning, ``runs`` seconds."""

    at: float
    budget: str
    gpus: int
    runs: int
    min_runtime: int


def day(jobs: int, seed: int, nodes: int, over_s: float) -> list[Wanted]:
    """All jobs of a run, in the order of their arrival. None is larger than half of the cluster."""
    dice = random.Random(seed)
    sizes = [(gpus, weight) for gpus, weight in SIZES if gpus <= max(8, nodes * 4)]
    made = []
    for _ in range(jobs):
        (gpus,) = dice.choices([size for size, _ in sizes], [weight for _, weight in sizes])
        runs = dice.choice((5, 10, 20, 30, 45, 60, 90))
        min_runtime = dice.choice((0, 0, 0, 5, 10, 15, 30))
        made.append(Wanted(dice.uniform(0, over_s), dice.choice(BUDGETS), gpus, runs, min_runtime))
    return sorted(made, key=lambda one: one.at)


def submit(server: TestServer, wanted: Wanted, records: Path, key: str) -> int:
    """The job's id. Sent again, under its key, for as long as the server is away."""
    per_host = min(8, wanted.gpus)
    request = {
        "name": key,
        "budget": f"lab/{wanted.budget}",
        "gpus": per_host,
        "replicas": wanted.gpus // per_host,
        "min_runtime": f"{wanted.min_runtime}s",
        "resumable": True,
        "grace": "2s",
        "env": {"RECORDS": str(records)},
        "workdir": "/",
        "client_key": key,
        "command": ["/bin/sh", "-c", JOB, key, str(wanted.runs)],
    }
    return server.client.submit(request).job.id


def crashes(
    cluster: SlurmCluster, server: TestServer, say: Callable[[str], None], killed: list[float]
) -> list[tuple[float, Callable[[], None]]]:
    """When, in parts of the time in which jobs arrive, and what happens then. ``killed`` gets slurmctld's moment."""
    lost = cluster.names[1], cluster.names[-2]

    def slurmd_killed() -> None:
        name = cluster.names[2]
        os.kill(int((cluster.base / "run" / f"slurmd.{name}.pid").read_text()), signal.SIGKILL)
        say(f"slurmd of {name} killed; its jobs go on")
        time.sleep(3)
        cluster.start_node(name)

    def controller_killed() -> None:
        cluster.kill_controller()
        killed.append(time.time())
        say("slurmctld killed")
        time.sleep(3)
        cluster.start_controller()

    def server_killed() -> None:
        server.kill()
        say("Tenure's server killed")
        server.start()

    def crash(name: str) -> Callable[[], None]:
        def happens() -> None:
            cluster.crash_node(name)
            say(f"{name} crashed")

        return happens

    def back(name: str) -> Callable[[], None]:
        def happens() -> None:
            cluster.start_node(name)
            say(f"{name} is back")

        return happens

    return [
        (0.25, crash(lost[0])),
        (0.40, controller_killed),
        (0.50, back(lost[0])),
        (0.55, server_killed),
        (0.65, slurmd_killed),
        (0.75, crash(lost[1])),
        (0.95, back(lost[1])),
    ]


@dataclass(frozen=True, slots=True)
class Done:
    """``ids`` in the order of the plan. ``killed_at``: slurmctld, in seconds since 1970."""

    ids: list[int]
    killed_at: float


def run(cluster: SlurmCluster, server: TestServer, plan: list[Wanted], over_s: float, records: Path) -> Done:
    """Submit all, break what is to be broken, and wait until all have ended."""
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {what}", file=sys.stderr, flush=True)

    ids: dict[int, int] = {}
    killed: list[float] = []

    def arrive(index: int) -> None:
        time.sleep(max(0.0, plan[index].at - (time.monotonic() - began)))
        ids[index] = submit(server, plan[index], records, f"job-{index}")

    def break_things() -> None:
        for part, happens in crashes(cluster, server, say, killed):
            time.sleep(max(0.0, part * over_s - (time.monotonic() - began)))
            happens()

    breaker = threading.Thread(target=break_things)
    breaker.start()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(arrive, range(len(plan))))
    breaker.join()
    say(f"all {len(ids)} submitted")
    told = time.monotonic()
    while True:
        left = len(list(server.client.jobs()))  # those that have not ended
        if not left:
            break
        if time.monotonic() - told > 20:
            told = time.monotonic()
            say(f"{left} have not ended yet")
        time.sleep(2)
    say("all have ended")
    return Done([ids[index] for index in range(len(plan))], killed[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=128)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--over", type=float, default=300, help="seconds over which they arrive")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="leave everything in this new folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenure-slurm-") as made:
        base = options.keep.resolve() if options.keep else Path(made)
        base.mkdir(parents=True, exist_ok=True)
        Path(made).chmod(0o755)
        records = base / "records"
        records.mkdir()
        began = time.monotonic()
        with site(base, options.nodes, POLICY) as (cluster, server):
            plan = day(options.jobs, options.seed, options.nodes, options.over)
            done = run(cluster, server, plan, options.over, records)
            figures = _slurm_check.check(cluster, server, done.ids, records, done.killed_at)
        figures["wall_s"] = round(time.monotonic() - began)
    print(json.dumps(figures, indent=1))
    sys.exit(1 if figures["wrong"] else 0)


if __name__ == "__main__":
    main()
