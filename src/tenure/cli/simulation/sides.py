"""Who gains and who loses, in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table as Shown

    from tenure.reports.html import Table

_PEOPLE = 20
"""Rows of people that are shown; the files have all."""
_LONG = ("Work",)
"""Tables that are in the files only."""
_SPARED = ("never started", "of its due", "median wait", "later", "sooner", "90 % within", "GPU-hours")
"""What a narrow terminal does without, the first of it first; the last that a table has stays."""
_NAME = 28
"""So much room names have at least; longer ones may be folded."""
_SHORT = 8
_BETWEEN = 2
"""Spaces between columns."""


def show_sides(found: dict[str, Any], files: Sequence[Path]) -> None:
    """Words first, then tables, then what to know. ``found``: what ``reports.sides_files.report`` gives."""
    from rich.text import Text

    from tenure.cli import render
    from tenure.reports.sides_files import PAGE_FILE, WORST, about, pairs, tables_of
    from tenure.units import printable

    output = render.output()
    page = next((str(path) for path in files if path.name == PAGE_FILE), f"{PAGE_FILE}, which --out DIR writes")
    output.print(Text(about(found)))
    for pair in pairs(found):
        output.print()
        output.print(Text(printable(pair["heading"]), style="bold"))
        for line in pair["said"]:
            output.print(Text(printable(f"- {line}")), soft_wrap=True)
    for made in tables_of(found):
        if made.title in _LONG:
            continue
        rows = made.rows[:_PEOPLE] if made.title == "People" else made.rows
        if made.title == "Evictions":
            rows = [row for row in rows if row[0] != WORST]  # the sentences have it, and it is wide
        table, left_out = fitting(made, rows, output.width)
        output.print()
        output.print(Text(made.title, style="bold"))
        output.print(table)
        if made.title == "People" and len(rows) < len(made.rows):
            output.print(f"and {len(made.rows) - len(rows)} more: see --json or --out")
        if left_out:
            output.print(Text(printable(f"Not shown here: {', '.join(left_out)}: see {page}")), soft_wrap=True)
    output.print()
    for line in found["notes"]:
        output.print(Text(printable(f"- {line}")), soft_wrap=True)
    output.print(Text(printable(f"What each figure is, and the table of work: see {page}")), soft_wrap=True)
    for path in files:
        output.print(Text(printable(f"wrote {path}")), soft_wrap=True)


def fitting(made: Table, rows: Sequence[Sequence[str]], width: int) -> tuple[Shown, list[str]]:
    """A table whose figures stand on one line each, and what there is no room for: what matters least, for all sides,
    and after that the last sides. Names and heads may have several lines.
    """
    from rich.table import Table as Shown
    from rich.text import Text

    from tenure.units import printable

    heads, cells = [printable(head) for head in made.head], [[printable(cell) for cell in row] for row in rows]
    longest = [max([0, *(len(row[place]) for row in cells)]) for place in range(len(heads))]
    least = [max([length, *map(len, head.split())]) for length, head in zip(longest, heads, strict=True)]
    least[0] = min(least[0], _NAME)
    kept = list(range(len(heads)))
    for spared in _sparing(heads):
        if _needed(least, kept) <= width:
            break
        kept = [place for place in kept if place not in spared]
    # Where even the figures of one side leave names too little room, they have what is left.
    least[0] = max(_SHORT, min(least[0], least[0] + width - _needed(least, kept)))
    wide = _widened({place: (least[place], longest[place], len(heads[place])) for place in kept}, width)
    table = Shown(box=None, pad_edge=False, header_style="bold", padding=(0, _BETWEEN, 0, 0))
    for place in kept:
        table.add_column(Text(heads[place]), justify="right" if place else "left", width=wide[place], overflow="fold")
    for row in cells:
        table.add_row(*(Text(row[place], no_wrap=place > 0, overflow="fold") for place in kept))
    return table, _left_out(heads, kept)


def _needed(least: Sequence[int], kept: Sequence[int]) -> int:
    return sum(least[place] + _BETWEEN for place in kept)


def _widened(columns: dict[int, tuple[int, int, int]], width: int) -> dict[int, int]:
    """Widths, when what is left of ``width`` goes to the longest names, and then to the heads that need it most.
    ``columns``: place -> the least width, the longest cell, the length of the head.
    """
    wide = {place: least for place, (least, _, _) in columns.items()}
    room = width - sum(one + _BETWEEN for one in wide.values())
    longer = max(0, min(room, columns[0][1] - wide[0]))
    wide[0], room = wide[0] + longer, room - longer
    for _ in range(room):
        place = max(wide, key=lambda one: columns[one][2] / max(1, wide[one]))
        if columns[place][2] <= wide[place]:
            break
        wide[place] += 1
    return wide


def _sparing(heads: Sequence[str]) -> list[set[int]]:
    """Sets of columns in the order in which they are done without; the name and the first figure stay."""
    there = [name for name in _SPARED if name in map(_figure, heads)]
    groups = [{place for place, head in enumerate(heads) if _figure(head) == name} for name in there[:-1]]
    return [*groups, *({place} for place in range(len(heads) - 1, 1, -1))]


def _left_out(heads: Sequence[str], kept: Sequence[int]) -> list[str]:
    """A figure that is there for no side has its name alone."""
    there = {_figure(heads[place]) for place in kept}
    gone = [head for place, head in enumerate(heads) if place not in kept]
    return list(dict.fromkeys(_of_side(head) if _figure(head) in there else _figure(head) for head in gone))


def _of_side(head: str) -> str:
    name, _, side = head.partition(", ")
    return f"{name} ({side})" if side else name


def _figure(head: str) -> str:
    return head.partition(", ")[0]
