"""What a run on Slurm left behind, held against each other: Tenure's database, Slurm's records, the jobs' own words."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from _slurm_site import SlurmCluster, TestServer

from tenure.config import load
from tenure.engine.maintenance import replay
from tenure.store import AttemptRow, Store

NEVER = 1 << 62
MEMORY_S = 15
"""What slurmctld may forget when it is killed: it saves its state every few seconds."""
LATE_S = 3
"""An end is known after a look or two; the ledger closes then, since nothing before may be given away again."""
AWAY_S = 5
"""How long it is away then."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One run of a Slurm job by Slurm's own record; seconds since 1970."""

    slurm_id: int
    state: str
    start: int
    end: int


def check(
    cluster: SlurmCluster, server: TestServer, jobs: Sequence[int], records: Path, killed_at: float
) -> dict[str, Any]:
    """Figures of the run; ``wrong`` lists what must not be. Stops the server."""
    server.client.close()
    server.stop()
    config = load(server.config)
    with Store.open(config.server.database_url) as store:
        rows = {job.id: job for job in store.list_jobs(limit=None)}
        attempts = [one for job in jobs for one in store.attempts_of(job) if one.started_at is not None]
        evictions = store.evictions(limit=None)
        spans = list(store.spans())
    wrong = [f"job {job} is not known" for job in jobs if job not in rows]
    wrong += [f"job {job} ended as {rows[job].state}" for job in jobs if job in rows and rows[job].state != "succeeded"]
    wrong += [f"{len(rows) - len(jobs)} more jobs than were submitted"] if len(rows) != len(jobs) else []
    wrong += _spans(attempts, spans)
    uses = _said(records)
    wrong += _twice(uses, {one.id: one for one in attempts})
    beside = _beside_slurm(attempts, segments(cluster), {job: row.name for job, row in rows.items()}, killed_at)
    wrong += beside.pop("wrong")
    again = replay(config.server.database_url)
    wrong += list(again.mismatches)
    return {
        "jobs": len(jobs),
        "states": dict(Counter(row.state for row in rows.values())),
        "attempts": len(attempts),
        "evictions": len(evictions),
        "attempts_lost": sum(1 for one in attempts if "lost" in one.reason),
        "gpu_hours": round(
            sum(span.amount * (span.end - span.start) for span in spans if span.kind != "credit") / 3.6e9, 2
        ),
        "gpu_uses_told_by_jobs": len(uses),
        "batches_replayed": again.batches,
        **beside,
        "wrong": wrong,
    }


def _spans(attempts: list[AttemptRow], spans: list[Any]) -> list[str]:
    """The ledger is what the attempts are: every one has its spans, from its start to its end, without a gap."""
    by_attempt = defaultdict(list)
    for span in spans:
        if span.kind != "credit":
            by_attempt[span.attempt_id].append((span.start, span.end))
    wrong = []
    for one in attempts:
        pieces = sorted(by_attempt.pop(one.id, []))
        joined = all(before[1] == after[0] for before, after in pairwise(pieces))
        if not pieces or not joined or (pieces[0][0], pieces[-1][1]) != (one.started_at, one.ended_at):
            wrong.append(f"attempt {one.id} ran from {one.started_at} to {one.ended_at}; its spans: {pieces}")
    return wrong + [f"spans of {one}, which never started" for one in by_attempt]


def segments(cluster: SlurmCluster) -> dict[str, list[Segment]]:
    """Slurm's job completion file by job name, in the order in which runs began."""
    found = defaultdict(list)
    for line in (cluster.base / "log" / "jobcomp.txt").read_text().splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        start, end = (_seconds(fields[name]) for name in ("StartTime", "EndTime"))
        # A job that is taken back has a second line, of its wait.
        if start is not None and end is not None and fields["JobState"] != "PENDING":
            found[fields["Name"]].append(Segment(int(fields["JobId"]), fields["JobState"], start, end))
    return {name: sorted(runs, key=lambda run: run.start) for name, runs in found.items()}


def _seconds(text: str) -> int | None:
    return None if text in ("Unknown", "None") else int(datetime.fromisoformat(text).timestamp())


def _said(records: Path) -> dict[tuple[str, str], dict[str, int]]:
    """(attempt and replica, host and GPU) -> when it said ``start`` and ``end``."""
    uses: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for file in records.iterdir():
        for line in file.read_text().splitlines():
            what, at, attempt, replica, host, gpus = line.split()
            for gpu in gpus.split(","):
                uses[f"{attempt}/{replica}", f"{host}/{gpu}"][what] = int(at)
    return uses


def _twice(uses: Mapping[tuple[str, str], Mapping[str, int]], attempts: Mapping[str, AttemptRow]) -> list[str]:
    """GPUs that two attempts say they had at one time. What was killed said no end: the ledger's counts then."""
    by_gpu = defaultdict(list)
    wrong = []
    for (who, gpu), told in uses.items():
        attempt = attempts.get(who.partition("/")[0])
        if attempt is None:
            wrong.append(f"{who} ran and is not known")
            continue
        if gpu not in _given(attempt):
            wrong.append(f"{who} had {gpu}, which it was not given")
        by_gpu[gpu].append((told["start"], told.get("end", attempt.ended_at or NEVER), who))
    for gpu, held in by_gpu.items():
        held.sort()
        for before, after in pairwise(held):
            if after[0] < before[1]:
                wrong.append(f"{gpu} was had by {before[2]} and {after[2]}")
    return wrong


def _given(attempt: AttemptRow) -> set[str]:
    return {f"{slot['host']}/{gpu}" for slot in json.loads(attempt.slots) for gpu in slot["gpus"]}


def _beside_slurm(
    attempts: list[AttemptRow], runs: Mapping[str, list[Segment]], names: Mapping[int, str], killed_at: float
) -> dict[str, Any]:
    """Starts and ends of the ledger beside Slurm's, which are whole seconds. ``killed_at``: slurmctld, s since 1970."""
    pairs: list[tuple[AttemptRow, Segment]] = []
    forgotten, wrong = [], []
    for one in attempts:
        if one.running_at is None:
            continue
        run = _nearest(one, runs.get(names[one.job_id], []))
        if run is not None:
            pairs.append((one, run))
        elif _ms(one.started_at) / 1000 - 1 <= killed_at + AWAY_S and _ms(one.ended_at) / 1000 >= killed_at - MEMORY_S:
            forgotten.append(one.id)
        else:
            wrong.append(f"attempt {one.id} ran and Slurm has no record of it")
    ends = [(run.end - _ms(one.ended_at) / 1000, one, run) for one, run in pairs]
    # Whatever slurmctld forgot when it was killed it wrote down anew, with the times at which it found out.
    late = [
        (after, one, run)
        for after, one, run in ends
        if abs(after) > LATE_S and not run.start <= killed_at <= run.end + 1
    ]
    wrong += [
        f"attempt {one.id} ended {-after:.1f} s after Slurm's own record ({run.state})" for after, one, run in late
    ]
    return {
        "slurm_start_after_ledger_s": _spread([run.start - _ms(one.started_at) / 1000 for one, run in pairs]),
        "up_after_slurm_start_s": _spread([_ms(one.running_at) / 1000 - run.start for one, run in pairs]),
        "slurm_end_after_ledger_s": _spread([after for after, _, _ in ends]),
        "ends_compared": len(ends),
        "ends_in_the_same_second": sum(run.end == _ms(one.ended_at) // 1000 for _, one, run in ends),
        "ends_within_one_second": sum(-1 <= after <= 1 for after, _, _ in ends),
        "forgotten_by_slurmctld": len(forgotten),
        "wrong": wrong,
    }


def _nearest(one: AttemptRow, runs: list[Segment]) -> Segment | None:
    """Slurm's run that is this attempt: of those that overlap it, the one with the nearest start and end."""
    start, end = _ms(one.started_at) / 1000, _ms(one.ended_at) / 1000
    fits = [run for run in runs if run.start <= end and run.end + 1 >= start]
    return min(fits, key=lambda run: abs(run.start - start) + abs(run.end - end), default=None)


def _ms(at: int | None) -> int:
    assert at is not None  # it ran, and has ended
    return at


def _spread(values: list[float]) -> dict[str, float]:
    if len(values) < 2:
        return {}
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    points = {"min": min(values), "p5": cuts[4], "p50": cuts[49], "p95": cuts[94], "max": max(values)}
    return {name: round(value, 2) for name, value in points.items()}
