"""What an answer should say, reckoned anew from spans, contracts and declared shares: slow, plain, and by itself.

Nothing here asks the ledger, standings, rooms or queues of the core. Amounts are thousandths of a GPU, usage is that x
ms, entitlements and ratios are exact fractions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key

from support.world import World
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import GPU, SELF, SHARE_ONE, Budget
from tenure.core.state import Attempt, Job


@dataclass
class Brute:
    """One cluster of a world at its ``now``.

    ``past``: the trees that held since the cluster's first record, before today's: until when, and the healthy GPUs
    meanwhile.
    """

    world: World
    cluster: str = "main"
    past: Sequence[tuple[int, tuple[Budget, ...], int]] = ()

    # ---- the tree

    @property
    def now(self) -> int:
        return self.world.state.now

    @property
    def gpus(self) -> int:
        """GPUs of the cluster, all healthy."""
        return sum(host.gpus for c in self.world.clusters if c.name == self.cluster for host in c.hosts)

    def children(self, path: str) -> list[str]:
        below = [b.path for b in self.world.tree if b.path.rpartition("/")[0] == path]
        return sorted([*below, f"{path}/{SELF}"]) if below else []

    def allocation(self, path: str, tree: Sequence[Budget] | None = None) -> Fraction:
        """The product of the shares on the path; ``self`` has what its siblings leave."""
        declared = {b.path: b for b in (self.world.tree if tree is None else tree)}
        parent, _, name = path.rpartition("/")
        if not parent:
            return Fraction(1)
        if path in declared:
            share = Fraction(declared[path].share_on(self.cluster), SHARE_ONE)
        elif name == SELF and parent in declared:
            others = [b for b in declared.values() if b.path.rpartition("/")[0] == parent]
            share = 1 - sum((Fraction(b.share_on(self.cluster), SHARE_ONE) for b in others), Fraction())
        else:
            return Fraction(0)
        return share * self.allocation(parent, tree)

    # ---- rule 4

    def spans(self, kind: Kind) -> list[tuple[str, str, int, int, int]]:
        """(leaf, user, amount, start, end) of all that was or is occupied; of credits the amount is negative."""
        found = []
        for name, span in self.world.spans:
            if name == self.cluster and span.kind in (kind, Kind.CREDIT if kind is Kind.CHARGED else kind):
                sign = -1 if span.kind is Kind.CREDIT else 1
                found.append((span.leaf, span.user, sign * span.amount, span.start, span.end))
        for a in self.attempts():
            if a.started_at is not None and a.charged == (kind is Kind.CHARGED):
                closed = [s.end for _, s in self.world.spans if s.attempt_id == a.id]  # split when its budget moved
                found.append((a.leaf, a.user, a.amount, max([a.started_at, *closed]), self.now))
        return found

    def used(self, path: str, kind: Kind, window: int, user: str | None = None) -> int:
        """Occupied at or below ``path`` over the window, promises included; by one person if given."""
        total = self.committed(path, kind, user)
        for leaf, who, amount, start, end in self.spans(kind):
            if f"{leaf}/".startswith(f"{path}/") and user in (None, who):
                total += amount * max(0, min(end, self.now) - max(start, self.now - window))
        return total

    def committed(self, path: str, kind: Kind, user: str | None = None) -> int:
        """What is left of contracts, of unallocated turns, and of what is held for jobs."""
        total, state = 0, self.world.state
        for a in self.attempts():
            if not f"{a.leaf}/".startswith(f"{path}/") or user not in (None, a.user) or a.stop is not None:
                continue
            if a.charged and kind is Kind.CHARGED:
                up = a.running_since
                left = a.min_runtime if up is None else max(0, up + a.min_runtime - self.now)
                total += a.amount * left
            elif not a.charged and kind is Kind.UNALLOCATED and a.started_at is not None:
                total += a.amount * max(0, a.started_at + state.policy.unallocated_turn - self.now)
        for job in state.jobs.values() if kind is Kind.CHARGED else ():
            held = job.reservation
            mine = f"{job.leaf}/".startswith(f"{path}/") and user in (None, job.spec.user)
            if held is not None and held.cluster == self.cluster and mine:
                total += held.amount * job.spec.contract.min_runtime
        return total

    def entitled(self, path: str, window: int) -> Fraction:
        """Allocation x GPUs over the window, at least the floor's time of today's.

        Time before the first record counts with today's values, for budgets that were there then.
        """
        today = self.allocation(path) * self.gpus
        since, total, first = self.now - window, Fraction(0), self.world.log[0][0]
        if since < first:
            oldest = self.past[0][1] if self.past else self.world.tree
            total += today * (first - since) if self.is_in(path, oldest) else 0
            since = first
        for until, tree, gpus in (*self.past, (self.now, self.world.tree, self.gpus)):
            if until > since:
                total += self.allocation(path, tree) * gpus * (until - since)
                since = until
        return max(total, today * self.world.policy.entitlement_floor) * GPU

    def is_in(self, path: str, tree: Sequence[Budget]) -> bool:
        """Whether there is such a budget, or ``self``, in a tree."""
        declared = {budget.path for budget in tree}
        parent, _, name = path.rpartition("/")
        inner = any(other.rpartition("/")[0] == parent for other in declared)
        return path in declared or (name == SELF and parent in declared and inner)

    def ratio(self, path: str, kind: Kind, window: int) -> Fraction | None:
        entitled = self.entitled(path, window)
        return self.used(path, kind, window) / entitled if entitled else None

    # ---- rule 5

    def order(self, parent: str, kind: Kind) -> list[str]:
        return sorted(self.children(parent), key=cmp_to_key(lambda a, b: self.compare(a, b, kind) or (a > b) - (a < b)))

    def compare(self, a: str, b: str, kind: Kind, margin: int = 0) -> int:
        """Negative when ``a`` comes first, with ``margin`` added to its usage and taken from that of ``b``."""
        policy, keys = self.world.policy, []
        for path, shift in ((a, margin), (b, -margin)):
            week, day = self.entitled(path, policy.lookback), self.entitled(path, policy.recent)
            if not week:
                keys.append((1, 0, Fraction(0)))
                continue
            over = self.used(path, kind, policy.recent) + shift >= day
            keys.append((0, int(over), (self.used(path, kind, policy.lookback) + shift) / week))
        return (keys[0] > keys[1]) - (keys[0] < keys[1])

    def waiting(self, kind: Kind) -> list[Job]:
        """Queued jobs of a kind that could be tried in this cluster."""
        state = self.world.state
        return [
            job
            for job in state.jobs.values()
            if job.state is JobState.QUEUED
            and job.kind is kind
            and self.cluster in job.spec.clusters
            and not (job.held_by or job.not_before > self.now or job.behind or job.submission in state.pending)
            and (kind is Kind.UNALLOCATED or self.allocation(job.leaf) > 0)
        ]

    def waiting_below(self, path: str, kind: Kind) -> list[Job]:
        return [job for job in self.waiting(kind) if f"{job.leaf}/".startswith(f"{path}/")]

    def in_leaf(self, leaf: str, kind: Kind) -> list[Job]:
        """The jobs of a leaf that wait, in rule 5's order."""
        lookback = self.world.policy.lookback
        used = {job.spec.user: self.used(leaf, kind, lookback, job.spec.user) for job in self.waiting(kind)}
        mine = [job for job in self.waiting(kind) if job.leaf == leaf]
        return sorted(mine, key=lambda job: (-job.spec.priority, used[job.spec.user], job.submitted, job.id))

    def turn(self, kind: Kind) -> str:
        """The leaf whose turn it is: rule 5's walk from the root."""
        path = self.world.state.the_tree().root
        while children := [c for c in self.order(path, kind) if self.waiting_below(c, kind)]:
            path = children[0]
        return path

    # ---- rules 6 and 7

    def outranks(self, job: Job, attempt: Attempt) -> bool:
        """Whether ``job`` might evict ``attempt``, were it exposed and past its turn; without headroom's licence."""
        if attempt.charged != job.spec.charged:
            return job.spec.charged
        mine, theirs = job.leaf.split("/"), attempt.leaf.split("/")
        if mine == theirs:
            victim = self.world.state.jobs[attempt.job_id]
            if job.spec.priority != victim.spec.priority:
                return job.spec.priority > victim.spec.priority
            return job.reservation is not None and job.submitted < victim.submitted
        depth = next(i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b) + 1
        margin = job.spec.gpus * GPU * self.world.policy.preemption_margin
        return self.compare("/".join(mine[:depth]), "/".join(theirs[:depth]), job.kind, margin) < 0

    def evictable(self, job: Job, attempt: Attempt) -> bool:
        if attempt.started_at is None or attempt.stop is not None or not self.outranks(job, attempt):
            return False
        if attempt.charged:
            return attempt.running_since is not None and attempt.running_since + attempt.min_runtime <= self.now
        turn = attempt.started_at + self.world.policy.unallocated_turn
        return job.spec.charged or turn <= self.now

    # ---- rule 9, for one role, without labels, CPUs and memory

    def attempts(self) -> list[Attempt]:
        return [a for a in self.world.state.attempts.values() if a.cluster == self.cluster]

    def free(self, gone: Sequence[str] = ()) -> Mapping[str, int]:
        """Free GPUs by host when the attempts in ``gone`` are away."""
        kept = [slot for attempt in self.attempts() if attempt.id not in gone for slot in attempt.slots]
        held = {(slot.host, gpu) for slot in kept for gpu in slot.gpus}  # some are held and claimed at once
        sizes = {host.name: host.gpus for c in self.world.clusters if c.name == self.cluster for host in c.hosts}
        return {host: sum((host, gpu) not in held for gpu in range(size)) for host, size in sizes.items()}

    def fits(self, job: Job, gone: Sequence[str]) -> bool:
        (role,) = job.spec.roles
        return sum(free // role.gpus for free in self.free(gone).values()) >= role.replicas
