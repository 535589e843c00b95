"""A small real training job that behaves well when it is evicted: ``python -m tenure.demo.train --help``.

It fits a classifier with two hidden layers to images of handwritten digits with Adam. What makes it a good
citizen, and what any other program can copy:

- it resumes from ``checkpoint.npz`` in ``TENURE_CHECKPOINT_DIR``, and an interrupted run gives bit for bit
  what an uninterrupted one gives (with the same number of replicas);
- after each checkpoint it touches the file that ``TENURE_CHECKPOINT`` names, so that the scheduler knows how
  much work an eviction would lose;
- on the warning signal it finishes its step, writes a checkpoint and exits with code 143. Not 0: a job that
  cannot resume and exits with 0 after a warning counts as finished;
- at the end it touches the file that ``TENURE_DONE`` names and exits with 0.

Exit codes: 0 finished, 143 stopped after a warning, 1 failed (with one line on stderr), 2 bad options.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import io
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tenure.demo.gang import Gang, GangError
from tenure.demo.options import parse
from tenure.demo.warn import Warned

# The matrices are small: more threads would only get in the way of the other jobs. Must come before numpy.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

_INSTALL = "install it with: pip install 'tenure[demo]'"
try:
    import numpy as np
    from numpy.typing import NDArray
except ModuleNotFoundError:
    sys.exit(f"error: this program needs numpy; {_INSTALL}")

Vector = NDArray[np.float64]

EXIT_FAILED = 1
EXIT_WARNED = 143
CLASSES = 10
HELD_OUT = 360
SPLIT_SEED = 8
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class TrainingError(Exception):
    """The run cannot go on; the text says why and what would help."""


@dataclass(frozen=True)
class Digits:
    """Images as rows of pixels from 0 to 1, and their classes from 0 to 9."""

    images: Vector
    classes: NDArray[np.int64]
    held_out_images: Vector
    held_out_classes: NDArray[np.int64]


def load_digits() -> Digits:
    """The 1,797 digits that scikit-learn ships. Raises TrainingError when they are not there."""
    # Finding the package does not import it, which would cost a second for a file of 57 kB.
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise TrainingError(f"the images come with scikit-learn, which is not installed; {_INSTALL}")
    try:
        with gzip.open(Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz", "rt") as file:
            table = np.loadtxt(file, delimiter=",")
    except FileNotFoundError as error:
        raise TrainingError(f"scikit-learn is installed without its images: {error}") from error
    table = table[np.random.default_rng(SPLIT_SEED).permutation(len(table))]
    images, classes = table[:, :-1] / 16.0, table[:, -1].astype(np.int64)
    return Digits(images[HELD_OUT:], classes[HELD_OUT:], images[:HELD_OUT], classes[:HELD_OUT])


class Model:
    """A multi-layer perceptron. Its weights are one flat vector: Adam and the gang need not know layers."""

    def __init__(self, pixels: int, hidden: int) -> None:
        self.sizes = (pixels, hidden, hidden, CLASSES)
        self.length = sum((a + 1) * b for a, b in zip(self.sizes, self.sizes[1:], strict=False))

    def initial(self, rng: np.random.Generator) -> Vector:
        """Random weights, small enough that the activations keep their size from layer to layer."""
        weights = np.zeros(self.length)
        for matrix, _ in self._layers(weights):
            matrix[:] = rng.normal(0.0, np.sqrt(2.0 / len(matrix)), matrix.shape)
        return weights

    def _layers(self, flat: Vector) -> Iterator[tuple[Vector, Vector]]:
        """Views of ``flat``: the matrix and the offsets of each layer."""
        at = 0
        for a, b in zip(self.sizes, self.sizes[1:], strict=False):
            matrix, offsets = flat[at : at + a * b], flat[at + a * b : at + (a + 1) * b]
            at += (a + 1) * b
            yield matrix.reshape(a, b), offsets

    def _forward(self, weights: Vector, images: Vector) -> list[Vector]:
        """The activations of all layers, pixels first; the last ones are logarithms of probabilities."""
        activations = [images]
        for matrix, offsets in self._layers(weights):
            activations.append(np.maximum(activations[-1], 0.0) @ matrix + offsets)
        scores = activations[-1] - activations[-1].max(axis=1, keepdims=True)
        activations[-1] = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return activations

    def accuracy(self, weights: Vector, images: Vector, classes: NDArray[np.int64]) -> float:
        """The share of ``images`` that get their class."""
        return float(np.mean(self._forward(weights, images)[-1].argmax(axis=1) == classes))

    def gradient(self, weights: Vector, images: Vector, classes: NDArray[np.int64]) -> tuple[Vector, float]:
        """Gradient and loss, both summed (not averaged) over the images."""
        activations = self._forward(weights, images)
        rows = np.arange(len(classes))
        loss = -float(activations[-1][rows, classes].sum())
        error = np.exp(activations[-1])
        error[rows, classes] -= 1.0
        gradient = np.empty_like(weights)
        forwards = zip(self._layers(weights), self._layers(gradient), activations[:-1], strict=True)
        for (matrix, _), (by_matrix, by_offsets), inputs in reversed(list(forwards)):
            by_matrix[:] = np.maximum(inputs, 0.0).T @ error
            by_offsets[:] = error.sum(axis=0)
            error = (error @ matrix.T) * (inputs > 0.0)
        return gradient, loss


@dataclass
class State:
    """All that a run needs to go on exactly where it was: this and nothing else is in a checkpoint."""

    step: int
    weights: Vector
    mean: Vector
    square: Vector
    rng: np.random.Generator

    def update(self, gradient: Vector, lr: float) -> None:
        """One step of Adam."""
        self.step += 1
        self.mean = BETA1 * self.mean + (1.0 - BETA1) * gradient
        self.square = BETA2 * self.square + (1.0 - BETA2) * gradient**2
        mean, square = self.mean / (1.0 - BETA1**self.step), self.square / (1.0 - BETA2**self.step)
        self.weights = self.weights - lr * mean / (np.sqrt(square) + EPSILON)

    def to_bytes(self) -> bytes:
        """As an ``.npz`` file."""
        file = io.BytesIO()
        rng = json.dumps(self.rng.bit_generator.state)
        np.savez(file, step=self.step, weights=self.weights, mean=self.mean, square=self.square, rng=rng)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> State:
        """The reverse. Raises an error of numpy's, zipfile's or json's for anything else."""
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            rng = np.random.default_rng()
            rng.bit_generator.state = json.loads(str(arrays["rng"]))
            return cls(int(arrays["step"]), arrays["weights"], arrays["mean"], arrays["square"], rng)


class Checkpoints:
    """The checkpoint in the directory that the scheduler keeps for this job over all its attempts."""

    def __init__(self, env: Mapping[str, str]) -> None:
        directory = env.get("TENURE_CHECKPOINT_DIR")
        self.path = Path(directory) / "checkpoint.npz" if directory else None
        self.report = env.get("TENURE_CHECKPOINT")

    def load(self) -> State | None:
        """The state to go on from, None for a fresh start. Raises TrainingError for a damaged file."""
        if self.path is None or not self.path.exists():
            return None
        try:
            return State.from_bytes(self.path.read_bytes())
        except Exception as error:  # a damaged file raises any of half a dozen unrelated errors
            raise TrainingError(f"{self.path} is damaged ({error}); remove it to start afresh") from error

    def save(self, state: State) -> bool:
        """Replace the checkpoint whole or not at all, and report it. False: there is nowhere to put it."""
        if self.path is None:
            return False
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(".tmp")
        with unfinished.open("wb") as file:
            file.write(state.to_bytes())
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY)
        os.fsync(directory)  # else a crash of the machine could bring the old file back
        os.close(directory)
        if self.report:
            Path(self.report).touch()
        return True


class Run:
    """One attempt: a state, the replicas that share the work, and the ear for the warning."""

    def __init__(self, options: argparse.Namespace, env: Mapping[str, str], warned: Warned, gang: Gang) -> None:
        self.options = options
        self.warned = warned
        self.gang = gang
        self.checkpoints = Checkpoints(env)
        self.digits = load_digits()
        if options.batch > len(self.digits.images):
            raise TrainingError(f"--batch {options.batch} is more than the {len(self.digits.images)} images")
        self.model = Model(self.digits.images.shape[1], options.hidden)
        self.began_at = 0

    def begin(self) -> State:
        """The state of replica 0, resumed or fresh, on all replicas. Raises TrainingError and GangError."""
        state = self.checkpoints.load() if self.gang.rank == 0 else None
        if state is None:
            rng = np.random.default_rng(self.options.seed)
            weights = self.model.initial(rng)
            state = State(0, weights, np.zeros_like(weights), np.zeros_like(weights), rng)
        # Sent rather than read by all: replicas that disagree about the step would train nonsense.
        state = State.from_bytes(self.gang.broadcast(state.to_bytes()))
        if len(state.weights) != self.model.length:
            raise TrainingError(
                f"the checkpoint has {len(state.weights)} weights and --hidden {self.options.hidden} makes "
                f"{self.model.length}; give the --hidden it was made with, or another TENURE_CHECKPOINT_DIR"
            )
        self.began_at = state.step
        return state

    def step(self, state: State) -> tuple[float, bool]:
        """One step: the mean loss of its batch, and whether any replica has been warned. Raises GangError."""
        began = time.monotonic()
        size: int = self.options.batch
        batch = state.rng.choice(len(self.digits.images), size, replace=False)
        shard = batch[self.gang.rank :: self.gang.size]
        images, classes = self.digits.images[shard], self.digits.classes[shard]
        gradient, loss = self.model.gradient(state.weights, images, classes)
        self.warned.wait(self.options.pace - (time.monotonic() - began))
        # The warning travels with the gradients, so that all replicas stop after the same step.
        total = self._sum(np.concatenate([gradient, [loss, float(bool(self.warned))]]))
        state.update(total[:-2] / size, self.options.lr)
        return float(total[-2]) / size, bool(total[-1])

    def _sum(self, vector: Vector) -> Vector:
        """The sum over the replicas, always in the order of their ranks: rounding depends on it."""
        parts = [np.frombuffer(part) for part in self.gang.gather(vector.tobytes())]
        total = sum(parts[1:], start=parts[0]) if parts else vector
        return np.frombuffer(self.gang.broadcast(total.tobytes()))

    def train(self, state: State) -> bool:
        """Train to the end or to a warning, and save. True: finished. Raises GangError and OSError."""
        steps: int = self.options.steps
        stop = False
        while state.step < steps and not stop:
            loss, stop = self.step(state)
            last = stop or state.step == steps
            if last or state.step % self.options.log_every == 0 or state.step == self.began_at + 1:
                self._say_progress(state, loss)
            if self.gang.rank == 0 and (last or state.step % self.options.checkpoint_every == 0):
                self._save(state)
        # Nobody leaves before the checkpoint is on disk: a replica's exit may end the others.
        self.gang.barrier()
        return state.step >= steps

    def _save(self, state: State) -> None:
        if self.checkpoints.save(state):
            say(f"checkpoint at step {state.step}")

    def _say_progress(self, state: State, loss: float) -> None:
        if self.gang.rank == 0:
            resumed = f" (resumed from step {self.began_at})" if self.began_at else ""
            say(f"step {state.step}/{self.options.steps} loss {loss:.3f} accuracy {self.accuracy(state):.3f}{resumed}")

    def accuracy(self, state: State) -> float:
        """On images that are not trained on."""
        return self.model.accuracy(state.weights, self.digits.held_out_images, self.digits.held_out_classes)


def say(text: str) -> None:
    """One line that is in the log at once."""
    print(text, flush=True)


def introduce(env: Mapping[str, str], gang: Gang, state: State) -> None:
    """The first line in the log: which attempt this is, what it has, and where it starts."""
    say(
        f"job {env.get('TENURE_JOB_ID', '(none)')} attempt {env.get('TENURE_ATTEMPT', '(none)')} "
        f"restarts {env.get('TENURE_RESTART_COUNT', '0')} replica {gang.rank} of {gang.size} "
        f"GPUs {env.get('CUDA_VISIBLE_DEVICES') or 'none'}: "
        + (f"resumed from step {state.step}" if state.step else "fresh start")
    )


def run(options: argparse.Namespace, env: Mapping[str, str], warned: Warned, gang: Gang) -> int:
    """The attempt from start to exit code. Raises TrainingError, GangError and OSError."""
    work = Run(options, env, warned, gang)
    gang.connect(env, warned)
    if warned:
        say("warned before the first step: nothing to save")
        return EXIT_WARNED
    state = work.begin()
    introduce(env, gang, state)
    if not work.train(state):
        say(f"warned ({warned.by.name if warned.by else 'another replica'}): stopped after step {state.step}")
        return EXIT_WARNED
    if done := env.get("TENURE_DONE"):
        Path(done).touch()
    say(f"done after step {state.step}: accuracy {work.accuracy(state):.3f} on {HELD_OUT} held-out images")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; see the top of this file for its exit codes."""
    env = os.environ
    options = parse(arguments, env)
    warned = Warned(options.warn_signal, signal.SIGTERM)
    try:
        gang = Gang.from_env(env, options.gang_timeout + options.pace)
        try:
            return run(options, env, warned, gang)
        finally:
            gang.close()
    except (TrainingError, GangError, OSError) as error:
        if warned and isinstance(error, GangError):
            # The others were warned too and some left before the gang was complete: no fault of this job.
            say(f"warned ({error}); going on needs the last checkpoint")
            return EXIT_WARNED
        print(f"error: {error}", file=sys.stderr, flush=True)
        return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
