"""What an answer is made of. Times in ms UTC, amounts in thousandths of a GPU, GPUs whole, ratios parts per million."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tenure.core.reasons import Because


class Part(StrEnum):
    """What decides between two siblings, or two jobs of one budget, in the order of rule 5."""

    SHARE = "share"
    """One of the siblings is entitled to nothing, and sorts last."""
    LAST_DAY = "last_day"
    """One is below its allocation over the last day, the other is not."""
    RATIO = "ratio"
    """The lower usage ratio over the lookback."""
    ID = "id"
    """Nothing else differs."""
    PRIORITY = "priority"
    PERSON = "person"
    """The person was charged less in this budget over the lookback."""
    SENIORITY = "seniority"
    """The same person, or one who was charged as much: the older first submission."""


@dataclass(frozen=True, slots=True)
class Sibling:
    """One child of a level, as rule 5 sees it. ``used`` and the like are thousandths of a GPU x ms.

    ``used`` and ``used_recent`` (over the last day) have in them what is still promised, ``committed``. A ratio is -1
    without entitlement. ``below``: below its allocation over the last day. ``evictable_gpus``: what jobs that outrank
    it may evict below it; ``outranked``: the job does, with rule 7's margin. It does not, and there is no question,
    for the child towards the job itself.
    """

    path: str
    share: int
    """Of its parent on this cluster today, grants included, parts per million."""
    used: int
    committed: int
    entitled: int
    used_recent: int
    entitled_recent: int
    ratio_ppm: int
    recent_ppm: int
    below: bool
    waiting_jobs: int
    waiting_gpus: int
    evictable_gpus: int
    outranked: bool


@dataclass(frozen=True, slots=True)
class Level:
    """One step of rule 5's walk down to the job. ``siblings`` are all children of ``parent``, first come first.

    ``first``: of those with a job that waits, and ``child``, who comes first. ``against``: with whom ``child`` is
    compared, which is ``first``, or who comes next when that is ``child`` itself; '' when nobody else waits. ``by``
    decides between the two.
    """

    parent: str
    child: str
    first: str
    against: str
    by: Part | None
    siblings: tuple[Sibling, ...]


@dataclass(frozen=True, slots=True)
class Queued:
    """A job that comes before the one in question in its budget, and by which part of the order.

    ``person_used``: what its person was charged there over the lookback, promises included, thousandths x ms.
    """

    job: int
    label: str
    user: str
    gpus: int
    priority: int
    submitted: int
    person_used: int
    by: Part


@dataclass(frozen=True, slots=True)
class Ahead:
    """What waits before the job in its budget: how many jobs, their GPUs, and the first of them.

    Whoever is placed is charged, so the order among people changes while these start.
    """

    jobs: int
    gpus: int
    person_used: int
    """What the job's own person was charged."""
    first: tuple[Queued, ...]


class Blocking(StrEnum):
    """Why an attempt keeps its GPUs from the job for now."""

    PROTECTED = "protected"
    """Until then; the job may evict it after that, as standings are now."""
    STARTING = "starting"
    """The same; its min_runtime has not begun, so the time is the latest that is possible."""
    LEAVING = "leaving"
    """It is being stopped."""
    TURN = "turn"
    """Unallocated, in its first hour, which other unallocated jobs leave it."""
    FIRST = "first"
    """The job does not outrank it, by the order or by the margin: it ends by its time-out if it has one, not for it."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """An attempt that stands in the way, until when, and what is there for the job then.

    ``rule``: which one keeps what the job may not evict (``Blocking.FIRST``): ``order``, ``margin`` or ``priority``;
    None: that it ends in time for a reservation, and for others. ``until`` None: nobody knows. ``protected_until``:
    known once it runs, for charged ones. ``free_gpus`` and ``whole_hosts``: free to the job as soon as it, and all that
    ends before it, is out of the way; on hosts that let the job in.
    """

    attempt: str
    job: int
    label: str
    user: str
    budget: str
    gpus: int
    why: Blocking
    rule: str | None
    until: int | None
    protected_until: int | None
    free_gpus: int
    whole_hosts: int


@dataclass(frozen=True, slots=True)
class Space:
    """What the job needs of a cluster and what it finds: whole GPUs, and whole hosts among them.

    ``free_gpus`` and ``free_hosts`` count what is free and what it may evict now (``evictable_gpus`` of them), on
    hosts that let it in. ``blockers``: attempts in the way, those that end first come first, at most ``LISTED`` of
    ``blocking``. ``enough_at``: when the job fits, as far as is known; that is now when something else than GPUs keeps
    it. None when nobody knows, or when it would not fit with all gone. ``others``: when nobody knows, how many more are
    on hosts that it could use, of which nobody knows the end either.
    """

    gpus: int
    whole_hosts: int
    free_gpus: int
    free_hosts: int
    evictable_gpus: int
    blockers: tuple[Blocker, ...]
    blocking: int
    others: int
    enough_at: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """One cluster that the job accepts. ``margin``: what rule 7 adds for it, thousandths of a GPU x ms.

    ``ahead`` and ``space`` are None where the job does not wait.
    """

    cluster: str
    because: Because
    margin: int
    levels: tuple[Level, ...]
    ahead: Ahead | None
    space: Space | None


@dataclass(frozen=True, slots=True)
class Held:
    """Hosts that are held for the job (rule 10)."""

    cluster: str
    hosts: tuple[str, ...]
    gpus: int
    made_at: int
    told: int
    starts_by: int


@dataclass(frozen=True, slots=True)
class Victim:
    """An attempt whose GPUs a claim waits for: warned at ``warn_at``, killed at ``kill_at`` at the latest."""

    attempt: str
    job: int
    label: str
    user: str
    budget: str
    gpus: int
    warn_at: int
    kill_at: int


@dataclass(frozen=True, slots=True)
class Claiming:
    """GPUs that are promised: from whom, and until when they have them at the latest."""

    victims: tuple[Victim, ...]
    until: int


@dataclass(frozen=True, slots=True)
class Evictor:
    """Who would evict a running attempt once it is exposed, as things stand, and what would allow it.

    ``job`` 0: nobody gains; its host is draining. ``at``: when its hosts' time comes, if they are held for the job.
    """

    job: int
    label: str
    user: str
    budget: str
    gpus: int
    because: Because
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """An attempt that holds GPUs. ``protected_until`` None: not while it is unallocated.

    ``latest``: it still starts, so that is the latest possible. ``turn_until``: until when other unallocated jobs
    leave an unallocated one alone. ``kill_at``: it is being stopped. ``ends_by``: its time-out.
    """

    attempt: str
    hosts: tuple[str, ...]
    charged: bool
    protected: bool
    protected_until: int | None
    latest: bool
    turn_until: int | None
    ends_by: int | None
    kill_at: int | None
    evictors: tuple[Evictor, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Why a live job is where it is at ``at``.

    ``places``: the clusters that it accepts, the one first where it runs, where hosts are held for it, or whose
    reason is its reason. Empty for a job that no pass looks at (held, backing off, waiting for others).
    """

    job: int
    label: str
    at: int
    state: str
    because: Because
    places: tuple[Place, ...]
    reservation: Held | None
    claiming: Claiming | None
    running: Running | None
