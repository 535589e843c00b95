"""What ``GET /v1/jobs/{job}/eta`` answers."""

from __future__ import annotations

from tenure.api.fields import Time
from tenure.api.models import Response


class EstimateView(Response):
    """When a job starts, as of ``made_at``: with ``percent`` percent between ``low`` and ``high``, about ``likely``.

    ``likely`` or ``high`` null: later than ``until``. ``age_ms``: how old the estimate is. ``latest``: whatever was
    estimated, it starts by then, as the job claims hosts that are being emptied, or has a reservation; null for others.
    """

    made_at: Time
    age_ms: int
    low: Time
    likely: Time | None
    high: Time | None
    until: Time
    latest: Time | None = None
    percent: int


class PastEstimatesView(Response):
    """How good past estimates of the same size class were: ``count`` of those that are a day old and whose job has
    started, ``inside`` of them within their range.

    ``median_error_ms``: half of the starts were closer to ``likely`` than that; null without any.
    """

    size_class: str
    count: int
    inside: int
    inside_percent: float | None
    median_error_ms: int | None


class EtaView(Response):
    """``estimate`` null: there is none (yet), and ``text`` says why. ``text``: all of it in one or two sentences."""

    job: int
    label: str
    state: str
    estimate: EstimateView | None
    past: PastEstimatesView
    text: str
