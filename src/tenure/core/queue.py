"""The queue of one cluster: jobs that are alike wait in one group, so trying one answers for all of them.

Jobs of one budget, kind, priority and shape differ only in who goes first. When the first of a group cannot be
placed none of it can, and the group is *parked* until something it could use has changed.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import NamedTuple

from tenure.core.ledger import Kind
from tenure.core.model import SHORT_RUNTIME, JobSpec, Label
from tenure.core.reasons import Reason
from tenure.core.tree import line_of
from tenure.core.watch import Watch


class Shape(NamedTuple):
    """What placement and eviction depend on: (replicas, gpus, cpus, mem) per role, labels, accepted clusters.

    And the contract's ``min_runtime``, ms, rounded up to 15 min so that jobs stay alike: held hosts let in what is over
    in time (rule 10).
    """

    roles: tuple[tuple[int, int, int, int], ...]
    labels: tuple[Label, ...]
    clusters: tuple[str, ...]
    min_runtime: int
    apart: tuple[bool, ...] = ()
    """Per role, whether its replicas keep to hosts of their own; empty when none does."""


def shape_of(spec: JobSpec) -> Shape:
    roles = tuple((r.replicas, r.gpus, r.cpus, r.mem) for r in spec.roles)
    quarters = -(-spec.contract.min_runtime // SHORT_RUNTIME)
    apart = tuple(r.apart for r in spec.roles) if any(r.apart for r in spec.roles) else ()
    return Shape(roles, spec.labels, spec.clusters, quarters * SHORT_RUNTIME, apart)


class GroupKey(NamedTuple):
    leaf: str
    priority: int
    shape: Shape
    reserved: int = 0
    """The job, if it holds a reservation: it is like no other."""


def key_of(spec: JobSpec, leaf: str, reserved: int = 0) -> GroupKey:
    """The group that such a job of ``leaf`` waits in. ``reserved``: the job, if it holds a reservation."""
    return GroupKey(leaf, spec.priority, shape_of(spec), reserved)


class Parked(NamedTuple):
    """Why a group was not placed when it was last tried."""

    reason: Reason
    freed: int = 0
    """The cluster's count of freed GPUs then."""
    short: int = 1
    """How many more must become free or evictable before another try can end otherwise."""


@dataclass(slots=True, eq=False)
class Group:
    """Waiting jobs that are alike, each person's in order of seniority: (first submitted, id)."""

    key: GroupKey
    kind: Kind
    spec: JobSpec
    """Of one of them: all that placement asks for is the same for each."""
    people: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    parked: Parked | None = None
    gpus: int = field(init=False)
    single: bool = field(init=False)
    """One replica: it needs one host."""

    def __post_init__(self) -> None:
        self.gpus = self.spec.gpus
        roles = self.key.shape.roles
        self.single = len(roles) == 1 and roles[0][0] == 1

    def anyone(self) -> int:
        """A job of the group; what holds for one of them holds for all."""
        return next(iter(self.people.values()))[0][1]

    def heads(self) -> list[tuple[str, tuple[int, int]]]:
        return [(user, jobs[0]) for user, jobs in self.people.items()]

    def __len__(self) -> int:
        return sum(len(jobs) for jobs in self.people.values())


class Queue:
    """Groups of one kind (charged or unallocated) of one cluster, by leaf."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.leaves: dict[str, dict[GroupKey, Group]] = {}
        self.groups = 0
        """How many there are in all leaves."""
        self.fresh: dict[Group, None] = {}
        """Groups that are to be tried whatever has changed."""
        self.sizes: dict[str, dict[int, int]] = {}
        """Node -> GPUs -> how many groups below it want so many."""
        self.resized: set[str] = set()
        """Nodes below which a size is new."""
        self.watch = Watch()
        self._where: dict[int, Group] = {}
        """Job -> the group that it waits in."""

    def add(self, job_id: int, spec: JobSpec, leaf: str, submitted: int, reserved: int = 0) -> None:
        key = key_of(spec, leaf, reserved)
        groups = self.leaves.setdefault(leaf, {})
        group = groups.get(key)
        if group is None:
            group = groups[key] = Group(key, self.kind, spec)
            self.fresh[group] = None
            self.groups += 1
            for path in line_of(leaf):
                sizes = self.sizes.setdefault(path, {})
                sizes[group.gpus] = sizes.get(group.gpus, 0) + 1
                if sizes[group.gpus] == 1:
                    self.resized.add(path)
        insort(group.people.setdefault(spec.user, []), (submitted, job_id))
        self._where[job_id] = group

    def discard(self, job_id: int, user: str, submitted: int) -> None:
        """Take a job out; nothing happens when it is not here."""
        group = self._where.pop(job_id, None)
        if group is None:
            return
        jobs = group.people[user]
        jobs.remove((submitted, job_id))  # mostly the first
        if jobs:
            return
        del group.people[user]
        if not group.people:
            leaf = group.key.leaf
            groups = self.leaves[leaf]
            del groups[group.key]
            self.fresh.pop(group, None)
            self.groups -= 1
            for path in line_of(leaf):
                sizes = self.sizes[path]
                sizes[group.gpus] -= 1
                if not sizes[group.gpus]:
                    del sizes[group.gpus]
            if not groups:
                del self.leaves[leaf]

    def group_of(self, job_id: int) -> Group | None:
        return self._where.get(job_id)

    def unpark(self, reason: Reason | None = None) -> None:
        """Everything, or everything parked for ``reason``, is to be tried again."""
        for groups in self.leaves.values():
            for group in groups.values():
                if reason is None or (group.parked is not None and group.parked.reason is reason):
                    group.parked = None
                    self.fresh[group] = None
