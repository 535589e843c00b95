"""The repository's pages as text: code blocks, code spans, headings and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

_BLOCK = re.compile(r"^(?P<indent> *)```(?P<info>[^\n]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced code block. ``info``: what stands behind the fence."""

    info: str
    text: str

    @property
    def language(self) -> str:
        return self.info.partition(" ")[0]


def text_of(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def blocks(text: str) -> list[Block]:
    return [Block(m["info"].strip(), m["text"]) for m in _BLOCK.finditer(text)]


def prose(text: str) -> str:
    """What is left without code blocks."""
    return _BLOCK.sub("", text)


def spans(text: str) -> list[str]:
    """Code spans outside of blocks, on one line each."""
    return [" ".join(m[1].split()) for m in _SPAN.finditer(prose(text))]


def links(text: str) -> list[str]:
    """Targets of links and pictures."""
    return _LINK.findall(_SPAN.sub("", prose(text)))


def anchors(text: str) -> set[str]:
    """Names of a page's headings, as they are linked to."""
    found = set()
    for heading in _HEADING.findall(prose(text)):
        plain = re.sub(r"[^\w\- ]", "", _SPAN.sub(r"\1", heading).strip().lower())
        found.add(plain.replace(" ", "-"))
    return found


def rows(text: str) -> Iterator[list[str]]:
    """Cells of every table row."""
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
