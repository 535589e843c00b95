"""Several runs in processes: results, order, interruption."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sim_kit import script, setup_of, work

from tenure.core.model import DAY, HOUR, MINUTE
from tenure.reports import tables
from tenure.sim.runner import Order, Summary, Tick, execute, run_all, write_summaries
from tenure.sim.setup import Setup
from tenure.sim.work import Workload


def busy(seed: int, count: int = 900) -> Setup:
    jobs = [
        (i * MINUTE, work(("lab/a", "lab/b")[i % 2], 8, HOUR, min_runtime=(0, HOUR)[i % 3 > 0])) for i in range(count)
    ]
    return replace(setup_of([]), workload=partial(script, jobs, ()), seed=seed, duration=2 * DAY)


def endless(seed: int) -> Setup:
    """Something happens in it for far longer than it takes to break it off."""
    return replace(busy(seed, 60_000), duration=60 * DAY)


def signalled(number: signal.Signals, seed: int) -> Workload:
    """A workload whose process gets a signal when it begins."""
    os.kill(os.getpid(), number)
    return script([], (), seed)


def without_clock(summary: Summary) -> Summary:
    return {key: value for key, value in summary.items() if key not in ("wall_s", "peak_mib")}


@pytest.mark.parametrize("workers", [1, 2])
def test_all_runs_leave_their_folders_and_summaries(tmp_path: Path, workers: int) -> None:
    orders = [Order(i, busy(i), tmp_path / f"run{i}") for i in range(3)]
    found: dict[int, Summary] = {}
    ticks: list[Tick] = []
    assert run_all(orders, workers, ticks.append, found.__setitem__)
    assert sorted(found) == [0, 1, 2]
    assert [found[i]["seed"] for i in range(3)] == [0, 1, 2]
    for i, order in enumerate(orders):
        assert order.folder is not None
        run = tables.read_run(order.folder)
        assert run.seed == i and len(run.jobs) == 900 and run.complete
    alone = execute(Order(0, busy(0), None), lambda tick: True)
    assert without_clock(alone) == without_clock(found[0])


def interrupted(tmp_path: Path, workers: int) -> dict[int, Summary]:
    orders = [Order(i, endless(i), tmp_path / f"run{i}") for i in range(2)]
    found: dict[int, Summary] = {}
    sent: list[Any] = []

    def seen(tick: Tick) -> None:
        if not sent:
            sent.append(tick)
            os.kill(os.getpid(), signal.SIGINT)

    assert not run_all(orders, workers, seen, found.__setitem__)
    return found


def test_ctrl_c_leaves_valid_partial_results_of_processes(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    found = interrupted(tmp_path, 2)
    assert signal.getsignal(signal.SIGINT) is before
    assert found
    for number, summary in found.items():
        assert summary["complete"] is False
        run = tables.read_run(tmp_path / f"run{number}")
        assert not run.complete and run.jobs
        assert sum(row.length for row in run.hours) == run.until - run.start


def test_ctrl_c_keeps_what_a_single_process_has_done(tmp_path: Path) -> None:
    found = interrupted(tmp_path, 1)
    assert list(found) == [0] and found[0]["complete"] is False
    assert (tmp_path / "run0" / "summary.json").is_file()


def test_a_second_ctrl_c_ends_at_once_and_leaves_no_process(tmp_path: Path) -> None:
    orders = [Order(i, endless(i), tmp_path / f"run{i}") for i in range(2)]
    before = signal.getsignal(signal.SIGINT)

    def seen(tick: Tick) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_all(orders, 2, seen, lambda number, summary: None)
    assert multiprocessing.active_children() == []
    assert not list(tmp_path.glob("*/run.json"))
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


def test_the_processes_of_runs_never_see_ctrl_c() -> None:
    orders = [Order(0, replace(busy(0), workload=partial(signalled, signal.SIGINT)), None), Order(1, busy(1), None)]
    found: dict[int, Summary] = {}
    assert run_all(orders, 1, lambda tick: None, found.__setitem__)
    assert [found[i]["complete"] for i in (0, 1)] == [True, True]


def test_a_process_that_dies_is_told() -> None:
    orders = [Order(0, replace(busy(0), workload=partial(signalled, signal.SIGKILL)), None)]
    with pytest.raises(RuntimeError, match="the process of budgets-seed0 ended with exit code -9"):
        run_all(orders, 1, lambda tick: None, lambda number, summary: None)


def test_each_run_has_memory_of_its_own() -> None:
    taken = bytearray(300 << 20)
    found: dict[int, Summary] = {}
    assert run_all([Order(0, busy(0), None)], 1, lambda tick: None, found.__setitem__)
    assert taken and 10 < found[0]["peak_mib"] < 300


def test_notes_of_a_setup_reach_its_tables(tmp_path: Path) -> None:
    execute(Order(0, replace(busy(0), notes=("3 rows were bad",)), tmp_path / "run"), lambda tick: True)
    assert tables.read_run(tmp_path / "run").notes == ["3 rows were bad"]


def test_what_a_run_raises_reaches_the_caller(tmp_path: Path) -> None:
    orders = [Order(i, replace(busy(i), policy="nonsense"), None) for i in range(2)]
    with pytest.raises(ValueError, match="nonsense"):
        run_all(orders, 2, lambda tick: None, lambda number, summary: None)


def test_summaries_are_replaced_whole(tmp_path: Path) -> None:
    write_summaries(tmp_path, [{"policy": "a"}])
    write_summaries(tmp_path, [{"policy": "a"}, {"policy": "b"}])
    assert [one["policy"] for one in json.loads((tmp_path / "summary.json").read_text())] == ["a", "b"]
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
