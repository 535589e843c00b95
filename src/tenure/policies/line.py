"""First come, first served: the line of waiting jobs, kept from pass to pass, so that a pass costs what changed.

Jobs of one shape and one length are alike to a policy of a line, whoever sent them and whatever they are charged to.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tenure.core.lifecycle import JobState
from tenure.core.queue import Group, Shape, shape_of
from tenure.core.reasons import Reason
from tenure.core.state import ClusterState, Job, State
from tenure.policies import moves

Age = tuple[int, int]
"""Where a job stands in the line: its first submission (ms UTC), then its id."""
FIRST: Age = (-1, -1)
"""Before everybody."""


def waits(state: State, job: Job | None) -> bool:
    """Whether the job stands in the line now."""
    return job is not None and job.state is JobState.QUEUED and not job.held_by and job.not_before <= state.now


@dataclass(slots=True, eq=False)
class Alike:
    """Jobs of one shape, by age: all of them, and those of each length. Some may have left the line."""

    shape: Shape
    sample: Job
    """One of them: what fits for it fits for all."""
    clusters: list[ClusterState]
    """That they accept, in the order in which they list them."""
    ages: list[Age] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    """All that there are, the shortest first."""
    by_length: dict[int, list[Age]] = field(default_factory=dict)

    def add(self, age: Age, length: int) -> None:
        insort(self.ages, age)
        if length not in self.by_length:
            insort(self.lengths, length)
            self.by_length[length] = []
        insort(self.by_length[length], age)

    def drop(self, age: Age, length: int) -> None:
        """Take one out that has left. It is there."""
        del self.ages[bisect_left(self.ages, age)]
        same = self.by_length[length]
        del same[bisect_left(same, age)]
        if not same:
            del self.by_length[length]
            self.lengths.remove(length)


class Line:
    """All waiting jobs in order. Whoever leaves is dropped when it is come across; whoever comes is told by ``update``.

    ``length``: what tells jobs of one shape apart, ms; 0 for all when nothing does.
    """

    def __init__(self, length: Callable[[Job], int]) -> None:
        self.length = length
        self._state: State | None = None
        self._clusters: list[ClusterState] = []
        self._shapes: dict[Shape, Alike] = {}
        self._where: dict[int, tuple[Alike, int]] = {}
        """Job -> those that are like it, and its length."""

    def update(self, state: State) -> list[Job] | None:
        """Who came into the line, or may have, since the last step; None: the line was made anew.

        It must be called in every step of a state, before what the step touched is forgotten.
        """
        clusters = list(state.clusters.values())
        if state is not self._state or clusters != self._clusters:
            self._state, self._clusters = state, clusters
            self._build(state)
            return None
        touched = (state.jobs.get(job_id) for job_id in sorted(state.touched_jobs))
        came = [job for job in touched if job is not None and waits(state, job)]
        for job in came:
            self._add(job)
        return came

    def alikes(self) -> Iterator[tuple[Age, Alike]]:
        """Every shape that somebody who waits has, with the age of the oldest of them."""
        for alike in list(self._shapes.values()):
            age = self.after(alike, FIRST)
            if age is not None:
                yield age, alike
            else:
                del self._shapes[alike.shape]

    def after(self, alike: Alike, age: Age, below: int | None = None) -> Age | None:
        """The oldest of those that are alike and younger than ``age``; only those shorter than ``below`` ms, if given.

        None when there is nobody.
        """
        shorter = len(alike.lengths) if below is None else bisect_left(alike.lengths, below)
        if below is None or shorter * shorter > len(alike.ages):  # so many are shorter that one comes soon
            return self._next(alike.ages, age, below)
        found = None
        for length in alike.lengths[:shorter]:
            first = self._next(alike.by_length[length], age)
            if first is not None and (found is None or first < found):
                found = first
        return found

    def say(self, state: State, reason: Callable[[Group], Reason], *, everybody: bool) -> None:
        """Note why jobs wait: those that nothing has been said about, or ``everybody``."""
        fresh: list[moves.Place] = []
        for cluster in state.clusters.values():
            for queue in cluster.queues.values():
                if queue.fresh:
                    fresh += [(cluster, group) for group in queue.fresh]
                    queue.fresh = {}
        for cluster, group in moves.groups(state) if everybody else fresh:
            why = reason(group)
            if group.parked is None or group.parked.reason is not why:
                moves.park(cluster, group, why)

    def _build(self, state: State) -> None:
        self._shapes, self._where = {}, {}
        for _, group in moves.groups(state):
            for jobs in group.people.values():
                for _, job_id in jobs:
                    self._add(state.jobs[job_id])

    def _add(self, job: Job) -> None:
        if job.id in self._where:
            return
        shape = shape_of(job.spec)
        alike = self._shapes.get(shape)
        if alike is None:
            assert self._state is not None
            known = self._state.clusters
            clusters = [known[name] for name in shape.clusters if name in known]
            alike = self._shapes[shape] = Alike(shape, job, clusters)
        length = self.length(job)
        self._where[job.id] = alike, length
        alike.add((job.submitted, job.id), length)

    def _next(self, ages: list[Age], age: Age, below: int | None = None) -> Age | None:
        """The first in a list after ``age`` that waits; who has left and is come across is dropped."""
        assert self._state is not None
        n = bisect_right(ages, age)
        while n < len(ages):
            found = ages[n]
            alike, length = self._where[found[1]]
            if below is not None and length >= below:
                n += 1
            elif waits(self._state, self._state.jobs.get(found[1])):
                return found
            else:
                del self._where[found[1]]
                alike.drop(found, length)
        return None
