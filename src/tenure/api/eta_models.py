"""What ``GET /v1/jobs/{job}/eta`` answers."""

from __future__ import annotations

from tenure.api.fields import Time
from tenure.api.models import Response


class EstimateView(Response):
    """When a job starts, as of ``made_at``: with ``percent`` percent between ``low`` and ``high``, about ``likely``.

    ``likely`` or ``high`` null: later than ``until``. ``age_ms``: how old the estimate is.
    """

    made_at: Time
    age_ms: int
    low: Time
    likely: Time | None
    high: Time | None
    until: Time
    percent: int


class PastEstimatesView(Response):
    """How good past estimates of the same size class were: ``count`` of those whose job has started, ``inside`` of them
    within their range.

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
