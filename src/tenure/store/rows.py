"""What the store keeps, as frozen records: one class per table, fields named like the columns.

Units: times are integer milliseconds since the Unix epoch, UTC; durations are milliseconds; amounts are
integer thousandths of a GPU; ``gained``, ``at_risk`` and ``amount_ms`` are thousandths of a GPU x
milliseconds. Fields said to be JSON hold text that the store neither reads nor checks. ``id`` 0: not stored.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One scheduling pass: its inputs (``events``) and its decisions (``outcomes``, ``plans``), all JSON.

    ``seq`` counts the passes from 1; ``epoch`` is that of the leader that decided.
    """

    seq: int
    at: int
    epoch: int
    events: str
    outcomes: str
    plans: str


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as it stands now. ``budget`` is its budget's path, ``gpus`` whole GPUs over all roles.

    ``cluster`` is where it runs or ran last, else the first that it accepts. ``client_key`` is unique per
    user. ``reason`` (why it is in this state) and ``spec`` (as submitted) are JSON. Of an array: ``array_id`` is the id
    of its first job, and ``spec`` may be written as '' for what the array's row says; what is read is never ''.
    """

    id: int
    client_key: str | None
    user: str
    budget: str
    name: str
    cluster: str
    state: str
    charged: bool
    gpus: int
    min_runtime: int
    priority: int
    submitted_at: int
    ended_at: int | None
    first_start_at: int | None
    evictions: int
    restarts: int
    exit_code: int | None
    reason: str
    spec: str
    array_id: int | None = None
    array_index: int | None = None
    held: bool | None = None


@dataclass(frozen=True, slots=True)
class PastRun:
    """A job that has ended well: its name, whole GPUs, contract, and how long its attempts ran together, ms."""

    job_id: int
    name: str
    gpus: int
    min_runtime: int
    ran: int


@dataclass(frozen=True, slots=True)
class ArrayRow:
    """Jobs that were submitted together. ``id`` is that of the first; ``indices`` and ``spec`` are JSON."""

    id: int
    indices: str
    throttle: int
    spec: str


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One run of a job. ``id`` is ``"<job id>.<number>"``; ``leaf`` is the path that it is charged to.

    ``slots``, ``reason`` and ``exit_codes`` are JSON. A time that has not come yet is None.
    """

    id: str
    job_id: int
    number: int
    cluster: str
    leaf: str
    user: str
    charged: bool
    amount: int
    slots: str
    planned_at: int
    started_at: int | None
    running_at: int | None
    ended_at: int | None
    min_runtime: int
    protected_until: int | None
    state: str
    reason: str
    exit_codes: str


@dataclass(frozen=True, slots=True)
class SpanRow:
    """A closed piece of the ledger: ``amount`` was occupied over [start, end). Appended, never edited.

    ``kind`` is ``charged``, ``unallocated`` or ``credit``; ``seq`` is the batch that wrote it.
    """

    attempt_id: str
    cluster: str
    leaf: str
    user: str
    kind: str
    amount: int
    start: int
    end: int
    seq: int
    id: int = 0


@dataclass(frozen=True, slots=True)
class EvictionRow:
    """One eviction: who had to go, for whom (``gainer``, a job id, 0 for nobody), and why it was allowed.

    ``numbers``: what stands behind ``reason``, JSON. ``gainer_leaf`` is '' without a gainer.
    """

    seq: int
    at: int
    attempt_id: str
    job_id: int
    gainer: int
    reason: str
    numbers: str
    gained: int
    at_risk: int
    victim_leaf: str
    gainer_leaf: str
    id: int = 0


@dataclass(frozen=True, slots=True)
class AuditRow:
    """What a person did. ``detail`` is JSON."""

    at: int
    who: str
    action: str
    target: str
    detail: str
    id: int = 0


@dataclass(frozen=True, slots=True)
class EstimateRow:
    """When a job was expected to start, as of ``made_at`` and batch ``seq``: with ``percent`` percent between ``low``
    and ``high``, about ``likely``; None: later than ``until``.

    ``raw_low``, ``raw_high``: before past errors were allowed for. ``started_at``: the next start after that, when it
    has come.
    """

    job_id: int
    made_at: int
    seq: int
    size_class: str
    low: int
    likely: int | None
    high: int | None
    until: int
    raw_low: int
    raw_high: int | None
    percent: int
    started_at: int | None = None


@dataclass(frozen=True, slots=True)
class UserRow:
    """Somebody who may use the API. ``role`` is ``admin`` or ``user``."""

    name: str
    role: str
    created_at: int
    disabled: bool


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token of a user, without the secret, which is not kept. ``expires_at`` None: never."""

    id: int
    user: str
    label: str
    created_at: int
    last_used_at: int | None
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Exact use over whole days: the sum of amount x time."""

    cluster: str
    leaf: str
    user: str
    kind: str
    amount_ms: int


@dataclass(frozen=True, slots=True)
class Compaction:
    """How many rows a compaction took away, and how many daily sums it wrote or raised."""

    batches: int = 0
    snapshots: int = 0
    jobs: int = 0
    attempts: int = 0
    evictions: int = 0
    audit: int = 0
    spans: int = 0
    rollups: int = 0
    notices: int = 0
    estimates: int = 0


@dataclass(frozen=True, slots=True)
class NoticePersonRow:
    """How somebody wants to be told. ``email``, ``webhook``, ``quiet``, ``zone`` '': none.

    ``kinds`` and ``through`` are JSON lists; ``digest`` 0: each notice at once. ``salt`` makes the webhook's secret.
    ``since``: when they first said so; what happened before is not told.
    """

    user: str
    email: str
    webhook: str
    salt: str
    kinds: str
    through: str
    digest: int
    quiet: str
    zone: str
    since: int
    changed_at: int


@dataclass(frozen=True, slots=True)
class NoticeRow:
    """One notice on its way to one person by one ``channel``, ``email`` or ``webhook``.

    ``key`` is made of what happened, so that it is told once however often the log is read. ``state``: ``timer`` (it
    comes true at ``due_at`` unless something happens before), ``waiting``, ``sent``, ``failed`` (given up, ``error``
    says why), ``dropped`` (there was nobody to tell any more). ``message``: the message that it went into, None before
    the first try; all notices of a message have the same. ``due_at``: not before. ``data`` is JSON.
    """

    key: str
    seq: int
    at: int
    user: str
    channel: str
    kind: str
    job_id: int
    title: str
    body: str
    data: str
    state: str
    due_at: int
    message: str | None = None
    tries: int = 0
    first_try_at: int | None = None
    done_at: int | None = None
    error: str = ""
    id: int = 0
