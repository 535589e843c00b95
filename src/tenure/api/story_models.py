"""The story of a job, chapter by chapter, as ``GET /v1/jobs/{job}/why`` tells it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tenure.api.fields import Time
from tenure.api.models import ReasonView, Response


class ChapterBase(Response):
    """Something that happened at ``at``; ``text`` says it in plain words."""

    at: Time
    text: str


class SubmittedChapter(ChapterBase):
    """``min_runtime_ms`` 0: unallocated."""

    kind: Literal["submitted"] = "submitted"
    user: str
    budget: str
    gpus: int
    min_runtime_ms: int
    resumable: bool


class WaitedChapter(ChapterBase):
    """``until`` null: it waits still, for ``reason``; else that is the reason halfway, if ``reasons`` were asked for.

    ``claimed_at``: since when others had to release its GPUs. ``attempt``: the one that ended the wait.
    """

    kind: Literal["waited"] = "waited"
    until: Time | None
    claimed_at: Time | None
    attempt: str | None
    reason: ReasonView | None


class ClaimLostChapter(ChapterBase):
    """GPUs were promised to it from ``planned_at`` on, and then were not."""

    kind: Literal["claim_lost"] = "claim_lost"
    attempt: str
    planned_at: Time
    reason: ReasonView


class StartedChapter(ChapterBase):
    """GPUs were assigned; all replicas ran from ``running_at`` on. ``evicted``: the attempts that went for it.

    ``charge_rate`` is in GPUs. ``reason`` is null when the log does not reach back to then.
    """

    kind: Literal["started"] = "started"
    attempt: str
    cluster: str
    hosts: list[str]
    gpus: int
    charge_rate: float
    charged: bool
    planned_at: Time
    running_at: Time | None
    protected_until: Time | None
    reason: ReasonView | None
    evicted: list[str]


class ExposedChapter(ChapterBase):
    """Its protection was over, and it went on."""

    kind: Literal["exposed"] = "exposed"
    attempt: str
    min_runtime_ms: int


class GainerView(Response):
    """The job that it was evicted for. ``user`` is null when no more is kept of it."""

    job: int
    label: str
    user: str | None
    budget: str


class EvictedChapter(ChapterBase):
    """Its eviction was decided, by the rule of ``reason`` with the ratios of then, or its host failed.

    ``gained_gpu_hours``: what the gainer was promised on its GPUs. ``at_risk_gpu_hours``: work since the last
    checkpoint then, ``lost_gpu_hours``: at its end, at most (null: still running, or not kept). Warned at
    ``warned_at``, to be killed at ``kill_at``, gone at ``released_at``.
    """

    kind: Literal["evicted"] = "evicted"
    attempt: str
    gainer: GainerView | None
    reason: ReasonView
    gained_gpu_hours: float
    at_risk_gpu_hours: float
    lost_gpu_hours: float | None
    warned_at: Time | None
    kill_at: Time | None
    released_at: Time | None


class LeftChapter(ChapterBase):
    """An attempt has ended. ``used_gpu_hours``: what it occupied; ``credited_gpu_hours``: given back for a fault."""

    kind: Literal["left"] = "left"
    attempt: str
    started_at: Time
    gpus: int
    reason: ReasonView
    exit_codes: list[int]
    charged: bool
    used_gpu_hours: float
    credited_gpu_hours: float


class TotalsView(Response):
    """What came of the job. ``charged_gpu_hours`` is less credits. ``lost_gpu_hours``: work that evictions and failed
    hosts cost at most; without what is not kept any more when ``lost_known`` is false.
    """

    attempts: int
    evictions: int
    ran_ms: int
    waited_ms: int
    charged_gpu_hours: float
    unallocated_gpu_hours: float
    lost_gpu_hours: float
    lost_known: bool


class EndedChapter(ChapterBase):
    """The job was over."""

    kind: Literal["ended"] = "ended"
    state: str
    reason: ReasonView
    exit_code: int | None
    gpus: int
    totals: TotalsView


Chapter = Annotated[
    SubmittedChapter
    | WaitedChapter
    | ClaimLostChapter
    | StartedChapter
    | ExposedChapter
    | EvictedChapter
    | LeftChapter
    | EndedChapter,
    Field(discriminator="kind"),
]
