"""Which running jobs Slurm preempts for a waiting one (``PreemptType=preempt/qos``, ``select/cons_tres``).

Candidates are taken away one after the other, in an order that is given, until the job fits. Then they are tried in
another order: who was taken away last comes first, and the others by how many of the hosts found they are on. That is
done ``preempt_reorder_count`` times. Whoever of those taken away is on one of the hosts found in the end goes, needed
or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from tenure.core.model import JobSpec, Slots
from tenure.core.placement import Room

REORDERS = 1
"""``preempt_reorder_count`` as Slurm has it by default."""


class Candidate(Protocol):
    """What runs and may be preempted."""

    @property
    def slots(self) -> tuple[Slots, ...]: ...

    def hosts(self) -> list[str]: ...


_C = TypeVar("_C", bound=Candidate)


def choose(
    room: Room, spec: JobSpec, candidates: Sequence[_C], reorders: int = REORDERS
) -> tuple[list[_C], tuple[Slots, ...]] | None:
    """Who goes for a job, and the slots that it gets; None when it does not fit even without all of them.

    ``candidates``: whom Slurm would preempt first comes first. They hold their slots in ``room``, which stays as it is.
    """
    order, passes = list(candidates), 0
    while True:
        found = _until_it_fits(room, spec, order)
        if found is None:
            return None
        count, slots = found
        hosts = {slot.host for slot in slots}
        enough = passes > reorders
        passes += 1
        if enough or len(order) <= passes:
            return [each for each in order[:count] if hosts.intersection(each.hosts())], slots
        last = order[count - 1]
        before = sorted(order[: count - 1], key=lambda each: -len(hosts.intersection(each.hosts())))
        order = [last, *before, *order[count:]]


def _until_it_fits(room: Room, spec: JobSpec, order: Sequence[Candidate]) -> tuple[int, tuple[Slots, ...]] | None:
    """How many have to be taken away, and where the job fits then."""
    trial = room.fork()
    for count, each in enumerate(order, 1):
        trial.give(each.slots)
        if trial.free_gpus >= spec.gpus and trial.can_fit(spec.roles, spec.labels):
            slots = trial.place(spec.roles, spec.labels)
            return (count, slots) if slots is not None else None
    return None
