"""One attempt of a job that Tenure submits to Slurm as the job's own user: from then on it is run as what it is.

``given.json`` in the directory of the job says, before ``sbatch`` is run, by which comment the submission is known.
When it is there, Slurm's administrator marks it (``marks``), which its user cannot; everything goes by that mark then.
"""

from __future__ import annotations

import os
import pwd
import re
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import structlog

from tenure.executors import files, procs
from tenure.executors.files import AttemptFiles
from tenure.executors.slurm import marks, reading
from tenure.executors.slurm.gang import Outcome
from tenure.executors.slurm.handling import Handling, Start
from tenure.executors.slurm.look import Look
from tenure.executors.slurm.marks import Mark
from tenure.executors.slurm.native import MISSING_MS, NativePlan, NativeRun, kept
from tenure.executors.slurm.part import Writing
from tenure.executors.slurm.rows import Row
from tenure.executors.slurm.steering import HELD, asked, changed, number_in, plain
from tenure.executors.slurm.user_plan import SETTING, Person, UserPlan
from tenure.faults import point
from tenure.slurm.commands import Become, CommandFailed, Commands

log = structlog.get_logger()

GIVEN = "given.json"
_PASSING = re.compile("unable to contact|timed out|temporarily|communication|connection|munge|try again", re.IGNORECASE)
"""Slurm is not well: for the same submission it may have another answer soon."""


@dataclass(frozen=True, slots=True)
class Given:
    """``given.json``: the newest submission of a job. ``slurm``: its id, '' while unknown.

    ``digest``: of its script; '' once another one is to take its place.
    """

    nonce: str
    digest: str
    uid: int
    slurm: str = ""


def person(name: str) -> Person | None:
    """Whom the system knows by this name; None: nobody."""
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError):
        return None
    home = found.pw_dir if os.path.isdir(found.pw_dir) else ""  # noqa: PTH112  (says no where it may not look)
    return Person(name, found.pw_uid, home, found.pw_shell or "/bin/sh")


def own_name() -> str:
    """The name of the user that this process runs as, '' when it has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


def given_of(directory: Path) -> Given | None:
    """The newest submission of the job that has this directory."""
    content = procs.read_json(directory / GIVEN)
    return Given(**content) if content is not None else None


def cancelled_there(directory: Path, row: Row) -> bool:
    """Whether somebody else than Tenure has cancelled ``row``, the Slurm job of the job that has this directory."""
    mark, given = marks.read(row.mark), given_of(directory)
    if row.state != "CANCELLED" or mark is None or given is None:
        return False
    return given.digest != "" and mark.said.get(marks.GIVEN) == given.nonce


class UserJobs:
    """Submits jobs as their users. ``words``: the setting; ``instance`` marks the jobs of this server."""

    def __init__(self, commands: Commands, partition: str, instance: str, words: Sequence[str]) -> None:
        self._commands, self._partition = commands, partition
        self.instance, self.words = instance, tuple(words)

    def submit(self, plan: UserPlan, comment: str) -> int:
        """Held, by its user. Returns Slurm's id. Raises CommandFailed."""
        if not self.words:
            raise CommandFailed("sbatch", "was not run", f"{SETTING} is not set any more")
        who = person(plan.user)
        if who is None or who.uid != plan.uid:
            raise CommandFailed("sbatch", "was not run", f"user {plan.user} is another one now than before")
        options = [
            *HELD,
            "--input=/dev/null",
            f"--output={plan.output}",
            f"--job-name={plain(plan.name) or 'tenure'}",
            f"--comment={comment}",
            # Its nodes are set before it is released; named here, the plugin would say that it cannot keep them.
            *(one for one in asked(plan.part, self._partition) if not one.startswith("--nodelist=")),
        ]
        become = Become(tuple(word.replace("{user}", plan.user) for word in self.words), who.env)
        return number_in(self._commands.run("sbatch", *options, stdin=plan.script, become=become))


class UserRun(NativeRun):
    """As its base class, once it is there."""

    def __init__(self, attempt: AttemptFiles, plan: UserPlan, jobs: UserJobs) -> None:
        super().__init__(attempt, NativePlan(plan.attempt_id, plan.job, "", 0, plan.hosts, plan.gpus))
        self._asked = plan
        self._jobs = jobs
        self._directory = attempt.directory.parent
        self._given: Given | None = None
        self._refused = ""
        """What ``sbatch`` said. It may have submitted the job nevertheless, which the next look tells."""

    def load(self) -> None:
        super().load()
        self._keep_in_mind(given_of(self._directory))

    def _write(self, given: Given, writing: Writing) -> None:
        with writing():
            procs.write_json(self._directory / GIVEN, asdict(given))
        self._keep_in_mind(given)

    def _keep_in_mind(self, given: Given | None) -> None:
        self._given = given
        if given is not None:
            self.plan = replace(self.plan, slurm=given.slurm)

    # ---- which one it is

    def _find(self, look: Look) -> Row | None:
        row = look.adopted.get(self.plan.job)
        if row is not None and self._is_mine(row):
            return row
        return next(iter(self._unmarked(look)), None)

    def _is_mine(self, row: Row) -> bool:
        mark = marks.read(row.mark)
        said = mark.said.get(marks.GIVEN) if mark is not None else None
        return self._given is not None and said == self._given.nonce and row.uid == self._given.uid

    def _unmarked(self, look: Look) -> list[Row]:
        """Submitted, and not marked yet. More than one: an answer was lost."""
        if self._given is None:
            return []
        found = look.given.get(reading.given(self.plan.job, self._given.nonce), [])
        return sorted((row for row in found if row.uid == self._given.uid and not row.over), key=lambda row: row.number)

    # ---- what to do

    def advance(self, handling: Handling, look: Look, writing: Writing) -> bool:
        if self.status is not None or self._patience.waits:
            return False
        if self._asked.refusal:
            return self._conclude(Outcome(files.NOT_STARTED, (), self._asked.refusal), writing)
        if self._given is None:
            self._keep_in_mind(given_of(self._directory))
        try:
            found = self._find(look)
            for row in self._unmarked(look):
                if found is None or row.id != found.id:
                    log.warning("slurm_job_submitted_twice", job=self.plan.job, slurm_job=row.id)
                    handling.cancel(row.id)
            if found is not None and not self._is_mine(found):
                self._take(handling, found, writing)
                return False
        except CommandFailed as error:
            self._patience.failed(error)
            return False
        return super().advance(handling, look, writing)

    def _take(self, handling: Handling, row: Row, writing: Writing) -> None:
        """Mark what has been submitted, and hold it as an administrator: its user may not release it."""
        assert self._given is not None  # it was found by that
        before = marks.read(row.mark) or Mark()
        # The warning is for what srun has started, not for the script's shell.
        said = {**before.said, "signal": "TERM", marks.GIVEN: self._given.nonce}
        if row.pending:
            handling.hold(row.id)
        self._write(replace(self._given, slurm=row.id), writing)
        handling.mark(row.id, marks.write(Mark(said, self.plan.job, self._jobs.instance)))
        point("user.marked")

    def _missing(self, handling: Handling, writing: Writing) -> bool:
        if self._released is not None:
            return super()._missing(handling, writing)
        if self.stop is not None:
            return self._conclude(Outcome(files.NOT_STARTED, (), files.STOPPED_BEFORE), writing)
        if self._given is not None and self._given.slurm:
            # Slurm has forgotten it; or is it only slow to show it?
            now = procs.boottime_ms()
            self._missing_since = self._missing_since or now
            if now - self._missing_since < MISSING_MS:
                return False
        if self._refused:
            return self._conclude(Outcome(files.NOT_STARTED, (), self._refused), writing)
        self._submit(writing)
        return False

    def _submit(self, writing: Writing) -> None:
        given = self._given
        if given is None or given.slurm or (given.digest, given.uid) != (self._asked.digest, self._asked.uid):
            given = Given(secrets.token_hex(8), self._asked.digest, self._asked.uid)
            self._write(given, writing)
        point("user.recorded")
        try:
            self._jobs.submit(self._asked, reading.given(self.plan.job, given.nonce))
        except CommandFailed as error:
            if not error.said or _PASSING.search(error.said):
                raise
            self._refused = f"{error} (as user {self._asked.user}, by {SETTING})"
        point("user.submitted")

    def _begin(self, handling: Handling, row: Row, writing: Writing) -> bool:
        assert self._given is not None  # it was found by that
        stale = self._given.digest != self._asked.digest
        if row.live or self.stop is not None or (row.over and row.state == "CANCELLED" and not stale):
            return super()._begin(handling, row, writing)
        if row.over:
            if stale or not kept(handling, row):
                self._submit(writing)
            return False
        if stale:
            # What its script says is no longer so: another job replaces it.
            self._write(replace(self._given, digest=""), writing)
            handling.cancel(row.id)
            return False
        return super()._begin(handling, row, writing)

    def _pin(self, handling: Handling, row: Row) -> Start:
        part = self._asked.part
        handling.change(row.id, [*changed(part), *([f"TresPerNode=gres:gpu:{part.gpus}"] if part.gpus else [])])
        return Start("", self._asked.output, self._asked.output)
