"""Attempts as Slurm jobs, below one directory that all nodes share: ``root/<job>/<attempt number>/``.

One Slurm job serves all attempts of a job. On each of its nodes the supervisor that the local executor uses runs the
replicas of that node (``node.py``), in ``<attempt>/nodes/<host>/``. Orders to stop are files, which supervisors look
for; statuses are files, and a supervisor that has written one leaves a file in ``root/news``. One thread of this
executor reads that directory and asks Slurm for all jobs of the partition at once, about every second, and gives the
commands. Callers never wait for Slurm.

Jobs that people have submitted to Slurm themselves, and that adoption has taken over, are run as what they are
(``native.py``). So are, after they have been submitted, those that are submitted as their users (``user_run.py``).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import structlog

from tenure.executors import files, procs
from tenure.executors.base import (
    DiscoveredHost,
    Executor,
    HostCondition,
    HostWish,
    Launch,
    Report,
    StaleEpoch,
    StopOrder,
)
from tenure.executors.epoch import EpochGate
from tenure.executors.files import AttemptFiles
from tenure.executors.slurm import launches, native, reading, rows, strays, user_run
from tenure.executors.slurm import look as looks
from tenure.executors.slurm.gang import FileClock, Outcome
from tenure.executors.slurm.gated import GatedCommands, instance_of
from tenure.executors.slurm.handling import Handling
from tenure.executors.slurm.hosts import HostWatch
from tenure.executors.slurm.look import Look
from tenure.executors.slurm.machines import Occupant
from tenure.executors.slurm.native import NativeRun
from tenure.executors.slurm.reading import Node
from tenure.executors.slurm.run import Run, expect_back
from tenure.executors.slurm.steering import Steering
from tenure.executors.slurm.user_run import UserJobs
from tenure.faults import point
from tenure.slurm.commands import CommandFailed, Commands

log = structlog.get_logger()

COMMAND_S = 10.0
"""Longer than a busy slurmctld takes to answer, short enough for the watcher to go on with other jobs."""
LOOK_S, LOOK_SOON_S = 1.0, 0.2
"""Between two looks; the shorter one while something starts, stops or ends."""
PART_OF_TIME = 5
"""However slow Slurm answers, it is left alone for so many times as long."""
SWEEP_MS = 10_000
"""How often everything is looked at, news or not."""
COMPLAIN_MS = 60_000
_ATTEMPT_ID = re.compile(r"(\d+)\.(\d+)")


class SlurmExecutor(Executor):
    """Runs attempts on the nodes of ``partition`` ('': Slurm's default). Methods may be called by any thread.

    ``root`` must be on a file system that all nodes see at the same path. ``commands``: the folder of Slurm's
    commands, None for PATH. ``submit_as``: words before ``sbatch`` that make it run as ``{user}``; empty: jobs run as
    this process's user. ``start`` and ``stop`` raise OSError when ``root`` cannot be written or Slurm cannot be asked
    for such a job, RuntimeError when the executor is not open, and ValueError for an attempt id that is not
    ``<job>.<number>``.
    """

    def __init__(
        self,
        root: Path,
        partition: str = "",
        commands: Path | None = None,
        environment: Mapping[str, str] | None = None,
        submit_as: Sequence[str] = (),
    ) -> None:
        self._root = root.resolve()
        self._active = self._root / "active"
        self._news = self._root / "news"
        self._root.mkdir(mode=0o750, parents=True, exist_ok=True)
        for directory in (self._active, self._news):
            directory.mkdir(exist_ok=True)
        self._gate = EpochGate(self._root)
        self.partition = partition
        self._ungated = Commands(commands, environment, COMMAND_S)
        self.commands = GatedCommands(self._gate, commands, environment, COMMAND_S)
        self.instance = instance_of(self._root)
        """Marks the jobs of this server in Slurm."""
        self.handling = Handling(self.commands, self.instance)
        self._user_jobs = UserJobs(self.commands, partition, self.instance, submit_as)
        self._steering = Steering(self.commands, self._root, partition, self.instance)
        self._hosts = HostWatch(self.commands, self._root, partition, self._others)
        self._clock = FileClock(self._root)
        self._boot = procs.boot_id()
        self._mutex = threading.Lock()
        self._known: dict[str, Run | NativeRun] = {}
        self._nodes: dict[str, Node] = {}
        self._look = looks.sort((), "", -1)
        """The last one."""
        self._looks = 0
        self._looked = threading.Condition()
        self._unwanted: set[int] = set()
        """Slurm's ids of what is to be cancelled."""
        self._swept = self._complained = 0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._on_change: Callable[[], None] = lambda: None

    # ---- the protocol

    def open(self, epoch: int, on_change: Callable[[], None]) -> None:
        self._gate.take(epoch)
        self.close()
        self._closing.clear()
        self._on_change = on_change
        self._swept = self._complained = 0
        for entry in sorted(self._active.iterdir()):
            self._take_over(entry.name)
        self._look_at_nodes()
        self._ask()
        self._hosts.open(on_change)
        self._thread = threading.Thread(target=self._watch, name="tenure-slurm", daemon=True)
        self._thread.start()

    def start(self, launch: Launch) -> None:
        attempt = self._files(launch.attempt_id)
        with self._writing():
            self._check_open()
            known = self._known.get(launch.attempt_id)
            if attempt.status.exists():
                if known is None:
                    # Forgotten, by a leader whose database was put back since: it ended, and is reported again.
                    self._remember(launch.attempt_id, attempt).load()
                    self._on_change()
                return
            if known is not None and known.planned:
                return
            attempt.directory.mkdir(parents=True, exist_ok=True)
            (attempt.directory.parent / "checkpoints").mkdir(exist_ok=True)
            try:
                if not attempt.launch.exists():
                    addresses = {name: node.address for name, node in self._nodes.items()}
                    launches.write(attempt, launch, self._user_jobs, addresses, self._news / launch.attempt_id)
                self._remember(launch.attempt_id, attempt)
                point("slurm.start.recorded")
            except OSError:
                # Whoever asked counts it as ended, so no later server may find it and start it.
                attempt.launch.unlink(missing_ok=True)
                self._drop(launch.attempt_id)
                raise
        self._wake.set()

    def stop(self, order: StopOrder) -> None:
        attempt = self._files(order.attempt_id)
        with self._writing():
            self._check_open()
            status = attempt.read_status()
            if status is not None:
                return
            attempt.directory.mkdir(parents=True, exist_ok=True)
            run = self._remember(order.attempt_id, attempt)
            run.obey(order)
            point("slurm.stop.ordered")
            if run.status is not None:
                self._on_change()
        self._wake.set()

    def poll(self) -> Sequence[Report]:
        with self._mutex:
            known = sorted(self._known.items())
        return [run.report(attempt_id, self._boot) for attempt_id, run in known]

    def forget(self, attempt_id: str) -> None:
        """Ignored while the attempt has not ended."""
        attempt = self._files(attempt_id)
        with self._mutex:
            if not attempt.status.exists():
                return
            # The status stays, and with it the refusal to start this attempt again; the environment may hold
            # secrets and goes.
            attempt.launch.unlink(missing_ok=True)
            attempt.stop.unlink(missing_ok=True)
            shutil.rmtree(attempt.directory / "nodes", ignore_errors=True)
            self._drop(attempt_id)

    def tidy(self, alive: Callable[[int], bool]) -> None:
        with self._mutex:
            running = {self._job_of(attempt_id) for attempt_id in self._known}
            self._unwanted |= strays.left_over(self._look, self._root, lambda job: job in running or alive(job))
        if self._unwanted:
            self._wake.set()

    def log_path(self, attempt_id: str, node_rank: int, stream: str) -> str:
        attempt = self._files(attempt_id)
        return native.log_path(attempt, stream) or str(attempt.log(node_rank, stream))

    def wait_look(self, after: int, timeout_s: float) -> tuple[int, Look]:
        """The number of the newest look at Slurm, once it is above ``after`` or the time is over, and the look."""
        with self._looked:
            self._looked.wait_for(lambda: self._looks > after or self._closing.is_set(), timeout_s)
            return self._looks, self._look

    def cancelled_there(self, job: int) -> bool:
        """Whether somebody else has cancelled, in Slurm, what was submitted there for ``job`` as its user."""
        row = self._look.adopted.get(job)
        return row is not None and user_run.cancelled_there(self._root / str(job), row)

    def highest_job(self) -> int:
        """The highest job id that has ever had an attempt here, 0 for none."""
        return files.highest_job(self._root)

    def discover(self) -> Sequence[DiscoveredHost]:
        """The nodes of the partition. Empty, with a line in the log, when Slurm does not answer."""
        self._look_at_nodes()
        return [node.host for _, node in sorted(self._nodes.items())]

    def conditions(self) -> Sequence[HostCondition]:
        return self._hosts.conditions()

    def keep_out(self, wishes: Sequence[HostWish]) -> None:
        self._hosts.keep_out(wishes)

    def _others(self, jobs: Sequence[Occupant]) -> list[Occupant]:
        """Those that are not this server's: what they have of a node is somebody else's use of it."""
        known, me = self._look.numbers(), str(os.getuid())
        return [
            job
            for job in jobs
            if job.key[0] not in known and not (job.uid == me and reading.is_ours(job.comment, self.instance))
        ]

    def close(self) -> None:
        self._hosts.close()
        self._closing.set()
        self._wake.set()
        with self._looked:
            self._looked.notify_all()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        self._known.clear()

    # ---- what it knows

    def _check_open(self) -> None:
        if self._thread is None:
            raise RuntimeError("the executor is not open")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Inside, files of attempts may be written: by one thread, and by the newest leader. Raises StaleEpoch."""
        with self._mutex, self._gate.command():
            yield

    def _files(self, attempt_id: str) -> AttemptFiles:
        found = _ATTEMPT_ID.fullmatch(attempt_id)
        if found is None:
            raise ValueError(f"{attempt_id!r} is not an attempt id like 12.1")
        return AttemptFiles(self._root / found[1] / found[2])

    @staticmethod
    def _job_of(attempt_id: str) -> int:
        return int(attempt_id.partition(".")[0])

    def _remember(self, attempt_id: str, attempt: AttemptFiles) -> Run | NativeRun:
        run = self._known.get(attempt_id)
        if run is None or not run.planned:
            (self._active / attempt_id).touch()
            procs.sync_directory(self._active)
            run = self._known[attempt_id] = launches.run_of(attempt, self._user_jobs, self._clock)
        return run

    def _drop(self, attempt_id: str) -> None:
        self._known.pop(attempt_id, None)
        (self._active / attempt_id).unlink(missing_ok=True)
        (self._news / attempt_id).unlink(missing_ok=True)

    def _take_over(self, attempt_id: str) -> None:
        """Take over what an earlier server has left; the next look does the rest."""
        attempt = self._files(attempt_id)
        run = launches.run_of(attempt, self._user_jobs, self._clock)
        run.load()
        if run.status is None and not run.planned:
            if run.stop is None:
                self._drop(attempt_id)  # cut off before it was written down
                return
            run.end(Outcome(files.NOT_STARTED, (), files.STOPPED_BEFORE))
        self._known[attempt_id] = run
        run.read()

    def _look_at_nodes(self) -> None:
        try:
            self._nodes = reading.nodes(self._ungated, self.partition)
        except CommandFailed as error:
            log.error("slurm_not_answering", error=str(error))

    # ---- the watcher's thread

    def _watch(self) -> None:
        while not self._closing.is_set():
            self._wake.clear()
            began = procs.boottime_ms()
            try:
                soon = self._turn()
            except StaleEpoch:
                return
            except Exception as error:  # the next look may do better, and nobody else looks after the jobs
                log.error("slurm_look_failed", error=repr(error), exc_info=True)
                soon = False
            took = (procs.boottime_ms() - began) / 1000
            self._wake.wait(max(LOOK_SOON_S if soon else LOOK_S, PART_OF_TIME * took if not soon else took))

    def _turn(self) -> bool:
        """Look at everything once. Returns whether to look again soon."""
        with self._mutex:
            ours = [run for run in self._known.values() if isinstance(run, Run)]
        expect_back(self._steering, ours)
        look = self._ask()
        news = self._hear()
        now = procs.boottime_ms()
        sweep = now - self._swept >= SWEEP_MS
        if sweep:
            self._swept = now
        with self._mutex:
            runs = [(attempt_id, run) for attempt_id, run in self._known.items() if run.status is None]
        changed = soon = False
        for attempt_id, run in runs:
            if self._closing.is_set():
                return False
            strange = look is not None and not run.attended(look)
            if sweep:
                run.look_for_checkpoint()
            read = attempt_id in news or run.moving or sweep or strange
            changed |= self._advance(attempt_id, run, look, read)
            soon |= run.moving or strange
        if look is not None:
            self._look_after(look)
        if changed:
            self._on_change()
        return soon

    def _ask(self) -> Look | None:
        """None when Slurm does not answer: then nothing is concluded from its silence."""
        asked = procs.boottime_ms()
        try:
            look = looks.sort(rows.ask(self.commands, self.partition), self.instance, os.getuid(), asked)
        except CommandFailed as error:
            now = procs.boottime_ms()
            if not self._complained or now - self._complained >= COMPLAIN_MS:
                self._complained = now
                log.error("slurm_not_answering", error=str(error))
            return None
        with self._mutex:
            self._look = look
        with self._looked:
            self._looks += 1
            self._looked.notify_all()
        return look

    def _hear(self) -> set[str]:
        """Attempts of which a supervisor has news. What is written after this leaves a new file."""
        with os.scandir(self._news) as entries:
            heard = {entry.name for entry in entries}
        for name in heard:
            (self._news / name).unlink(missing_ok=True)
        return heard

    def _advance(self, attempt_id: str, run: Run | NativeRun, look: Look | None, read: bool) -> bool:
        changed = False
        try:
            if read:
                with self._writing():
                    changed = run.read()
            if look is not None and isinstance(run, NativeRun):
                changed |= run.advance(self.handling, look, self._writing)
            elif look is not None and isinstance(run, Run):
                changed |= run.advance(self._steering, look, self._writing)
        except OSError as error:
            log.error("attempt_not_advanced", attempt=attempt_id, error=str(error))
        return changed

    def _look_after(self, look: Look) -> None:
        """Jobs in Slurm that no attempt wants now."""
        with self._mutex:
            known = list(self._known.items())
            unwanted, self._unwanted = self._unwanted, set()
        wanted = {self._job_of(attempt_id) for attempt_id, run in known if run.status is None}
        strays.see_to_own(look, self._steering, wanted, unwanted)
        strays.see_to_adopted(look, self.handling, [run for _, run in known if isinstance(run, NativeRun)])
