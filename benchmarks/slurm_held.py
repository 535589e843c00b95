"""What thousands of held jobs cost: people's own sbatch jobs, which Tenure adopts and lets wait.

    python benchmarks/slurm_held.py --jobs 5000

16 nodes are kept busy and the other jobs wait, held in Slurm and queued in Tenure. Told are how long it takes until all
are adopted, what a pass costs while single jobs come and go, and the CPU time of slurmctld and of Tenure's server at
rest: with the server, and without it. Needs root and Debian's Slurm.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _slurm_site import BUDGETS, SlurmCluster, TestServer, cpu_seconds, site

PLUGIN = Path(__file__).resolve().parent.parent / "packaging" / "slurm" / "job_submit.lua"
PATIENCE_S = 1800


def until(done: Callable[[], bool], what: str) -> float:
    """How long it took, in seconds."""
    began = time.monotonic()
    while not done():
        if time.monotonic() - began > PATIENCE_S:
            raise TimeoutError(what)
        time.sleep(0.5)
    return time.monotonic() - began


def submit(cluster: SlurmCluster, count: int) -> float:
    """As arrays of a thousand: plain sbatch, in six accounts. How long that takes, in seconds."""
    began = time.monotonic()
    script = cluster.base / "job.sh"
    script.write_text("#!/bin/sh\nexec sleep 100000\n")
    left = count
    while left:
        size = min(left, 1000)
        words = (f"--array=0-{size - 1}", "--gres=gpu:8", "--time=1:00:00", "--output=/dev/null")
        cluster.run("sbatch", *words, f"--account={BUDGETS[left // 1000 % len(BUDGETS)]}", str(script))
        left -= size
    return time.monotonic() - began


def load(pids: dict[str, int], seconds: float) -> dict[str, float]:
    """CPU time in percent of one core, by process, over so many seconds."""
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    time.sleep(seconds)
    return {name: round(100 * (cpu_seconds(pid) - before[name]) / seconds, 1) for name, pid in pids.items()}


def passes(server: TestServer) -> tuple[float, int]:
    """Seconds spent in passes so far, and how many there were."""
    text = server.client.metrics()
    found = {
        what: re.search(rf"^tenure_pass_seconds_{what}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        for what in ("sum", "count")
    }
    total, count = found["sum"], found["count"]
    assert total is not None and count is not None, "the server tells no pass times"
    return float(total[1]), int(float(count[1]))


def cost_of_passes(server: TestServer, jobs: int) -> dict[str, float]:
    """Of jobs that come and are cancelled again, one after the other."""
    before, counted = passes(server)
    for _ in range(jobs):
        request = {"budget": "lab/alpha", "gpus": 8, "min_runtime": "5m", "command": ["true"], "workdir": "/"}
        server.client.cancel(server.client.submit(request).job.id)
    after, count = passes(server)
    return {"passes": count - counted, "mean_ms": round(1000 * (after - before) / max(1, count - counted), 2)}


def measure(cluster: SlurmCluster, server: TestServer, jobs: int, rest_s: float) -> dict[str, object]:
    figures: dict[str, object] = {"jobs": jobs, "submitted_in_s": round(submit(cluster, jobs), 1)}

    def adopted() -> bool:
        return sum(1 for _ in server.client.jobs()) >= jobs

    figures["adopted_in_s"] = round(until(adopted, "not all were adopted"), 1)
    pids = {"slurmctld": int((cluster.base / "run" / "slurmctld.pid").read_text()), "server": server.process.pid}
    time.sleep(10)
    figures["passes"] = cost_of_passes(server, 50)
    figures["cpu_percent_at_rest"] = load(pids, rest_s)
    server.client.close()
    server.stop()
    del pids["server"]
    figures["cpu_percent_without_tenure"] = load(pids, rest_s)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--rest", type=float, default=60, help="seconds over which the load is measured")
    options = parser.parse_args()
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="tenure-slurm-") as made:
        base = Path(made)
        base.chmod(0o755)
        (base / "slurm" / "etc").mkdir(parents=True)
        shutil.copy(PLUGIN, base / "slurm" / "etc" / "job_submit.lua")
        conf = ("JobSubmitPlugins=lua", "MaxArraySize=2000")
        with site(base, options.nodes, conf=conf) as (cluster, server):
            figures = measure(cluster, server, options.jobs, options.rest)
    json.dump(figures, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
