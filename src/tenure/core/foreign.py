"""Jobs around Tenure: what they use of its hosts is occupied while they do, and nobody's charge.

They are counted by host and not by the number of a GPU. They may come at any moment, so they and what is promised here
can be more than a host has: then nothing more starts there, and a claim that has lost its room is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator

from tenure.core.events import ForeignUse
from tenure.core.placement import Room
from tenure.core.reasons import Because, Number, Reason
from tenure.core.state import Attempt, ClusterState, Foreign, State


def use(cluster: ClusterState, event: ForeignUse) -> None:
    """From now on others use so much of a host of the cluster."""
    before = cluster.foreign.pop(event.host, Foreign(0, 0, 0))
    now = Foreign(event.gpus, event.cpus, event.mem, event.what)
    cluster.room.occupy(event.host, now.gpus - before.gpus, now.cpus - before.cpus, now.mem - before.mem)
    if now.gpus or now.cpus or now.mem:
        cluster.foreign[event.host] = now
    if now.gpus < before.gpus or now.cpus < before.cpus or now.mem < before.mem:
        cluster.freed += cluster.room.hosts[cluster.room.index[event.host]].gpus


def wholly_ours(cluster: ClusterState, host: str) -> bool:
    """Whether a host takes new attempts, and nobody else uses any of it: only such hosts are held for anybody."""
    return host not in cluster.foreign and cluster.room.is_open(host)


def without(room: Room, cluster: ClusterState) -> Room:
    """A copy of a room of the cluster as it would be if others used nothing."""
    trial = room.fork()
    for host, each in cluster.foreign.items():
        trial.occupy(host, -each.gpus, -each.cpus, -each.mem)
    return trial


def claims_without_room(state: State, cluster: ClusterState, host: str) -> Iterator[tuple[Attempt, Because]]:
    """Claims that do not fit on a host beside its others any more, when all that they wait for has gone; and why."""
    found = cluster.foreign.get(host)
    there = [state.attempts[attempt_id] for attempt_id in sorted(cluster.on_host[host])]
    claims = [attempt for attempt in there if attempt.started_at is None]
    if found is None or not claims:
        return
    going = {victim for claim in claims for victim in claim.waiting_for}
    has = cluster.room.hosts[cluster.room.index[host]]
    left = [has.gpus - found.gpus, has.cpus - found.cpus, has.mem - found.mem]
    for attempt in there:
        if attempt.id not in going:
            left = [a - b for a, b in zip(left, _on(attempt, host), strict=True)]
    for claim in reversed(claims):
        mine = _on(claim, host)
        if any(rest < 0 < part for rest, part in zip(left, mine, strict=True)):
            left = [rest + part for rest, part in zip(left, mine, strict=True)]
            numbers: dict[str, Number] = {"cluster": cluster.spec.name, "host": host, "others": found.gpus}
            yield claim, Because(Reason.WAITING_OTHERS, numbers)


def _on(attempt: Attempt, host: str) -> tuple[int, int, int]:
    """GPUs, CPUs and memory of an attempt on a host."""
    slots = [slot for slot in attempt.slots if slot.host == host]
    return sum(len(slot.gpus) for slot in slots), sum(slot.cpus for slot in slots), sum(slot.mem for slot in slots)
