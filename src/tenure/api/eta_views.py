"""When a job starts: the newest estimate, and how good such estimates were."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tenure import units, words
from tenure.api.eta_models import EstimateView, EtaView, PastEstimatesView
from tenure.api.job_views import spec_of
from tenure.api.models import JobView
from tenure.core.model import JobSpec
from tenure.engine.engine import Engine
from tenure.forecast.ranges import JUDGED
from tenure.forecast.sorts import size_class
from tenure.store import EstimateRow, JobRow

_JUDGED = 500
"""Past estimates that are counted at most, the newest."""
WAITING = ("queued", "claiming")


def estimate_view(row: EstimateRow, now: int) -> EstimateView:
    return EstimateView(
        made_at=row.made_at,
        age_ms=max(0, now - row.made_at),
        low=row.low,
        likely=row.likely,
        high=row.high,
        until=row.until,
        percent=row.percent,
    )


def newest_estimate(engine: Engine, job_id: int, state: str) -> EstimateView | None:
    """The newest one of a job that waits; None for others, and before there is one."""
    row = engine.store.newest_estimate(job_id) if state in WAITING else None
    return None if row is None or row.started_at is not None else estimate_view(row, engine.now())


def eta(engine: Engine, row: JobRow, view: JobView) -> EtaView:
    """``view``: the job as it is now."""
    spec = spec_of(row)
    found = newest_estimate(engine, row.id, view.state) if not view.held_by else None
    past = past_estimates(engine, spec)
    return EtaView(
        job=row.id,
        label=view.label,
        state=view.state,
        estimate=found,
        past=past,
        text=f"{_when(engine, view, found)} {_how_good(past)}",
    )


def past_estimates(engine: Engine, spec: JobSpec) -> PastEstimatesView:
    """How good the newest were that were made of jobs of this size class and have come true."""
    name, now = size_class(spec), engine.now()
    rows = engine.store.past_estimates(now - JUDGED, now + 1, name, _JUDGED, started=True)
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
    if found is None and not engine.config.server.estimates:
        return "No estimate: the server makes none (estimates = 0)."
    if found is None:
        return "No estimate yet."
    now = found.made_at + found.age_ms
    if found.high is None:
        when = f"Not before {_ahead(found.low, now)}, and maybe later than {_ahead(found.until, now)}"
    else:
        when = f"Between {_ahead(found.low, now)} and {_ahead(found.high, now)}"
    likely = f", most likely about {_ahead(found.likely, now)}" if found.likely is not None else ""
    return f"{when} from now{likely}."


def _ahead(at: int, now: int) -> str:
    return rounded(max(0, at - now))


def rounded(ms: int) -> str:
    """A length of which the seconds do not matter: whole minutes, from an hour on steps of five."""
    step = 1000 if ms < 60_000 else 60_000 if ms < 3_600_000 else 300_000
    return units.format_duration((ms + step // 2) // step * step)


def _how_good(past: PastEstimatesView) -> str:
    if not past.count or past.median_error_ms is None:
        return f"No estimate of a {past.size_class} job has come true yet, so nobody knows how good it is."
    return (
        f"Of {past.count} past estimates of {past.size_class} jobs {past.inside} came true "
        f"({past.inside_percent:g} %); half were off by less than {rounded(past.median_error_ms)}."
    )
