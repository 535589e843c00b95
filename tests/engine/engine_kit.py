"""What the engine tests share: a small organisation, an executor that does what the test says, a clock in its hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tenure.config import Config, Server
from tenure.core import codec, scheduler, snapshot
from tenure.core.lifecycle import JobState
from tenure.core.model import (
    HOUR,
    SECOND,
    SHARE_ONE,
    Budget,
    Cluster,
    Contract,
    Execution,
    Host,
    JobSpec,
    Policy,
    Role,
)
from tenure.core.state import State
from tenure.engine import recovery
from tenure.engine.clock import Clock
from tenure.engine.engine import Engine
from tenure.executors.base import (
    DiscoveredHost,
    HostCondition,
    HostWish,
    Launch,
    Phase,
    Report,
    StaleEpoch,
    StopOrder,
)
from tenure.store import JobRow, Store

T0 = 1_800_000_000_000
"""A time to begin at, ms UTC."""
PATIENCE_S = 120
"""How long a test waits for what must come. Nothing depends on it when all is well."""

CLUSTER = Cluster(
    "main",
    tuple(Host(f"h{i}", 4, 64_000, 512 * 1024, (("rack", "r1"),)) for i in range(2)),
    min_runtime_floor=SECOND,
)
BUDGETS = (Budget("lab", SHARE_ONE), Budget("lab/a", SHARE_ONE // 2), Budget("lab/b", SHARE_ONE // 2))


def config_of(data: Path, policy: Policy | None = None, cluster: Cluster = CLUSTER) -> Config:
    return Config(Server(data_dir=data, slow_tick=HOUR), (cluster,), policy or Policy(), BUDGETS)


def spec(
    budget: str = "lab/a",
    gpus: int = 4,
    *,
    replicas: int = 1,
    min_runtime: int = HOUR,
    resumable: bool = True,
    command: Sequence[str] = ("true",),
    **more: Any,
) -> JobSpec:
    return JobSpec(
        name="job",
        user=more.pop("user", "ann"),
        budget=budget,
        roles=(Role("main", replicas, gpus, 0, 0, tuple(command)),),
        contract=Contract(min_runtime, resumable),
        clusters=("main",),
        execution=Execution(workdir="/"),
        **more,
    )


class Hands:
    """A wall clock and a steady clock, ms, that move when the test says so."""

    def __init__(self) -> None:
        self.wall, self.steady, self.boot = T0, 1_000_000, "boot-1"

    def advance(self, ms: int) -> None:
        self.wall += ms
        self.steady += ms

    def clock(self, *anchor: Any) -> Clock:
        return Clock(*anchor, wall=lambda: self.wall, steady=lambda: self.steady, boot=self.boot)


@dataclass
class Run:
    """An attempt as the executor has it. ``since`` on the steady clock."""

    launch: Launch | None
    report: Report
    since: int
    checkpoint: int | None = None
    """When it reported a checkpoint, on the steady clock."""


class FakeExecutor:
    """Keeps attempts as a test says. It outlives engines, as processes outlive servers."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands
        self.runs: dict[str, Run] = {}
        self.starts: list[Launch] = []
        self.stops: list[StopOrder] = []
        self.forgotten: list[str] = []
        self.surroundings: list[HostCondition] = []
        self.wishes: list[HostWish] = []
        self.auto_up = True
        self.broken: BaseException | None = None
        """What start, stop and poll raise."""
        self.refuse_start: OSError | None = None
        self.refuse_stop: OSError | None = None
        self.newest_epoch = 0
        self.polls = 0
        self.on_stop: Callable[[StopOrder], None] = lambda _order: None
        self._polled = threading.Condition()
        self._on_change: Callable[[], None] = lambda: None

    def open(self, epoch: int, on_change: Callable[[], None]) -> None:
        if epoch < self.newest_epoch:
            raise StaleEpoch(f"epoch {epoch} is behind {self.newest_epoch}")
        self.newest_epoch, self._on_change = epoch, on_change

    def start(self, launch: Launch) -> None:
        self._check()
        if self.refuse_start is not None:
            raise self.refuse_start
        self.starts.append(launch)
        if launch.attempt_id not in self.runs:
            phase = Phase.RUNNING if self.auto_up else Phase.STARTING
            self.runs[launch.attempt_id] = Run(launch, Report(launch.attempt_id, phase), self.hands.steady)
            self._on_change()

    def stop(self, order: StopOrder) -> None:
        self._check()
        if self.refuse_stop is not None:
            raise self.refuse_stop
        self.stops.append(order)
        self.on_stop(order)

    def poll(self) -> Sequence[Report]:
        try:
            self._check()
            return [self._report(run) for run in list(self.runs.values())]
        finally:  # what a test does from here on comes after
            with self._polled:
                self.polls += 1
                self._polled.notify_all()

    def _report(self, run: Run) -> Report:
        age = None if run.checkpoint is None else self.hands.steady - run.checkpoint
        return replace(run.report, age_ms=self.hands.steady - run.since, checkpoint_age_ms=age)

    def tidy(self, alive: Callable[[int], bool]) -> None:
        pass

    def forget(self, attempt_id: str) -> None:
        self.forgotten.append(attempt_id)
        self.runs.pop(attempt_id, None)

    def log_path(self, attempt_id: str, node_rank: int, stream: str) -> str:
        return f"/dev/null/{attempt_id}.{node_rank}.{stream}"

    def conditions(self) -> Sequence[HostCondition]:
        return self.surroundings

    def keep_out(self, wishes: Sequence[HostWish]) -> None:
        self.wishes = list(wishes)

    def discover(self) -> Sequence[DiscoveredHost]:
        return ()

    def close(self) -> None:
        pass

    def _check(self) -> None:
        if self.broken is not None:
            raise self.broken

    # ---- what happens to attempts

    def enter(self, attempt_id: str, phase: Phase, *, quiet: bool = False, **more: Any) -> None:
        """The attempt enters ``phase`` now. ``quiet``: nobody hears of it."""
        launch = self.runs[attempt_id].launch if attempt_id in self.runs else None
        self.runs[attempt_id] = Run(launch, Report(attempt_id, phase, **more), self.hands.steady)
        if not quiet:
            self._on_change()

    def exit(self, attempt_id: str, *codes: int, quiet: bool = False, done: bool = False) -> None:
        self.enter(attempt_id, Phase.EXITED, exit_codes=codes or (0,), done=done, quiet=quiet)

    def await_poll(self, after: int) -> None:
        with self._polled:
            assert self._polled.wait_for(lambda: self.polls > after, PATIENCE_S), "the engine does not poll"


class Rig:
    """An engine on a database file, with an executor and clocks that a test holds."""

    def __init__(self, directory: Path, config: Config | None = None) -> None:
        self.hands = Hands()
        self.executor = FakeExecutor(self.hands)
        self.config = config or config_of(directory)
        self.url = f"sqlite:///{directory / 'tenure.db'}"
        self.store = Store.open(self.url)
        self.engine = self.boot()
        self.configure()

    def boot(self) -> Engine:
        """Another server on the same database and executor."""
        self.engine = Engine(self.config, self.store, self.executor, self.hands.clock)
        self.engine.start()
        return self.engine

    def restart(self) -> None:
        self.engine.stop()
        self.boot()
        self.turn()

    def configure(self, policy: Policy | None = None, budgets: tuple[Budget, ...] = BUDGETS) -> None:
        self.engine.apply(self.config.clusters, policy or self.config.policy, budgets, (), by="test", dry_run=False)

    def close(self) -> None:
        self.engine.stop()
        self.store.close()

    def turn(self) -> None:
        """Return when the engine has been through two whole rounds that began after this call.

        In the first one it hears of an end, and starts what had waited for that; in the second, that this is up.
        """
        for _ in range(3):
            before = self.executor.polls
            self.engine.poke()
            self.executor.await_poll(before)

    def advance(self, ms: int) -> None:
        self.hands.advance(ms)
        self.turn()

    def submit(self, budget: str = "lab/a", gpus: int = 4, **more: Any) -> int:
        job_id, _ = self.engine.submit(spec(budget, gpus, **more), by="ann")
        self.turn()
        return job_id

    def finish(self, job_id: int, *codes: int, done: bool = False) -> None:
        self.executor.exit(self.attempt_of(job_id), *codes, done=done)
        self.turn()

    def attempt_of(self, job_id: int) -> str:
        with self.engine.view() as state:
            attempt = state.jobs[job_id].attempt
            assert attempt is not None
            return attempt.id

    def state_of(self, job_id: int) -> str:
        with self.engine.view() as state:
            if job_id in state.jobs:
                return state.jobs[job_id].state.value
        return self.row(job_id).state

    def row(self, job_id: int) -> JobRow:
        found = self.store.job(job_id)
        assert found is not None
        return found

    def check_recovery(self) -> None:
        """What a restart at this moment would bring back is what is running."""
        with self.engine.view() as state:
            equal_after_recovery(state, self.store)

    def check_replay(self) -> None:
        report = recovery.replay(self.store)
        assert report.mismatches == ()


@contextmanager
def rig(directory: Path, config: Config | None = None) -> Iterator[Rig]:
    made = Rig(directory, config)
    try:
        yield made
    finally:
        made.close()


def equal_after_recovery(live: State, store: Store) -> None:
    """Restoring gives ``live``, to the byte, after the time since the last batch, in which nothing was decided."""
    restored = recovery.restore(store).state
    result = scheduler.step(restored, [], live.now)
    assert not result.outcomes and not result.plans
    assert saved(restored) == saved(live)
    for name, cluster in live.clusters.items():
        again = restored.clusters[name]
        assert again.room.free_gpus == cluster.room.free_gpus
        since = live.now - live.policy.lookback
        for path, account in cluster.ledger.accounts.items():
            for kind in account.used:
                mine = again.ledger.account(path)
                assert mine.usage(kind, since, live.now) == account.usage(kind, since, live.now), (path, kind)
                assert mine.promised[kind].at(live.now) == account.promised[kind].at(live.now), (path, kind)


def saved(state: State) -> str:
    """The bytes of a snapshot."""
    return codec.dumps(snapshot.save(state))


RUNNING = JobState.RUNNING.value
QUEUED = JobState.QUEUED.value
