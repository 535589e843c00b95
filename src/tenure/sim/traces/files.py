"""Trace files as named streams of lines: plain, gzip, xz, bzip2, tar archives of any of these, and folders."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from io import BufferedReader, RawIOBase, TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from tenure.sim.traces.records import TraceError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_TAR = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2")
_PEEK = 60
"""Lines that ``Source.head`` looks at: SWF files start with a few dozen comments."""
_BUFFER = 1 << 18
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


class Gauge:
    """How far reading is, and a way to break it off. ``moved`` hears (bytes read, bytes there), as files are stored.
    What is skipped in an archive does not count, so reading may be over a little before the end.
    """

    def __init__(self, moved: Callable[[int, int], None] | None = None) -> None:
        self.stopped = False
        self._moved = moved
        self._done = self._there = 0

    def stop(self) -> None:
        """End every source where it is. Whoever reads sees the end of the trace, and finishes what it has begun."""
        self.stopped = True

    def expect(self, path: Path) -> None:
        """The files at ``path`` are to be read."""
        files = path.iterdir() if path.is_dir() else (path,)
        self._there += sum(each.stat().st_size for each in files if each.is_file())

    def more(self, count: int) -> None:
        self._done += count
        if self._moved is not None:
            self._moved(min(self._done, self._there), self._there)


def open_sources(path: Path, gauge: Gauge | None = None) -> Iterator[Source]:
    """The files at ``path``, each to be read before the next is asked for.

    A folder gives its files in the order of their names, an archive in its own order. Bytes that are not UTF-8 come
    out as U+FFFD. Raises TraceError when something cannot be opened or ends too early.
    """
    gauge = gauge or Gauge()
    try:
        gauge.expect(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    return _sources(path, gauge)


def _sources(path: Path, gauge: Gauge) -> Iterator[Source]:
    if path.is_dir():
        for child in sorted(path.iterdir()):
            if child.is_file() and not child.name.startswith(".") and not gauge.stopped:
                yield from _sources(child, gauge)
    elif holds_files(path):
        yield from _members(path, gauge)
    else:
        try:
            with _decompressed(path, gauge) as raw, _text(raw) as text:
                yield Source(path.name, _guarded(text, path, gauge))
        except _BROKEN as error:
            raise _unreadable(path, error) from error


def holds_files(path: Path) -> bool:
    """Whether it is a folder or an archive, by its name."""
    return path.is_dir() or path.name.lower().endswith(_TAR)


def _members(path: Path, gauge: Gauge) -> Iterator[Source]:
    try:
        with _counted(path, gauge) as file, tarfile.open(fileobj=file) as archive:
            for member in archive:
                raw = archive.extractfile(member) if member.isfile() and not gauge.stopped else None
                if raw is not None:
                    yield Source(Path(member.name).name, _guarded(_text(raw), path, gauge))
    except _BROKEN as error:
        raise _unreadable(path, error) from error


class _Counting(RawIOBase):
    """A file whose bytes are counted as they are read."""

    def __init__(self, path: Path, gauge: Gauge) -> None:
        self._file = path.open("rb", buffering=0)
        self._gauge = gauge

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        count = self._file.readinto(buffer)
        self._gauge.more(count or 0)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _counted(path: Path, gauge: Gauge) -> BufferedReader:
    return BufferedReader(_Counting(path, gauge), _BUFFER)


def _decompressed(path: Path, gauge: Gauge) -> IO[bytes]:
    """By the first bytes rather than by the name."""
    file = _counted(path, gauge)
    magic = file.peek(6)[:6]
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(file))
    if magic == b"\xfd7zXZ\x00":
        return lzma.open(file)
    if magic.startswith(b"BZh"):
        return bz2.open(file)
    return file


class _Text(TextIOWrapper):
    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        return iter(partial(self.readline, _LONGEST), "")


def _text(raw: IO[bytes]) -> TextIOWrapper:
    return _Text(cast(BufferedReader, raw), encoding="utf-8-sig", errors="replace")


def _guarded(lines: Iterable[str], path: Path, gauge: Gauge) -> Iterator[str]:
    try:
        for line in lines:
            if gauge.stopped:
                return
            yield line
    except _BROKEN as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> TraceError:
    return TraceError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error or type(error).__name__}")
