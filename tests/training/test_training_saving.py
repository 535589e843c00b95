"""Checkpoints: whole or not at all, the last few, and found again."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest
from training_kit import job_env, program

from support.line import PATIENCE_S
from tenure.training import Run
from tenure.training.saving import Series


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(float("inf"), directory=tmp_path, env={})


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_the_last_are_kept_and_the_newest_is_found(tmp_path: Path, run: Run) -> None:
    assert run.resume_path("model.pt") is None
    for step in (9, 10, 200):
        run.save(lambda path, step=step: path.write_text(str(step)), step, name="model.pt", keep=2)  # type: ignore[misc]
    assert names(tmp_path) == ["model-000000000010.pt", "model-000000000200.pt"]
    newest = run.resume_path("model.pt")
    assert newest is not None and newest.read_text() == "200"
    assert run.resume_path() is None and run.resume_path("model") is None, "names do not get in each other's way"


def test_a_checkpoint_may_be_a_folder_and_be_written_again(tmp_path: Path, run: Run) -> None:
    def write(path: Path) -> None:
        path.mkdir()
        (path / "weights").write_text("some")
        (path / "more").mkdir()

    for _ in range(2):
        saved = run.save(write, 5, keep=1)
    assert saved == run.resume_path() and names(tmp_path) == ["checkpoint-000000000005"]
    assert (tmp_path / "checkpoint-000000000005" / "weights").read_text() == "some"


def test_a_run_that_begins_again_in_an_old_directory_goes_on_with_its_own(tmp_path: Path, run: Run) -> None:
    for step in (100, 200, 3):
        run.save(lambda path, step=step: path.write_text(str(step)), step)  # type: ignore[misc]
    newest = run.resume_path()
    assert newest is not None and newest.read_text() == "3"


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, run: Run) -> None:
    run.save(lambda path: path.write_text("good"), 1, keep=1)

    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        run.save(fail, 2, keep=1)
    newest = run.resume_path()
    assert newest is not None and newest.read_text() == "good"
    run.save(lambda path: path.write_text("better"), 2, keep=1)
    assert names(tmp_path) == ["checkpoint-000000000002"], "what was left unfinished is gone"


KILLED = """
import signal, os
from tenure import training
def write(path):
    path.write_text("half")
    print("writing", flush=True)
    signal.pause()
training.save(lambda path: path.write_text("whole"), 1)
training.save(write, 2)
"""


def test_a_kill_in_the_middle_leaves_the_one_before(tmp_path: Path) -> None:
    started = program(KILLED, job_env(tmp_path))
    assert started.stdout is not None and started.stdout.readline() == "writing\n"
    reported = (tmp_path / "checkpoint").stat().st_mtime_ns
    started.send_signal(signal.SIGKILL)
    started.communicate(timeout=PATIENCE_S)
    run = Run(float("inf"), env=job_env(tmp_path), warn_signal="SIGUSR2")
    newest = run.resume_path()
    assert newest is not None and newest.read_text() == "whole"
    assert (tmp_path / "checkpoint").stat().st_mtime_ns == reported, "half a checkpoint is not reported"
    run.save(lambda path: path.write_text("whole"), 2)
    assert names(tmp_path / "checkpoints") == ["checkpoint-000000000001", "checkpoint-000000000002"]
    run.close()


def test_threads_save_one_after_the_other(tmp_path: Path, run: Run) -> None:
    def save(step: int) -> None:
        run.save(lambda path: path.write_text(str(step) * 1000), step, name=f"part{step % 2}", keep=1)

    threads = [threading.Thread(target=save, args=(step,)) for step in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    for part in (0, 1):
        newest = run.resume_path(f"part{part}")
        assert newest is not None and newest.read_text() == str(int(newest.name[-12:])) * 1000
    assert len(names(tmp_path)) == 2


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "/etc"])
def test_bad_names_are_refused_in_words(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no plain file name; use one such as"):
        Series(tmp_path, name)


def test_bad_numbers_are_refused_in_words(run: Run) -> None:
    with pytest.raises(ValueError, match="keep=0 would leave no checkpoint"):
        run.save(lambda path: None, 1, keep=0)
    with pytest.raises(ValueError, match="step=-1 is not between"):
        run.save(lambda path: None, -1)
