"""Markdown that shows what it is given: nobody's name makes a table, a link or a tag."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenure.units import printable


def plain(text: str) -> str:
    """A text that means nothing to Markdown or HTML, on one line."""
    text = " ".join(printable(text).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{character}" if character in "\\`*_[]|#~" else character for character in text)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table; texts become plain."""
    lines = ["| " + " | ".join(map(plain, heads)) + " |", "|---" * len(heads) + "|"]
    return lines + ["| " + " | ".join(map(plain, row)) + " |" for row in rows]


def points(texts: Iterable[str]) -> list[str]:
    """Lines of a list; texts become plain."""
    return [f"- {plain(text)}" for text in texts]
