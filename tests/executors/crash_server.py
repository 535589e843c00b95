"""A server in small, for crash tests: does what its arguments say, and dies where TENURE_FAULT says.

``crash_server.py ROOT EPOCH STEP...`` with the steps ``start``, ``stop``, ``run`` (start and wait until it is
running), ``hear:FIFO`` (wait for a line of the job), ``end`` (wait for the end), ``forget`` and ``die``. The
script of the job is in the environment: JOB. With NODES there it goes through Slurm, on all of them.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from executor_kit import Watched, launch_of, order, replica, sh

from tenure.executors.local import LocalExecutor
from tenure.executors.slurm.executor import SlurmExecutor


def main(root: str, epoch: str, *steps: str) -> None:
    nodes = os.environ.get("NODES", "").split()
    executor = SlurmExecutor(Path(root), "gpu") if nodes else LocalExecutor(Path(root))
    replicas = [replica(sh(os.environ["JOB"]), rank, host=node) for rank, node in enumerate(nodes)]
    watched = Watched(executor, int(epoch))
    for step in steps:
        if step in {"start", "run"}:
            watched.executor.start(launch_of(sh(os.environ["JOB"]), replicas=replicas))
        if step == "run":
            watched.running()
        if step.startswith("hear:"):
            with Path(step.removeprefix("hear:")).open() as line:
                line.readline()
        if step == "stop":
            watched.executor.stop(order(again=True))
        if step == "end":
            watched.ended()
        if step == "forget":
            watched.executor.forget("1.1")
        if step == "die":
            os.kill(os.getpid(), signal.SIGKILL)
    watched.executor.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
