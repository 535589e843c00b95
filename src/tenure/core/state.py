"""The state of the whole scheduler: what the core reads and the only thing it changes.

Everything that a restart must bring back is in the records below; indices (rooms, queues, exposed attempts, timers)
are derived from them and kept up to date by the methods here, so that a pass costs what changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from tenure.core.ledger import OCCUPANCY, Kind, Ledger, Span
from tenure.core.model import GPU, Budget, Cluster, Grant, HostState, JobSpec, Policy
from tenure.core.placement import Room
from tenure.core.pool import Pool
from tenure.core.queue import Queue
from tenure.core.reasons import Because
from tenure.core.records import ArrayRecord, Attempt, Foreign, HostRecord, Job, Pending, Reservation, StopRecord
from tenure.core.tree import Tree

__all__ = ["ArrayRecord", "Attempt", "Foreign", "HostRecord", "Job", "Pending", "Reservation", "StopRecord"]
"""What is at home elsewhere and found here as well."""


@dataclass(slots=True)
class Held:
    """What a cluster keeps of a reservation while it lasts; derived."""

    reservation: Reservation
    mask: int
    """Its hosts as bits of the room."""
    gpus: int
    """GPUs of these hosts."""
    look_at: int = 0
    """Nothing on its hosts can be over before this time."""


@dataclass(slots=True)
class Places:
    """The places of an array with a throttle; derived."""

    taken: int = 0
    """Live jobs that are not behind the throttle."""
    waiting: list[int] = field(default_factory=list)
    """Jobs that want one, as a heap. Some may have ended, or hold a place already."""


class ClusterState:
    """One cluster: its declaration, rooms, ledger, queues and indices of attempts."""

    def __init__(self, spec: Cluster) -> None:
        self.spec = spec
        self.room = Room(spec.hosts)
        self.empty = Room(spec.hosts)
        """The hosts as they would be if all were open and nothing ran."""
        self.ledger = Ledger()
        self.queues: dict[Kind, Queue] = {kind: Queue(kind) for kind in OCCUPANCY}
        self.hosts: dict[str, HostRecord] = {}
        self.foreign: dict[str, Foreign] = {}
        """Host -> what others than Tenure use of it, where they use anything."""
        self.on_host: dict[str, set[str]] = {h.name: set() for h in spec.hosts}
        """Attempts that hold or claim GPUs of a host."""
        self.exposed: dict[str, dict[str, Attempt]] = {}
        """Leaf -> charged attempts that run exposed and are not being stopped."""
        self.unallocated: dict[str, dict[str, Attempt]] = {}
        """Leaf -> unallocated attempts that are not being stopped."""
        self.unallocated_gpus = 0
        self.unallocated_tally = 0
        """Their GPUs by host (see ``tally``)."""
        self.pools: dict[Kind, Pool] = {kind: Pool() for kind in OCCUPANCY}
        """What jobs of a kind may evict by standing: exposed charged attempts; unallocated ones after their turn."""
        self.leaving: dict[str, Attempt] = {}
        """Attempts that are being evicted for a claim and have not released yet."""
        self.freed = 0
        """GPUs that ever became free, or evictable, or less protected: what wakes parked groups."""
        self.recent_evictions: deque[int] = deque()
        self.recent_moves: deque[int] = deque()
        """When attempts were moved in the last hour (see ``defrag``)."""
        self.cap_until = 0
        """Until when the cap on evictions holds back what was parked for it; a timer waits for that."""
        self.draining: set[str] = set()
        self.reservations: dict[int, Held] = {}
        """Job -> the hosts that are held for it, in the order in which they were made."""
        self.held: dict[str, int] = {}
        """Host -> the job for which it is held."""
        self.held_gpus = 0
        """GPUs of the hosts that are held."""
        self.headroom: tuple[str, ...] = ()
        """Hosts that are kept for short contracts."""
        self.headroom_mask = 0
        self.shorts: deque[tuple[int, int]] = deque()
        """When short contracts were submitted in the last hour, and their GPUs."""
        self.looking = False
        """Whether the step under way looks for jobs in turn that need a reservation."""
        self.look_at = 0
        """When a timer that is set makes it look; 0: none is."""

    def headroom_limit(self, percent: int, gpus: int) -> int:
        """The most GPUs that are kept for short contracts: ``percent`` of ``gpus``, rounded to whole hosts.

        So a small cluster does not keep a large part of itself.
        """
        size = max((host.gpus for host in self.spec.hosts), default=0) or 1
        return (percent * gpus * 2 + 100 * size) // (200 * size) * size

    def healthy_gpus(self) -> int:
        """GPUs on hosts that are healthy, or draining and still occupied."""
        total = 0
        for host in self.spec.hosts:
            state = self.hosts[host.name].state
            if state is HostState.HEALTHY or (state is HostState.DRAINING and self.on_host[host.name]):
                total += host.gpus
        return total


class Due:
    """Kinds of due times. A timer that no longer matches its record is ignored when it comes up."""

    EXPOSED: Final = "exposed"
    TURN_OVER: Final = "turn_over"
    START_TIMEOUT: Final = "start_timeout"
    TIMEOUT: Final = "timeout"
    RELEASE_BY: Final = "release_by"
    BACKOFF: Final = "backoff"
    GRANT: Final = "grant"
    EVICTION_CAP: Final = "eviction_cap"
    DRAIN_DEADLINE: Final = "drain_deadline"
    LOOK: Final = "look"
    OF_ATTEMPTS: Final = frozenset({EXPOSED, TURN_OVER, START_TIMEOUT, TIMEOUT, RELEASE_BY})


class State:
    """All of it. ``now`` never runs backwards."""

    def __init__(self) -> None:
        self.now = 0
        self.acting_at = 0
        """When what the step under way decides can be acted on: its end. ``now`` passes through all that fell due."""
        self.clusters: dict[str, ClusterState] = {}
        self.policy = Policy()
        self.budgets: tuple[Budget, ...] = ()
        self.grants: tuple[Grant, ...] = ()
        self.tree: Tree | None = None
        self.jobs: dict[int, Job] = {}
        self.attempts: dict[str, Attempt] = {}
        self.arrays: dict[int, ArrayRecord] = {}
        self.pending: dict[int, Pending] = {}
        """Submission (job or array) -> what it waits for."""
        self.dependents: dict[tuple[int, bool], list[int]] = {}
        """(Job, False) or (array, True) -> submissions that wait for its end; some may wait no longer."""
        self.array_live: dict[int, int] = {}
        """Array -> how many of its jobs have not ended."""
        self.places: dict[int, Places] = {}
        """Arrays with a throttle."""
        self.paused_starts = ""
        self.paused_evictions = ""
        """Who paused, or ''."""
        self.clock_alarm = False
        self.timers: list[tuple[int, str, str]] = []
        self.signals: list[tuple[int, str]] = []
        """When attempts are warned or killed: nothing for the core to do, but whoever drives it wakes up for them."""
        self.claims: dict[str, set[str]] = {}
        """Victim attempt -> claims that wait for it."""
        self.complete_claims: list[str] = []
        """Claims whose last victim has released in the step under way."""
        # What changed since the engine last looked, for its tables.
        self.touched_jobs: set[int] = set()
        self.ended_jobs: list[Job] = []
        self.ended_attempts: list[tuple[Attempt, Because]] = []
        self.closed_spans: list[tuple[str, Span]] = []

    def the_tree(self) -> Tree:
        """The tree of budgets. Raises ValueError before the first configuration."""
        if self.tree is None:
            raise ValueError("no configuration has been applied yet")
        return self.tree

    def due(self, at: int, kind: str, key: str) -> None:
        heappush(self.timers, (at, kind, key))

    def signal(self, at: int, attempt_id: str) -> None:
        heappush(self.signals, (at, attempt_id))

    def pop_due(self, now: int) -> Iterator[tuple[int, str, str]]:
        while self.signals and self.signals[0][0] <= now:
            heappop(self.signals)
        while self.timers and self.timers[0][0] <= now:
            yield heappop(self.timers)

    def next_due(self, *, signals: bool = True) -> int | None:
        """When something next falls due. Without ``signals``: for the core alone, not for who warns and kills."""
        while self.timers and self._stale(*self.timers[0]):
            heappop(self.timers)
        due = self.timers[0][0] if self.timers else None
        while signals and self.signals and self._gone(*self.signals[0]):
            heappop(self.signals)
        if signals and self.signals and (due is None or self.signals[0][0] < due):
            return self.signals[0][0]
        return due

    def _stale(self, at: int, kind: str, key: str) -> bool:
        """Whether a timer is sure to change nothing: what it waited for has happened, or cannot happen any more."""
        if kind not in Due.OF_ATTEMPTS:
            return False
        attempt = self.attempts.get(key)
        if attempt is None:
            return True
        if kind == Due.RELEASE_BY:
            return attempt.stop is None or attempt.stop.release_by != at
        return attempt.stop is not None or (kind == Due.START_TIMEOUT and attempt.running_since is not None)

    def _gone(self, at: int, attempt_id: str) -> bool:
        """Whether a signal is out of date."""
        attempt = self.attempts.get(attempt_id)
        stop = attempt.stop if attempt is not None else None
        return stop is None or at not in (stop.warn_at, stop.kill_at)

    def queue_of(self, job: Job, cluster: str) -> Queue:
        return self.clusters[cluster].queues[job.kind]

    def enqueue(self, job: Job) -> None:
        """Put a queued job where passes find it, unless it is held, backs off or waits for others (see ``waits``)."""
        if job.held_by or job.not_before > self.now or job.behind or job.submission in self.pending:
            return
        for name in job.spec.clusters:
            if name in self.clusters:
                reserved = job.id if job.reservation is not None else 0
                self.queue_of(job, name).add(job.id, job.spec, job.leaf, job.submitted, reserved)
                self.look_soon(self.clusters[name])

    def look_soon(self, cluster: ClusterState) -> None:
        """Set the timer that makes passes look for jobs in turn, when charged jobs wait."""
        every, policy = self.policy.look_every, self.policy
        if cluster.look_at or not cluster.queues[Kind.CHARGED].groups:
            return
        # By what is declared: whether a timer is set must not depend on which hosts are healthy just now.
        keeps = cluster.headroom_limit(policy.headroom_percent, cluster.spec.gpus)
        if policy.reserved_percent or policy.moves_per_hour or keeps:
            cluster.look_at = (self.now // every + 1) * every
            self.due(cluster.look_at, Due.LOOK, cluster.spec.name)

    def dequeue(self, job: Job) -> None:
        for name in job.spec.clusters:
            if name in self.clusters:
                self.queue_of(job, name).discard(job.id, job.spec.user, job.submitted)

    def unpark_all(self) -> None:
        for cluster in self.clusters.values():
            for queue in cluster.queues.values():
                queue.unpark()

    def evictions_allowed(self) -> bool:
        return not (self.paused_evictions or self.clock_alarm)


def protected(attempt: Attempt, now: int) -> bool:
    """Rule 1's one predicate: whether anything short of a host failure or a person may evict it at ``now``.

    A charged attempt is protected from its start until ``protected_until``; an unallocated one never is.
    """
    if not attempt.charged:
        return False
    return attempt.protected_until is None or now < attempt.protected_until


def margin_amount(spec: JobSpec) -> int:
    """A job's GPUs in thousandths, which rule 7's margin counts."""
    return spec.gpus * GPU
