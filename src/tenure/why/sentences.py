"""One plain sentence for an answer. What waits, claims or is being stopped has that of its reason."""

from __future__ import annotations

from tenure import words
from tenure.core.explain import NAMED
from tenure.core.reasons import Because, Reason
from tenure.why.records import Answer, Blocking, Evictor, Running

_NOBODY = "nobody who waits now comes before it"


def sentence(answer: Answer) -> str:
    """The first thing to say: why it waits, or how safe it is where it runs."""
    run = answer.running
    if run is None or run.kill_at is not None:
        return words.sentence(_counted(answer))
    first = run.evictors[0] if run.evictors else None
    if not run.charged:
        now = f"{_who(first)} would take its GPUs" if first is not None else "nobody needs its GPUs now"
        return f"{_doing(answer)} unallocated: free, and evictable from its first second; as things stand, {now}."
    if run.protected:
        then = f"{_who(first)} would have it evicted" if first is not None else f"it runs on, since {_NOBODY}"
        return f"{_doing(answer)}, {_protected(run)}; after that, as things stand, {then}."
    now = f"{_who(first)} may have it evicted" if first is not None else _NOBODY
    return f"{_doing(answer)}, exposed{_since(run)}; as things stand, {now}."


def _counted(answer: Answer) -> Because:
    """Its reason. Of GPUs that are short the numbers are what the job itself finds and waits for.

    The reason is the same for all that are like it, and counts what nobody may evict for some of them.
    """
    because, space = answer.because, answer.places[0].space if answer.places else None
    if space is None or because.reason not in (Reason.WAITING_CAPACITY, Reason.WAITING_WHOLE_HOSTS):
        return because
    ends = tuple(
        (blocker.attempt, blocker.until)
        for blocker in space.blockers
        if blocker.until is not None and blocker.why in (Blocking.PROTECTED, Blocking.STARTING)
    )
    numbers = {key: value for key, value in because.numbers.items() if key != "evictable_gpus"}
    numbers |= {"free_gpus": space.free_gpus - space.evictable_gpus, "protected": ends[:NAMED]}
    if space.evictable_gpus:
        numbers["evictable_gpus"] = space.evictable_gpus
    return Because(because.reason, numbers)


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
