"""Where a past moment is in the log. Engine time never runs backwards, so batches are in the order of their times."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from sqlalchemy import Connection, func, select

from tenure.store import schema
from tenure.store.database import Database, columns_of
from tenure.store.rows import BatchRow, SpanRow

_PAGE = 500
"""Batches that are searched at a time."""


class Moments(Database):
    """Batches and snapshots by time. No index is needed for that: the order of their numbers is enough."""

    def kept_since(self) -> int | None:
        """The earliest moment that the kept log can be read from, ms; None when it has no such moment.

        That is its first batch, and after a compaction its first snapshot.
        """
        batches, snapshots = schema.batches.c, schema.snapshots.c
        with self._read() as connection:
            first = connection.execute(select(batches.seq, batches.at).order_by(batches.seq).limit(1)).one_or_none()
            if first is not None and first.seq == 1:
                return int(first.at)
            return connection.execute(select(snapshots.at).order_by(snapshots.seq).limit(1)).scalar_one_or_none()

    def snapshot_seq_at(self, at: int) -> int:
        """The batch of the newest snapshot of ``at`` or before, 0 without one."""
        table = schema.snapshots
        with self._read() as connection:
            return connection.execute(select(func.max(table.c.seq)).where(table.c.at <= at)).scalar_one() or 0

    def snapshot_at(self, at: int) -> tuple[int, int, bytes] | None:
        """The newest snapshot of ``at`` or before: seq, at, state. None without one."""
        table = schema.snapshots
        query = select(table).where(table.c.at <= at).order_by(table.c.seq.desc()).limit(1)
        with self._read() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else (row.seq, row.at, zlib.decompress(row.state))

    def seq_at(self, at: int) -> int:
        """The newest batch of ``at`` or before that is kept, 0 without one."""
        with self._read() as connection:
            return _newest(connection, at)

    def batches_at(self, at: int) -> list[BatchRow]:
        """The batches of this very millisecond that are kept: there may be several, one for each request."""
        batches = schema.batches.c
        with self._read() as connection:
            last = _newest(connection, at)
            rows = columns_of(BatchRow, schema.batches).where(batches.seq <= last).order_by(batches.seq.desc())
            found: list[BatchRow] = []
            for row in connection.execution_options(yield_per=1).execute(rows):
                if row.at != at:
                    break
                found.append(BatchRow(*row))
        return found[::-1]

    def batches_naming(self, attempt_id: str, after: int) -> Iterator[BatchRow]:
        """Batches with ``seq`` > ``after`` whose events name this attempt, in order. Stop when you have seen enough."""
        seq, events = schema.batches.c.seq, schema.batches.c.events
        named = events.contains(f'"{attempt_id}"', autoescape=True)
        with self._read() as connection:
            last = connection.execute(select(func.max(seq))).scalar_one() or 0
        while after < last:
            query = columns_of(BatchRow, schema.batches).where(seq > after, seq <= after + _PAGE, named).order_by(seq)
            with self._read() as connection:
                rows = connection.execute(query).all()
            for row in rows:
                yield BatchRow(*row)
            after += _PAGE

    def spans_ending(self, attempt_id: str, at: int) -> list[SpanRow]:
        """What the ledger has of an attempt that ends at this very time: its last span, and a credit if there is one.

        Empty when they have become sums per day.
        """
        table = schema.spans
        query = columns_of(SpanRow, table).where(table.c.end == at, table.c.attempt_id == attempt_id)
        with self._read() as connection:
            return [SpanRow(*row) for row in connection.execute(query.order_by(table.c.id))]


def _newest(connection: Connection, at: int) -> int:
    """By bisection: some twenty steps on the primary key."""
    batches = schema.batches.c
    low, high = connection.execute(select(func.min(batches.seq), func.max(batches.seq))).one()
    if low is None:
        return 0
    found = 0
    while low <= high:
        middle = (low + high) // 2
        # The first one from there on: a compaction leaves no gap but one before the very last.
        row = connection.execute(
            select(batches.seq, batches.at).where(batches.seq >= middle).order_by(batches.seq).limit(1)
        ).one()
        if row.at <= at:
            found, low = row.seq, row.seq + 1
        else:
            high = middle - 1
    return int(found)
