"""What must be true when everything has ended, read from the jobs' own records, the database and /proc."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from stream import Kind, Stream, processes

from tenure.core.ledger import Kind as SpanKind
from tenure.engine import recovery
from tenure.engine.clock import SLEW_PPM
from tenure.store import AttemptRow, SpanRow, Store

DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class Record:
    attempt: str
    rank: int
    host: str
    gpus: tuple[int, ...]
    event: str
    at: int
    """CLOCK_BOOTTIME, ms."""
    more: Mapping[str, Any]

    @property
    def job(self) -> int:
        return int(self.attempt.split(".")[0])


def read_records(slots: Path) -> list[Record]:
    records = []
    for line in (slots / "records").read_text().splitlines():
        data = json.loads(line)
        known = (data.pop(name) for name in ("attempt", "rank", "host", "gpus", "event", "at"))
        attempt, rank, host, gpus, event, at = known
        records.append(Record(attempt, int(rank), host, tuple(gpus), event, at, data))
    return records


class EngineTime:
    """From CLOCK_BOOTTIME to engine time, by the anchors in the log."""

    def __init__(self, store: Store) -> None:
        anchors = sorted((a.boottime, a.at) for a in map(recovery.record.anchor_of, store.batches()))
        self._boot, self._at = [a for a, _ in anchors], [b for _, b in anchors]

    def of(self, boottime: int) -> tuple[int, int]:
        """The earliest and the latest that it can be, ms."""
        i = max(0, bisect_right(self._boot, boottime) - 1)
        away = boottime - self._boot[i]
        error = abs(away) * SLEW_PPM // 1_000_000 + 1
        return self._at[i] + away - error, self._at[i] + away + error


def check(stream: Stream) -> None:
    """Every promise of rule 15. Raises AssertionError."""
    assert processes(str(stream.directory)) == [], "something is still running"
    assert list((stream.data / "runs" / "active").iterdir()) == [], "the executor still watches something"
    records = read_records(stream.slots)
    with Store.open(f"sqlite:///{stream.data / 'tenure.db'}") as store:
        attempts = {row.id: row for job_id in stream.jobs for row in store.attempts_of(job_id)}
        spans = list(store.spans())
        check_jobs(stream, store, records, attempts)
        check_slots(records)
        check_spans(records, attempts, spans, EngineTime(store))
        check_sums(store, spans)
        assert store.evictions(limit=1), "nothing was evicted in all that time"
        assert recovery.replay(store).mismatches == ()
        restored = recovery.restore(store).state
        assert not restored.jobs and not restored.attempts
        assert all(not cluster.ledger.open for cluster in restored.clusters.values())


def check_jobs(stream: Stream, store: Store, records: list[Record], attempts: Mapping[str, AttemptRow]) -> None:
    """Each has ended as it must, has begun each attempt once, and has succeeded once if at all."""
    assert {row.id for row in store.list_jobs(limit=None)} == set(stream.jobs), "lost, or there twice"
    started = [(r.attempt, r.rank) for r in records if r.event == "start"]
    assert len(started) == len(set(started)), "an attempt was started twice"
    assert {attempt for attempt, _ in started} <= set(attempts), "an attempt ran that is not in the log"
    by_job: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        by_job[record.job].append(record)
    for job_id, kind in stream.jobs.items():
        check_job(stream, store, job_id, kind, by_job[job_id])


def check_job(stream: Stream, store: Store, job_id: int, kind: Kind, records: list[Record]) -> None:
    row = store.job(job_id)
    chain = store.attempts_of(job_id)
    assert row is not None and row.state in kind.ends, (job_id, row)
    assert [one.number for one in chain] == list(range(1, len(chain) + 1))
    assert all(one.state == "ended" and one.ended_at is not None for one in chain)
    assert all((a.ended_at or 0) <= b.planned_at for a, b in pairwise(chain)), "two attempts at a time"
    done = [one.id for one in chain if (stream.data / "runs" / one.id.replace(".", "/") / "done").exists()]
    succeeded = {(r.attempt, r.rank) for r in records if r.event == "success"}
    assert {attempt for attempt, _ in succeeded} <= set(done)
    if row.state == "succeeded":
        # Said once, by the last attempt. Killed right after that, it has no time to write the record.
        assert done == [chain[-1].id] or (not done and kind.how == "run" and not kind.request["resumable"]), job_id
    elif row.state != "cancelled":
        assert not done, (job_id, row.state)


def check_slots(records: list[Record]) -> None:
    """Nobody found its slot in use, and the intervals that the jobs wrote down do not overlap."""
    assert [r for r in records if r.event == "collision"] == [], "a GPU was given twice"
    held: dict[tuple[str, int], list[tuple[int, int, str]]] = defaultdict(list)
    ends = {(r.attempt, r.rank): r.at for r in records if r.event in ("stopped", "ran")}
    for record in records:
        if record.event == "start":
            for gpu in record.gpus:
                end = ends.get((record.attempt, record.rank), record.at)
                held[record.host, gpu].append((record.at, end, record.attempt))
    for slot, intervals in held.items():
        for (_, end, first), (start, _, second) in pairwise(sorted(intervals)):
            assert end <= start, f"{slot}: {first} until {end}, {second} from {start}"


def check_spans(
    records: list[Record], attempts: Mapping[str, AttemptRow], spans: list[SpanRow], time: EngineTime
) -> None:
    """One unbroken span for each attempt that held GPUs, around all that it wrote; those of a slot do not overlap."""
    by_attempt = {span.attempt_id: span for span in spans}
    assert len(by_attempt) == len(spans)
    assert set(by_attempt) == {row.id for row in attempts.values() if row.started_at is not None}
    for record in records:
        span = by_attempt[record.attempt]
        earliest, latest = time.of(record.at)
        assert span.start <= latest and earliest <= span.end, (record, span, earliest, latest)
    held: dict[tuple[str, int], list[tuple[int, int, str]]] = defaultdict(list)
    for span in spans:
        row = attempts[span.attempt_id]
        assert (span.start, span.end) == (row.started_at, row.ended_at)
        assert span.kind == (SpanKind.CHARGED if row.charged else SpanKind.UNALLOCATED)
        slots = json.loads(row.slots)
        assert span.amount >= 1000 * sum(len(slot["gpus"]) for slot in slots)
        for slot in slots:
            for gpu in slot["gpus"]:
                held[slot["host"], gpu].append((span.start, span.end, span.attempt_id))
    for place, intervals in held.items():
        for (_, end, first), (start, _, second) in pairwise(sorted(intervals)):
            assert end <= start, f"{place}: {first} until {end}, {second} from {start}"


def check_sums(store: Store, spans: list[SpanRow]) -> None:
    """The ledger that a restart would bring back adds up to the spans, at every node."""
    state = recovery.restore(store).state
    ledger = state.clusters["main"].ledger
    for path in ("lab", "lab/a", "lab/b"):
        for kind in (SpanKind.CHARGED, SpanKind.UNALLOCATED):
            mine = [s for s in spans if s.kind == kind and (s.leaf + "/").startswith(path + "/")]
            expected = sum(s.amount * (s.end - s.start) for s in mine)
            assert ledger.account(path).usage(kind, state.now - 7 * DAY, state.now) == expected
