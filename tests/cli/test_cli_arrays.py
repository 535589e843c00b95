"""Arrays and dependencies on a command line, with a real server and real processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server import TestServer

BUDGET = ("-b", "lab/language", "-m", "1m")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    running = TestServer(tmp_path_factory.mktemp("arrays"))
    running.start()
    yield running
    running.end()


@pytest.fixture(autouse=True)
def nothing_left(server: TestServer) -> Iterator[None]:
    yield
    server.clear()


def submit(server: TestServer, *arguments: str) -> str:
    return server.cli("submit", "-q", *BUDGET, *arguments).stdout.strip()


def gate(server: TestServer, name: str) -> tuple[Path, str]:
    """A file, and a shell command that waits for it."""
    path = server.directory / name
    return path, f"until [ -e {path} ]; do sleep 0.1; done"


def test_each_job_of_an_array_knows_which_it_is(server: TestServer) -> None:
    say = "echo $TENURE_ARRAY_ID $TENURE_ARRAY_INDEX $TENURE_ARRAY_COUNT $TENURE_ARRAY_MIN-$TENURE_ARRAY_MAX"
    done = server.cli("submit", *BUDGET, "--array", "2,4-8:2%2", "--name", "sweep", "--", "sh", "-c", say)
    number = done.stdout.split()[1]
    assert f"array {number} submitted to lab/language: sweep, 4 jobs of 1 GPU, at most 2 at a time" in done.stdout
    waited = server.cli("wait", number).stdout.splitlines()
    assert waited == [f"job {number}_{i} succeeded: Finished successfully." for i in (2, 4, 6, 8)]
    for index in (2, 4, 6, 8):
        assert server.cli("logs", f"{number}_{index}").stdout == f"{number} {index} 4 2-8\n"
    shown = server.cli("show", number).stdout
    assert (
        f"array {number}  sweep" in shown and "2-8:2 (4 jobs, at most 2 at a time)" in shown and "4 succeeded" in shown
    )
    one = server.cli("show", f"{number}_6").stdout
    assert f"job {number}_6 (number {int(number) + 2})  sweep" in one
    assert f"{number}: 2-8:2, at most 2 at a time (4 succeeded)" in one
    found = json.loads(server.cli("ls", "--all", "--array", f"{number}_[4-6]", "--json").stdout)
    assert [(job["array_id"], job["array_index"]) for job in found] == [(int(number), 6), (int(number), 4)]
    missing = server.cli("show", f"{number}_5", code=4).stderr
    assert f"job = {number}_5: array {number} has the indices 2-8:2" in missing
    assert "run stays with one job" in server.cli("run", *BUDGET, "--array", "0-1", "true", code=2).stderr


def test_a_throttle_and_what_is_done_to_several(server: TestServer) -> None:
    go, wait = gate(server, "go-throttle")
    number = submit(server, "--array", "0-9%2", "--", "sh", "-c", wait)
    first = int(number)
    for job in (first, first + 1):
        server.wait_state(job, "running")
    listed = server.cli("ls").stdout
    assert f"{number}_[2-9]" in listed and f"{number}_1 " in listed and "at most 2 jobs of array" in listed
    assert f"jobs {number}_[2-4] held" in server.cli("hold", f"{number}_[2-4]").stdout
    lines = {line.split()[0]: line.split()[1] for line in server.cli("ls").stdout.splitlines()}
    assert (lines[f"{number}_[2-4]"], lines[f"{number}_[5-9]"]) == ("held", "queued")
    assert f"job {number}_9 cancelled" in server.cli("cancel", f"{number}_9").stdout
    assert server.client.array(first).states == {"cancelled": 1, "queued": 7, "running": 2}
    go.touch()
    for index in (0, 1, 5, 6, 7, 8):
        assert server.client.wait(first + index, timeout_s=60).state == "succeeded"
    assert {job.array_index for job in server.client.jobs(array=first)} == {2, 3, 4}
    assert f"array {number} released" in server.cli("release", number).stdout
    server.cli("wait", f"{number}_[2-4]")
    assert f"array {number} cancelled (array {number}: 1 cancelled, 9 succeeded)" in server.cli("cancel", number).stdout
    said = server.cli("hold", number, code=2).stderr
    assert f"array {number}: all of its jobs have ended" in said


def test_a_restart_in_the_middle(server: TestServer) -> None:
    go, wait = gate(server, "go-restart")
    out = server.directory / "ran"
    line = f"{wait}; echo $TENURE_ARRAY_INDEX >> {out}"
    number = submit(server, "--array", "0-5%2", "--key", "restart", "--", "sh", "-c", line)
    last = submit(server, "--after-ok", number, "--", "sh", "-c", f"sort {out} | tr -d '\\n'")
    for index in (0, 1):
        server.wait_state(int(number) + index, "running")
    server.kill()
    server.start()
    assert submit(server, "--array", "0-5%2", "--key", "restart", "--", "sh", "-c", line) == number
    assert server.client.array(int(number)).states == {"queued": 4, "running": 2}
    go.touch()
    server.cli("wait", last)
    assert server.cli("logs", last).stdout == "012345"


def test_dependencies(server: TestServer) -> None:
    go, wait = gate(server, "go-after")
    first = submit(server, "--", "sh", "-c", f"{wait}; exit 3")
    wants = submit(server, "--after-ok", first, "--", "true")
    then = submit(server, "--after-ok", wants, "--", "true")
    always = submit(server, "--after-any", f"{wants},{first}", "--", "echo", "cleaned")
    assert f"Waiting for other jobs to end, with success: {first}." in server.cli("show", wants).stdout
    assert f"in whatever way: {wants}, {first}" in server.cli("ls").stdout
    go.touch()
    server.cli("wait", always)
    assert server.cli("logs", always).stdout == "cleaned\n"
    said = server.cli("wait", wants, then, code=5).stdout
    assert (
        f"job {wants} cancelled: Cancelled: it was to run after the success of job {first}, which ended as failed"
        in said
    )
    assert f"job {then} cancelled: Cancelled: it was to run after the success of job {wants}" in said
    late = submit(server, "--after-ok", first, "--", "true")
    assert server.client.job(int(late)).state == "cancelled"
    refused = server.cli("submit", *BUDGET, "--after-ok", "99999", "--", "true", code=2).stderr
    assert "after_ok = 99999: there is no such job" in refused


def test_a_batch_script_as_sbatch_takes_it(server: TestServer) -> None:
    script = server.directory / "array.sh"
    script.write_text(
        "#!/bin/bash\n#SBATCH --account=language --array=1-3%1 --output=o-%A_%a.txt\n#TENURE --min-runtime=1m\n"
        "echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT $SLURM_ARRAY_TASK_STEP\n"
        "[ $SLURM_ARRAY_TASK_ID != 2 ]\n"
    )
    shown = server.cli("sbatch", "--test-only", "array.sh").stdout
    assert "array = 1-3%1  (3 jobs, at most 1 at a time)  [--array=1-3%1 (array.sh line 2)]" in shown
    number = server.cli("sbatch", "--parsable", "array.sh").stdout.strip()
    after = server.cli("sbatch", "--parsable", "-A", "language", f"-dafterany:{number}", "--wrap", "cat o-*").stdout
    server.cli("wait", after.strip())
    assert server.cli("logs", after.strip()).stdout == "".join(f"{number} {i} 3 1\n" for i in (1, 2, 3))
    server.cli("wait", number, code=1)
    refused = server.cli("sbatch", "-A", "language", "-d", "afterok:99999", "--wrap", "true", code=2).stderr
    assert "after_ok = 99999: there is no such job" in refused
    line = server.cli("sbatch", "-a", "5-2", "array.sh", code=2).stderr
    assert "--array = 5-2" in line and "the smaller index comes first" in line


def test_ten_thousand_at_once(server: TestServer) -> None:
    number = submit(server, "--array", "0-9999%3", "--", "sleep", "300")
    lines = server.cli("ls").stdout.splitlines()
    assert len(lines) <= 1 + 3 + 1 and any(f"{number}_[" in line for line in lines)
    assert f"array {number} cancelled" in server.cli("cancel", number).stdout
    said = server.cli("submit", *BUDGET, "--array", "0-10000", "true", code=2).stderr
    assert "array = 0-10000: that is 10001 jobs, and an array has at most 10000" in said
