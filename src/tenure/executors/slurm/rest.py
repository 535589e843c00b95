"""A moment between two runs of one job in Slurm.

A node takes no credential of a job that was made in the second in which the job's last run was ended there, or before
(``cred->ctime <= j->revoked`` in Slurm's ``slurm_cred.c``, in whole seconds): it says ``Job credential revoked``, and
Slurm ends the job without a word of its script.
"""

from __future__ import annotations

from tenure.executors import procs

REST_MS, LONG_AGO_S = 2_000, 10


class Rest:
    """Of one attempt that is to run as a job which may have run before."""

    def __init__(self) -> None:
        self._since: int | None = None

    def over(self, restarts: int, queued_at: int) -> bool:
        """Whether it may begin. ``restarts``: how often it was queued again; ``queued_at``: when last, by Slurm's
        clock, in seconds since 1970, which may be some seconds off.
        """
        if not restarts or procs.wall_ms() // 1000 - queued_at >= LONG_AGO_S:
            return True
        self._since = self._since or procs.boottime_ms()
        return procs.boottime_ms() - self._since >= REST_MS
