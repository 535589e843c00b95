"""Attempts as Slurm jobs, below one directory that all nodes share: ``root/<job>/<attempt number>/``.

One Slurm job serves all attempts of a job. On each of its nodes the supervisor that the local executor uses runs the
replicas of that node (``node.py``), in ``<attempt>/nodes/<host>/``. Orders to stop are files, which supervisors look
for; statuses are files, and a supervisor that has written one leaves a file in ``root/news``. One thread of this
executor reads that directory and asks Slurm for all its jobs at once, about every second, and gives the commands.
Callers never wait for Slurm.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
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
from tenure.executors.slurm import plan as plans
from tenure.executors.slurm import reading
from tenure.executors.slurm.commands import CommandFailed, Commands
from tenure.executors.slurm.gang import FileClock, Outcome
from tenure.executors.slurm.hosts import HostWatch
from tenure.executors.slurm.machines import Occupant
from tenure.executors.slurm.reading import Node, SlurmJob
from tenure.executors.slurm.run import Run
from tenure.executors.slurm.steering import Steering
from tenure.faults import point

log = structlog.get_logger()

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
    commands, None for PATH. ``start`` and ``stop`` raise OSError when ``root`` cannot be written or Slurm cannot
    be asked for such a job, RuntimeError when the executor is not open, and ValueError for an attempt id that is not
    ``<job>.<number>``.
    """

    def __init__(
        self,
        root: Path,
        partition: str = "",
        commands: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._root = root.resolve()
        self._active = self._root / "active"
        self._news = self._root / "news"
        self._root.mkdir(mode=0o750, parents=True, exist_ok=True)
        for directory in (self._active, self._news):
            directory.mkdir(exist_ok=True)
        self._gate = EpochGate(self._root)
        self._partition = partition
        self._ungated = Commands(commands, environment)
        self._commands = _GatedCommands(self._gate, commands, environment)
        self._instance = _instance(self._root)
        self._steering = Steering(self._commands, self._root, partition, self._instance)
        self._hosts = HostWatch(self._commands, self._root, partition, self._others)
        self._clock = FileClock(self._root)
        self._boot = procs.boot_id()
        self._mutex = threading.Lock()
        self._known: dict[str, Run] = {}
        self._nodes: dict[str, Node] = {}
        self._jobs: dict[int, list[SlurmJob]] = {}
        """As of the last look."""
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
            self._adopt(entry.name)
        self._look_at_nodes()
        self._ask_for_jobs()
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
            if known is not None and known.gang is not None:
                return
            plan = plans.plan_of(launch)
            attempt.directory.mkdir(parents=True, exist_ok=True)
            (attempt.directory.parent / "checkpoints").mkdir(exist_ok=True)
            try:
                if not attempt.launch.exists():
                    first = self._nodes.get(plan.hosts[0])
                    address = first.address if first is not None else plan.hosts[0]
                    plans.write(plan, attempt, launch, os.environ, address, self._news / launch.attempt_id)
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
            for job, candidates in self._jobs.items():
                if job not in running and not alive(job):
                    self._unwanted |= {one.id for one in candidates if not one.over}
        if self._unwanted:
            self._wake.set()

    def log_path(self, attempt_id: str, node_rank: int, stream: str) -> str:
        return str(self._files(attempt_id).log(node_rank, stream))

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
        known, me = {one.id for some in self._jobs.values() for one in some if not one.over}, str(os.getuid())
        return [
            job
            for job in jobs
            if job.key[0] not in known and not (job.uid == me and reading.is_ours(job.comment, self._instance))
        ]

    def close(self) -> None:
        self._hosts.close()
        self._closing.set()
        self._wake.set()
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

    def _remember(self, attempt_id: str, attempt: AttemptFiles) -> Run:
        run = self._known.get(attempt_id)
        if run is None or run.gang is None:
            (self._active / attempt_id).touch()
            procs.sync_directory(self._active)
            run = self._known[attempt_id] = Run(attempt, plans.read(attempt), self._clock)
        return run

    def _drop(self, attempt_id: str) -> None:
        self._known.pop(attempt_id, None)
        (self._active / attempt_id).unlink(missing_ok=True)
        (self._news / attempt_id).unlink(missing_ok=True)

    def _adopt(self, attempt_id: str) -> None:
        """Take over what an earlier server has left; the next look does the rest."""
        attempt = self._files(attempt_id)
        run = Run(attempt, plans.read(attempt), self._clock)
        run.load()
        if run.status is None and run.gang is None:
            if run.stop is None:
                self._drop(attempt_id)  # cut off before it was written down
                return
            run.end(Outcome(files.NOT_STARTED, (), files.STOPPED_BEFORE))
        self._known[attempt_id] = run
        run.read()

    def _look_at_nodes(self) -> None:
        try:
            self._nodes = reading.nodes(self._ungated, self._partition)
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
        jobs = self._ask_for_jobs()
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
            own = reading.by_part((jobs or {}).get(self._job_of(attempt_id), []))
            strange = jobs is not None and not run.attended(own)
            if sweep:
                run.look_for_checkpoint()
            look = attempt_id in news or run.moving or sweep or strange
            changed |= self._advance(attempt_id, run, own if jobs is not None else None, look)
            soon |= run.moving or strange
        if jobs is not None:
            self._look_after(jobs)
        if changed:
            self._on_change()
        return soon

    def _ask_for_jobs(self) -> dict[int, list[SlurmJob]] | None:
        """None when Slurm does not answer: then nothing is concluded from its silence."""
        try:
            jobs = reading.jobs(self._commands, self._instance)
        except CommandFailed as error:
            now = procs.boottime_ms()
            if not self._complained or now - self._complained >= COMPLAIN_MS:
                self._complained = now
                log.error("slurm_not_answering", error=str(error))
            return None
        with self._mutex:
            self._jobs = jobs
        return jobs

    def _hear(self) -> set[str]:
        """Attempts of which a supervisor has news. What is written after this leaves a new file."""
        with os.scandir(self._news) as entries:
            heard = {entry.name for entry in entries}
        for name in heard:
            (self._news / name).unlink(missing_ok=True)
        return heard

    def _advance(self, attempt_id: str, run: Run, jobs: Mapping[int, SlurmJob] | None, look: bool) -> bool:
        changed = False
        try:
            if look:
                with self._writing():
                    changed = run.read()
            if jobs is not None:
                changed |= run.advance(self._steering, jobs, self._writing)
        except OSError as error:
            log.error("attempt_not_advanced", attempt=attempt_id, error=str(error))
        return changed

    def _look_after(self, jobs: Mapping[int, list[SlurmJob]]) -> None:
        """Jobs of ours in Slurm that no attempt wants now: what runs is ended, what waits is held."""
        with self._mutex:
            wanted = {self._job_of(attempt_id) for attempt_id, run in self._known.items() if run.status is None}
            unwanted, self._unwanted = self._unwanted, set()
        to_hold = []
        for job, candidates in jobs.items():
            chosen = reading.by_part(candidates)
            for one in candidates:
                if one.over:
                    continue
                if one is not chosen[one.part] or (job not in wanted and one.live and one.state != "COMPLETING"):
                    log.warning("unknown_slurm_job_ended", job=job, slurm_job=one.id, state=one.state)
                    unwanted.add(one.id)
                elif job not in wanted and one.pending and not one.held:
                    to_hold.append(one.id)
        try:
            if unwanted:
                self._steering.cancel(sorted(unwanted))
            for number in to_hold:
                self._steering.hold(number)
        except CommandFailed as error:
            log.warning("slurm_command_failed", error=str(error))


class _GatedCommands(Commands):
    """Commands of the newest leader only. ``run`` raises StaleEpoch when there is a newer one."""

    def __init__(self, gate: EpochGate, folder: Path | None, environment: Mapping[str, str] | None) -> None:
        super().__init__(folder, environment)
        self._gate = gate

    def run(self, program: str, *arguments: str, stdin: str = "", timeout_s: float | None = None) -> str:
        with self._gate.command():
            return super().run(program, *arguments, stdin=stdin, timeout_s=timeout_s)


def _instance(root: Path) -> str:
    """What marks the jobs of this server in Slurm, where another Tenure may be at work as well."""
    path = root / "instance.json"
    content = procs.read_json(path)
    if content is None:
        content = {"instance": secrets.token_hex(4)}
        procs.write_json(path, content)
    return str(content["instance"])
