"""Distributions in bins and names in bits: how far off they may be, and that they do not grow."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.model import DAY, HOUR, SECOND
from tenure.reports.traces.records import Distribution
from tenure.sim.traces import Describer
from tenure.sim.traces.sketch import Seen, Sketch

VALUES = st.lists(
    st.tuples(st.one_of(st.integers(0, 100), st.integers(200, 300), st.integers(0, 10**12)), st.integers(1, 10**9)),
    min_size=1,
    max_size=60,
)


def sketched(values: list[tuple[int, int]]) -> Distribution:
    sketch = Sketch()
    for value, gpu_ms in values:
        sketch.add(value, gpu_ms)
    return sketch.distribution()


def exact(values: list[tuple[int, int]], p: int, *, by_gpu_time: bool) -> int:
    """The smallest value that at least ``p`` percent of the weights do not exceed."""
    weighed = sorted((value, gpu_ms if by_gpu_time else 1) for value, gpu_ms in values)
    needed, reached = Fraction(sum(weight for _, weight in weighed) * p, 100), 0
    for value, weight in weighed:
        reached += weight
        if reached >= needed:
            return value
    raise AssertionError


@given(VALUES, st.integers(1, 100), st.booleans())
def test_percentiles_are_within_one_percent(values: list[tuple[int, int]], p: int, by_gpu_time: bool) -> None:
    found = sketched(values)
    true = exact(values, p, by_gpu_time=by_gpu_time)
    assert abs(found.percentile(p, by_gpu_time=by_gpu_time) - true) <= true / 100
    assert (found.jobs, found.gpu_ms) == (len(values), sum(gpu_ms for _, gpu_ms in values))
    assert (found.least, found.most) == (min(values)[0], max(values)[0])


def test_sizes_of_gpus_come_out_exactly() -> None:
    sizes = [1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32, 40, 64, 128, 512, 1024, 10_000]
    found = sketched([(size, 1) for size in sizes])
    assert [found.percentile(-(-100 * (i + 1) // len(sizes)) if i else 1) for i in (0, len(sizes) - 1)] == [1, 10_000]
    assert [one.value for one in found.bins] == sizes


def test_percentiles_by_hand() -> None:
    found = sketched([(10, 900), (20, 50), (30, 50)])
    assert [found.percentile(p) for p in (1, 33, 34, 67, 100)] == [10, 10, 20, 30, 30]
    assert [found.percentile(p, by_gpu_time=True) for p in (50, 90, 91, 95, 96)] == [10, 10, 20, 20, 30]
    assert found.part_up_to(20) == pytest.approx(2 / 3)
    assert found.part_up_to(20, by_gpu_time=True) == pytest.approx(0.95)


@given(VALUES, st.sets(st.integers(0, 10**12), max_size=8).map(sorted))
def test_no_bin_reaches_over_an_edge(values: list[tuple[int, int]], edges: list[int]) -> None:
    near = [(edge + step, 1) for edge in edges for step in (-1, 0, 1) if edge + step >= 0]
    sketch = Sketch(edges)
    for value, gpu_ms in [*values, *near]:
        sketch.add(value, gpu_ms)
    found = sketch.distribution()
    for edge in edges:
        below = sum(value < edge for value, _ in [*values, *near])
        assert sum(one.jobs for one in found.bins if one.value < edge) == below
    assert list(found.bins) == sorted(found.bins, key=lambda one: one.least)


def test_a_sketch_does_not_grow() -> None:
    sketch = Sketch()
    for value in range(0, 3650 * DAY, HOUR + SECOND + 1):
        sketch.add(value, 1)
    assert len(sketch) < 1700
    assert sketch.distribution().jobs == len(range(0, 3650 * DAY, HOUR + SECOND + 1))


@given(st.lists(st.text(max_size=8), max_size=200), st.integers(3, 12))
def test_names_that_came_are_known_however_few_bits_there_are(names: list[str], bits: int) -> None:
    seen = Seen(bits)
    for name in names:
        seen.came(name)
    assert all(seen.came(name) for name in names)


def test_new_names_are_new_where_there_are_bits_enough() -> None:
    seen = Seen(20)
    wrong = sum(seen.came(f"{number}\nada") for number in range(20_000))
    assert wrong <= 2  # (1 - e**(-6 * 20,000 / 2**20))**6 is 1 in 700,000 at the end
    few = Seen(12)
    assert sum(few.came(str(number)) for number in range(20_000)) > 10_000


@pytest.mark.parametrize("seen", [Seen(), Describer()._ids])
def test_of_ten_million_jobs_some_hundred_are_taken_for_others(seen: Seen) -> None:
    """As the docs say, both of rows of a job and of ids that occur twice."""
    bits, step = 8 * len(seen._field), 10_000
    wrong = sum(step * (1 - exp(-6 * there / bits)) ** 6 for there in range(0, 10**7, step))
    assert 50 < wrong < 150


@pytest.mark.parametrize("least", [0, 1, 255, 256, 300, 1000, 123_456])
def test_each_value_of_a_bin_is_within_one_percent_of_its_middle(least: int) -> None:
    values = range(least, least + max(30, least // 20))
    for one in sketched([(value, 1) for value in values]).bins:
        assert all(100 * abs(one.value - value) <= value for value in (one.least, one.most))
