"""A small world over the core for tests: clusters, a tree, jobs, time, and the invariants after every step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from support.invariants import check, fingerprint
from tenure.core import cycle, scheduler
from tenure.core.decisions import Decision, Evict, Plan, Stop, Stopping
from tenure.core.events import (
    AttemptExited,
    CancelRequested,
    CheckpointReported,
    ConfigApplied,
    Event,
    EvictRequested,
    ExitKind,
    Held,
    HostStateChanged,
    Paused,
    PauseScope,
    PriorityChanged,
    Released,
    ReplicasUp,
    Resumed,
    Submitted,
)
from tenure.core.explain import why
from tenure.core.ledger import Kind, Span
from tenure.core.lifecycle import JobState
from tenure.core.model import (
    GPU,
    HOUR,
    MINUTE,
    SHARE_ONE,
    After,
    Array,
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
from tenure.core.reasons import Because
from tenure.core.state import Attempt, Job, State, protected

__all__ = ["T0", "World", "budgets", "check", "fingerprint", "hosts"]

D = TypeVar("D")

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
    """Drives ``scheduler.step`` and keeps every decision.

    ``auto_up``: replicas run as soon as they start. ``auto_release``: a stopped attempt exits when it is killed.
    ``decide``: the pass, Tenure's own unless another policy is looked at. ``protects``: whom it must not evict.
    """

    def __init__(
        self,
        cluster: Iterable[Host] | Cluster | Iterable[Cluster] = (),
        shares: Mapping[str, float] | None = None,
        *,
        tree: tuple[Budget, ...] | None = None,
        policy: Policy | None = None,
        grants: Iterable[Grant] = (),
        auto_up: bool = True,
        auto_release: bool = True,
        at: int = T0,
        decide: Callable[[State], Sequence[Plan]] = cycle.run,
        protects: Callable[[Attempt, int], bool] = protected,
    ) -> None:
        self.clusters = _clusters(cluster)
        self.policy = policy or Policy()
        self.tree = tree or budgets(shares or {"lab/a": 0.5, "lab/b": 0.5})
        self.grants = tuple(grants)
        self.auto_up = auto_up
        self.auto_release = auto_release
        self.decide = decide
        self.protects = protects
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
        self.tree = tree or (budgets(shares) if shares is not None else self.tree)
        self.step(self.config())

    def config(self) -> ConfigApplied:
        return ConfigApplied(self.now, self.clusters, self.policy, self.tree, self.grants, "test")

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

    def queue(
        self,
        budget: str,
        gpus: int = 8,
        hold: str = "",
        array: Array | None = None,
        after: tuple[After, ...] = (),
        **more: object,
    ) -> Submitted:
        """The event of a submission, not yet absorbed: several can then arrive at one pass."""
        return self.queue_spec(self.spec(budget, gpus, **more), hold, array, after)  # type: ignore[arg-type]

    def queue_spec(
        self, spec: JobSpec, hold: str = "", array: Array | None = None, after: tuple[After, ...] = ()
    ) -> Submitted:
        job_id, self.next_id = self.next_id, self.next_id + (len(array.indices) if array is not None else 1)
        return Submitted(self.now, job_id, spec, hold, array=array, after=after)

    def submit(self, budget: str, gpus: int = 8, **more: object) -> int:
        event = self.queue(budget, gpus, **more)  # type: ignore[arg-type]
        self.step(event)
        return event.job_id

    def step(self, *events: Event, after: int = 0) -> list[Decision]:
        """One step ``after`` ms from now, then starts come up and stopped attempts exit when that is automatic."""
        self.now += after
        made: list[Decision] = []
        todo: tuple[Event, ...] = events
        while True:
            result = scheduler.step(self.state, todo, self.now, self.decide)
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
        return made

    def finish(self, job_id: int, code: int = 0, *, done: bool = False, kind: ExitKind = ExitKind.EXITED) -> None:
        codes = (code,) if kind is ExitKind.EXITED else ()
        self.step(AttemptExited(self.now, self.attempt(job_id).id, kind, codes, done))

    def up(self, job_id: int) -> None:
        self.step(ReplicasUp(self.now, self.attempt(job_id).id))

    def cancel(self, job_id: int) -> None:
        self.step(CancelRequested(self.now, job_id, "ann"))

    def hold(self, job_id: int) -> None:
        self.step(Held(self.now, job_id, "ann"))

    def release(self, job_id: int) -> None:
        self.step(Released(self.now, job_id, "ann"))

    def prioritise(self, job_id: int, priority: int) -> None:
        self.step(PriorityChanged(self.now, job_id, priority, "ann"))

    def checkpoint(self, job_id: int) -> None:
        self.step(CheckpointReported(self.now, self.attempt(job_id).id))

    def evict(self, job_id: int) -> None:
        self.step(EvictRequested(self.now, self.attempt(job_id).id, "op", "test"))

    def host(self, host: str, to: HostState, **more: object) -> None:
        name = next(c.name for c in self.clusters if any(h.name == host for h in c.hosts))
        self.step(HostStateChanged(self.now, name, host, to, "op", "test", **more))  # type: ignore[arg-type]

    def pause(self, scope: PauseScope = PauseScope.STARTS) -> None:
        self.step(Paused(self.now, scope, "op"))

    def resume(self, scope: PauseScope = PauseScope.STARTS) -> None:
        self.step(Resumed(self.now, scope, "op"))

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
        # What a cluster was charged is forgotten with it.
        self.spans = [one for one in (*self.spans, *self.state.closed_spans) if one[0] in self.state.clusters]
        for job in self.state.ended_jobs:
            assert job.id not in self.ended, f"job {job.id} ended twice"
            self.ended[job.id] = job
        self.state.closed_spans.clear()
        self.state.ended_jobs.clear()
        self.state.ended_attempts.clear()
        self.state.touched_jobs.clear()

    # ---- what is

    def job(self, job_id: int) -> Job:
        return self.state.jobs.get(job_id) or self.ended[job_id]

    def attempt(self, job_id: int) -> Attempt:
        attempt = self.state.jobs[job_id].attempt
        assert attempt is not None, f"job {job_id} has no attempt"
        return attempt

    def job_state(self, job_id: int) -> JobState:
        return self.job(job_id).state

    def why(self, job_id: int) -> Because:
        return why(self.state, self.state.jobs[job_id])

    def running(self) -> set[int]:
        return {i for i, job in self.state.jobs.items() if job.state in (JobState.STARTING, JobState.RUNNING)}

    def used_hours(self, path: str, kind: Kind = Kind.CHARGED, window: int | None = None) -> float:
        account = self.state.clusters[self.clusters[0].name].ledger.account(path)
        start = self.now - (window or self.policy.lookback)
        return account.usage(kind, start, self.now) / (GPU * HOUR)

    def made(self, kind: type[D]) -> list[D]:
        """Every decision of one kind so far."""
        return [d for d in self.decisions if isinstance(d, kind)]

    def evictions(self) -> list[Evict]:
        """Every eviction so far, of plans and of stops outside plans, in order."""
        out: list[Evict] = []
        for decision in self.decisions:
            if isinstance(decision, Stop | Stopping):
                out.append(decision.victim)
            else:
                out += getattr(decision, "victims", ())
        return out


def _clusters(given: Iterable[Host] | Cluster | Iterable[Cluster]) -> tuple[Cluster, ...]:
    if isinstance(given, Cluster):
        return (given,)
    several = tuple(given)
    made = tuple(c for c in several if isinstance(c, Cluster))
    return made or (Cluster("main", tuple(h for h in several if isinstance(h, Host)) or hosts(2)),)
