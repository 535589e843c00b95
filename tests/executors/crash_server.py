"""A server in small, for crash tests: does what its arguments say, and dies where TENURE_FAULT says.

``crash_server.py ROOT EPOCH STEP...`` with the steps ``start``, ``stop``, ``run`` (start and wait until it is
running), ``hear:FIFO`` (wait for a line of the job), ``end`` (wait for the end), ``forget`` and ``die``. The
script of the job is in the environment: JOB.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from executor_kit import Watched, launch_of, order, sh

from tenure.executors.local import LocalExecutor


def main(root: str, epoch: str, *steps: str) -> None:
    watched = Watched(LocalExecutor(Path(root)), int(epoch))
    for step in steps:
        if step in {"start", "run"}:
            watched.executor.start(launch_of(sh(os.environ["JOB"])))
        if step == "run":
            watched.running()
        if step.startswith("hear:"):
            with Path(step.removeprefix("hear:")).open() as line:
                line.readline()
        if step == "stop":
            watched.executor.stop(order())
        if step == "end":
            watched.ended()
        if step == "forget":
            watched.executor.forget("1.1")
        if step == "die":
            os.kill(os.getpid(), signal.SIGKILL)
    watched.executor.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
