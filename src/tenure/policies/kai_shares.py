"""How KAI Scheduler divides what a cluster has among queues: deserved quotas, then by priority, weight and past usage.

NVIDIA KAI Scheduler, ``docs/fairness``, ``docs/time-based-fairshare`` and
``pkg/scheduler/plugins/proportion/resource_division``. Where text and source differ this is the source.

All numbers are integers, in whatever unit they are given; ``unit`` of them is a GPU, which shares are rounded to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue among its siblings.

    ``request``: what it holds and asks for. ``deserved``: its quota, None for everything there is. ``weight``: its part
    of what is over quota. ``limit``: the most it may have, None for no limit. ``used``: its usage, in the unit of
    ``Memory.capacity``. ``born``: breaks ties, before the name.
    """

    name: str
    request: int
    deserved: int | None = 0
    weight: int = 1
    limit: int | None = None
    priority: int = 0
    used: int = 0
    born: int = 0
    below: tuple[Queue, ...] = field(default=())

    @property
    def wants(self) -> int:
        """What it asks for and may have."""
        return self.request if self.limit is None else min(self.request, self.limit)


@dataclass(frozen=True, slots=True)
class Memory:
    """What past usage counts for: k is ``percent`` / 100, and usage is a part of ``capacity``. Nothing by default."""

    percent: int = 0
    capacity: int = 1


FORGETFUL = Memory()


def divide(
    total: int, queues: Sequence[Queue], memory: Memory = FORGETFUL, unit: int = 1
) -> tuple[dict[str, int], int]:
    """The fair share of each queue by its name, and what is left.

    Quotas are given even when together they are more than the total.
    """
    shares = {}
    for queue in queues:
        deserved = total if queue.deserved is None else queue.deserved
        shares[queue.name] = min(deserved, queue.wants)
    left = total - sum(shares.values())
    if left <= 0:
        return shares, 0
    for priority in sorted({queue.priority for queue in queues}, reverse=True):
        peers = [queue for queue in queues if queue.priority == priority]
        left = _over_quota(left, peers, shares, memory, unit)
        if not left:
            break
    return shares, left


def divide_tree(total: int, queues: Sequence[Queue], memory: Memory = FORGETFUL, unit: int = 1) -> dict[str, int]:
    """Fair shares of all queues and of those ``below`` them: each divides its own among its children."""
    found, _ = divide(total, queues, memory, unit)
    for queue in queues:
        if queue.below:
            found |= divide_tree(found[queue.name], queue.below, memory, unit)
    return found


def portions(queues: Sequence[Queue], memory: Memory = FORGETFUL) -> dict[str, int]:
    """P = max(0, W' + k (W' - U')) of each queue, all times the same number: W' of these queues, U' of the capacity."""
    weights = sum(queue.weight for queue in queues)
    percent, capacity = memory.percent, memory.capacity
    return {
        queue.name: max(0, queue.weight * (100 + percent) * capacity - percent * queue.used * weights)
        for queue in queues
    }


def _over_quota(left: int, peers: Sequence[Queue], shares: dict[str, int], memory: Memory, unit: int) -> int:
    """Divide what is left among queues of one priority; returns what they leave."""
    rests: dict[str, tuple[Fraction, Queue]] = {}
    again = True
    while again and left:
        again, amount = False, left
        hungry = [queue for queue in peers if queue.wants > shares[queue.name]]
        parts = portions(hungry, memory)
        whole = sum(parts.values())
        if not whole:
            break
        for queue in hungry:
            if not queue.weight:
                continue
            fair, wanted = amount * parts[queue.name], queue.wants - shares[queue.name]
            if wanted * whole <= fair:
                given = wanted
                rests.pop(queue.name, None)
                again = again or wanted * whole < fair
            else:
                given = fair // (whole * unit) * unit
                if fair > given * whole:
                    rests[queue.name] = Fraction(fair - given * whole, whole), queue
            shares[queue.name] += given
            left -= given
    for _, queue in sorted(rests.values(), key=lambda rest: (-rest[0], rest[1].born, rest[1].name)):
        given = min(unit, left)
        shares[queue.name] += given
        left -= given
    return left
