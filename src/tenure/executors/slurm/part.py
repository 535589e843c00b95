"""One Slurm job of an attempt, and what has to be done next so that its nodes run, stop, and are known to have ended.

Everything is level-triggered: each look does the next step, by what the files and Slurm say, whatever an earlier
server, a person or a crash has done in between.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import structlog

from tenure.executors import procs
from tenure.executors.slurm.gang import Gang
from tenure.executors.slurm.node import GO
from tenure.executors.slurm.reading import SlurmJob
from tenure.executors.slurm.rest import Rest
from tenure.executors.slurm.steering import OUTPUT, Steering
from tenure.faults import point
from tenure.slurm.commands import CommandFailed

log = structlog.get_logger()

OVERDUE_MS = 5_000
"""So long after the kill was due Slurm is told to kill: the supervisor of a node cannot be reached."""
LOCK_PATIENCE_MS = 60_000
"""Slurm has given a node up. So long a lock of its supervisor still counts, as that of a process that goes on."""
TRIES = 3
"""A job that ends in Slurm without its script having begun is tried so often, and so is whether it may come back."""
Writing = Callable[[], AbstractContextManager[object]]
"""A block in which files may be written."""


class PartRun:
    """Part ``index`` of an attempt's plan; ``directory`` is the job's."""

    def __init__(self, gang: Gang, index: int, directory: Path) -> None:
        self.index = index
        self.hosts = gang.plan.parts[index].hosts
        self.free = False
        """Slurm's job was seen to occupy no nodes, after this part had begun."""
        self.job: SlurmJob | None = None
        """As of the last look."""
        self._gang = gang
        self._directory = directory
        self._released = False
        self._rest = Rest()
        self._requeue_allowed = False
        self._requeue_tries = 0
        self._cancelled = False
        self._over_since: int | None = None
        self._tries = 0

    def advance(self, steering: Steering, job: SlurmJob | None, kill_at: int | None, writing: Writing) -> None:
        """Do the next step. ``job`` is what Slurm says now, ``kill_at`` when it should have been killed.

        Raises CommandFailed and OSError: then try again.
        """
        self.job = job
        if not self._gang.begun(self.hosts):
            self._begin(steering, job, writing)
        elif job is not None and job.live:
            self.free, self._over_since = False, None
            if kill_at is not None and not self._gang.ended(self.hosts):
                self._see_to_the_end(steering, job, procs.boottime_ms() - kill_at)
        elif self._over_since is None and (job is None or job.pending):
            # It may have been asked about just before it began.
            self._over_since = procs.boottime_ms()
        else:
            self._finish(job, writing)

    def _begin(self, steering: Steering, job: SlurmJob | None, writing: Writing) -> None:
        plan, asked = self._gang.plan, self._gang.plan.parts[self.index]
        try:
            if job is not None and job.live:
                return  # its script is about to begin, or what ran before has not been cleaned up
            if job is not None and job.pending and job.cpus != asked.cpus:
                steering.cancel([job.id])
                job = None
            elif job is not None and job.over:
                if self._ended_early(job):
                    self._refuse(f"Slurm ended job {job.id} as {job.state} before it began", writing)
                    return
                if job.cpus == asked.cpus and _taken_back(steering, job):
                    return
                job = None
            if job is None:
                number = steering.submit(plan, self.index)
                point("slurm.submitted")
                self._release(steering, number, writing)
            elif job.reason == "BadConstraints":
                self._refuse(f"Slurm cannot give job {job.id} what it asks for on {', '.join(self.hosts)}", writing)
            elif (job.held or not self._released) and self._rest.over(job.restarts, job.submitted):
                steering.pin(job, plan, self.index)
                self._release(steering, job.id, writing)
        except CommandFailed as error:
            if not error.hopeless:
                raise
            self._refuse(str(error), writing)

    def _ended_early(self, job: SlurmJob) -> bool:
        """Whether a job that was released has ended too often with nothing begun."""
        if self._released:
            self._tries += 1
            self._released = False
        return self._tries >= TRIES

    def _release(self, steering: Steering, number: int, writing: Writing) -> None:
        with writing():
            if self._gang.closed:
                return
            parts = [list(part.hosts) for part in self._gang.plan.parts]
            procs.write_json(self._directory / GO, {"number": self._gang.plan.number, "parts": parts})
        point("slurm.go")
        steering.release(number)
        point("slurm.released")
        self._released = True

    def _refuse(self, why: str, writing: Writing) -> None:
        """It cannot begin; the rest of the gang is stopped for that."""
        with writing():
            self._gang.bar(self.hosts, why + last_line(self._directory))

    def _see_to_the_end(self, steering: Steering, job: SlurmJob, overdue: int) -> None:
        if overdue > OVERDUE_MS and not self._cancelled:
            log.warning("slurm_job_killed", slurm_job=job.id, overdue_ms=overdue)
            steering.cancel([job.id])
            self._cancelled = True

    @property
    def leaves(self) -> int | None:
        """Slurm's id of its job, when that runs, may not be queued again yet, and is not given up; None otherwise."""
        done = self._requeue_allowed or self._requeue_tries >= TRIES
        return self.job.id if self.job is not None and self.job.live and not done else None

    def comes_back(self) -> None:
        """Slurm has been told that it may be queued again."""
        self._requeue_allowed = True

    def stays_out(self) -> None:
        """Slurm could not be told so, this time."""
        self._requeue_tries += 1

    def _finish(self, job: SlurmJob | None, writing: Writing) -> None:
        """Slurm's job is over: so are its nodes, once no supervisor can go on anywhere."""
        now = procs.boottime_ms()
        self._over_since = self._over_since or now
        with writing():
            self._gang.read()
            if not self._gang.ended(self.hosts):
                why = "Slurm does not know its job any more" if job is None else f"Slurm ended its job as {job.state}"
                self._gang.write_off(self.hosts, why, unlocked=now - self._over_since > LOCK_PATIENCE_MS)
        self.free = self._gang.ended(self.hosts)

    def keep(self, steering: Steering) -> None:
        """The attempt has ended and the job is expected back: it waits in Slurm, held, under its id."""
        if self.job is not None and self.job.over:
            try:
                steering.take_back(self.job.id)
            except CommandFailed as error:
                log.warning("slurm_job_not_kept", slurm_job=self.job.id, error=str(error))


def _taken_back(steering: Steering, job: SlurmJob) -> bool:
    """Try to keep the id of an ended job; where Slurm refuses, a new job is submitted."""
    try:
        steering.take_back(job.id)
    except CommandFailed as error:
        if not error.said:
            raise
        return False
    return True


def last_line(directory: Path) -> str:
    """What Slurm said last about a job, for a message; '' when it said nothing."""
    try:
        with (directory / OUTPUT).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 2000))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return f"; its last words: {lines[-1][:500]}" if lines else ""
