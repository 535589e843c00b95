"""The log of batches with what follows from each, snapshots of the core's state, and the ledger's spans."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Engine, Select, func, insert, select

from tenure import faults
from tenure.store import schema
from tenure.store.database import Database, as_dict, columns_of, upsert
from tenure.store.errors import StaleLeader
from tenure.store.records import under
from tenure.store.rows import ArrayRow, AttemptRow, AuditRow, BatchRow, EvictionRow, JobRow, SpanRow

_PAGE = 200
"""Batches read at a time."""

_batch = as_dict(BatchRow)
_job = as_dict(JobRow)
_array = as_dict(ArrayRow)
_attempt = as_dict(AttemptRow)
_span = as_dict(SpanRow, without=("id",))
_eviction = as_dict(EvictionRow, without=("id",))
_audit = as_dict(AuditRow, without=("id",))


class History(Database):
    """What the engine writes, and reads again when it starts."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._upsert_job = upsert(self.dialect, schema.jobs)
        self._upsert_attempt = upsert(self.dialect, schema.attempts)

    def write(
        self,
        batch: BatchRow,
        *,
        jobs: Sequence[JobRow] = (),
        attempts: Sequence[AttemptRow] = (),
        spans: Sequence[SpanRow] = (),
        evictions: Sequence[EvictionRow] = (),
        audit: Sequence[AuditRow] = (),
        arrays: Sequence[ArrayRow] = (),
    ) -> None:
        """Write one scheduling pass with all that follows from it: one transaction, on disk at the return.

        Jobs and attempts replace what was there; the rest is appended. Raises StaleLeader when another server
        has taken over, and SQLAlchemy's IntegrityError when ``batch.seq`` was written before or a client key
        is in use; nothing is written then.
        """
        with self._write() as connection:
            # Nobody takes over between this look and the commit: a row lock sees to it on PostgreSQL.
            row = select(schema.meta.c.value).where(schema.meta.c.key == "epoch").with_for_update(read=True)
            current = int(connection.execute(row).scalar_one())
            if current != batch.epoch:
                raise StaleLeader(batch.epoch, current)
            connection.execute(insert(schema.batches), _batch(batch))
            for statement, rows in (
                (insert(schema.arrays), [_array(row) for row in arrays]),
                (self._upsert_job, [_job(row) for row in jobs]),
                (self._upsert_attempt, [_attempt(row) for row in attempts]),
                (insert(schema.spans), [_span(row) for row in spans]),
                (insert(schema.evictions), [_eviction(row) for row in evictions]),
                (insert(schema.audit), [_audit(row) for row in audit]),
            ):
                if rows:
                    connection.execute(statement, rows)
            faults.point("store.before_commit")
        faults.point("store.after_commit")

    def batches(self, after: int = 0, limit: int | None = None) -> Iterator[BatchRow]:
        """Batches with ``seq`` > ``after`` in order, read by pages: a slow reader holds nothing up."""
        left = limit
        while left is None or left > 0:
            page = _PAGE if left is None else min(_PAGE, left)
            query = columns_of(BatchRow, schema.batches).where(schema.batches.c.seq > after)
            with self._read() as connection:
                rows = connection.execute(query.order_by(schema.batches.c.seq).limit(page)).all()
            for row in rows:
                yield BatchRow(*row)
            if len(rows) < page:
                return
            after = rows[-1].seq
            left = None if left is None else left - page

    def last_batch(self) -> BatchRow | None:
        """The newest batch, which compaction leaves; None in a new database."""
        query = columns_of(BatchRow, schema.batches).order_by(schema.batches.c.seq.desc()).limit(1)
        with self._read() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else BatchRow(*row)

    def last_seq(self) -> int:
        """The newest ``seq`` ever written, 0 for none; compaction does not lower it."""
        newest = [select(func.max(table.c.seq)) for table in (schema.batches, schema.snapshots)]
        with self._read() as connection:
            return max(connection.execute(query).scalar_one() or 0 for query in newest)

    def write_snapshot(self, seq: int, at: int, state: bytes) -> None:
        """Keep the core's state after batch ``seq``; compressed before the lock is taken. Twice is once."""
        packed = zlib.compress(state, 6)
        known = select(schema.snapshots.c.seq).where(schema.snapshots.c.seq == seq)
        with self._write() as connection:
            if connection.execute(known).first() is None:
                connection.execute(insert(schema.snapshots).values(seq=seq, at=at, state=packed))

    def latest_snapshot(self) -> tuple[int, int, bytes] | None:
        """The newest snapshot: seq, at, state."""
        return self._snapshot(select(schema.snapshots).order_by(schema.snapshots.c.seq.desc()))

    def first_snapshot(self) -> tuple[int, int, bytes] | None:
        """The oldest snapshot that is kept. After a compaction, every batch after it is still there."""
        return self._snapshot(select(schema.snapshots).order_by(schema.snapshots.c.seq))

    def _snapshot(self, query: Select[Any]) -> tuple[int, int, bytes] | None:
        with self._read() as connection:
            row = connection.execute(query.limit(1)).one_or_none()
        return None if row is None else (row.seq, row.at, zlib.decompress(row.state))

    def spans(
        self,
        cluster: str | None = None,
        ending_after: int | None = None,
        up_to_seq: int | None = None,
        leaf: str = "",
    ) -> Iterator[SpanRow]:
        """Spans in the order they were written: of one cluster, with ``end`` > ``ending_after``, by batch.

        ``leaf``: of this path and below.

        They stream out of one transaction: read them without waiting for anything, or close the iterator.
        """
        table = schema.spans
        query = columns_of(SpanRow, table).order_by(table.c.id)
        if cluster is not None:
            query = query.where(table.c.cluster == cluster)
        if ending_after is not None:
            query = query.where(table.c.end > ending_after)
        if up_to_seq is not None:
            query = query.where(table.c.seq <= up_to_seq)
        if leaf:
            query = query.where(under(table.c.leaf, leaf))
        with self._read() as connection:
            for row in connection.execution_options(yield_per=1000).execute(query):
                yield SpanRow(*row)
