"""Full disks, no descriptors left, clocks that are set: nothing runs that counts as ended, and no end is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_contract import kill_all
from executor_kit import Line, Watched, launch_of, py, sh

from tenure.executors import files, local, lost, procs, supervisor
from tenure.executors.base import Phase
from tenure.executors.local import LocalExecutor

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
NO_DESCRIPTORS = OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(LocalExecutor(tmp_path / "runs"))
    yield watched
    kill_all(watched)


@pytest.mark.parametrize("broken", ["write_json", "sync_directory"])
def test_a_start_on_a_full_disk_leaves_nothing_to_start_later(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def fail(*_args: object, **_more: object) -> None:
        raise FULL

    launch = launch_of(sh(f"echo ran > {tmp_path}/ran"))
    with monkeypatch.context() as patch:
        patch.setattr(procs, broken, fail)
        with pytest.raises(OSError, match="No space left"):
            watched.executor.start(launch)
    assert watched.executor.poll() == []
    watched.executor.close()
    again = Watched(LocalExecutor(tmp_path / "runs"), epoch=2)
    assert again.executor.poll() == []
    again.executor.start(launch_of(sh("exit 4"), attempt_id="2.1"))
    assert again.ended("2.1").exit_codes == (4,)
    assert not (tmp_path / "ran").exists()
    kill_all(again)


def test_a_start_that_cannot_be_watched_never_runs(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_pid: int) -> int:
        raise NO_DESCRIPTORS

    with monkeypatch.context() as patch:
        patch.setattr(local.os, "pidfd_open", fail)
        watched.executor.start(launch_of(sh(f"echo ran > {tmp_path}/ran")))
    report = watched.ended()
    assert report.phase is Phase.NOT_STARTED
    assert "cannot watch" in report.message
    assert not (tmp_path / "ran").exists()


def test_one_that_began_before_it_could_be_watched_is_ended_as_lost(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Line(tmp_path / "line")

    def fail(_pid: int) -> int:
        assert line.hear() == "began"
        monkeypatch.undo()
        raise NO_DESCRIPTORS

    monkeypatch.setattr(local.os, "pidfd_open", fail)
    watched.executor.start(launch_of(sh(f"echo began > {line}; sleep 1000")))
    assert watched.ended().phase is Phase.LOST
    line.close()


def test_an_end_that_a_full_disk_does_not_take_is_written_down_later(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "BURY_AGAIN_S", 0.01)
    tries = []
    bury = lost.bury

    def first_full(*args: object) -> int | None:
        tries.append(args)
        if len(tries) < 3:
            raise FULL
        return bury(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(lost, "bury", first_full)
    watched.executor.start(launch_of(sh("kill -9 $PPID; sleep 1000")))
    assert watched.ended().phase is Phase.LOST
    assert len(tries) == 3


def test_a_supervisor_keeps_the_exit_code_until_the_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "WRITE_AGAIN_S", 0)
    attempt = files.AttemptFiles(tmp_path / "1" / "1")
    attempt.directory.mkdir(parents=True)
    write, left = procs.write_json, [FULL, OSError(errno.EDQUOT, "quota")]

    def sometimes(*args: object, **more: object) -> None:
        if left:
            raise left.pop()
        write(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(procs, "write_json", sometimes)
    supervisor.Supervisor(attempt, {})._end(files.EXITED, "over")
    status = attempt.read_status()
    assert status is not None and status.final and not left


def test_steps_of_the_wall_clock_do_not_make_a_checkpoint_young(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Line(tmp_path / "line")
    watched.executor.start(launch_of(sh(f"touch $TENURE_CHECKPOINT; echo done > {line}; sleep 1000")))
    assert line.hear() == "done"
    age, wall, hour = watched.running().checkpoint_age_ms, procs.wall_ms, 3_600_000
    assert age is not None and age < hour
    for step in (-hour, hour):
        monkeypatch.setattr(procs, "wall_ms", lambda step=step: wall() + step)
        later = watched.running().checkpoint_age_ms
        assert later is not None and age <= later < hour
    line.close()


def test_what_was_recorded_before_a_reboot_and_started_after_it_is_ended_whole(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its launch names the old boot; what its supervisor started in this one still has to go."""
    line = Line(tmp_path / "line")
    with monkeypatch.context() as patch:
        patch.setattr(procs, "boot_id", lambda: "before")
        detached = (
            f"import os, time; os.setsid(); open({str(line)!r}, 'w').write(f'{{os.getpid()}}\\n'); time.sleep(1000)"
        )
        watched.executor.start(launch_of(sh(f"{' '.join(map(repr, py(detached)))} & wait")))
    survivor = os.pidfd_open(int(line.hear()))
    status = files.AttemptFiles(tmp_path / "runs" / "1" / "1").read_status()
    assert status is not None
    os.kill(status.supervisor, 9)
    assert watched.ended().phase is Phase.LOST
    assert not procs.is_running(*_named(survivor)), "a process of a lost attempt goes on"
    os.close(survivor)
    line.close()


def _named(pidfd: int) -> tuple[int, int]:
    pid = next(
        int(line.split()[1]) for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines() if "Pid:" in line
    )
    found = procs.stat(pid) if pid > 0 else None
    return (pid, found.started) if found is not None else (0, 0)


def test_the_highest_job_is_known_without_its_bookkeeping(watched: Watched, tmp_path: Path) -> None:
    assert watched.executor.highest_job() == 0  # type: ignore[attr-defined]
    for job in (3, 12):
        watched.executor.start(launch_of(sh("true"), attempt_id=f"{job}.1"))
        watched.ended(f"{job}.1")
        watched.executor.forget(f"{job}.1")
    assert LocalExecutor(tmp_path / "runs").highest_job() == 12
