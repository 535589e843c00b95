"""First come, first served: the line of waiting jobs, and what stands at its head."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from tenure.core.queue import Group
from tenure.core.reasons import Reason
from tenure.core.state import State
from tenure.policies import moves


class Standing(NamedTuple):
    """A waiting job and its place in the line: older ones come first."""

    submitted: int
    job_id: int
    group: Group


def whole(state: State) -> list[Group]:
    """The groups of all waiting jobs, each once."""
    if len(state.clusters) == 1:
        return [group for _, group in moves.groups(state)]
    return [group for cluster, group in moves.groups(state) if _first_listed(state, group) == cluster.spec.name]


def _first_listed(state: State, group: Group) -> str:
    return next(name for name in group.key.shape.clusters if name in state.clusters)


def oldest(groups: Iterable[Group], passed: Collection[int] = ()) -> Standing | None:
    """The first in the line among the jobs of ``groups``, without those that were ``passed`` over."""
    best: Standing | None = None
    for group in groups:
        for jobs in group.people.values():
            submitted, job_id = jobs[0]
            if job_id in passed:
                behind = next((each for each in jobs if each[1] not in passed), None)
                if behind is None:
                    continue
                submitted, job_id = behind
            if best is None or (submitted, job_id) < best[:2]:
                best = Standing(submitted, job_id, group)
    return best


def say(state: State, group: Group, reason: Reason) -> None:
    """Note why a group waits, wherever it does."""
    for cluster, there in moves.places(state, group.kind, group.key):
        if there.parked is None or there.parked.reason is not reason:
            moves.park(cluster, there, reason)
