"""What would become of a submission, as it goes out."""

from __future__ import annotations

from typing import Literal

from tenure.api.fields import Time
from tenure.api.models import Note, ReasonView, Response


class PlannedReservation(Response):
    """Hosts that would be held for it at ``looks_at``, free to it at ``told``; it starts by ``starts_by``."""

    hosts: list[str]
    looks_at: Time
    told: Time
    starts_by: Time


class PlannedEviction(Response):
    """Who would have to go for it: warned at ``warn_at``, killed at ``kill_at``, and why that is allowed."""

    attempt: str
    job: int
    label: str
    user: str
    budget: str
    gpus: int
    reason: ReasonView
    at_risk_gpu_hours: float
    warn_at: Time
    kill_at: Time


class BalanceView(Response):
    """A budget on a cluster over the lookback, in GPU-hours; ``left`` is negative when it is used up.

    ``ratio`` is null without entitlement.
    """

    used: float
    committed: float
    entitled: float
    left: float
    ratio: float | None


class ChargeView(Response):
    """``gpus``: what one job is charged as. ``gpu_hours``: of its ``min_runtime``, and ``total_gpu_hours`` of all jobs.

    A job that runs on is charged for that as well, one that ends before is charged for what it ran.
    """

    gpus: float
    gpu_hours: float
    total_gpu_hours: float


class WarningView(Response):
    """Something to think about before it is submitted; ``code`` is in docs/plan.md."""

    code: str
    text: str


class PlanView(Response):
    """What would happen if it were submitted now; of an array, to its first job. Nothing has been. ``after`` is with
    all of an array.

    ``when``: ``now``; ``after_evictions``: when others have gone for it; ``reserved``: on hosts that would be held for
    it; ``waits``: nobody can say; ``never``: what it was to run after has failed. ``starts_at``: when it has its GPUs
    at the latest, null where that is not known. ``text`` says all that in a sentence. ``reason``: why it starts, or why
    it does not start now.
    """

    at: Time
    name: str
    budget: str
    leaf: str
    user: str
    gpus: int
    replicas: int
    min_runtime_ms: int
    resumable: bool
    clusters: list[str]
    jobs: int
    throttle: int | None = None
    when: Literal["now", "after_evictions", "reserved", "waits", "never"]
    starts_at: Time | None
    text: str
    reason: ReasonView
    cluster: str
    hosts: list[str]
    reservation: PlannedReservation | None
    evictions: list[PlannedEviction]
    charge: ChargeView
    before: BalanceView
    after: BalanceView
    warnings: list[WarningView]
    notes: list[Note]
