"""Strict first come, first served: the baseline of every comparison of batch schedulers."""

from __future__ import annotations

from tenure.core.apply import apply
from tenure.core.decisions import Plan
from tenure.core.reasons import Reason
from tenure.core.state import Attempt, State
from tenure.policies import line, moves
from tenure.policies.standstill import Standstill


class Fifo:
    """Jobs start in the order of their first submission; one that does not fit holds up everybody behind it.

    Nobody is evicted: every attempt runs to its end, on draining hosts too. A job that none of its clusters can start
    holds up all of them.
    """

    name = "fifo"

    def __init__(self) -> None:
        self._still: Standstill | None = None

    def run(self, state: State) -> list[Plan]:
        if self._still is not None and self._still.lasts(state):
            return []
        self._still = None
        waiting = line.whole(state)
        if state.paused_starts:
            for each in waiting:
                line.say(each, Reason.PAUSED_STARTS)
            return []
        plans, heads = self._serve(state, waiting)
        for each in waiting:
            stands_first = each.group.people and not heads.isdisjoint(_ids(each))
            line.say(each, Reason.WAITING_CAPACITY if stands_first else Reason.WAITING_TURN)
        self._still = Standstill(state, heads)
        return plans

    @staticmethod
    def _serve(state: State, waiting: list[line.Waiting]) -> tuple[list[Plan], set[int]]:
        """Start one after the other until every cluster is held up. Returns the plans and who holds up clusters."""
        plans: list[Plan] = []
        heads: set[int] = set()
        free = dict(state.clusters)
        """Clusters that nobody holds up."""
        while free and (job := line.oldest(state, waiting)) is not None:
            clusters = [free[name] for name in job.spec.clusters if name in free]
            tried = (moves.start_in(state, cluster, job) for cluster in clusters)
            plan = next((plan for plan in tried if plan is not None), None)
            if plan is not None:
                apply(state, plan)
                plans.append(plan)
                continue
            heads.add(job.id)
            for cluster in clusters:
                del free[cluster.spec.name]
            waiting = [each for each in waiting if any(cluster.spec.name in free for cluster in each.clusters)]
        return plans, heads

    def protected(self, attempt: Attempt, now: int) -> bool:
        return True

    def withheld(self, state: State) -> int:
        """What jobs behind one that does not fit could use."""
        return moves.usable(state)


def _ids(waiting: line.Waiting) -> set[int]:
    """The first job of each person."""
    return {jobs[0][1] for jobs in waiting.group.people.values()}
