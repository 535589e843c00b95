"""A trace in figures, in one pass: jobs come one after the other, and none is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tenure.core.model import DAY, SECOND
from tenure.reports.traces.data import DURATION_EDGES, SIZE_EDGES
from tenure.reports.traces.records import ENDED, SHORT, SIZE_CLASSES, Source, Supply, TraceFigures, size_class
from tenure.sim.traces.records import End, Reading, TraceJob
from tenure.sim.traces.sketch import Seen, Sketch
from tenure.sim.traces.tallies import MOST_HOURS, Hours, LimitTally, Names
from tenure.units import printable

REPEATED = "an id that an earlier job has"
INSTANT = "ran for a second or less"
PAST_LIMIT = "ran more than a minute past its limit"
BACKWARDS = "started before it was submitted: a clock was moved, or Submit is that of a later run"
UNSORTED = "submitted before the job above it"
FAR_HOURS = f"submitted in an hour beyond the {MOST_HOURS:,} told apart: not among the arrivals"


class Describer:
    """Give it jobs, then ask for the figures. ``dated`` and the rest of the account are the reading's."""

    def __init__(self) -> None:
        self.jobs = self._synthetic = self._asked = self._short = 0
        self.first = self.last = self._before = 0
        self._earlier = [0, 0]
        self._runtimes, self._sizes, self._waits = Sketch(DURATION_EDGES), Sketch(SIZE_EDGES), Sketch()
        self._waits_by_size = {name: Sketch() for name, _ in SIZE_CLASSES}
        self._people, self._teams, self._hours, self._limits = Names(), Names(), Hours(), LimitTally()
        self._ends = {name: [0, 0] for name in ENDED}
        self._odd: Counter[str] = Counter()
        self._ids = Seen()

    def add(self, job: TraceJob) -> None:
        at, asked = job.submitted, job.gpu_ms
        self.first = at if not self.jobs else min(self.first, at)
        self.last = max(self.last, at)
        self.jobs += 1
        self._synthetic += job.synthetic
        self._asked += asked
        self._short += job.runtime < SHORT
        self._earlier[0] += job.earlier > 0
        self._earlier[1] += job.earlier
        self._runtimes.add(job.runtime, asked)
        self._sizes.add(job.gpus, asked)
        self._people.add(job.user, asked)
        self._teams.add(job.team, asked)
        self._hours.add(at, asked)
        self._limits.add(job)
        ended = self._ends[job.end]
        ended[0] += 1
        ended[1] += asked
        if job.waited is not None and job.waited >= 0:
            self._waits.add(job.waited, asked)
            self._waits_by_size[size_class(job.gpus)].add(job.waited, asked)
        self._look(job)

    def next_file(self) -> None:
        """What follows is of another file, which may begin where it likes."""
        self._before = 0

    def _look(self, job: TraceJob) -> None:
        """For what is odd."""
        odd = self._odd
        if self._ids.came(job.id):
            odd[REPEATED] += 1
        if job.runtime <= SECOND:
            odd[INSTANT] += 1
        if job.waited is not None and job.waited < 0:
            odd[BACKWARDS] += 1
        if job.end is not End.RUNNING:  # a report's reader gives those last, wherever they stand
            if job.submitted < self._before:
                odd[UNSORTED] += 1
            self._before = job.submitted

    def figures(
        self, source: Source, dated: bool, gpus: int | None = None, inside: tuple[int, int] | None = None
    ) -> TraceFigures:
        """``inside``: from and to, ms; None: whole days, from that of the first submission to that of the last.
        ``gpus``: of the cluster. Raises ValueError without any job.
        """
        if not self.jobs:
            raise ValueError("no jobs to describe")
        whole = (self.first // DAY * DAY if dated else 0), (self.last // DAY + 1) * DAY
        start, end = inside or whole
        limits = self._limits.limits()
        counted = {PAST_LIMIT: limits.past, FAR_HOURS: self._hours.uncounted, **self._odd}
        found = Counter(source.oddities) + Counter(counted)  # without the zeros
        return TraceFigures(
            source=source,
            jobs=self.jobs,
            synthetic=self._synthetic,
            dated=dated,
            start=start,
            span=end - start,
            first=self.first,
            last=self.last,
            gpus=gpus,
            supply=Supply(self._asked, end - start),
            runtimes=self._runtimes.distribution(),
            sizes=self._sizes.distribution(),
            waits=self._waits.distribution(),
            waits_by_size={name: found.distribution() for name, found in self._waits_by_size.items() if len(found)},
            limits=limits,
            people=self._people.holders(),
            teams=self._teams.holders(),
            arrivals=self._hours.arrivals(dated, start),
            ends={name: (jobs, asked) for name, (jobs, asked) in self._ends.items() if jobs},
            short=self._short / self.jobs,
            earlier_jobs=self._earlier[0],
            earlier=self._earlier[1],
            oddities=dict(sorted(found.items())),
        )


def describe_jobs(
    jobs: Iterable[TraceJob],
    source: Source,
    dated: bool,
    gpus: int | None = None,
    inside: tuple[int, int] | None = None,
) -> TraceFigures:
    """The figures of jobs that are at hand; see ``Describer.figures``."""
    describer = Describer()
    for job in jobs:
        describer.add(job)
    return describer.figures(source, dated, gpus, inside)


def source_of(reading: Reading, *, complete: bool = True, cut: str | None = None, outside: int = 0) -> Source:
    """What a reader's account says of its rows, without control characters."""

    def shown(counts: Counter[str]) -> dict[str, int]:
        return {printable(what): count for what, count in sorted(counts.items()) if count}

    return Source(
        name=printable(reading.path),
        format=reading.format,
        complete=complete,
        cut=cut,
        rows=reading.rows,
        kept=reading.kept,
        outside=outside,
        left_out=shown(reading.left_out),
        bad=shown(reading.bad),
        oddities=shown(reading.oddities),
        examples=tuple(printable(str(example)) for example in reading.examples),
        skipped_files={printable(name): count for name, count in reading.skipped_files.items()},
    )
