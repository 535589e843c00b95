"""A live event log, run through the simulator: the same decisions, and the tables and pictures of what happened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tenure.core.events import ConfigApplied, Event
from tenure.core.scheduler import Result
from tenure.policies.budgets import Budgets
from tenure.reports.records import Run
from tenure.sim.driver import Driver
from tenure.sim.recorder import Recorder

Batch = tuple[int, Sequence[Event]]
"""One step of the log: its time, ms UTC, and the events that came with it."""


class LogRun:
    """Feeds a whole log, from its first batch on. ``run`` is what it leaves; metrics count from its start."""

    def __init__(self, title: str) -> None:
        self.run = Run("budgets", 0, title, {}, (), {}, 0, 0, 0, 0)
        policy = Budgets()
        self.recorder = Recorder(self.run, policy)
        self.driver = Driver(policy, self.recorder)

    def feed(self, batches: Iterable[Batch]) -> Iterator[Result]:
        """The decisions of each batch, derived anew. Raises ValueError when the log does not begin at its beginning."""
        at = None
        for at, events in batches:
            if self.driver.steps == 0:
                self._begin(at, events)
            yield self.driver.step(at, events)
        if at is not None:
            self.run.planned_until = at
            self.recorder.finish(self.driver.state, at)
            self.run.events, self.run.steps = self.driver.events, self.driver.steps

    def _begin(self, at: int, events: Sequence[Event]) -> None:
        config = next((event for event in events if isinstance(event, ConfigApplied)), None)
        if config is None:
            raise ValueError("the log does not begin with a configuration: its beginning has been compacted away")
        run = self.run
        run.start = run.until = at
        self.recorder.begin_at(at)
        run.budgets = config.budgets
        run.hosts = {c.name: tuple((h.name, h.gpus) for h in c.hosts) for c in config.clusters}
