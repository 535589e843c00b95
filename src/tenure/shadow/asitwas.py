"""Slurm's own decisions as a policy: each job starts when and where Slurm started it.

So what really happened goes through the same core, ledger and tables as what Tenure would have done. With a time of
takeover another policy decides from then on, Tenure's own pass or any other: all have the same past.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from tenure.core.apply import apply
from tenure.core.capacity import lowest
from tenure.core.decisions import Plan, Start
from tenure.core.model import Slots
from tenure.core.state import Attempt, ClusterState, Job, State
from tenure.policies import moves
from tenure.policies.base import Policy
from tenure.policies.budgets import Budgets


@dataclass(frozen=True, slots=True)
class Where:
    """A start under Slurm: ``at`` in ms UTC, on which hosts; none: nobody knows where."""

    at: int
    hosts: tuple[str, ...]


class AsItWas:
    """Starts what Slurm started, and evicts nobody. From ``takeover`` on (ms UTC, None: never) ``then`` decides."""

    def __init__(self, takeover: int | None = None, then: Policy | None = None) -> None:
        self.then = then or Budgets()
        self.name = "as it was" if takeover is None else self.then.name
        self.takeover = takeover
        self.late = 0
        """Starts for which there was no room at their time: ends that Slurm tells a second too late."""
        self._due: list[tuple[int, int, Where]] = []
        self._waiting: list[tuple[int, Where]] = []
        """Jobs whose time has come and whose place is not free yet."""

    def expect(self, job_id: int, where: Where) -> None:
        """The job is going to start there."""
        heappush(self._due, (where.at, job_id, where))

    def run(self, state: State) -> list[Plan]:
        if self.takeover is not None and state.now >= self.takeover:
            return self.then.run(state)
        ready, self._waiting = self._waiting, []
        while self._due and self._due[0][0] <= state.now:
            _, job_id, where = heappop(self._due)
            ready.append((job_id, where))
        plans: list[Plan] = []
        for job_id, where in ready:
            job = state.jobs.get(job_id)
            if job is None or job.attempt is not None:
                continue
            plan = _start(state, job, where)
            if plan is None:
                self.late += where.at == state.now
                self._waiting.append((job_id, where))
                continue
            apply(state, plan)
            plans.append(plan)
        return plans

    def protected(self, attempt: Attempt, now: int) -> bool:
        return self.takeover is None or self.then.protected(attempt, now)

    def withheld(self, state: State) -> int:
        """What Slurm leaves free and why, nobody can tell from the outside."""
        return 0 if self.takeover is None or state.now < self.takeover else self.then.withheld(state)


def _start(state: State, job: Job, where: Where) -> Start | None:
    for name in job.spec.clusters:
        cluster = state.clusters[name]
        if all(host in cluster.room.index for host in where.hosts):
            slots = _slots(cluster, job, where.hosts or _somewhere(cluster, job))
            if slots is not None:
                return moves.start(state, cluster, job, slots)
    return None


def _somewhere(cluster: ClusterState, job: Job) -> Sequence[str]:
    """Hosts for a job of which nobody knows where it ran: where it fits best, else where most is free."""
    found = moves.find(cluster.room, job)
    if found is not None:
        return [slot.host for slot in found]
    hosts, left = [], job.spec.gpus
    for host in sorted(cluster.room.index, key=lambda name: -cluster.room.free_on(name).bit_count()):
        if left > 0:
            hosts.append(host)
            left -= cluster.room.free_on(host).bit_count()
    return hosts


def _slots(cluster: ClusterState, job: Job, hosts: Sequence[str]) -> tuple[Slots, ...] | None:
    """Its GPUs on these hosts, evenly if they are free like that; None while they are not free at all.

    Which GPUs of a host a job has, and how many of which host, Slurm does not say in bulk.
    """
    free = {host: cluster.room.free_on(host) for host in dict.fromkeys(hosts)}
    shares = _spread(job.spec.gpus, {host: bits.bit_count() for host, bits in free.items()})
    if shares is None:
        return None
    role = job.spec.roles[0]
    return tuple(
        Slots(0, number, host, lowest(free[host], count), role.cpus, role.mem)
        for number, (host, count) in enumerate(shares.items())
        if count
    )


def _spread(gpus: int, free: dict[str, int]) -> dict[str, int] | None:
    if sum(free.values()) < gpus:
        return None
    each, more = divmod(gpus, len(free))
    even = {host: each + (number < more) for number, host in enumerate(free)}
    if all(even[host] <= free[host] for host in free):
        return even
    shares = {}
    for host, count in free.items():
        shares[host] = min(count, gpus)
        gpus -= shares[host]
    return shares
