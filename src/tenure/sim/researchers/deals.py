"""What people got for what they asked for, as they see it themselves. GPU time in GPUs x ms, times in ms UTC."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.core.model import SECOND
from tenure.sim.work import Work

FREE_GRACE = 10 * SECOND
"""From the warning to the kill of unallocated work, as clusters have it."""


@dataclass(slots=True)
class _Live:
    """A job as its owner knows it. ``begun``: when its useful work goes on, None while it waits."""

    owner: int
    gpus: int
    since: int
    begun: int | None = None
    again: bool = False
    useful: int = 0

    def useful_by(self, at: int) -> int:
        return self.useful + (self.gpus * max(0, at - self.begun) if self.begun is not None else 0)


class Deals:
    """Of everybody: what they had outstanding, waiting or running, each run once however it was submitted; and for how
    much of that time it got on: without starting, loading again, and what was lost.
    """

    def __init__(self) -> None:
        self.live: dict[int, _Live] = {}
        """By job id, as the owner knows it."""
        self.mine: dict[int, dict[int, _Live]] = {}
        """Person -> theirs."""
        self.over: dict[int, tuple[int, int]] = {}
        """Person -> asked for and useful, of jobs that are over."""

    def asked_for(self, at: int, job_id: int, owner: int, gpus: int) -> None:
        self.live[job_id] = self.mine.setdefault(owner, {})[job_id] = _Live(owner, gpus, at)

    def started(self, at: int, job_id: int, work: Work) -> None:
        one = self.live[job_id]
        one.begun = at + work.startup + (work.restart_cost if one.again else 0)

    def requeued(self, at: int, job_id: int, work: Work) -> None:
        """What cannot resume has lost all that it did; what has no time to save, what it did since a checkpoint."""
        one = self.live[job_id]
        if work.spec.contract.resumable:
            one.useful += one.gpus * _kept(work, max(0, at - one.begun) if one.begun is not None else 0)
        else:
            one.useful = 0
        one.begun, one.again = None, True

    def ended(self, at: int, job_id: int, work: Work, state: str) -> None:
        one = self.live.pop(job_id)
        del self.mine[one.owner][job_id]
        useful = 0 if state == "preempted" else one.useful_by(at)
        asked, got = self.over.get(one.owner, (0, 0))
        self.over[one.owner] = asked + one.gpus * (at - one.since), got + useful

    def of(self, owner: int, at: int) -> tuple[int, int]:
        """What somebody has asked for and what was useful of it, by ``at``."""
        asked, got = self.over.get(owner, (0, 0))
        for one in self.mine.get(owner, {}).values():
            asked += one.gpus * (at - one.since)
            got += one.useful_by(at)
        return asked, got


def _kept(work: Work, ran: int) -> int:
    """What is left of an attempt that was useful for ``ran`` and was evicted, ms. (A host that fails leaves less.)"""
    checkpoint = ran // work.checkpoint_every * work.checkpoint_every if work.checkpoint_every else 0
    if work.save_time > (work.spec.grace if work.spec.charged else FREE_GRACE):
        return checkpoint
    return max(checkpoint, ran - work.save_time)  # saving begins with the warning, and is the last that it does
