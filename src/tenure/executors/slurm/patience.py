"""When to try again after a command of Slurm has failed."""

from __future__ import annotations

import structlog

from tenure.executors import procs
from tenure.executors.files import AttemptFiles
from tenure.slurm.commands import CommandFailed

log = structlog.get_logger()

FIRST_RETRY_MS, LAST_RETRY_MS = 500, 30_000


class Patience:
    """Of one attempt: each failure in a row doubles the pause."""

    def __init__(self, attempt: AttemptFiles) -> None:
        directory = attempt.directory
        self._attempt = f"{directory.parent.name}.{directory.name}"
        self._failures = 0
        self._not_before = 0

    @property
    def waits(self) -> bool:
        return procs.boottime_ms() < self._not_before

    def failed(self, error: CommandFailed) -> None:
        pause = min(LAST_RETRY_MS, FIRST_RETRY_MS << min(self._failures, 10))
        self._failures += 1
        self._not_before = procs.boottime_ms() + pause
        log.warning("slurm_command_failed", attempt=self._attempt, error=str(error), again_in_ms=pause)

    def worked(self) -> None:
        self._failures = 0
