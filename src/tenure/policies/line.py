"""First come, first served: the line of waiting jobs, and who stands at its head."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from tenure.core.queue import Group
from tenure.core.reasons import Reason
from tenure.core.state import ClusterState, Job, State
from tenure.policies import moves


class Waiting(NamedTuple):
    """Jobs that are alike, and the clusters that they accept, in the order in which they list them."""

    group: Group
    clusters: list[ClusterState]


def whole(state: State) -> list[Waiting]:
    """All waiting jobs, each once."""
    if len(state.clusters) == 1:
        only = list(state.clusters.values())
        return [Waiting(group, only) for _, group in moves.groups(state)]
    found = []
    for cluster, group in moves.groups(state):
        clusters = [state.clusters[name] for name in group.key.shape.clusters if name in state.clusters]
        if clusters[0] is cluster:
            found.append(Waiting(group, clusters))
    return found


def oldest(state: State, line: Iterable[Waiting], passed: Collection[int] = ()) -> Job | None:
    """The first in a line, without those that were ``passed`` over: the oldest first submission, then the id."""
    lists = (jobs for waiting in line for jobs in waiting.group.people.values())
    if passed:
        heads = (next((each for each in jobs if each[1] not in passed), None) for jobs in lists)
        best = min((head for head in heads if head is not None), default=None)
    else:
        best = min((jobs[0] for jobs in lists), default=None)
    return state.jobs[best[1]] if best is not None else None


def say(waiting: Waiting, reason: Reason) -> None:
    """Note why jobs wait, wherever they do."""
    group = waiting.group
    if group.people and (group.parked is None or group.parked.reason is not reason):
        for cluster in waiting.clusters:
            moves.park(cluster, cluster.queues[group.kind].leaves[group.key.leaf][group.key], reason)
