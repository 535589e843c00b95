"""Chapters of a story as plain sentences, and the whole of it as one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from tenure import units, words
from tenure.core.outcomes import EVICTED
from tenure.core.reasons import Reason
from tenure.why.chapters import (
    Chapter,
    ClaimLost,
    Ended,
    Evicted,
    Exposed,
    Gainer,
    Left,
    Started,
    Story,
    Submitted,
    Totals,
    Waited,
)

NAMED = 5
"""Attempts and hosts that a sentence names at most."""
_TOLD_ELSEWHERE = EVICTED | {Reason.SUCCEEDED, Reason.PREEMPTED}
"""Ends of attempts that have a chapter of their own."""


def line(chapter: Chapter) -> str:
    """One or two sentences about a chapter."""
    return _line(chapter)


@singledispatch
def _line(chapter: object) -> str:
    raise TypeError(f"no chapter: {chapter!r}")


@_line.register
def _submitted(chapter: Submitted) -> str:
    if chapter.min_runtime:
        contract = f"protected for {units.format_duration(chapter.min_runtime)} once it runs, and charged"
    else:
        contract = "unallocated: free, and evictable at any time"
    resumable = "resumable" if chapter.resumable else "not resumable"
    return f"Submitted by {chapter.user} to {chapter.budget}: {_gpus(chapter.gpus)}, {contract}, {resumable}."


@_line.register
def _waited(chapter: Waited) -> str:
    if chapter.until is None:
        reason = "" if chapter.why is None else f" {words.sentence(chapter.why)}"
        return f"Waits since then.{reason}"
    text = f"Waited {_length(chapter.until - chapter.at)}"
    if chapter.claimed_at is not None:
        text += f", the last {_length(chapter.until - chapter.claimed_at)} for others to release its GPUs"
    return f"{text}." + ("" if chapter.why is None else f" Halfway: {words.sentence(chapter.why)}")


@_line.register
def _claim_lost(chapter: ClaimLost) -> str:
    return f"It had GPUs promised since {words.moment(chapter.planned_at)}. {words.sentence(chapter.why)}"


@_line.register
def _started(chapter: Started) -> str:
    text = f"Attempt {_number(chapter.attempt)} was given {_gpus(chapter.gpus)} of {_names(chapter.hosts)}"
    text += f" in {chapter.cluster}"
    if chapter.evicted:
        text += f"; evicted for it: {_names(chapter.evicted)}"
    text += "."
    if chapter.why is not None and not chapter.evicted:
        text += f" {words.sentence(chapter.why)}"
    if chapter.protected_until is not None:
        text += f" Protected until {words.moment(chapter.protected_until)}."
    elif not chapter.charged:
        text += " Unallocated, so it could be evicted at any time."
    return text


@_line.register
def _exposed(chapter: Exposed) -> str:
    return (
        f"Its min_runtime of {units.format_duration(chapter.min_runtime)} was over: it ran on, exposed to jobs that "
        "come before it."
    )


@_line.register
def _evicted(chapter: Evicted) -> str:
    head = "Preempted" if chapter.why.reason in EVICTED else "Stopped"
    text = f"{head}{_for(chapter.gainer)}: {words.cause(chapter.why)}."
    if chapter.gained and chapter.gainer is not None:
        text += f" Job {chapter.gainer.label} gained {units.format_gpu_time(chapter.gained)} of protected time here."
    text += f" {units.format_gpu_time(chapter.at_risk)} of work since the last checkpoint were at risk"
    if chapter.warned_at is not None and chapter.kill_at is not None:
        grace = chapter.kill_at - chapter.warned_at
        text += f"; it had {_length(grace)} of grace" if grace else "; it had no grace"
    if chapter.lost is not None and chapter.released_at is not None:
        text += f"; {_lost(chapter.lost)}"
    return text + "."


@_line.register
def _left(chapter: Left) -> str:
    text = f"Attempt {_number(chapter.attempt)} ended after {_length(chapter.at - chapter.started_at)} on "
    text += f"{_gpus(chapter.gpus)}"
    codes = sorted(set(chapter.codes))
    if codes:
        text += f", exit code{'s' if len(codes) > 1 else ''} {', '.join(words.code_text(code) for code in codes)}"
    text += f": {units.format_gpu_time(chapter.used)}, {'charged' if chapter.charged else 'unallocated'}."
    if chapter.credited:
        text += f" {units.format_gpu_time(chapter.credited)} of it were credited to its budget."
    told = chapter.why.reason in _TOLD_ELSEWHERE
    return text if told else f"{text} {words.sentence(chapter.why)}"


@_line.register
def _ended(chapter: Ended) -> str:
    return f"{_how(chapter)} In all it {_course(chapter.totals, chapter.gpus)}; {_account(chapter.totals)}."


@dataclass(frozen=True, slots=True)
class Hope:
    """What is known of the next start of a queued job; times in ms UTC, None: nothing.

    ``place`` in its budget, 1 for the first. ``room_at``: when there is room for it at the earliest, as things stand.
    ``starts_by``: by when it starts, since hosts are held for it.
    """

    place: int | None = None
    room_at: int | None = None
    starts_by: int | None = None


def summary(story: Story, hope: Hope = Hope()) -> str | None:
    """One plain sentence about a job that has ended, or that was evicted and has not started again; None for others."""
    ended = story.ended
    if ended is not None and ended.state == "preempted" and story.last_eviction is not None:
        return f"It {_preempted(story.last_eviction)}; it was not resumable, so it has ended."
    if ended is not None:
        if not ended.totals.attempts:
            return f"It never ran: it waited {_length(ended.totals.waited)}, and {_end(ended)}."
        return f"It {_course(ended.totals, ended.gpus)}, and {_end(ended)}."
    evicted = story.last_eviction
    if evicted is None:
        return None
    text = f"It {_preempted(evicted)}"
    if evicted.released_at is None:
        return f"{text}; it is being stopped."
    text += "; it waits" if hope.place is None else f"; it waits in place {hope.place} of its budget"
    if hope.starts_by is not None:
        text += f", and starts by {words.moment(hope.starts_by)}"
    elif hope.room_at is not None and hope.room_at > story.at:
        text += f", and has room at {words.moment(hope.room_at)} at the earliest, as things stand"
    return f"{text}."


def _end(ended: Ended) -> str:
    """How it ended, to follow "it": ``was cancelled by ann``, ``failed: exit code 3``."""
    if ended.state == "succeeded":
        return "ended successfully"
    text = words.cause(ended.why)
    if ended.state in ("cancelled", "preempted"):
        return f"was {text}"
    if ended.state == "failed" and ended.why.reason is not Reason.FAILED:
        return f"failed: {text}"
    return text


def _preempted(evicted: Evicted) -> str:
    verb = "was preempted" if evicted.why.reason in EVICTED else "was stopped"
    text = f"{verb} at {words.moment(evicted.at)}{_for(evicted.gainer)} because {words.cause(evicted.why)}"
    return text if evicted.lost is None else f"{text}; {_lost(evicted.lost)}"


def _lost(lost: int) -> str:
    """What it lost is known as far as it reports its checkpoints."""
    return f"it lost up to {units.format_gpu_time(lost)} of work" if lost else "it lost no work"


def _for(gainer: Gainer | None) -> str:
    if gainer is None:
        return ""
    who = ", ".join(name for name in (gainer.user, gainer.budget) if name)
    return f" for job {gainer.label}" + (f" ({who})" if who else "")


def _how(chapter: Ended) -> str:
    if chapter.why.reason is Reason.SUCCEEDED:
        return "Finished successfully."
    if chapter.why.reason is Reason.PREEMPTED:
        return "It was not resumable, so it has ended."
    return words.sentence(chapter.why)


def _course(totals: Totals, gpus: int) -> str:
    attempts = "1 attempt" if totals.attempts == 1 else f"{totals.attempts} attempts"
    return f"ran {_length(totals.ran)} on {_gpus(gpus)} in {attempts}, waited {_length(totals.waited)}"


def _account(totals: Totals) -> str:
    parts = []
    if totals.charged or not totals.unallocated:
        parts.append(f"{units.format_gpu_time(totals.charged)} were charged")
    if totals.unallocated:
        parts.append(f"{units.format_gpu_time(totals.unallocated)} were unallocated")
    if totals.lost:
        parts.append(f"up to {units.format_gpu_time(totals.lost)} of work were lost to {_times(totals.evictions)}")
    if not totals.lost_known:
        parts.append("what some evictions cost is not kept any more")
    return ", ".join(parts)


def _times(evictions: int) -> str:
    return "evictions" if evictions != 1 else "an eviction"


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _length(ms: int) -> str:
    """As long as it takes to say: whole minutes above an hour."""
    return units.format_duration(ms - ms % 60_000 if ms >= 3_600_000 else ms)


def _number(attempt: str) -> str:
    return attempt.rpartition(".")[2]
