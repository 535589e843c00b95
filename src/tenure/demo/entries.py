"""Entries of the feed as lines of the story, for somebody who has never seen a scheduler. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tenure import words
from tenure.api.models import AttemptView, EntryView, JobView, ReasonView
from tenure.config.ranges import fold

_JOB = re.compile(r"\bjob (\d+)\b")
_GRACE = re.compile(r"\((\w+) to save its work\)")
_ATTEMPT = re.compile(r"\b(\d+)\.(\d+)(?= until\b|:)")


@dataclass(frozen=True, slots=True)
class Line:
    """``text`` and why; ``style`` is Rich's."""

    text: str
    why: str = ""
    style: str = ""


class Words:
    """Puts names for numbers and offsets for times. ``offset``: ms since the epoch to ``+3.2s``."""

    def __init__(self, offset: Callable[[int], str], recent: str) -> None:
        self.offset = offset
        self.recent = recent
        self.names: dict[int, str] = {}
        self.sizes: dict[int, str] = {}

    def name(self, job: int) -> str:
        return self.names.get(job, f"job {job}")

    def why(self, reason: ReasonView | None) -> str:
        """The sentence of a reason as people of the story would say it."""
        if reason is None:
            return ""
        text = reason.text
        for at in _integers(reason.numbers):
            if at > _YEAR_2000:
                text = text.replace(words.moment(at), self.offset(at))
        text = _ATTEMPT.sub(lambda found: self.name(int(found[1])), text)
        text = _JOB.sub(lambda found: self.name(int(found[1])), text)
        return text.replace("over the last day", f"over the last {self.recent}")


_YEAR_2000 = 946_684_800_000


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _integers(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _integers(inner)


def seconds(ms: int) -> str:
    return f"{ms / 1000:g} s"


def promise(job: JobView) -> str:
    """What the contract says."""
    if not job.charged:
        return f"for {job.budget}, unallocated: free of charge, and it may have to go at any time"
    return f"for {job.budget}, which is charged for it; needs {seconds(job.min_runtime_ms)} undisturbed"


def line(entry: EntryView, job: JobView | None, attempt: AttemptView | None, say: Words) -> Line | None:
    """An entry in the words of the story; None for what is told otherwise."""
    if job is None or entry.job is None:
        return None
    name, why = say.name(job.id), say.why(entry.reason)
    match entry.kind:
        case "submitted":
            return Line(
                f"{job.user} submits {name} (job {job.id}): {say.sizes.get(job.id, _gpus(job.gpus))} {promise(job)}",
                style="bold",
            )
        case "start":
            return Line(f"{name} gets {_gpus(job.gpus)}{_where(attempt)}", why, "green")
        case "claim":
            return Line(f"{name} claims {_gpus(job.gpus)} that others hold", why, "yellow")
        case "evict":
            grace = _GRACE.search(entry.text)
            return Line(
                f"{name} must go: it is warned, and has {grace[1] if grace else 'no time'} to save its work", why, "red"
            )
        case "running":
            return Line(_running(name, job, attempt, say), style="green")
        case "requeued":
            first = f"its place there still counts from {say.offset(job.submitted_at)}, when it was submitted"
            return Line(f"{name} is back in the queue; {first}", style="yellow")
        case "ended":
            if entry.reason is not None and entry.reason.code == "succeeded":
                return Line(f"{name} has finished", style="green")
            return Line(f"{name} is over: {entry.text.rpartition(': ')[2]}", why, "red")
        case "stop":
            return Line(f"{name} is stopped", why, "red")
        case _:
            return None


def _running(name: str, job: JobView, attempt: AttemptView | None, say: Words) -> str:
    if not job.charged:
        return f"{name} runs; its budget is not charged"
    until = attempt.protected_until if attempt is not None else None
    if until is None:
        return f"{name} runs"
    return f"{name} runs, protected until {say.offset(until)}"


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _where(attempt: AttemptView | None) -> str:
    return f" on {', '.join(fold(attempt.hosts))}" if attempt is not None and attempt.hosts else ""
