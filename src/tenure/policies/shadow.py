"""What backfilling keeps for the first job that waits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tenure.core.model import Slots
from tenure.core.placement import Room
from tenure.core.queue import Shape, shape_of
from tenure.core.state import Job
from tenure.policies import moves


@dataclass(slots=True)
class Reservation:
    """What is kept for the first job of a cluster.

    ``at``: its shadow time. ``room``: the room as it will be then, without the job. ``first_end``: when the first of
    those who are expected to make room for it should have ended. ``beside``: for each shape the slots that a job may
    take for longer, None when there are none; since the last plan.
    """

    job: Job
    at: int
    room: Room
    first_end: int
    beside: dict[Shape, tuple[Slots, ...] | None] = field(default_factory=dict)
    spare: Room | None = None
    """What is free now and the reservation would not take; since the last plan, None until it is asked for."""

    def may_keep(self, now: Room, job: Job) -> tuple[Slots, ...] | None:
        """Slots that are free now and that the job may hold past the shadow time."""
        shape = shape_of(job.spec)
        if shape not in self.beside:
            self.beside[shape] = self._look(now, job)
        return self.beside[shape]

    def _look(self, now: Room, job: Job) -> tuple[Slots, ...] | None:
        """Beside what the reservation would take, else where it fits best, if the reservation can make way."""
        if self.spare is None:
            self.spare = now.fork()
            self.spare.take(_free_of(now, slots) for slots in moves.find(self.room, self.job) or ())
        slots = moves.find(self.spare, job)
        if slots is not None or self.room.free_gpus - job.spec.gpus < self.job.spec.gpus:
            return slots
        slots = moves.find(now, job)
        return slots if slots is not None and self.fits_beside(slots) else None

    def fits_beside(self, slots: tuple[Slots, ...]) -> bool:
        """Whether the job still fits at the shadow time when others hold these."""
        trial = self.room.fork()
        trial.take(slots)
        return trial.can_fit(self.job.spec.roles, self.job.spec.labels)

    def forget(self) -> None:
        """A plan was made in its cluster."""
        self.beside.clear()
        self.spare = None


def _free_of(room: Room, slots: Slots) -> Slots:
    """What of these slots is free in a room: a GPU may be held there, and claimed as well."""
    bits = room.free_on(slots.host)
    return replace(slots, gpus=tuple(gpu for gpu in slots.gpus if bits >> gpu & 1))
