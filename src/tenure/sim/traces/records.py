"""What every reader makes of a trace: jobs, and a full account of the rows.

Times are ms, rounded to whole seconds. A reader gives ms UTC where the trace has dates, else ms from the trace's zero;
``trace.open_trace`` then counts from the trace's start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from tenure.reports.catalogue import many
from tenure.reports.traces.records import files_told
from tenure.units import format_time, printable

_EXAMPLES = 3
_TEXT = 80
LONGEST_NAME = 200
"""Characters of a name that are kept: whoever writes a file decides how long they are, and many are held at once."""


class TraceError(ValueError):
    """A trace that cannot be used at all; the message says what was seen and what would work."""


class LeftOut(Exception):
    """A readable row that is no job to replay, and why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class BadRow(Exception):
    """A row that cannot be read. ``reason`` is one of few, to count by; ``detail`` says what was seen."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}" if detail else reason)


class End(StrEnum):
    """How a job ended, in the words that the formats have in common."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    PREEMPTED = "preempted"
    HOST_FAILED = "host_failed"
    RUNNING = "running"
    """It ran when the trace was taken: ``runtime`` is what it had run by then."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace. ``submitted``: ms from the trace's start. ``runtime``: what it ran, ms. ``timeout``: the
    limit it was submitted with, ms, or None. ``synthetic``: added, and not in the trace. ``waited``: ms from its
    first submission to its first start where the trace tells both, else None; below 0 where its clocks disagree.
    ``earlier``: GPUs x ms that runs before this one held, after which it was put back into the queue.
    """

    id: str
    submitted: int
    runtime: int
    gpus: int
    team: str
    user: str
    end: End = End.UNKNOWN
    exit_code: int = 0
    timeout: int | None = None
    synthetic: bool = False
    waited: int | None = None
    earlier: int = 0

    def sooner(self, ms: int) -> TraceJob:
        """The same job, submitted ``ms`` earlier. (``dataclasses.replace`` takes three times as long.)"""
        return TraceJob(
            self.id,
            self.submitted - ms,
            self.runtime,
            self.gpus,
            self.team,
            self.user,
            self.end,
            self.exit_code,
            self.timeout,
            self.synthetic,
            self.waited,
            self.earlier,
        )

    @property
    def gpu_ms(self) -> int:
        """GPUs x ms."""
        return self.gpus * self.runtime


@dataclass(frozen=True, slots=True)
class Example:
    """A bad row, for people: ``text`` is cut to 80 characters."""

    file: str
    line: int
    text: str
    why: str

    def __str__(self) -> str:
        return f"{self.file} line {self.line}: {self.why}: {self.text!r}"


@dataclass(slots=True)
class Reading:
    """What became of every row: ``rows`` = ``kept`` + those left out + the bad ones. Empty lines and comments are none.

    ``oddities``: rows that were kept, with something to know about them. ``skipped_files``: files of an archive or
    folder that are not of the trace's format, by name. ``dated``: whether times are dates; ``origin`` is then the
    start, ms UTC.
    """

    path: str = ""
    format: str = ""
    files: list[str] = field(default_factory=list)
    skipped_files: Counter[str] = field(default_factory=Counter)
    dated: bool = False
    origin: int | None = None
    rows: int = 0
    kept: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)
    oddities: Counter[str] = field(default_factory=Counter)
    examples: list[Example] = field(default_factory=list)

    def reject(self, file: str, line: int, text: str, bad: BadRow) -> None:
        """Count a bad row; keep the first few of each reason as examples."""
        self.bad[bad.reason] += 1
        if self.bad[bad.reason] <= _EXAMPLES:
            self.examples.append(Example(file, line, text.strip()[:_TEXT], str(bad)))

    @property
    def accounted(self) -> int:
        """Rows whose fate is known; equal to ``rows`` when reading is over."""
        return self.kept + self.left_out.total() + self.bad.total()

    def nothing(self) -> str:
        """Why there is no job, when there is none."""
        why = [f"{n:,} x {what}" for counts in (self.left_out, self.bad) for what, n in counts.most_common(3)]
        told = f"no job with GPUs in its {many(self.rows, 'row')}" + (f" ({'; '.join(why)})" if why else "")
        return printable(f"{told}. {self.examples[0]}" if self.examples else told)

    def notes(self) -> list[str]:
        """The account as lines for people, without control characters."""
        return [printable(line) for line in self._notes()]

    def _notes(self) -> Iterator[str]:
        starts = f", from {format_time(self.origin)}" if self.origin is not None else ""
        yield f"{self.path} ({self.format}{starts}): {many(self.rows, 'row')}, {many(self.kept, 'job')}"
        if self.skipped_files:
            yield f"files of another kind: {files_told(self.skipped_files)}"
        for what, counts in (("left out", self.left_out), ("odd", self.oddities), ("bad", self.bad)):
            for reason, count in sorted(counts.items()):
                yield f"{what}: {count:,} x {reason}"
        for example in self.examples:
            yield f"bad row: {example}"
