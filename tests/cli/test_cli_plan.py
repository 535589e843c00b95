"""``tenure submit --plan`` against a real server: what it says, and then what the submission does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.server import TestServer

BUDGET = ("--budget", "lab/language")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    running = TestServer(tmp_path_factory.mktemp("plan"))
    running.start()
    yield running
    running.end()


@pytest.fixture(autouse=True)
def nothing_left(server: TestServer) -> Iterator[None]:
    yield
    server.clear()


def plan(server: TestServer, *arguments: str) -> Any:
    return json.loads(server.cli("submit", "--plan", "--json", *BUDGET, *arguments).stdout)


def submit(server: TestServer, *arguments: str) -> int:
    return int(server.cli("submit", "-q", *BUDGET, *arguments).stdout)


def test_a_job_runs_where_its_plan_said(server: TestServer) -> None:
    arguments = ("--gpus", "4", "--replicas", "2", "--min-runtime", "30m", "--name", "gang", "sleep", "100")
    text = server.cli("submit", "--plan", *BUDGET, *arguments).stdout
    assert "gang, 8 GPUs in 2 replicas, for lab/language: nothing is submitted" in text
    assert "It starts now, on n1 and n2." in text
    assert "4.0 GPU-hours at least: 8 GPUs for 30m" in text
    assert "0.0 used + 0.0 committed of 672.0, 672.0 left (ratio 0.00)" in text
    assert "0.0 used + 4.0 committed of 672.0, 668.0 left (ratio 0.01)" in text
    said = plan(server, *arguments)
    assert list(server.client.jobs(all=True)) == []
    number = submit(server, *arguments)
    server.wait_state(number, "running")
    attempt = server.client.job(number).attempt
    assert attempt is not None and attempt.hosts == said["hosts"] and attempt.charge_rate == said["charge"]["gpus"]


def test_those_are_evicted_whom_the_plan_named(server: TestServer) -> None:
    free = [submit(server, "--gpus", "4", "--min-runtime", "0", "sleep", "100") for _ in range(2)]
    for number in free:
        server.wait_state(number, "running")
    arguments = ("--gpus", "4", "true")
    said = plan(server, *arguments)
    text = server.cli("submit", "--plan", *BUDGET, *arguments).stdout
    (victim,) = said["evictions"]
    assert victim["job"] in free and f"{victim['attempt']} of admin (4 GPUs, lab/language)" in text
    assert "it ran unallocated, and charged jobs come first" in text
    number = submit(server, *arguments)
    server.client.wait(number, timeout_s=60)
    gone = server.client.evictions().items[0]
    assert (gone.attempt, gone.gainer) == (victim["attempt"], number)


def test_what_waits_is_told_to_wait_and_waits(server: TestServer) -> None:
    first = submit(server, "--gpus", "4", "--replicas", "2", "--min-runtime", "1h", "sleep", "100")
    server.wait_state(first, "running")
    text = server.cli("submit", "--plan", *BUDGET, "--gpus", "4", "true").stdout
    assert "waits  It does not start now: waiting for GPUs: it needs 4, and 0 are free" in text
    assert server.client.job(submit(server, "--gpus", "4", "true")).state == "queued"


def test_why_names_what_would_help(server: TestServer) -> None:
    first = submit(server, "--gpus", "4", "--min-runtime", "1h", "sleep", "100")
    server.wait_state(first, "running")
    gang = submit(server, "--gpus", "4", "--replicas", "2", "--min-runtime", "1h", "sleep", "100")
    text = server.cli("why", str(gang)).stdout
    assert "What would help" in text and "With 1 replica instead of 2 it would start now (--replicas 1)." in text


def test_a_batch_script_is_planned_like_any_job(server: TestServer) -> None:
    script = Path(server.directory) / "train.sbatch"
    script.write_text(
        "#!/bin/bash\n#SBATCH --job-name=deep --gres=gpu:2 --time=01:00:00\n#TENURE --min-runtime 1h\nsleep 1\n"
    )
    said = server.cli("submit", "--plan", *BUDGET, str(script)).stdout
    assert "deep, 2 GPUs, for lab/language: nothing is submitted" in said
    assert "min_runtime is as long as the timeout, 1h" in said
    assert (
        "an array of 4 jobs of 2 GPUs each"
        in server.cli("submit", "--plan", *BUDGET, "--array", "0-3", str(script)).stdout
    )


def test_refusals_and_options_that_do_not_go_together(server: TestServer) -> None:
    refused = server.cli("submit", "--plan", *BUDGET, "--gpus", "5", "true", code=2)
    assert refused.stderr == server.cli("submit", *BUDGET, "--gpus", "5", "true", code=2).stderr
    late = server.cli("submit", "--plan", "missing.sh", "-b", "lab/language", code=2).stderr
    assert "error: budget = (missing): options come before the command; -b stands after it" in late
    other = server.cli("submit", "--gpus", "1", "true", "-x", "lab", code=2).stderr
    assert "budget = (missing): add it" in other
    both = server.cli("submit", "--plan", "--dry-run", *BUDGET, "true", code=2)
    assert "give one of them" in both.stderr


def test_a_command_that_is_not_there_is_noted(server: TestServer) -> None:
    said = server.cli("submit", "--plan", *BUDGET, "missing.sh")
    assert "command = missing.sh: there is no such program or file on this machine" in said.stderr
    assert "It starts now" in said.stdout
    assert server.cli("submit", "--plan", *BUDGET, "true").stderr == ""
    file = server.directory / "here.sh"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    assert server.cli("submit", "--plan", *BUDGET, "--workdir", str(server.directory), "./here.sh").stderr == ""
