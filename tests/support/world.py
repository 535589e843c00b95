"""A small world over the core for tests: a cluster, a tree, jobs, time, and the invariants after every step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tenure.core import codec, scheduler
from tenure.core.decisions import Claim, Decision, Start, Stop
from tenure.core.events import (
    AttemptExited,
    CancelRequested,
    CheckpointReported,
    ConfigApplied,
    Event,
    ExitKind,
    HostStateChanged,
    ReplicasUp,
    Submitted,
)
from tenure.core.ledger import Kind, Span
from tenure.core.lifecycle import JobState
from tenure.core.model import (
    GPU,
    HOUR,
    MINUTE,
    SHARE_ONE,
    Budget,
    Cluster,
    Contract,
    Grant,
    Host,
    HostState,
    JobSpec,
    Policy,
    Role,
)
from tenure.core.state import Job, State

T0 = 1_800_000_000_000
"""A time to begin at, ms UTC."""


def hosts(count: int, gpus: int = 8, cpus: int = 64_000, mem: int = 512 * 1024, prefix: str = "h") -> tuple[Host, ...]:
    return tuple(Host(f"{prefix}{i}", gpus, cpus, mem, (("rack", f"r{i // 4}"),)) for i in range(count))


def budgets(shares: Mapping[str, float]) -> tuple[Budget, ...]:
    """``{"lab/a": 0.5}`` -> the tree with every missing ancestor's share 1."""
    known = {path: round(share * SHARE_ONE) for path, share in shares.items()}
    paths = {"/".join(path.split("/")[: i + 1]) for path in known for i in range(path.count("/") + 1)}
    return tuple(Budget(path, known.get(path, SHARE_ONE)) for path in sorted(paths))


class World:
    """Drives ``scheduler.step`` and keeps every decision. ``auto_up``: replicas run as soon as they start."""

    def __init__(
        self,
        cluster: Iterable[Host] | Cluster = (),
        shares: Mapping[str, float] | None = None,
        *,
        policy: Policy | None = None,
        grants: Iterable[Grant] = (),
        auto_up: bool = True,
        auto_release: bool = True,
        at: int = T0,
    ) -> None:
        spec = cluster if isinstance(cluster, Cluster) else Cluster("main", tuple(cluster) or hosts(2))
        self.clusters: tuple[Cluster, ...] = (spec,)
        self.policy = policy or Policy()
        self.shares = dict(shares or {"lab/a": 0.5, "lab/b": 0.5})
        self.grants = tuple(grants)
        self.auto_up = auto_up
        self.auto_release = auto_release
        self.state = State()
        self.now = at
        self.next_id = 1
        self.decisions: list[Decision] = []
        self.log: list[tuple[int, tuple[Event, ...], scheduler.Result]] = []
        self.spans: list[tuple[str, Span]] = []
        self.ended: dict[int, Job] = {}
        self.configure()

    # ---- what happens

    def configure(self, shares: Mapping[str, float] | None = None, tree: tuple[Budget, ...] | None = None) -> None:
        if shares is not None:
            self.shares = dict(shares)
        declared = tree or budgets(self.shares)
        self.step(ConfigApplied(self.now, self.clusters, self.policy, declared, self.grants, "test"))

    def spec(
        self,
        budget: str,
        gpus: int = 8,
        *,
        replicas: int = 1,
        min_runtime: int = HOUR,
        resumable: bool = True,
        user: str = "ann",
        cpus: int = 0,
        mem: int = 0,
        roles: tuple[Role, ...] | None = None,
        **more: object,
    ) -> JobSpec:
        made = roles or (Role("main", replicas, gpus, cpus, mem, ("true",)),)
        clusters = more.pop("clusters", tuple(c.name for c in self.clusters))
        return JobSpec(
            name="job",
            user=user,
            budget=budget,
            roles=made,
            contract=Contract(min_runtime, resumable),
            clusters=clusters,  # type: ignore[arg-type]
            **more,  # type: ignore[arg-type]
        )

    def queue(self, budget: str, gpus: int = 8, **more: object) -> Submitted:
        """The event of a submission, not yet absorbed: several can then arrive at one pass."""
        job_id, self.next_id = self.next_id, self.next_id + 1
        return Submitted(self.now, job_id, self.spec(budget, gpus, **more))  # type: ignore[arg-type]

    def submit(self, budget: str, gpus: int = 8, **more: object) -> int:
        event = self.queue(budget, gpus, **more)
        self.step(event)
        return event.job_id

    def step(self, *events: Event, after: int = 0) -> list[Decision]:
        """One step ``after`` ms from now, then starts come up and stopped attempts exit when that is automatic."""
        self.now += after
        made: list[Decision] = []
        todo: tuple[Event, ...] = events
        while True:
            result = scheduler.step(self.state, todo, self.now)
            self.log.append((self.now, todo, result))
            made += [*result.outcomes, *result.plans]
            self._collect()
            check(self)
            todo = self._reactions()
            if not todo:
                break
        self.decisions += made
        return made

    def advance(self, duration: int, tick: int = 5 * MINUTE) -> list[Decision]:
        """Let time pass in ticks, stopping at every due time in between, as the engine does."""
        made: list[Decision] = []
        end = self.now + duration
        while self.now < end:
            due = self.state.next_due()
            until = min(end, self.now + tick, max(due, self.now) if due is not None else end)
            made += self.step(after=until - self.now)
            if until == self.now and due is not None and due <= self.now:
                continue
        return made

    def finish(self, job_id: int, code: int = 0, *, done: bool = False, kind: ExitKind = ExitKind.EXITED) -> None:
        attempt = self.state.jobs[job_id].attempt
        assert attempt is not None
        self.step(AttemptExited(self.now, attempt.id, kind, (code,) if kind is ExitKind.EXITED else (), done))

    def cancel(self, job_id: int) -> None:
        self.step(CancelRequested(self.now, job_id, "ann"))

    def checkpoint(self, job_id: int) -> None:
        attempt = self.state.jobs[job_id].attempt
        assert attempt is not None
        self.step(CheckpointReported(self.now, attempt.id))

    def host(self, host: str, to: HostState, **more: object) -> None:
        self.step(HostStateChanged(self.now, self.clusters[0].name, host, to, "op", "test", **more))  # type: ignore[arg-type]

    def _reactions(self) -> tuple[Event, ...]:
        out: list[Event] = []
        for attempt_id in sorted(self.state.attempts):
            attempt = self.state.attempts[attempt_id]
            stop = attempt.stop
            if self.auto_up and attempt.started_at is not None and attempt.running_since is None and stop is None:
                out.append(ReplicasUp(self.now, attempt_id))
            elif self.auto_release and stop is not None and self.now >= stop.kill_at:
                out.append(AttemptExited(self.now, attempt_id, ExitKind.EXITED, (-9,)))
        return tuple(out)

    def _collect(self) -> None:
        self.spans += self.state.closed_spans
        for job in self.state.ended_jobs:
            self.ended[job.id] = job
        self.state.closed_spans.clear()
        self.state.ended_jobs.clear()
        self.state.ended_attempts.clear()
        self.state.touched_jobs.clear()

    # ---- what is

    def job_state(self, job_id: int) -> JobState:
        job = self.state.jobs.get(job_id) or self.ended[job_id]
        return job.state

    def running(self) -> set[int]:
        return {i for i, job in self.state.jobs.items() if job.state in (JobState.STARTING, JobState.RUNNING)}

    def used_hours(self, path: str, kind: Kind = Kind.CHARGED, window: int | None = None) -> float:
        account = self.state.clusters[self.clusters[0].name].ledger.account(path)
        start = self.now - (window or self.policy.lookback)
        return account.usage(kind, start, self.now) / (GPU * HOUR)

    def made(self, *kinds: type) -> list[Decision]:
        return [d for d in self.decisions if isinstance(d, kinds)]


def check(world: World) -> None:
    """The invariants of the design that can be read off a state, and of the step just made."""
    state = world.state
    _check_gpus(state)
    _check_evictions(world)
    _check_ledger(world)


def _check_gpus(state: State) -> None:
    holders: dict[tuple[str, str, int], str] = {}
    claims: dict[tuple[str, str, int], str] = {}
    for attempt in state.attempts.values():
        job = state.jobs[attempt.job_id]
        assert job.attempt is attempt and job.state.active
        gang = sorted((s.role, s.replica) for s in attempt.slots)
        assert gang == [(r, i) for r, role in enumerate(job.spec.roles) for i in range(role.replicas)]
        mine = holders if attempt.started_at is not None else claims
        for slot in attempt.slots:
            for gpu in slot.gpus:
                place = (attempt.cluster, slot.host, gpu)
                assert place not in mine, f"{place} given twice: {mine[place]} and {attempt.id}"
                mine[place] = attempt.id
    for place, claim in claims.items():
        if place in holders:
            assert holders[place] in state.attempts[claim].waiting_for, f"{claim} claims {place} of {holders[place]}"


def _check_evictions(world: World) -> None:
    _, _, result = world.log[-1]
    for plan in result.plans:
        if isinstance(plan, Start | Claim):
            cluster = world.state.clusters[plan.cluster]
            assert all(cluster.hosts[s.host].state is HostState.HEALTHY for s in plan.slots)
        victims = plan.victims if isinstance(plan, Claim) else (plan.victim,) if isinstance(plan, Stop) else ()
        for victim in victims:
            attempt = world.state.attempts[victim.attempt_id]
            until = attempt.protected_until
            assert not attempt.charged or (until is not None and until <= world.now), f"{attempt.id} was protected"


def _check_ledger(world: World) -> None:
    """Window sums equal brute force over spans; children add up to their parent; promises to what runs."""
    state, now = world.state, world.now
    for name, cluster in state.clusters.items():
        ledger = cluster.ledger
        spans = [s for where, s in world.spans if where == name]
        spans += [Span(a, o.leaf, o.user, o.kind, o.amount, o.start, now) for a, o in ledger.open.items()]
        for window in (state.policy.lookback, state.policy.recent):
            brute: dict[tuple[str, Kind], int] = {}
            for span in spans:
                overlap = min(span.end, now) - max(span.start, now - window)
                if overlap <= 0:
                    continue
                kind, sign = (Kind.CHARGED, -1) if span.kind is Kind.CREDIT else (span.kind, 1)
                parts = span.leaf.split("/")
                for i in range(len(parts)):
                    key = ("/".join(parts[: i + 1]), kind)
                    brute[key] = brute.get(key, 0) + sign * span.amount * overlap
            for path, account in ledger.accounts.items():
                for kind in (Kind.CHARGED, Kind.UNALLOCATED):
                    assert account.usage(kind, now - window, now) == brute.get((path, kind), 0), (path, kind)
        _check_promises(world, name)


def _check_promises(world: World, name: str) -> None:
    state, now = world.state, world.now
    expected: dict[tuple[str, Kind], int] = {}
    for attempt in state.attempts.values():
        if attempt.cluster != name or attempt.stop is not None:
            continue
        if attempt.charged:
            until = attempt.protected_until
            left = attempt.min_runtime if until is None else max(0, until - now)
        elif attempt.started_at is not None:
            left = max(0, attempt.started_at + state.policy.unallocated_turn - now)
        else:
            left = 0
        for path in state.the_tree().line(attempt.leaf):
            key = (path, attempt.kind)
            expected[key] = expected.get(key, 0) + attempt.amount * left
    for path, account in state.clusters[name].ledger.accounts.items():
        for kind in (Kind.CHARGED, Kind.UNALLOCATED):
            assert account.promised[kind].at(now) == expected.get((path, kind), 0), (path, kind)


def fingerprint(result: scheduler.Result) -> str:
    """The bytes of a step's decisions."""
    return codec.dumps([codec.tagged(d) for d in (*result.outcomes, *result.plans)])
