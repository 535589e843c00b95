"""Several executors under one server, each for clusters of its own: one for every Slurm, say.

Whoever is slow or does not answer holds up nobody else: all of them come up at once, and what one says is passed on as
if it were alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from tenure.executors.base import (
    DiscoveredHost,
    Executor,
    HostCondition,
    HostWish,
    Launch,
    Phase,
    Report,
    StopOrder,
)

_T = TypeVar("_T")


class Member(Executor, Protocol):
    """An executor that remembers the jobs it has had."""

    def highest_job(self) -> int:
        """The highest job id that has ever had an attempt there, 0 for none."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """An executor and the clusters that it runs the attempts of."""

    executor: Member
    clusters: tuple[str, ...]


class Several(Executor):
    """Raises ValueError when a cluster is in two parts.

    ``start`` raises OSError for a cluster that is in none, which one that was configured after the start of the server
    may be.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self._by_cluster = {name: part.executor for part in parts for name in part.clusters}
        if len(self._by_cluster) != sum(len(part.clusters) for part in parts):
            raise ValueError("each cluster belongs to one executor")
        self._where: dict[str, Member] = {}
        """Who has an attempt, as far as it has been asked for."""

    def open(self, epoch: int, on_change: Callable[[], None]) -> None:
        self._where.clear()
        self._at_once(lambda part: part.executor.open(epoch, on_change))

    def start(self, launch: Launch) -> None:
        executor = self._by_cluster.get(launch.cluster)
        if executor is None:
            raise OSError(f"cluster {launch.cluster}: nothing runs its jobs; restart the server")
        self._where[launch.attempt_id] = executor
        executor.start(launch)

    def stop(self, order: StopOrder) -> None:
        # One that nobody has yet must not start anywhere.
        for executor in self._having(order.attempt_id):
            executor.stop(order)

    def poll(self) -> Sequence[Report]:
        found: dict[str, Report] = {}
        for part in self.parts:
            for report in part.executor.poll():
                known = found.get(report.attempt_id)
                if known is None or known.phase is Phase.NOT_STARTED:
                    found[report.attempt_id] = report
        return list(found.values())

    def forget(self, attempt_id: str) -> None:
        self._where.pop(attempt_id, None)
        for executor in self._having(attempt_id):
            executor.forget(attempt_id)
        self._where.pop(attempt_id, None)

    def tidy(self, alive: Callable[[int], bool]) -> None:
        for part in self.parts:
            part.executor.tidy(alive)

    def log_path(self, attempt_id: str, node_rank: int, stream: str) -> str:
        return self._having(attempt_id)[0].log_path(attempt_id, node_rank, stream)

    def discover(self) -> Sequence[DiscoveredHost]:
        """The hosts of each part, once for each of its clusters, whose name they then have."""
        found = self._at_once(lambda part: part.executor.discover())
        return [
            replace(host, cluster=cluster)
            for part, hosts in zip(self.parts, found, strict=True)
            for cluster in part.clusters
            for host in hosts
        ]

    def conditions(self) -> Sequence[HostCondition]:
        return [
            replace(condition, cluster=cluster)
            for part in self.parts
            for condition in part.executor.conditions()
            for cluster in part.clusters
        ]

    def keep_out(self, wishes: Sequence[HostWish]) -> None:
        for part in self.parts:
            part.executor.keep_out([wish for wish in wishes if wish.cluster in part.clusters])

    def highest_job(self) -> int:
        """The highest job id that has ever had an attempt in any of them, 0 for none."""
        return max(part.executor.highest_job() for part in self.parts)

    def close(self) -> None:
        self._at_once(lambda part: part.executor.close())

    def _having(self, attempt_id: str) -> list[Member]:
        """Those that have an attempt, by its files; all of them when nobody has."""
        known = self._where.get(attempt_id)
        if known is not None:
            return [known]
        everybody = [part.executor for part in self.parts]
        found = [one for one in everybody if Path(one.log_path(attempt_id, 0, "stdout")).parent.is_dir()]
        if len(found) == 1:
            self._where[attempt_id] = found[0]
        return found or everybody

    def _at_once(self, what: Callable[[Part], _T]) -> list[_T]:
        """The answers of all parts, in their order. Raises what the first of them raised, when all are done."""
        with ThreadPoolExecutor(len(self.parts), "tenure-several") as pool:
            asked = [pool.submit(what, part) for part in self.parts]
        return [one.result() for one in asked]
