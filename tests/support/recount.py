"""Who used what, is promised what and is owed what, recounted from the log of events and decisions alone.

No sums are kept and nothing of the core is called: spans, promises, host states and shares are written down as they
happen, and every figure is a plain loop over them, in exact fractions. What a reason says is compared with that in
``recount_reasons``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

from support.recount_records import CHARGED, Asked, Figures, Occupied, Run, Worth, line
from tenure.core import decisions as d
from tenure.core import events as e
from tenure.core.model import GPU, HOUR, SHARE_ONE, Budget, Cluster, Grant, HostState, Policy
from tenure.core.reasons import Because
from tenure.core.scheduler import Result


class Recount:
    """The log so far, written down again. ``now`` is the time of what was noted last."""

    def __init__(self, by_tree: bool = True) -> None:
        self.by_tree = by_tree
        """Whether rule 5 orders jobs: under the policies that are compared with Tenure it does not."""
        self.now = 0
        self.clusters: dict[str, Cluster] = {}
        self.policy = Policy()
        self.budgets: dict[str, Budget] = {}
        self.grants: tuple[Grant, ...] = ()
        self.hosts: dict[tuple[str, str], d.HostMarked | e.HostStateChanged] = {}
        self.foreign: dict[tuple[str, str], e.ForeignUse] = {}
        self.jobs: dict[int, Asked] = {}
        self.runs: dict[str, Run] = {}
        self.open: dict[str, int] = {}
        """Attempt -> since when its open span runs: since it was opened, or since its budget moved."""
        self.spans: list[Occupied] = []
        self.worth: dict[str, list[Worth]] = {}
        self.evicted: list[tuple[int, str]] = []
        """When attempts were evicted by plans, and in which cluster."""
        self.shorts: list[tuple[int, str, int]] = []
        """When short contracts began to queue, where they would rather run, their GPUs."""
        self.blurred: set[str] = set()
        """Clusters where some of them had to wait for others first: when these began to queue nobody knows here."""
        self.headroom: dict[str, tuple[str, ...]] = {}
        self.paused: dict[e.PauseScope, str] = {}
        self.alarm = False
        self.exited: dict[str, int] = {}
        """When ends were heard of."""
        self.exits: dict[str, e.AttemptExited] = {}
        self.heard: list[e.Event] = []
        self.said: dict[int, Because] = {}
        """Job -> what was last decided about it."""
        self.ended: dict[str, list[d.JobEnded]] = {}

    # ---- taking notes

    def absorb(self, now: int, events: Iterable[e.Event], result: Result) -> Iterator[d.Decision]:
        """Note a step; each of its decisions is given out first, when everything before it has been noted."""
        outcomes = list(result.outcomes)
        for event in events:
            at = max(self.now, min(event.at, now))
            while outcomes and (when := self._when(outcomes[0])) is not None and when < at:
                yield from self._outcome(outcomes.pop(0), when)
            self._pass_time(at)
            self._event(event)
            self.heard.append(event)
            self._mark()
        for outcome in outcomes:
            yield from self._outcome(outcome, max(self.now, self._when(outcome) or 0))
        self._pass_time(now)
        for plan in result.plans:
            yield plan
            self._plan(plan)

    def _when(self, outcome: d.Outcome) -> int | None:
        """When an outcome was noted; an end may have been earlier than that. None: not heard of yet."""
        return self.exited.get(outcome.attempt_id) if isinstance(outcome, d.AttemptEnded) else outcome.at

    def _outcome(self, outcome: d.Outcome, at: int) -> Iterator[d.Decision]:
        self._pass_time(at)
        yield outcome
        self._follow(outcome)
        self._mark()

    def _pass_time(self, at: int) -> None:
        for when in sorted({t for grant in self.grants for t in (grant.start, grant.end) if self.now < t <= at}):
            self.now = when
            self._mark()
        self.now = max(self.now, at)

    def _event(self, event: e.Event) -> None:  # noqa: PLR0912 - one line for each kind
        match event:
            case e.ConfigApplied():
                self._configure(event)
            case e.Submitted():
                self._submitted(event)
            case e.ReplicasUp():
                run = self.runs.get(event.attempt_id)
                if run is not None and run.opened is not None and run.up is None and run.id not in self.exited:
                    run.up = self.now
            case e.AttemptExited():
                run = self.runs.get(event.attempt_id)
                if run is not None and run.opened is not None and run.id not in self.exited:
                    self.exited[run.id], self.exits[run.id] = self.now, event
            case e.CheckpointReported():
                if (run := self.runs.get(event.attempt_id)) is not None:
                    run.checkpoint = self.now
            case e.PriorityChanged():
                if (job := self.jobs.get(event.job_id)) is not None:
                    job.spec = replace(job.spec, priority=event.priority)
            case e.Held() | e.Released():
                if (job := self.jobs.get(event.job_id)) is not None:
                    job.held_by = event.by if isinstance(event, e.Held) else ""
            case e.HostStateChanged():
                self.hosts[event.cluster, event.host] = event
            case e.ForeignUse():
                self.foreign[event.cluster, event.host] = event
            case e.Paused():
                self.paused[event.scope] = event.by
            case e.Resumed():
                self.paused.pop(event.scope, None)
            case e.ClockAlarm():
                self.alarm = event.on
            case e.ServerBack():
                self._back()

    def _back(self) -> None:
        for run in self.runs.values():
            if run.stop is not None and not run.unreleased and run.stop.kill_at <= self.now:
                warn_at, kill_at = self.now, self.now + run.stop.kill_at - run.stop.warn_at
                release_by = kill_at + self.clusters[run.cluster].kill_timeout
                run.stop = replace(run.stop, warn_at=warn_at, kill_at=kill_at, release_by=release_by)

    def _submitted(self, event: e.Submitted) -> None:
        array, spec = event.array, event.spec
        for i, index in enumerate(array.indices if array is not None else (0,)):
            job_id = event.job_id + i
            job = Asked(job_id, spec, spec.budget, self.leaf_of(spec.budget), self.now, str(job_id))
            job.held_by, job.after = event.hold, event.after
            if array is not None:
                job.array, job.throttle, job.label = event.job_id, array.throttle, f"{event.job_id}_{index}"
            self.jobs[job_id] = job
            if 0 < spec.contract.min_runtime <= HOUR // 4 and job.gpus <= 8:
                where = next(c for c in spec.clusters if c in self.clusters)
                self.shorts.append((self.now, where, job.gpus))
                if job.throttle or job.after:
                    self.blurred.add(where)

    def _follow(self, outcome: d.Outcome) -> None:
        match outcome:
            case d.ClaimOpened():
                run = self.runs[outcome.attempt_id]
                self.said[run.job] = outcome.because
                self._open(run)
            case d.ClaimDropped():
                run = self.runs.pop(outcome.attempt_id)
                self.jobs[run.job].run, self.said[run.job] = None, outcome.because
            case d.Stopping():
                run = self.runs[outcome.victim.attempt_id]
                run.stop, run.unreleased = outcome.victim, False
                self.said[run.job] = outcome.victim.because
            case d.AttemptEnded():
                self._ended(outcome)
            case d.Requeued():
                job = self.jobs[outcome.job_id]
                job.not_before, self.said[job.id] = outcome.not_before, outcome.because
                job.failures += bool(outcome.not_before)
            case d.JobEnded():
                self.ended.setdefault(self.jobs.pop(outcome.job_id).label, []).append(outcome)
            case d.HostMarked():
                self.hosts[outcome.cluster, outcome.host] = outcome
                self.runs[str(outcome.because.numbers["attempt"])].unreleased = True
            case d.Credited():
                run = self.runs[outcome.attempt_id]
                span = (run.leaf, run.user, CHARGED, outcome.amount, outcome.start, outcome.end)
                self.spans.append(Occupied(run.cluster, *span, sign=-1))
            case d.ReservationLost():
                self.jobs[outcome.job_id].reservation = None
                self.said[outcome.job_id] = outcome.because

    def _ended(self, outcome: d.AttemptEnded) -> None:
        run = self.runs.pop(outcome.attempt_id)
        since = self.open.pop(run.id)
        self.spans.append(Occupied(run.cluster, run.leaf, run.user, run.kind, run.amount, since, outcome.at))
        job = self.jobs[run.job]
        job.run, self.said[job.id] = None, outcome.because
        if run.up is not None and self.now - run.up >= HOUR:
            job.failures = 0
        for other in self.runs.values():
            other.waits_for.discard(run.id)

    def _plan(self, plan: d.Plan) -> None:
        match plan:
            case d.Start() | d.Claim():
                job = self.jobs[plan.job_id]
                job.attempts, self.said[job.id] = job.attempts + 1, plan.because
                given = (job.leaf, job.spec.user, plan.slots, plan.amount, job.spec.contract.min_runtime)
                turn = self.policy.unallocated_turn
                job.run = self.runs[plan.attempt_id] = Run(
                    plan.attempt_id, job.id, plan.cluster, *given, planned=plan.at, turn=turn
                )
                job.reservation = None
                if isinstance(plan, d.Start):
                    self._open(job.run)
                    return
                job.run.waits_for = {*(victim.attempt_id for victim in plan.victims), *plan.leaving}
                for victim in plan.victims:
                    self._evict(victim)
            case d.Stop():
                self._evict(plan.victim)
            case d.Reserve():
                job = self.jobs[plan.job_id]
                job.reservation, job.reserved, self.said[job.id] = plan, job.reserved + 1, plan.because
            case d.Unreserve():
                self.jobs[plan.job_id].reservation, self.said[plan.job_id] = None, plan.because
            case d.Headroom():
                self.headroom[plan.cluster] = plan.hosts

    def _evict(self, victim: d.Evict) -> None:
        run = self.runs[victim.attempt_id]
        run.stop, run.unreleased, self.said[run.job] = victim, False, victim.because
        self.evicted.append((self.now, run.cluster))

    def _open(self, run: Run) -> None:
        run.opened = self.open[run.id] = self.now
        run.waits_for = set()

    # ---- configurations

    def _configure(self, event: e.ConfigApplied) -> None:
        old = self.budgets
        self.clusters = {cluster.name: cluster for cluster in event.clusters}
        self.policy, self.grants = event.policy, event.grants
        self.budgets = {budget.path: budget for budget in event.budgets}
        moved = {
            budget.moved_from: path
            for path, budget in self.budgets.items()
            if budget.moved_from is not None and (path not in old or old[path].moved_from != budget.moved_from)
        }
        for job in self.jobs.values():
            for part in reversed(line(job.budget)):
                if part in moved and (there := moved[part] + job.budget[len(part) :]) in self.budgets:
                    job.budget = there
                    break
            job.leaf = self.leaf_of(job.budget)
            if job.run is not None and job.run.leaf != job.leaf:
                self._move(job.run, job.leaf)
        # With a cluster goes what it was charged.
        self.worth = {name: marks for name, marks in self.worth.items() if name in self.clusters}
        self.spans = [span for span in self.spans if span.cluster in self.clusters]
        self.evicted = [one for one in self.evicted if one[1] in self.clusters]
        known = {(name, host.name) for name, cluster in self.clusters.items() for host in cluster.hosts}
        self.hosts = {key: state for key, state in self.hosts.items() if key in known}

    def _move(self, run: Run, leaf: str) -> None:
        """Its budget moved: what it used so far stays where it was."""
        since = self.open.get(run.id)
        if since is not None:
            span = Occupied(run.cluster, run.leaf, run.user, run.kind, run.amount, since, self.now)
            self.spans.append(span)
            self.open[run.id] = self.now
        run.leaf = leaf

    def leaf_of(self, path: str) -> str:
        """Jobs of an inner budget are in its ``self``."""
        return f"{path}/self" if any(other.startswith(f"{path}/") for other in self.budgets) else path

    def state_of(self, cluster: str, host: str) -> HostState:
        known = self.hosts.get((cluster, host))
        return known.state if known is not None else HostState.HEALTHY

    def _mark(self) -> None:
        """Note what each cluster is worth from now on."""
        for name, cluster in self.clusters.items():
            busy = {host for run in self.runs.values() if run.cluster == name for host in run.hosts}
            healthy = 0
            for host in cluster.hosts:
                state = self.state_of(name, host.name)
                if state is HostState.HEALTHY or (state is HostState.DRAINING and host.name in busy):
                    healthy += host.gpus
            mark, marks = Worth(self.now, healthy, self._parts(cluster)), self.worth.setdefault(name, [])
            if not marks or (marks[-1].healthy, marks[-1].parts) != (mark.healthy, mark.parts):
                marks.append(mark)

    def _parts(self, cluster: Cluster) -> dict[str, Fraction]:
        """Each node's part of a cluster now: the product of the shares on its path, grants included."""
        root = next(path for path in self.budgets if "/" not in path)
        parts, todo = {root: Fraction(1)}, [root]
        gpus = sum(host.gpus for host in cluster.hosts)
        for path in todo:
            children = [child for child in sorted(self.budgets) if child.rpartition("/")[0] == path]
            if not children:
                continue
            shares = {child: self.budgets[child].share_on(cluster.name) for child in children}
            shares[f"{path}/self"] = max(0, SHARE_ONE - sum(shares.values()))
            for grant in sorted(self.grants, key=lambda g: (g.start, g.to)):
                live = grant.cluster == cluster.name and grant.start <= self.now < grant.end
                if live and grant.to.rpartition("/")[0] == path:
                    _grant(shares, grant, gpus * parts[path])
            parts |= {child: parts[path] * Fraction(share, SHARE_ONE) for child, share in shares.items()}
            todo += children
        return parts

    # ---- figures

    def part(self, cluster: str, path: str) -> Fraction:
        return self.worth[cluster][-1].parts.get(path, Fraction(0))

    def used(self, cluster: str, kind: str, path: str, window: int, user: str | None = None) -> int:
        """What was used at and below a node in the last ``window`` ms, by one person if given, less credits."""
        start, total = self.now - window, 0
        running = [
            Occupied(run.cluster, run.leaf, run.user, run.kind, run.amount, self.open[run.id], self.now)
            for run in self.runs.values()
            if run.id in self.open
        ]
        for span in (*self.spans, *running):
            mine = span.cluster == cluster and span.kind == kind and path in line(span.leaf)
            if mine and (user is None or span.user == user):
                total += span.sign * span.amount * max(0, min(span.end, self.now) - max(span.start, start))
        return total

    def promised(self, cluster: str, kind: str, path: str, user: str | None = None) -> int:
        total = 0
        for run in self.runs.values():
            if run.cluster == cluster and run.kind == kind and path in line(run.leaf):
                total += run.promised(self.now) if user is None or run.user == user else 0
        for job in self.jobs.values():
            held = job.reservation
            if held is not None and held.cluster == cluster and job.kind == kind and path in line(job.leaf):
                total += held.amount * job.spec.contract.min_runtime if user is None or job.spec.user == user else 0
        return total

    def owed(self, cluster: str, path: str, window: int) -> Fraction:
        """Rule 4's entitlement over the last ``window`` ms."""
        marks = self.worth[cluster]
        first, today = marks[0], marks[-1]
        start, total = self.now - window, Fraction(0)
        ends = [*(mark.at for mark in marks[1:]), self.now]
        for mark, end in zip(marks, ends, strict=True):
            total += mark.parts.get(path, Fraction(0)) * mark.healthy * GPU * max(0, end - max(start, mark.at))
        now = today.parts.get(path, Fraction(0)) * today.healthy * GPU
        if path in first.parts and start < first.at:
            total += now * (first.at - start)
        return max(total, now * self.policy.entitlement_floor)

    def figures(self, cluster: str, kind: str, path: str) -> Figures:
        policy, promised = self.policy, self.promised(cluster, kind, path)
        return Figures(
            self.used(cluster, kind, path, policy.lookback) + promised,
            self.owed(cluster, path, policy.lookback),
            self.used(cluster, kind, path, policy.recent) + promised,
            self.owed(cluster, path, policy.recent),
        )


def _grant(shares: dict[str, int], grant: Grant, parent_gpus: Fraction) -> None:
    """Move what a grant is worth while it lasts, in whole parts per million, from its givers in proportion."""
    givers = [path for path in grant.taken_from if path in shares]
    total = sum(shares[path] for path in givers)
    if not total or not parent_gpus or grant.end <= grant.start:
        return
    hours = Fraction(grant.end - grant.start, HOUR)
    moved = min(int(SHARE_ONE * grant.amount / (hours * parent_gpus)), total)
    given = {path: moved * shares[path] // total for path in givers[:-1]}
    given[givers[-1]] = min(shares[givers[-1]], moved - sum(given.values()))
    rest = moved - sum(given.values())
    for path in givers:  # what rounding left over
        more = min(rest, shares[path] - given[path])
        given[path] += more
        rest -= more
    for path in givers:
        shares[path] -= given[path]
    shares[grant.to] += moved
