"""The records of the state: what a restart must bring back of jobs, attempts, reservations and hosts.

Plain data, apart from the state that indexes it: ``codec`` reads the types of their fields, which compiled
classes do not keep.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import After, Array, HostState, JobSpec, Slots
from tenure.core.reasons import Because, Reason


@dataclass(slots=True)
class StopRecord:
    """Why and when an attempt is being stopped; times in ms UTC (see ``decisions.Evict``)."""

    because: Because
    gainer: int
    warn_at: int
    kill_at: int
    release_by: int
    since: int = 0
    """From when on its end is put down to this, not to itself; 0: from ``warn_at`` on."""


@dataclass(slots=True)
class Attempt:
    """One run of a job on assigned GPUs."""

    id: str
    job_id: int
    number: int
    cluster: str
    leaf: str
    user: str
    slots: tuple[Slots, ...]
    amount: int
    min_runtime: int
    planned_at: int
    started_at: int | None = None
    running_since: int | None = None
    protected_until: int | None = None
    """Known once all replicas run; None before that and for unallocated attempts."""
    checkpoint_at: int | None = None
    stop: StopRecord | None = None
    waiting_for: set[str] = field(default_factory=set)
    """A claim's victims that have not released yet."""
    promised_until: int | None = None
    """Bookkeeping of what this attempt has promised in the ledger: None for a fixed promise or none."""
    unreleased: bool = False
    """Its GPUs were not back in time: its hosts were marked."""

    @property
    def gpus(self) -> int:
        slots = self.slots
        return len(slots[0].gpus) if len(slots) == 1 else sum(len(s.gpus) for s in slots)

    @property
    def charged(self) -> bool:
        return self.min_runtime > 0

    @property
    def kind(self) -> Kind:
        return Kind.CHARGED if self.min_runtime > 0 else Kind.UNALLOCATED

    def hosts(self) -> list[str]:
        slots = self.slots
        return [slots[0].host] if len(slots) == 1 else sorted({s.host for s in slots})

    def at_risk(self, now: int) -> int:
        """Amount x time since the last checkpoint, or since all replicas ran: what a kill would lose."""
        since = self.checkpoint_at if self.checkpoint_at is not None else self.running_since
        return self.amount * max(0, now - since) if since is not None else 0


@dataclass(frozen=True, slots=True)
class Reservation:
    """Hosts of one cluster that are held for a job in turn (rule 10); times in ms UTC."""

    cluster: str
    hosts: tuple[str, ...]
    amount: int
    """What the job is going to be charged, thousandths of a GPU: its promise counts in C."""
    made_at: int
    told: int
    """When the hosts are free to the job. Until then they let in what is over by then, and short contracts."""
    starts_by: int
    """Upper bound of the start: ``told``, start-up time-outs, graces, and what short contracts may overrun."""
    bounded: tuple[str, ...] = ()
    """Attempts that the job did not outrank when it was made: they end by their time-out, not for this."""


@dataclass(slots=True)
class Job:
    """A live job. ``submitted`` is its first submission: its seniority, which requeues keep."""

    id: int
    spec: JobSpec
    state: JobState
    submitted: int
    leaf: str
    budget: str
    """The budget's path today: it differs from ``spec.budget`` after a move."""
    client_key: str = ""
    queued_at: int = 0
    """When it last joined the queue: submitted, requeued, released or given back."""
    held_by: str = ""
    not_before: int = 0
    failures: int = 0
    """Failed attempts in a row, which make the backing off grow."""
    retried: int = 0
    attempts: int = 0
    starts: int = 0
    """Attempts that were given GPUs: a claim that is dropped never runs."""
    first_started: int | None = None
    last_cluster: str = ""
    """Where it runs or ran last."""
    exit_codes: tuple[int, ...] = ()
    """Of its last attempt, one per replica."""
    evictions: int = 0
    evictions_since_checkpoint: int = 0
    attempt: Attempt | None = None
    reservation: Reservation | None = None
    reserved: int = 0
    """How often it was given a reservation."""
    first_starts_by: int = 0
    """By when it was told first that it would start; 0: it never was."""
    last: Because = field(default_factory=lambda: Because(Reason.WAITING_NEW))
    """Why its last attempt ended, or why it is where it is."""
    history: list[str] = field(default_factory=list)
    """Its last steps in the lifecycle: time, step, reason."""
    array: int = 0
    """The array that it is of, by the id of its first job; 0: none."""
    index: int = 0
    """Which of the array."""
    behind: bool = False
    """It waits for a place in its array's throttle."""

    @property
    def submission(self) -> int:
        """What it was submitted with: its array, else itself."""
        return self.array or self.id

    @property
    def label(self) -> str:
        """What people call it: ``12``, or ``12_3`` in an array."""
        return f"{self.array}_{self.index}" if self.array else str(self.id)

    @property
    def kind(self) -> Kind:
        return Kind.CHARGED if self.spec.charged else Kind.UNALLOCATED


@dataclass(frozen=True, slots=True)
class Foreign:
    """What others than Tenure use of a host (see ``events.ForeignUse``)."""

    gpus: int
    cpus: int
    mem: int
    what: str = ""


@dataclass(slots=True)
class HostRecord:
    state: HostState
    since: int
    by: str = ""
    why: str = ""
    deadline: int | None = None
    caused_by: str = ""


@dataclass(slots=True)
class ArrayRecord:
    """An array of which some jobs have not ended. ``id`` is that of its first job."""

    id: int
    array: Array
    spec: JobSpec
    """As submitted: what its jobs share."""
    failed: str = ""
    """The first of its jobs that ended otherwise than by success, as ``12_3``."""
    failed_state: str = ""


@dataclass(slots=True)
class Pending:
    """What the job ``id``, or the array that begins with it, still waits for."""

    id: int
    after: list[After]
