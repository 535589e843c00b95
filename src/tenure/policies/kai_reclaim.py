"""Whom KAI Scheduler reclaims from and preempts: ``actions/reclaim``, ``actions/preempt``, ``plugins/proportion``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from tenure.core.ledger import Kind
from tenure.core.reasons import Because, Number, Reason
from tenure.core.state import Attempt, Job
from tenure.policies import moves
from tenure.policies.kai_runtimes import Runtimes
from tenure.policies.queue_tree import QueueNode, Queues

Level = tuple[bool, int]
"""What orders jobs within a queue, larger first: charged or not, then the priority."""


class Fair(NamedTuple):
    """What a node may have, in GPUs: its fair share and its quota."""

    share: int
    quota: int

    @property
    def allocatable(self) -> int:
        return max(self.share, self.quota)


def part(held: int, of: int) -> Fraction:
    """How full something is. Who has no right to anything is punished for what he holds."""
    return Fraction(held, of) if of else Fraction(held * 1000)


def level(job: Job) -> Level:
    return job.spec.charged, job.spec.priority


def may_lose(mine: Fair, after: int, theirs: Fair, left: int) -> bool:
    """KAI's two strategies, of siblings: one has more than it may have; or more than its quota, and the other less.

    ``after``: GPUs that the first will hold; ``left``: that the other holds before it loses more.
    """
    return left > theirs.allocatable or (after <= mine.quota and left > theirs.quota)


def stays_lower(share: int, after: int, other: int, left: int) -> bool:
    """Who has more than his fair ``share`` ``after`` the move must have less of it than the ``other`` has ``left``."""
    if after <= share or not other:
        return True
    return bool(share) and after * other < left * share


class Standing:
    """The queues of a pass, with what each deserves as of its beginning; who holds what is as of now."""

    def __init__(self, queues: Queues, fair: dict[str, Fair], runtimes: Runtimes) -> None:
        self.queues = queues
        self.fair = fair
        self.runtimes = runtimes
        self._waiting: dict[str, tuple[int, Level]] = {}
        """By queue: the GPUs of the smallest charged job that waits, and the highest level."""
        self._counted: tuple[int, int] | None = None

    def held(self, node: QueueNode) -> int:
        """GPUs that it holds or claims, without those that are being released."""
        return node.used.gpus - node.leaving.gpus

    def waiting(self) -> list[QueueNode]:
        """Queues in which charged jobs wait."""
        self._count()
        return [leaf for leaf in self.queues.leaves if leaf.path in self._waiting]

    def rank(self, path: str) -> tuple[tuple[bool, Fraction, str], ...]:
        """Sorts queues: those that lack most of what they deserve are first, level by level."""
        found = []
        for node in self.queues.line(path)[1:]:
            fair, held = self.fair[node.path], self.held(node)
            found.append((held > fair.share, part(held, fair.allocatable), node.path))
        return tuple(found)

    def may_take(self, leaf: QueueNode) -> bool:
        """Whether some job of the queue may reclaim, or there may be somebody in it to preempt."""
        self._count()
        least, highest = self._waiting[leaf.path]
        if self.held(leaf) + least <= self.fair[leaf.path].share:
            return True
        jobs, since = self.queues.state.jobs, self.queues.now - self.runtimes.preempted(leaf.path)
        return any(level(jobs[a.job_id]) < highest for a in running(leaf, since))

    def _count(self) -> None:
        """Again after every claim."""
        now = self.queues.root.used.gpus, self.queues.root.leaving.gpus
        if self._counted == now:
            return
        self._counted, self._waiting = now, {}
        for leaf, groups in self.queues.cluster.queues[Kind.CHARGED].leaves.items():
            if groups:
                gpus = min(group.gpus for group in groups.values())
                self._waiting[leaf] = gpus, (True, max(key.priority for key in groups))


def running(leaf: QueueNode, since: int) -> Iterator[Attempt]:
    """Attempts of a queue that started at ``since`` (ms UTC) or before and are not being stopped."""
    for attempt in leaf.attempts.values():
        if attempt.stop is None and attempt.started_at is not None and attempt.started_at <= since:
            yield attempt


def preempted(standing: Standing, job: Job) -> Sequence[tuple[Attempt, Because]]:
    """Whom a job may preempt in its own queue, the lowest first, and of those who started last."""
    queues, jobs = standing.queues, standing.queues.state.jobs
    leaf, since = queues.nodes[job.leaf], queues.now - standing.runtimes.preempted(job.leaf)
    found = [a for a in running(leaf, since) if level(jobs[a.job_id]) < level(job)]
    found.sort(key=lambda a: _worth(jobs[a.job_id], a))
    return [(attempt, _outranked(job, jobs[attempt.job_id])) for attempt in found]


def reclaimed(standing: Standing, job: Job) -> Sequence[tuple[Attempt, Because]]:
    """Whom a job may have evicted from other queues, in turn, until it fits; nobody when it does not fit even so.

    The queue that has most of what it may have is the first to lose somebody. What it lost counts from then on.
    """
    queues, need = standing.queues, job.spec.gpus
    own = queues.line(job.leaf)
    if standing.held(own[-1]) + need > standing.fair[job.leaf].share:
        return ()
    search = _Search(standing, job)
    room = moves.room_later(queues.cluster, queues.cluster.leaving.values())
    found: list[tuple[Attempt, Because]] = []
    while True:
        attempt = search.next()
        if attempt is None:
            return ()
        numbers: dict[str, Number] = {"gainer": job.id, "first": job.leaf, "second": attempt.leaf}
        found.append((attempt, Because(Reason.EVICTED_STANDING, numbers)))
        room.give(attempt.slots)
        if room.free_gpus >= need and room.can_fit(job.spec.roles, job.spec.labels):
            return found


class _Search:
    """Goes through attempts of other queues that may go for a job, as if all that were found went."""

    def __init__(self, standing: Standing, job: Job) -> None:
        self.standing = standing
        self.need = job.spec.gpus
        queues, jobs = standing.queues, standing.queues.state.jobs
        self.own = {node.path for node in queues.line(job.leaf)}
        self.left = {path: standing.held(node) for path, node in queues.nodes.items()}
        """GPUs that each node would hold without those found."""
        self.prey: dict[str, list[Attempt]] = {}
        """By queue, who goes first last."""
        self.live: dict[str, int] = {}
        """How many below each node have not been looked at."""
        for leaf in queues.leaves:
            if leaf.path != job.leaf:
                since = queues.now - standing.runtimes.reclaimed(leaf.path, by=job.leaf)
                here = [a for a in running(leaf, since) if _is_open(queues, a)]
                here.sort(key=lambda a: _worth(jobs[a.job_id], a), reverse=True)
                self.prey[leaf.path] = here
                for node in queues.line(leaf.path):
                    self.live[node.path] = self.live.get(node.path, 0) + len(here)

    def next(self) -> Attempt | None:
        root = self.standing.queues.root
        while self.live.get(root.path):
            node, mine, theirs = root, root, root
            while node.children:
                below = [child for child in node.children if self.live.get(child.path)]
                node = max(below, key=self._full) if len(below) > 1 else below[0]
                if theirs.path in self.own:  # still on the way that both have in common
                    theirs = node
            if not self._may_lose(theirs):
                self._forget(theirs)
                continue
            mine = self._beside(theirs)
            attempt = self.prey[node.path].pop()
            line = self.standing.queues.line(node.path)
            for each in line:
                self.live[each.path] -= 1
            if self._stays_lower(mine, theirs, attempt.gpus):
                for each in line:
                    self.left[each.path] -= attempt.gpus
                return attempt
        return None

    def _full(self, node: QueueNode) -> tuple[bool, bool, Fraction, str]:
        """Sorts siblings: who has most of what he may have is the last."""
        fair, left = self.standing.fair[node.path], self.left[node.path]
        return left > fair.share, left > fair.quota, part(left, fair.allocatable), node.path

    def _beside(self, theirs: QueueNode) -> QueueNode:
        """The sibling of a node that leads to the job's own queue."""
        assert theirs.parent is not None
        return next(child for child in theirs.parent.children if child.path in self.own)

    def _may_lose(self, theirs: QueueNode) -> bool:
        mine, fair = self._beside(theirs), self.standing.fair
        held = self.standing.held(mine)
        return may_lose(fair[mine.path], held + self.need, fair[theirs.path], self.left[theirs.path])

    def _stays_lower(self, mine: QueueNode, theirs: QueueNode, gpus: int) -> bool:
        fair, after = self.standing.fair, self.standing.held(mine) + self.need
        return stays_lower(fair[mine.path].share, after, fair[theirs.path].share, self.left[theirs.path] - gpus)

    def _forget(self, node: QueueNode) -> None:
        """Nobody below it can go."""
        for leaf, prey in self.prey.items():
            line = self.standing.queues.line(leaf)
            if node in line:
                for each in line:
                    self.live[each.path] -= len(prey)
                prey.clear()


def _is_open(queues: Queues, attempt: Attempt) -> bool:
    return any(queues.cluster.room.is_open(slot.host) for slot in attempt.slots)


def _worth(job: Job, attempt: Attempt) -> tuple[bool, int, int, int]:
    """Who goes first of a queue: unallocated ones, the lowest priority, who started last."""
    return *level(job), -(attempt.started_at or 0), -job.id


def _outranked(job: Job, victim: Job) -> Because:
    if job.spec.charged and not victim.spec.charged:
        return Because(Reason.EVICTED_UNALLOCATED, {"gainer": job.id, "gainer_gpus": job.spec.gpus})
    numbers = {"gainer": job.id, "gainer_priority": job.spec.priority, "victim_priority": victim.spec.priority}
    return Because(Reason.EVICTED_PRIORITY, numbers)
