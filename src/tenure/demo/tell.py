"""How the demo looks: a timeline with reasons, in colour when somebody looks, plain otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.padding import Padding
from rich.status import Status
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 100
WIDEST = 120
QUIET_S = 2.0
"""After so long a silence a plain output says what is waited for ..."""
QUIET_AGAIN_S = 5.0
"""... and again after so long."""
_TIME = 7
_LINE = _TIME + 2
_NOTE = _LINE + 2
_COMMAND = 38


class Teller:
    """Prints the story. ``began``: ms since the epoch that count as 0."""

    def __init__(self, console: Console) -> None:
        if not console.is_terminal:
            console.width = PLAIN_WIDTH
        elif console.width > WIDEST:
            console.width = WIDEST
        self.console = console
        self.began = 0
        self._status: Status | None = None
        self._spoke = time.monotonic()
        self._quiet = QUIET_S
        self._spaced = True

    @contextmanager
    def live(self) -> Iterator[None]:
        """On a terminal, a line at the bottom says what is waited for."""
        if not self.console.is_terminal:
            yield
            return
        with self.console.status("", spinner="line") as self._status:
            yield
        self._status = None

    def idle(self, text: str) -> None:
        """Nothing happens; say what is waited for, and not too often."""
        if self._status is not None:
            self._status.update(Text(text, style="dim", no_wrap=True, overflow="ellipsis"))
        elif time.monotonic() - self._spoke > self._quiet:
            self._print(Text(f"... {text}", style="dim"), _LINE)
            self._quiet = QUIET_AGAIN_S

    def offset(self, at: int) -> str:
        return f"{(at - self.began) / 1000:.1f}s"

    def space(self) -> None:
        """One empty line, however often it is asked for."""
        if not self._spaced:
            self.console.print()
        self._spaced = True

    def heading(self, title: str, text: str = "") -> None:
        """A new part of the story, and what to watch for."""
        self.space()
        self.console.rule(Text(title, style="bold"), align="left", style="dim")
        if text:
            self.paragraph(text)

    def paragraph(self, text: str, style: str = "") -> None:
        self._print(Text(text, style=style), 0)

    def line(self, at: int, text: str, style: str = "", why: str = "") -> None:
        """Something that happened at ``at``, and why."""
        self._print(Text(text, style=style), _LINE, Text(f"{self.offset(at):>{_TIME}}", style="dim"))
        if why:
            self.note(why)

    def note(self, text: str, style: str = "dim") -> None:
        """More about the line above."""
        self._print(Text(text, style=style), _NOTE)

    def log(self, name: str, text: str) -> None:
        """A line of a job's own output."""
        self._print(Text.assemble((f"{name} | ", "dim"), (text, "cyan")), _NOTE)

    def table(self, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], note: str) -> None:
        """Numbers; the first column is to the left."""
        made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
        for head in heads:
            made.add_column(head, justify="left" if head == heads[0] else "right", no_wrap=True)
        for row in rows:
            made.add_row(*row)
        self.space()
        self._print(Text(title, style="bold"), _LINE)
        self.console.print(Padding(made, (0, 0, 0, _LINE), expand=False))
        self._print(Text(note, style="dim"), _LINE)
        self.space()

    def command(self, text: str, meaning: str = "") -> None:
        """Something to type, unbroken so that it can be copied; the meaning is a comment to a shell."""
        comment = f" # {meaning}" if meaning else ""
        shown = Text.assemble("  ", (f"{text:<{_COMMAND}}" if comment else text, "bold green"), (comment, "dim"))
        self.console.print(shown, soft_wrap=True)

    def check(self, passed: bool, text: str, detail: str) -> None:
        mark = Text(f"{'seen':>{_TIME}}", style="green") if passed else Text("MISSING", style="bold red")
        self._print(Text.assemble(text, (f": {detail}" if detail else "", "dim")), _LINE, mark)

    def _print(self, text: Text, indent: int, left: Text | None = None) -> None:
        """Text with a margin, and with ``left`` in the margin of its first line."""
        left = left if left is not None else Text("")
        for row in text.wrap(self.console, self.console.width - indent):
            row.rstrip()
            margin = " " * (indent - len(left))
            self.console.print(Text.assemble(left, margin, row), soft_wrap=True)
            left = Text("")
        self._spoke, self._quiet, self._spaced = time.monotonic(), QUIET_S, False
