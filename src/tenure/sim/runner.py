"""Runs setups side by side in processes, each leaving a folder. Whatever interrupts it, what was done is kept.

Ctrl-C ends every run where it is; their results up to there are written, and marked as incomplete.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from queue import Empty
from typing import Any

from tenure.reports import metrics, tables
from tenure.sim.loop import Simulation
from tenure.sim.setup import Setup

Summary = dict[str, Any]

_BETWEEN_TICKS_S = 0.2


@dataclass(frozen=True, slots=True)
class Tick:
    """How far a run is. ``at``: simulated time, ms UTC; ``jobs``: submitted so far."""

    number: int
    at: int
    jobs: int


@dataclass(frozen=True, slots=True)
class Order:
    """A run to do. ``folder``: where its tables go, None to keep only the summary."""

    number: int
    setup: Setup
    folder: Path | None
    finish: Callable[[Path], None] | None = None
    """Called with the folder when the tables are there: reports."""


def execute(order: Order, tick: Callable[[Tick], bool]) -> Summary:
    """One run, in this process. ``tick`` is called a few times a second; False breaks the run off."""
    last = began = time.perf_counter()

    def progress(at: int, jobs: int) -> bool:
        nonlocal last
        now = time.perf_counter()
        if now - last < _BETWEEN_TICKS_S:
            return True
        last = now
        return tick(Tick(order.number, at, jobs))

    run = Simulation(order.setup).run(progress)
    run.wall_s = round(time.perf_counter() - began, 3)
    run.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    summary = metrics.summary(run)
    if order.folder is not None:
        tables.write_run(run, order.folder)
        if order.finish is not None:
            order.finish(order.folder)
    return summary


def run_all(
    orders: Sequence[Order], workers: int, seen: Callable[[Tick], None], done: Callable[[int, Summary], None]
) -> bool:
    """Run all of them, at most ``workers`` at a time. ``done`` gets each summary as it comes.

    Returns False when Ctrl-C broke it off. Raises what a run raised, after the others have been stopped.
    """
    if workers == 1 or len(orders) == 1:
        return _one_by_one(orders, seen, done)
    context = multiprocessing.get_context("spawn")
    ticks: Queue[Tick] = context.Queue()
    stop = context.Event()
    with (
        ProcessPoolExecutor(min(workers, len(orders)), context, _start_worker, (ticks, stop)) as pool,
        _interrupted(stop.set),
    ):
        waiting = {pool.submit(_in_worker, order): order.number for order in orders}
        try:
            _collect(waiting, ticks, seen, done)
        except BaseException:
            stop.set()
            raise
    return not stop.is_set()


def _one_by_one(orders: Sequence[Order], seen: Callable[[Tick], None], done: Callable[[int, Summary], None]) -> bool:
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True

    def tick(now: Tick) -> bool:
        seen(now)
        return not stopped

    with _interrupted(stop):
        for order in orders:
            if not stopped:
                done(order.number, execute(order, tick))
    return not stopped


def _collect(
    waiting: dict[Future[Summary | None], int],
    ticks: Queue[Tick],
    seen: Callable[[Tick], None],
    done: Callable[[int, Summary], None],
) -> None:
    left = set(waiting)
    while left:
        finished, left = wait(left, timeout=_BETWEEN_TICKS_S, return_when=FIRST_COMPLETED)
        for tick in _all_of(ticks):
            seen(tick)
        for future in finished:
            summary = future.result()
            if summary is not None:
                done(waiting[future], summary)


def _all_of(ticks: Queue[Tick]) -> Iterator[Tick]:
    while True:
        try:
            yield ticks.get_nowait()
        except Empty:
            return


@contextmanager
def _interrupted(stop: Callable[[], None]) -> Iterator[None]:
    """Within it the first Ctrl-C only asks to stop; the second one is the usual one."""

    def once(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        stop()

    before = signal.signal(signal.SIGINT, once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_worker: tuple[Queue[Tick], Event] | None = None
"""Of a worker process: where its ticks go, and whether it is to stop."""


def _start_worker(ticks: Queue[Tick], stop: Event) -> None:
    global _worker  # noqa: PLW0603  # a pool hands its workers what they share in no other way
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker = ticks, stop


def _in_worker(order: Order) -> Summary | None:
    """None: it had not begun when everything was stopped."""
    assert _worker is not None
    ticks, stop = _worker
    if stop.is_set():
        return None

    def tick(now: Tick) -> bool:
        ticks.put(now)
        return not stop.is_set()

    return execute(order, tick)


def write_summaries(folder: Path, summaries: Sequence[Summary]) -> None:
    """``summary.json``, replaced whole, so that it is valid at any moment."""
    target, new = folder / "summary.json", folder / "summary.json.new"
    new.write_text(json.dumps(list(summaries), indent=2) + "\n", encoding="utf-8")
    new.replace(target)


def write_notes(folder: Path, notes: Sequence[str]) -> None:
    """``notes.txt``: what readers of the results should know about the workload."""
    (folder / "notes.txt").write_text("\n".join(notes) + "\n", encoding="utf-8")
