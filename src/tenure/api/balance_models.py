"""A budget's statement as it goes out. GPU-hours are over the lookback; units at the edge: see ``fields``."""

from __future__ import annotations

from tenure.api.fields import Time
from tenure.api.models import Response


class PartsView(Response):
    """What was used and is promised.

    ``settled``: charged by what has ended, less credits; ``running``: charged so far by what holds GPUs; ``committed``:
    protection left of what claims, starts and runs; ``reserved``: promised to reservations. Together they are what
    the usage ratio counts. ``unallocated``: used free of charge, and in none of these.
    """

    settled_gpu_hours: float
    running_gpu_hours: float
    committed_gpu_hours: float
    reserved_gpu_hours: float
    unallocated_gpu_hours: float


class PersonPart(PartsView):
    user: str


class JobPartView(PartsView):
    """``name`` is null when the job's history is gone. ``budget``: where it was charged last."""

    job: int
    label: str
    name: str | None
    user: str
    budget: str


class ChildPart(PartsView):
    """``gone``: no budget any more, or what was charged to the budget itself before it had children."""

    path: str
    implicit: bool = False
    gone: bool = False
    entitled_gpu_hours: float
    left_gpu_hours: float
    ratio: float | None


class LastDay(Response):
    """The same over the last day, which decides first who comes first. ``used``: promises included."""

    used_gpu_hours: float
    entitled_gpu_hours: float
    left_gpu_hours: float
    ratio: float | None


class DayView(Response):
    """A day of the window, counted back from now, which has left it by ``leaves_by``.

    ``used``: charged on that day, less credits, and comes back; ``running``: the part of it that what holds GPUs now
    was charged. ``unused``: negative when more was used than was owed. ``left`` and ``left_going_on``: the balance when
    the day has left, if nothing else is charged and what runs stops at the end of its protection, or goes on.
    """

    start: Time
    end: Time
    leaves_by: Time
    entitled_gpu_hours: float
    used_gpu_hours: float
    running_gpu_hours: float
    unused_gpu_hours: float
    left_gpu_hours: float
    left_going_on_gpu_hours: float
    people: dict[str, float]


class PointView(Response):
    """A moment to come: what has come back by then, what is owed, and what is left under either assumption."""

    at: Time
    back_gpu_hours: float
    entitled_gpu_hours: float
    left_gpu_hours: float
    left_going_on_gpu_hours: float


class StatementView(PartsView):
    """A budget in one cluster.

    ``entitled``: what it is owed for the lookback, which is at least the floor; ``accrued``: what the window holds.
    ``left``: ``entitled`` less settled, running, committed and reserved; negative: over. ``back_at``: when nothing is
    missing any more if nothing else is charged and what runs stops at the end of its protection, and
    ``back_at_going_on`` if it goes on; null when nothing is missing, or not within a lookback from now. ``lapses``:
    unused time of the oldest day, which is lost by ``lapses_by`` unless it is used before.
    """

    allocation_gpus: float
    assumed_until: Time | None = None
    """Before that, inside the window, the cluster had no records, and today's allocation is taken; null: nowhere."""
    entitled_gpu_hours: float
    accrued_gpu_hours: float
    left_gpu_hours: float
    ratio: float | None
    last_day: LastDay
    over: bool
    back_at: Time | None = None
    back_at_going_on: Time | None = None
    lapses_gpu_hours: float
    lapses_by: Time
    days: list[DayView]
    points: list[PointView]
    children: list[ChildPart]
    people: list[PersonPart]
    jobs: list[JobPartView]
    other_jobs: int
    """How many jobs used something and are not listed."""


class BalanceView(Response):
    """A budget's statement, by cluster."""

    path: str
    at: Time
    lookback_ms: int
    clusters: dict[str, StatementView]
