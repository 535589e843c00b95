"""Units at the edges: what people write, exactly, and errors that say what would work."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure import units
from tenure.core.model import DAY, GPU, HOUR, MINUTE, SECOND, SHARE_ONE


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("00", 0),
        ("0s", 0),
        ("2h30m", 150 * MINUTE),
        ("90s", 90 * SECOND),
        ("1d12h", 36 * HOUR),
        ("1w", 7 * DAY),
        ("250ms", 250),
        ("1.5h", 90 * MINUTE),
        ("2H30M", 150 * MINUTE),
        (" 2 hours 5 min ", 125 * MINUTE),
        ("02:30:00", 150 * MINUTE),
        ("100:00:01", 100 * HOUR + SECOND),
        ("1-12:00:00", 36 * HOUR),
        ("1-12:30", 36 * HOUR + 30 * MINUTE),
        ("2-0", 2 * DAY),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert units.parse_duration(text) == ms


@pytest.mark.parametrize(
    ("text", "ms", "exact"),
    [
        ("0s", 0, "0s"),
        ("2h30m", 150 * MINUTE, "2h30m"),
        ("7d", 7 * DAY, "7d"),
        ("999ms", 999, "999ms"),
        ("1s", 1999, "1s999ms"),
        ("1d1s", DAY + SECOND + 1, "1d1s1ms"),
        ("-5m", -5 * MINUTE, "-5m"),
    ],
)
def test_format_durations(text: str, ms: int, exact: str) -> None:
    assert units.format_duration(ms) == text
    assert units.format_duration(ms, exact=True) == exact


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("0", 0),
        ("512M", 512),
        ("64G", 65536),
        ("64GiB", 65536),
        ("64gb", 65536),
        ("64Gi", 65536),
        ("1T", 1 << 20),
        ("1.5G", 1536),
        ("2048K", 2),
        (" 8 G ", 8192),
    ],
)
def test_memory(text: str, mib: int) -> None:
    assert units.parse_memory(text) == mib


@pytest.mark.parametrize(("text", "thousandths"), [("4", 4000), ("0.5", 500), ("0", 0), (" 1.125 ", 1125)])
def test_cpus(text: str, thousandths: int) -> None:
    assert units.parse_cpus(text) == thousandths


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("0", 0),
        ("1", SHARE_ONE),
        ("100%", SHARE_ONE),
        ("0.35", 350_000),
        ("35 %", 350_000),
        ("1/4", 250_000),
        ("0.000001", 1),
        ("33.3333%", 333_333),
        ("0.3500000", 350_000),
    ],
)
def test_shares(text: str, share: int) -> None:
    assert units.parse_share(text) == share


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-10-09T12:00:00Z", 1_791_547_200_000),
        ("2026-10-09t14:00:00.5+02:00", 1_791_547_200_500),
        ("2026-10-09 12:00:00.123987Z", 1_791_547_200_123),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert units.parse_time(text) == ms


Parser = Callable[[str], int]

REFUSED: list[tuple[Parser, str, str]] = [
    (units.parse_duration, "3600", "3600s"),
    (units.parse_duration, "", "2h30m"),
    (units.parse_duration, "soon", "2h30m"),
    (units.parse_duration, "5 parsecs", "2h30m"),
    (units.parse_duration, "-5m", "negative"),
    (units.parse_duration, "30m2h", "largest unit first"),
    (units.parse_duration, "1h1h", "at most once"),
    (units.parse_duration, "10:30", "10h30m"),
    (units.parse_duration, "1:60:00", "up to 59"),
    (units.parse_duration, "1-24:00:00", "up to 23"),
    (units.parse_duration, "1h30", "2h30m"),
    (units.parse_duration, "0.0001s", "whole milliseconds"),
    (units.parse_duration, "1e5s", "2h30m"),
    (units.parse_duration, "40000d", "36500d"),
    (units.parse_duration, "9" * 5000 + "s", "2h30m"),
    (units.parse_duration, "\u0665h", "2h30m"),
    (units.parse_memory, "64", "64G"),
    (units.parse_memory, "-1G", "512M"),
    (units.parse_memory, "1K", "whole MiB"),
    (units.parse_memory, "1P", "512M"),
    (units.parse_memory, "2000T", "1024T"),
    (units.parse_cpus, "0.0005", "3 decimals"),
    (units.parse_cpus, "many", "0.5"),
    (units.parse_cpus, "-1", "0.5"),
    (units.parse_cpus, "2000000", "at most"),
    (units.parse_share, "35", "35%"),
    (units.parse_share, "350%", "between 0 and 1"),
    (units.parse_share, "1/3", "0.333333"),
    (units.parse_share, "1/0", "0.35"),
    (units.parse_share, "0.1234567", "0.123456"),
    (units.parse_share, "nan", "0.35"),
    (units.parse_share, "-0.1", "0.35"),
    (units.parse_time, "2026-10-09T12:00:00", "2026-10-09T12:00:00Z"),
    (units.parse_time, "2026-02-30T12:00:00Z", "no such date"),
    (units.parse_time, "2026-10-09T12:00:00+99:00", "no such date"),
    (units.parse_time, "0001-01-01T00:00:00+02:00", "1970"),
    (units.parse_time, "1969-12-31T23:59:59Z", "1970"),
    (units.parse_time, "tomorrow", "2026-10-09T12:00:00Z"),
]


@pytest.mark.parametrize(("parse", "text", "fix"), REFUSED)
def test_refusals_say_value_and_what_would_work(parse: Parser, text: str, fix: str) -> None:
    with pytest.raises(units.UnitError) as caught:
        parse(text)
    assert fix in caught.value.fix
    assert caught.value.value in str(caught.value)
    assert len(caught.value.value) <= 80


@given(st.integers(0, units.MAX_DURATION))
def test_durations_round_trip(ms: int) -> None:
    assert units.parse_duration(units.format_duration(ms, exact=True)) == ms
    assert abs(units.parse_duration(units.format_duration(ms)) - ms) < SECOND


@given(st.integers(0, units.MAX_MEMORY))
def test_memory_round_trips(mib: int) -> None:
    assert units.parse_memory(units.format_memory(mib)) == mib


@given(st.integers(0, units.MAX_COUNT))
def test_thousandths_round_trip(amount: int) -> None:
    assert units.parse_cpus(units.format_cpus(amount)) == amount
    assert units.format_gpus(amount) == units.format_cpus(amount)


@given(st.integers(0, SHARE_ONE))
def test_shares_round_trip(share: int) -> None:
    assert units.parse_share(units.format_share(share)) == share
    assert units.parse_share(units.format_fraction(share)) == share


@given(st.integers(0, 253_402_300_799_999))
def test_times_round_trip(ms: int) -> None:
    assert units.parse_time(units.format_time(ms)) == ms


@given(st.sampled_from([parse for parse, _, _ in REFUSED]), st.text(max_size=30))
def test_any_text_parses_or_is_refused_with_a_fix(parse: Parser, text: str) -> None:
    try:
        assert parse(text) >= 0
    except units.UnitError as error:
        assert error.fix


def test_amounts_and_ratios_are_rounded_without_floats() -> None:
    assert units.format_gpu_hours(48 * 1000 * HOUR) == "48.0"
    assert units.format_gpu_hours(1000 * HOUR // 20, digits=1) == "0.1"
    assert units.format_ratio(98, 100) == "0.98"
    assert units.format_ratio(-1, 3) == "-0.33"
    assert units.format_ratio(-1, 1000) == "0.00"
    assert units.format_ratio(2, 3, digits=0) == "1"
    assert units.format_ratio(1, 0) == "-"
    assert units.format_fraction(SHARE_ONE) == "1.0"
    assert units.format_gpus(-1500) == "-1.5"


@pytest.mark.parametrize(
    ("text", "indices", "throttle", "step"),
    [
        ("0-3", (0, 1, 2, 3), 0, 1),
        ("0,6,16-18", (0, 6, 16, 17, 18), 0, 1),
        ("0-15:4%2", (0, 4, 8, 12), 2, 4),
        ("7", (7,), 0, 1),
        ("3,1,1-2", (1, 2, 3), 0, 1),
        ("[0-9:3,1]%10", (0, 1, 3, 6, 9), 10, 3),
        ("0,4,8%0", (0, 4, 8), 0, 1),
        ("4000000", (4_000_000,), 0, 1),
    ],
)
def test_arrays(text: str, indices: tuple[int, ...], throttle: int, step: int) -> None:
    """Steps are those that a real sbatch 22.05 gives to its jobs."""
    array = units.parse_array(text)
    assert (array.indices, array.throttle, array.step) == (indices, throttle, step)


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("", "write indices like 0-15"),
        ("4-2", "the smaller index comes first"),
        ("0-3:0", "a step is at least 1"),
        ("1,,2", "write indices like"),
        ("-1", "write indices like"),
        ("0-3%", "a number follows %"),
        ("0-3%x", "a number follows %"),
        ("0-9999,20000", "that is 10001 jobs, and an array has at most 10000"),
        ("0-999999", "that is 1000000 jobs"),
        ("0-4000001", "indices go up to 4000000"),
    ],
)
def test_arrays_that_are_refused(text: str, fix: str) -> None:
    with pytest.raises(units.UnitError, match=re.escape(fix)) as refused:
        units.parse_array(text)
    assert refused.value.value == text


@given(st.sets(st.integers(0, 60), min_size=1))
def test_indices_round_trip(indices: set[int]) -> None:
    rising = tuple(sorted(indices))
    assert units.parse_indices(units.format_indices(rising)) == rising


@pytest.mark.parametrize(
    ("indices", "text"),
    [((0, 1, 2, 5), "0-2,5"), ((0, 5, 10), "0-10:5"), ((0, 5), "0,5"), ((1, 3, 4), "1,3-4"), ((0, 1, 3, 5), "0-1,3,5")],
)
def test_indices_are_shown_short(indices: tuple[int, ...], text: str) -> None:
    assert units.format_indices(indices) == text
    assert units.format_array(indices, 3) == f"{text}%3"


@pytest.mark.parametrize(("text", "job"), [("12", (12, None)), ("12_0", (12, 0))])
def test_names_of_jobs(text: str, job: tuple[int, int | None]) -> None:
    assert units.parse_job(text) == job
    for wrong in (f"{text}_", f"-{text}", "0", "x", "99999999999999999999"):
        with pytest.raises(units.UnitError, match="write a job's number"):
            units.parse_job(wrong)


NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2h30m", NOW - 9_000_000),
        ("3d ago", NOW - 3 * 86_400_000),
        ("0s", NOW),
        ("2026-10-09T12:00:00Z", 1_791_547_200_000),
        (" 2026-10-09T14:00:00+02:00", 1_791_547_200_000),
    ],
)
def test_moments(text: str, at: int) -> None:
    assert units.parse_moment(text, NOW) == at


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("tomorrow", "write 2h or 3d for so long ago, or write it like 2026-10-09T12:00:00Z"),
        ("2026-10-09T12:00:00", "say the zone"),
        ("99y", "write 2h or 3d"),
        ("60y", "write 2h or 3d"),
        ("36000d", "times start in 1970"),
    ],
)
def test_moments_that_are_refused(text: str, fix: str) -> None:
    with pytest.raises(units.UnitError, match=fix) as refused:
        units.parse_moment(text, NOW)
    assert refused.value.value == text


@pytest.mark.parametrize(
    ("amount_ms", "text"),
    [
        (0, "0 GPU-seconds"),
        (GPU * SECOND, "1 GPU-second"),
        (GPU * 59 * SECOND, "59 GPU-seconds"),
        (GPU * MINUTE, "1 GPU-minute"),
        (8 * GPU * 90 * SECOND, "12 GPU-minutes"),
        (GPU * HOUR, "1.0 GPU-hours"),
        (8 * GPU * 12 * MINUTE, "1.6 GPU-hours"),
        (-GPU * HOUR, "-1.0 GPU-hours"),
    ],
)
def test_gpu_time_in_the_unit_that_suits_it(amount_ms: int, text: str) -> None:
    assert units.format_gpu_time(amount_ms) == text


@pytest.mark.parametrize(
    ("ppm", "digits"),
    [
        ((420_000,), 2),
        ((420_000, 420_000), 2),
        ((None, -1), 2),
        ((0, 4_900, None), 3),
        ((0, 400), 4),
        ((1_000_000, 1_000_001), 6),
        ((994_000, 1_000_000, 1_300_000), 2),
        ((996_000, 1_000_000, 1_300_000), 3),
    ],
)
def test_different_ratios_have_as_many_decimals_as_tell_them_apart(ppm: tuple[int | None, ...], digits: int) -> None:
    assert units.digits_apart(*ppm) == digits
