"""What is told, in words: a title, a few sentences, and the same as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure import units, words
from tenure.core import codec
from tenure.core.lifecycle import JobState
from tenure.core.reasons import Because
from tenure.notice.derive import Told
from tenure.notice.kinds import Kind
from tenure.store.rows import JobRow

_NAME = 60


def label(job: JobRow) -> str:
    """What people call a job: ``12``, or ``12_3`` in an array."""
    return str(job.id) if job.array_id is None else f"{job.array_id}_{job.array_index}"


def clean(text: str, most: int = 200) -> str:
    """One line, whatever people write: no control characters, no line breaks of any kind, not long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else line[: most - 3] + "..."


def title(told: Told, job: JobRow) -> str:
    """One line that says what happened to which job."""
    name = clean(job.name, _NAME)
    return f"Job {label(job)}{f' ({name})' if name else ''} {_what(told, job)}"


def _what(told: Told, job: JobRow) -> str:
    by = words.moment(told.by) if told.by else ""
    again = told.attempt_id.partition(".")[2] not in ("", "1")
    match told.kind:
        case Kind.STARTED:
            gpus = f"{job.gpus} GPU{'' if job.gpus == 1 else 's'}"
            return f"has {'started again' if again else 'started'} on {gpus} of {job.cluster}"
        case Kind.EXPOSED:
            return f"is protected until {by}, and may be preempted after that"
        case Kind.WILL_BE_PREEMPTED:
            return f"will be preempted: it has until {by}"
        case Kind.PREEMPTED:
            return "was preempted and has ended" if told.ended else "was preempted and is queued again"
        case Kind.ENDED:
            return "has succeeded" if told.ended == JobState.SUCCEEDED else f"was cancelled by {clean(told.who)}"
        case Kind.FAILED:
            return _failed(told)
        case Kind.WAITS_LONGER:
            return "waits longer than it was told" if told.because else f"has not started by {by}, as it was told"
        case Kind.HELD:
            return f"is held by {clean(told.who)}" if told.who else "is held: its budget has no share any more"


def _failed(told: Told) -> str:
    if told.ended == JobState.TIMED_OUT:
        return "has reached its timeout"
    if told.ended == JobState.CANCELLED:
        return "was cancelled, since a job that it waited for did not succeed"
    return "has failed" if told.ended else "has failed and is tried again"


def body(told: Told, job: JobRow, gainer: JobRow | None) -> str:
    """The reason as a sentence, who gains, and what comes next."""
    lines = []
    if told.because is not None:
        lines.append(clean(words.sentence(told.because), 1000))
    if gainer is not None:
        what = f"is of {clean(gainer.user)} and charged to {gainer.budget}"
        lines.append(f"Job {label(gainer)} ({clean(gainer.name, _NAME)}) {what}.")
    lines.append(_next(told, job))
    return "\n".join(line for line in lines if line)


def _next(told: Told, job: JobRow) -> str:
    match told.kind:
        case Kind.WILL_BE_PREEMPTED:
            return "Save a checkpoint before that: the processes are warned by a signal first, and killed at that time."
        case Kind.PREEMPTED if not told.ended:
            return "It keeps its place in the queue, and is protected anew when it starts again."
        case Kind.FAILED if told.by > told.at:
            return f"It is tried again at {words.moment(told.by)}."
        case Kind.EXPOSED:
            return "It runs on for as long as nothing that comes first needs its GPUs."
        case Kind.WAITS_LONGER:
            return f"Ask why: tenure why {label(job)}"
    return ""


def data(told: Told, job: JobRow, gainer: JobRow | None) -> str:
    """The same for programs, as canonical JSON. Times are RFC 3339."""
    fields: dict[str, Any] = {
        "kind": told.kind.value,
        "job": job.id,
        "label": label(job),
        "name": job.name,
        "user": job.user,
        "budget": job.budget,
        "cluster": job.cluster,
        "at": units.format_time(told.at),
    }
    optional: Mapping[str, Any] = {
        "attempt": told.attempt_id,
        "state": told.ended,
        "by": units.format_time(told.by) if told.by else "",
        "who": told.who,
        "reason": _reason(told.because) if told.because is not None else "",
        "gainer": _named(gainer) if gainer is not None else "",
    }
    fields |= {key: value for key, value in optional.items() if value}
    return codec.dumps(fields)


def _reason(because: Because) -> dict[str, Any]:
    """As the API has it."""
    return {
        "code": because.reason.value,
        "numbers": codec.plain(because.numbers),
        "text": clean(words.sentence(because), 1000),
    }


def _named(job: JobRow) -> dict[str, Any]:
    return {"job": job.id, "label": label(job), "name": job.name, "user": job.user, "budget": job.budget}
