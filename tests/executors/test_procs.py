"""Looking at processes, and small files that are replaced whole."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.executors import files, procs


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


def test_a_name_with_parentheses_does_not_confuse(tmp_path: Path) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([str(program), "1000"]) as process:
        found = procs.stat(process.pid)
        process.kill()
    assert found is not None
    assert found.ppid == os.getpid()
    assert found.started > 0


def test_only_the_very_process_is_killed(sleeper: subprocess.Popen[bytes]) -> None:
    found = procs.stat(sleeper.pid)
    assert found is not None
    procs.kill(found._replace(started=found.started - 1))
    assert procs.is_running(sleeper.pid, found.started)
    procs.kill(found)
    assert sleeper.wait(60) == -9
    procs.kill(found)
    assert procs.stat(sleeper.pid) is None


def test_the_tag_stays_when_the_environment_is_wiped_and_when_the_limit_is_lifted() -> None:
    tag = procs.new_tag()
    wear = f"from tenure.executors import procs; procs.wear_tag({tag!r})"
    program = f"{wear}; import os; os.execvpe('env', ['env', '-i', 'sleep', '1000'], dict(os.environ))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    by_limit = subprocess.Popen([sys.executable, "-c", program], env=env)
    by_variable = subprocess.Popen(["sleep", "1000"], env={**os.environ, **procs.tag_environment(tag)})
    try:
        while len(found := procs.tagged(tag)) < 2:
            assert by_limit.poll() is None
        assert {process.pid for process in found} == {by_limit.pid, by_variable.pid}
        assert procs.tagged(procs.new_tag()) == []
    finally:
        for process in (by_limit, by_variable):
            process.kill()
            process.wait()


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    held = procs.try_lock(tmp_path / "lock")
    assert held is not None
    assert procs.try_lock(tmp_path / "lock") is None
    os.close(held)
    again = procs.try_lock(tmp_path / "lock")
    assert again is not None
    os.close(again)


def test_json_files_are_private_and_leave_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert procs.read_json(path) is None
    procs.write_json(path, {"a": 1})
    procs.write_json(path, {"a": 2}, durable=False)
    assert procs.read_json(path) == {"a": 2}
    assert path.stat().st_mode & 0o077 == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


def test_a_status_that_a_power_cut_left_empty_counts_as_begun(tmp_path: Path) -> None:
    attempt = files.AttemptFiles(tmp_path)
    attempt.status.touch()
    status = attempt.read_status()
    assert status is not None
    assert (status.phase, status.supervisor) == (files.STARTING, 0)


def test_ages_survive_a_reboot(tmp_path: Path) -> None:
    attempt = files.AttemptFiles(tmp_path)
    attempt.write_status(files.EXITED, exit_codes=(0,))
    status = attempt.read_status()
    assert status is not None
    assert 0 <= status.age_ms(procs.boot_id()) < procs.boottime_ms()
    assert status.age_ms("another boot") >= status.age_ms(procs.boot_id())
