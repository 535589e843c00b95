"""Everything that can happen to the core, as frozen records with the time it happened (``at``, ms UTC).

Events are the only inputs of the core besides ``now``. They are logged before they take effect, so every field
must survive a round trip through JSON (see ``codec``). Attempt ids are ``"<job id>.<attempt number>"``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tenure.core.model import After, Array, Broken, Budget, Cluster, Grant, HostState, JobSpec, Policy


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that admission accepted. ``hold``: the person who wants it held from the start, or ''.

    ``client_key``: the key under which the submitter may send it again without submitting twice, or ''. ``array``: one
    job for each of its indices, with ids from ``job_id`` on. ``after``: what all of them wait for, live when this
    was accepted. ``broken``: what they would wait for in vain, so they end at once.
    """

    at: int
    job_id: int
    spec: JobSpec
    hold: str = ""
    client_key: str = ""
    array: Array | None = None
    after: tuple[After, ...] = ()
    broken: Broken | None = None


@dataclass(frozen=True, slots=True)
class CancelRequested:
    at: int
    job_id: int
    by: str


@dataclass(frozen=True, slots=True)
class Held:
    at: int
    job_id: int
    by: str


@dataclass(frozen=True, slots=True)
class Released:
    at: int
    job_id: int
    by: str


@dataclass(frozen=True, slots=True)
class PriorityChanged:
    at: int
    job_id: int
    priority: int
    by: str


@dataclass(frozen=True, slots=True)
class EvictRequested:
    """A named person's forced action: the one way to evict what is protected besides a host failure."""

    at: int
    attempt_id: str
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class ReplicasUp:
    """Every replica of the attempt runs."""

    at: int
    attempt_id: str


class ExitKind(StrEnum):
    EXITED = "exited"
    """Every process ended by itself or after a stop; ``exit_codes`` are real."""
    LOST = "lost"
    """The executor lost it (its supervisor was killed): no exit codes, nothing of it runs any more."""
    NOT_STARTED = "not_started"
    """It never started: no command found, no such directory, a refused start."""


@dataclass(frozen=True, slots=True)
class AttemptExited:
    """Nothing of the attempt runs any more and its GPUs are free.

    ``exit_codes``: one per replica, in order of (role, replica); negative is a signal. ``done``: it touched its
    ``TENURE_DONE`` marker. ``ended_at``: when it ended, if that was before ``at``, the step that heard of it; else 0.
    ``again``: it ended because its own system has queued it again (``scontrol requeue``), so it comes back.
    ``cancelled_by``: who ended it there for good, '' for nobody.
    """

    at: int
    attempt_id: str
    kind: ExitKind
    exit_codes: tuple[int, ...] = ()
    done: bool = False
    message: str = ""
    ended_at: int = 0
    again: bool = False
    cancelled_by: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointReported:
    at: int
    attempt_id: str


@dataclass(frozen=True, slots=True)
class HostStateChanged:
    """``by`` is a person or a check. ``caused_by``: the attempt at fault, which then gets no credit, or ''.

    ``deadline``: for a drain, when gangs that reach over other hosts are evicted from here in any case, or None.
    """

    at: int
    cluster: str
    host: str
    state: HostState
    by: str
    why: str
    caused_by: str = ""
    deadline: int | None = None


@dataclass(frozen=True, slots=True)
class ForeignUse:
    """What others than Tenure use of a host from now on: whole GPUs, thousandths of a CPU, MiB. All 0: nothing.

    ``what``: who they are, for people. It is nobody's charge.
    """

    at: int
    cluster: str
    host: str
    gpus: int
    cpus: int
    mem: int
    what: str = ""


@dataclass(frozen=True, slots=True)
class ConfigApplied:
    """Clusters, policy and tree, whole, as they are from now on.

    A host that is gone must be empty, else the event is refused by ``admission.check_config``.
    """

    at: int
    clusters: tuple[Cluster, ...]
    policy: Policy
    budgets: tuple[Budget, ...]
    grants: tuple[Grant, ...]
    by: str


class PauseScope(StrEnum):
    STARTS = "starts"
    EVICTIONS = "evictions"


@dataclass(frozen=True, slots=True)
class Paused:
    at: int
    scope: PauseScope
    by: str


@dataclass(frozen=True, slots=True)
class Resumed:
    at: int
    scope: PauseScope
    by: str


@dataclass(frozen=True, slots=True)
class ClockAlarm:
    """The wall clock stepped (``on``) or the step has passed. Evictions stop in between."""

    at: int
    on: bool


@dataclass(frozen=True, slots=True)
class ServerBack:
    """A server schedules again after one in whose absence attempts should have been gone.

    Whether they were ever told is not known, so they are told now, and have their whole time from now on.
    """

    at: int


Event = (
    Submitted
    | CancelRequested
    | Held
    | Released
    | PriorityChanged
    | EvictRequested
    | ReplicasUp
    | AttemptExited
    | CheckpointReported
    | HostStateChanged
    | ForeignUse
    | ConfigApplied
    | Paused
    | Resumed
    | ClockAlarm
    | ServerBack
)
