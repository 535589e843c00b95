"""Who gains and who loses: two or more runs of the same jobs beside each other, in figures.

A side is a run with a label. What is compared is each side with the first one, the *base*: for every node of the budget
tree with all that is below it, for every person, and by size of the jobs. Jobs are told by a key that they have on all
sides. Waits are of the jobs of all sides that had not started when measuring begins, each from the beginning of its own
wait; a job that never starts counts with the wait that it had in the end, so those are lower bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenure.core.model import MINUTE, SELF
from tenure.core.tree import line_of
from tenure.reports.evicted import evicted
from tenure.reports.metrics import DIGITS, gpus_of, share, summary
from tenure.reports.owed import Account, measured_from, standings
from tenure.reports.records import JobRow, Run, hours
from tenure.reports.side_waits import Waits
from tenure.reports.sizes import SIZES, size_of
from tenure.reports.verdicts import verdict

Found = dict[str, Any]
"""JSON-ready: times ms UTC, waits seconds, GPU time GPU-hours, shares fractions of 1."""
SAME = MINUTE
"""Starts that are no further apart than this are at the same time."""
_ENDED_BY_ITSELF = frozenset({"succeeded", "failed", "timed_out"})


@dataclass(frozen=True, slots=True)
class Side:
    """A run and what it is called. ``phrase``: how sentences say where something happens; "under" and its label unless
    given, as for "as it was". ``lengths``: key -> how long its work takes, ms, None where nobody knows; of jobs that it
    does not have the run's rows tell it.

    ``keys``: job id -> what the job is called on every side; None: its id. Several rows may have one key: they are one
    job that was submitted again, in the order of their submission. ``since``: key -> when its wait began, ms UTC, of
    those that waited before the run has them; the others since they were submitted. ``places``: budget of this run ->
    the one that it is on the other sides, of those that have another name there, so that they are compared.
    """

    label: str
    run: Run
    keys: Mapping[int, str] | None = None
    since: Mapping[str, int] = field(default_factory=dict)
    phrase: str = ""
    lengths: Mapping[str, int | None] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    def key(self, job_id: int) -> str | None:
        """None for a job that is none of those that are compared."""
        return str(job_id) if self.keys is None else self.keys.get(job_id)


@dataclass(slots=True)
class Job:
    """One job on one side, all its rows together; times ms UTC. ``until``: when its wait ended without a start."""

    first: JobRow
    last: JobRow
    since: int
    started: int | None
    until: int

    @property
    def wait(self) -> int:
        return (self.until if self.started is None else self.started) - self.since

    @property
    def left(self) -> int:
        """When it waited no more for the first time."""
        return self.until if self.started is None else self.started


@dataclass(slots=True)
class Figures:
    """Of one group on one side; GPU time in amount x ms. ``jobs``: that had not ended when measuring began. ``lost``:
    of the time that counts here, since what ran before measuring began is no part of it.
    """

    jobs: int = 0
    finished: int = 0
    charged: int = 0
    free: int = 0
    lost: int = 0
    evictions: int = 0
    of_charged: int = 0
    waits: Waits = field(default_factory=Waits)
    owed: Account | None = None

    @property
    def net(self) -> int:
        """What was of use: without work that was lost."""
        return self.charged + self.free - self.lost

    def plain(self) -> Found:
        found: Found = {
            "jobs": self.jobs,
            "finished": self.finished,
            "charged_gpu_hours": _hours(self.charged),
            "unallocated_gpu_hours": _hours(self.free),
            "lost_gpu_hours": _hours(self.lost),
            "net_gpu_hours": _hours(self.net),
            "evictions": self.evictions,
            "evictions_of_charged": self.of_charged,
            "compared": len(self.waits.all),
            **self.waits.plain(),
        }
        if self.owed is not None:
            found["owed_gpu_hours"] = _hours(self.owed.owed)
            found["m1"] = share(self.owed.within, self.owed.owed)
        return found


@dataclass(slots=True)
class Moved:
    """How many of a group's waiting jobs start sooner, later, or at the same time as on the base's side, and how many
    on neither. What starts on one side only starts later, or never, on the other.
    """

    sooner: int = 0
    later: int = 0
    same: int = 0
    neither: int = 0


Groups = Callable[[str, str, str], Iterable[str]]
"""Of a budget, a person and a size: the groups that a job of theirs belongs to."""


@dataclass(slots=True)
class _Taken:
    """A side's jobs, and those that are compared in their waits."""

    side: Side
    jobs: dict[str, Job]
    inner: frozenset[str]
    """Budgets that have others below them, on any side: what such a one has itself is compared everywhere."""
    sizes: Mapping[str, str]
    """Key -> its size, the same on all sides: a run may know less of how long a job takes than another."""

    def size(self, row: JobRow) -> str:
        key = self.side.key(row.id)
        return size_of(row.gpus, row.runtime) if key is None else self.sizes[key]

    def nodes(self, budget: str) -> tuple[str, ...]:
        """The nodes of the tree that a job of this budget, or of this leaf, counts in."""
        own = budget.removesuffix(f"/{SELF}")
        path = self.side.places.get(own, own)
        line = line_of(path)
        return (*line, f"{path}/{SELF}") if path in self.inner else line


def jobs_of(side: Side) -> dict[str, Job]:
    """Key -> the job, of those that are compared."""
    found: dict[str, Job] = {}
    for row in side.run.jobs:
        key = side.key(row.id)
        if key is None:
            continue
        job = found.get(key)
        if job is None:
            gave_up = side.run.until if row.ended is None else row.ended
            found[key] = Job(row, row, side.since.get(key, row.submitted), row.started, gave_up)
        else:
            job.last = row
    return found


def _sizes(sides: Sequence[Side]) -> dict[str, str]:
    """Key -> the size of the job, as the first side that has it tells: by all of its rows together."""
    found: dict[str, str] = {}
    for side in sides:
        rows: dict[str, list[JobRow]] = {}
        for row in side.run.jobs:
            key = side.key(row.id)
            if key is not None and key not in found:
                rows.setdefault(key, []).append(row)
        for key, own in rows.items():
            length = side.lengths[key] if key in side.lengths else sum(row.runtime for row in own)
            found[key] = size_of(own[0].gpus, length)
    return found


def compare_sides(sides: Sequence[Side]) -> Found:
    """All figures of two sides or more; the first one is the base.

    Raises ValueError for fewer, for two of one label, and for runs that are not measured over the same time.
    """
    labels = [side.label for side in sides]
    if len(sides) < 2 or len(set(labels)) < len(labels):
        raise ValueError("sides: it takes two or more, each with a label of its own")
    base = sides[0].run
    since, until = measured_from(base), base.until
    if any((measured_from(side.run), side.run.until) != (since, until) for side in sides):
        raise ValueError("sides: their runs are not measured over the same time; was one of them interrupted?")
    sizes = _sizes(sides)
    paths = _paths(sides)
    inner = frozenset(path.rpartition("/")[0] for path in paths)
    taken = [_Taken(side, jobs_of(side), inner, sizes) for side in sides]
    common = set(taken[0].jobs).intersection(*(one.jobs for one in taken[1:]))
    waiting = [key for key in taken[0].jobs if key in common and all(one.jobs[key].left >= since for one in taken)]
    return {
        "from": since,
        "until": until,
        "gpus": sum(gpus_of(base, cluster) for cluster in base.hosts),
        "base": labels[0],
        "sides": labels,
        "phrases": {side.label: side.phrase or f"under {side.label}" for side in sides},
        "all": next(_rows(taken, waiting, lambda *_: ("",), ("",), owed=True))[1],
        "budgets": [
            {"budget": name, "depth": name.count("/"), **row}
            for name, row in _rows(taken, waiting, None, paths, owed=True)
        ],
        "people": [{"user": name, **row} for name, row in _rows(taken, waiting, lambda _, user, __: (user,))],
        "sizes": [
            {"size": name, **row}
            for name, row in sorted(
                _rows(taken, waiting, lambda _, __, size: (size,)), key=lambda pair: SIZES.index(pair[0])
            )
        ],
        "overall": {side.label: _overall(side.run) for side in sides},
        "evicted": {side.label: evicted(side.run, side.keys) for side in sides},
        "missing": {
            one.side.label: len({key for other in taken for key in other.jobs} - one.jobs.keys()) for one in taken
        },
    }


_OVERALL = ("m1_delivered", "m1_net", "m1_strict", "m1_worst", "m3_delivered", "occupancy", "lost_share")


def _overall(run: Run) -> Found:
    of = summary(run)
    idle = round(of["gpu_hours"]["unusable"] + of["gpu_hours"]["withheld"], DIGITS)
    return {name: of[name] for name in _OVERALL} | {"idle_while_waiting_gpu_hours": idle}


def _rows(
    taken: Sequence[_Taken],
    waiting: Sequence[str],
    groups: Groups | None,
    always: Sequence[str] = (),
    *,
    owed: bool = False,
) -> Iterator[tuple[str, Found]]:
    """Group -> its figures on each side and how they changed. Without ``groups``: the nodes of the trees.

    ``always``: groups that are there even if nobody is in them.
    """
    figures = [_figures(one, waiting, groups, always) for one in taken]
    if owed:
        for one, found in zip(taken, figures, strict=True):
            _owe(one, found, whole=groups is not None)
    names = sorted({name for found in figures for name in found}, key=lambda name: name.split("/"))
    moved = [_moved(taken[0], other, waiting, groups) for other in taken[1:]]
    for name in names:
        parts = [found.get(name) or Figures() for found in figures]
        plain = {one.side.label: part.plain() for one, part in zip(taken, parts, strict=True)}
        yield (
            name,
            {
                "figures": plain,
                "changes": {
                    other.side.label: _change(
                        parts[0], part, plain[taken[0].side.label], plain[other.side.label], by_name
                    )
                    for other, part, by_name in zip(
                        taken[1:], parts[1:], (counts.get(name, Moved()) for counts in moved), strict=True
                    )
                },
            },
        )


def _paths(sides: Sequence[Side]) -> list[str]:
    """Of all budgets, as they are compared."""
    return list(dict.fromkeys(side.places.get(one.path, one.path) for side in sides for one in side.run.budgets))


def _places(one: _Taken, groups: Groups | None, row: JobRow) -> Iterable[str]:
    if groups is None:
        return one.nodes(row.budget)
    return groups(row.budget, row.user, one.size(row))


def _figures(one: _Taken, waiting: Sequence[str], groups: Groups | None, always: Sequence[str]) -> dict[str, Figures]:
    """Everything of a side but what it was owed."""
    run = one.side.run
    since, until = measured_from(run), run.until
    found = {name: Figures() for name in always}
    places: dict[int, tuple[str, ...]] = {}
    for row in run.jobs:
        places[row.id] = tuple(_places(one, groups, row))
    for job in one.jobs.values():
        over = job.last.ended
        if over is not None and over < since:
            continue
        for name in places[job.first.id]:
            part = found.setdefault(name, Figures())
            part.jobs += 1
            part.finished += over is not None and job.last.state in _ENDED_BY_ITSELF
    for attempt in run.attempts:
        end = until if attempt.ended is None else attempt.ended
        if end < since:
            continue
        time = attempt.amount * (end - max(attempt.started, since))
        for name in places[attempt.job_id]:
            part = found.setdefault(name, Figures())
            part.charged += time if attempt.funded else 0
            part.free += 0 if attempt.funded else time
            part.lost += min(attempt.lost, time)
    for eviction in run.evictions:
        if eviction.at >= since:
            for name in places[eviction.job_id]:
                part = found.setdefault(name, Figures())
                part.evictions += 1
                part.of_charged += eviction.funded
    for key in waiting:
        job = one.jobs[key]
        for name in places[job.first.id]:
            found.setdefault(name, Figures()).waits.add(job.wait, started=job.started is not None)
    return found


def _owe(one: _Taken, found: dict[str, Figures], *, whole: bool) -> None:
    """What budgets were owed and got of it; ``whole``: all of them in the one group that there is."""
    for leaf, account in standings(one.side.run).budgets.items():
        for name in ("",) if whole else one.nodes(leaf):
            part = found.get(name)
            if part is None:
                continue  # an inner budget's own part, in which nothing was
            if part.owed is None:
                part.owed = Account()
            part.owed.add(account)


def _moved(base: _Taken, other: _Taken, waiting: Sequence[str], groups: Groups | None) -> dict[str, Moved]:
    """Group on the base's side -> what became of its waiting jobs on the other."""
    found: dict[str, Moved] = {}
    for key in waiting:
        before, now = base.jobs[key], other.jobs[key]
        how = _how(before.started, now.started)
        for name in _places(base, groups, before.first):
            counts = found.setdefault(name, Moved())
            setattr(counts, how, getattr(counts, how) + 1)
    return found


def _how(before: int | None, now: int | None) -> str:
    if before is None or now is None:
        return "neither" if before is now else "sooner" if before is None else "later"
    return "same" if abs(now - before) <= SAME else "sooner" if now < before else "later"


def _change(base: Figures, other: Figures, before: Found, now: Found, moved: Moved) -> Found:
    """From the base to the other side: differences, and whether that is a gain."""
    found: Found = {
        "net_gpu_hours": _hours(other.net - base.net),
        "net_gpu_hours_share": share(other.net - base.net, base.net) if base.net > 0 else None,
        "finished": other.finished - base.finished,
        "evictions": other.evictions - base.evictions,
        **{name: _less(now[name], before[name]) for name in ("p50_s", "p90_s")},
        "sooner": moved.sooner,
        "later": moved.later,
        "same": moved.same,
        "neither": moved.neither,
    }
    if base.owed is not None and other.owed is not None:
        found["m1"] = _less(now["m1"], before["m1"], DIGITS)
    return found | {"verdict": verdict(before, now)}


def _less(now: float | None, before: float | None, digits: int = 0) -> float | None:
    if now is None or before is None:
        return None
    return round(now - before, digits) if digits else now - before


def _hours(amount_ms: int) -> float:
    return round(hours(amount_ms), 3)
