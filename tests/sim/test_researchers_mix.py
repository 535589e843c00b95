"""The work of the synthetic researchers beside the published figures of clusters where language models are trained.

The bounds are in percentage points: the largest distance at the published points. Some lab that does other work misses
them, which is tested as well.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest
from researchers_kit import Entry, Pool, lived

from tenure.core.model import DAY, SECOND
from tenure.sim.researchers import Lab, Machines, Researchers, presets
from tenure.sim.researchers.mix import DEBUG, EVALUATION, MLLM, OTHER, PRETRAIN, SFT, Choice, Curve

SEREN = Curve(
    (2.16, 2.76, 5.6, 11.74, 23.36, 31.7, 37.11, 48.9, 65.62, 79.2, 88.03, 92.94, 95.99, 97.53, 98.44, 99.19, 99.64,
     99.83, 99.93, 99.98, 100.0)
)  # fmt: skip
"""Durations of all its GPU jobs."""
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
SEREN_SIZES = (54.06, 65.43, 67.95, 96.73, 97.85, 98.8, 99.3, 99.53)
"""Percent of its jobs that have at most so many GPUs."""
JOBS_BY_KIND = {"evaluation": 64.9, "sft": 14.9, "other": 14.6, "mllm": 2.9, "debug": 1.9, "pretrain": 0.9}
TIME_BY_KIND = {"pretrain": 69.5, "mllm": 8.6, "other": 7.6, "sft": 6.4, "evaluation": 6.2, "debug": 1.7}


SEEDS = (1, 2, 3)
"""A few large jobs have most of the GPU time of a fortnight, so one seed says little about it."""


@pytest.fixture(scope="module")
def pools() -> list[Pool]:
    return [lived("published", seed) for seed in SEEDS]


@pytest.fixture(scope="module")
def ended(pools: list[Pool]) -> list[Entry]:
    """All that was submitted after the first three days and has run."""
    return [e for pool in pools for e in pool.jobs if e.ended and e.ran and e.submitted > pool.begun + 3 * DAY]


def distance(durations: Sequence[int], curve: Curve) -> float:
    """Largest distance at 2, 4, 8, ... s: ours take 1 s to start and work for 1 s at least."""
    ordered = sorted(durations)
    return max(
        abs(100 * bisect_right(ordered, 2**i * SECOND) / len(ordered) - percent)
        for i, percent in enumerate(curve.percent)
        if i
    )


def size_distance(entries: Sequence[Entry]) -> float:
    sizes = sorted(entry.gpus for entry in entries)
    pairs = zip(SIZES, SEREN_SIZES, strict=True)
    return max(abs(100 * bisect_right(sizes, size) / len(sizes) - percent) for size, percent in pairs)


def percent(weights: Counter[str]) -> dict[str, float]:
    return {name: 100 * weight / weights.total() for name, weight in weights.items()}


def gpu_time(pools: Sequence[Pool], of: Callable[[Entry], str]) -> Counter[str]:
    used = Counter[str]()
    for pool in pools:
        for entry in pool.jobs:
            used[of(entry)] += pool.used(entry)
    return used


def test_durations_are_those_published(ended: list[Entry]) -> None:
    assert len(ended) > 5000
    assert distance([entry.ran for entry in ended], SEREN) < 5


@pytest.mark.parametrize(
    ("kind", "curve", "bound"),
    [
        ("evaluation", EVALUATION, 5),
        ("sft", SFT, 7),
        ("mllm", MLLM, 9),
        ("other", OTHER, 9),
        ("debug", DEBUG, 10),
        ("pretrain", PRETRAIN, 25),  # ours last longer: one job goes on where theirs was started anew
    ],
)
def test_durations_of_each_kind_are_those_published(ended: list[Entry], kind: str, curve: Curve, bound: float) -> None:
    durations = [entry.ran for entry in ended if entry.work.kind == kind]
    assert len(durations) > 50
    assert distance(durations, curve) < bound


def test_gpu_counts_are_those_published(ended: list[Entry]) -> None:
    assert size_distance(ended) < 10


def test_kinds_have_the_published_parts(pools: list[Pool], ended: list[Entry]) -> None:
    jobs = percent(Counter(entry.work.kind for entry in ended))
    time = percent(gpu_time(pools, lambda entry: entry.work.kind))
    for kind, wanted in JOBS_BY_KIND.items():
        assert abs(jobs[kind] - wanted) < 18, kind
    for kind, wanted in TIME_BY_KIND.items():
        assert abs(time[kind] - wanted) < 10, kind


def test_jobs_end_as_published(pools: list[Pool], ended: list[Entry]) -> None:
    """49.7 % completed, 7.5 % cancelled, 42.9 % failed; of the GPU time 21.2, 66.4 and 12.4 %."""
    states = percent(Counter(entry.state for entry in ended if entry.state != "preempted"))
    for state, wanted in (("succeeded", 49.7), ("cancelled", 7.5), ("failed", 42.9)):
        assert abs(states[state] - wanted) < 8, state
    time = gpu_time(pools, lambda entry: entry.state)
    assert time["cancelled"] > time["succeeded"] > time["failed"]


def test_few_people_use_much_of_the_gpu_time(pools: list[Pool]) -> None:
    """Helios, in months: the top 5 % of people use 46 to 61 % of it, the top 25 % 88 to 94 %. More in a fortnight."""
    parts = []
    for pool in pools:
        used = [time for _, time in gpu_time([pool], lambda entry: entry.work.spec.user).most_common()]
        parts.append((sum(used[:8]) / sum(used), sum(used[:38]) / sum(used)))
    assert 0.40 < sum(first for first, _ in parts) / len(parts) < 0.80
    assert 0.80 < sum(second for _, second in parts) / len(parts) < 0.97


def test_a_lab_that_does_other_work_is_found_out() -> None:
    """The bounds above are not so wide that any mix keeps them."""
    kinds = tuple(
        kind if kind.long else replace(kind, duration=PRETRAIN, tries=0, sizes=((8, 0.6), (4, 0.4)))
        for kind in Lab().kinds
    )
    lab = replace(presets["published"], kinds=kinds, clusters=(Machines("main", 11, 8),))
    other = [entry for entry in Pool(Researchers(lab), 88).run(4 * DAY).jobs if entry.ended and entry.ran]
    assert len(other) > 300
    assert distance([entry.ran for entry in other], SEREN) > 8
    assert size_distance(other) > 15


@pytest.mark.parametrize("curve", [EVALUATION, PRETRAIN, SFT, MLLM, DEBUG, OTHER])
def test_a_curve_is_inverted_and_drawn_from(curve: Curve) -> None:
    for seconds in (3.0, 40.0, 700.0, 20_000.0):
        assert curve.quantile(curve.at(seconds)) == pytest.approx(seconds)
    assert list(curve.percent) == sorted(curve.percent)
    rng = Random(1)
    assert distance([curve.draw(rng) for _ in range(4000)], curve) < 4
    short = [curve.draw(rng, longest=900) for _ in range(300)]
    assert max(short) <= 900 * SECOND
    assert min(curve.draw(rng, shortest=900) for _ in range(300)) >= 900 * SECOND


def test_a_choice_follows_its_weights() -> None:
    choice = Choice((("a", 3.0), ("never", 0.0), ("b", 1.0)))
    rng = Random(2)
    drawn = Counter(choice.draw(rng) for _ in range(4000))
    assert set(drawn) == {"a", "b"}
    assert drawn["a"] / 4000 == pytest.approx(0.75, abs=0.03)
    with pytest.raises(ValueError, match="nothing to choose from"):
        Choice((("a", 0.0),))
