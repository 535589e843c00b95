"""Servers' pasts for tests: jobs that really happened in a store, and their course read back from it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from support import invariants
from support.lived import NOTHING, site
from support.world import budgets
from tenure.core.events import Event
from tenure.core.model import DAY, HOUR, MINUTE, SECOND, Budget, Cluster, Contract, HostState, JobSpec, Role
from tenure.core.scheduler import Result
from tenure.core.state import State
from tenure.reports.records import JobRow, Run
from tenure.sim.setup import START, Faults, Setup, make_cluster
from tenure.sim.work import Action, AsSigned, Cancel, HostBecomes, Submit, Work
from tenure.store import Store
from tenure.whatif.change import Variant, Wanted, configuration_of
from tenure.whatif.course import Course, then
from tenure.whatif.quiet import Quiet
from tenure.whatif.rerun import Rerun

HALVES = budgets({"lab/a": 0.5, "lab/b": 0.5})
THREE_QUARTERS = budgets({"lab/a": 0.75, "lab/b": 0.25})
CANCELS = [(16 * HOUR, 40), (20 * HOUR, 50), (30 * HOUR, 70)]
HOSTS = [(18 * HOUR, "main-1", HostState.FAILED), (22 * HOUR, "main-1", HostState.HEALTHY)]
"""A host fails, and comes back."""
SAVE = 30 * SECOND
PEOPLE = ("ann", "bob", "cy", "dora")


@dataclass
class Listed(Quiet):
    """Submits what it was given, at ms after the start. ``cancels``: (ms after the start, index of the work)."""

    jobs: Sequence[tuple[int, Work]]
    cancels: Sequence[tuple[int, int]] = ()
    hosts: Sequence[tuple[int, str, HostState]] = ()
    start: int = field(default=0)

    def begin(self, at: int) -> Iterable[Action]:
        self.start = at
        submits = [Submit(at + after, one, i) for i, (after, one) in enumerate(self.jobs)]
        return [*submits, *(HostBecomes(at + after, "main", host, to, "test") for after, host, to in self.hosts)]

    def accepted(self, at: int, token: int, job_id: int, work: Work) -> Iterable[Action]:
        return [Cancel(self.start + when, job_id) for when, index in self.cancels if index == token]


def work(
    budget: str = "lab/a",
    gpus: int = 8,
    runtime: int = HOUR,
    *,
    min_runtime: int = HOUR,
    resumable: bool = True,
    user: str = "ann",
    timeout: int | None = None,
    exit_code: int = 0,
    name: str = "job",
) -> Work:
    contract = Contract(min_runtime, resumable)
    spec = JobSpec(name, user, budget, (Role("main", 1, gpus, 0, 0),), contract, ("main",), timeout=timeout)
    every = HOUR if resumable else 0
    return Work(spec, 0, "test", runtime, exit_code, every, SAVE, startup=20 * SECOND, restart_cost=0)


def crowd(seed: int, count: int = 90, hours: int = 30, *, protected: bool = False) -> list[tuple[int, Work]]:
    """More than three hosts can do, of two budgets, over ``hours``.

    ``protected``: nothing charged runs longer than its contract, and nothing else longer than its turn, so standings
    evict nobody.
    """
    draw = random.Random(seed)
    jobs = []
    for number in range(count):
        resumable = draw.random() < 0.7
        contract = draw.choice((0, 4 * HOUR, 4 * HOUR) if protected else (0, 5 * MINUTE, HOUR, 2 * HOUR))
        longest = 500 if not protected else 230 if contract else 50
        jobs.append(
            (
                draw.randrange(hours * HOUR // SECOND) * SECOND,
                work(
                    draw.choice(("lab/a", "lab/b")),
                    draw.choice((1, 2, 4, 8, 8)),
                    draw.randrange(10, longest) * MINUTE + number * SECOND,
                    min_runtime=contract,
                    resumable=resumable,
                    user=draw.choice(PEOPLE),
                    timeout=6 * HOUR if draw.random() < 0.2 else None,
                    exit_code=3 if draw.random() < 0.1 else 0,
                ),
            )
        )
    return sorted(jobs, key=lambda pair: pair[0])


def listed(
    jobs: Sequence[tuple[int, Work]],
    cancels: Sequence[tuple[int, int]],
    hosts: Sequence[tuple[int, str, HostState]],
    seed: int,
) -> Listed:
    return Listed(jobs, cancels, hosts)


def setup_of(
    jobs: Sequence[tuple[int, Work]],
    *,
    tree: tuple[Budget, ...] = HALVES,
    gpus: int = 24,
    duration: int = 2 * DAY,
    start: int = START,
    cancels: Sequence[tuple[int, int]] = (),
    hosts: Sequence[tuple[int, str, HostState]] = (),
    clusters: tuple[Cluster, ...] = (),
) -> Setup:
    return Setup(
        "test",
        clusters or (make_cluster(gpus),),
        tree,
        partial(listed, jobs, cancels, hosts),
        AsSigned.under,
        "budgets",
        0,
        duration,
        faults=Faults(between=0),
        start=start,
        warmup=0,
    )


def going(_what: str, _done: int, _total: int) -> bool:
    return True


def course_of(
    directory: Path,
    setup: Setup,
    since: int,
    until: int | None = None,
    also: Sequence[Event] = (),
    works: Mapping[int, Work] = NOTHING,
) -> tuple[Course, Run]:
    """What happened from ``since`` to ``until`` (ms after the start), and the simulation's own tables."""
    _, run = site(directory, setup, also, works)
    url = f"sqlite:///{directory / '.tenure' / 'tenure.db'}"
    end = setup.start + (setup.duration if until is None else until)
    with Store.open_to_read(url) as store:
        return then(store, setup.start + since, end, 0, going), run


def rerun(course: Course, variant: Variant, **more: object) -> Rerun:
    """A run to its end."""
    made = Rerun(course, variant, **more)  # type: ignore[arg-type]  # observe alone
    made.advance(course.until)
    return made


def other(course: Course, **changes: object) -> Wanted:
    """The configuration of the course's beginning with ``changes``."""
    now = configuration_of(course.fresh())
    return replace(Wanted(now.clusters, now.policy, now.budgets, now.grants), **changes)  # type: ignore[arg-type]


def rows(run: Run) -> dict[int, JobRow]:
    return {row.id: row for row in run.jobs}


def sound(state: State, _at: int, _events: Sequence[Event], _result: Result) -> None:
    """What holds of a state whatever was before it."""
    invariants.check_gpus(state)
    invariants.check_held(state)
    invariants.check_waits(state)
    invariants.check_promises(state)
