"""``tenure.training`` in processes of its own: signals, the file, forks, threads, and no scheduler at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from training_kit import SOURCE, job_env, program

from support.line import PATIENCE_S
from tenure.training import EXIT_WARNED, KillWarning, Run, ear

NEVER = float("inf")


def tell(directory: Path, grace: int = 60_000, why: str = "Evicted for job 9.") -> None:
    """As the supervisor does it."""
    now = time.time_ns() // 1_000_000
    content = {"reason": "evicted_standing", "why": why, "signal": "SIGTERM", "at": now, "kill_at": now + grace}
    unfinished = directory / "warning.new"
    unfinished.write_text(json.dumps({**content, "grace": grace, "a later release": "says more"}))
    unfinished.replace(directory / "warning")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setattr(ear, "LOOK_EVERY_S", 0)
    run = Run(NEVER, env=job_env(tmp_path))
    yield run
    run.close()


def test_outside_of_a_scheduler_nothing_happens(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    run = Run(NEVER, env={})
    assert signal.getsignal(signal.SIGTERM) is before
    assert (run.warned(), run.warning(), run.time_left()) == (False, None, None)
    assert (run.should_checkpoint(), run.should_stop()) == (False, False)
    assert (run.checkpoint_dir(), run.resume_path()) == (None, None)
    assert run.save(lambda path: pytest.fail("there is nowhere to write"), 3) is None
    run.saved()
    run.done()
    assert list(tmp_path.iterdir()) == []


def test_outside_of_a_scheduler_a_directory_may_be_given(tmp_path: Path) -> None:
    run = Run(NEVER, directory=tmp_path / "mine", env={})
    saved = run.save(lambda path: path.write_text("x"), 3)
    assert saved is not None and saved.parent == tmp_path / "mine" and run.resume_path() == saved


def test_the_schedulers_directory_wins(tmp_path: Path, run: Run) -> None:
    assert Run(NEVER, directory=tmp_path / "mine", env=job_env(tmp_path)).checkpoint_dir() == tmp_path / "checkpoints"


def test_importing_it_imports_nothing_else_of_tenure() -> None:
    listed = "import sys, tenure.training; print(*sorted(n for n in sys.modules if n.startswith('tenure')))"
    here = {"PYTHONPATH": str(SOURCE)}
    found = subprocess.run([sys.executable, "-S", "-c", listed], env=here, capture_output=True, check=True, text=True)
    parts = [f"tenure.training.{name}" for name in ("ear", "run", "saving")]
    assert found.stdout.split() == ["tenure", "tenure.training", *parts]


def test_the_signal_warns_and_one_checkpoint_is_asked_for(tmp_path: Path, run: Run) -> None:
    assert (run.should_checkpoint(), run.should_stop()) == (False, False)
    os.kill(os.getpid(), signal.SIGTERM)
    assert run.warned() and not run.should_stop(), "it was not asked to save yet"
    assert (run.warning(), run.time_left()) == (KillWarning(), None), "there is no file"
    assert (run.should_checkpoint(), run.should_stop()) == (True, True)
    assert (run.should_checkpoint(), run.should_stop()) == (False, True)
    with pytest.raises(SystemExit) as left:
        run.leave()
    assert left.value.code == EXIT_WARNED


def test_the_file_warns_and_says_why_and_until_when(tmp_path: Path, run: Run) -> None:
    tell(tmp_path, grace=3_600_000)
    warning = run.warning()
    assert warning is not None and (warning.reason, warning.why) == ("evicted_standing", "Evicted for job 9.")
    assert warning.grace == 3_600_000 and warning.kill_at is not None
    left = run.time_left()
    assert left is not None and 0 < left <= 3600
    tell(tmp_path, grace=0, why="At once.")
    again = run.warning()
    assert again is not None and again.why == "At once." and run.time_left() == 0.0
    assert run.should_checkpoint() and run.should_stop()


def test_a_file_that_makes_no_sense_is_no_warning(tmp_path: Path, run: Run) -> None:
    for text in ("", "[]", "{", '{"reason": "x"}', '"kill_at"'):
        (tmp_path / "warning").write_text(text)
        assert (run.warned(), run.warning(), run.time_left()) == (False, None, None), text


def test_a_checkpoint_is_due_when_its_time_has_come(tmp_path: Path) -> None:
    run = Run(1e-9, env={})
    assert (run.should_checkpoint(), run.should_stop()) == (True, False)
    assert run.should_checkpoint()
    with pytest.raises(ValueError, match="every_s=0"):
        Run(0, env={})


def test_what_is_done_and_saved_is_reported(tmp_path: Path, run: Run) -> None:
    run.saved()
    assert (tmp_path / "checkpoint").exists() and not (tmp_path / "done").exists()
    run.done()
    assert (tmp_path / "done").exists()


def test_all_processes_agree_on_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them, of which only one is warned: each step both get the larger number."""
    turn, numbers = threading.Barrier(2), [0, 0]

    def agree_as(rank: int):  # type: ignore[no-untyped-def]
        def agree(mine: int) -> int:
            numbers[rank] = mine
            turn.wait(PATIENCE_S)
            most = max(numbers)
            turn.wait(PATIENCE_S)
            return most

        return agree

    (tmp_path / "other").mkdir()
    monkeypatch.setattr(ear, "LOOK_EVERY_S", 0)
    runs = [Run(NEVER, env=job_env(tmp_path / name), agree=agree_as(n)) for n, name in enumerate(("", "other"))]
    answers: list[list[tuple[bool, bool]]] = [[], []]

    def work(rank: int) -> None:
        for step in range(6):
            if (rank, step) == (0, 3):
                tell(tmp_path)
            answers[rank].append((runs[rank].should_checkpoint(), runs[rank].should_stop()))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    for one in reversed(runs):
        one.close()
    assert answers[0] == answers[1] == [(False, False)] * 3 + [(True, True)] + [(False, True)] * 2


CHAINED = """
import os, signal, sys
from tenure import training
heard = []
signal.signal(signal.SIGUSR1, lambda number, frame: heard.append("first"))
training.start()
mine = signal.getsignal(signal.SIGUSR1)
def later(number, frame):
    heard.append("later")
    mine(number, frame)
signal.signal(signal.SIGUSR1, later)
os.kill(os.getpid(), signal.SIGUSR1)
print(*heard, training.warned(), training.should_checkpoint())
training.current().close()
print(signal.getsignal(signal.SIGUSR1) is later)
"""


def test_handlers_before_and_after_it_are_called(tmp_path: Path) -> None:
    out, err = program(CHAINED, job_env(tmp_path, TENURE_WARN_SIGNAL="SIGUSR1")).communicate(timeout=PATIENCE_S)
    assert (out, err) == ("later first True True\nTrue\n", "")


CTRL_C = """
import os, signal
from tenure import training
training.start()
os.kill(os.getpid(), signal.SIGINT)
print(training.warned())
training.current().close()
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("as before")
"""


def test_a_warning_by_sigint_does_not_interrupt_the_step(tmp_path: Path) -> None:
    out, err = program(CTRL_C, job_env(tmp_path, TENURE_WARN_SIGNAL="SIGINT")).communicate(timeout=PATIENCE_S)
    assert (out, err) == ("True\nas before\n", "")


FORKED = """
import os, signal, sys
from tenure import training
training.start()
here, there = os.pipe()
child = os.fork()
if child == 0:
    os.write(there, b"up")
    while True: signal.pause()
os.read(here, 2)
os.kill(child, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), training.warned())
"""


def test_a_forked_child_ends_by_the_signal_as_before(tmp_path: Path) -> None:
    """A pool's workers are ended by SIGTERM: heard there, whoever waits for them would wait for ever."""
    out, err = program(FORKED, job_env(tmp_path)).communicate(timeout=PATIENCE_S)
    assert (out, err) == ("-15 False\n", "")


THREAD = """
import threading, sys
from tenure import training
def work():
    training.start()
    print("listens", flush=True)
    while not training.should_checkpoint():
        pass
    print(training.warning().why, flush=True)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def test_another_thread_than_the_main_one_hears_by_the_file(tmp_path: Path) -> None:
    started = program(THREAD, job_env(tmp_path))
    assert started.stdout is not None and started.stdout.readline() == "listens\n"
    tell(tmp_path)
    out, err = started.communicate(timeout=PATIENCE_S)
    assert (out, err) == ("Evicted for job 9.\n", "")


def test_a_signal_may_be_named_where_no_scheduler_does(tmp_path: Path) -> None:
    run = Run(NEVER, env={}, warn_signal="SIGUSR2")
    os.kill(os.getpid(), signal.SIGUSR2)
    assert run.should_checkpoint() and run.should_stop()
    run.close()
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL
    with pytest.raises(ValueError, match="warn_signal='USR2' is not a signal"):
        Run(NEVER, env={}, warn_signal="USR2")
