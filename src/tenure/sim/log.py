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
            for event in events:
                if isinstance(event, ConfigApplied):
                    self._configured(event)
            yield self.driver.step(at, events)
        if at is not None:
            self.run.planned_until = at
            self.recorder.finish(self.driver.state, at)
            self.run.events, self.run.steps = self.driver.events, self.driver.steps

    def _begin(self, at: int, events: Sequence[Event]) -> None:
        if not any(isinstance(event, ConfigApplied) for event in events):
            raise ValueError("the log does not begin with a configuration: its beginning has been compacted away")
        self.run.start = self.run.until = at
        self.recorder.begin_at(at)

    def _configured(self, event: ConfigApplied) -> None:
        """The run has every host that ever was, with the most GPUs that it had, and the budgets of the end."""
        self.run.budgets = event.budgets
        for cluster in event.clusters:
            known = dict(self.run.hosts.get(cluster.name, ()))
            for host in cluster.hosts:
                known[host.name] = max(host.gpus, known.get(host.name, 0))
            self.run.hosts[cluster.name] = tuple(known.items())
