"""Opening a trace: which format it is in, its jobs and budgets, and the workload that replays them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from tenure.core.model import DAY, Budget
from tenure.reports.catalogue import many
from tenure.reports.traces.records import Supply, TraceFigures, earlier_told
from tenure.sim.traces import acme, helios, itp, pai2020, pai2023, philly, philly_json, sacct, supercloud, swf
from tenure.sim.traces.budgets import team_budgets
from tenure.sim.traces.describe import describe_jobs, source_of
from tenure.sim.traces.files import Gauge, Source, holds_files, open_sources
from tenure.sim.traces.options import TraceOptions
from tenure.sim.traces.records import LONGEST_NAME, Reading, TraceError, TraceJob
from tenure.sim.traces.select import Sieve, select
from tenure.sim.traces.workload import TraceWorkload
from tenure.units import counted, printable

Reader = Callable[[Iterable[Source], Reading], Iterator[TraceJob]]

READERS: dict[str, Reader] = {
    "acme": acme.read_acme,
    "helios": helios.read_helios,
    "itp": itp.read_itp,
    "pai-2020": pai2020.read_pai2020,
    "pai-2023": pai2023.read_pai2023,
    "philly": philly.read_philly,
    "philly-json": philly_json.read_philly_json,
    "sacct": sacct.read_sacct,
    "supercloud": supercloud.read_supercloud,
    "swf": swf.read_swf,
}
_TABLES = {
    "acme": acme.COLUMNS,
    "helios": helios.COLUMNS,
    "itp": itp.COLUMNS,
    "pai-2023": pai2023.COLUMNS,
    "philly": philly.COLUMNS,
    "supercloud": supercloud.COLUMNS,
}
KNOWN = (
    *(f"{name} (a CSV file with the columns {', '.join(columns)})" for name, columns in _TABLES.items()),
    f"pai-2020 (CSV files without a header: {', '.join(pai2020.TABLES)})",
    "philly-json (cluster_job_log: one array in JSON)",
    "sacct (what sacct --parsable2 prints, with its header line)",
    "swf (Standard Workload Format: 18 numbers a line, comments after ;)",
)


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace, ready to be replayed. ``origin``: the first ms, UTC, where the trace has dates. ``span``: ms.

    ``gpus``: the cluster it is meant for. ``counts``: what the options left out or changed.
    """

    reading: Reading
    options: TraceOptions
    jobs: tuple[TraceJob, ...]
    origin: int | None
    span: int
    gpus: int
    counts: dict[str, int]
    budgets: tuple[Budget, ...]
    paths: dict[str, str]
    """Team -> budget."""
    pooled_teams: int = 0

    @property
    def days(self) -> int:
        """Whole days, the last one included."""
        return -(-self.span // DAY)

    @property
    def supply(self) -> Supply:
        """What it asks for."""
        return Supply(sum(job.gpu_ms for job in self.jobs), self.span)

    @property
    def figures(self) -> TraceFigures:
        """Of what is replayed, on the cluster it is meant for."""
        start = self.origin or 0
        jobs = (job.sooner(-start) for job in self.jobs)
        source = source_of(self.reading)
        return describe_jobs(jobs, source, self.origin is not None, self.gpus, (start, start + self.span))

    def notes(self) -> list[str]:
        """What became of every row and every job, as lines for people."""
        lines = self.reading.notes()
        lines += [f"{count:,} {'job' if count == 1 else 'jobs'}: {what}" for what, count in self.counts.items()]
        if self.pooled_teams:
            lines.append(f"{self.pooled_teams:,} small teams share one budget")
        demand = self.supply.over(self.gpus)
        over = counted(self.days, "day")
        ask = "asks" if len(self.jobs) == 1 else "ask"
        lines.append(f"{many(len(self.jobs), 'job')} over {over} {ask} for {demand:.2f} x the {self.gpus:,} GPUs")
        if again := earlier_told(sum(job.earlier > 0 for job in self.jobs), sum(job.earlier for job in self.jobs)):
            lines.append(again)
        return lines

    def workload(self, *clusters: str) -> TraceWorkload:
        """A fresh workload whose jobs accept these clusters, in this order."""
        return TraceWorkload(self.jobs, self.paths, clusters, self.options)


def open_trace(path: Path, format: str | None = None, options: TraceOptions | None = None) -> Trace:
    """Read a file, an archive or a folder. ``format``: one of ``READERS``, or None to tell by the header.

    Raises TraceError, which says what was seen and what is known, when it is no trace, cannot be read, or has no job.
    """
    options = options or TraceOptions()
    reading = Reading(path=path.name)
    sieve = Sieve(options)
    found = _distinct(named(read(path, format, reading), reading), reading)
    jobs = [job for job in found if sieve.keeps(job, reading.dated)]
    if sieve.first is None:
        raise TraceError(f"{path}: {reading.nothing()}")
    if reading.dated and sieve.first is not None:
        reading.origin = sieve.first // DAY * DAY
    selection = select(jobs, options, reading.origin, sieve)
    teams = team_budgets(selection.jobs, options)
    return Trace(
        reading,
        options,
        selection.jobs,
        None if reading.origin is None else reading.origin + selection.zero,
        selection.span,
        selection.gpus,
        selection.counts,
        teams.budgets,
        teams.paths,
        teams.pooled,
    )


def read(path: Path, format: str | None, reading: Reading, gauge: Gauge | None = None) -> Iterator[TraceJob]:
    """The jobs of the trace at ``path``, in its order and its own times. ``gauge`` hears how far it is.

    Raises TraceError.
    """
    if format is not None and format not in READERS:
        raise TraceError(f"there is no trace format {format!r}; there are: {', '.join(sorted(READERS))}")
    sources = open_sources(path, gauge)
    if format is not None and not holds_files(path):
        reading.format = format
        return READERS[format](sources, reading)
    seen: list[str] = []
    for source in sources:
        found, first = _detected(source)
        if found is not None and found == (format or found):
            reading.format = found
            return READERS[found](chain([source], _alike(sources, found, reading)), reading)
        reading.skipped_files[source.name] += 1
        seen.append(f"{source.name} starts with {first[:80]!r}" if first else f"{source.name} says nothing")
    if gauge is not None and gauge.stopped:
        raise TraceError(f"{path}: broken off before its first line")
    wanted = f"the format {format}" if format else "any format known"
    saw = "; ".join(seen[:3]) or "nothing in it"
    known = "".join(f"\n  {one}" for one in sorted(KNOWN))
    raise TraceError(f"{path}: not in {wanted}: {saw}. Known are:{known}")


def _alike(sources: Iterator[Source], format: str, reading: Reading) -> Iterator[Source]:
    for source in sources:
        if _detected(source)[0] == format:
            yield source
        else:
            reading.skipped_files[source.name] += 1


def format_of(source: Source) -> str | None:
    """The format that a source has by its first lines, which are still to be read; None when it is none known."""
    return _detected(source)[0]


def _detected(source: Source) -> tuple[str | None, str]:
    """The format, or None, and the first line that says something."""
    lines = [line.strip() for line in source.head() if line.strip()]
    first = lines[0] if lines else ""
    if pai2020.table_of(source):
        return "pai-2020", first
    if first.startswith("[") and any(f'"{key}"' in line for line in lines for key in philly_json.KEYS):
        return "philly-json", first
    columns = {name.strip().strip('"') for name in first.split(",")}
    for name, needed in _TABLES.items():
        if columns >= set(needed):
            return name, first
    if "|" in first and sacct.columns_of(first) is not None:
        return "sacct", first
    rows = [line for line in lines if not line.startswith(";")]
    if (not rows and lines) or (rows and _is_swf(rows[0])):
        return "swf", first
    return None, first


def _is_swf(line: str) -> bool:
    fields = line.split()
    return len(fields) == len(swf.FIELDS) and all(field.lstrip("-").replace(".", "", 1).isdigit() for field in fields)


def named(jobs: Iterable[TraceJob], reading: Reading) -> Iterator[TraceJob]:
    """Names of people, teams and jobs as they may be shown: they go into tables, pages and terminals."""
    for job in jobs:
        names = (job.id, job.user, job.team)
        long = max(map(len, names)) > LONGEST_NAME
        plain = job.id.isprintable() and job.user.isprintable() and job.team.isprintable()
        if plain and not long:
            yield job
            continue
        if long:
            reading.oddities[f"a name of more than {LONGEST_NAME} characters: cut there"] += 1
        if not plain:
            reading.oddities["a name with control characters: taken out"] += 1
        clean = [printable(name[:LONGEST_NAME]) or "unknown" for name in names]
        yield replace(job, id=clean[0], user=clean[1], team=clean[2])


def _distinct(jobs: Iterable[TraceJob], reading: Reading) -> Iterator[TraceJob]:
    """Ids made unique. Ids are all that is kept of each."""
    seen: set[str] = set()
    again: dict[str, int] = {}
    for job in jobs:
        if job.id not in seen:
            seen.add(job.id)
            yield job
        else:
            times = again[job.id] = again.get(job.id, 1) + 1
            reading.oddities["an id that an earlier job has: numbered"] += 1
            yield replace(job, id=f"{job.id}#{times}")
