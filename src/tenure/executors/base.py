"""The executor protocol: level-triggered, idempotent by (attempt, epoch).

The engine calls ``start`` and ``stop`` as often as it likes, for instance again after a crash; doing it twice is
doing it once. An executor refuses commands of an epoch older than the newest it has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ReplicaLaunch:
    """One replica of an attempt. ``gpus`` are device indices on ``host``; ``node_rank`` counts over all roles."""

    role: str
    role_index: int
    replica: int
    node_rank: int
    host: str
    gpus: tuple[int, ...]
    cpus: int
    mem: int
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArrayPart:
    """Which job of an array this is: its ``index`` of ``count``, which go from ``first`` to ``last`` by ``step``."""

    id: int
    index: int
    count: int
    first: int
    last: int
    step: int


@dataclass(frozen=True, slots=True)
class Launch:
    """All that an executor needs to run an attempt. ``env`` is the user's; executors add ``TENURE_*`` and the like.

    ``number`` counts the job's attempts from 1. ``protected_for`` ms of protection follow once all replicas are up
    (0: unallocated). ``restart_count``: how many attempts of the job ran before this one.
    """

    attempt_id: str
    job_id: int
    number: int
    name: str
    user: str
    budget: str
    cluster: str
    replicas: tuple[ReplicaLaunch, ...]
    workdir: str
    env: Mapping[str, str]
    launch: str
    warn_signal: str
    protected_for: int
    restart_count: int
    array: ArrayPart | None = None
    adopted: str = ""
    """What the executor's own system calls the job, where it had it first; '' for others."""


@dataclass(frozen=True, slots=True)
class StopOrder:
    """Warn now, kill ``grace`` ms later what is left. ``grace`` 0 kills at once.

    ``why``: the code of a reason, or that, a colon and its sentence. It goes into the job's log and its warning file.

    ``again``: the job is expected back, so what another system keeps for it is worth keeping.
    """

    attempt_id: str
    grace: int
    warn_signal: str
    why: str = ""
    again: bool = False


class Phase(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    LOST = "lost"
    NOT_STARTED = "not_started"


@dataclass(frozen=True, slots=True)
class Report:
    """What an executor knows of one attempt now.

    ``age_ms``: how long ago the phase was entered, measured by a clock that no one can step. EXITED, LOST and
    NOT_STARTED promise that nothing of the attempt runs any more. ``checkpoint_age_ms``: how long ago it reported
    a checkpoint, None for never. ``again``: it ended because its own system has queued it again. ``cancelled_by``:
    who ended it there for good, '' for nobody.
    """

    attempt_id: str
    phase: Phase
    age_ms: int = 0
    exit_codes: tuple[int, ...] = ()
    done: bool = False
    message: str = ""
    checkpoint_age_ms: int | None = None
    again: bool = False
    cancelled_by: str = ""


@dataclass(frozen=True, slots=True)
class DiscoveredHost:
    """A host as the executor sees it; ``cpus`` in thousandths, ``mem`` in MiB, ``gpu_names`` one per GPU.

    ``cluster``: the only one that it can be in, '' for any.
    """

    name: str
    gpus: int
    cpus: int
    mem: int
    gpu_names: tuple[str, ...] = field(default_factory=tuple)
    cluster: str = ""


class Health(StrEnum):
    """What another system that rules a host as well says about it."""

    FIT = "fit"
    DRAINING = "draining"
    """It takes nothing new; what runs there may go on."""
    FAILED = "failed"
    """It is gone, and with it what ran there."""


@dataclass(frozen=True, slots=True)
class HostCondition:
    """A host as another system has it: whether it is in service there, who says so and why, and what others use.

    ``by`` begins with the system's name and a colon (``slurm:root``), which no person's name has. What Tenure itself
    asked for (``Executor.keep_out``) is no reason of the other system. ``gpus``: whole ones that are used by what
    Tenure did not start, ``cpus`` thousandths, ``mem`` MiB, ``what``: who that is. ``has``: how much of the three there
    is in the other system's eyes, where that is known: Tenure may have been given less of the host. ``cluster`` '': any
    that has such a host.
    """

    name: str
    health: Health = Health.FIT
    by: str = ""
    why: str = ""
    gpus: int = 0
    cpus: int = 0
    mem: int = 0
    what: str = ""
    has: tuple[int, int, int] = (0, 0, 0)
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class HostWish:
    """Whether a host is to be out of service, for a reason of Tenure's own, ``since`` (ms UTC) that was decided."""

    cluster: str
    name: str
    out: bool
    by: str = ""
    why: str = ""
    since: int = 0


class StaleEpoch(Exception):
    """A command of a server that has been replaced."""


class Executor(Protocol):
    def open(self, epoch: int, on_change: Callable[[], None]) -> None:
        """Take over as leader of ``epoch``. ``on_change`` is called, from any thread, when ``poll`` has news.

        Raises StaleEpoch when a newer epoch has been here.
        """

    def start(self, launch: Launch) -> None:
        """Start the attempt unless it has been started before. Returns at once. Raises StaleEpoch."""

    def stop(self, order: StopOrder) -> None:
        """Warn and later kill. A second order only ever shortens what is left. Raises StaleEpoch."""

    def poll(self) -> Sequence[Report]:
        """One report for each attempt that the executor knows, ended ones too until ``forget``."""

    def forget(self, attempt_id: str) -> None:
        """The end of this attempt is recorded: the executor may drop its bookkeeping (logs stay)."""

    def tidy(self, alive: Callable[[int], bool]) -> None:
        """Let go of what is kept for jobs that have ended while they waited. ``alive`` answers for a job id.

        Called now and then by the thread that calls the others; ``alive`` is not used after the return.
        """
        return

    def log_path(self, attempt_id: str, node_rank: int, stream: str) -> str:
        """Path of the file with ``stream`` (``stdout`` or ``stderr``) of a replica; it may not exist yet."""

    def discover(self) -> Sequence[DiscoveredHost]:
        """Hosts that can be seen without configuration: this machine and its GPUs through NVML, Slurm's nodes."""

    def conditions(self) -> Sequence[HostCondition]:
        """Hosts as another system has them that rules them as well. Of a host that is not in it nothing is known.

        Known as soon as ``open`` has returned, if that system answers; ``on_change`` is called when they change.
        """
        return ()

    def keep_out(self, wishes: Sequence[HostWish]) -> None:
        """Every host of Tenure's, in service or not, for the other system to be told. Returns at once.

        Said again and again. Each wish is told once: a person there who decides otherwise is not overruled.
        """
        return

    def close(self) -> None:
        """Stop watching. Attempts go on."""
