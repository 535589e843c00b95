"""Estimates of when jobs start, and how they came true."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Engine, bindparam, delete, select, tuple_, update

from tenure.store import schema
from tenure.store.database import Database, as_dict, columns_of, upsert
from tenure.store.rows import EstimateRow

_CHUNK = 200
"""Rows per transaction: whoever schedules never waits long for its turn."""

_estimate = as_dict(EstimateRow)


class Estimates(Database):
    """Written by the process that makes them, in short transactions with pauses between them; read by the API."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._upsert_estimate = upsert(self.dialect, schema.estimates)

    def write_estimates(self, rows: Iterable[tuple[EstimateRow, int | None]]) -> None:
        """Keep each in place of the one that was made of its job at the time given with it; None: beside the others."""
        table, left = schema.estimates, list(rows)
        key = tuple_(table.c.job_id, table.c.made_at)
        while left:
            some, left = left[:_CHUNK], left[_CHUNK:]
            old = [(row.job_id, made_at) for row, made_at in some if made_at is not None]
            with self._step() as connection:
                if old:
                    connection.execute(delete(table).where(key.in_(old)))
                connection.execute(self._upsert_estimate, [_estimate(row) for row, _ in some])

    def estimates_came_true(self, starts: Iterable[tuple[int, int]]) -> None:
        """``starts``: (job, when it was given GPUs). Its open estimates have come true by that, or not.

        A start has the time of the step that it was decided in, and can be seen only some time later. What was
        estimated in between was known already, and goes.
        """
        table, left = schema.estimates, [{"job": job_id, "at": at} for job_id, at in starts]
        waiting = (table.c.job_id == bindparam("job")) & table.c.started_at.is_(None)
        too_late = delete(table).where(waiting, table.c.made_at > bindparam("at"))
        true = update(table).where(waiting).values(started_at=bindparam("at"))
        while left:
            some, left = left[:_CHUNK], left[_CHUNK:]
            with self._step() as connection:
                connection.execute(too_late, some)
                connection.execute(true, some)

    def drop_estimates(self, jobs: Iterable[int]) -> None:
        """These jobs will not start: what was expected of them is neither right nor wrong."""
        table, left = schema.estimates, sorted(jobs)
        while left:
            some, left = left[:_CHUNK], left[_CHUNK:]
            with self._step() as connection:
                gone = table.c.job_id.in_(some) & table.c.started_at.is_(None)
                connection.execute(delete(table).where(gone))

    def newest_estimate(self, job_id: int) -> EstimateRow | None:
        """The newest of a job, whether it has started since or not."""
        table = schema.estimates
        rows = self._estimates(table.c.job_id == job_id, limit=1, newest=True)
        return rows[0] if rows else None

    def open_estimates(self) -> list[EstimateRow]:
        """Those of jobs that have not started since, oldest first."""
        return self._estimates(schema.estimates.c.started_at.is_(None))

    def overdue_estimates(self, now: int, since: int | None = None) -> list[tuple[int, int]]:
        """(job, end of its range) of jobs that wait, are not held, and should have started before ``now``, by what was
        told of them first since they wait. ``since``: those alone that should have started at that moment or later.
        """
        table, jobs, earlier = schema.estimates, schema.jobs, schema.estimates.alias()
        same = (earlier.c.job_id == table.c.job_id) & earlier.c.started_at.is_(None)
        not_first = select(earlier.c.job_id).where(same, earlier.c.made_at < table.c.made_at).exists()
        query = select(table.c.job_id, table.c.high).join(jobs, jobs.c.id == table.c.job_id)
        late = table.c.started_at.is_(None) & (table.c.high < now)
        if since is not None:
            late &= table.c.high >= since
        waits = (jobs.c.state == "queued") & jobs.c.held.is_not(True)
        query = query.where(late, waits, ~not_first).order_by(table.c.job_id)
        with self._read() as connection:
            return [(row.job_id, row.high) for row in connection.execute(query)]

    def past_estimates(
        self, since: int, until: int, size_class: str, limit: int, *, started: bool = False
    ) -> list[EstimateRow]:
        """The newest so many of a size class that were made in [since, until), oldest first.

        ``started``: only those whose job has started since.
        """
        table = schema.estimates
        wanted = (table.c.size_class == size_class) & (table.c.made_at >= since) & (table.c.made_at < until)
        if started:
            wanted &= table.c.started_at.is_not(None)
        return self._estimates(wanted, limit=limit, newest=True)[::-1]

    def _estimates(
        self, wanted: ColumnElement[bool], *, limit: int | None = None, newest: bool = False
    ) -> list[EstimateRow]:
        table: Any = schema.estimates
        order = (table.c.made_at.desc(), table.c.job_id.desc()) if newest else (table.c.made_at, table.c.job_id)
        query = columns_of(EstimateRow, table).where(wanted).order_by(*order).limit(limit)
        with self._read() as connection:
            return [EstimateRow(*row) for row in connection.execute(query)]
