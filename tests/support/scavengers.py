"""Layouts of running jobs, and which of them a real Slurm 22.05 preempted for one more (``preempt/qos``).

Every job is (GPUs, hosts), GPUs on each host of 8; one in ``kept`` may not be preempted. All hosts are full.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from tenure.core.model import HOUR, Contract, Host, JobSpec, Role, Slots
from tenure.core.placement import Room
from tenure.policies.slurm_victims import choose


class Layout(NamedTuple):
    """What runs, in the order of submission: GPUs on each of its hosts. What is asked for, and who went for it."""

    what: str
    running: tuple[tuple[int, tuple[str, ...]], ...]
    asks: tuple[int, int]
    gone: tuple[int, ...]
    kept: tuple[int, ...] = ()


def _on(*numbers: int) -> tuple[str, ...]:
    return tuple(f"node{n:03d}" for n in numbers)


LAYOUTS = (
    Layout("of equals the oldest", ((8, _on(1)), (8, _on(2)), (8, _on(3)), (8, _on(4))), (8, 1), (0,)),
    Layout("on one host rather than on two", ((8, _on(1, 2)), (8, _on(3)), (8, _on(4))), (8, 1), (1,)),
    Layout(
        "two halves rather than one whole that is younger",
        ((4, _on(1)), (4, _on(1)), (8, _on(2)), (8, _on(3)), (8, _on(4))),
        (8, 1),
        (0, 1),
    ),
    Layout(
        "not the half beside somebody who stays",
        ((4, _on(1)), (4, _on(1)), (8, _on(2)), (8, _on(3)), (8, _on(4))),
        (8, 1),
        (2,),
        kept=(0,),
    ),
    Layout("a gang takes two small ones", ((8, _on(1)), (8, _on(2, 3)), (8, _on(4))), (8, 2), (0, 2)),
    Layout(
        "two quarters rather than one half",
        ((2, _on(1)), (2, _on(1)), (4, _on(1)), (8, _on(2)), (8, _on(3)), (8, _on(4))),
        (4, 1),
        (0, 1),
    ),
    Layout(
        "a whole host for a half that is younger",
        ((8, _on(1)), (8, _on(2)), (8, _on(3)), (4, _on(4)), (4, _on(4))),
        (4, 1),
        (0,),
    ),
)


class Runs:
    """A job that runs: on its hosts it holds the lowest GPUs that are free in ``taken`` (host -> how many are held)."""

    def __init__(self, number: int, gpus: int, hosts: tuple[str, ...], taken: dict[str, int]) -> None:
        self.number = number
        made = []
        for n, host in enumerate(hosts):
            first = taken.get(host, 0)
            taken[host] = first + gpus
            made.append(Slots(0, n, host, tuple(range(first, first + gpus)), 0, 0))
        self.slots = tuple(made)

    def hosts(self) -> list[str]:
        return sorted(slot.host for slot in self.slots)


def chosen(layout: Layout) -> tuple[int, ...]:
    """Whom the policy's own function chooses, by their number."""
    taken: dict[str, int] = {}
    runs = [Runs(number, gpus, where, taken) for number, (gpus, where) in enumerate(layout.running)]
    room = Room([Host(name, 8, 64_000, 512_000) for name in _on(1, 2, 3, 4)])
    for one in runs:
        room.take(one.slots)
    gpus, hosts = layout.asks
    spec = JobSpec("x", "x", "x", (Role("main", hosts, gpus, 0, 0, apart=True),), Contract(HOUR, True), ("main",))
    candidates = [one for one in runs if one.number not in layout.kept]
    candidates.sort(key=lambda one: len(one.slots))
    found = choose(room, spec, candidates)
    return tuple(sorted(one.number for one in found[0])) if found is not None else ()


def drawn(seed: int) -> Layout:
    """A random one: who shares a host, who has several whole ones, who may not be preempted."""
    rng = Random(seed)
    free, running = list(_on(1, 2, 3, 4)), list[tuple[int, tuple[str, ...]]]()
    rng.shuffle(free)
    while free:
        if len(free) > 1 and rng.random() < 0.3:
            running.append((8, tuple(sorted((free.pop(), free.pop())))))
        else:
            host = free.pop()
            running += [(gpus, (host,)) for gpus in rng.choice(((8,), (8,), (4, 4), (2, 6), (2, 2, 4), (3, 3, 2)))]
    rng.shuffle(running)
    kept = tuple(n for n in range(len(running)) if rng.random() < 0.15)
    asks = rng.choice(((8, 1), (8, 1), (4, 1), (8, 2), (4, 2), (3, 1)))
    return Layout(f"drawn {seed}", tuple(running), asks, (), kept)
