"""A site that ends jobs whose GPUs do nothing, as its monitoring shows it. Times ms UTC, durations ms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tenure.sim.work import Action, Cancel

if TYPE_CHECKING:
    from tenure.sim.researchers.gaming import Gaming

LEAST_BUSY = 10
"""Percent: GPUs that are measured to do less are idle. Whoever keeps them busy with nothing is not found."""


class Reaper:
    """Ends what was idle for ``after`` at a stretch. ``ended``: how many jobs so far.

    Only jobs of people who park GPUs are ever idle here: what runs for others has something to do from its start on.
    """

    def __init__(self, home: Gaming, after: int) -> None:
        self.home = home
        self.after = after
        self.ended = 0
        self.idle: dict[int, int] = {}
        """Job id -> since when."""

    def measured(self, at: int, job_id: int, percent: int | None) -> list[Action]:
        """From ``at`` on the GPUs of a job do so much, percent of the time; None: it holds none."""
        if percent is None or percent >= LEAST_BUSY:
            self.idle.pop(job_id, None)
            return []
        if job_id in self.idle:
            return []
        self.idle[job_id] = at
        return [self.home.alarm(at + self.after, lambda then: self._look(job_id, at, then))]

    def _look(self, job_id: int, since: int, at: int) -> Iterable[Action]:
        if self.idle.get(job_id) != since:
            return ()
        del self.idle[job_id]
        self.ended += 1
        self.home.jobs[job_id].reaped(at, job_id)
        return (Cancel(at, job_id),)
