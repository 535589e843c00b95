"""Checkpoints that are there whole or not at all, however the process that writes them ends."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

DIGITS = 12
_saving = threading.Lock()


class Series:
    """Checkpoints ``STEM-000000000120.SUFFIX`` in one directory; ``name``: ``STEM.SUFFIX``, each a file or a folder.

    Raises ValueError for a name with a slash, or none.
    """

    def __init__(self, directory: Path, name: str) -> None:
        if not name or name != Path(name).name or name.startswith("."):
            raise ValueError(f"name={name!r} is no plain file name; use one such as 'checkpoint.pt'")
        self._directory = directory
        self._stem, self._suffix = Path(name).stem, Path(name).suffix
        stem, suffix = re.escape(self._stem), re.escape(self._suffix)
        self._complete = re.compile(rf"{stem}-(\d{{{DIGITS}}}){suffix}")
        self._unfinished = re.compile(rf"\.{stem}-\d{{{DIGITS}}}-(?:new|old){suffix}")

    def newest(self) -> Path | None:
        """Of the highest step."""
        found = self._all()
        return found[-1] if found else None

    def _all(self) -> list[Path]:
        if not self._directory.is_dir():
            return []
        return sorted(path for path in self._directory.iterdir() if self._complete.fullmatch(path.name))

    def save(self, write: Callable[[Path], object], step: int, keep: int, rank: int | None = None) -> Path:
        """``write`` makes the checkpoint at the path that it is given. Afterwards it is the newest: of those before it
        ``keep`` - 1 stay, and those of later steps are of a run that nobody goes on with.

        ``rank``: of several processes that all call this and write together. ``write`` has to return in rank 0 only
        when all have written; rank 0 does the rest.

        Raises ValueError for values that make no sense, and whatever ``write`` and the file system raise; then what was
        there before is there still.
        """
        if keep < 1:
            raise ValueError(f"keep={keep} would leave no checkpoint; use 1 or more")
        if not 0 <= step < 10**DIGITS:
            raise ValueError(f"step={step} is not between 0 and {10**DIGITS - 1}")
        with _saving:
            self._directory.mkdir(parents=True, exist_ok=True)
            path = self._directory / f"{self._stem}-{step:0{DIGITS}}{self._suffix}"
            unfinished = self._beside(path, "new")
            if not rank:
                # Others may be writing already.
                self._sweep(but=None if rank is None else unfinished)
            write(unfinished)
            if rank:
                return path
            _sync_all(unfinished)
            self._put(unfinished, path)
            _sync(self._directory)
            before = [one for one in self._all() if one < path]
            later = [one for one in self._all() if one > path]
            for old in [*before[: max(0, len(before) - keep + 1)], *later]:
                _remove(old)
            return path

    def _put(self, unfinished: Path, path: Path) -> None:
        if path.is_dir():
            # A folder cannot take the place of one in a single step.
            aside = self._beside(path, "old")
            path.rename(aside)
            unfinished.rename(path)
            _remove(aside)
        else:
            unfinished.replace(path)

    def _beside(self, path: Path, what: str) -> Path:
        return self._directory / f".{path.name.removesuffix(self._suffix)}-{what}{self._suffix}"

    def _sweep(self, but: Path | None) -> None:
        """What a killed attempt has left unfinished."""
        for path in list(self._directory.iterdir()):
            if path != but and self._unfinished.fullmatch(path.name):
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync_all(path: Path) -> None:
    """A name that survives a crash of the machine must not stand for an empty file."""
    if path.is_dir():
        for child in path.iterdir():
            _sync_all(child)
    _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
