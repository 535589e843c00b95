"""Tables that fit the terminal: numbers whole, sentences on several lines, and without what matters least."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

_BETWEEN = 2
_SENTENCE = 24
"""Columns for what has several lines, at least, if it is so long."""
_NAME, _WHOLE_NAME = 8, 24
"""Columns of a name at least, and before others get more."""
_NAMES = {"NAME", "USER", "BUDGET", "WHO", "LABEL", "TO", "ACCOUNT", "HOST", "CLUSTER", "PARTITION"}
"""Headings of what may be cut: it can be recognised by its beginning."""


class Fitting(Table):
    """An open table: no lines, two spaces between columns, bold heads. How wide it is is decided when it is shown.

    ``spare``: headings of columns that are done without where there is no room, the first of them first.
    """

    def __init__(self, spare: Iterable[str] = ()) -> None:
        super().__init__(box=None, pad_edge=False, header_style="bold", padding=(0, _BETWEEN, 0, 0))
        self.spare = tuple(spare)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = self._widths(console, options.max_width)
        shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _BETWEEN, 0, 0))
        kept = [column for column in self.columns if wide is None or str(column.header) in wide]
        for column in kept:
            shown.add_column(
                column.header,
                justify=column.justify,
                overflow=column.overflow,
                no_wrap=column.no_wrap,
                width=wide[str(column.header)] if wide is not None else None,
                min_width=column.min_width if wide is None else None,
            )
        for row in zip(*(column.cells for column in kept), strict=True):
            shown.add_row(*row)
        yield shown

    def _widths(self, console: Console, room: int) -> Mapping[str, int] | None:
        """Columns by heading, without those there is no room for; None where even the rest has none."""
        longest = {str(column.header): _longest(console, column) for column in self.columns}
        least = {str(column.header): _least(column, longest[str(column.header)]) for column in self.columns}
        for name in self.spare:
            if _needed(least) <= room:
                break
            least.pop(name, None)
        if _needed(least) > room:
            return None
        names = [name for name in least if name in _NAMES]
        folded = [str(column.header) for column in self.columns if not column.no_wrap]
        sentences = [name for name in folded if name in least]
        _widen(least, names, {name: min(longest[name], _WHOLE_NAME) for name in names}, room)
        _widen(least, [*sentences, *names], longest, room)
        return least


def _longest(console: Console, column: Column) -> int:
    return max((_length(console, cell) for cell in (column.header, *column.cells)), default=0)


def _length(console: Console, cell: RenderableType) -> int:
    text = cell if isinstance(cell, Text) else console.render_str(str(cell))
    return max((line.cell_len for line in text.split()), default=0)


def _least(column: Column, longest: int) -> int:
    head = len(str(column.header))
    if str(column.header) in _NAMES:
        # It is the end of a budget's path that tells it from others.
        whole = _WHOLE_NAME if str(column.header) == "BUDGET" and column.no_wrap else _NAME
        return min(longest, max(head, whole))
    return longest if column.no_wrap else min(longest, max(head, _SENTENCE))


def _needed(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + _BETWEEN * (len(widths) - 1)


def _widen(widths: dict[str, int], names: Sequence[str], wanted: Mapping[str, int], room: int) -> None:
    """Give what is left to those that want more, the first first."""
    for name in names:
        widths[name] += max(0, min(wanted[name] - widths[name], room - _needed(widths)))
