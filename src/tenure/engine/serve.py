"""Put an engine together from its configuration file: store, executor, recovery, first configuration."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import structlog

from tenure.config import Config, load, resolve
from tenure.config.settings import Slurm
from tenure.core.reasons import Refusal
from tenure.engine.engine import Engine
from tenure.executors import procs
from tenure.executors.local import LocalExecutor
from tenure.executors.several import Part, Several
from tenure.executors.slurm.executor import SlurmExecutor
from tenure.store.store import Store

log = structlog.get_logger()


class AlreadyRunning(Exception):
    """Another server uses this data directory."""


@dataclass(slots=True)
class Server:
    """A started engine with what it holds open."""

    engine: Engine
    config: Config
    resources: ExitStack

    def close(self) -> None:
        self.engine.stop()
        self.resources.close()


def executor_for(config: Config) -> LocalExecutor | SlurmExecutor | Several:
    """The executor that the configuration names, or several Slurms as one."""
    if config.server.executor != "slurm":
        return LocalExecutor(config.runs)
    shared = _slurm(config.slurm, config.runs)
    if not config.slurm_of:
        return shared
    parts = []
    for name, _ in config.slurm_of:
        own = config.slurm_for(name)
        parts.append(Part(_slurm(own, own.root or config.runs), (name,)))
    others = tuple(cluster.name for cluster in config.clusters if cluster.name not in dict(config.slurm_of))
    return Several([*parts, Part(shared, others)] if others else parts)


def _slurm(slurm: Slurm, root: Path) -> SlurmExecutor:
    environment = {**os.environ, "SLURM_CONF": str(slurm.conf)} if slurm.conf is not None else None
    return SlurmExecutor(root, slurm.partition, slurm.commands, environment, slurm.submit_as)


def build(config_path: Path) -> Server:
    """Read the configuration, open everything, recover, and start to schedule.

    The configuration of a new database is applied at once; later changes go through ``tenure apply``. Raises
    ConfigError, AlreadyRunning and StoreError.
    """
    config = load(config_path)
    data = config.server.data_dir
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with ExitStack() as stack:
        _lock(stack, data)
        executor = executor_for(config)
        config = resolve(config, executor.discover())
        store = stack.enter_context(Store.open(config.server.database_url))
        # A database from a backup does not know the jobs since, but their directories are still there.
        engine = Engine(config, store, executor, used_ids=executor.highest_job())
        engine.start()
        try:
            _first_configuration(engine, config)
        except BaseException:
            engine.stop()
            raise
        return Server(engine, config, stack.pop_all())


def _lock(stack: ExitStack, data: Path) -> None:
    """One server at a time."""
    handle = stack.enter_context((data / "lock").open("a"))
    if not procs.wait_lock(handle, lambda: log.info("data_dir_in_use", data_dir=str(data))):
        raise AlreadyRunning(f"a server is running on {data}; stop it first, or use another data_dir")


def _first_configuration(engine: Engine, config: Config) -> None:
    with engine.view() as state:
        configured = state.tree is not None
    try:
        change = engine.apply(
            config.clusters, config.policy, config.budgets, config.grants, by="tenure serve", dry_run=configured
        )
    except Refusal as refused:
        if not configured:
            raise
        # What runs was configured otherwise and goes on: a file that cannot be applied must not stop a restart.
        log.warning("configuration_differs", refused=str(refused), fix="change the file; tenure apply says more")
        return
    if configured and change.changes:
        log.warning("configuration_differs", changes=change.changes, fix="run tenure apply to put it in force")
