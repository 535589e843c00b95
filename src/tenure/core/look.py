"""What a pass that looks for jobs in turn would hold for others before a job has its turn. Nothing is changed."""

from __future__ import annotations

from tenure.core.model import GPU
from tenure.core.preemption import Contest
from tenure.core.prospects import Prospects, earliest
from tenure.core.queue import Group
from tenure.core.spans import Kind
from tenure.core.state import Job, State
from tenure.core.walk import first_group, waiting


def prospects_of(state: State, cluster: str, instead_of: int = 0) -> Prospects:
    """A cluster at this moment, for whoever only looks. Raises KeyError when there is no such.

    ``instead_of``: a job for which nothing is held as far as this is concerned.
    """
    contest = Contest(state, state.clusters[cluster])

    def outranked(kind: Kind, leaf: str, gpus: int) -> tuple[str, ...]:
        return contest.outranked(kind, leaf, gpus * GPU)

    return Prospects(contest, outranked, state.jobs.get(instead_of))


def in_its_turn(state: State, mine: Group, last: str, instead_of: int) -> dict[str, Prospects] | None:
    """The clusters as the only job of ``mine`` finds them when those that come before it have been given hosts.

    None: one that is like it comes before it and is given none, so it is not asked either. ``last``: the cluster in
    whose pass it has its turn; those before it, by name, are through. ``instead_of``: a job that is not looked at.
    """
    places = {name: prospects_of(state, name, instead_of) for name in sorted(state.clusters)}
    helped = {instead_of}
    for name, place in places.items():
        if name < last:
            _Turns(state, place, helped).give(places, None)
    return places if _Turns(state, places[last], helped).give(places, mine) else None


class _Turns:
    """The jobs that wait in one cluster, in rule 5's order, as they are given hosts."""

    def __init__(self, state: State, place: Prospects, helped: set[int]) -> None:
        self.state = state
        self.place = place
        self.helped = helped
        """Jobs that have been given hosts, here or elsewhere."""
        self.done = set(helped)
        """Jobs that had their turn here."""

    def give(self, places: dict[str, Prospects], until: Group | None) -> bool:
        """Leave hosts to each, until it is the turn of ``until``; whether it has one."""
        walk = waiting(self.place.contest, self.place.reserve_from(), reserved=True)
        lost = {0}.union(*(place.displaced for place in places.values()))
        for group in [group for groups in walk.awake.values() for group in groups]:
            if group.key.reserved not in lost or self._next(group) is None:
                walk.drop(group)
        if until is not None:
            walk.add([until])
        while leaf := walk.first_leaf():
            group = first_group(walk, leaf, self._head)
            if group is until:
                return True
            held = self._hold(places, self.state.jobs[self._head(group)[2]])
            if not held and until is not None and group.key == until.key:
                return False
            if not held or self._next(group) is None:
                walk.drop(group)
        return False

    def _hold(self, places: dict[str, Prospects], job: Job) -> bool:
        self.done.add(job.id)
        plan = earliest([places[name] for name in job.spec.clusters if name in places], job)
        if plan is not None:
            self.helped.add(job.id)
            places[plan.cluster].leave(plan)
        return plan is not None

    def _head(self, group: Group) -> tuple[int, int, int]:
        head = self._next(group)
        assert head is not None  # those without one are dropped
        return head

    def _next(self, group: Group) -> tuple[int, int, int] | None:
        """Rule 5 in the leaf for the first of a group that has not had its turn, as ``cycle`` has it."""
        standing, leaf = self.place.contest.charged, group.key.leaf
        heads = []
        for user, jobs in group.people.items():
            first = next((job for job in jobs if job[1] not in self.done), None)
            if first is not None:
                heads.append((standing.person_used(leaf, user), *first))
        return min(heads, default=None)
