"""Runs setups side by side in processes, each leaving a folder. Whatever interrupts it, what was done is kept.

Ctrl-C ends every run where it is; their results up to there are written, and marked as incomplete. The second one ends
the processes at once.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from traceback import format_exception
from typing import Any

from tenure.reports import metrics, tables
from tenure.sim.loop import Simulation
from tenure.sim.setup import Setup
from tenure.sim.work import Telling

Summary = dict[str, Any]

_BETWEEN_TICKS_S = 0.2
_CONTEXT = multiprocessing.get_context("spawn")
"""A fresh process for each run: it has the memory of nobody else, and none of the threads that are here."""


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

    simulation = Simulation(order.setup)
    run = simulation.run(progress)
    run.wall_s = round(time.perf_counter() - began, 3)
    run.peak_mib = _peak_mib()
    summary = metrics.summary(run)
    if isinstance(simulation.workload, Telling):
        summary |= simulation.workload.figures(run)
    if order.folder is not None:
        tables.write_run(run, order.folder)
        if order.finish is not None:
            order.finish(order.folder)
    return summary


def run_all(
    orders: Sequence[Order], workers: int, seen: Callable[[Tick], None], done: Callable[[int, Summary], None]
) -> bool:
    """Run each in a process of its own, at most ``workers`` at a time. ``done`` gets the summaries as they come.

    Returns False when Ctrl-C broke it off. Raises what a run raised, and KeyboardInterrupt at the second Ctrl-C, after
    the others have been ended.
    """
    waiting = deque(orders)
    running: dict[Connection, _Running] = {}
    stop = _Stop()
    try:
        with interrupted(stop.ask):
            while running or (waiting and not stop.asked):
                while waiting and not stop.asked and len(running) < workers:
                    begun = _Running(waiting.popleft())
                    running[begun.pipe] = begun
                for pipe in wait(list(running), timeout=_BETWEEN_TICKS_S):
                    assert isinstance(pipe, Connection)
                    said = running[pipe].receive()
                    if isinstance(said, Tick):
                        seen(said)
                        continue
                    ended = running.pop(pipe)
                    ended.join()
                    done(ended.order.number, said)
                if stop.asked:
                    for one in running.values():
                        one.stop()
    finally:
        for one in running.values():
            one.end()
    return not stop.asked


class _Stop:
    """Whether the runs are to stop."""

    def __init__(self) -> None:
        self.asked = False

    def ask(self) -> None:
        self.asked = True


class _Running:
    """A run in its process, and the pipe to it."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.pipe, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_in_process, args=(order, theirs), daemon=True)
        self._stopping = False
        with _uninterrupted():
            self.process.start()
        theirs.close()

    def receive(self) -> Tick | Summary:
        """Raises what the run raised, and RuntimeError when its process has ended without a word."""
        try:
            said: Tick | Summary | _Failed = self.pipe.recv()
        except (EOFError, ConnectionError) as error:
            self.process.join()
            code = self.process.exitcode
            raise RuntimeError(f"the process of {self.order.setup.label} ended with exit code {code}") from error
        if isinstance(said, _Failed):
            raise said.error
        return said

    def stop(self) -> None:
        """Ask it to end where it is. It may be about to end by itself."""
        if not self._stopping:
            self._stopping = True
            with suppress(ConnectionError):
                self.pipe.send(None)

    def join(self) -> None:
        self.process.join()
        self.pipe.close()

    def end(self) -> None:
        self.process.terminate()
        self.join()


@dataclass(frozen=True, slots=True)
class _Failed:
    error: Exception


def _in_process(order: Order, pipe: Connection) -> None:
    """A run in a process of its own. Anything that comes through the pipe, and its end, asks to break it off."""

    def tick(now: Tick) -> bool:
        pipe.send(now)
        return not pipe.poll()

    try:
        pipe.send(execute(order, tick))
    except ConnectionError:
        return  # whoever asked for it is gone
    except Exception as error:  # whatever it is, it belongs to whoever asked for the run
        error.add_note("".join(format_exception(error)))
        pipe.send(_Failed(error))


@contextmanager
def interrupted(stop: Callable[[], None]) -> Iterator[None]:
    """Within it the first Ctrl-C only asks to stop; the second one is the usual one."""

    def once(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        stop()

    before = signal.signal(signal.SIGINT, once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """A process that is started within it never sees Ctrl-C, not even while it imports; here it waits until after."""
    resource_tracker.ensure_running()  # when it has to be started, that lets the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _peak_mib() -> int:
    """Of this process. What ``getrusage`` says on Linux may be a peak of the parent, from before this one began."""
    with suppress(OSError, ValueError):
        status = dict(
            line.split(":", 1) for line in Path("/proc/self/status").read_text("ascii", "replace").splitlines()
        )
        if "VmHWM" in status:
            return int(status["VmHWM"].split()[0]) >> 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak >> 20 if sys.platform == "darwin" else peak >> 10


def write_summaries(folder: Path, summaries: Sequence[Summary]) -> None:
    """``summary.json``, replaced whole, so that it is valid at any moment."""
    target, new = folder / "summary.json", folder / "summary.json.new"
    new.write_text(json.dumps(list(summaries), indent=2) + "\n", encoding="utf-8")
    new.replace(target)


def write_notes(folder: Path, notes: Sequence[str]) -> None:
    """``notes.txt``: what readers of the results should know about the workload."""
    (folder / "notes.txt").write_text("\n".join(notes) + "\n", encoding="utf-8")
