"""Several runs in processes: results, order, interruption."""

from __future__ import annotations

import json
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


def busy(seed: int) -> Setup:
    jobs = [
        (i * MINUTE, work(("lab/a", "lab/b")[i % 2], 8, HOUR, min_runtime=(0, HOUR)[i % 3 > 0])) for i in range(900)
    ]
    return replace(setup_of([]), workload=partial(script, jobs, ()), seed=seed, duration=2 * DAY)


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
    orders = [Order(i, replace(busy(i), duration=2000 * DAY), tmp_path / f"run{i}") for i in range(2)]
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


def test_what_a_run_raises_reaches_the_caller(tmp_path: Path) -> None:
    orders = [Order(i, replace(busy(i), policy="nonsense"), None) for i in range(2)]
    with pytest.raises(ValueError, match="nonsense"):
        run_all(orders, 2, lambda tick: None, lambda number, summary: None)


def test_summaries_are_replaced_whole(tmp_path: Path) -> None:
    write_summaries(tmp_path, [{"policy": "a"}])
    write_summaries(tmp_path, [{"policy": "a"}, {"policy": "b"}])
    assert [one["policy"] for one in json.loads((tmp_path / "summary.json").read_text())] == ["a", "b"]
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
