"""Small simulations for tests: a scripted workload, and the invariants after every step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from support import invariants
from support.world import budgets
from tenure.core.events import Event
from tenure.core.ledger import Span
from tenure.core.model import DAY, HOUR, Contract, JobSpec, Role
from tenure.core.scheduler import Result
from tenure.core.state import State, protected
from tenure.reports.records import Run
from tenure.sim.loop import Simulation
from tenure.sim.setup import START, Faults, Setup, make_cluster
from tenure.sim.work import Action, AsSigned, Cancel, Submit, Work

TREE = budgets({"lab/a": 0.5, "lab/b": 0.5})
NEVER = Faults(between=0)


def work(
    budget: str = "lab/a",
    gpus: int = 8,
    runtime: int = HOUR,
    *,
    replicas: int = 1,
    min_runtime: int = HOUR,
    resumable: bool = True,
    clusters: Sequence[str] = ("main",),
    user: str = "ann",
    **more: int,
) -> Work:
    """``more``: fields of ``Work``, or ``priority``, ``timeout``, ``grace`` of its specification."""
    spec = JobSpec(
        "job", user, budget, (Role("main", replicas, gpus, 0, 0),), Contract(min_runtime, resumable), tuple(clusters)
    )
    for name in ("priority", "timeout", "grace"):
        if name in more:
            spec = replace(spec, **{name: more.pop(name)})  # type: ignore[arg-type]
    defaults = {"startup": 0, "restart_cost": 0}
    return Work(spec, 0, "test", runtime, **{**defaults, **more})


@dataclass
class Script:
    """Submits what it was given, at ms after the start. ``cancels``: (at, index of the work)."""

    jobs: Sequence[tuple[int, Work]]
    cancels: Sequence[tuple[int, int]] = ()
    said: list[tuple[str, int, int]] = field(default_factory=list)
    """(what, ms after the start, job or token)."""
    start: int = 0

    def begin(self, at: int) -> Iterable[Action]:
        self.start = at
        return [Submit(at + after, one, i) for i, (after, one) in enumerate(self.jobs)]

    def wake(self, at: int, token: int) -> Iterable[Action]:
        return ()

    def accepted(self, at: int, token: int, job_id: int, one: Work) -> Iterable[Action]:
        return [Cancel(self.start + when, job_id) for when, index in self.cancels if index == token]

    def refused(self, at: int, token: int, one: Work, why: str) -> Iterable[Action]:
        self.said.append((why, at - self.start, token))
        return ()

    def started(self, at: int, job_id: int, one: Work, waited: int) -> Iterable[Action]:
        self.said.append(("started", at - self.start, job_id))
        return ()

    def requeued(self, at: int, job_id: int, one: Work) -> Iterable[Action]:
        self.said.append(("requeued", at - self.start, job_id))
        return ()

    def ended(self, at: int, job_id: int, one: Work, state: str) -> Iterable[Action]:
        self.said.append((state, at - self.start, job_id))
        return ()


def script(jobs: Sequence[tuple[int, Work]], cancels: Sequence[tuple[int, int]], seed: int) -> Script:
    """The same for every seed."""
    return Script(jobs, cancels)


class Watch:
    """Asserts the invariants after every step."""

    def __init__(self) -> None:
        self.state = State()
        self.protects = protected
        self.now = 0
        self.log: list[tuple[int, tuple[Event, ...], Result]] = []
        self.spans: list[tuple[str, Span]] = []
        self.starts: list[int] = []
        self.protects = protected

    def __call__(self, state: State, at: int, events: Sequence[Event], result: Result) -> None:
        self.state, self.now = state, at
        self.log.append((at, tuple(events), result))
        self.spans += state.closed_spans
        self.starts.append(at)
        invariants.check(self)  # type: ignore[arg-type]  # it has what they read


def setup_of(
    jobs: Sequence[tuple[int, Work]], *, gpus: int = 16, cancels: Sequence[tuple[int, int]] = (), **more: object
) -> Setup:
    made = Setup(
        "test",
        (make_cluster(gpus),),
        TREE,
        partial(script, jobs, cancels),
        AsSigned.under,
        "budgets",
        0,
        DAY,
        faults=NEVER,
    )
    return replace(made, warmup=0, **more)  # type: ignore[arg-type]


def simulate(setup: Setup, watch: Watch | None = None) -> tuple[Run, Script]:
    simulation = Simulation(setup, watch or Watch())
    run = simulation.run()
    script = simulation.workload
    assert isinstance(script, Script)
    return run, script


def hours_after(at: int | None) -> float:
    assert at is not None
    return (at - START) / HOUR
