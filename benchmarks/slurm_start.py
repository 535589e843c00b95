"""From decision to start: jobs through Tenure beside plain sbatch, in turn on the same Slurm cluster.

    python benchmarks/slurm_start.py --jobs 100

A job of one GPU on an empty cluster writes the time as its first act. Plain: from the call of ``sbatch`` on. Tenure:
from its decision on, and from the call of its API on. Slurm looks at its queue once a second, so a random pause comes
before each job. Needs root and Debian's Slurm.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from _slurm_site import SlurmCluster, TestServer, site

from tenure.config import load
from tenure.store import Store

PATIENCE_S = 60


def told(file: Path) -> float:
    """When the job began by its own clock, in seconds since 1970."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        text = file.read_text() if file.exists() else ""
        if text.endswith("\n"):
            return int(text) / 1e9
        if time.monotonic() > deadline:
            raise TimeoutError(f"{file.name} did not begin within {PATIENCE_S} s")
        time.sleep(0.02)


def plain(cluster: SlurmCluster, folder: Path, index: int) -> float:
    file = folder / f"plain-{index}"
    began = time.time()
    cluster.run("sbatch", "--gres=gpu:1", "-o", "/dev/null", f"--wrap=date +%s%N > {file}")
    return told(file) - began


def through_tenure(server: TestServer, folder: Path, index: int) -> tuple[int, float, float]:
    """The job's id, when it was asked for and when it began."""
    file = folder / f"tenure-{index}"
    began = time.time()
    command = ["/bin/sh", "-c", f"date +%s%N > {file}"]
    job = server.client.submit({"budget": "lab/alpha", "gpus": 1, "workdir": "/", "command": command}).job.id
    return job, began, told(file)


def spread(values: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    mean = round(statistics.mean(values), 3)
    return {
        "mean": mean,
        "p50": round(statistics.median(values), 3),
        "p95": round(cuts[18], 3),
        "max": round(max(values), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=100, help="of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the pauses")
    options = parser.parse_args()
    dice = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="tenure-slurm-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        said = folder / "said"
        said.mkdir()
        with site(folder, options.nodes) as (cluster, server):
            plain(cluster, said, -1)  # the first one after slurmctld has begun may take seconds
            theirs, ours = [], []
            for index in range(options.jobs):
                time.sleep(dice.random())
                theirs.append(plain(cluster, said, index))
                time.sleep(dice.random())
                ours.append(through_tenure(server, said, index))
            server.client.close()
            server.stop()
            with Store.open(load(server.config).server.database_url) as store:
                decided = {job: (store.attempts_of(job)[0].started_at or 0) / 1000 for job, _, _ in ours}
    from_decision = [start - decided[job] for job, _, start in ours]
    from_request = [start - asked for _, asked, start in ours]
    figures = {
        "plain sbatch": spread(theirs),
        "from decision": spread(from_decision),
        "from request": spread(from_request),
    }
    ratio = statistics.mean(from_decision) / statistics.mean(theirs)
    print(json.dumps({"jobs": options.jobs, **figures, "decision_over_plain": round(ratio, 2)}, indent=1))


if __name__ == "__main__":
    main()
