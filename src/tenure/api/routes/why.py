"""Why a job is where it is, or was at a past moment, and what has happened to it so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from tenure import units
from tenure.api import problems
from tenure.api.context import NO_CONTROL, Caller, History, JobId, Server, job_of
from tenure.api.eta_views import newest_estimate
from tenure.api.job_views import job_view
from tenure.api.story_views import story_view
from tenure.api.why_models import Why
from tenure.api.why_views import ended_view, help_views, why_view
from tenure.core import explain
from tenure.core.reasons import Because, Reason, Refusal
from tenure.core.state import State
from tenure.engine.engine import Engine
from tenure.engine.past import Past
from tenure.store import JobRow
from tenure.why import Answer, answer
from tenure.why.help import Option, help_for
from tenure.why.story import story, with_reasons
from tenure.why.telling import Hope, summary

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

Moment = Annotated[
    str | None,
    Query(max_length=64, pattern=NO_CONTROL, description="as of then: RFC 3339, or how long ago, like 2h30m"),
]


Reasons = Annotated[bool, Query(description="with what held it up halfway through its longest waits")]


@router.get("/{job_id}/why")
def why(
    job_id: JobId, engine: Server, past: History, _user: Caller, at: Moment = None, reasons: Reasons = False
) -> Why:
    """Why it waits, or how safe it is where it runs: one sentence, the arithmetic behind it, and its story so far.

    With ``at``: as it was then, for as long as the log reaches back.
    """
    row = job_of(engine, job_id)
    now = engine.present()  # the wall clock may be far from it, after a step
    if at is not None:
        then = _moment(at, row, now)
        # A state that has to be read takes its time, and holds nothing up.
        over = row.ended_at is not None and row.ended_at <= then <= now
        found, options = (None, ()) if over else _answer(past.state_at(then, now), job_id)
    else:
        with engine.view() as state:  # the engine waits meanwhile: words are made outside
            found, options = _answer(state, job_id)
        then = found.at if found is not None else engine.now()
    view = told(engine, job_id, found, then, Asking(past, job_id, now) if reasons else None)
    more: dict[str, object] = {"help": help_views(options)}
    if at is None and found is not None:
        more["estimate"] = newest_estimate(engine, job_id, found.state)
    return view.model_copy(update=more)


def _moment(text: str, row: JobRow, now: int) -> int:
    """A moment of a job's life. Raises Failed and Refusal."""
    try:
        at = units.parse_moment(text, now)
    except units.UnitError as error:
        raise problems.bad("at", text, error.fix) from error
    if at < row.submitted_at:
        fix = f"job {row.id} was submitted at {units.format_time(row.submitted_at)}: ask for then, or later"
        raise Refusal(Reason.BAD_VALUE, "at", text, fix)
    return at


def _answer(state: State, job_id: int) -> tuple[Answer | None, tuple[Option, ...]]:
    """The answer, and what would help; None for a job that does not live."""
    job = state.jobs.get(job_id)
    return (answer(state, job), help_for(state, job)) if job is not None else (None, ())


@dataclass(slots=True)
class Asking:
    """The reason of a job at past moments, from the log."""

    past: Past
    job_id: int
    now: int
    busy: bool = False
    """Others look at the past: this is asked no more."""

    def __call__(self, at: int) -> Because | None:
        """None when the log does not reach back to then, and while others look: the rest of the answer is there."""
        if self.busy:
            return None
        try:
            state = self.past.state_at(at, self.now)
        except Refusal:
            return None
        except TimeoutError:
            self.busy = True
            return None
        job = state.jobs.get(self.job_id)
        return explain.why(state, job) if job is not None else None


def told(engine: Engine, job_id: int, found: Answer | None, at: int, asking: Asking | None = None) -> Why:
    """An answer, None for a job that has ended, with the story as of ``at``, ms."""
    view = why_view(found) if found is not None else ended_view(job_view(engine, job_of(engine, job_id)), at)
    tale = story(engine.store, job_id, at, found)
    if tale is None:
        return view
    if asking is not None:
        tale = with_reasons(tale, asking)
    sentence = summary(tale, _hope(found)) or view.sentence
    return view.model_copy(update={"story": story_view(tale), "sentence": sentence})


def _hope(found: Answer | None) -> Hope:
    if found is None:
        return Hope()
    ahead = found.places[0].ahead if found.places else None
    space = found.places[0].space if found.places else None
    return Hope(
        place=ahead.jobs + 1 if ahead is not None else None,
        room_at=space.enough_at if space is not None else None,
        starts_by=found.reservation.starts_by if found.reservation is not None else None,
    )
