"""What ``sacct --parsable2`` prints, row by row, as jobs that were seen: also those that never began, or still wait."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from tenure.core.model import SECOND
from tenure.shadow.seen import SOMEWHERE, Seen, read_memory, read_number
from tenure.sim.traces import slurm
from tenure.sim.traces.files import Source
from tenure.sim.traces.records import BadRow, LeftOut, Reading, TraceError
from tenure.sim.traces.rows import NO_GPUS, UNASKED
from tenure.sim.traces.sacct import ID, elapsed, limit, named, table
from tenure.slurm.reading import expand
from tenure.units import printable

COLUMNS = (
    "JobID,User,Account,Partition,QOS,State,Submit,Eligible,Start,End,Elapsed,Timelimit,NNodes,AllocTRES,ReqTRES,"
    "NodeList"
)
"""What is asked of sacct. What people write themselves is not: it may have the character between the columns in it."""
_LIVE = frozenset(
    {"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING", "CONFIGURING", "COMPLETING"}
)
_NOWHERE = frozenset({"", "None assigned", "None", "(null)"})
_TASKS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,6}))?)?")
_MOST_TASKS = 100_000
_CLOCKS = 3600
"""By so many seconds clocks are put back in autumn."""
_PUT_BACK = "ended before it began, as clocks were put back: taken to have run for its Elapsed"


@dataclass(slots=True)
class Rows:
    """What is known of the whole report when all is read. Seconds since 1970.

    ``hosts``: those that are known here; of others it is not kept where a job ran. ``cluster``: the only one whose rows
    count, '' for the only one that there is. ``first_end``: about when the report begins, as it has what had not ended
    by then. ``last``: the last moment that a row tells of. ``eligible``: whether rows say since when a job could start.
    """

    reading: Reading
    hosts: Collection[str] = ()
    cluster: str = ""
    first_end: int = 0
    last: int = 0
    eligible: bool = False
    clusters: set[str] = field(default_factory=set)
    partitions: set[str] = field(default_factory=set)
    _parts: dict[tuple[str, int], dict[int, Seen]] = field(default_factory=dict)
    """Of heterogeneous jobs, by id and submission: number -> component."""

    def read(self, sources: Iterable[Source]) -> Iterator[Seen]:
        """Every run, and every wait without one, of jobs with GPUs. Components of a heterogeneous job come as one job,
        at the end.

        Raises TraceError for a report that lacks a column, and for one of several clusters when none is chosen.
        """
        for source in sources:
            self.reading.files.append(source.name)
            for found in table(source, self.reading, self._row):
                self.reading.kept += 1
                yield from found
        for parts in self._parts.values():
            yield _together([part for _, part in sorted(parts.items())])

    def _row(self, fields: dict[str, str]) -> list[Seen]:
        """Raises LeftOut and BadRow, and TraceError."""
        if lacking := [name for name in ("Start", "State") if name.lower() not in fields]:
            raise TraceError(f"the report has no {', no '.join(lacking)}; name it in sacct's --format")
        text = named(fields, "jobid", "jobidraw")
        match = ID.fullmatch(text)
        if match is None:
            raise BadRow("JobID is unreadable", text[:40])
        if match["step"] is not None:
            raise LeftOut("a step of a job")
        self._of_cluster(fields.get("cluster", "").strip())
        job = self._seen(match["job"], fields)
        self.partitions.update(job.partition.split(","))
        if match["part"] is not None:
            parts, number = self._parts.setdefault((job.id, job.submitted), {}), int(match["part"])
            # Of reports that were joined several may have it: the one counts that tells most.
            parts[number] = max(parts.get(number, job), job, key=lambda one: (one.started, one.ended))
            return []
        if match["task"] is not None:
            return [replace(job, id=f"{job.id}_{match['task']}")]
        if match["tasks"] is not None:
            return [replace(job, id=f"{job.id}_{task}") for task in self._tasks(match["tasks"])]
        return [job]

    def _of_cluster(self, name: str) -> None:
        if self.cluster:
            if name and name != self.cluster:
                raise LeftOut("of another cluster")
            return
        self.clusters.add(name)
        if len(self.clusters) > 1:
            names = ", ".join(sorted(self.clusters - {""}))
            raise TraceError(f"the report is of several clusters ({names}); choose one with --cluster")

    def _seen(self, id: str, fields: dict[str, str]) -> Seen:
        asked, given = slurm.gpus(fields.get("reqtres", "")), slurm.gpus(fields.get("alloctres", ""))
        if not asked.count and not given.count:
            raise LeftOut(slurm.SHARDS if asked.shards or given.shards else NO_GPUS)
        state = (named(fields, "state").split() or [""])[0].upper().rstrip("+")
        slurm.end_of(state)
        submitted = _seconds(fields, "submit", "Submit")
        if not submitted:
            raise BadRow("Submit is unknown")
        if not asked.count and named(fields, "reqtres"):
            self.reading.oddities[UNASKED] += 1
        if asked.slices or given.slices:
            self.reading.oddities[slurm.SLICES] += 1
        started, ended = self._times(state, fields)
        tres = named(fields, "alloctres", "reqtres")
        self.eligible |= "eligible" in fields
        return Seen(
            id=id,
            user=_name(fields, "user", "uid") or "unknown",
            account=_name(fields, "account", "group"),
            partition=_name(fields, "partition"),
            state=state,
            submitted=submitted,
            eligible=_seconds(fields, "eligible", "Eligible") if "eligible" in fields else submitted,
            started=started,
            ended=ended,
            limit=(limit(fields) or 0) // SECOND,
            nodes=max(1, _count(named(fields, "nnodes", "allocnodes")) or read_number(tres, "node")),
            gpus=given.count or asked.count,
            cpus=read_number(tres, "cpu"),
            mem=read_memory(tres),
            hosts=self._where(fields) if started else "",
            comment=_name(fields, "comment"),
            qos=_name(fields, "qos"),
        )

    def _times(self, state: str, fields: dict[str, str]) -> tuple[int, int]:
        """Start and end; 0 for what has not been. What was over before it began has an end alone."""
        started = _seconds(fields, "start", "Start")
        ended = _seconds(fields, "end", "End")
        ran = elapsed(fields, started * SECOND or None) // SECOND
        if state == "PENDING":
            self.last = max(self.last, _seconds(fields, "submit", "Submit"))
            return 0, 0
        if state in _LIVE and not (state == "COMPLETING" and ended):
            self.last = max(self.last, started + ran)
            return started, 0
        if started and not ended:
            ended = started + ran
        if started and ended < started:
            if not ran or started - ended > _CLOCKS:
                raise BadRow("End is before Start")
            ended = started + ran
            self.reading.oddities[_PUT_BACK] += 1
        if ended:
            self.first_end = min(self.first_end or ended, ended)
            self.last = max(self.last, ended)
        nowhere = "nodelist" in fields and fields["nodelist"].strip() in _NOWHERE
        if not ran and (nowhere or state in ("CANCELLED", "DEADLINE", "REVOKED")):
            return 0, ended or started
        return started, ended

    def _where(self, fields: dict[str, str]) -> str:
        text = fields.get("nodelist", "").strip()
        names = expand(text) if text not in _NOWHERE else []
        return text if names and all(name in self.hosts for name in names) else SOMEWHERE

    def _tasks(self, text: str) -> Iterator[int]:
        """Of ``[4-10,15%2]``: the tasks of an array that wait, on one line."""
        inside, _, _ = text.lstrip("[").partition("]")
        tasks = inside.partition("%")[0]
        if "..." in tasks:
            self.reading.oddities["an array whose waiting tasks sacct does not all name: those named count"] += 1
        count = 0
        for part in tasks.split(","):
            found = _TASKS.fullmatch(part.strip())
            if found is None:
                continue
            for task in range(int(found[1]), int(found[2] or found[1]) + 1, max(1, int(found[3] or 1))):
                if count >= _MOST_TASKS:
                    self.reading.oddities[f"an array of more than {_MOST_TASKS:,} waiting tasks: the first count"] += 1
                    return
                count += 1
                yield task


def _name(fields: dict[str, str], *columns: str) -> str:
    """As ``named``, and safe to show."""
    return printable(named(fields, *columns))


def _seconds(fields: dict[str, str], column: str, what: str) -> int:
    return (slurm.time(fields.get(column, ""), what) or 0) // SECOND


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0


def _together(parts: list[Seen]) -> Seen:
    """The components of a heterogeneous job, which start together, as one job."""
    first = parts[0]
    hosts = [one.hosts for one in parts if one.hosts]
    return replace(
        first,
        ended=max(one.ended for one in parts),
        nodes=sum(one.nodes for one in parts),
        gpus=sum(one.gpus for one in parts),
        cpus=sum(one.cpus for one in parts),
        mem=sum(one.mem for one in parts),
        hosts=SOMEWHERE if SOMEWHERE in hosts else ",".join(hosts),
    )
