"""``/metrics``: gauges are read from the state at each scrape, counters and histograms follow the commits."""

from __future__ import annotations

import re
from collections import Counter as Count
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tenure import metric_names as names
from tenure.api.cluster_views import cluster_status, count_waiting
from tenure.core.decisions import ClaimOpened, JobEnded, Requeued, Start
from tenure.core.events import PauseScope, Submitted
from tenure.core.fairshare import Standing
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import MINUTE, HostState, JobSpec
from tenure.core.state import Job, State
from tenure.engine import record
from tenure.engine.clock import wall_ms
from tenure.engine.engine import Engine, StepReport
from tenure.notice.courier import Tally
from tenure.notice.kinds import Channel

disable_created_metrics()  # type: ignore[no-untyped-call]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_Rows = Iterator[tuple[tuple[str, ...], float]]


def wait_class(spec: JobSpec) -> str:
    """The size class under which a job's wait is counted."""
    if not spec.charged:
        return "unallocated"
    if spec.gpus <= 8 and spec.contract.min_runtime <= 15 * MINUTE:
        return "debug"
    return "mid" if spec.gpus <= 64 else "large"


class Exporter:
    """All metrics of one engine."""

    def __init__(self, engine: Engine, notices: Tally) -> None:
        self._engine = engine
        self._registry = CollectorRegistry()
        self._registry.register(_Gauges(engine))
        self._registry.register(_Notices(notices))
        self._waits = self._histogram(names.WAIT_SECONDS)
        self._passes = self._histogram(names.PASS_SECONDS)
        self._commits = self._histogram(names.STORE_COMMIT_SECONDS)
        self._evictions = self._counter(names.EVICTIONS)
        self._events = self._counter(names.EVENTS)
        self._ended = self._counter(names.JOBS_ENDED)
        self._queued_since: dict[int, int] = {}
        with engine.view() as state:
            for job in state.jobs.values():
                # When a requeued job came back is not known any more after a restart: it is left out.
                if job.state is JobState.QUEUED and not job.attempts and not _waits_for_others(state, job):
                    self._queued_since[job.id] = job.submitted
        engine.observers.append(self._committed)

    def scrape(self) -> bytes:
        return generate_latest(self._registry)

    def _histogram(self, metric: names.Metric) -> Histogram:
        return Histogram(metric.name, metric.help, metric.labels, registry=self._registry, buckets=metric.buckets)

    def _counter(self, metric: names.Metric) -> Counter:
        return Counter(metric.name, metric.help, metric.labels, registry=self._registry)

    def _committed(self, report: StepReport) -> None:
        """Called in the engine's thread after each commit."""
        self._passes.observe(report.pass_seconds)
        self._commits.observe(report.commit_seconds)
        for event in report.events:
            self._events.labels(_snake(type(event).__name__)).inc()
            if isinstance(event, Submitted):
                self._submitted(event, report.at)
        for decision in (*report.result.outcomes, *report.result.plans):
            match decision:
                case Start(job_id=job, at=at):
                    self._started(job, at)
                case ClaimOpened(attempt_id=attempt, at=at):
                    self._started(int(attempt.partition(".")[0]), at)
                case Requeued(job_id=job, at=at):
                    self._queued_since[job] = at
                case JobEnded(job_id=job, state=state):
                    self._ended.labels(state).inc()
                    self._queued_since.pop(job, None)
        for _, victim in record.evictions(report.result):
            self._evictions.labels(victim.because.reason.value).inc()

    def _submitted(self, event: Submitted, at: int) -> None:
        """What waits for other jobs does not queue yet: ``_started`` knows since when it did."""
        count = len(event.array.indices) if event.array is not None else 1
        with self._engine.view() as state:
            for job_id in range(event.job_id, event.job_id + count):
                job = state.jobs.get(job_id)
                if job is None or not _waits_for_others(state, job):
                    self._queued_since[job_id] = at

    def _started(self, job_id: int, at: int) -> None:
        since = self._queued_since.pop(job_id, None)
        with self._engine.view() as state:
            job = state.jobs.get(job_id)
        if since is None and job is not None and job.starts == 1:
            since = job.queued_at
        if since is not None and job is not None:
            self._waits.labels(wait_class(job.spec)).observe(max(0, at - since) / 1000)


def _waits_for_others(state: State, job: Job) -> bool:
    return job.behind or job.submission in state.pending


class _Gauges(Collector):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[GaugeMetricFamily]:
        with self._engine.view() as state:
            families = [_family(metric, rows(state)) for metric, rows in _FROM_STATE]
        yield from families
        # A pass that had nothing to decide is one too: an idle server is not a stuck one.
        yield _family(names.LAST_PASS_TIMESTAMP, iter([((), self._engine.now() / 1000)]))

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing is read at registration."""
        return iter(())


class _Notices(Collector):
    """What the thread that delivers has counted."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        tally = self._tally
        for metric, counts in ((names.NOTICES_DELIVERED, tally.delivered), (names.NOTICES_FAILED, tally.failed)):
            family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
            for channel in Channel:
                family.add_metric((channel.value,), counts[channel.value])
            yield family
        oldest = tally.oldest
        age = 0.0 if oldest is None else max(0, wall_ms() - oldest) / 1000
        yield _family(names.NOTICES_WAITING, iter([((), float(tally.waiting))]))
        yield _family(names.NOTICE_AGE_SECONDS, iter([((), age)]))

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing is read at registration."""
        return iter(())


def _family(metric: names.Metric, rows: _Rows) -> GaugeMetricFamily:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in rows:
        family.add_metric(labels, value)
    return family


def _jobs(state: State) -> _Rows:
    counts = Count(job.state for job in state.jobs.values())
    return (((s.value,), counts[s]) for s in JobState if not s.ended)


def _queued(state: State) -> _Rows:
    return (((reason.value,), count) for reason, count in sorted(count_waiting(state).items()))


def _gpus(state: State) -> _Rows:
    for name, cluster in state.clusters.items():
        status = cluster_status(state, cluster)
        for kind, value in (
            ("total", status.gpus),
            ("healthy", status.healthy_gpus),
            ("charged", status.charged_gpus),
            ("unallocated", status.unallocated_gpus),
            ("claimed", status.claimed_gpus),
            ("free", status.free_gpus),
            ("held", status.held_gpus),
            ("headroom", status.headroom_gpus),
            ("others", status.others_gpus),
        ):
            yield (name, kind), value


def _reservations(state: State) -> _Rows:
    return (((name,), len(cluster.reservations)) for name, cluster in state.clusters.items())


def _ratios(state: State) -> _Rows:
    for name, cluster in state.clusters.items():
        standing = Standing(cluster.ledger, state.the_tree(), state.policy, Kind.CHARGED, state.now)
        for path in state.the_tree().nodes:
            figures = standing.figures(path)
            if figures.entitled:
                yield (name, path), figures.used * figures.denominator / figures.entitled


def _allocations(state: State) -> _Rows:
    tree = state.the_tree()
    for name, cluster in state.clusters.items():
        for path in tree.nodes:
            yield (name, path), cluster.ledger.account(path).allocation / tree.denominator(path)


def _hosts(state: State) -> _Rows:
    for name, cluster in state.clusters.items():
        counts = Count(host.state for host in cluster.hosts.values())
        for host_state in HostState:
            yield (name, host_state.value), counts[host_state]


def _paused(state: State) -> _Rows:
    yield (PauseScope.STARTS.value,), float(bool(state.paused_starts))
    yield (PauseScope.EVICTIONS.value,), float(bool(state.paused_evictions))


def _alarm(state: State) -> _Rows:
    yield (), float(state.clock_alarm)


_FROM_STATE: tuple[tuple[names.Metric, Callable[[State], _Rows]], ...] = (
    (names.JOBS, _jobs),
    (names.QUEUED, _queued),
    (names.GPUS, _gpus),
    (names.RESERVATIONS, _reservations),
    (names.BUDGET_USAGE_RATIO, _ratios),
    (names.BUDGET_ALLOCATION, _allocations),
    (names.HOSTS, _hosts),
    (names.PAUSED, _paused),
    (names.CLOCK_ALARM, _alarm),
)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
