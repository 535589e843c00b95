"""The training programs in ``examples/training`` under a real server: evicted in the middle, each goes on with the very
losses of a run that nobody has evicted."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from training_kit import SOURCE

from support.server import TestServer

EXAMPLES = Path(__file__).parents[2] / "examples" / "training"
NEEDS = {"pytorch": "torch", "lightning_fit": "lightning", "hf_trainer": "transformers"}
STEPS, SEEN = 40, 6
"""Steps in all, and how many are seen before the eviction."""
_LOSS = re.compile(r"^step (\d+) loss (\S+)$", re.MULTILINE)
QUIET = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    running = TestServer(tmp_path_factory.mktemp("examples"), extra_env=QUIET)
    # These programs take seconds to end, on a machine with other things to do.
    running.config.write_text(running.config.read_text().replace('max_grace = "3s"', 'max_grace = "2m"'))
    running.start()
    yield running
    running.end()


def example(name: str, ranks: int = 1) -> Any:
    """A case, skipped where what it needs is not installed."""
    missing = [
        package for package in dict.fromkeys(("torch", NEEDS[name])) if importlib.util.find_spec(package) is None
    ]
    why = f"{', '.join(missing)} not installed: pip install 'tenure[training]'"
    return pytest.param(name, ranks, marks=pytest.mark.skipif(bool(missing), reason=why))


def losses(text: str) -> dict[int, float]:
    """By step. Raises AssertionError when one is there twice."""
    found = [(int(step), float(loss)) for step, loss in _LOSS.findall(text)]
    assert len(dict(found)) == len(found), "a step was done twice"
    return dict(found)


def alone(name: str, directory: Path) -> dict[int, float]:
    """The losses of a run outside of any scheduler, from beginning to end."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), "--steps", str(STEPS)],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(SOURCE), "HOME": str(directory), **QUIET},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return losses(done.stdout)


def output(server: TestServer, job: int, attempt: int) -> str:
    return server.cli("logs", str(job), "--attempt", str(attempt)).stdout


def wait_for_losses(server: TestServer, job: int, count: int) -> None:
    """Follow the log until it has as many. The server answers when there is more."""
    text, offset = "", 0
    while len(losses(text)) < count:
        chunk = server.client.logs(job, offset=offset, wait_ms=10_000)
        text, offset = text + chunk.data.decode(), chunk.next
        assert not chunk.complete, f"it has ended: {text}{server.cli('logs', str(job), '-E').stdout}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ranks"), [example("pytorch"), example("pytorch", 2), example("lightning_fit"), example("hf_trainer")]
)
def test_an_evicted_example_goes_on_with_the_same_losses(
    server: TestServer, tmp_path: Path, name: str, ranks: int
) -> None:
    body = {
        "budget": "lab/language",
        "name": f"{name}-{ranks}",
        "gpus": ranks,
        "launch": "per-gpu",
        "resumable": True,
        "min_runtime": "1h",
        "grace": "2m",
        "workdir": str(tmp_path),
        "command": [sys.executable, str(EXAMPLES / f"{name}.py"), "--steps", str(STEPS), "--pace", "0.1"],
    }
    job = server.client.submit(body).job.id
    server.wait_state(job, "running", timeout_s=60)
    wait_for_losses(server, job, SEEN)
    server.client.evict(job, "to see it come back")
    ended = server.client.wait(job, timeout_s=300)
    said = [
        output(server, job, attempt) + server.cli("logs", str(job), "--attempt", str(attempt), "-E").stdout
        for attempt in (1, 2)
    ]
    assert (ended.state, ended.evictions, ended.restarts) == ("succeeded", 1, 1), said
    first, second = (losses(output(server, job, attempt)) for attempt in (1, 2))
    assert SEEN <= len(first) < STEPS
    assert [*first, *second] == list(range(1, STEPS + 1)), "no step is lost, none done twice"
    codes = server.client.job(job).attempts[0].exit_codes
    assert codes == [143], "it heard the warning, saved, and left"
    if ranks == 1:  # with two there are other batches
        assert first | second == pytest.approx(alone(name, tmp_path), rel=1e-4)
    assert second[STEPS] < first[1], "it learns"


def test_the_examples_mark_what_tenure_needs() -> None:
    """They are read here even where nothing is installed that they need."""
    for path in sorted(EXAMPLES.glob("*.py")):
        text = path.read_text("utf-8")
        compile(text, str(path), "exec")
        assert text.count("(T)") >= 4, f"{path.name} marks what Tenure needs"
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(NEEDS)
