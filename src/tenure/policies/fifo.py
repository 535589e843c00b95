"""Strict first come, first served: the baseline of every comparison of batch schedulers."""

from __future__ import annotations

from tenure.core.apply import apply
from tenure.core.decisions import Plan, Start
from tenure.core.queue import Group
from tenure.core.reasons import Reason
from tenure.core.state import Attempt, Job, State
from tenure.policies import line, moves
from tenure.policies.standstill import Standstill


class Fifo:
    """Jobs start in the order of their first submission; one that does not fit holds up everybody behind it.

    Nobody is evicted: every attempt runs to its end, on draining hosts too. A job that no cluster of its list can start
    holds up all of them.
    """

    name = "fifo"

    def __init__(self) -> None:
        self._still: Standstill | None = None

    def run(self, state: State) -> list[Plan]:
        if self._still is not None and self._still.lasts(state):
            return []
        self._still = None
        plans: list[Plan] = []
        waiting = line.whole(state)
        if state.paused_starts:
            for group in waiting:
                line.say(state, group, Reason.PAUSED_STARTS)
            return plans
        blocked: set[str] = set()
        heads: dict[int, Group] = {}
        while first := line.oldest(group for group in waiting if group.people and not _held_up(state, group, blocked)):
            plan = self._start(state, state.jobs[first.job_id], blocked)
            if plan is not None:
                apply(state, plan)
                plans.append(plan)
            else:
                heads[first.job_id] = first.group
                blocked.update(first.group.key.shape.clusters)
        for group in waiting:
            if group.people:
                line.say(state, group, Reason.WAITING_TURN)
        for group in heads.values():
            line.say(state, group, Reason.WAITING_CAPACITY)
        self._still = Standstill(state, heads)
        return plans

    @staticmethod
    def _start(state: State, job: Job, blocked: set[str]) -> Start | None:
        for name in job.spec.clusters:
            cluster = state.clusters.get(name)
            if cluster is not None and name not in blocked:
                plan = moves.start_in(state, cluster, job)
                if plan is not None:
                    return plan
        return None

    def protected(self, attempt: Attempt, now: int) -> bool:
        return True

    def withheld(self, state: State) -> int:
        """What jobs behind one that does not fit could use."""
        return moves.usable(state)


def _held_up(state: State, group: Group, blocked: set[str]) -> bool:
    """Whether every cluster that these jobs accept has a job in front that does not fit."""
    return all(name in blocked or name not in state.clusters for name in group.key.shape.clusters)
