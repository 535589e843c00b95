"""The line of waiting jobs, first come, first served or in another order, kept from pass to pass.

So a pass costs what changed. Jobs of one shape and one length are alike to a policy of a line, whoever sent them and
whatever they are charged to: nothing but their turn tells them apart.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tenure.core.lifecycle import JobState
from tenure.core.queue import Group, Shape, shape_of
from tenure.core.reasons import Reason
from tenure.core.state import ClusterState, Job, State
from tenure.policies import moves

Age = tuple[int, int]
"""First submission (ms UTC), and id."""
Turn = tuple[int, ...]
"""Where a job stands in the line: the smallest is first. No number is negative, and the last one is the job's id."""
FIRST: Turn = (-1,)
"""Before everybody."""


def by_age(_: Job, ages: Sequence[Age]) -> Sequence[Turn]:
    """First come, first served."""
    return ages


def waits(state: State, job: Job | None) -> bool:
    """Whether the job stands in the line now."""
    return job is not None and job.state is JobState.QUEUED and not job.held_by and job.not_before <= state.now


@dataclass(slots=True, eq=False)
class Alike:
    """Jobs of one shape, in turn: all of them, and those of each length. Some may have left the line."""

    shape: Shape
    sample: Job
    """One of them: what fits for it fits for all."""
    clusters: list[ClusterState]
    """That they accept, in the order in which they list them."""
    turns: list[Turn] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    """All that there are, the shortest first."""
    by_length: dict[int, list[Turn]] = field(default_factory=dict)

    def add(self, turn: Turn, length: int) -> None:
        insort(self.turns, turn)
        if length not in self.by_length:
            insort(self.lengths, length)
            self.by_length[length] = []
        insort(self.by_length[length], turn)

    def arrange(self) -> None:
        """Make the rest from those of each length, which are in no order yet."""
        for same in self.by_length.values():
            same.sort()
        self.lengths = sorted(self.by_length)
        self.turns = sorted(turn for same in self.by_length.values() for turn in same)

    def drop(self, turn: Turn, length: int) -> None:
        """Take one out that has left. It is there."""
        del self.turns[bisect_left(self.turns, turn)]
        same = self.by_length[length]
        del same[bisect_left(same, turn)]
        if not same:
            del self.by_length[length]
            self.lengths.remove(length)


class Line:
    """All waiting jobs in order. Whoever leaves is dropped when it is come across; whoever comes is told by ``update``.

    ``length``: what tells jobs of one shape apart, ms; 0 for all when nothing does. ``turns``: where jobs of these ages
    stand that are a person's in one group of the queue; the job is any of them.
    """

    def __init__(
        self, length: Callable[[Job], int], turns: Callable[[Job, Sequence[Age]], Sequence[Turn]] = by_age
    ) -> None:
        self.length = length
        self.turns = turns
        self._state: State | None = None
        self._clusters: list[ClusterState] = []
        self._shapes: dict[Shape, Alike] = {}
        self._where: dict[int, tuple[Alike, int]] = {}
        """Job -> those that are like it, and its length."""

    def turn(self, job: Job) -> Turn:
        """Where a job stands."""
        return self.turns(job, ((job.submitted, job.id),))[0]

    def forget(self) -> None:
        """Turns have changed: the next ``update`` makes the line anew."""
        self._state = None

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

    def alikes(self) -> Iterator[tuple[Turn, Alike]]:
        """Every shape that somebody who waits has, with the turn of the first of them."""
        for alike in list(self._shapes.values()):
            turn = self.after(alike, FIRST)
            if turn is not None:
                yield turn, alike
            else:
                del self._shapes[alike.shape]

    def after(self, alike: Alike, turn: Turn, below: int | None = None) -> Turn | None:
        """The first of those that are alike and behind ``turn``; only those shorter than ``below`` ms, if given.

        None when there is nobody.
        """
        shorter = len(alike.lengths) if below is None else bisect_left(alike.lengths, below)
        if below is None or shorter * shorter > len(alike.turns):  # so many are shorter that one comes soon
            return self._next(alike.turns, turn, below)
        found = None
        for length in alike.lengths[:shorter]:
            first = self._next(alike.by_length[length], turn)
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
        known, jobs, where = self._where, state.jobs, dict[int, tuple[Alike, int]]()
        self._shapes, self._where = {}, where
        for _, group in moves.groups(state):
            alike = self._alike(group.key.shape, jobs[group.anyone()])
            lines = alike.by_length
            for ages in group.people.values():
                for turn in self.turns(jobs[ages[0][1]], ages):
                    job_id = turn[-1]
                    if job_id not in where:  # its groups in several clusters
                        length = known[job_id][1] if job_id in known else self.length(jobs[job_id])
                        where[job_id] = alike, length
                        if length in lines:
                            lines[length].append(turn)
                        else:
                            lines[length] = [turn]
        for alike in self._shapes.values():
            alike.arrange()

    def _add(self, job: Job) -> None:
        if job.id not in self._where:
            alike, length = self._alike(shape_of(job.spec), job), self.length(job)
            self._where[job.id] = alike, length
            alike.add(self.turn(job), length)

    def _alike(self, shape: Shape, sample: Job) -> Alike:
        alike = self._shapes.get(shape)
        if alike is None:
            assert self._state is not None
            known = self._state.clusters
            clusters = [known[name] for name in shape.clusters if name in known]
            alike = self._shapes[shape] = Alike(shape, sample, clusters)
        return alike

    def _next(self, turns: list[Turn], turn: Turn, below: int | None = None) -> Turn | None:
        """The first in a list after ``turn`` that waits; who has left and is come across is dropped."""
        assert self._state is not None
        n = bisect_right(turns, turn)
        while n < len(turns):
            found = turns[n]
            alike, length = self._where[found[-1]]
            if below is not None and length >= below:
                n += 1
            elif waits(self._state, self._state.jobs.get(found[-1])):
                return found
            else:
                del self._where[found[-1]]
                alike.drop(found, length)
        return None
