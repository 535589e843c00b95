"""One attempt: its nodes, its Slurm jobs, the order to stop it, and what is reported of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace

import structlog

from tenure.executors import files, procs
from tenure.executors.base import Phase, Report, StopOrder
from tenure.executors.files import AttemptFiles, Order, Status
from tenure.executors.slurm import ends
from tenure.executors.slurm import gang as gangs
from tenure.executors.slurm.gang import FileClock, Gang, Outcome, Stop, shortened
from tenure.executors.slurm.look import Look
from tenure.executors.slurm.part import PartRun, Writing
from tenure.executors.slurm.patience import Patience
from tenure.executors.slurm.plan import Plan
from tenure.executors.slurm.reading import SlurmJob, by_part
from tenure.executors.slurm.steering import Steering
from tenure.faults import point
from tenure.slurm.commands import CommandFailed

log = structlog.get_logger()

_TOLD = frozenset({"CANCELLED", "TIMEOUT", "PREEMPTED", "DEADLINE", "NODE_FAIL", "OUT_OF_MEMORY"})
"""Ends by Slurm or by a person there: worth a word in the message of an attempt that nobody here has stopped."""


class Run:
    """An attempt that the executor knows. Without a plan it was stopped before its start. Files are written while
    the caller holds what allows it, or in a ``writing`` block; commands are run outside of it.
    """

    def __init__(self, attempt: AttemptFiles, plan: Plan | None, clock: FileClock) -> None:
        self.files = attempt
        self.gang = Gang(attempt, plan) if plan is not None else None
        self.status: Status | None = None
        """Final once it is there."""
        self.stop: Stop | None = None
        self._parts: list[PartRun] = []
        if self.gang is not None:
            directory = attempt.directory.parent
            self._parts = [PartRun(self.gang, index, directory) for index in range(len(self.gang.plan.parts))]
        self._clock = clock
        self._since = procs.boottime_ms()
        self._phase = Phase.STARTING
        self._first_failure: str | None = None
        self._failed_at: int | None = None
        self._patience = Patience(attempt)
        self._checkpoint = (0, 0)
        """Modification time of the last checkpoint, and when it was written by the clock that nobody can set."""

    # ---- files

    def load(self) -> None:
        """What an earlier server has left."""
        self.status = self.files.read_status()
        content = procs.read_json(self.files.stop)
        self.stop = Stop(**content) if content is not None else None
        self.look_for_checkpoint()

    def obey(self, order: StopOrder) -> None:
        """Write the order down, for this host and for the nodes; a later one only ever shortens."""
        self.stop = shortened(self.stop, order)
        procs.write_json(self.files.stop, asdict(self.stop))
        if self.gang is None:
            self.end(Outcome(files.NOT_STARTED, (), files.STOPPED_BEFORE))
        else:
            self.gang.order(Order(0, order.warn_signal, order.why, self.stop.left_ms(self.stop.boot)))

    def end(self, outcome: Outcome, age_ms: int = 0) -> None:
        self.look_for_checkpoint()
        self.status = gangs.write_end(self.files, outcome, age_ms)

    def look_for_checkpoint(self) -> None:
        try:
            written = self.files.checkpoint.stat().st_mtime_ns
        except FileNotFoundError:
            return
        if written != self._checkpoint[0]:
            self._checkpoint = (written, procs.boottime_ms() - self._clock.age_ms(written))

    def read(self) -> bool:
        """Look at the nodes' files, and stop the rest of a gang that has failed. True: there is news."""
        if self.gang is None or self.status is not None:
            return False
        self.gang.read()
        if self._first_failure is None and self.stop is None:  # what was warned may end as it likes, and when
            self._first_failure = self.gang.failed_on()
        if self._first_failure is not None:
            self._failed_at = self._failed_at or procs.boottime_ms()
            self.gang.stop_others(self._first_failure)
        if self._phase is Phase.STARTING and self.gang.up:
            self._phase = Phase.RUNNING
            self._since = procs.boottime_ms() - self._clock.age_ms(max(self.gang.written.values()))
            return True
        return False

    # ---- what to say

    @property
    def moving(self) -> bool:
        """It starts, stops or ends: look again soon."""
        if self.status is not None:
            return False
        going = self._phase is Phase.RUNNING and self.stop is None and self._first_failure is None
        return not going or (self.gang is not None and self.gang.ended())

    @property
    def planned(self) -> bool:
        return self.gang is not None

    def attended(self, look: Look) -> bool:
        """Slurm's jobs are as they should be while it runs: nothing to look into."""
        jobs = self._jobs(look)
        return all(part.free or ((job := jobs.get(part.index)) is not None and job.live) for part in self._parts)

    def report(self, attempt_id: str, boot: str) -> Report:
        now = procs.boottime_ms()
        checkpoint = now - self._checkpoint[1] if self._checkpoint[0] else None
        if self.status is not None:
            return gangs.report_of(attempt_id, self.status, boot, checkpoint)
        return Report(attempt_id, self._phase, now - self._since, checkpoint_age_ms=checkpoint)

    # ---- what to do

    def _jobs(self, look: Look) -> dict[int, SlurmJob]:
        """Its jobs in Slurm, by part."""
        return by_part(look.own.get(self.gang.plan.job, [])) if self.gang is not None else {}

    def advance(self, steering: Steering, look: Look, writing: Writing) -> bool:
        """Do the next steps, by what Slurm says now. True: there is news."""
        gang, jobs = self.gang, self._jobs(look)
        if gang is None or self.status is not None or self._patience.waits:
            return False
        self._close(gang, writing)
        try:
            for part in self._parts:
                part.advance(steering, jobs.get(part.index), self._kill_at(), writing)
        except CommandFailed as error:
            self._patience.failed(error)
            return False
        self._patience.worked()
        if not (gang.ended() and all(part.free for part in self._parts)):
            return False
        with writing():
            if self.status is None:
                self._conclude(gang)
        point("slurm.ended")
        if self.stop is not None and self.stop.again:
            for part in self._parts:
                part.keep(steering)
        return True

    def leaving(self) -> list[PartRun]:
        """Parts that are expected back, and whose jobs in Slurm may not be queued again yet."""
        going = self.status is None and self.stop is not None and self.stop.again
        return [part for part in self._parts if part.leaves is not None] if going else []

    def _close(self, gang: Gang, writing: Writing) -> None:
        gang.closed = self.stop is not None or self._first_failure is not None
        if gang.closed and not all(gang.statuses.values()):
            with writing():
                gang.bar(gang.plan.hosts)

    def _kill_at(self) -> int | None:
        """When all supervisors should have killed what is left, by this host's clock since boot; None: never."""
        told = [] if self._failed_at is None else [self._failed_at + gangs.GANG_GRACE_MS]
        # After a restart of this host the order is given again before long.
        if self.stop is not None and self.stop.boot == procs.boot_id():
            told.append(self.stop.kill_at)
        return min(told, default=None)

    def _conclude(self, gang: Gang) -> None:
        outcome = gang.outcome(self._first_failure or gang.failed_on())
        jobs = [part.job for part in self._parts if part.job is not None and part.job.over]
        told = [f"Slurm: {job.state}" for job in jobs if job.state in _TOLD]
        if outcome.phase == files.EXITED and self.stop is None and told:
            outcome = replace(outcome, message="; ".join(filter(None, (outcome.message, told[0]))))
        ended = max((job.ended for job in jobs), default=0)
        if outcome.phase != files.LOST:
            age = ends.released_age_ms(self._clock.age_ms(max(gang.written.values())), ended)
        else:
            age = ends.age_ms(ended)
        self.end(outcome, age)


def expect_back(steering: Steering, runs: Iterable[Run]) -> None:
    """Before they have ended, and all with one command: afterwards Slurm would not take them back under their ids.

    What fails is tried again at the next turn, a few times.
    """
    leaving = {part.leaves: part for run in runs for part in run.leaving() if part.leaves is not None}
    if not leaving:
        return
    try:
        steering.allow_requeue(leaving)
    except CommandFailed as error:
        for part in leaving.values():
            part.stays_out()
        again = sorted(number for number, part in leaving.items() if part.leaves is not None)
        log.warning("slurm_job_not_kept", slurm_jobs=sorted(leaving), again=again, error=str(error))
    else:
        for part in leaving.values():
            part.comes_back()
