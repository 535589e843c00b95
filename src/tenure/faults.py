"""Places where a test can kill this process as hard as a power cut would: ``TENURE_FAULT=name`` or ``name:3``.

Without that variable a point costs one look-up. The variable never reaches the processes of a job.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

EXECUTOR_POINTS = (
    "executor.start.directory",
    "executor.start.recorded",
    "executor.start.spawned",
    "executor.stop.ordered",
    "executor.stop.woken",
    "executor.forget.done",
)

ENGINE_POINTS = (
    "engine.after_step",
    "engine.before_start",
    "engine.after_start",
    "engine.before_stop",
    "engine.after_stop",
)

STORE_POINTS = ("store.before_commit", "store.after_commit")

SLURM_POINTS = (
    "slurm.start.recorded",
    "slurm.submitted",
    "slurm.go",
    "slurm.released",
    "slurm.stop.ordered",
    "slurm.ended",
)
"""Reached only by a server whose executor is Slurm."""

ADOPTION_POINTS = (
    "adoption.submitted",
    "adoption.marked",
    "native.pinned",
    "native.recorded",
    "native.released",
    "native.warned",
    "native.killed",
    "native.ended",
)
"""Reached only for jobs that were taken over from Slurm."""

SUBMIT_AS_POINTS = ("user.recorded", "user.submitted", "user.marked")
"""Reached only for jobs that are submitted to Slurm as their users."""

NOTICE_POINTS = (
    "notice.before_commit",
    "notice.told",
    "notice.taken",
    "notice.delivered",
)
"""Reached only by a server that has somebody to tell something."""

POINTS = (*EXECUTOR_POINTS, *ENGINE_POINTS, *STORE_POINTS)
"""Those that every server reaches; crash tests go through them."""

_hits: Counter[str] = Counter()


def point(name: str) -> None:
    """Kill this process here if ``TENURE_FAULT`` asks for it: at the first hit, or at hit N with ``name:N``.

    Raises ValueError for a name that is in none of these lists.
    """
    if name not in (*POINTS, *SLURM_POINTS, *ADOPTION_POINTS, *SUBMIT_AS_POINTS, *NOTICE_POINTS):
        raise ValueError(f"{name} is not in tenure.faults.POINTS")
    wanted, _, count = os.environ.get("TENURE_FAULT", "").partition(":")
    if wanted != name:
        return
    _hits[name] += 1
    if _hits[name] == int(count or 1):
        os.kill(os.getpid(), signal.SIGKILL)
