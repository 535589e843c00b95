"""What kinds of work people do, and how large and long it is: small tables of published figures.

Durations and shares are those of Seren and Kalos, two clusters of a lab that develops language models, as drawn in the
figures of "Characterization of Large Language Model Development in the Datacenter" (Hu et al., NSDI 2024; data of
InternLM/AcmeTrace, CC-BY-4.0), read off to about 0.1 percentage points, single kinds of work to about 0.3.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate
from math import log2
from random import Random
from typing import Generic, TypeVar

from tenure.core.model import SECOND

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Curve:
    """A distribution of durations: ``percent[i]`` of all are at most ``2**i`` seconds; straight in the logarithm."""

    percent: tuple[float, ...]

    def at(self, seconds: float) -> float:
        """The fraction that is at most this long."""
        if seconds < 1:
            return 0.0
        x = log2(seconds)
        i = int(x)
        if i + 1 >= len(self.percent):
            return 1.0
        low, high = self.percent[i], self.percent[i + 1]
        return (low + (high - low) * (x - i)) / 100

    def quantile(self, fraction: float) -> float:
        """Seconds, at least 1."""
        wanted = fraction * 100
        i = bisect_left(self.percent, wanted)
        if i == 0:
            return 1.0
        if i == len(self.percent):
            return float(2 ** (i - 1))
        low, high = self.percent[i - 1], self.percent[i]
        return float(2 ** (i - 1 + (wanted - low) / (high - low)))

    def draw(self, rng: Random, shortest: float = 0, longest: float | None = None) -> int:
        """ms, whole seconds; only between ``shortest`` and ``longest``, in seconds."""
        low = self.at(shortest)
        high = 1.0 if longest is None else self.at(longest)
        return max(1, round(self.quantile(low + (high - low) * rng.random()))) * SECOND


class Choice(Generic[T]):
    """Draws from values with weights. Raises ValueError without a positive weight."""

    def __init__(self, weights: tuple[tuple[T, float], ...]) -> None:
        self.values = tuple(value for value, weight in weights if weight > 0)
        self.bounds = tuple(accumulate(weight for _, weight in weights if weight > 0))
        if not self.values:
            raise ValueError("nothing to choose from: no weight is above 0")

    def draw(self, rng: Random) -> T:
        at = bisect_right(self.bounds, rng.random() * self.bounds[-1])
        return self.values[min(at, len(self.values) - 1)]


EVALUATION = Curve(
    (2.3, 2.92, 5.21, 10.57, 25.18, 32.78, 37.38, 49.75, 67.18, 79.98, 88.81, 93.87, 96.54, 98.2, 99.08, 99.59, 99.81,
     99.92, 99.98, 100)
)  # fmt: skip
PRETRAIN_SEREN = (
    4.27, 5.71, 9.86, 12.09, 15.6, 20.49, 27.37, 34.88, 46.8, 61.81, 73.43, 80.46, 84.09, 86.62, 88.46, 91.1, 94.33,
    97.21, 98.8, 99.64, 99.99, 100,
)  # fmt: skip
PRETRAIN_KALOS = (
    0, 0, 0, 0, 0, 4.21, 9.83, 14.35, 25.74, 43.84, 57.11, 65.38, 71.93, 76.92, 82.38, 87.84, 93.31, 96.74, 98.92,
    99.86, 100, 100,
)  # fmt: skip
PRETRAIN = Curve(tuple((a + b) / 2 for a, b in zip(PRETRAIN_SEREN, PRETRAIN_KALOS, strict=True)))
"""The mean of both clusters: Kalos does little else, and there are few on Seren."""
SFT = Curve(
    (1.01, 1.48, 3.46, 6.56, 12.62, 21.68, 27.59, 37.52, 57.62, 78.81, 89.28, 94.5, 97.35, 98.65, 99.17, 99.53, 99.81,
     99.94, 99.99, 100)
)  # fmt: skip
MLLM = Curve(
    (2.09, 3.07, 5.09, 9.4, 14.7, 27.37, 33.45, 40.85, 50.18, 66.85, 79.71, 85.62, 89.18, 91.31, 92.92, 97.33, 98.89,
     99.48, 99.84, 100)
)  # fmt: skip
DEBUG = Curve(
    (3.68, 4.61, 6.31, 11.72, 19.34, 29.8, 39.13, 52.16, 68.38, 81.96, 91.23, 95.52, 97.37, 98.3, 98.82, 99.24, 99.58,
     99.8, 99.87, 99.98, 100)
)  # fmt: skip
OTHER = Curve(
    (2.49, 3.02, 9.39, 22.83, 29.09, 39.03, 46.82, 58.89, 70.92, 79.49, 85.55, 89.22, 94.2, 95.33, 96.66, 98.02, 99.33,
     99.64, 99.85, 99.95, 100)
)  # fmt: skip

PUBLISHED_LARGEST = 1024
"""GPUs: nearly all published jobs are at most this large, on clusters of 2,288 and 2,416 GPUs."""


@dataclass(frozen=True, slots=True)
class Ends:
    """How jobs end, as weights: by themselves, cancelled by their owner while they run, with an error."""

    completed: float
    cancelled: float
    failed: float


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of work.

    ``charged_time`` and ``free_time``: its weight among the GPU time of charged and of unallocated work. ``sizes``:
    weights of GPU counts, as on a cluster of the published size; what is above 8 is scaled to the cluster and the
    budget. ``tries``: how many short runs on at most 8 GPUs come before a charged launch, on average. ``false_starts``:
    how many launches at full size fail within minutes before one lasts, on average. ``sweep``: the mean number of jobs
    of one unallocated launch, ``charged_sweep`` of a charged one. ``long``: whether launches that are large for the
    cluster run for days to weeks. ``resumable``: the fraction of launches that can resume. ``ends``: of real runs.
    ``tries_as``: the kind that the tries are of, when it is another.
    """

    name: str
    duration: Curve
    sizes: tuple[tuple[int, float], ...]
    charged_time: float
    free_time: float
    tries: float
    false_starts: float = 0.0
    charged_sweep: float = 1.0
    sweep: float = 4.0
    long: bool = False
    resumable: float = 0.85
    ends: Ends = Ends(0.55, 0.25, 0.2)
    tries_as: str = ""


KINDS = (
    Kind(
        "evaluation",
        EVALUATION,
        ((1, 0.64), (2, 0.10), (4, 0.04), (8, 0.22)),
        charged_time=1.0,
        free_time=3.6,
        tries=0,
        charged_sweep=3.0,
        sweep=8.0,
        resumable=0.95,
        ends=Ends(0.53, 0.03, 0.44),
    ),
    Kind(
        "sft",
        SFT,
        ((1, 0.20), (2, 0.22), (4, 0.03), (8, 0.47), (16, 0.04), (32, 0.025), (64, 0.015)),
        charged_time=2.6,
        free_time=1.6,
        tries=6,
        charged_sweep=1.5,
        sweep=6.0,
    ),
    Kind(
        "mllm",
        MLLM,
        ((1, 0.34), (2, 0.05), (4, 0.05), (8, 0.33), (16, 0.06), (32, 0.07), (64, 0.06), (128, 0.04)),
        charged_time=4.0,
        free_time=2.0,
        tries=4,
        charged_sweep=1.5,
        sweep=4.0,
    ),
    Kind(
        "debug",
        DEBUG,
        ((1, 0.10), (8, 0.75), (16, 0.05), (32, 0.05), (64, 0.05)),
        charged_time=1.0,
        free_time=0.0,
        tries=5,
        resumable=0.2,
    ),
    Kind(
        "pretrain",
        PRETRAIN,
        ((16, 0.06), (32, 0.12), (64, 0.20), (128, 0.24), (256, 0.18), (512, 0.12), (1024, 0.08)),
        charged_time=72.0,
        free_time=4.6,
        tries=4,
        false_starts=1.0,
        sweep=3.0,
        long=True,
        resumable=1.0,
        tries_as="debug",
        ends=Ends(0.18, 0.72, 0.1),
    ),
    Kind(
        "other",
        OTHER,
        ((1, 0.53), (2, 0.05), (4, 0.02), (8, 0.36), (16, 0.02), (32, 0.015), (64, 0.005)),
        charged_time=0.6,
        free_time=4.4,
        tries=4,
        sweep=5.0,
        resumable=0.85,
        ends=Ends(0.55, 0.1, 0.35),
    ),
)
"""GPU time by kind as on Seren: pretraining 69.5 %, multimodal 8.6 %, other 7.6 %, fine-tuning 6.4 %, evaluation 6.2 %,
debugging 1.7 %. By the number of jobs evaluation is 65 %. Medians and quartiles of the sizes are the published ones,
their weights chosen so that all kinds together give the published counts of jobs by size.
"""

TRY_ENDS = Ends(0.42, 0.08, 0.5)
FALSE_START_ENDS = Ends(0.0, 0.15, 0.85)
