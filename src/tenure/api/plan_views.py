"""Plans of submissions as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tenure.api.budget_views import ratio_of
from tenure.api.job_views import hours, reason_view
from tenure.api.models import Note
from tenure.api.plan_models import (
    BalanceView,
    ChargeView,
    PlannedEviction,
    PlannedReservation,
    PlanView,
    WarningView,
)
from tenure.core.decisions import Claim, Reserve, Start
from tenure.core.model import GPU, Array
from tenure.core.reasons import Reason
from tenure.why.mistakes import Warned
from tenure.why.plan import Balance, Planned, Victim

When = Literal["now", "after_evictions", "reserved", "waits", "never"]


def plan_view(planned: Planned, array: Array | None, warned: Sequence[Warned], notes: Sequence[Note]) -> PlanView:
    """``array``: of which it is the first job."""
    spec, plan = planned.spec, planned.plan
    jobs = len(array.indices) if array is not None else 1
    return PlanView(
        at=planned.now,
        name=spec.name,
        budget=spec.budget,
        leaf=planned.leaf,
        user=spec.user,
        gpus=spec.gpus,
        replicas=sum(role.replicas for role in spec.roles),
        min_runtime_ms=spec.contract.min_runtime,
        resumable=spec.contract.resumable,
        clusters=list(spec.clusters),
        jobs=jobs,
        throttle=array.throttle or None if array is not None else None,
        when=_when(planned),
        starts_at=planned.starts_at,
        text=planned.text,
        reason=reason_view(planned.because),
        cluster=planned.cluster,
        hosts=list(planned.hosts),
        reservation=_reservation(planned, plan) if isinstance(plan, Reserve) else None,
        evictions=[_eviction(victim) for victim in planned.victims] if isinstance(plan, Claim) else [],
        charge=ChargeView(
            gpus=planned.amount / GPU, gpu_hours=hours(planned.charge), total_gpu_hours=hours(planned.promise)
        ),
        before=_balance(planned.balance),
        after=_balance(planned.after),
        warnings=[WarningView(code=each.code.value, text=each.text) for each in warned],
        notes=list(notes),
    )


def _when(planned: Planned) -> When:
    if planned.because.reason is Reason.DEPENDENCY_FAILED:
        return "never"
    match planned.plan:
        case Start():
            return "now"
        case Claim():
            return "after_evictions"
        case Reserve():
            return "reserved"
    return "waits"


def _reservation(planned: Planned, plan: Reserve) -> PlannedReservation:
    looks_at, late = planned.looks_at, max(0, planned.looks_at - plan.told)
    return PlannedReservation(
        hosts=list(plan.hosts), looks_at=looks_at, told=plan.told + late, starts_by=plan.starts_by + late
    )


def _eviction(victim: Victim) -> PlannedEviction:
    evict = victim.evict
    return PlannedEviction(
        attempt=evict.attempt_id,
        job=victim.job_id,
        label=victim.job,
        user=victim.user,
        budget=victim.budget,
        gpus=victim.gpus,
        reason=reason_view(victim.because),
        at_risk_gpu_hours=hours(evict.at_risk),
        warn_at=evict.warn_at,
        kill_at=evict.kill_at,
    )


def _balance(balance: Balance) -> BalanceView:
    figures = balance.figures
    return BalanceView(
        used=hours(balance.used),
        committed=hours(balance.committed),
        entitled=hours(balance.entitled),
        left=hours(balance.left),
        ratio=ratio_of(figures.used, figures.entitled, figures.denominator),
    )
