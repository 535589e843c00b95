"""The thread that keeps Tenure's jobs and the jobs that people submit to Slurm in step.

It asks nothing on its own: each look of the executor at Slurm is gone through once. What it does follows from that
look and from the engine's state, so whatever is killed, the next look goes on. A job is adopted under a client key
made of cluster, id and time of submission, so that it is never adopted twice.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tenure.adoption import asked as asking
from tenure.adoption.request import spec_of
from tenure.adoption.standing import Standing
from tenure.core.reasons import Refusal
from tenure.engine.engine import Engine
from tenure.engine.errors import EngineStopped
from tenure.engine.serve import Server
from tenure.executors.base import Executor, StaleEpoch
from tenure.executors.several import Several
from tenure.executors.slurm import marks, native
from tenure.executors.slurm.executor import SlurmExecutor
from tenure.executors.slurm.handling import FAR_S
from tenure.executors.slurm.look import Look
from tenure.executors.slurm.marks import Mark
from tenure.executors.slurm.rows import Row
from tenure.faults import point
from tenure.slurm.commands import CommandFailed

log = structlog.get_logger()

LOOK_WITHIN_S = 5.0
"""So long it waits for a look before it sees whether it shall end."""
TRY_AGAIN_S = 30.0
"""A refused job is tried again so often: the configuration may have changed meanwhile."""
PER_TURN = 200
BY = "slurm"
"""Who submits adopted jobs, in the audit log."""
_SETTING = re.compile(r"^(\w+)\s*=\s*(.*?)\s*$", re.MULTILINE)


@contextmanager
def running(server: Server) -> Iterator[None]:
    """Adopt what people submit, for as long as the block lasts, where jobs run through Slurm."""
    config, executor = server.config, server.engine.executor
    members: list[tuple[Executor, tuple[str, ...]]] = [(executor, ())]
    if isinstance(executor, Several):
        members = [(part.executor, part.clusters) for part in executor.parts]
    own = dict(config.slurm_of)
    adopters = []
    for member, clusters in members:
        if isinstance(member, SlurmExecutor):
            named = [name for name in clusters if name in own]
            slurm = config.slurm_for(named[0]) if named else config.slurm
            adopters.append(Adopter(server.engine, member, dict(slurm.accounts), clusters))
    for adopter in adopters:
        adopter.start()
    try:
        yield
    finally:
        for adopter in adopters:
            adopter.stop()


class Adopter:
    """``accounts``: which budget an account of Slurm is charged to, where its name does not say. ``clusters``: those
    of Tenure whose hosts are in this Slurm; empty: all.
    """

    def __init__(
        self, engine: Engine, executor: SlurmExecutor, accounts: Mapping[str, str], clusters: Sequence[str] = ()
    ) -> None:
        self._engine, self._executor, self._commands = engine, executor, executor.commands
        self._clusters = tuple(clusters)
        self._handling = executor.handling
        self._accounts = accounts
        self._standing = Standing(engine, executor, self._clusters)
        self._cluster = ""
        self._memory_counts = False
        self._refused: dict[str, tuple[object, float]] = {}
        """By id: what the job looked like when it was refused, and when."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="adoption", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        seen = 0
        while not self._closing.is_set():
            number, look = self._executor.wait_look(seen, LOOK_WITHIN_S)
            if number == seen:
                self._closing.wait(0.1)  # nothing new; the executor may be closing
                continue
            seen = number
            try:
                self.turn(number, look)
            except (EngineStopped, StaleEpoch):
                return
            except (CommandFailed, SQLAlchemyError) as error:
                log.warning("adoption_waits", error=str(error))
            except Exception as error:  # the next look may do better, and nobody else adopts
                log.error("adoption_failed", error=repr(error), exc_info=True)

    def turn(self, number: int, look: Look) -> None:
        """Go through look ``number``. Raises CommandFailed, EngineStopped and SQLAlchemyError."""
        if not self._cluster:
            self._read_settings()
        strangers = self._standing.keep(number, look, self._cluster)
        ready = throttled([pair for pair in strangers if self._is_ready(*pair)], strangers, look)
        if ready:
            self._adopt(ready[:PER_TURN])
        there = {row.id for row in look.rows}
        self._refused = {job: entry for job, entry in self._refused.items() if job in there}

    def _read_settings(self) -> None:
        """What of Slurm's configuration matters here."""
        settings = dict(_SETTING.findall(self._commands.run("scontrol", "show", "config")))
        self._memory_counts = "MEMORY" in settings.get("SelectTypeParameters", "").upper()
        self._cluster = settings.get("ClusterName", "") or "slurm"

    # ---- whether

    def _is_ready(self, row: Row, mark: Mark) -> bool:
        """Whether it may be adopted now. What has dependencies is handed to Slurm until they are met."""
        now = time.time()
        put_off = row.start > now + FAR_S
        if not row.pending or not (row.held or put_off):
            return False  # an operator has released it, or it ended
        tried = self._refused.get(row.id)
        if tried is not None and tried[0] == _look_of(row, mark) and now - tried[1] < TRY_AGAIN_S:
            return False
        if row.dependency:
            if not put_off:
                self._handling.put_off(row.id)
            return False
        # --begin; what was queued again may begin in two minutes, but that is Slurm's own caution.
        return put_off or row.eligible <= now or marks.BEFORE in mark.said

    # ---- adopt

    def _adopt(self, ready: list[tuple[Row, Mark]]) -> None:
        said = asking.ask(self._commands, self._executor.partition, [row.id for row, _ in ready])
        for row, mark in ready:
            if self._closing.is_set():
                return
            if row.id not in said:
                continue  # it has ended meanwhile
            try:
                if not row.held:
                    self._handling.hold(row.id)
                job = self._submit(row, mark, said[row.id])
                point("adoption.submitted")
            except Refusal as refusal:
                self._refuse(row, mark, str(refusal))
                continue
            except CommandFailed as error:
                log.warning("slurm_command_failed", slurm_job=row.id, error=str(error))
                continue
            self._refused.pop(row.id, None)
            try:
                self._handling.mark(row.id, marks.write(marks.taken(mark, job, self._handling.instance)))
                point("adoption.marked")
            except CommandFailed as error:  # the next look finds it without, and the same job for its client key
                log.warning("slurm_command_failed", slurm_job=row.id, error=str(error))

    def _submit(self, row: Row, mark: Mark, said: Mapping[str, str]) -> int:
        """Returns Tenure's job id. Raises Refusal."""
        name = native.name_of(self._cluster, row)
        asked = asking.read(said, memory_counts=self._memory_counts, ran_before=marks.BEFORE in mark.said)
        with self._engine.view() as state:
            if state.tree is None:
                raise CommandFailed("adoption", "waits for a configuration")
            spec = spec_of(row, mark, asked, state, self._accounts, self._clusters, name)
        held = mark.said.get("hold") == "user"
        job, new = self._engine.submit(spec, by=row.user if held else BY, client_key=name, hold=held)
        if new:
            log.info("slurm_job_adopted", slurm_job=row.id, job=job, user=row.user, budget=spec.budget)
        return job

    def _refuse(self, row: Row, mark: Mark, why: str) -> None:
        """It stays held, and its user can read why: ``squeue -O JobID,admin_comment:200``."""
        text = marks.shown(why)
        self._refused[row.id] = (_look_of(row, replace(mark, refused=text)), time.time())
        if mark.refused == text:
            return
        log.warning("slurm_job_not_adopted", slurm_job=row.id, user=row.user, account=row.account, why=text)
        try:
            self._handling.mark(row.id, marks.write(replace(mark, refused=text)))
        except CommandFailed as error:
            log.warning("slurm_command_failed", slurm_job=row.id, error=str(error))


Marked = Sequence[tuple[Row, Mark]]


def throttled(ready: Marked, strangers: Marked, look: Look) -> list[tuple[Row, Mark]]:
    """Oldest first; of an array with a throttle no more than may run at once, whatever of it waits or runs already.

    ``strangers``: all that are nobody's yet. The look may be too old to show the marks of the others.
    """
    unknown = {row.id for row, _ in strangers}
    taken = Counter(row.array for row, _ in look.marked if row.array and row.id not in unknown and not row.over)
    found = []
    for row, mark in sorted(ready, key=lambda pair: (pair[0].submitted, _by_number(pair[0].id))):
        most = mark.number("throttle")
        if row.array and most and taken[row.array] >= most:
            continue
        taken[row.array] += 1
        found.append((row, mark))
    return found


def _by_number(job: str) -> tuple[int, ...]:
    return tuple(int(part) for part in job.split("_"))


def _look_of(row: Row, mark: Mark) -> object:
    """What a refusal may depend on and a user may change."""
    return (row.account, row.comment, row.submitted, mark.refused)
