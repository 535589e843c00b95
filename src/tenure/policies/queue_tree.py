"""The queues of one cluster as a policy sees them during a pass: a tree with shares, and who holds and wants how much.

A queue is a leaf of the tree of budgets; inner budgets add up what is below them. Units as in ``core.model``: whole
GPUs, thousandths of a CPU, MiB, amounts in thousandths of a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tenure.core.model import HostState, JobSpec
from tenure.core.state import Attempt, ClusterState, Job, State
from tenure.core.tree import line_of


class Need(NamedTuple):
    """GPUs, CPUs (thousandths) and memory (MiB)."""

    gpus: int
    cpus: int
    mem: int

    def plus(self, other: Need, times: int = 1) -> Need:
        """This and ``times`` the other."""
        return Need(self.gpus + times * other.gpus, self.cpus + times * other.cpus, self.mem + times * other.mem)


NOTHING = Need(0, 0, 0)


def need_of(spec: JobSpec) -> Need:
    """What a job takes, over all its replicas."""
    if len(spec.roles) == 1:
        role = spec.roles[0]
        return Need(role.replicas * role.gpus, role.replicas * role.cpus, role.replicas * role.mem)
    gpus = cpus = mem = 0
    for role in spec.roles:
        gpus += role.replicas * role.gpus
        cpus += role.replicas * role.cpus
        mem += role.replicas * role.mem
    return Need(gpus, cpus, mem)


class QueueNode:
    """A budget of the tree: a queue if it is a leaf, else all queues below it."""

    __slots__ = (
        "allocation",
        "amount",
        "attempts",
        "children",
        "denominator",
        "first",
        "leaving",
        "parent",
        "path",
        "ready",
        "share",
        "used",
    )

    def __init__(self, path: str, parent: QueueNode | None, allocation: int, denominator: int) -> None:
        self.path = path
        self.parent = parent
        self.children: list[QueueNode] = []
        """By id; none below a queue."""
        self.allocation = allocation
        self.denominator = denominator
        """Its part of the cluster is ``allocation`` / ``denominator``, grants included."""
        above = parent.allocation if parent is not None else 1
        self.share = allocation // above if above else 0
        """Its part of its parent, parts per million; 0 where the parent has nothing. The root has 1 of 1."""
        self.used = NOTHING
        """Held or claimed, also by those who are being stopped and have not released yet."""
        self.amount = 0
        """The same as it is charged, thousandths of a GPU."""
        self.leaving = NOTHING
        """The part of ``used`` of those who are being stopped: evicted, cancelled, timed out."""
        self.attempts: dict[str, Attempt] = {}
        """Those of a queue, by id, in no order that a policy may rely on; empty for an inner budget."""
        self.first: Job | None = None
        """The job of a queue that would be placed next if the queue were chosen: it fits. None when there is none."""
        self.ready = 0
        """How many queues here or below have such a job."""

    def __repr__(self) -> str:
        return f"QueueNode({self.path}, used={self.used}, ready={self.ready})"

    def gpus_of(self, total: int) -> int:
        """Its allocation of so many GPUs, rounded to the nearest whole one, a half up."""
        return (2 * self.allocation * total + self.denominator) // (2 * self.denominator)


class Queues:
    """The tree of one cluster during a pass. Everything here is kept up to date as plans are applied."""

    def __init__(self, state: State, cluster: ClusterState) -> None:
        self.state = state
        self.cluster = cluster
        self.now = state.now
        self.nodes: dict[str, QueueNode] = {}
        self.capacity = _healthy(cluster)
        """What healthy hosts have; draining ones count while they are occupied."""
        tree = state.the_tree()
        order = [tree.root]
        for path in order:  # parents first
            node = tree.nodes[path]
            above = self.nodes[node.parent] if node.parent is not None else None
            allocation = cluster.ledger.account(path).allocation
            made = self.nodes[path] = QueueNode(path, above, allocation, tree.denominators[path])
            if above is not None:
                above.children.append(made)
            order.extend(node.children)
        self.root = self.nodes[tree.root]
        self.leaves = [node for node in self.nodes.values() if not node.children]
        self._demands: dict[str, Need] | None = None
        self._add_up()

    def ready(self) -> list[QueueNode]:
        """The queues with a job that could be placed now, in the order of the tree."""
        return [leaf for leaf in self.leaves if leaf.ready]

    def descend(self, pick: Callable[[Sequence[QueueNode]], QueueNode]) -> str:
        """From the root down, at each level the one that ``pick`` takes of those with a job that could be placed."""
        node = self.root
        while node.children:
            below = [child for child in node.children if child.ready]
            node = pick(below) if len(below) > 1 else below[0]
        return node.path

    def demand(self, path: str) -> Need:
        """What a budget holds, and what its jobs that wait in this cluster's queue ask for beyond that.

        A job that accepts several clusters counts in each until it starts. Counted once a pass: placing a job changes
        where it counts, not how much.
        """
        if self._demands is None:
            self._demands = self._count()
        return self._demands[path]

    def line(self, leaf: str) -> list[QueueNode]:
        """From the root down to a queue."""
        return [self.nodes[path] for path in line_of(leaf)]

    # ---- for the pass

    def hold(self, attempt: Attempt) -> None:
        """An attempt holds or claims GPUs."""
        need = need_of(self.state.jobs[attempt.job_id].spec)
        for node in self.line(attempt.leaf):
            node.used = node.used.plus(need)
            node.amount += attempt.amount
            if attempt.stop is not None:
                node.leaving = node.leaving.plus(need)
        node.attempts[attempt.id] = attempt

    def stopped(self, attempt: Attempt) -> None:
        """An attempt that is held here is being stopped from now on."""
        need = need_of(self.state.jobs[attempt.job_id].spec)
        for node in self.line(attempt.leaf):
            node.leaving = node.leaving.plus(need)

    def offer(self, leaf: str, first: Job | None) -> None:
        """The job of a queue that could be placed next; None: there is none any more."""
        node = self.nodes[leaf]
        change = (first is not None) - (node.first is not None)
        node.first = first
        if change:
            for above in self.line(leaf):
                above.ready += change

    def _add_up(self) -> None:
        """What attempts hold: as ``hold`` for each of them, but the line of each queue is gone up once."""
        name, jobs, nodes = self.cluster.spec.name, self.state.jobs, self.nodes
        for attempt in self.state.attempts.values():
            if attempt.cluster == name:
                leaf, need = nodes[attempt.leaf], need_of(jobs[attempt.job_id].spec)
                leaf.used = leaf.used.plus(need)
                leaf.amount += attempt.amount
                if attempt.stop is not None:
                    leaf.leaving = leaf.leaving.plus(need)
                leaf.attempts[attempt.id] = attempt
        for node in reversed(nodes.values()):  # children first
            above = node.parent
            if above is not None and node.amount:
                above.used = above.used.plus(node.used)
                above.amount += node.amount
                above.leaving = above.leaving.plus(node.leaving)

    def _count(self) -> dict[str, Need]:
        demands = {path: node.used for path, node in self.nodes.items()}
        for queue in self.cluster.queues.values():
            for leaf, groups in queue.leaves.items():
                asked = NOTHING
                for group in groups.values():
                    asked = asked.plus(need_of(group.spec), len(group))
                for path in line_of(leaf):
                    demands[path] = demands[path].plus(asked)
        return demands


def _healthy(cluster: ClusterState) -> Need:
    gpus = cpus = mem = 0
    for host in cluster.spec.hosts:
        state = cluster.hosts[host.name].state
        if state is HostState.HEALTHY or (state is HostState.DRAINING and cluster.on_host[host.name]):
            gpus, cpus, mem = gpus + host.gpus, cpus + host.cpus, mem + host.mem
    return Need(gpus, cpus, mem)
