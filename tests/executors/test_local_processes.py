"""What becomes of the processes of a job: children, daemons, supervisors that are killed."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_contract import deaf, heeds, kill_all
from executor_kit import HOUR_MS, Line, Watched, launch_of, order, py, sh

from tenure.executors import local, procs
from tenure.executors.base import Phase
from tenure.executors.files import AttemptFiles
from tenure.executors.local import LocalExecutor

DAEMON = """
import os, signal
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.closerange(0, 1000)
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(number, signal.SIG_IGN)
with open(%r, "w") as line: line.write(f"{os.getpid()}\\n")
while True: signal.pause()
"""
"""Detaches as thoroughly as a program can, ignores every signal, and says its pid."""


def daemon(line: Line) -> str:
    return f"/usr/bin/env -i {' '.join(quoted(py(DAEMON % str(line))))}"


def quoted(words: tuple[str, ...]) -> list[str]:
    return ["'" + word.replace("'", "'\\''") + "'" for word in words]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(LocalExecutor(tmp_path / "runs"))
    yield watched
    kill_all(watched)


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    line = Line(tmp_path / "line")
    yield line
    line.close()


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptFiles:
    return AttemptFiles(tmp_path / "runs" / "1" / "1")


def supervisor_of(attempt: AttemptFiles) -> int:
    status = attempt.read_status()
    assert status is not None
    return status.supervisor


def is_alive(pid: int) -> bool:
    found = procs.stat(pid)
    return found is not None and not found.dead


def kill_and_wait(pid: int) -> None:
    handle = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOWAIT)
    os.close(handle)


# What a job spawns


def test_a_daemon_does_not_survive_a_normal_end(watched: Watched, line: Line, tmp_path: Path) -> None:
    back = Line(tmp_path / "back")
    watched.executor.start(launch_of(sh(f"{daemon(line)}; read word < {back}; exit 0")))
    pid = int(line.hear())
    back.say("go")
    report = watched.ended()
    assert (report.phase, report.exit_codes) == (Phase.EXITED, (0,))
    assert not is_alive(pid)
    back.close()


def test_a_daemon_does_not_survive_a_kill(watched: Watched, line: Line) -> None:
    watched.executor.start(launch_of(sh(f"{daemon(line)}; sleep 1000")))
    pid = int(line.hear())
    assert is_alive(pid)
    watched.executor.stop(order(grace=0))
    assert watched.ended().exit_codes == (-9,)
    assert not is_alive(pid)


def test_the_warning_goes_to_the_first_process_only(watched: Watched, line: Line, tmp_path: Path) -> None:
    loader = f"trap 'echo warned >> {tmp_path}/loader' TERM; echo ready > {line}; while :; do sleep 0.01; done"
    saves = f"trap 'echo saving > {line}; kill -0 $loader && kill -9 $loader; exit 143' TERM"
    leader = f'{saves}; sh -c "{loader}" & loader=$!; echo ready > {line}; while :; do wait; done'
    watched.executor.start(launch_of(sh(leader)))
    assert [line.hear(), line.hear()] == ["ready", "ready"]
    watched.executor.stop(order())
    assert line.hear() == "saving"
    assert watched.ended().exit_codes == (143,)
    assert not (tmp_path / "loader").exists()


def test_children_of_a_leader_that_heeded_have_the_rest_of_the_grace(
    watched: Watched, line: Line, tmp_path: Path
) -> None:
    upload = f"echo ready > {line}; read word < {tmp_path}/go; echo uploaded > {tmp_path}/result"
    os.mkfifo(tmp_path / "go")
    watched.executor.start(launch_of(sh(f"trap 'echo heard > {line}; exit 143' TERM; ({upload}) & wait")))
    assert line.hear() == "ready"
    watched.executor.stop(order(grace=HOUR_MS))
    assert line.hear() == "heard"
    with (tmp_path / "go").open("w") as go:
        go.write("go\n")
    assert watched.ended().exit_codes == (143,)
    assert (tmp_path / "result").read_text() == "uploaded\n"


def test_a_longer_grace_promises_no_more_than_a_gang_that_failed_has_left(
    watched: Watched, line: Line, attempt: AttemptFiles
) -> None:
    last = "[ $n -lt 2 ] || exit 0"
    stays = (
        f"trap 'n=$((n+1)); echo heard > {line}; {last}' TERM; n=0; echo ready > {line}; while :; do sleep 0.01; done"
    )
    watched.executor.start(
        launch_of(sh(stays), sh(f"while ! [ -e {attempt.directory}/go ]; do sleep 0.01; done; exit 3"))
    )
    assert line.hear() == "ready"
    (attempt.directory / "go").touch()
    assert line.hear() == "heard"
    told = json.loads(attempt.warning.read_text())
    watched.executor.stop(order(grace=HOUR_MS, why="drained: its host is to be repaired"))
    assert line.hear() == "heard"
    assert json.loads(attempt.warning.read_text()) == told, "it is still killed with the gang"
    assert told["grace"] == 5_000
    watched.ended()
    assert "kill in 3600 s" not in watched.log(0, "stderr")


def test_a_job_hears_nothing_of_what_is_sent_to_the_servers_terminal(watched: Watched, line: Line) -> None:
    watched.executor.start(launch_of(sh(f"echo $$ $PPID > {line}; sleep 1000")))
    leader, supervisor = (int(word) for word in line.hear().split())
    sessions = {os.getsid(pid) for pid in (leader, supervisor, os.getpid())}
    assert len(sessions) == 3
    assert os.getpgid(supervisor) == supervisor


# Supervisors that are killed


def test_when_the_supervisor_is_killed_nothing_survives(watched: Watched, line: Line, attempt: AttemptFiles) -> None:
    watched.executor.start(launch_of(deaf(line), sh(f"echo $$ > {line}; {daemon(line)}; sleep 1000")))
    watched.running()
    pids = [int(word) for word in (line.hear(), line.hear(), line.hear()) if word != "ready"]
    assert len(pids) == 2
    os.kill(supervisor_of(attempt), signal.SIGKILL)
    report = watched.ended()
    assert (report.phase, report.exit_codes) == (Phase.LOST, ())
    assert "supervisor was killed" in report.message
    assert not any(is_alive(pid) for pid in pids)
    watched.executor.start(launch_of(sh("exit 0")))
    assert watched.ended().phase is Phase.LOST


def test_a_supervisor_killed_while_no_server_runs(tmp_path: Path, line: Line, attempt: AttemptFiles) -> None:
    before = Watched(LocalExecutor(tmp_path / "runs"), epoch=1)
    before.executor.start(launch_of(sh(f"{daemon(line)}; sleep 1000")))
    before.running()
    pid = int(line.hear())
    before.executor.close()
    kill_and_wait(supervisor_of(attempt))
    assert is_alive(pid)
    after = Watched(LocalExecutor(tmp_path / "runs"), epoch=2)
    assert after.ended().phase is Phase.LOST
    assert not is_alive(pid)
    after.executor.close()


def test_a_supervisor_killed_before_it_began(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = os.spawnv(os.P_NOWAIT, "/bin/sh", sh("kill -9 $$"))
    monkeypatch.setattr(local, "_spawn_supervisor", lambda attempt: killed)
    watched.executor.start(launch_of(sh("exit 0")))
    assert watched.ended().phase is Phase.LOST


def test_a_supervisor_that_cannot_be_started_is_told(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    watched.executor.start(launch_of(sh("exit 0")))
    report = watched.ended()
    assert report.phase is Phase.NOT_STARTED
    assert "cannot start its supervisor" in report.message


def test_the_last_words_of_a_supervisor_are_passed_on(watched: Watched, attempt: AttemptFiles) -> None:
    attempt.directory.mkdir(parents=True)
    attempt.launch.write_text(json.dumps({"boot": procs.boot_id(), "tag": procs.new_tag()}))
    watched.executor.start(launch_of(sh("exit 0")))
    report = watched.ended()
    assert report.phase is Phase.LOST
    assert "KeyError" in report.message


def test_after_a_restart_of_the_machine_it_is_lost(tmp_path: Path, line: Line, attempt: AttemptFiles) -> None:
    before = Watched(LocalExecutor(tmp_path / "runs"), epoch=1)
    before.executor.start(launch_of(heeds(line)))
    before.running()
    before.executor.close()
    kill_and_wait(supervisor_of(attempt))
    for path in (attempt.launch, attempt.status):
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "boot": "another"}))
    after = Watched(LocalExecutor(tmp_path / "runs"), epoch=2)
    report = after.ended()
    assert report.phase is Phase.LOST
    assert report.message == "the machine was restarted"
    after.executor.close()


def test_a_second_supervisor_does_nothing(watched: Watched, line: Line, attempt: AttemptFiles) -> None:
    watched.executor.start(launch_of(heeds(line, code=3)))
    assert line.hear() == "ready"
    second = local._spawn_supervisor(attempt)
    assert os.waitpid(second, 0)[1] == 0
    watched.executor.stop(order())
    assert watched.ended().exit_codes == (3,)
    third = local._spawn_supervisor(attempt)
    assert os.waitpid(third, 0)[1] == 0
    assert watched.ended().exit_codes == (3,)


# Places and names


def test_a_directory_too_deep_for_a_socket_address(tmp_path: Path) -> None:
    root = tmp_path / ("deep" * 30) / ("deeper" * 20)
    watched = Watched(LocalExecutor(root))
    watched.executor.start(launch_of(sh("exit 0")))
    assert watched.ended().exit_codes == (0,)
    kill_all(watched)


def test_log_files_that_cannot_be_opened_are_told(watched: Watched, attempt: AttemptFiles) -> None:
    attempt.log(0, "stdout").mkdir(parents=True)
    watched.executor.start(launch_of(sh("exit 0")))
    report = watched.ended()
    assert report.phase is Phase.NOT_STARTED
    assert "log files" in report.message


def test_attempts_at_the_same_time_get_different_ports(watched: Watched, line: Line) -> None:
    for number in range(1, 6):
        say = sh(f"echo $MASTER_PORT > {line}; sleep 1000")
        watched.executor.start(launch_of(say, attempt_id=f"{number}.1"))
    assert len({line.hear() for _ in range(5)}) == 5


def test_an_attempt_id_must_be_one(watched: Watched) -> None:
    with pytest.raises(ValueError, match="not an attempt id"):
        watched.executor.log_path("../1", 0, "stdout")


def test_what_jobs_write_is_closed_to_others(watched: Watched, attempt: AttemptFiles) -> None:
    assert attempt.root.stat().st_mode & 0o007 == 0


def test_secrets_go_when_the_attempt_is_forgotten(watched: Watched, attempt: AttemptFiles) -> None:
    watched.executor.start(launch_of(sh("exit 0"), env={"API_KEY": "hunter2"}))
    watched.ended()
    assert "hunter2" in attempt.launch.read_text()
    assert attempt.launch.stat().st_mode & 0o077 == 0
    watched.executor.forget("1.1")
    assert not attempt.launch.exists()


def test_a_closed_executor_starts_nothing(tmp_path: Path) -> None:
    watched = Watched(LocalExecutor(tmp_path / "runs"))
    watched.executor.close()
    with pytest.raises(RuntimeError, match="not open"):
        watched.executor.start(launch_of(sh("exit 0")))


def test_this_machine_is_discovered(watched: Watched) -> None:
    (host,) = watched.executor.discover()
    assert host.cpus >= 1000
    assert host.mem > 0
    assert len(host.gpu_names) == host.gpus
