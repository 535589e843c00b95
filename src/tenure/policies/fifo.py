"""Strict first come, first served: the baseline of every comparison of batch schedulers."""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace

from tenure.core.apply import apply
from tenure.core.decisions import Plan
from tenure.core.ledger import Kind
from tenure.core.queue import Group, GroupKey, shape_of
from tenure.core.reasons import Reason
from tenure.core.state import Attempt, Job, State
from tenure.policies import moves
from tenure.policies.line import FIRST, Line
from tenure.policies.standstill import Standstill


class Fifo:
    """Jobs start in the order of their first submission; one that does not fit holds up everybody behind it.

    Nobody is evicted: every attempt runs to its end, on draining hosts too. A job that none of its clusters can start
    holds up all of them.
    """

    name = "fifo"

    def __init__(self) -> None:
        self._line = Line(_no_length)
        self._still: Standstill | None = None
        self._last_passed = FIRST
        """The turn of the last of those that hold up clusters."""
        self._free: set[str] = set()
        """Clusters that nobody holds up."""
        self._heads: set[tuple[Kind, GroupKey]] = set()
        """Groups of those that hold up clusters."""

    def run(self, state: State) -> list[Plan]:
        came = self._line.update(state)
        if state.paused_starts:
            self._still = None
            self._line.say(state, lambda _: Reason.PAUSED_STARTS, everybody=came is None)
            return []
        before, plans = self._heads, list[Plan]()
        still = self._still is not None and self._still.lasts(state)
        if not still or came is None or any(self._may_start(job) for job in came):
            plans = self._serve(state)
        self._heads = {_group(state.jobs[job_id]) for job_id in self._still.heads} if self._still is not None else set()
        self._line.say(state, self._why, everybody=came is None or self._heads != before)
        return plans

    def _may_start(self, job: Job) -> bool:
        """Whether somebody who has come into the line is not held up by those at its head."""
        return self._line.turn(job) < self._last_passed or not self._free.isdisjoint(job.spec.clusters)

    def _why(self, group: Group) -> Reason:
        return Reason.WAITING_CAPACITY if (group.kind, group.key) in self._heads else Reason.WAITING_TURN

    def _serve(self, state: State) -> list[Plan]:
        """Start one after the other until every cluster is held up."""
        plans: list[Plan] = []
        heads: list[int] = []
        self._free, self._last_passed = set(state.clusters), FIRST
        waiting = list(self._line.alikes())
        heapify(waiting)
        while self._free and waiting:
            turn, alike = waiting[0]
            job = state.jobs[turn[-1]]
            clusters = [cluster for cluster in alike.clusters if cluster.spec.name in self._free]
            tried = (moves.start_in(state, cluster, job) for cluster in clusters)
            plan = next((plan for plan in tried if plan is not None), None)
            if plan is None:  # everybody like it is held up: by it, or by somebody older
                heappop(waiting)
                if clusters:
                    heads.append(job.id)
                    self._last_passed = turn
                    self._free.difference_update(cluster.spec.name for cluster in clusters)
                continue
            apply(state, plan)
            plans.append(plan)
            following = self._line.after(alike, turn)
            if following is not None:
                heapreplace(waiting, (following, alike))
            else:
                heappop(waiting)
        self._still = Standstill(state, heads)
        return plans

    def protected(self, attempt: Attempt, now: int) -> bool:
        return True

    def withheld(self, state: State) -> int:
        """What jobs behind one that does not fit could use."""
        return moves.usable(state)


def _no_length(_: Job) -> int:
    return 0


def _group(job: Job) -> tuple[Kind, GroupKey]:
    return job.kind, GroupKey(job.leaf, job.spec.priority, shape_of(job.spec))
