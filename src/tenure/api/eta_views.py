"""When a job starts: the newest estimate, and how good such estimates were."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tenure import units, words
from tenure.api.eta_models import EstimateView, EtaView, PastEstimatesView
from tenure.api.eta_shown import shown
from tenure.api.job_views import spec_of
from tenure.api.models import JobView
from tenure.core import explain
from tenure.core.lifecycle import JobState
from tenure.core.model import SECOND, JobSpec
from tenure.core.reasons import Reason
from tenure.core.state import Job, State
from tenure.engine.engine import Engine
from tenure.forecast.ranges import JUDGED, SETTLED
from tenure.forecast.sorts import could_start, size_class
from tenure.store import EstimateRow, JobRow

_JUDGED = 500
"""Past estimates that are counted at most, the newest."""
WAITING = ("queued", "claiming")


def estimate_view(row: EstimateRow, now: int, latest: int | None = None) -> EstimateView:
    return EstimateView(
        made_at=row.made_at,
        age_ms=max(0, now - row.made_at),
        low=row.low,
        likely=row.likely,
        high=row.high,
        until=row.until,
        latest=latest,
        percent=row.percent,
    )


def newest_estimate(engine: Engine, job_id: int, state: str) -> EstimateView | None:
    """The newest one of a job that could start by itself; None for others, and before there is one."""
    row = engine.store.newest_estimate(job_id) if state in WAITING else None
    if row is None or row.started_at is not None:
        return None
    with engine.view() as live:
        job = live.jobs.get(job_id)
        if job is None or not could_start(live, job):
            return None
        latest = _latest(live, job)
    return estimate_view(row, engine.now(), latest)


def _latest(state: State, job: Job) -> int | None:
    """When a job has its GPUs at the latest, by what is decided already."""
    if job.state is JobState.CLAIMING:
        return int(str(explain.why(state, job).numbers["kill_at"]))
    return job.reservation.starts_by if job.reservation is not None else None


def eta(engine: Engine, row: JobRow, view: JobView) -> EtaView:
    """``view``: the job as it is now."""
    spec = spec_of(row)
    found = newest_estimate(engine, row.id, view.state)
    past = past_estimates(engine, spec)
    return EtaView(
        job=row.id,
        label=view.label,
        state=view.state,
        estimate=found,
        past=past,
        text=f"{_when(engine, view, found)} {_how_good(past)}" if view.state in WAITING else _when(engine, view, found),
    )


def past_estimates(engine: Engine, spec: JobSpec) -> PastEstimatesView:
    """How good the newest were that were made of jobs of this size class and whose jobs have started since.

    Only those that are a day old count: of younger ones it is mostly short waits whose end is known.
    """
    name, now = size_class(spec), engine.now()
    rows = engine.store.past_estimates(now - JUDGED, now - SETTLED, name, _JUDGED, started=True)
    inside = sum(_inside(row) for row in rows)
    return PastEstimatesView(
        size_class=name,
        count=len(rows),
        inside=inside,
        inside_percent=round(100 * inside / len(rows), 1) if rows else None,
        median_error_ms=_median_error(rows),
    )


def _inside(row: EstimateRow) -> bool:
    assert row.started_at is not None
    return row.low <= row.started_at and (row.high is None or row.started_at <= row.high)


def _median_error(rows: Sequence[EstimateRow]) -> int | None:
    """What was only said to be later than something is off by how much earlier it was."""
    errors = []
    for row in rows:
        assert row.started_at is not None
        if row.likely is not None:
            errors.append(abs(row.started_at - row.likely))
        else:
            errors.append(max(0, row.until - row.started_at))
    return int(median(errors)) if errors else None


# ---- in words


def _when(engine: Engine, view: JobView, found: EstimateView | None) -> str:
    if view.state not in WAITING:
        return f"Job {view.label} does not wait: it {words.being(view.state)}."
    if view.held_by:
        return f"No estimate: job {view.label} is held by {view.held_by}."
    if view.reason.code in (Reason.WAITING_THROTTLE, Reason.WAITING_DEPENDENCY):
        return f"No estimate: {view.reason.text[:1].lower()}{view.reason.text[1:]}"
    if found is None and not engine.config.server.estimates:
        return "No estimate: the server makes none (estimates = 0)."
    if found is None:
        return "No estimate yet."
    return _range(found, found.made_at + found.age_ms)


def _range(found: EstimateView, now: int) -> str:
    told = shown(found, now)
    if told.passed is not None:
        return f"It should have started by {words.moment(told.passed)}, by the estimate of {rounded(found.age_ms)} ago."
    if told.high is None:
        begin = "Now or later" if told.low == now else f"Not before {_ahead(told.low, now)}"
        when = f"{begin}, and maybe later than {_ahead(told.until, now)} from now"
    elif told.high - now < SECOND:
        return "At any moment."
    else:
        when = f"Between {_ahead(told.low, now)} and {_ahead(told.high, now)} from now"
    likely = f", most likely about {_ahead(told.likely, now)}" if told.likely is not None else ""
    return f"{when}{likely}."


def _ahead(at: int, now: int) -> str:
    return rounded(at - now) if at > now else "now"


def rounded(ms: int) -> str:
    """A length of which the seconds do not matter: whole minutes, from an hour on steps of five."""
    step = 1000 if ms < 60_000 else 60_000 if ms < 3_600_000 else 300_000
    return units.format_duration((ms + step // 2) // step * step)


def _how_good(past: PastEstimatesView) -> str:
    if not past.count or past.median_error_ms is None:
        return (
            f"No estimate of a {past.size_class} job that is a day old has come true yet: nobody knows how good it is."
        )
    return (
        f"Of {past.count} past estimates of {past.size_class} jobs {past.inside} came true "
        f"({past.inside_percent:g} %); half were off by less than {rounded(past.median_error_ms)}."
    )
