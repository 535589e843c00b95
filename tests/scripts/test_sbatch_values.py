"""Values of sbatch, beside what Slurm 22.05 made of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.scripts import values
from tenure.scripts.values import Export, Gpus


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("1:30", 120),
        ("1:2:3", 3780),
        ("2-3", 183_600),
        ("2-3:4", 183_840),
        ("2-3:4:5", 183_900),
        ("2-", 172_800),
        ("1:90:90", 9120),
        ("00:00:01", 60),
        ("0", None),
        ("0:00", None),
        ("UNLIMITED", None),
        ("infinite", None),
        ("-1", None),
    ],
)
def test_times(text: str, seconds: int | None) -> None:
    assert values.parse_time(text) == seconds


@pytest.mark.parametrize("text", ["1:", ":5", "", " 5", "5m", "1h", "2:", "1-1:1:1:1", "1:1:1:1", "5 ", "٣"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="write minutes, minutes:seconds"):
        values.parse_time(text)


def test_a_time_with_units_is_told_where_it_belongs() -> None:
    with pytest.raises(ValueError, match="#TENURE --timeout=2h takes units"):
        values.parse_time("1h30m")


@given(st.integers(0, 500_000))
def test_times_come_back(minutes: int) -> None:
    seconds = minutes * 60
    assert values.parse_time(values.format_time(seconds)) == (seconds or None)
    assert values.parse_time(str(minutes)) == (seconds or None)


@given(st.integers(0, 99), st.integers(0, 200), st.integers(0, 200), st.integers(0, 200))
def test_times_are_what_their_parts_add_up_to(days: int, hours: int, minutes: int, seconds: int) -> None:
    def rounded(total: int) -> int | None:
        return (total + 59) // 60 * 60 or None

    clock = hours * 3600 + minutes * 60 + seconds
    assert values.parse_time(f"{hours}:{minutes}:{seconds}") == rounded(clock)
    assert values.parse_time(f"{days}-{hours}:{minutes}:{seconds}") == rounded(days * 86_400 + clock)
    assert values.parse_time(f"{days}-{hours}:{minutes}") == rounded(days * 86_400 + clock - seconds)
    assert values.parse_time(f"{days}-{hours}") == rounded(days * 86_400 + hours * 3600)
    assert values.parse_time(f"{minutes}:{seconds}") == rounded(minutes * 60 + seconds)


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("4G", 4096),
        ("4GB", 4096),
        ("4g", 4096),
        ("4gb", 4096),
        ("1500K", 2),
        ("1T", 1 << 20),
        ("4096", 4096),
        ("4MB", 4),
    ],
)
def test_memory(text: str, mib: int) -> None:
    assert values.parse_memory(text) == mib


@pytest.mark.parametrize("text", ["1.5G", "4P", "4MiB", "4Gi", "-1", "4 G", "", "G", "4x"])
def test_what_is_no_memory(text: str) -> None:
    with pytest.raises(ValueError, match="write a whole number with K, M, G or T"):
        values.parse_memory(text)


@given(st.integers(0, 10**9), st.sampled_from("kKmMgGtT"))
def test_memory_is_what_its_unit_says(number: int, unit: str) -> None:
    kib = number * {"k": 1, "m": 1 << 10, "g": 1 << 20, "t": 1 << 30}[unit.lower()]
    assert values.parse_memory(f"{number}{unit}") == -(-kib // 1024) == values.parse_memory(f"{number}{unit}B")


@pytest.mark.parametrize(("text", "nodes"), [("2", 2), ("1-2", 1), ("1k", 1024), ("+2", 2), ("4-4", 4)])
def test_nodes(text: str, nodes: int) -> None:
    assert values.parse_nodes(text) == nodes


@pytest.mark.parametrize("text", ["2-1", "0", "2-", "1,2", "2x", "", "-2", "1-2-3"])
def test_what_is_no_number_of_nodes(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        values.parse_nodes(text)


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu", Gpus(1)),
        ("gpu:8", Gpus(8)),
        ("gpu:a100:8", Gpus(8, "a100")),
        ("gpu:a100", Gpus(1, "a100")),
        ("gres/gpu:8", Gpus(8)),
        ("gres:gpu:8", Gpus(8)),
        ("gpu=8", Gpus(8)),
        ("gpu:4(S:0-1)", Gpus(4)),
        ("none", Gpus(0)),
    ],
)
def test_generic_resources(text: str, gpus: Gpus) -> None:
    assert values.parse_gres(text) == gpus


@pytest.mark.parametrize("text", ["disk:1", "gpu:8,disk:1", "gpu:2,gpu:1", "", "gpu:-1", "gpu:a100:x"])
def test_other_resources(text: str) -> None:
    with pytest.raises(ValueError, match="GPUs"):
        values.parse_gres(text)


@pytest.mark.parametrize(("text", "gpus"), [("8", Gpus(8)), ("a100:8", Gpus(8, "a100")), ("0", Gpus(0))])
def test_gpus(text: str, gpus: Gpus) -> None:
    assert values.parse_gpus(text) == gpus


@pytest.mark.parametrize(
    ("text", "name", "seconds"),
    [
        ("USR1", "SIGUSR1", None),
        ("B:USR1@120", "SIGUSR1", 120),
        ("R:SIGTERM@60", "SIGTERM", 60),
        ("rb:10@5", "SIGUSR1", 5),
        ("12", "SIGUSR2", None),
    ],
)
def test_signals(text: str, name: str, seconds: int | None) -> None:
    assert values.parse_signal(text) == (name, seconds)


@pytest.mark.parametrize("text", ["", "KILL", "9", "X:USR1", "USR1@", "USR1@soon", "USR1@123456"])
def test_what_is_no_signal(text: str) -> None:
    with pytest.raises(ValueError, match="like B:USR1@120; the signals are ALRM, HUP, INT, QUIT, TERM, USR1, USR2"):
        values.parse_signal(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("ALL", Export(True)),
        ("NONE", Export(False)),
        ("NIL", Export(False)),
        ("ALL,A=1,B", Export(True, ("B",), (("A", "1"),))),
        ("A='x,y',B=", Export(False, (), (("A", "x,y"), ("B", "")))),
        ('A="it\'s"', Export(False, (), (("A", "it's"),))),
    ],
)
def test_exports(text: str, meant: Export) -> None:
    assert values.parse_export(text) == meant


@pytest.mark.parametrize("text", ["", "A,,B", "=1", "A B"])
def test_what_is_no_export(text: str) -> None:
    with pytest.raises(ValueError, match="write ALL, NONE"):
        values.parse_export(text)


@pytest.mark.parametrize(("text", "name"), [("a-%j.out", "a-%j.out"), ("%5j%%", "%5j%%"), ("a\\%j", "a%%j")])
def test_file_names(text: str, name: str) -> None:
    assert values.check_file(text) == name


@pytest.mark.parametrize("text", ["", "%", "a%q", "%12", "a\nb", "%11j", "%123j"])
def test_what_is_no_file_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"write the name of a file|there is no pattern|at most 10 digits"):
        values.check_file(text)


ANYTHING = st.one_of(st.text(), st.text("0123456789-:kKmMgGtTbB@%,='\" +"))
PARSERS = st.sampled_from(
    [
        values.parse_time,
        values.parse_memory,
        values.parse_count,
        values.parse_nodes,
        values.parse_gpus,
        values.parse_gres,
        values.parse_signal,
        values.parse_export,
        values.check_file,
    ]
)


@given(PARSERS, ANYTHING)
def test_parsers_answer_or_say_what_to_write(parse: object, text: str) -> None:
    try:
        parse(text)  # type: ignore[operator]
    except ValueError as error:
        assert str(error)
