"""Tables fit the terminal that they are shown in: numbers whole, sentences folded, what matters least left out."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tenure.cli import render

HEADS = ("ID", "STATE", "NAME", "BUDGET", "GPUS", "PRI", "AGE", "WHERE / WHY")
ROW = (
    "123456",
    "timed out",
    "a very long name of a job that goes on and on",
    "lab/language/pretrain",
    "1024",
    "-1000000",
    "12d23h",
    "Waiting for GPUs: it needs 1024, and 16 are free; first to lose their protection: 1.1 until 10:00.",
)


def lines(width: int, rows: int = 1) -> list[str]:
    made = render.table(
        *HEADS, right=("ID", "GPUS", "PRI", "AGE"), fold=("WHERE / WHY",), spare=("PRI", "AGE", "BUDGET")
    )
    for _ in range(rows):
        made.add_row(*ROW)
    console = Console(file=io.StringIO(), width=width)
    console.print(made)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


def test_at_80_columns_numbers_are_whole_and_the_sentence_has_room() -> None:
    found = lines(80)
    assert found[0].split() == ["ID", "STATE", "NAME", "GPUS", "WHERE", "/", "WHY"]
    first = found[1]
    assert all(whole in first for whole in ("123456", "timed out", "1024")) and "a very l" in first
    said = " ".join(line[found[0].index("WHERE") :].strip() for line in found[1:])
    assert said == ROW[-1]
    assert max(map(len, found)) <= 80


@pytest.mark.parametrize(
    ("width", "heads"),
    [(240, HEADS), (100, HEADS), (99, tuple(head for head in HEADS if head != "PRI"))],
)
def test_with_more_room_there_is_more(width: int, heads: tuple[str, ...]) -> None:
    found = lines(width)
    assert [head for head in HEADS if head in found[0]] == list(heads)
    assert "lab/language/pretrain" in found[1]


def test_where_there_is_no_room_at_all_it_is_a_table_still() -> None:
    assert lines(20) and max(map(len, lines(20))) <= 20


@pytest.mark.parametrize("width", [20, 80, 240])
def test_no_rows(width: int) -> None:
    assert len(lines(width, rows=0)) == 1


def test_wide_letters_count_as_what_they_take() -> None:
    made = render.table("NAME", "N", right=("N",))
    made.add_row("日本語の仕事", "1")
    made.add_row("job", "2")
    console = Console(file=io.StringIO(), width=80)
    console.print(made)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.splitlines()[1] == "日本語の仕事  1" and text.splitlines()[2].startswith("job           2")
