"""A store as a server leaves it, made from a simulation: what was decided is written as the engine writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from tenure.config import Config, Server
from tenure.config.dump import dump
from tenure.core.events import Event
from tenure.core.scheduler import Result
from tenure.core.state import State
from tenure.engine.clock import Anchor
from tenure.engine.writer import Writer
from tenure.reports.records import Run
from tenure.sim.loop import Simulation, _Todo
from tenure.sim.setup import Setup
from tenure.sim.work import Work
from tenure.store import Store


class Scribe:
    """Writes each step, and a snapshot now and then: it observes a simulation."""

    def __init__(self, store: Store, start: int) -> None:
        self.writer = Writer(store, store.take_leadership(), 0)
        self.start = start

    def __call__(self, state: State, at: int, events: Sequence[Event], result: Result) -> None:
        if events or result.outcomes or result.plans:
            self.writer.write(state, events, result, Anchor(state.now, "simulated", state.now - self.start), [])
            self.writer.snapshot_if_due(state)


NOTHING: Mapping[int, Work] = {}


def live_through(store: Store, setup: Setup, also: Sequence[Event] = (), works: Mapping[int, Work] = NOTHING) -> Run:
    """Let ``setup`` happen in ``store``, and ``also`` at its time. ``works``: of the jobs that are submitted there.
    Returns the simulation's own tables.
    """
    simulation = Simulation(setup, Scribe(store, setup.start))
    simulation.works.update(works)
    simulation.waiting_since.update(dict.fromkeys(works, setup.start))
    for event in also:
        simulation._push(event.at, _Todo(partial(_happen, simulation, event)))
    return simulation.run()


def _happen(simulation: Simulation, event: Event, _at: int) -> None:
    simulation._events.append(event)


def site(
    directory: Path, setup: Setup, also: Sequence[Event] = (), works: Mapping[int, Work] = NOTHING
) -> tuple[Path, Run]:
    """A server's directory: configuration files, and a database in which ``setup`` has happened, and ``also``."""
    config = Config(Server(data_dir=directory / ".tenure"), setup.clusters, setup.scheduling, setup.budgets)
    clusters, budgets = dump(config)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "tenure.toml"
    path.write_text(clusters)
    (directory / "budgets.toml").write_text(budgets)
    with Store.open(config.server.database_url) as store:
        return path, live_through(store, setup, also, works)
