"""The training program of the demo, run as a job runs it: real processes, signals, sockets and files."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from support.ports import free_ports
from tenure.demo import options, train
from tenure.demo.gang import Gang, GangError

ROOT = Path(__file__).parents[2]
HANGS = 60
"""Seconds after which a process that should have ended is taken to hang."""


class Job:
    """One process of the training program, with the variables that an executor sets."""

    def __init__(self, directory: Path, *arguments: str, **env: str) -> None:
        directory.mkdir(exist_ok=True)
        self.reported = directory / "reported"
        self.done = directory / "done"
        self.checkpoint = directory / "checkpoints" / "checkpoint.npz"
        ours = {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TENURE_CHECKPOINT_DIR": str(directory / "checkpoints"),
            "TENURE_CHECKPOINT": str(self.reported),
            "TENURE_DONE": str(self.done),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tenure.demo.train", *arguments],
            env={"PATH": os.environ["PATH"], **ours, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, text: str) -> None:
        """Read its output up to a line with ``text``."""
        assert self.process.stdout
        seen = []
        for line in self.process.stdout:
            seen.append(line)
            if text in line:
                return
        pytest.fail(f"ended without saying {text!r}: {seen} {self.process.communicate()[1]}")

    def end(self) -> tuple[int, str, str]:
        """Exit code and the output that has not been read."""
        out, err = self.process.communicate(timeout=HANGS)
        return self.process.returncode, out, err

    def state(self) -> dict[str, bytes]:
        """Everything that is in the checkpoint, bit for bit."""
        with np.load(self.checkpoint) as arrays:
            return {name: array.tobytes() for name, array in arrays.items()}

    def weights(self) -> np.ndarray:
        return train.State.from_bytes(self.checkpoint.read_bytes()).weights

    def step(self) -> int:
        return train.State.from_bytes(self.checkpoint.read_bytes()).step


@pytest.fixture
def start(tmp_path: Path) -> Iterator[object]:
    """Starts jobs in sub-directories of ``tmp_path``, and ends those that a failed test leaves behind."""
    jobs: list[Job] = []

    def starter(directory: str, *arguments: str, **env: str) -> Job:
        jobs.append(Job(tmp_path / directory, *arguments, **env))
        return jobs[-1]

    yield starter
    for job in jobs:
        job.process.kill()
        job.process.communicate()


def gang(start, directory: str, *arguments: str, size: int = 2, missing: tuple[int, ...] = ()) -> list[Job]:
    """A gang whose replicas have directories of their own, so that one sees who writes."""
    port = str(free_ports())
    return [
        start(
            f"{directory}{rank}",
            *arguments,
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
            PET_NNODES=str(size),
            PET_NODE_RANK=str(rank),
        )
        for rank in range(size)
        if rank not in missing
    ]


def test_full_run_learns_and_says_that_it_is_done(start):
    job = start(
        "run",
        TENURE_JOB_ID="17",
        TENURE_ATTEMPT="3",
        TENURE_RESTART_COUNT="2",
        CUDA_VISIBLE_DEVICES="4,5",
    )
    code, out, err = job.end()
    assert (code, err) == (0, "")
    first, last = out.splitlines()[0], out.splitlines()[-1]
    assert first == "job 17 attempt 3 restarts 2 replica 0 of 1 GPUs 4,5: fresh start"
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", out)]
    assert losses[-1] < losses[0] / 10
    assert float(re.findall(r"accuracy ([\d.]+)", last)[0]) > 0.9
    assert job.done.exists()
    assert job.reported.exists()
    assert job.step() == 300


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_interrupted_run_ends_bit_for_bit_like_an_uninterrupted_one(start, how):
    arguments = ("--steps", "40", "--checkpoint-every", "4", "--log-every", "1")
    whole = start("whole", *arguments)
    job = start("interrupted", *arguments, "--pace", "0.3")
    job.wait_for("step 6/40")
    job.process.send_signal(how)
    code, _, _ = job.end()
    assert code == (143 if how == signal.SIGTERM else -signal.SIGKILL)
    assert not job.done.exists()
    assert job.step() in range(6 if how == signal.SIGTERM else 4, 40)
    stopped_at = job.step()
    again = start("interrupted", *arguments)
    code, out, _ = again.end()
    assert code == 0
    assert f"resumed from step {stopped_at}" in out.splitlines()[0]
    assert f"(resumed from step {stopped_at})" in out.splitlines()[1]
    assert again.done.exists()
    assert whole.end()[0] == 0
    assert again.state() == whole.state()


@pytest.mark.parametrize(
    ("arguments", "env", "warning"),
    [
        ((), {}, signal.SIGTERM),
        (("--warn-signal", "USR1"), {}, signal.SIGUSR1),
        ((), {"TENURE_WARN_SIGNAL": "SIGUSR2"}, signal.SIGUSR2),
        (("--warn-signal", "USR1"), {}, signal.SIGTERM),
    ],
)
def test_warning_ends_an_hour_of_pacing_at_once_with_a_checkpoint(start, arguments, env, warning):
    job = start("job", "--pace", "3600", *arguments, **env)
    job.wait_for("fresh start")
    job.process.send_signal(warning)
    code, out, err = job.end()
    assert (code, err) == (143, "")
    assert out.splitlines()[-1] == f"warned ({warning.name}): stopped after step 1"
    assert job.step() == 1
    assert job.reported.exists()
    assert not job.done.exists()


def test_every_checkpoint_is_reported(start):
    job = start("job", "--steps", "2", "--checkpoint-every", "1")
    job.reported.touch()
    os.utime(job.reported, (0, 0))
    assert job.end()[0] == 0
    assert job.reported.stat().st_mtime > 0


def test_finished_run_that_is_started_again_is_done_at_once(start):
    assert start("job", "--steps", "5").end()[0] == 0
    again = start("job", "--steps", "5", "--pace", "3600")
    again.done.unlink()
    code, out, _ = again.end()
    assert code == 0
    assert "step 6" not in out
    assert again.done.exists()


def test_run_without_a_scheduler_trains(start):
    job = start("job", "--steps", "3", TENURE_CHECKPOINT_DIR="", TENURE_CHECKPOINT="", TENURE_DONE="")
    code, out, err = job.end()
    assert (code, err) == (0, "")
    assert "checkpoint" not in out


def test_gang_computes_what_one_replica_computes_and_only_the_first_one_saves(start):
    arguments = ("--steps", "120", "--batch", "63")
    alone = start("alone", *arguments)
    first, second, third = gang(start, "gang", *arguments, size=3)
    code, out, err = first.end()
    assert (code, err) == (0, "")
    assert float(re.findall(r"accuracy ([\d.]+)", out)[-1]) > 0.9
    for other in second, third:
        code, out, err = other.end()
        assert (code, err) == (0, "")
        assert not other.checkpoint.exists()
        assert not other.reported.exists()
        assert other.done.exists()
    assert alone.end()[0] == 0
    # Only the order of additions differs.
    np.testing.assert_allclose(first.weights(), alone.weights(), rtol=1e-4, atol=1e-6)


def test_gang_stops_together_when_one_replica_is_warned_and_resumes_bit_for_bit(start):
    arguments = ("--steps", "30", "--log-every", "1")
    first, second = gang(start, "gang", *arguments, "--pace", "0.3")
    first.wait_for("step 3/30")
    second.process.send_signal(signal.SIGTERM)
    assert second.end()[0] == 143
    code, out, err = first.end()
    assert (code, err) == (143, "")
    assert out.splitlines()[-1] == f"warned (another replica): stopped after step {first.step()}"
    assert first.step() < 30
    assert not first.done.exists()
    assert not second.done.exists()
    whole, *rest = gang(start, "whole", *arguments)
    for job in whole, *rest, *gang(start, "gang", *arguments):
        assert job.end()[0] == 0
    assert first.state() == whole.state()


@pytest.mark.parametrize("dead", [0, 1])
def test_replica_that_dies_makes_the_other_fail_and_say_so(start, dead):
    replicas = gang(start, "gang", "--pace", "0.05", "--steps", "100000")
    for replica in replicas:
        replica.wait_for("fresh start")
    replicas[dead].process.kill()
    code, _, err = replicas[1 - dead].end()
    assert code == 1
    assert err.startswith(f"error: replica {dead} is gone: ")


def test_missing_replicas_are_named(start):
    code, _, err = gang(start, "gang", "--gang-timeout", "0.1", size=3, missing=(1, 2))[0].end()
    assert (code, err) == (1, "error: replicas [1, 2] did not come within 0.1 s\n")
    code, _, err = gang(start, "gang", "--gang-timeout", "0.1", missing=(0,))[0].end()
    assert code == 1
    assert "did not answer within 0.1 s" in err


def test_strangers_at_the_port_are_sent_away(start):
    port = str(free_ports())
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "PET_NNODES": "2"}
    old = start("old", PET_NODE_RANK="1", TENURE_ATTEMPT="1", **env)
    new = start("new", "--steps", "2", PET_NODE_RANK="0", TENURE_ATTEMPT="2", **env)
    code, _, err = old.end()
    assert code == 1
    assert "replica 0 is gone" in err
    with socket.create_connection(("127.0.0.1", int(port)), timeout=HANGS) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert _hung_up(stranger)
    second = start("second", "--steps", "2", PET_NODE_RANK="1", TENURE_ATTEMPT="2", **env)
    assert second.end()[0] == 0
    assert new.end()[0] == 0


def _hung_up(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"PET_NNODES": "2", "PET_NODE_RANK": "2"}, "replica '2' of '2' makes no sense"),
        ({"PET_NNODES": "two"}, "replica '0' of 'two' makes no sense"),
        ({"PET_NNODES": "2", "PET_NODE_RANK": "1"}, "MASTER_ADDR and MASTER_PORT; they are None and None"),
        ({"PET_NNODES": "2", "MASTER_ADDR": "a", "MASTER_PORT": "b"}, "they are 'a' and 'b'"),
    ],
)
def test_gang_that_cannot_be_says_which_variable_is_wrong(env, said, monkeypatch):
    monkeypatch.setattr(socket, "create_server", None)
    with pytest.raises(GangError, match=said):
        Gang.from_env(env, 1).connect(env, Mock())


def test_one_process_per_gpu_counts_by_rank():
    env = {"WORLD_SIZE": "16", "RANK": "9", "PET_NNODES": "2", "PET_NODE_RANK": "1"}
    gang = Gang.from_env(env, 1)
    assert (gang.rank, gang.size) == (9, 16)


def test_checkpoint_of_another_network_is_an_error_that_names_the_remedy(start):
    assert start("job", "--steps", "1").end()[0] == 0
    code, _, err = start("job", "--hidden", "8").end()
    assert code == 1
    assert "give the --hidden it was made with" in err


def test_damaged_checkpoint_is_an_error_that_names_the_remedy(tmp_path):
    checkpoints = train.Checkpoints({"TENURE_CHECKPOINT_DIR": str(tmp_path)})
    state = train.State(7, np.ones(3), np.ones(3), np.ones(3), np.random.default_rng(1))
    assert checkpoints.save(state)
    file = tmp_path / "checkpoint.npz"
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(train.TrainingError, match=r"npz is damaged .*; remove it to start afresh"):
        checkpoints.load()


def test_full_disk_leaves_the_old_checkpoint_whole(tmp_path, monkeypatch):
    checkpoints = train.Checkpoints({"TENURE_CHECKPOINT_DIR": str(tmp_path)})
    state = train.State(7, np.ones(3), np.ones(3), np.ones(3), np.random.default_rng(1))
    assert checkpoints.save(state)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    state.step = 8
    with pytest.raises(OSError, match="No space"):
        checkpoints.save(state)
    kept = checkpoints.load()
    assert kept is not None
    assert kept.step == 7


def test_gradient_agrees_with_finite_differences():
    rng = np.random.default_rng(3)
    model = train.Model(6, 5)
    weights = model.initial(rng) + rng.normal(0, 0.1, model.length)
    images, classes = rng.random((4, 6)), rng.integers(0, 10, 4)
    gradient, _ = model.gradient(weights, images, classes)
    numeric = np.empty_like(weights)
    for at in range(len(weights)):
        nudge = np.zeros_like(weights)
        nudge[at] = 1e-6
        up, down = (model.gradient(weights + sign * nudge, images, classes)[1] for sign in (1, -1))
        numeric[at] = (up - down) / 2e-6
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-7)


def test_held_out_images_are_not_trained_on():
    digits = train.load_digits()
    assert len(digits.images) + len(digits.held_out_images) == 1797
    trained = {image.tobytes() for image in digits.images}
    assert not trained & {image.tobytes() for image in digits.held_out_images}


def python(code: str) -> subprocess.CompletedProcess[str]:
    env = {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=env)


def test_scikit_learn_is_read_but_not_imported():
    ended = python("import sys; from tenure.demo import train; train.load_digits(); print(*sys.modules)")
    assert "numpy" in ended.stdout.split()
    assert "sklearn" not in ended.stdout.split()


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("numpy", "error: this program needs numpy; install it with: pip install 'tenure[demo]'\n"),
        (
            "sklearn",
            "error: the images come with scikit-learn, which is not installed; "
            "install it with: pip install 'tenure[demo]'\n",
        ),
    ],
)
def test_missing_packages_are_named(package, said):
    ended = python(
        f"import runpy, sys; sys.modules[{package!r}] = None; sys.argv = ['train']\n"
        "runpy.run_module('tenure.demo.train', run_name='__main__')"
    )
    assert (ended.returncode, ended.stderr) == (1, said)


def test_minutes_and_pace_give_the_steps():
    assert options.parse(["--minutes", "1.5", "--pace", "0.5"], {}).steps == 180
    assert options.parse(["--minutes", "0.001", "--pace", "10"], {}).steps == 1


@pytest.mark.parametrize(
    ("arguments", "env", "said"),
    [
        (["--minutes", "3"], {}, "--minutes needs --pace"),
        (["--minutes", "3", "--steps", "4"], {}, "not allowed with"),
        (["--steps", "0"], {}, "'0' is not a whole number above 0"),
        (["--pace", "nan"], {}, "'nan' is not a number above 0"),
        (["--lr", "fast"], {}, "'fast' is not a number above 0"),
        (["--warn-signal", "TEMR"], {}, "'TEMR' is not a signal"),
        ([], {"TENURE_WARN_SIGNAL": "15x"}, "'15x' is not a signal"),
    ],
)
def test_bad_options_are_refused_with_their_value(arguments, env, said, capsys):
    with pytest.raises(SystemExit) as exit_:
        options.parse(arguments, env)
    assert exit_.value.code == 2
    assert said in capsys.readouterr().err


def test_batch_larger_than_the_data_is_an_error():
    wanted = options.parse(["--batch", "2000"], {})
    with pytest.raises(train.TrainingError, match="--batch 2000 is more than the 1437 images"):
        train.Run(wanted, {}, Mock(), Gang(0, 1, 1))


def test_documentation_quotes_the_program_as_it_is():
    page = (ROOT / "docs" / "example-training.md").read_text()
    sources = "\n".join(path.read_text() for path in (ROOT / "src" / "tenure" / "demo").glob("*.py"))
    excerpts = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(excerpts) >= 3
    for excerpt in excerpts:
        assert any(textwrap.indent(excerpt, " " * depth) in sources for depth in (0, 4, 8)), excerpt
