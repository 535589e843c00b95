"""Who may evict whom, who comes first, what is free and what is held, by plain loops over a recount."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction

from support.recount import Recount
from support.recount_records import CHARGED, UNALLOCATED, Asked, Figures, Run, before, line
from tenure.core.decisions import Reserve
from tenure.core.model import GPU, HOUR, MINUTE, Host, HostState, JobSpec

QUARTER = 15 * MINUTE
NEVER = 1 << 62


def short(spec: JobSpec) -> bool:
    gpus = sum(role.replicas * role.gpus for role in spec.roles)
    return 0 < spec.contract.min_runtime <= QUARTER and gpus <= 8


@dataclass
class Contest:
    """One cluster at the recount's time."""

    recount: Recount
    cluster: str

    # ---- hosts

    def hosts(self) -> list[Host]:
        return list(self.recount.clusters[self.cluster].hosts)

    def is_open(self, host: str) -> bool:
        return self.recount.state_of(self.cluster, host) is HostState.HEALTHY

    def runs(self) -> list[Run]:
        return [run for run in self.recount.runs.values() if run.cluster == self.cluster]

    def free_on(self, host: Host, gone: Collection[str] = ()) -> int:
        """GPUs of a host that nobody holds or claims, were the attempts ``gone`` not there."""
        held = {
            gpu
            for run in self.runs()
            if run.id not in gone
            for slot in run.slots
            if slot.host == host.name
            for gpu in slot.gpus
        }
        others = self.recount.foreign.get((self.cluster, host.name))
        return max(0, host.gpus - len(held) - (others.gpus if others is not None else 0))

    def free(self, gone: Collection[str] = ()) -> int:
        return sum(self.free_on(host, gone) for host in self.hosts() if self.is_open(host.name))

    def allowed(self, spec: JobSpec) -> Iterator[list[Host]]:
        """The hosts of each way to satisfy the labels that a job requires."""
        ways = [self.hosts()]
        for label in spec.labels:
            if label.required:
                values = {host.label(label.key) for host in self.hosts()} - {None}
                wanted = sorted(v for v in values if v is not None and label.value in (None, v))
                ways = [[h for h in way if h.label(label.key) == value] for way in ways for value in wanted]
        yield from ways

    def whole_free(self, spec: JobSpec) -> set[int]:
        """Hosts all of whose GPUs are free: for each way to satisfy the labels, those that are large enough."""
        found = set()
        for way in self.allowed(spec):
            for role in spec.roles:
                fit = [h for h in way if h.gpus >= role.gpus and h.cpus >= role.cpus and h.mem >= role.mem]
                found.add(sum(1 for h in fit if h.gpus and self.is_open(h.name) and self.free_on(h) == h.gpus))
        return found

    def whole_needed(self, spec: JobSpec) -> int:
        largest = max(host.gpus for host in self.hosts())
        return sum(role.replicas for role in spec.roles if role.gpus == largest)

    # ---- rules 5 to 7

    def figures(self, kind: str, path: str) -> Figures:
        return self.recount.figures(self.cluster, kind, path)

    def fork(self, leaf: str, other: str) -> tuple[str, str] | None:
        """The children of the lowest budget that two leaves have in common."""
        return next(((a, b) for a, b in zip(line(leaf), line(other), strict=False) if a != b), None)

    def margin(self, job: Asked) -> int:
        return job.gpus * GPU * self.recount.policy.preemption_margin

    def by_standing(self, job: Asked, leaf: str, margin: int) -> bool:
        """Whether the side of ``job`` comes first by more than a margin, where it parts from ``leaf``."""
        split = self.fork(job.leaf, leaf)
        if split is None:
            return False
        mine, theirs = (self.figures(job.kind, path) for path in split)
        return before(mine, theirs, margin)

    def licensed(self, job: Asked, run: Run) -> bool:
        """A short contract on hosts that are kept for such."""
        kept = self.recount.headroom.get(self.cluster, ())
        return bool(kept) and short(job.spec) and all(host in kept for host in run.hosts)

    def senior(self, job: Asked, run: Run) -> bool:
        """Rule 7 in one budget."""
        other = self.recount.jobs[run.job]
        mine, theirs = job.spec.priority, other.spec.priority
        return mine > theirs or (mine == theirs and job.reservation is not None and job.submitted < other.submitted)

    def may_evict(self, job: Asked, run: Run) -> bool:
        """Rules 6 and 7: whether ``job`` may evict an attempt for standing, priority or headroom."""
        if not run.evictable(self.recount.now):
            return False
        if run.kind == UNALLOCATED and job.kind == CHARGED:
            return True
        if run.kind == CHARGED and job.kind == UNALLOCATED:
            return False
        if run.kind == UNALLOCATED and run.in_turn(self.recount.now):
            return False
        if run.kind == CHARGED and self.licensed(job, run):
            return True
        if run.leaf == job.leaf:
            return self.senior(job, run)
        return self.by_standing(job, run.leaf, self.margin(job))

    def evictable(self, kind: str) -> list[Run]:
        """What anybody could evict for a job of this kind, as far as it is on an open host."""
        now = self.recount.now
        found = [run for run in self.runs() if run.evictable(now) and kind in (run.kind, CHARGED)]
        return [run for run in found if any(self.is_open(host) for host in run.hosts)]

    def rank(self, job: Asked) -> tuple[int, int, int, int]:
        """Rule 5 in a leaf."""
        recount, user = self.recount, job.spec.user
        used = recount.used(self.cluster, job.kind, job.leaf, recount.policy.lookback, user)
        used += recount.promised(self.cluster, job.kind, job.leaf, user)
        return -job.spec.priority, used, job.submitted, job.id

    def comes_before(self, job: Asked, other: Asked) -> bool:
        """Rule 5: whether ``job`` is tried before ``other``."""
        split = self.fork(job.leaf, other.leaf)
        if split is None:
            return self.rank(job) < self.rank(other)
        mine, theirs = (self.figures(job.kind, path) for path in split)
        if before(mine, theirs) or before(theirs, mine):
            return before(mine, theirs)
        return split[0] < split[1]

    # ---- held hosts

    def reservations(self) -> dict[int, Reserve]:
        held = {job.id: job.reservation for job in self.recount.jobs.values()}
        return {i: plan for i, plan in held.items() if plan is not None and plan.cluster == self.cluster}

    def shut(self, job: Asked) -> set[str]:
        """Rule 10: held and kept hosts that do not let a charged job in."""
        cluster, least = self.recount.clusters[self.cluster], job.spec.contract.min_runtime
        if job.kind == UNALLOCATED:
            return set()
        over = self.recount.now
        if not short(job.spec):
            over += -(-least // QUARTER) * QUARTER + cluster.max_grace + cluster.kill_timeout
        full = short(job.spec) and not self._room_for_short(job)
        shut = {
            host
            for other, plan in self.reservations().items()
            if other != job.id and (full or over > plan.told)
            for host in plan.hosts
        }
        kept = set() if short(job.spec) else set(self.recount.headroom.get(self.cluster, ()))
        return shut | (kept if kept and not self._needs(job, kept) else set())

    def _room_for_short(self, job: Asked) -> bool:
        """A budget's short contracts hold at most max(8 GPUs, its allocation) of what is held."""
        held = {host for plan in self.reservations().values() for host in plan.hosts}
        mine = [run for run in self.runs() if run.leaf == job.leaf and held.intersection(run.hosts)]
        used = sum(run.gpus for run in mine if 0 < run.min_runtime <= QUARTER and run.gpus <= 8)
        allocation = self.recount.part(self.cluster, job.leaf) * self.recount.worth[self.cluster][-1].healthy
        return used + job.gpus <= max(Fraction(8), allocation)

    def _needs(self, job: Asked, kept: set[str]) -> bool:
        """Whether a job of one role could not run even on empty hosts without those that are kept."""
        (role,) = job.spec.roles
        there = [host for host in self.hosts() if self.is_open(host.name) and host.name not in kept]
        return sum(host.gpus // role.gpus for host in there) < role.replicas

    def told(self, job: Asked, hosts: Collection[str]) -> int:
        """When the last of these hosts is free to the job, as far as contracts and time-outs say."""
        now = self.recount.now
        return max([now, *(self._free_at(job, run) for run in self.runs() if set(hosts) & set(run.hosts))])

    def _free_at(self, job: Asked, run: Run) -> int:
        recount, cluster = self.recount, self.recount.clusters[self.cluster]
        if run.stop is not None:
            return run.stop.release_by
        if run.kind == UNALLOCATED:
            return recount.now
        until = run.protected_until
        if until is None:
            stops = [recount.runs[other].stop for other in run.waits_for]
            gone = max([recount.now, *(stop.release_by for stop in stops if stop is not None)])
            until = (gone if run.opened is None else run.opened) + cluster.start_timeout + run.min_runtime
        other = recount.jobs[run.job]
        if run.leaf == job.leaf:
            mine, theirs = (-job.spec.priority, job.submitted), (-other.spec.priority, other.submitted)
            yields = mine < theirs
        else:
            yields = self.by_standing(job, run.leaf, self.margin(job) * recount.policy.reserve_margin_percent // 100)
        if yields:
            return max(recount.now, until)
        timeout = other.spec.timeout
        if timeout is None:
            return NEVER
        up = until - run.min_runtime
        return up + timeout + min(other.spec.grace, cluster.max_grace) + cluster.kill_timeout

    def wanted(self) -> int:
        """Rule 10's headroom: half of the short contracts of the last hour, up to the limit in whole hosts."""
        recount = self.recount
        arrived = sum(g for at, name, g in recount.shorts if name == self.cluster and at > recount.now - HOUR)
        size = max(host.gpus for host in self.hosts())
        limit = Fraction(recount.policy.headroom_percent * recount.worth[self.cluster][-1].healthy, 100 * size)
        return min(-(-arrived // 2), int(limit + Fraction(1, 2)) * size)
