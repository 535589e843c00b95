"""Answers of ``tenure.why`` as the API shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tenure.api.job_views import hours, reason_view
from tenure.api.models import JobView, ReservationView
from tenure.api.why_models import (
    AheadJobView,
    AheadView,
    BlockerView,
    ClaimingView,
    EvictorView,
    HelpOption,
    LevelView,
    PlaceView,
    RunningView,
    SiblingView,
    SpaceView,
    VictimView,
    Why,
)
from tenure.core.model import SHARE_ONE
from tenure.why import records
from tenure.why.help import Option
from tenure.why.records import Answer
from tenure.why.sentences import sentence


def why_view(answer: Answer) -> Why:
    """An answer about a live job."""
    held, first, rest = answer.reservation, answer.places[:1], answer.places[1:]
    return Why(
        **{**(_place(first[0]) if first else {}), "reason": reason_view(answer.because)},
        job=answer.job,
        label=answer.label,
        at=answer.at,
        state=answer.state,
        sentence=sentence(answer),
        elsewhere=[PlaceView(**_place(place)) for place in rest],
        reservation=ReservationView(**_of(held, hosts=list(held.hosts))) if held is not None else None,
        claiming=_claiming(answer.claiming) if answer.claiming is not None else None,
        running=_running(answer.running) if answer.running is not None else None,
    )


def help_views(options: Iterable[Option]) -> list[HelpOption]:
    """What would help a job that waits."""
    return [
        HelpOption(
            **_of(option, "change", "effect", "starts_at", "options", "beside"),
            evicts=[victim.evict.attempt_id for victim in option.victims],
        )
        for option in options
    ]


def ended_view(job: JobView, at: int) -> Why:
    """What there is to say about a job that has ended: its last reason."""
    return Why(
        job=job.id, label=job.label, at=at, state=job.state, sentence=job.reason.text, reason=job.reason, cluster=None
    )


def _of(record: Any, *names: str, **changed: Any) -> dict[str, Any]:
    """The fields of a record by name, some of them changed."""
    return {name: getattr(record, name) for name in names or record.__slots__} | changed


def _place(place: records.Place) -> dict[str, Any]:
    space = place.space
    blockers: Iterable[records.Blocker] = space.blockers if space is not None else ()
    return {
        "cluster": place.cluster,
        "reason": reason_view(place.because),
        "margin_gpu_hours": hours(place.margin),
        "levels": [_level(level) for level in place.levels],
        "ahead": _ahead(place.ahead) if place.ahead is not None else None,
        "space": SpaceView(**_of(space)) if space is not None else None,
        "blockers": [BlockerView(**_of(blocker, why=blocker.why.value)) for blocker in blockers],
    }


def _level(level: records.Level) -> LevelView:
    return LevelView(
        parent=level.parent,
        child=level.child,
        comes_first=level.first,
        against=level.against or None,
        by=level.by.value if level.by is not None else None,
        siblings=[_sibling(sibling) for sibling in level.siblings],
    )


def _sibling(sibling: records.Sibling) -> SiblingView:
    same = ("waiting_jobs", "waiting_gpus", "evictable_gpus", "outranked")
    return SiblingView(
        **_of(sibling, *same),
        budget=sibling.path,
        share=sibling.share / SHARE_ONE,
        ratio_ppm=sibling.ratio_ppm if sibling.ratio_ppm >= 0 else None,
        recent_ppm=sibling.recent_ppm if sibling.recent_ppm >= 0 else None,
        below_last_day=sibling.below,
        used_gpu_hours=hours(sibling.used),
        committed_gpu_hours=hours(sibling.committed),
        entitled_gpu_hours=hours(sibling.entitled),
        used_last_day_gpu_hours=hours(sibling.used_recent),
        entitled_last_day_gpu_hours=hours(sibling.entitled_recent),
    )


def _ahead(ahead: records.Ahead) -> AheadView:
    return AheadView(
        jobs=ahead.jobs,
        gpus=ahead.gpus,
        person_gpu_hours=hours(ahead.person_used),
        first=[
            AheadJobView(
                **_of(each, "job", "label", "user", "gpus", "priority"),
                submitted_at=each.submitted,
                person_gpu_hours=hours(each.person_used),
                by=each.by.value,
            )
            for each in ahead.first
        ],
    )


def _claiming(claiming: records.Claiming) -> ClaimingView:
    return ClaimingView(victims=[VictimView(**_of(victim)) for victim in claiming.victims], until=claiming.until)


def _running(running: records.Running) -> RunningView:
    return RunningView(
        **_of(running, hosts=list(running.hosts), evictors=[_evictor(each) for each in running.evictors])
    )


def _evictor(evictor: records.Evictor) -> EvictorView:
    return EvictorView(
        job=evictor.job or None,
        label=evictor.label or None,
        user=evictor.user or None,
        budget=evictor.budget or None,
        gpus=evictor.gpus,
        reason=reason_view(evictor.because),
        at=evictor.at,
    )
