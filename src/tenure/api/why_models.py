"""What ``GET /v1/jobs/{job}/why`` answers. Ratios are parts per million, null without entitlement."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tenure.api.eta_models import EstimateView
from tenure.api.fields import Time
from tenure.api.models import ReasonView, ReservationView, Response
from tenure.api.story_models import Chapter

Part = Literal["share", "last_day", "ratio", "id", "priority", "person", "seniority"]


class SiblingView(Response):
    """One child of a level. Hours are GPU-hours; ``used_*`` have in them what is still promised (``committed_*``).

    ``share``: of its parent on this cluster today. ``below_last_day``: below its allocation over the last day.
    ``waiting_jobs``: those that passes try to place. ``evictable_gpus``: what jobs that outrank it may evict below it;
    ``outranked``: this job does, with its margin.
    """

    budget: str
    share: float
    ratio_ppm: int | None
    recent_ppm: int | None
    below_last_day: bool
    used_gpu_hours: float
    committed_gpu_hours: float
    entitled_gpu_hours: float
    used_last_day_gpu_hours: float
    entitled_last_day_gpu_hours: float
    waiting_jobs: int
    waiting_gpus: int
    evictable_gpus: int
    outranked: bool


class LevelView(Response):
    """One step of the walk from the root to the job's budget. ``siblings``: all children of ``parent``, in order.

    ``comes_first``: of those with a job that waits, and ``child``, the one towards the job. ``against``: with whom
    ``child`` is compared (null: nobody else waits), and ``by`` which part of rule 5 decides.
    """

    parent: str
    child: str
    comes_first: str
    against: str | None
    by: Part | None
    siblings: list[SiblingView]


class AheadJobView(Response):
    """A job that comes before this one in its budget, and by which part of the order.

    ``person_gpu_hours``: what its person was charged there over the lookback, promises included.
    """

    job: int
    label: str
    user: str
    gpus: int
    priority: int
    submitted_at: Time
    person_gpu_hours: float
    by: Part


class AheadView(Response):
    """What comes before the job in its budget, as things stand; ``first`` lists the first of these jobs."""

    jobs: int
    gpus: int
    person_gpu_hours: float
    first: list[AheadJobView]


class BlockerView(Response):
    """An attempt in the way, and what is free to the job when it, and all that ends before it, is out of the way.

    ``why``: it is protected; or starts, so that ``until`` is the latest possible; or is leaving; or has its unallocated
    turn; or is not outranked (``first``; ``rule``: by what), and ends by its time-out only. ``until`` is null when
    nobody knows.
    """

    attempt: str
    job: int
    label: str
    user: str
    budget: str
    gpus: int
    why: Literal["protected", "starting", "leaving", "turn", "first"]
    rule: Literal["order", "margin", "priority"] | None = None
    until: Time | None
    protected_until: Time | None
    free_gpus: int
    whole_hosts: int


class SpaceView(Response):
    """What the job needs and finds: GPUs, and ``whole_hosts`` among them.

    ``free_gpus``, ``free_hosts``: free to it now, what it may evict (``evictable_gpus``) counted in. ``blocking``: how
    many attempts are in the way; ``blockers`` has the first of them. ``enough_at``: when it fits, as far as is known.
    ``others``: when nobody knows, how many more may end before those, on hosts that it could use.
    """

    gpus: int
    whole_hosts: int
    free_gpus: int
    free_hosts: int
    evictable_gpus: int
    blocking: int
    others: int = 0
    enough_at: Time | None


class PlaceView(Response):
    """The arithmetic of one cluster. ``margin_gpu_hours``: what rule 7 adds for the job.

    ``ahead`` and ``space`` are null where it does not wait.
    """

    cluster: str | None = None
    reason: ReasonView
    margin_gpu_hours: float | None = None
    levels: list[LevelView] = Field(default_factory=list)
    ahead: AheadView | None = None
    space: SpaceView | None = None
    blockers: list[BlockerView] = Field(default_factory=list)


class VictimView(Response):
    """An attempt whose GPUs a claim waits for."""

    attempt: str
    job: int
    label: str
    user: str
    budget: str
    gpus: int
    warn_at: Time
    kill_at: Time


class ClaimingView(Response):
    """``until``: when the last of the victims is gone at the latest, if it goes when it is killed."""

    victims: list[VictimView]
    until: Time


class EvictorView(Response):
    """Who would evict the attempt, were it exposed now, and why it might. ``job`` null: its host is draining.

    ``at``: its hosts are held for that job, and their time comes then.
    """

    job: int | None
    label: str | None
    user: str | None
    budget: str | None
    gpus: int
    reason: ReasonView
    at: Time | None = None


class RunningView(Response):
    """An attempt that holds GPUs. ``latest``: it still starts, so ``protected_until`` is the latest possible.

    ``turn_until``: until when other unallocated jobs leave an unallocated one alone. ``ends_by``: its time-out.
    ``kill_at``: it is being stopped. ``evictors``: the first few, as things stand; nobody when it is empty.
    """

    attempt: str
    hosts: list[str]
    charged: bool
    protected: bool
    protected_until: Time | None
    latest: bool
    turn_until: Time | None
    ends_by: Time | None
    kill_at: Time | None
    evictors: list[EvictorView]


class HelpOption(Response):
    """A change of the job, and what it would bring, tried on the state as it is: ``effect`` goes on with "it would".

    ``options``: the change as `tenure submit` takes it. ``starts_at``: when it has its GPUs at the latest. ``evicts``:
    attempts that would have to go for it. ``beside``: submit it first, and cancel the job when it has started.
    """

    change: str
    effect: str
    starts_at: Time | None = None
    options: str = ""
    evicts: list[str] = Field(default_factory=list)
    beside: bool = False


class Why(PlaceView):
    """Why a job is where it is at ``at``: one plain sentence first, then the arithmetic.

    The fields of a cluster are those of the one where it runs, where hosts are held for it, or that ``reason`` is
    about; ``elsewhere`` has the other clusters that it accepts. Of a job that no pass looks at (held, backing off,
    waiting for others) there is only the reason; of one that has ended the last one. ``story``: what had happened to it
    by ``at``, oldest first.
    """

    job: int
    label: str
    at: Time
    state: str
    sentence: str
    elsewhere: list[PlaceView] = Field(default_factory=list)
    reservation: ReservationView | None = None
    claiming: ClaimingView | None = None
    running: RunningView | None = None
    help: list[HelpOption] = Field(default_factory=list)
    estimate: EstimateView | None = None
    story: list[Chapter] = Field(default_factory=list)
