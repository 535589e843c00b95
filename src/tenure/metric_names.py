"""All metrics of ``/metrics``: the server exports these, and alert rules and dashboards use no others."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MetricType(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """``buckets``: upper bounds of a histogram, in the unit that the name ends with."""

    name: str
    type: MetricType
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """The names under which Prometheus stores it."""
        if self.type is MetricType.HISTOGRAM:
            return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        return (self.name,)


_WAIT_BUCKETS = (1, 2, 5, 10, 30, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 86400, 259200, 604800)
_WORK_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)

JOBS = Metric("tenure_jobs", MetricType.GAUGE, "Jobs that have not ended, by state.", ("state",))
QUEUED = Metric("tenure_queued", MetricType.GAUGE, "Queued jobs by why they wait.", ("reason",))
GPUS = Metric(
    "tenure_gpus",
    MetricType.GAUGE,
    "GPUs. total: declared; healthy: on hosts that count; charged, unallocated: held by such attempts; "
    "claimed: withheld for a claim; free: healthy and held by nobody; held: on hosts that are held for jobs in turn; "
    "headroom: on hosts that are kept for short contracts; others: used by what Tenure did not start.",
    ("cluster", "kind"),
)
RESERVATIONS = Metric(
    "tenure_reservations", MetricType.GAUGE, "Jobs for which hosts are held until they are free to them.", ("cluster",)
)
BUDGET_USAGE_RATIO = Metric(
    "tenure_budget_usage_ratio",
    MetricType.GAUGE,
    "Used and committed GPU time over what was budgeted, in the lookback. 1 is exactly as budgeted, "
    "below is under-served.",
    ("cluster", "budget"),
)
BUDGET_ALLOCATION = Metric(
    "tenure_budget_allocation",
    MetricType.GAUGE,
    "Effective share of the cluster, 0 to 1: the product of the shares on the budget's path.",
    ("cluster", "budget"),
)
WAIT_SECONDS = Metric(
    "tenure_wait_seconds",
    MetricType.HISTOGRAM,
    "Time from entering the queue to GPUs assigned. debug: min_runtime up to 15 min and up to 8 GPUs; "
    "mid, large: other charged jobs up to and above 64 GPUs; unallocated: min_runtime 0.",
    ("class",),
    _WAIT_BUCKETS,
)
EVICTIONS = Metric("tenure_evictions_total", MetricType.COUNTER, "Attempts stopped against their will.", ("reason",))
PASS_SECONDS = Metric("tenure_pass_seconds", MetricType.HISTOGRAM, "Duration of scheduling passes.", (), _WORK_BUCKETS)
EVENTS = Metric("tenure_events_total", MetricType.COUNTER, "Events that the engine has taken in.", ("kind",))
JOBS_ENDED = Metric("tenure_jobs_ended_total", MetricType.COUNTER, "Jobs that have ended, by final state.", ("state",))
CLOCK_ALARM = Metric(
    "tenure_clock_alarm", MetricType.GAUGE, "1 while a step of the wall clock keeps evictions stopped."
)
PAUSED = Metric("tenure_paused", MetricType.GAUGE, "1 while a person has paused it: starts or evictions.", ("scope",))
HOSTS = Metric("tenure_hosts", MetricType.GAUGE, "Hosts by state.", ("cluster", "state"))
STORE_COMMIT_SECONDS = Metric(
    "tenure_store_commit_seconds",
    MetricType.HISTOGRAM,
    "Duration of the store's commits.",
    (),
    _WORK_BUCKETS,
)
NOTICES_DELIVERED = Metric(
    "tenure_notices_delivered_total", MetricType.COUNTER, "Messages to people that were delivered.", ("channel",)
)
NOTICES_FAILED = Metric(
    "tenure_notices_failed_total",
    MetricType.COUNTER,
    "Messages to people that were given up: refused, or tried for too long.",
    ("channel",),
)
NOTICES_WAITING = Metric(
    "tenure_notices_waiting", MetricType.GAUGE, "Notices on their way, those for a digest or after quiet hours too."
)
NOTICE_AGE_SECONDS = Metric(
    "tenure_notice_age_seconds",
    MetricType.GAUGE,
    "For how long the notice that waits longest could have been delivered; 0 when there is none.",
)
LAST_PASS_TIMESTAMP = Metric(
    "tenure_last_pass_timestamp_seconds",
    MetricType.GAUGE,
    "When the last scheduling pass finished, seconds since the Unix epoch.",
)

METRICS: tuple[Metric, ...] = (
    JOBS,
    QUEUED,
    GPUS,
    RESERVATIONS,
    BUDGET_USAGE_RATIO,
    BUDGET_ALLOCATION,
    WAIT_SECONDS,
    EVICTIONS,
    PASS_SECONDS,
    EVENTS,
    JOBS_ENDED,
    CLOCK_ALARM,
    PAUSED,
    HOSTS,
    STORE_COMMIT_SECONDS,
    NOTICES_DELIVERED,
    NOTICES_FAILED,
    NOTICES_WAITING,
    NOTICE_AGE_SECONDS,
    LAST_PASS_TIMESTAMP,
)
