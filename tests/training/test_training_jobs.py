"""A job that uses ``tenure.training``, under a real server: evicted in the middle, it goes on where it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.line import Line
from support.server import TestServer

COUNTS = """
import json, os, sys, time
from tenure import training

line = open(sys.argv[1], "w", buffering=1)
training.start(every_s=float("inf"))
path = training.resume_path("state.json")
state = json.loads(path.read_text()) if path else {"step": 0, "losses": []}
print("from", state["step"], file=line)
last = state["step"] + 3 if os.environ["TENURE_RESTART_COUNT"] == "1" else 10**9
while state["step"] < last:
    time.sleep(0.01)
    state["step"] += 1
    state["losses"].append(1 / state["step"])
    print("step", state["step"], file=line)
    if training.should_checkpoint():
        training.save(lambda path: path.write_text(json.dumps(state)), state["step"], name="state.json")
    if training.should_stop():
        warning, left = training.warning(), training.time_left()
        print("left", state["step"], warning.reason, 0 < left <= 60, warning.why, file=line)
        training.leave()
assert state["losses"] == [1 / step for step in range(1, last + 1)]
print("ends", state["step"], file=line)
training.done()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TestServer]:
    running = TestServer(tmp_path)
    # The grace is long enough on a machine with other things to do; nobody waits for its end.
    running.config.write_text(running.config.read_text().replace('max_grace = "3s"', 'max_grace = "1m"'))
    running.start()
    yield running
    running.end()


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    line = Line(tmp_path / "line")
    yield line
    line.close()


# The last is a shell that does not hear for its child: SIGTERM ends it only when the child has ended.
WRAPPED = ["sh", "-c", 'trap : TERM; "$@" & while ! wait $!; do kill -0 $! 2>/dev/null || exit 1; done', "sh"]


@pytest.mark.parametrize(
    ("wrapper", "warn_signal"), [([], "SIGTERM"), ([], "SIGUSR1"), (WRAPPED, "SIGTERM")], ids=["term", "usr1", "file"]
)
def test_an_evicted_job_goes_on_at_the_right_step(
    server: TestServer, line: Line, wrapper: list[str], warn_signal: str
) -> None:
    submitted = server.client.submit(
        {
            "budget": "lab/language",
            "gpus": 1,
            "resumable": True,
            "min_runtime": "1h",
            "grace": "1m",
            "warn_signal": warn_signal,
            "command": [*wrapper, sys.executable, "-c", COUNTS, str(line.path)],
        }
    )
    job = submitted.job.id
    assert line.hear() == "from 0"
    heard = line.hear_until("step 5")
    server.wait_state(job, "running")
    server.client.evict(job, "to make room")
    *_, last, left = heard + line.hear_until("left")
    step = int(last.removeprefix("step "))
    told = f"left {step} evicted_by_person True Evicted by admin: to make room, although it was protected."
    assert left == told
    assert line.hear() == f"from {step}"
    assert line.hear_until("ends")[-1] == f"ends {step + 3}"
    ended = server.client.wait(job, timeout_s=60)
    assert (ended.state, ended.evictions, ended.restarts) == ("succeeded", 1, 1)
    entries = [entry for batch in server.client.decisions(limit=1000).items for entry in batch.entries]
    assert any(entry.kind == "checkpoint" and entry.job == job for entry in entries)
    assert told.split("True ")[1] in server.cli("logs", str(job), "--attempt", "1", "-E").stdout
