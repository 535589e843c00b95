"""Batch scripts through the command line to a real server: what they see, where their output goes, how they end."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server import TestServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    running = TestServer(tmp_path_factory.mktemp("sbatch"))
    running.start()
    yield running
    running.end()


def write(server: TestServer, body: str, *, first: str = "#!/bin/bash", name: str = "job.sh") -> Path:
    path = server.directory / name
    path.write_text(f"{first}\n#SBATCH --account=language\n{body}\n")
    return path


def finished(server: TestServer, *arguments: str, code: int = 0) -> str:
    """Submit, wait, and return the job's number."""
    number = server.cli("submit", "-q", *arguments).stdout.strip()
    server.cli("wait", number, code=code)
    return number


def output(server: TestServer, number: str) -> list[str]:
    return server.cli("logs", number).stdout.splitlines()


def test_a_script_runs_with_its_variables_and_arguments(server: TestServer) -> None:
    write(
        server,
        "#SBATCH --job-name=hello --gres=gpu:2 --cpus-per-task=4 --mem=2G --ntasks=1\n"
        "#TENURE --min-runtime=1m --env=GREETING=hi\n"
        'env | grep ^SLURM_ | sort\necho "$GREETING" "$@" "$#"; echo ${TENURE_SCRIPT-gone} ${TENURE_SRUN-gone}',
    )
    number = finished(server, "job.sh", "a", "b c")
    job = server.client.job(int(number))
    lines = output(server, number)
    said = dict(line.split("=", 1) for line in lines if line.startswith("SLURM_"))
    pid = said.pop("SLURM_TASK_PID")
    assert pid.isdigit()
    gpus = ",".join(str(gpu) for gpu in job.attempts[0].slots[0].gpus)
    host = job.attempts[0].hosts[0]
    assert said == {
        "SLURM_CLUSTER_NAME": "main",
        "SLURM_CPUS_ON_NODE": "4",
        "SLURM_CPUS_PER_TASK": "4",
        "SLURM_GPUS_ON_NODE": "2",
        "SLURM_JOBID": number,
        "SLURM_JOB_ACCOUNT": "lab/language",
        "SLURM_JOB_CPUS_PER_NODE": "4",
        "SLURM_JOB_GPUS": gpus,
        "SLURM_JOB_ID": number,
        "SLURM_JOB_NAME": "hello",
        "SLURM_JOB_NODELIST": host,
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_JOB_PARTITION": "main",
        "SLURM_JOB_USER": "admin",
        "SLURM_LOCALID": "0",
        "SLURM_MEM_PER_NODE": "2048",
        "SLURM_NNODES": "1",
        "SLURM_NODEID": "0",
        "SLURM_NODELIST": host,
        "SLURM_NPROCS": "1",
        "SLURM_NTASKS": "1",
        "SLURM_PROCID": "0",
        "SLURM_SUBMIT_DIR": str(server.directory),
        "SLURM_SUBMIT_HOST": os.uname().nodename,
        "SLURM_TASKS_PER_NODE": "1",
    }
    assert lines[-2:] == ["hi a b c 2", "gone gone"]
    assert (job.name, job.roles[0].gpus, job.roles[0].cpus, job.roles[0].memory_mib) == ("hello", 2, 4, 2048)
    shown = server.cli("show", number).stdout
    assert "job.sh a 'b c'" in shown and "mktemp" not in shown


def test_later_edits_do_not_matter_and_nothing_is_left_behind(server: TestServer) -> None:
    path = write(server, "echo first; ls $TMPDIR")
    temporary = server.directory / "tmp"
    temporary.mkdir()
    number = server.cli("submit", "-q", "--hold", "--env", f"TMPDIR={temporary}", "job.sh").stdout.strip()
    path.write_text("#!/bin/sh\necho second\n")
    server.cli("release", number)
    server.cli("wait", number)
    assert output(server, number) == ["first"]


def test_other_languages_and_exit_codes(server: TestServer) -> None:
    write(
        server,
        "import os, sys\nprint(sys.argv[1:], os.environ['SLURM_JOB_NAME'])\nsys.exit(7)",
        first=f"#!{sys.executable} -E",
    )
    number = finished(server, "job.sh", "x", code=1)
    assert output(server, number) == ["['x'] job.sh"]
    assert server.client.job(int(number)).exit_code == 7


def test_wrap_and_standard_input(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    number = finished(server, "-b", "lab/language", "--wrap", "echo $SLURM_JOB_NAME $0")
    assert output(server, number) == ["wrap /dev/fd/9"]
    # The test server gives commands an empty input of its own; this one has a script in it.
    monkeypatch.setattr("io.StringIO", lambda: _Input("#!/bin/sh\n#SBATCH -J piped\necho $SLURM_JOB_NAME $1\n"))
    number = server.cli("sbatch", "--parsable", "-A", "language").stdout.strip()
    server.cli("wait", number)
    assert output(server, number) == ["piped"]


class _Input(io.StringIO):
    pass


def test_output_files_of_all_attempts(server: TestServer) -> None:
    write(
        server,
        "#SBATCH --output=out-%x-%4j-%n-%u-%%.txt --error=err.txt\n#TENURE --retries=1\n"
        "echo attempt $SLURM_RESTART_COUNT; echo bad >&2; [ $SLURM_RESTART_COUNT ]",
        name="files.sh",
    )
    (server.directory / "err.txt").write_text("of an earlier job\n")
    number = finished(server, "files.sh")
    name = f"out-files.sh-{int(number):04}-0-admin-%.txt"
    assert (server.directory / name).read_text() == "attempt\nattempt 1\n"
    assert (server.directory / "err.txt").read_text() == "bad\nbad\n"
    assert output(server, number) == [f"tenure: output goes to {name} (--output)"]


def test_input_and_both_outputs_in_one_file(server: TestServer) -> None:
    (server.directory / "in.txt").write_text("words\n")
    write(server, "#SBATCH -i in.txt -o both.txt --open-mode=append\ncat; echo err >&2")
    (server.directory / "both.txt").write_text("before\n")
    finished(server, "job.sh")
    assert (server.directory / "both.txt").read_text() == "before\nwords\nerr\n"


def test_an_output_file_that_cannot_be_written_says_so(server: TestServer) -> None:
    write(server, "#SBATCH -o nowhere/out.txt\necho never")
    number = finished(server, "job.sh", code=1)
    assert "nowhere/out.txt" in server.cli("logs", number, "-E").stdout


def test_srun_starts_the_tasks_of_one_host(server: TestServer) -> None:
    write(
        server,
        "#SBATCH --ntasks=2 --gpus-per-task=2\n"
        "srun --cpu-bind=none -u bash -c 'echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NTASKS $CUDA_VISIBLE_DEVICES'\n"
        "srun -n 1 echo one\nsrun -n3 true; echo $?\nsrun --ntasks=2 bash -c 'exit $((SLURM_PROCID * 5))'",
    )
    number = finished(server, "job.sh", code=1)
    lines = output(server, number)
    assert sorted(lines[:2]) == ["0 0 2 0,1", "1 1 2 2,3"] and lines[2:] == ["one", "2"]
    assert "3 tasks are more than the job has: write #SBATCH --ntasks=3" in server.cli("logs", number, "-E").stdout
    assert server.client.job(int(number)).exit_code == 5


def test_a_script_on_two_hosts_runs_on_each(server: TestServer) -> None:
    write(
        server,
        "#SBATCH --nodes=2 --gpus-per-node=4\necho $SLURM_NODEID $SLURM_PROCID $SLURM_NNODES ${SLURM_NODELIST-none}",
    )
    done = server.cli("submit", "job.sh")
    assert "note: the script runs on each of its 2 hosts at once" in done.stderr
    number = done.stdout.split()[1]
    server.cli("wait", number)
    assert [server.cli("logs", number, "-r", rank).stdout for rank in "01"] == ["0 0 2 none\n", "1 1 2 none\n"]


def test_the_warning_reaches_the_script(server: TestServer) -> None:
    write(
        server,
        "#SBATCH --signal=B:USR1@3\ntrap 'echo warned; exit 9' USR1\necho up\nsleep 300 &\nwait",
    )
    session = server.cli_process("run", "job.sh")
    assert session.stdout is not None and session.stdout.readline() == "up\n"
    os.killpg(session.pid, signal.SIGINT)
    rest, _ = session.communicate(timeout=60)
    assert rest == "warned\n"


def test_a_dry_run_shows_the_request_and_submits_nothing(server: TestServer) -> None:
    write(server, "#SBATCH --time=2:00:00 --mail-type=END\n#TENURE --resumable")
    before = len(list(server.client.jobs(all=True)))
    done = server.cli("submit", "--dry-run", "--gpus", "2", "job.sh", "x")
    assert "budget = lab/language  [--account=language (job.sh line 2)]" in done.stdout
    assert "timeout = 2h  [--time=2:00:00 (job.sh line 3)]" in done.stdout
    assert "resumable = yes  [--resumable (job.sh line 4)]" in done.stdout
    assert "gpus = 2  [command line]" in done.stdout
    assert "command = job.sh x  (a script of" in done.stdout
    assert "--mail-type=END (job.sh line 3): no effect here: no mail is sent" in done.stderr
    found = json.loads(server.cli("submit", "--dry-run", "--json", "job.sh").stdout)
    assert found["request"]["timeout"] == "2h" and found["origins"]["timeout"] == "--time=2:00:00 (job.sh line 3)"
    nobody = server.cli("submit", "--dry-run", "job.sh", env={"TENURE_URL": "http://127.0.0.1:9", "TENURE_TOKEN": "x"})
    assert "budget = language" in nobody.stdout and "no server was asked" in nobody.stderr
    assert len(list(server.client.jobs(all=True))) == before


def test_what_the_server_refuses_is_told_with_its_line(server: TestServer) -> None:
    write(server, "#SBATCH --time-min=99:00:00\n#SBATCH --partition=nowhere")
    said = server.cli("submit", "job.sh", code=2).stderr
    assert "clusters = nowhere" in said and "[--partition=nowhere (job.sh line 4)]" in said
    write(server, "#SBATCH --time-min=99:00:00")
    said = server.cli("submit", "job.sh", code=2).stderr
    assert "[--time-min=99:00:00 (job.sh line 3)]" in said
    assert (
        "error: job.sh line 3: --tim = 5:" in server.cli("submit", str(write(server, "#SBATCH --tim=5")), code=2).stderr
    )


def test_words_that_mean_something_else_here_are_told_once(server: TestServer) -> None:
    state = {"XDG_STATE_HOME": str(server.directory / "state")}
    write(server, "#SBATCH --qos=high --nice=5")
    first = server.cli("submit", "--dry-run", "job.sh", env=state).stderr
    assert "note: --qos: there are no classes of service" in first and "note: --nice: it lowers" in first
    assert first.count("See docs/sbatch.md") == 2
    assert server.cli("submit", "--dry-run", "job.sh", env=state).stderr == ""
    own = server.cli("submit", "--dry-run", "--priority", "5", "job.sh", env=state).stderr
    assert "note: --priority: priority orders jobs inside one budget and does nothing else" in own
