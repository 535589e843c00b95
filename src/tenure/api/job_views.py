"""Jobs, attempts and evictions as the API shows them: stored rows with what is true of live jobs now."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tenure import units, words
from tenure.api.models import (
    ArrayView,
    AttemptView,
    EvictionView,
    JobDetail,
    JobView,
    ReasonView,
    ReservationView,
    RoleView,
    SlotView,
)
from tenure.api.requests import LabelModel
from tenure.core import codec
from tenure.core.explain import Explainer
from tenure.core.lifecycle import JobState
from tenure.core.model import GPU, HOUR, JobSpec, Slots
from tenure.core.reasons import Because, Reason
from tenure.core.state import Attempt, Job, State, StopRecord, protected
from tenure.engine import record
from tenure.engine.engine import Engine
from tenure.store import ArrayRow, AttemptRow, EvictionRow, JobRow

HIDDEN = "(hidden)"


def reason_view(because: Because) -> ReasonView:
    numbers: dict[str, Any] = {key: codec.plain(value) for key, value in because.numbers.items()}
    return ReasonView(code=because.reason.value, numbers=numbers, text=words.sentence(because))


def hours(amount_ms: int) -> float:
    """GPU-hours from thousandths of a GPU x ms."""
    return round(amount_ms / (GPU * HOUR), 6)


def job_views(engine: Engine, rows: Sequence[JobRow], *, fold: bool = False, runs: bool = False) -> list[JobView]:
    """Rows of a listing with the current reason and attempt of live jobs; with ``runs`` all attempts of each.

    ``fold``: a job of an array that has never started stands for all of these.
    """
    live, stale = _live(engine, rows)
    for i in stale:
        rows = [*rows[:i], engine.store.job(rows[i].id) or rows[i], *rows[i + 1 :]]
    # Jobs of an array share theirs, and it may be large.
    specs = {text: _parsed(text) for text in {row.spec for row in rows}}
    views = [JobView(**_fields(row, live.get(row.id), specs[row.spec])) for row in rows]
    arrays = {row.array_id for row in rows if row.array_id is not None} if fold else set()
    indices = engine.store.never_started(arrays) if arrays else {}
    for i, row in enumerate(rows):
        alike = indices.get((row.array_id or 0, bool(row.held)), [])
        if alike[:1] == [row.array_index]:
            views[i] = views[i].model_copy(update={"array_waiting": units.format_indices(alike)})
    stored = engine.store.attempts_of_all([row.id for row in rows]) if runs else {}
    for i, row in enumerate(rows if runs else ()):
        views[i] = views[i].model_copy(update={"runs": _runs(views[i], stored.get(row.id, []), specs[row.spec])})
    return views


def _runs(view: JobView, stored: Iterable[AttemptRow], spec: JobSpec) -> list[AttemptView]:
    """Attempts that had GPUs, the current one as it is now."""
    current = view.attempt
    over = [attempt_view(a, spec) for a in stored if a.started_at is not None]
    if current is None or current.started_at is None:
        return over
    return [run for run in over if run.id != current.id] + [current]


def job_view(engine: Engine, row: JobRow) -> JobView:
    return job_views(engine, [row])[0]


def array_view(engine: Engine, row: ArrayRow) -> ArrayView:
    """An array, and how many of its jobs are in which state."""
    spec = _parsed(row.spec)
    indices = json.loads(row.indices)
    first = engine.store.first_in_array(row.id)
    states = engine.store.array_states(row.id)
    return ArrayView(
        id=row.id,
        name=spec.name,
        user=spec.user,
        budget=first.budget if first is not None else spec.budget,
        indices=units.format_indices(indices),
        count=len(indices),
        throttle=row.throttle or None,
        ended=all(JobState(state).ended for state in states),
        states=states,
    )


def job_detail(engine: Engine, row: JobRow, *, secrets: bool) -> JobDetail:
    """All of one job. ``secrets``: whether the values of its variables are shown."""
    live, stale = _live(engine, [row])
    row = (engine.store.job(row.id) or row) if stale else row
    spec = spec_of(row)
    fields = _fields(row, live.get(row.id), spec)
    attempts = [attempt_view(a, spec) for a in engine.store.attempts_of(row.id)]
    current: AttemptView | None = fields["attempt"]
    if current is not None:
        attempts = [a for a in attempts if a.id != current.id] + [current]
    env = dict(spec.execution.env)
    array = engine.store.array(row.array_id) if row.array_id is not None else None
    return JobDetail(
        **fields,
        array=array_view(engine, array) if array is not None else None,
        grace_ms=spec.grace,
        retries=spec.retries,
        roles=[
            RoleView(
                name=r.name,
                replicas=r.replicas,
                gpus=r.gpus,
                cpus=r.cpus / 1000,
                memory_mib=r.mem,
                command=list(r.command),
            )
            for r in spec.roles
        ],
        labels=[LabelModel(key=w.key, value=w.value, required=w.required) for w in spec.labels],
        env=env if secrets else dict.fromkeys(env, HIDDEN),
        workdir=spec.execution.workdir,
        launch=spec.execution.launch,
        warn_signal=spec.execution.warn_signal,
        attempts=attempts,
        eviction_history=[eviction_view(e) for e in engine.store.evictions(limit=100, job_id=row.id)],
    )


def _live(engine: Engine, rows: Iterable[JobRow]) -> tuple[dict[int, dict[str, Any]], list[int]]:
    """What is true now of those that live, and the positions of rows that have ended since they were read."""
    found: dict[int, dict[str, Any]] = {}
    stale: list[int] = []
    with engine.view() as state:
        explainer = Explainer(state)
        now = max(engine.now(), state.now)
        for i, row in enumerate(rows):
            job = state.jobs.get(row.id)
            if job is None:
                stale += [i] if row.ended_at is None else []
                continue
            attempt = job.attempt
            found[row.id] = {
                "state": job.state.value,
                "budget": job.budget,
                "held_by": job.held_by or None,
                "evictions": job.evictions,
                "priority": job.spec.priority,
                "reason": reason_view(explainer.why(job)),
                "attempt": None if attempt is None else live_attempt_view(state, attempt, now),
                "reservation": reservation_view(state, job),
                "reservations": job.reserved,
                "first_starts_by": job.first_starts_by or None,
            }
            if attempt is not None:
                found[row.id]["cluster"] = attempt.cluster
    return found, stale


def spec_of(row: JobRow) -> JobSpec:
    """As it was submitted."""
    return _parsed(row.spec)


def _parsed(text: str) -> JobSpec:
    return codec.record(JobSpec, json.loads(text))


def _fields(row: JobRow, live: Mapping[str, Any] | None, spec: JobSpec) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "user": row.user,
        "budget": row.budget,
        "state": row.state,
        "ended": live is None and JobState(row.state).ended,
        "charged": row.charged,
        "gpus": row.gpus,
        "replicas": sum(role.replicas for role in spec.roles),
        "timeout_ms": spec.timeout,
        "cluster": row.cluster,
        "clusters": list(spec.clusters),
        "priority": row.priority,
        "min_runtime_ms": row.min_runtime,
        "resumable": spec.contract.resumable,
        "submitted_at": row.submitted_at,
        "first_started_at": row.first_start_at,
        "ended_at": row.ended_at,
        "evictions": row.evictions,
        "restarts": row.restarts,
        "exit_code": row.exit_code,
        "array_id": row.array_id,
        "array_index": row.array_index,
        "reason": reason_view(record.because_of(row.reason)),
        "attempt": None,
        **(live or {}),
    }


def attempt_view(row: AttemptRow, spec: JobSpec) -> AttemptView:
    """An attempt that is over (or that is only stored)."""
    slots = codec.record(tuple[Slots, ...], json.loads(row.slots))
    codes = json.loads(row.exit_codes)
    ended = row.ended_at is not None
    return AttemptView(
        id=row.id,
        number=row.number,
        cluster=row.cluster,
        budget=row.leaf,
        state=row.state,
        charged=row.charged,
        charge_rate=row.amount / GPU,
        min_runtime_ms=row.min_runtime,
        planned_at=row.planned_at,
        started_at=row.started_at,
        running_at=row.running_at,
        ended_at=row.ended_at,
        protected_until=row.protected_until,
        hosts=sorted({slot.host for slot in slots}),
        slots=slot_views(slots, spec),
        reason=reason_view(record.because_of(row.reason)) if ended else None,
        exit_codes=codes,
    )


def live_attempt_view(state: State, attempt: Attempt, now: int) -> AttemptView:
    """An attempt that claims or holds GPUs now."""
    job = state.jobs[attempt.job_id]
    stop = attempt.stop
    return AttemptView(
        id=attempt.id,
        number=attempt.number,
        cluster=attempt.cluster,
        budget=attempt.leaf,
        state=job.state.value,
        charged=attempt.charged,
        charge_rate=attempt.amount / GPU,
        min_runtime_ms=attempt.min_runtime,
        planned_at=attempt.planned_at,
        started_at=attempt.started_at,
        running_at=attempt.running_since,
        protection=protection(attempt, now) if attempt.started_at is not None else None,
        protected_until=attempt.protected_until,
        hosts=attempt.hosts(),
        slots=slot_views(attempt.slots, job.spec),
        stop=reason_view(stop.because) if stop is not None else None,
        kill_at=_kill_at(stop),
    )


def reservation_view(state: State, job: Job) -> ReservationView | None:
    """What is held for a job."""
    held = job.reservation
    if held is None:
        return None
    return ReservationView(
        cluster=held.cluster,
        hosts=list(held.hosts),
        gpus=state.clusters[held.cluster].reservations[job.id].gpus,
        made_at=held.made_at,
        told=held.told,
        starts_by=held.starts_by,
    )


def _kill_at(stop: StopRecord | None) -> int | None:
    return stop.kill_at if stop is not None else None


def protection(attempt: Attempt, now: int) -> Literal["protected", "exposed"]:
    return "protected" if protected(attempt, now) else "exposed"


def slot_views(slots: Sequence[Slots], spec: JobSpec) -> list[SlotView]:
    return [
        SlotView(
            role=spec.roles[slot.role].name,
            replica=slot.replica,
            rank=rank,
            host=slot.host,
            gpus=list(slot.gpus),
            cpus=slot.cpus / 1000,
            memory_mib=slot.mem,
        )
        for rank, slot in enumerate(slots)
    ]


def eviction_view(row: EvictionRow) -> EvictionView:
    numbers = {key: _number(value) for key, value in json.loads(row.numbers).items()}
    return EvictionView(
        id=row.id,
        at=row.at,
        attempt=row.attempt_id,
        job=row.job_id,
        budget=row.victim_leaf,
        gainer=row.gainer or None,
        gainer_budget=row.gainer_leaf or None,
        reason=reason_view(Because(Reason(row.reason), numbers)),
        gained_gpu_hours=hours(row.gained),
        at_risk_gpu_hours=hours(row.at_risk),
    )


def _number(value: Any) -> Any:
    return tuple(_number(item) for item in value) if isinstance(value, list) else value
