"""The command line against a real server with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.ports import free_ports
from support.server import TestServer
from tenure.cli.follow import Session
from tenure.client import Client

BUDGET = ("--budget", "lab/language")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    running = TestServer(tmp_path_factory.mktemp("cli"))
    running.start()
    yield running
    running.end()


@pytest.fixture(autouse=True)
def nothing_left(server: TestServer) -> Iterator[None]:
    """Each test leaves an idle cluster behind."""
    yield
    server.clear()


def submit(server: TestServer, *arguments: str) -> int:
    return int(server.cli("submit", "-q", *BUDGET, *arguments).stdout)


def as_json(server: TestServer, *arguments: str) -> Any:
    return json.loads(server.cli(*arguments, "--json").stdout)


def test_submit_says_what_was_decided_and_the_job_runs_where_it_was_submitted(server: TestServer) -> None:
    here = server.directory / "here"
    here.mkdir()
    done = server.cli("submit", *BUDGET, "--env", "GREETING=hello", "--", "sh", "-c", "echo $GREETING; pwd", cwd=here)
    assert "submitted to lab/language: sh, 1 GPU" in done.stdout
    assert "min_runtime = 5m (default): nobody evicts it" in done.stdout
    assert "resumable = no (default): when it is evicted, it ends" in done.stdout
    number = done.stdout.split()[1]
    assert "succeeded: Finished successfully." in server.cli("wait", number).stdout
    assert server.cli("logs", number).stdout == f"hello\n{here}\n"
    shown = server.cli("show", number).stdout
    assert "succeeded" in shown and "sh -c 'echo $GREETING; pwd'" in shown and "GREETING" in shown


def test_ls_show_and_their_json(server: TestServer) -> None:
    number = submit(server, "--gpus", "4", "--name", "long", "--min-runtime", "1h", "sleep", "300")
    server.wait_state(number, "running")
    listed = server.cli("ls", "--me", "--state", "running", "-b", "lab").stdout
    assert "long" in listed and "protected 59m" in listed
    assert "no jobs" in server.cli("ls", "--user", "nobody").stderr
    found = as_json(server, "ls")
    assert [job["id"] for job in found] == [number] and found[0]["attempt"]["protection"] == "protected"
    assert found[0]["attempt"]["charge_rate"] == 4
    shown = server.cli("show", str(number)).stdout
    assert "GPUs 0-3" in shown and "charged as 4 GPUs" in shown and "protected 59m" in shown
    assert as_json(server, "show", str(number))["id"] == number
    assert number in [job["id"] for job in as_json(server, "ls", "--all", "--since", "1h ago", "--limit", "1")]


def test_a_job_file_with_two_roles(server: TestServer) -> None:
    path = server.directory / "job.toml"
    path.write_text(
        'budget = "lab/language"\nmin_runtime = "1h"\n[[roles]]\nname = "a"\nreplicas = 2\n'
        'command = ["sh", "-c", "echo $TENURE_ROLE $TENURE_REPLICA"]\n'
        '[[roles]]\nname = "b"\ncommand = ["sh", "-c", "echo $TENURE_ROLE $TENURE_REPLICA >&2"]\n'
    )
    number = server.cli("submit", "-q", "job.toml").stdout.strip()
    server.cli("wait", number)
    assert [server.cli("logs", number, "-r", str(rank)).stdout for rank in (0, 1, 2)] == ["a 0\n", "a 1\n", ""]
    assert server.cli("logs", number, "-r", "2", "-E").stdout == "b 0\n"
    assert "there is no such replica" in server.cli("logs", number, "-r", "3", code=4).stderr


def test_logs_follow_until_the_end_and_show_the_tail(server: TestServer) -> None:
    gate = server.directory / "gate"
    os.mkfifo(gate)
    number = submit(server, "sh", "-c", f"echo one; read line < {gate}; echo two; echo $line")
    following = server.cli_process("logs", "-f", str(number))
    assert following.stdout is not None and following.stdout.readline() == "one\n"
    gate.write_text("three\n")
    rest, _ = following.communicate(timeout=60)
    assert rest == "two\nthree\n" and following.returncode == 0
    assert server.cli("logs", str(number), "--tail", "2").stdout == "two\nthree\n"
    assert server.cli("logs", str(number), "--tail", "0").stdout == ""


def test_wait_tells_how_jobs_ended(server: TestServer) -> None:
    good, bad, held = (
        submit(server, "true"),
        submit(server, "sh", "-c", "exit 3"),
        submit(server, "--hold", "true"),
    )
    assert server.cli("wait", str(good)).returncode == 0
    failed = server.cli("wait", str(good), str(bad), code=1)
    assert f"job {bad} failed: Failed: exit code 3" in failed.stdout
    server.cli("wait", str(held), "--timeout", "10ms", code=124)
    server.cli("cancel", str(held))
    server.cli("wait", str(held), code=5)
    assert [job["state"] for job in json.loads(server.cli("wait", "--json", str(bad), code=1).stdout)] == ["failed"]


def test_run_streams_both_outputs_and_ends_with_the_jobs_exit_code(server: TestServer) -> None:
    done = server.cli("run", *BUDGET, "-q", "sh", "-c", "echo out; echo err >&2; exit 7", code=7)
    assert done.stdout == "out\n" and done.stderr == "err\n"
    server.cli("run", *BUDGET, "-q", "sh", "-c", "kill -KILL $$", code=137)
    gang = server.cli("run", *BUDGET, "--replicas", "2", "sh", "-c", "echo $TENURE_REPLICA")
    assert sorted(gang.stdout.splitlines()) == ["[0] 0", "[1] 1"]
    assert "succeeded: Finished successfully." in gang.stderr


def test_ctrl_c_cancels_what_run_started(server: TestServer) -> None:
    session = server.cli_process("run", *BUDGET, "sh", "-c", "echo up; sleep 300")
    assert session.stdout is not None and session.stdout.readline() == "up\n"
    os.killpg(session.pid, signal.SIGINT)
    _, said = session.communicate(timeout=60)
    assert session.returncode == 130 and "cancelling job" in said
    assert next(server.client.jobs(all=True, limit=1)).state == "cancelled"


def test_a_second_ctrl_c_leaves_the_job_to_itself(tmp_path: Path) -> None:
    # The job takes its grace until the test lets it go: it is still there when the second one comes.
    server = TestServer(tmp_path)
    text = server.config.read_text().replace('max_grace = "3s"', 'max_grace = "5m"')
    server.config.write_text(text.replace('kill_timeout = "5s"', 'kill_timeout = "5m"'))
    server.start()
    try:
        gone = tmp_path / "gone"
        deaf = f"trap '' TERM; echo up; until [ -e {gone} ]; do sleep 0.1; done"
        session = server.cli_process("run", *BUDGET, "sh", "-c", deaf)
        assert session.stdout is not None and session.stdout.readline() == "up\n"
        number = next(server.client.jobs(limit=1)).id
        os.killpg(session.pid, signal.SIGINT)
        server.wait_state(number, "stopping")
        os.killpg(session.pid, signal.SIGINT)
        _, said = session.communicate(timeout=60)
        assert session.returncode == 130 and "is left to itself" in said
        gone.touch()
        assert server.client.wait(number, timeout_s=60).state == "cancelled"
    finally:
        server.end()


class Hasty(Client):
    """Ctrl-C is pressed while it does something, each time for the first time."""

    def __init__(self, server: TestServer, *during: str) -> None:
        super().__init__(server.url, server.token)
        self._during = list(during)

    def _call(self, model: Any, method: str, path: str, **more: Any) -> Any:
        answer = super()._call(model, method, path, **more)
        if self._during and path.endswith(self._during[0]):
            self._during.pop(0)
            raise KeyboardInterrupt
        return answer


@pytest.mark.parametrize("first", ["/wait", ""], ids=["while it waits", "before it reads any output"])
@pytest.mark.parametrize("second", [False, True])
def test_ctrl_c_counts_whenever_it_comes(
    server: TestServer, capsys: pytest.CaptureFixture[str], first: str, second: bool
) -> None:
    """The second one before it hears that the job is cancelled."""
    done = server.client.submit({"budget": "lab/language", "command": ["sleep", "300"]})
    number = done.job.id
    with Hasty(server, f"/{number}{first}", *(["/cancel"] if second else [])) as client:
        session = Session(client, done, quiet=False)
        assert session.run() == 130
        said = capsys.readouterr().err
        assert f"cancelling job {number}" in said
        assert (f"job {number} is left to itself" in said) == second
        assert server.client.wait(number, timeout_s=60).state == "cancelled"
        for reader in session._readers:
            reader.join(60)


def test_hold_release_priority_and_cancel(server: TestServer) -> None:
    number = str(submit(server, "--hold", "sleep", "300"))
    assert "held" in server.cli("ls").stdout
    assert "has priority -5" in server.cli("priority", number, "-5").stdout
    assert "released" in server.cli("release", number).stdout
    server.wait_state(int(number), "running")
    server.cli("hold", number)
    server.cli("kill", number)
    assert server.client.wait(int(number)).state == "cancelled"
    mixed = server.cli("cancel", number, "999999", code=4)
    assert f"job {number} cancelled\n" in mixed.stdout, "once more does nothing"
    assert "has ended" not in mixed.stderr and "job = 999999: there is no such job" in mixed.stderr
    assert "has ended (cancelled)" in server.cli("hold", number, code=2).stderr


def test_budgets_hosts_status_and_events(server: TestServer) -> None:
    number = submit(server, "--gpus", "2", "--min-runtime", "1h", "sleep", "300")
    server.wait_state(number, "running")
    tree = server.cli("budgets").stdout
    assert "ALLOCATION" in tree and "50%" in tree and "1 (2 GPUs)" in tree
    assert as_json(server, "budgets")[0]["path"] == "lab"
    assert f"{number}x2" in server.cli("hosts").stdout and len(as_json(server, "hosts")) == 2
    assert "2 charged, 0 unallocated, 6 free of 8 GPUs" in server.cli("status").stdout
    assert as_json(server, "status")["jobs"] == {"running": 1}
    events = server.cli("events", "--job", str(number)).stdout
    assert f"job {number} starts on n1. Started on free GPUs" in events
    assert "tenure_jobs" in server.cli("metrics").stdout
    assert "admin (admin)" in server.cli("whoami").stdout


def test_an_eviction_is_explained_to_everybody(server: TestServer) -> None:
    free = submit(server, "--gpus", "4", "--replicas", "2", "-m", "0", "--resumable", "sleep", "300")
    server.wait_state(free, "running")
    paid = submit(server, "--gpus", "4", "--replicas", "2", "sleep", "300")
    server.wait_state(paid, "running")
    assert f"Evicted for job {paid} (8 GPUs)" in server.cli("evictions").stdout
    assert f"Evicted for job {paid}" in server.cli("show", str(free)).stdout
    server.cli("evict", str(paid), "--why", "a test")
    assert "although it was protected" in server.cli("evictions").stdout


def test_drain_and_undrain(server: TestServer) -> None:
    drained = server.cli("drain", "n1", "--why", "fan")
    assert "main/n1 is draining" in drained.stdout and "fan" in server.cli("hosts").stdout
    number = submit(server, "--gpus", "4", "sleep", "300")
    server.wait_state(number, "running")
    assert server.client.job(number).attempt.hosts == ["n2"]  # type: ignore[union-attr]  # it runs
    assert server.cli("undrain", "n[1-2]").stdout.count("is healthy") == 2
    assert "did you mean n2?" in server.cli("drain", "n22", code=4).stderr


def test_pause_and_resume(server: TestServer) -> None:
    assert "all starts are paused" in server.cli("pause").stdout
    number = submit(server, "true")
    assert "all starts are paused by admin" in server.cli("status").stdout
    assert "Waiting: all starts are paused by admin." in server.cli("ls").stdout
    server.cli("resume")
    server.cli("wait", str(number))


def test_apply_shows_what_changes_and_asks(server: TestServer) -> None:
    budgets = server.directory / "budgets.toml"
    before = budgets.read_text()
    assert "nothing changes" in server.cli("apply").stdout
    budgets.write_text(before.replace("share = 0.5", "share = 0.4"))
    dry = server.cli("apply", "--dry-run").stdout
    assert "lab/language" in dry and "applied" not in dry
    assert "say --yes" in server.cli("apply", code=2).stderr
    assert server.cli("apply", "--yes").stdout.endswith("applied\n")
    assert "share = 0.4" in server.cli("config").stdout
    budgets.write_text(before.replace("0.5", "1.5"))
    assert "error: budgets.toml: lab.language.share" in server.cli("apply", code=2).stderr
    budgets.write_text(before)
    server.cli("apply", "-y")


def test_users_and_what_they_may_not(server: TestServer) -> None:
    token = server.cli("users", "add", "ann").stdout.strip()
    assert "ann (user)" in server.cli("whoami", token=token).stdout
    number = submit(server, "--hold", "true")
    refused = server.cli("cancel", str(number), token=token, code=4)
    assert refused.stderr.startswith("error: job") and "belongs to admin" in refused.stderr
    assert "only administrators" in server.cli("pause", token=token, code=4).stderr
    second = server.cli("tokens", "add", "--label", "laptop", "--expires", "90d", token=token).stdout.strip()
    assert "laptop" in server.cli("tokens", "ls", token=second).stdout
    server.cli("users", "change", "ann", "--disable")
    assert "unknown, expired or of a disabled user" in server.cli("ls", token=token, code=4).stderr
    assert "user changed" in server.cli("audit").stdout


def test_what_people_write_is_shown_as_they_wrote_it(server: TestServer) -> None:
    """Square brackets are markup for rich: swallowed, or an error."""
    server.cli("tokens", "add", "--label", "[red]lap[/top]")
    assert "[red]lap[/top]" in server.cli("tokens", "ls").stdout
    server.cli("drain", "n2", "--why", "too [hot] in [/here]")
    assert "too [hot] in [/here]" in server.cli("audit").stdout
    assert "too [hot] in [/here]" in server.cli("hosts").stdout
    server.cli("undrain", "n2")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("submit", "-b", "lab/langage", "true"), 2, "budget = lab/langage: there is no such budget; did you mean lab"),
        (("submit", "-b", "lab/language", "-g", "0.5", "true"), 2, "gpus = 0.5: write a whole number"),
        (("submit", "-b", "lab/language", "--time", "60", "true"), 2, "timeout = 60: say the unit: 60s, 60m or 60h"),
        (("submit", "-b", "lab/language", "--mem", "64", "true"), 2, "memory = 64: say the unit"),
        (("submit", "-b", "lab/none", "true"), 2, "budget = lab/none: it has no share"),
        (("submit", "-b", "lab/language"), 2, "command = (missing)"),
        (("submit", "true"), 2, "budget = (missing): add it"),
        (("show", "abc"), 2, "job = abc: write a job's number"),
        (("show", "0"), 2, "job = 0"),
        (("ls", "--state", "sleeping"), 2, "write one of queued"),
        (("ls", "--since", "yesterday"), 2, "since = yesterday"),
        (("wait", "1", "--timeout", "5"), 2, "timeout = 5: say the unit"),
        (("priority", "1", "high"), 2, "priority = high"),
        (("logs", "999999"), 4, "there is no such job"),
        (("budgets", "--cluster", "mian"), 4, "did you mean main?"),
        (("nonsense",), 2, "No such command"),
        (("--url", "http://127.0.0.1:9", "status"), 3, "there is no token for http://127.0.0.1:9"),
        (("backup", "tenure.toml"), 2, "exists"),
        (("serve", "--config", "none.toml"), 2, "none.toml"),
        (("serve",), 2, "a server is running"),
        (("init",), 2, "exists"),
    ],
)
def test_what_goes_wrong_is_said_on_stderr_with_a_code(
    server: TestServer, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = server.cli(*arguments, code=code)
    assert said in " ".join(done.stderr.split()) and done.stdout == ""


def test_a_server_that_is_not_there(server: TestServer) -> None:
    nowhere = {"TENURE_URL": "http://127.0.0.1:9", "TENURE_TOKEN": "t"}
    said = server.cli("status", env=nowhere, code=3).stderr
    assert "no server answers at http://127.0.0.1:9" in said and "`tenure serve` starts it" in said


def test_commands_beside_the_server(server: TestServer, tmp_path: Path) -> None:
    server.cli("backup", str(tmp_path / "copy.db"))
    assert (tmp_path / "copy.db").stat().st_size > 0
    assert "took away 0 batches" in server.cli("compact").stdout
    assert "use" in server.cli("restore", str(tmp_path / "copy.db"), "--force", code=2).stderr
    fresh = tmp_path / "fresh"
    assert "wrote" in server.cli("init", str(fresh)).stdout and (fresh / "tenure.toml").exists()


def test_completion_offers_jobs_and_budgets(server: TestServer) -> None:
    number = submit(server, "--hold", "true")
    first = str(number)[:1]
    for line, offered in (
        (f"tenure show {first}", str(number)),
        (f"tenure why {first}", str(number)),
        ("tenure ls -b lab/la", "lab/language"),
    ):
        words = {"_TENURE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        done = subprocess.run(
            [sys.executable, "-m", "tenure"],
            env={**server.environment, **words},
            cwd=server.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        assert offered in done.stdout


@pytest.mark.parametrize(
    ("how", "first", "second"), [((), " 0 ", " 7 "), (("--json",), '"priority":0', '"priority":7')]
)
def test_a_listing_that_a_program_watches_comes_again_with_every_change(
    server: TestServer, how: tuple[str, ...], first: str, second: str
) -> None:
    number = submit(server, "--hold", "true")
    watching = server.cli_process("ls", "--watch", *how)
    assert watching.stdout is not None
    try:
        for wanted in (first, second):
            while not (str(number) in (line := watching.stdout.readline()) and wanted in line):
                assert line, "it has ended"
            server.cli("priority", str(number), "7")
    finally:
        watching.kill()
        watching.communicate()


def test_a_watched_job_survives_a_restart_of_the_server(tmp_path: Path) -> None:
    server = TestServer(tmp_path)
    server.config.write_text(server.config.read_text().replace("port = 0", f"port = {free_ports()}"))
    server.start()
    try:
        gate = tmp_path / "gate"
        os.mkfifo(gate)
        number = submit(server, "sh", "-c", f"echo up; read line < {gate}; echo $line; exit 4")
        server.wait_state(number, "running")
        waiting = server.cli_process("wait", str(number))
        server.kill()
        server.start()
        gate.write_text("on\n")
        said, _ = waiting.communicate(timeout=120)
        assert waiting.returncode == 1 and "exit code 4" in said
        assert server.cli("logs", str(number)).stdout == "up\non\n"
    finally:
        server.end()
