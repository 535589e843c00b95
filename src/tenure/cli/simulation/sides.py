"""Who gains and who loses, in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PEOPLE = 20
"""Rows of people that are shown; the files have all."""
_LONG = ("Work",)
"""Tables that are in the files only."""


def show_sides(found: dict[str, Any], files: Sequence[Path]) -> None:
    """Words first, then tables, then what to know. ``found``: what ``reports.sides_files.report`` gives."""
    from rich.text import Text

    from tenure.cli import render
    from tenure.reports.sides_files import about, pairs, tables_of
    from tenure.units import printable

    output = render.output()
    output.print(Text(about(found)))
    for pair in pairs(found):
        output.print()
        output.print(Text(printable(pair["heading"]), style="bold"))
        for line in pair["said"]:
            output.print(Text(printable(f"- {line}")), soft_wrap=True)
    for made in tables_of(found):
        if made.title in _LONG:
            continue
        table = render.table(*made.head, right=made.head[1:], fold=made.head[1:])
        rows = made.rows[:_PEOPLE] if made.title == "People" else made.rows
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        output.print()
        output.print(Text(made.title, style="bold"))
        output.print(table)
        if len(rows) < len(made.rows):
            output.print(f"and {len(made.rows) - len(rows)} more: see --json or --out")
    output.print()
    for line in found["notes"]:
        output.print(Text(printable(f"- {line}")), soft_wrap=True)
    for path in files:
        output.print(Text(printable(f"wrote {path}")), soft_wrap=True)
