"""Several executors under one server: each cluster's attempts go where they belong, and one keeps the contract."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from executor_contract import ExecutorContract, ExecutorMaker
from executor_kit import Watched, launch_of, order, sh

from tenure.executors.base import Health, HostCondition, HostWish, Launch, Phase, StaleEpoch
from tenure.executors.local import LocalExecutor
from tenure.executors.several import Part, Several


def two(root: Path) -> Several:
    return Several([Part(LocalExecutor(root / "a"), ("main", "more")), Part(LocalExecutor(root / "b"), ("other",))])


class TestSeveral(ExecutorContract):
    @pytest.fixture
    def new_executor(self, tmp_path: Path) -> ExecutorMaker:
        return lambda: two(tmp_path)


def on(cluster: str, script: str, attempt_id: str) -> Launch:
    return replace(launch_of(sh(script), attempt_id=attempt_id), cluster=cluster)


def test_each_attempt_is_where_its_cluster_is(tmp_path: Path) -> None:
    watched = Watched(two(tmp_path))
    watched.executor.start(on("other", "echo here", "7.1"))
    watched.executor.start(on("more", "echo there", "8.1"))
    assert watched.ended("7.1").exit_codes == watched.ended("8.1").exit_codes == (0,)
    assert (tmp_path / "b" / "7" / "1").is_dir() and not (tmp_path / "a" / "7").exists()
    assert (tmp_path / "a" / "8" / "1").is_dir()
    assert two(tmp_path).highest_job() == 8
    watched.executor.forget("7.1")
    assert (watched.report("7.1"), watched.log(attempt_id="7.1")) == (None, "here\n")
    watched.executor.close()
    # A server that has never started it finds its log all the same.
    assert Path(two(tmp_path).log_path("7.1", 0, "stdout")).read_text() == "here\n"


def test_what_is_stopped_before_its_start_starts_nowhere(tmp_path: Path) -> None:
    watched = Watched(two(tmp_path))
    watched.executor.stop(order("7.1"))
    assert [one.attempt_id for one in watched.executor.poll()] == ["7.1"]
    watched.executor.start(on("other", "touch ran", "7.1"))
    assert watched.ended("7.1").phase is Phase.NOT_STARTED
    watched.executor.forget("7.1")
    assert list(watched.executor.poll()) == []
    watched.executor.close()


def test_a_cluster_without_an_executor_is_named(tmp_path: Path) -> None:
    watched = Watched(two(tmp_path))
    with pytest.raises(OSError, match="cluster new: nothing runs its jobs; restart the server"):
        watched.executor.start(on("new", "true", "7.1"))
    watched.executor.close()
    with pytest.raises(ValueError, match="one executor"):
        Several([Part(LocalExecutor(tmp_path / "a"), ("main",)), Part(LocalExecutor(tmp_path / "b"), ("main",))])


def test_an_older_leader_is_refused_by_all(tmp_path: Path) -> None:
    two(tmp_path).open(3, lambda: None)
    with pytest.raises(StaleEpoch):
        two(tmp_path).open(2, lambda: None)


class Told(LocalExecutor):
    """Says what it is told to say of its hosts, and when it is let."""

    def __init__(self, root: Path, *said: HostCondition) -> None:
        super().__init__(root)
        self.said, self.wishes = said, list[HostWish]()
        self.answers = threading.Event()

    def open(self, epoch: int, on_change: Callable[[], None]) -> None:
        assert self.answers.wait(60)
        super().open(epoch, on_change)

    def conditions(self) -> tuple[HostCondition, ...]:
        return self.said

    def keep_out(self, wishes: object) -> None:
        assert isinstance(wishes, list)
        self.wishes = wishes


def test_hosts_of_one_name_are_told_apart_and_all_come_up_at_once(tmp_path: Path) -> None:
    drained = HostCondition("n1", Health.DRAINING, "slurm:root", "fans")
    first, second = Told(tmp_path / "a", drained), Told(tmp_path / "b", HostCondition("n1"))
    several = Several([Part(first, ("main", "more")), Part(second, ("other",))])
    first_open, first.open = first.open, lambda *given: (second.answers.set(), first_open(*given))[1]  # type: ignore[method-assign]
    second_open, second.open = second.open, lambda *given: (first.answers.set(), second_open(*given))[1]  # type: ignore[method-assign]
    several.open(1, lambda: None)  # each waits for the other
    assert [(one.cluster, one.name, one.health.value) for one in several.conditions()] == [
        ("main", "n1", "draining"),
        ("more", "n1", "draining"),
        ("other", "n1", "fit"),
    ]
    wishes = [HostWish(cluster, "n1", cluster == "other") for cluster in ("main", "more", "other")]
    several.keep_out(wishes)
    assert (first.wishes, second.wishes) == (wishes[:2], wishes[2:])
    here = LocalExecutor(tmp_path / "c").discover()
    assert {(host.cluster, host.name) for host in several.discover()} == {
        (cluster, host.name) for cluster in ("main", "more", "other") for host in here
    }
    several.close()
