"""From a committed batch to what there is to tell about it. Pure: what it needs is handed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tenure.core.decisions import (
    AttemptEnded,
    Claim,
    ClaimOpened,
    Evict,
    JobEnded,
    Outcome,
    Plan,
    Requeued,
    ReservationLost,
    Reserve,
    Start,
    Stop,
    Stopping,
    Unreserve,
)
from tenure.core.events import ConfigApplied, Event, Held, ReplicasUp
from tenure.core.lifecycle import JobState
from tenure.core.outcomes import EVICTED
from tenure.core.reasons import Because, Reason
from tenure.notice.kinds import EXPOSED_AHEAD, Kind

Happening = Event | Outcome | Plan
WANTED = frozenset(
    cls.__name__
    for cls in (
        *(AttemptEnded, Claim, ClaimOpened, ConfigApplied, Held, JobEnded, ReplicasUp, Requeued, ReservationLost),
        *(Reserve, Start, Stop, Stopping, Unreserve),
    )
)
"""The types of what matters here; the rest of a batch is not even read."""

TIMERS = (Kind.EXPOSED, Kind.WAITS_LONGER)
"""Kinds that come true at a time unless something happens before."""

_TOLD_ANEW = frozenset({Reason.RESERVED_HOST_LOST, Reason.RESERVATION_DISPLACED, Reason.RESERVATIONS_OFF})
_FAILED_AGAIN = frozenset({Reason.FAILED, Reason.NOT_STARTED, Reason.EXECUTOR_LOST, Reason.START_TIMED_OUT})


@dataclass(frozen=True, slots=True)
class Told:
    """One thing to tell about one job, in whatever way.

    ``because``: the reason that makes its sentence. ``ended``: the job's final state, '' while it lives. ``by``: the
    time that belongs to it: gone by then (will_be_preempted), tried again then (failed), starts by then
    (waits_longer), protected until then (exposed); 0: none. ``gainer``: the job that it makes room for; 0: none.
    ``timer``: it comes true then, unless something happens before; 0: it is true.
    """

    kind: Kind
    job_id: int
    at: int
    because: Because | None = None
    attempt_id: str = ""
    ended: str = ""
    by: int = 0
    gainer: int = 0
    timer: int = 0
    who: str = ""


@dataclass(slots=True)
class Derived:
    """What follows from a batch. ``over``: (kind, job) whose timers are not true any more, before ``told`` counts."""

    told: list[Told] = field(default_factory=list)
    over: set[tuple[str, int]] = field(default_factory=set)
    config: ConfigApplied | None = None

    def add(self, told: Told) -> None:
        self.told.append(told)

    def end(self, kind: Kind, job_id: int) -> None:
        """A timer is over, whether it is in the table or was set earlier in this batch."""
        self.over.add((kind.value, job_id))
        self.told = [t for t in self.told if not (t.timer and t.kind is kind and t.job_id == job_id)]


def derive(happened: Iterable[Happening], protected_until: Mapping[str, int]) -> Derived:
    """What there is to tell. ``protected_until``: until when attempts of ``ReplicasUp`` are protected, ms."""
    found = Derived()
    ended: dict[int, AttemptEnded] = {}
    for item in happened:
        match item:
            case Start():
                _started(found, Told(Kind.STARTED, item.job_id, item.at, item.because, item.attempt_id))
            case ClaimOpened():
                job = job_of(item.attempt_id)
                _started(found, Told(Kind.STARTED, job, item.at, item.because, item.attempt_id))
            case Claim():
                for victim in item.victims:
                    found.add(_warning(item.at, victim))
            case Stop():
                found.add(_warning(item.at, item.victim))
            case Stopping() if item.victim.because.reason in EVICTED:
                found.add(_warning(item.at, item.victim))
            case ReplicasUp():
                _up(found, item, protected_until.get(item.attempt_id))
            case AttemptEnded():
                job = job_of(item.attempt_id)
                ended[job] = item
                found.end(Kind.EXPOSED, job)
            case Requeued():
                _requeued(found, item, ended.get(item.job_id))
            case JobEnded():
                _ended(found, item, ended.get(item.job_id))
            case Reserve():
                found.end(Kind.WAITS_LONGER, item.job_id)
                later = Told(Kind.WAITS_LONGER, item.job_id, item.at, None, by=item.starts_by, timer=item.starts_by)
                found.add(later)
            case Unreserve() | ReservationLost():
                found.end(Kind.WAITS_LONGER, item.job_id)
                if item.because.reason in _TOLD_ANEW:
                    found.add(Told(Kind.WAITS_LONGER, item.job_id, item.at, item.because, gainer=_by_job(item.because)))
            case Held():
                why = Because(Reason.HELD_BY_PERSON, {"by": item.by})
                found.add(Told(Kind.HELD, item.job_id, item.at, why, who=item.by))
            case ConfigApplied():
                found.config = item
    return found


def job_of(attempt_id: str) -> int:
    return int(attempt_id.partition(".")[0])


def _started(found: Derived, told: Told) -> None:
    found.end(Kind.WAITS_LONGER, told.job_id)
    found.add(told)


def _warning(at: int, victim: Evict) -> Told:
    job, why = job_of(victim.attempt_id), victim.because
    return Told(Kind.WILL_BE_PREEMPTED, job, at, why, victim.attempt_id, by=victim.kill_at, gainer=victim.gainer)


def _up(found: Derived, event: ReplicasUp, until: int | None) -> None:
    if until is not None:
        soon = max(event.at, until - EXPOSED_AHEAD)
        job = job_of(event.attempt_id)
        found.add(Told(Kind.EXPOSED, job, event.at, None, event.attempt_id, by=until, timer=soon))


def _requeued(found: Derived, item: Requeued, attempt: AttemptEnded | None) -> None:
    if attempt is None:
        return
    reason, gainer = item.because.reason, _gainer(item.because)
    if reason in EVICTED or reason is Reason.HOST_FAILED:
        found.add(Told(Kind.PREEMPTED, item.job_id, item.at, item.because, attempt.attempt_id, gainer=gainer))
    elif reason in _FAILED_AGAIN:
        again = item.not_before or item.at
        found.add(Told(Kind.FAILED, item.job_id, item.at, item.because, attempt.attempt_id, by=again))


def _ended(found: Derived, item: JobEnded, attempt: AttemptEnded | None) -> None:
    for kind in TIMERS:
        found.end(kind, item.job_id)
    number = attempt.attempt_id if attempt is not None else ""
    who = ""
    if item.state == JobState.PREEMPTED:
        kind = Kind.PREEMPTED
    elif item.state == JobState.SUCCEEDED:
        kind = Kind.ENDED
    elif item.because.reason is Reason.CANCELLED:
        kind, who = Kind.ENDED, str(item.because.numbers.get("by", ""))
    else:
        kind = Kind.FAILED
    gainer = _gainer(item.because)
    found.add(Told(kind, item.job_id, item.at, item.because, number, item.state, gainer=gainer, who=who))


def _gainer(because: Because) -> int:
    gainer = because.numbers.get("gainer")
    return gainer if isinstance(gainer, int) else 0


def _by_job(because: Because) -> int:
    """The job that took the reservation."""
    by = because.numbers.get("by")
    return by if isinstance(by, int) else 0
