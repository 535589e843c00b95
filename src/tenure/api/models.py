"""What goes out, one set for server, client and CLI. Units at the edge: see ``fields``."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from tenure.api.fields import Time
from tenure.api.requests import FileText, LabelModel

T = TypeVar("T")


class Response(BaseModel):
    """What goes out: a client ignores what a newer server adds."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class Page(Response, Generic[T]):
    """Part of a listing. ``next``: give it as ``after`` to get what follows; null at the end."""

    items: list[T]
    next: int | None = None


class FieldError(Response):
    """What is wrong: the field, the value it had, and what would work."""

    field: str
    value: str
    fix: str


class Problem(Response):
    """RFC 9457 problem details. ``reason`` is a code of docs/reasons.md, ``id`` finds the server's log line."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError] = []
    reason: str | None = None
    id: str | None = None


class ReasonView(Response):
    """A reason: ``numbers`` in the units of docs/reasons.md, ``text`` says it in one sentence."""

    code: str
    numbers: dict[str, Any] = {}
    text: str


class Note(Response):
    """A default that was taken for a submission, and what it means."""

    field: str
    value: str
    text: str


class RoleView(Response):
    name: str
    replicas: int
    gpus: int
    cpus: float
    memory_mib: int
    command: list[str]


class SlotView(Response):
    """Where one replica is; ``rank`` counts the replicas of all roles."""

    role: str
    replica: int
    rank: int
    host: str
    gpus: list[int]
    cpus: float
    memory_mib: int


class AttemptView(Response):
    """One run. ``charge_rate``: GPUs that it counts as. ``protection`` only while it holds GPUs."""

    id: str
    number: int
    cluster: str
    budget: str
    state: str
    charged: bool
    charge_rate: float
    min_runtime_ms: int
    planned_at: Time
    started_at: Time | None = None
    running_at: Time | None = None
    ended_at: Time | None = None
    protection: Literal["protected", "exposed"] | None = None
    protected_until: Time | None = None
    hosts: list[str] = []
    slots: list[SlotView] = []
    stop: ReasonView | None = None
    kill_at: Time | None = None
    reason: ReasonView | None = None
    exit_codes: list[int] = []


class ReservationView(Response):
    """Hosts that are held for a job. ``gpus``: all of these hosts. ``told``: when they are free to it.

    ``starts_by``: it starts then at the latest, unless it is displaced or a host is lost.
    """

    cluster: str
    hosts: list[str]
    gpus: int
    made_at: Time
    told: Time
    starts_by: Time


class JobView(Response):
    """A job in a listing. ``evictions`` counts them, ``restarts`` the attempts after the first.

    ``reservations``: how many it was given; ``first_starts_by``: what it was told with the first. Both are null once
    the job has ended. ``array_id``, ``array_index``: the array that it is of (the id of its first job), and which one.
    ``array_waiting``: in a folded listing the indices of all for which it stands. ``replicas`` counts those of all
    roles. ``runs``: its attempts, first to last, where they were asked for.
    """

    id: int
    name: str
    user: str
    budget: str
    state: str
    ended: bool
    charged: bool
    gpus: int
    replicas: int = 1
    timeout_ms: int | None = None
    cluster: str
    clusters: list[str]
    priority: int
    min_runtime_ms: int
    resumable: bool
    submitted_at: Time
    first_started_at: Time | None = None
    ended_at: Time | None = None
    evictions: int
    restarts: int
    exit_code: int | None = None
    held_by: str | None = None
    reason: ReasonView
    attempt: AttemptView | None = None
    reservation: ReservationView | None = None
    reservations: int | None = None
    first_starts_by: Time | None = None
    array_id: int | None = None
    array_index: int | None = None
    array_waiting: str | None = None
    runs: list[AttemptView] = []

    @property
    def label(self) -> str:
        """What people call it: ``12``, ``12_3`` in an array, ``12_[3-9]`` where it stands for several."""
        if self.array_id is None:
            return str(self.id)
        several = self.array_waiting if self.array_waiting and not self.array_waiting.isdigit() else None
        return f"{self.array_id}_{self.array_index if several is None else f'[{several}]'}"


class ArrayView(Response):
    """Jobs that were submitted together, with ids from ``id`` on. ``indices`` as ``0-15``.

    ``throttle``: at most so many of them at a time, null for all. ``states``: how many jobs are in
    each state; those whose history is gone are in none.
    """

    id: int
    name: str
    user: str
    budget: str
    indices: str
    count: int
    throttle: int | None
    ended: bool
    states: dict[str, int]


class EvictionView(Response):
    """Who had to go, for whom (``gainer``, null for nobody), why, and what it gained and put at risk."""

    id: int
    at: Time
    attempt: str
    job: int
    budget: str
    gainer: int | None = None
    gainer_budget: str | None = None
    reason: ReasonView
    gained_gpu_hours: float
    at_risk_gpu_hours: float


class JobDetail(JobView):
    """All of a job. ``env`` shows values only to those who may act on the job. ``array``: the one that it is of."""

    array: ArrayView | None = None

    grace_ms: int
    retries: int
    roles: list[RoleView]
    labels: list[LabelModel]
    env: dict[str, str]
    workdir: str
    launch: str
    warn_signal: str
    attempts: list[AttemptView]
    eviction_history: list[EvictionView]


class Submitted(Response):
    """``created`` false: the client key was used before, and this is that job. Of an array it is the first."""

    job: JobView
    created: bool
    array: ArrayView | None = None
    notes: list[Note] = []


class BudgetUsage(Response):
    """A budget on one cluster. Hours are GPU-hours over the lookback; a ratio is null without entitlement.

    ``committed_gpu_hours``: still promised to what claims, starts and runs, and to what holds a reservation.
    ``running_gpus`` are charged ones.
    """

    share: float
    allocation: float
    allocation_gpus: float
    used_gpu_hours: float
    committed_gpu_hours: float
    entitled_gpu_hours: float
    unallocated_gpu_hours: float
    ratio: float | None
    ratio_last_day: float | None
    running_jobs: int
    running_gpus: int
    unallocated_gpus: int
    queued_jobs: int
    queued_gpus: int


class BudgetView(Response):
    """A node of the tree. ``implicit``: the ``self`` of a budget with children."""

    path: str
    depth: int
    implicit: bool
    managers: list[str]
    members: list[str]
    clusters: dict[str, BudgetUsage]


class HolderView(Response):
    attempt: str
    job: int
    user: str
    budget: str
    state: str
    gpus: list[int]
    protection: Literal["protected", "exposed"]
    protected_until: Time | None = None


class HostView(Response):
    """``drained_by``: a draining host is empty then at the latest, when that is bounded.

    ``held_for``: the job for which it is held, until ``held_until``; ``headroom``: it is kept for short contracts.
    ``others_gpus``, ``others_cpus`` and ``others_memory_mib`` are used by what Tenure did not start; ``others`` says
    who that is.
    """

    cluster: str
    name: str
    state: str
    since: Time
    by: str
    why: str
    gpus: int
    free_gpus: int
    cpus: float
    memory_mib: int
    labels: dict[str, str]
    deadline: Time | None = None
    drained_by: Time | None = None
    held_for: int | None = None
    held_until: Time | None = None
    headroom: bool = False
    others_gpus: int = 0
    others_cpus: float = 0
    others_memory_mib: int = 0
    others: str = ""
    attempts: list[HolderView]


class ClusterStatus(Response):
    """GPUs: ``claimed`` ones are withheld for a claim, whoever still holds them.

    ``held_gpus``: of hosts that are held for ``reservations`` jobs; ``headroom_gpus``: of hosts that are kept for short
    contracts. Both count whole hosts, whatever runs there meanwhile. ``others_gpus``: used by what Tenure did not
    start.
    """

    name: str
    gpus: int
    healthy_gpus: int
    charged_gpus: int
    unallocated_gpus: int
    claimed_gpus: int
    free_gpus: int
    held_gpus: int = 0
    headroom_gpus: int = 0
    others_gpus: int = 0
    reservations: int = 0
    hosts: dict[str, int]


class StatusView(Response):
    version: str
    now: Time
    started_at: Time
    seq: int
    clusters: list[ClusterStatus]
    jobs: dict[str, int]
    waiting: dict[str, int]
    paused_starts: str | None = None
    paused_evictions: str | None = None
    clock_alarm: bool


class PlannedView(Response):
    """A start or an eviction that a configuration would cause at once."""

    attempt: str
    job: int
    reason: ReasonView


class AppliedView(Response):
    applied: bool
    changes: list[str]
    evictions: list[PlannedView]
    starts: list[PlannedView]


class ConfigView(Response):
    """What holds now, as the two files' texts."""

    clusters: FileText
    budgets: FileText


class EntryView(Response):
    """One thing that happened or was decided."""

    kind: str
    text: str
    job: int | None = None
    attempt: str | None = None
    reason: ReasonView | None = None


class BatchView(Response):
    seq: int
    at: Time
    entries: list[EntryView]


class ChangeView(Response):
    seq: int


class AuditView(Response):
    id: int
    at: Time
    who: str
    action: str
    target: str
    detail: dict[str, Any]


class UserView(Response):
    name: str
    role: str
    created_at: Time
    disabled: bool


class TokenView(Response):
    id: int
    user: str
    label: str
    created_at: Time
    last_used_at: Time | None = None
    expires_at: Time | None = None


class NewToken(Response):
    """``token`` is shown this once."""

    token: str


class Health(Response):
    status: Literal["ok"]
    version: str
