"""Trace files as named streams of lines: plain, gzip, xz, bzip2, tar archives of any of these, and folders."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from io import BufferedReader, TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import IO, cast

from tenure.sim.traces.records import TraceError

_TAR = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2")
_PEEK = 60
"""Lines that ``Source.head`` looks at: SWF files start with a few dozen comments."""
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError)

_LONGEST = 1 << 20
"""Characters of a line; longer ones come in pieces, so that a file without line breaks need not fit into memory."""


@dataclass(slots=True)
class Source:
    """One file of a trace. Its lines can be read once; a line of more than a million characters comes in pieces."""

    name: str
    lines: Iterator[str]

    @classmethod
    def of(cls, name: str, lines: Iterable[str]) -> Source:
        return cls(name, iter(lines))

    def head(self) -> list[str]:
        """The first lines; reading still starts at the first one."""
        first: list[str] = []
        for line in islice(self.lines, _PEEK):
            first.append(line)
            if len(line) >= _LONGEST:
                break
        self.lines = chain(first, self.lines)
        return first


def open_sources(path: Path) -> Iterator[Source]:
    """The files at ``path``, each to be read before the next is asked for.

    A folder gives its files in the order of their names, an archive in its own order. Bytes that are not UTF-8 come
    out as U+FFFD. Raises TraceError when something cannot be opened or ends too early.
    """
    if path.is_dir():
        for child in sorted(path.iterdir()):
            if child.is_file() and not child.name.startswith("."):
                yield from open_sources(child)
    elif holds_files(path):
        yield from _members(path)
    else:
        try:
            with _decompressed(path) as raw, _text(raw) as text:
                yield Source(path.name, _guarded(text, path))
        except _BROKEN as error:
            raise _unreadable(path, error) from error


def holds_files(path: Path) -> bool:
    """Whether it is a folder or an archive, by its name."""
    return path.is_dir() or path.name.lower().endswith(_TAR)


def _members(path: Path) -> Iterator[Source]:
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                raw = archive.extractfile(member) if member.isfile() else None
                if raw is not None:
                    yield Source(Path(member.name).name, _guarded(_text(raw), path))
    except _BROKEN as error:
        raise _unreadable(path, error) from error


def _decompressed(path: Path) -> IO[bytes]:
    """By the first bytes rather than by the name."""
    with path.open("rb") as file:
        magic = file.read(6)
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(path))
    if magic == b"\xfd7zXZ\x00":
        return lzma.open(path)
    if magic.startswith(b"BZh"):
        return bz2.open(path)
    return path.open("rb")


class _Text(TextIOWrapper):
    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        return iter(partial(self.readline, _LONGEST), "")


def _text(raw: IO[bytes]) -> TextIOWrapper:
    return _Text(cast(BufferedReader, raw), encoding="utf-8-sig", errors="replace")


def _guarded(lines: Iterable[str], path: Path) -> Iterator[str]:
    try:
        yield from lines
    except _BROKEN as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> TraceError:
    return TraceError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error or type(error).__name__}")
