"""Old history goes, and no sum changes: spans become sums per day, exact to the last GPU-millisecond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Table, delete, func, select

from tenure.store import schema
from tenure.store.database import HIGHEST_DELETED_JOB, Database, columns_of, upsert
from tenure.store.records import under
from tenure.store.rows import Compaction, SpanRow, UsageRow

DAY = 24 * 60 * 60 * 1000

_CHUNK = 500
"""Rows per transaction, so that the engine never waits long for its turn."""

_TOLD = schema.notices.c.done_at.is_not(None)
"""What is still on its way stays."""

_Key = tuple[int, str, str, str, str]
"""The primary key of a rollup: day_start, cluster, leaf, user, kind."""


def by_day(start: int, end: int, amount: int) -> Iterator[tuple[int, int]]:
    """Cut amount x [start, end) at the borders of UTC days, into (start of day, amount x ms)."""
    while start < end:
        day = start - start % DAY
        until = min(day + DAY, end)
        yield day, amount * (until - start)
        start = until


@dataclass(frozen=True, slots=True)
class _Chunk:
    spans: int
    rollups: int


class Retention(Database):
    """Compaction, and usage over whole days, which it leaves as it was."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._upsert_rollup = upsert(self.dialect, schema.rollups)

    def compact(self, before: int, lookback: int) -> Compaction:
        """Take away what is older than ``before``, in short transactions; killed halfway, it loses nothing.

        Batches go as far as the newest snapshot at or before ``before`` covers them, but for the last one;
        that snapshot stays as the replay's starting point. Jobs that ended before go with their attempts, then
        evictions, audit entries, notices and estimates. Spans that ended by ``before``, and ``lookback`` ms before the
        oldest snapshot left, become sums per day; one that reaches over that border stays whole. ``lookback`` must be
        the longest that the policy had at any snapshot left: what a snapshot stands for needs the spans inside.
        May run while the server runs.
        """
        snapshots, batches = self._compact_batches(before)
        border = self._border(before, lookback)
        jobs, attempts = self._compact_jobs(before)
        evictions = self._delete(schema.evictions, schema.evictions.c.at < before)
        audit = self._delete(schema.audit, schema.audit.c.at < before)
        notices = self._delete(schema.notices, (schema.notices.c.at < before) & _TOLD)
        estimates = self._compact_estimates(before)
        spans = rollups = 0
        while border is not None and (chunk := self._roll_up(border)).spans:
            spans += chunk.spans
            rollups += chunk.rollups
        return Compaction(batches, snapshots, jobs, attempts, evictions, audit, spans, rollups, notices, estimates)

    def _compact_batches(self, before: int) -> tuple[int, int]:
        table = schema.snapshots
        with self._read() as connection:
            base = connection.execute(select(func.max(table.c.seq)).where(table.c.at <= before)).scalar_one()
        if base is None:
            return 0, 0
        # Snapshots first: at every moment the oldest one is followed by all of its batches.
        snapshots = self._delete(table, table.c.seq < base)
        seq = schema.batches.c.seq
        last = select(func.max(seq)).scalar_subquery()
        return snapshots, self._delete(schema.batches, (seq <= base) & (seq < last))

    def _border(self, before: int, lookback: int) -> int | None:
        """Spans that ended by then are needed by no snapshot. None without one: everything may be needed."""
        oldest = select(schema.snapshots.c.at).order_by(schema.snapshots.c.seq).limit(1)
        with self._read() as connection:
            at = connection.execute(oldest).scalar_one_or_none()
        return None if at is None else min(before, at - lookback)

    def _delete(self, table: Table, condition: ColumnElement[bool]) -> int:
        """Delete the rows that meet ``condition``, oldest first, and count them."""
        key = next(iter(table.primary_key))
        oldest = select(key).where(condition).order_by(key).limit(_CHUNK)
        deleted = 0
        while True:
            with self._step() as connection:
                count = connection.execute(delete(table).where(key.in_(oldest))).rowcount
            deleted += count
            if count < _CHUNK:
                return deleted

    def _compact_estimates(self, before: int) -> int:
        """By time: a job has several."""
        made_at = schema.estimates.c.made_at
        deleted = 0
        while True:
            last = select(made_at).where(made_at < before).order_by(made_at).offset(_CHUNK - 1).limit(1)
            with self._step() as connection:
                some = connection.execute(last).scalar_one_or_none()
                old = made_at < before if some is None else made_at <= some
                deleted += connection.execute(delete(schema.estimates).where(old)).rowcount
            if some is None:
                return deleted

    def _compact_jobs(self, before: int) -> tuple[int, int]:
        table, tries = schema.jobs, schema.attempts
        ended = select(table.c.id).where(table.c.ended_at < before).order_by(table.c.id).limit(_CHUNK)
        jobs = attempts = 0
        while True:
            with self._step() as connection:
                highest = self._lock(connection)
                ids = connection.execute(ended).scalars().all()
                if not ids:
                    return jobs, attempts
                self._set(connection, HIGHEST_DELETED_JOB, str(max(highest, *ids)))
                attempts += connection.execute(delete(tries).where(tries.c.job_id.in_(ids))).rowcount
                of_arrays = (
                    select(table.c.array_id).where(table.c.id.in_(ids), table.c.array_id.is_not(None)).distinct()
                )
                arrays = connection.execute(of_arrays).scalars().all()
                jobs += connection.execute(delete(table).where(table.c.id.in_(ids))).rowcount
                left = select(table.c.id).where(table.c.array_id == schema.arrays.c.id).exists()
                connection.execute(delete(schema.arrays).where(schema.arrays.c.id.in_(arrays), ~left))

    def _lock(self, connection: Connection) -> int:
        """Let one compaction work at a time, and return the highest job id deleted so far."""
        row = select(schema.meta.c.value).where(schema.meta.c.key == HIGHEST_DELETED_JOB).with_for_update()
        return int(connection.execute(row).scalar_one())

    def _roll_up(self, border: int) -> _Chunk:
        """Turn some spans that ended by ``border`` into sums per day, in one transaction."""
        table = schema.spans
        oldest = columns_of(SpanRow, table).where(table.c.end <= border).order_by(table.c.end, table.c.id).limit(_CHUNK)
        with self._step() as connection:
            self._lock(connection)
            spans = [SpanRow(*row) for row in connection.execute(oldest)]
            if not spans:
                return _Chunk(0, 0)
            sums: Counter[_Key] = Counter()
            for span in spans:
                for day, amount_ms in by_day(span.start, span.end, span.amount):
                    sums[day, span.cluster, span.leaf, span.user, span.kind] += amount_ms
            if sums:
                self._add(connection, sums)
            connection.execute(delete(table).where(table.c.id.in_([span.id for span in spans])))
        return _Chunk(len(spans), len(sums))

    def _add(self, connection: Connection, sums: Counter[_Key]) -> None:
        """Add to the rollups in Python, where integers have no largest value."""
        table = schema.rollups
        days = [key[0] for key in sums]
        for row in connection.execute(select(table).where(table.c.day_start.between(min(days), max(days)))):
            key = (row.day_start, row.cluster, row.leaf, row.user, row.kind)
            if key in sums:
                sums[key] += row.amount_ms
        names = [column.name for column in table.c]
        values = [dict(zip(names, (*key, amount_ms), strict=True)) for key, amount_ms in sums.items()]
        connection.execute(self._upsert_rollup, values)

    def usage(self, cluster: str | None, leaf: str | None, start: int, end: int) -> list[UsageRow]:
        """Exact use over [start, end) by cluster, leaf, user and kind.

        ``cluster`` None: all. ``leaf``: this path and below, None for all.

        Raises ValueError unless both ends are at midnight UTC: a compacted day cannot be cut.
        """
        if start % DAY or end % DAY:
            raise ValueError(f"usage is kept by whole UTC days, and {start} to {end} cuts one")
        sums: Counter[tuple[str, str, str, str]] = Counter()
        spans, rollups = schema.spans, schema.rollups

        def narrow(table: Table) -> Iterator[ColumnElement[bool]]:
            if cluster is not None:
                yield table.c.cluster == cluster
            if leaf is not None:
                yield under(table.c.leaf, leaf)

        # Both in one transaction: a compaction in between would count spans twice or never.
        with self._read() as connection:
            inside: Any = (spans.c.end > start) & (spans.c.start < end)
            query = columns_of(SpanRow, spans).where(inside, *narrow(spans))
            for row in connection.execution_options(yield_per=1000).execute(query):
                length = min(row.end, end) - max(row.start, start)
                sums[row.cluster, row.leaf, row.user, row.kind] += row.amount * length
            whole = (rollups.c.day_start >= start) & (rollups.c.day_start < end)
            for row in connection.execute(select(rollups).where(whole, *narrow(rollups))):
                sums[row.cluster, row.leaf, row.user, row.kind] += row.amount_ms
        return [UsageRow(*key, amount_ms) for key, amount_ms in sorted(sums.items())]
