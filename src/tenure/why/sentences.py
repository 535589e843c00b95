"""One plain sentence for an answer. What waits, claims or is being stopped has that of its reason."""

from __future__ import annotations

from tenure import words
from tenure.why.records import Answer, Evictor, Running

_NOBODY = "nobody who waits now comes before it"


def sentence(answer: Answer) -> str:
    """The first thing to say: why it waits, or how safe it is where it runs."""
    run = answer.running
    if run is None or run.kill_at is not None:
        return words.sentence(answer.because)
    first = run.evictors[0] if run.evictors else None
    if not run.charged:
        now = f"{_who(first)} would take its GPUs" if first is not None else "nobody needs its GPUs now"
        return f"{_doing(answer)} unallocated: free, and evictable from its first second; as things stand, {now}."
    if run.protected:
        then = f"{_who(first)} would have it evicted" if first is not None else f"it runs on, since {_NOBODY}"
        return f"{_doing(answer)}, {_protected(run)}; after that, as things stand, {then}."
    now = f"{_who(first)} may have it evicted" if first is not None else _NOBODY
    return f"{_doing(answer)}, exposed{_since(run)}; as things stand, {now}."


def _doing(answer: Answer) -> str:
    return "Starts" if answer.state == "starting" else "Runs"


def _protected(run: Running) -> str:
    until = words.moment(run.protected_until or 0)
    return f"protected until {until} at the latest" if run.latest else f"protected until {until}"


def _since(run: Running) -> str:
    return f" since {words.moment(run.protected_until)}" if run.protected_until is not None else ""


def _who(evictor: Evictor) -> str:
    if not evictor.job:
        return "the drain of its host"
    return f"job {evictor.label} of {evictor.user} in {evictor.budget}"
