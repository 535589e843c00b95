"""One attempt of a job that is somebody else's in Slurm: it was there first, and Tenure decides when it runs.

Nothing of ours runs on its nodes. Slurm says when it began, when and how it ended, and whether it waits again. As
with jobs of our own (``run``), each look does the next step, by what Slurm says now.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import structlog

from tenure.executors import files, procs
from tenure.executors.base import Launch, Phase, Report, StopOrder
from tenure.executors.files import AttemptFiles, Status
from tenure.executors.slurm import ends, marks
from tenure.executors.slurm import gang as gangs
from tenure.executors.slurm.gang import Outcome, Stop, shortened
from tenure.executors.slurm.handling import Handling, Start
from tenure.executors.slurm.look import Look
from tenure.executors.slurm.part import Writing
from tenure.executors.slurm.patience import Patience
from tenure.executors.slurm.rest import Rest
from tenure.executors.slurm.rows import Row
from tenure.faults import point
from tenure.slurm import reading
from tenure.slurm.commands import CommandFailed

log = structlog.get_logger()

KILL_AGAIN_MS = 5_000
"""Between two orders to kill."""
MISSING_MS = 3_000
"""So long Slurm must not have shown the job before it counts as forgotten."""
RELEASED, WARNED = "released.json", "warned.json"
_PREFIX = "slurm:"


@dataclass(frozen=True, slots=True)
class NativePlan:
    """``launch.json`` of such an attempt. ``gpus``: on each of ``hosts``. ``submitted``: seconds since 1970."""

    attempt_id: str
    job: int
    slurm: str
    submitted: int
    hosts: tuple[str, ...]
    gpus: int


@dataclass(frozen=True, slots=True)
class Released:
    """``released.json``, written just before: ``restarts`` was Slurm's count then. ``at``: ms since 1970.

    ``uid``: whose job it is, -1 when that was not written down.
    """

    restarts: int
    at: int
    stdout: str = ""
    stderr: str = ""
    uid: int = -1


def name_of(cluster: str, row: Row) -> str:
    """What an adopted job is called for good: Slurm gives ids again after a crash, hence the time."""
    return f"{_PREFIX}{cluster}:{row.id}@{row.submitted}"


def plan_of(launch: Launch) -> NativePlan:
    """Raises ValueError when the job's name in Slurm makes no sense."""
    slurm, _, submitted = launch.adopted.rpartition(":")[2].partition("@")
    hosts = tuple(dict.fromkeys(one.host for one in sorted(launch.replicas, key=lambda one: one.node_rank)))
    gpus = max(len(one.gpus) for one in launch.replicas)
    return NativePlan(launch.attempt_id, launch.job_id, slurm, int(submitted), hosts, gpus)


def read_plan(content: dict[str, Any] | None) -> NativePlan | None:
    """The plan in a ``launch.json``; None when it is none of this kind."""
    if content is None or "slurm" not in content:
        return None
    return NativePlan(**{**content, "hosts": tuple(content["hosts"])})


class NativeRun:
    """An attempt that the executor knows. Files are written in a ``writing`` block, commands run outside of it."""

    planned = True

    def __init__(self, attempt: AttemptFiles, plan: NativePlan) -> None:
        self.files = attempt
        self.plan = plan
        self.status: Status | None = None
        self.stop: Stop | None = None
        self._released: Released | None = None
        self._phase = Phase.STARTING
        self._since = procs.boottime_ms()
        self._alive_at: int | None = None
        """When it was released, or asked for last and then seen to live, by the clock since boot."""
        self._looked_at = 0
        """When the look that is gone through was asked for."""
        self._ended = 0
        """Slurm's time of the end, while it cleans up after the run."""
        self._missing_since: int | None = None
        self._rest = Rest()
        """When it was first seen to wait, after it had just been queued again."""
        self._requeue_allowed = False
        self._killed_at: int | None = None
        self._told = 0
        """When Slurm was first told to end it, in ms since 1970."""
        self._patience = Patience(attempt)

    # ---- files

    def load(self) -> None:
        """What an earlier server has left."""
        self.status = self.files.read_status()
        content = procs.read_json(self.files.stop)
        self.stop = Stop(**content) if content is not None else None
        content = procs.read_json(self.files.directory / RELEASED)
        self._released = Released(**content) if content is not None else None
        self._told = int((procs.read_json(self.files.directory / WARNED) or {}).get("at", 0))

    def obey(self, order: StopOrder) -> None:
        """Write the order down; a later one only ever shortens."""
        self.stop = shortened(self.stop, order)
        procs.write_json(self.files.stop, asdict(self.stop))

    def end(self, outcome: Outcome, age_ms: int = 0) -> None:
        self.status = gangs.write_end(self.files, outcome, age_ms)

    def read(self) -> bool:
        """Nothing is written on its nodes."""
        return False

    def look_for_checkpoint(self) -> None:
        return

    # ---- what to say

    @property
    def moving(self) -> bool:
        return self.status is None and (self._phase is Phase.STARTING or self.stop is not None or self._ended > 0)

    def attended(self, look: Look) -> bool:
        """It runs in Slurm as it should."""
        row = self._find(look)
        return row is not None and row.live and self._released is not None and row.restarts == self._released.restarts

    def wants(self, row: Row) -> bool:
        """Whether ``row``, which waits or runs without a hold, was released for this attempt."""
        return self.status is None and self._released is not None and row.restarts == self._released.restarts

    def report(self, attempt_id: str, boot: str) -> Report:
        if self.status is not None:
            return gangs.report_of(attempt_id, self.status, boot, None)
        return Report(attempt_id, self._phase, max(0, procs.boottime_ms() - self._since))

    # ---- what to do

    def advance(self, handling: Handling, look: Look, writing: Writing) -> bool:
        """Do the next step, by what Slurm says now. True: there is news."""
        if self.status is not None or self._patience.waits:
            return False
        row, self._looked_at = self._find(look), look.asked
        try:
            news = self._step(handling, row, writing) if row is not None else self._missing(handling, writing)
        except CommandFailed as error:
            if error.hopeless and self._phase is Phase.STARTING:
                return self._conclude(Outcome(files.NOT_STARTED, (), str(error)), writing)
            self._patience.failed(error)
            return False
        self._patience.worked()
        return news

    def _find(self, look: Look) -> Row | None:
        return look.adopted.get(self.plan.job) or look.named(self.plan.slurm, self.plan.submitted)

    def _step(self, handling: Handling, row: Row, writing: Writing) -> bool:
        self._missing_since = None
        if self._released is None:
            return self._begin(handling, row, writing)
        if row.restarts > self._released.restarts:
            return self._queued_again(handling, row, writing)
        if row.over:
            return self._over(handling, row, writing)
        if row.pending:
            return self._waiting(handling, row, writing)
        return self._living(handling, row, writing)

    def _begin(self, handling: Handling, row: Row, writing: Writing) -> bool:
        if row.over:
            if row.batch and row.state != "CANCELLED" and kept(handling, row):
                return False  # its last run ended by itself just before it was to be evicted
            outcome = ends.before_start(row)
        elif self.stop is not None and not row.live:
            return self._never(handling, row, writing)
        elif row.pending:
            self._release(handling, row, writing)
            return False
        else:
            if row.state != "COMPLETING":  # what ran before has not been cleaned up
                self._not_so(handling, row, "nobody here has released it")
            return False
        return self._conclude(outcome, writing)

    def _never(self, handling: Handling, row: Row, writing: Writing) -> bool:
        """Stopped while it waits: what does not come back is over in Slurm, too."""
        assert self.stop is not None  # the caller has looked
        if not row.held:
            handling.hold(row.id)  # it may have begun by now, which the next look tells
            return False
        if not self.stop.again:
            handling.cancel(row.id)
        return self._conclude(Outcome(files.NOT_STARTED, (), files.STOPPED_BEFORE), writing)

    def _release(self, handling: Handling, row: Row, writing: Writing) -> None:
        if not self._rest.over(row.restarts, row.submitted):
            return
        start = self._pin(handling, row)
        point("native.pinned")
        with writing():
            if self.stop is not None:
                return
            self._released = Released(row.restarts, procs.wall_ms(), start.stdout, start.stderr, row.uid)
            procs.write_json(self.files.directory / RELEASED, asdict(self._released))
        self._alive_at = procs.boottime_ms()
        point("native.recorded")
        handling.release(row.id)
        point("native.released")

    def _pin(self, handling: Handling, row: Row) -> Start:
        """Give it the nodes of this attempt."""
        start = handling.start_of(row.id, self.plan.hosts[0])
        # Counted by the job or by its tasks, GPUs would be divided between the nodes as Slurm likes.
        gpus = "" if start.gpus else f"gres:gpu:{self.plan.gpus}"
        # Adoption marks it, too, but may come too late: Slurm takes no mark for what has ended.
        mark = marks.read(row.mark)
        text = marks.write(marks.taken(mark, self.plan.job, handling.instance)) if mark and not mark.job else ""
        handling.pin(row.id, self.plan.hosts, gpus, text)
        return start

    def _waiting(self, handling: Handling, row: Row, writing: Writing) -> bool:
        """Released, or about to be, and not begun."""
        if self.stop is not None:
            return self._never(handling, row, writing)
        if row.reason == "BadConstraints":
            where = ", ".join(self.plan.hosts)
            why = f"Slurm cannot give job {row.id} what it asks for on {where}"
            handling.hold(row.id)
            return self._conclude(Outcome(files.NOT_STARTED, (), why), writing)
        if row.held:
            self._release(handling, row, writing)
        return False

    def _living(self, handling: Handling, row: Row, writing: Writing) -> bool:
        if row.state == "COMPLETING":
            self._ended = row.ended
            return False
        if sorted(reading.expand(row.nodes)) != sorted(self.plan.hosts) and row.nodes:
            self._not_so(handling, row, f"it is on {row.nodes}")
            return False
        news = False
        if self._phase is Phase.STARTING and row.state != "CONFIGURING":
            self._phase, news = Phase.RUNNING, True
            self._since = procs.boottime_ms() - self._bounded(ends.age_ms(row.start))
        self._alive_at = self._looked_at
        if self.stop is not None:
            self._see_to_the_end(handling, row, self.stop, writing)
        return news

    def _not_so(self, handling: Handling, row: Row, why: str) -> None:
        """It runs as nobody here wanted: back to waiting, or over where Slurm cannot take it back."""
        if self._may_kill():
            log.warning("slurm_job_started_around", slurm_job=row.id, user=row.user, why=why)
            self._kill(handling, row, again=True)

    def _see_to_the_end(self, handling: Handling, row: Row, stop: Stop, writing: Writing) -> None:
        if stop.again and row.batch and not self._requeue_allowed:
            self._requeue_allowed = True
            _try(lambda: handling.allow_requeue(row.id), row)
        left = stop.left_ms(procs.boot_id())
        if left > 0 and not self._told:
            told = procs.wall_ms()
            handling.warn(row.id, stop.warn_signal, *_whom(row))
            self._told = told
            with writing():
                procs.write_json(self.files.directory / WARNED, {"at": told})
            point("native.warned")
        elif left == 0 and self._may_kill():
            self._kill(handling, row, again=stop.again)
            point("native.killed")

    def _may_kill(self) -> bool:
        return self._killed_at is None or procs.boottime_ms() - self._killed_at >= KILL_AGAIN_MS

    def _kill(self, handling: Handling, row: Row, *, again: bool) -> None:
        if again and row.batch:
            handling.take_back(row.id)
        else:
            handling.cancel(row.id)
        self._killed_at = procs.boottime_ms()
        self._told = self._told or procs.wall_ms()

    # ---- ends

    def _queued_again(self, handling: Handling, row: Row, writing: Writing) -> bool:
        """By us, by its user or from inside the job, or by Slurm after a node has failed: the run is over."""
        if row.live and row.state == "COMPLETING":
            self._ended = row.ended or self._ended
            return False
        if row.live:
            self._not_so(handling, row, "it was queued again and nobody here has released it")
            return False
        if row.pending and not row.held:
            handling.hold(row.id)  # Slurm would start it again in two minutes
        stopped_by_us = self.stop is not None and self._killed_at is not None
        message = "" if stopped_by_us else f"in Slurm ({row.reason})" if row.reason != "BeginTime" else "in Slurm"
        outcome = Outcome(files.EXITED, (), message, again=True)
        return self._conclude(outcome, writing, ends.age_ms(self._ended or row.submitted, self._told))

    def _over(self, handling: Handling, row: Row, writing: Writing) -> bool:
        stop = self.stop
        if stop is not None and stop.again and row.batch and self._told:
            # It ended by itself after the warning, and is expected back: it waits under its id.
            kept(handling, row)
        elif stop is not None and not self._told and row.state == "COMPLETED":
            self.files.done.touch()  # nobody had told it to end
        outcome = ends.outcome(row.state, row.exit, stopped=stop is not None)
        return self._conclude(outcome, writing, ends.age_ms(row.ended, self._told))

    def _missing(self, handling: Handling, writing: Writing) -> bool:
        """Slurm does not know it: forgotten long after its end, or in a crash. Its accounting may."""
        now = procs.boottime_ms()
        self._missing_since = self._missing_since or now
        if now - self._missing_since < MISSING_MS:
            return False
        released = self._released
        if released is None:
            return self._conclude(Outcome(files.NOT_STARTED, (), f"Slurm has no job {self.plan.slurm}"), writing)
        found = ends.last_run(handling.history(self.plan.slurm), self.plan.hosts, released.at // 1000)
        if found is None:
            return self._conclude(Outcome(files.LOST, (), ends.FORGOTTEN.format(job=self.plan.slurm)), writing)
        outcome = ends.outcome(found.state, found.exit, stopped=self.stop is not None)
        return self._conclude(outcome, writing, ends.age_ms(found.end, self._told))

    def _bounded(self, age_ms: int) -> int:
        """An age by slurmctld's clock, which may go ahead of this one or behind: not before it was seen to live."""
        return age_ms if self._alive_at is None else min(age_ms, max(0, procs.boottime_ms() - self._alive_at))

    def _conclude(self, outcome: Outcome, writing: Writing, age_ms: int = 0) -> bool:
        with writing():
            if self.status is None:
                self.end(outcome, self._bounded(age_ms))
        point("native.ended")
        return True


def kept(handling: Handling, row: Row) -> bool:
    """Make what has ended wait again under its id. Whether Slurm has obeyed."""
    return _try(lambda: handling.keep(row.id), row)


def _try(order: Callable[[], None], row: Row) -> bool:
    """Without it the job does not come back under its id. Whether Slurm has obeyed."""
    try:
        order()
    except CommandFailed as error:
        log.warning("slurm_job_not_kept", slurm_job=row.id, error=str(error))
        return False
    return True


def _whom(row: Row) -> tuple[str, ...]:
    """Who is warned: as the job's own ``--signal`` says, else every process of it."""
    mark = marks.read(row.mark)
    said = mark.said.get("signal", "") if mark is not None else ""
    if not said:
        return ("--full",) if row.batch else ()
    flags, colon, _ = said.partition(":")
    return ("--batch",) if colon and "B" in flags.upper() else ()


def log_path(attempt: AttemptFiles, stream: str) -> str:
    """Where Slurm writes the output of such an attempt, '' when it is not one or that is not known.

    A file that is not the user's own is not shown, nor one that a link points to: its name is the user's choice, and
    whoever asks reads it with the server's rights.
    """
    content = procs.read_json(attempt.directory / RELEASED)
    if content is None:
        return ""
    path = str(content[stream])
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        if stat.S_ISREG(found.st_mode) and found.st_uid == content.get("uid", -1):
            return path
    return ""
