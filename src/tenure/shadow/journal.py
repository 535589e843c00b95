"""The record of a watched site: one file of JSON lines to which is only ever appended.

Each line is on disk before the next look. A line that was cut off by a crash is taken out when the watch goes on, so
what is lost is one look, and the next one sees the same jobs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenure.executors import procs
from tenure.shadow.lives import Lives
from tenure.shadow.seen import Seen

FILE = "record.jsonl"
FORMAT = 1
GAP = 180
"""Seconds without a look from which on something may have been missed: Slurm forgets jobs after ``MinJobAge``."""


class RecordError(Exception):
    """A record that cannot be used; the message says which, why and what would help."""


@dataclass(slots=True)
class Record:
    """What was watched. Seconds since 1970.

    ``site``: what was read of the site when the watch began last (see ``terms``). ``since``: from when on every job is
    known: the first look, or the beginning of the accounting that was read. ``until``: the last look. ``gaps``: times
    without a look. ``hosts``: what became of hosts: (when, name, ``up``, ``drained`` or ``down``).
    """

    site: dict[str, Any] = field(default_factory=dict)
    since: int = 0
    first: int = 0
    until: int = 0
    lives: Lives = field(default_factory=Lives)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    hosts: list[tuple[int, str, str]] = field(default_factory=list)

    def take(self, line: Mapping[str, Any]) -> None:
        """One line of the file. Raises KeyError, TypeError or ValueError for what no watch ever wrote."""
        at = int(line["at"])
        if "site" in line:
            self.site = dict(line["site"])
        for plain in line.get("jobs", ()):
            self.lives.see(at, Seen.of(plain))
        for id in line.get("gone", ()):
            self.lives.gone(at, str(id))
        for name, state in line.get("hosts", {}).items():
            self.hosts.append((at, str(name), str(state)))
        if "history" in line:
            start = int(line["history"])
            self.since = min(self.since or start, start)
            self.gaps = [gap for gap in self.gaps if gap[0] < start]
            self.until = max(self.until, at)
        if line.get("look"):
            if self.until and at - self.until > GAP:
                self.gaps.append((self.until, at))
            self.first = self.first or at
            self.since = min(self.since or at, at)
            self.until = max(self.until, at)


def read_record(folder: Path) -> Record:
    """Raises RecordError, also where there is none yet, and OSError."""
    path = folder / FILE
    if not path.is_file():
        raise RecordError(f"folder = {folder}: nothing was recorded there; run `tenure slurm shadow {folder}` first")
    record = Record()
    for number, line in _lines(path):
        _take(record, path, number, line)
    if not record.until:
        raise RecordError(f"folder = {folder}: its record is empty; run `tenure slurm shadow {folder}` first")
    return record


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Whole lines with their numbers."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n"):
                yield number, line


def _take(record: Record, path: Path, number: int, text: bytes) -> None:
    try:
        line = json.loads(text)
        if number == 1 and line.get("tenure_shadow") != FORMAT:
            raise RecordError(f"{path}: not a record that this release reads (format {FORMAT})")
        record.take(line)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path}, line {number}: cannot be read ({error}); take the line out") from error


class Journal:
    """The file while it is written to. One watch at a time."""

    def __init__(self, folder: Path) -> None:
        """Make the folder where it is missing, and read what is there. Raises RecordError and OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self.record = Record()
        self._file = self.path.open("ab")
        try:
            if not procs.wait_lock(self._file):
                raise RecordError(f"folder = {folder}: another watch writes there; name another folder")
        except BaseException:
            self._file.close()
            raise
        whole = 0
        for number, line in _lines(self.path):
            _take(self.record, self.path, number, line)
            whole += len(line)
        self._file.truncate(whole)
        self._begun = whole > 0

    def write(self, line: dict[str, Any]) -> None:
        """Append a line, on disk when this returns, and take it into the record. Raises OSError."""
        if not self._begun:
            line = {"tenure_shadow": FORMAT, **line}
            self._begun = True
        self._file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.record.take(line)

    def close(self) -> None:
        self._file.close()


def jobs_line(at: int, jobs: Sequence[Seen], **more: Any) -> dict[str, Any]:
    return {"at": at, "jobs": [job.plain() for job in jobs], **more}
