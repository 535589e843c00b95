"""Questions about jobs, attempts, evictions and the audit log."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, func, insert, or_, select

from tenure.store import schema
from tenure.store.database import HIGHEST_DELETED_JOB, Database, as_dict, columns_of
from tenure.store.rows import ArrayRow, AttemptRow, AuditRow, EvictionRow, JobRow, PastRun

_audit = as_dict(AuditRow, without=("id",))


def under(column: Column[Any], path: str) -> ColumnElement[bool]:
    """Whether a column of paths is ``path`` or below it ('': anything), in a way that an index can serve."""
    if not path:
        return column >= ""
    # '0' is the character that follows '/'.
    return or_(column == path, (column >= path + "/") & (column < path + "0"))


_jobs = partial(columns_of, JobRow, schema.jobs)
"""Jobs; of those of an array without what it was submitted as, which ``_found`` adds."""


def _found(connection: Connection, query: Select[Any]) -> list[JobRow]:
    """Jobs, each with the whole of what it was submitted as, which may be large: for an array it is read once."""
    rows = [JobRow(*row) for row in connection.execute(query)]
    table, numbers = schema.arrays, sorted({row.array_id or 0 for row in rows if not row.spec})
    specs: dict[int, str] = {}
    for at in range(0, len(numbers), _IDS_AT_ONCE):
        wanted = select(table.c.id, table.c.spec).where(table.c.id.in_(numbers[at : at + _IDS_AT_ONCE]))
        specs |= {row.id: row.spec for row in connection.execute(wanted)}
    return [row if row.spec else replace(row, spec=specs[row.array_id or 0]) for row in rows]


def _never_started() -> ColumnElement[bool]:
    table = schema.jobs
    return (table.c.state == "queued") & table.c.first_start_at.is_(None)


_IDS_AT_ONCE = 500
"""Databases take only so many parameters in one query."""


class Records(Database):
    """Read by the API, and by the engine when it answers a submission."""

    def job(self, job_id: int) -> JobRow | None:
        """One job, None when there is none or its history was compacted."""
        return self._one_job(schema.jobs.c.id == job_id)

    def find_by_client_key(self, user: str, key: str) -> JobRow | None:
        """The job that ``user`` submitted under ``key``."""
        return self._one_job((schema.jobs.c.user == user) & (schema.jobs.c.client_key == key))

    def _one_job(self, condition: ColumnElement[bool]) -> JobRow | None:
        with self._read() as connection:
            rows = _found(connection, _jobs().where(condition))
        return rows[0] if rows else None

    def jobs_of(self, ids: Collection[int]) -> dict[int, JobRow]:
        """These jobs by id, as far as there are any."""
        numbers, found = sorted(ids), dict[int, JobRow]()
        for at in range(0, len(numbers), _IDS_AT_ONCE):
            some = _jobs().where(schema.jobs.c.id.in_(numbers[at : at + _IDS_AT_ONCE]))
            found |= {row.id: row for row in self._jobs_found(some)}
        return found

    def _jobs_found(self, query: Select[Any]) -> list[JobRow]:
        with self._read() as connection:
            return _found(connection, query)

    def waiting_in(self, budgets: Collection[str]) -> list[JobRow]:
        """Jobs that queue in exactly these budgets, oldest first."""
        table = schema.jobs
        query = _jobs().where(table.c.state == "queued", table.c.budget.in_(budgets)).order_by(table.c.id)
        return self._jobs_found(query)

    def array(self, array_id: int) -> ArrayRow | None:
        """The array of this id, None when there is none or the history of all its jobs was compacted."""
        with self._read() as connection:
            row = connection.execute(columns_of(ArrayRow, schema.arrays).where(schema.arrays.c.id == array_id)).first()
        return None if row is None else ArrayRow(*row)

    def array_states(self, array_id: int) -> dict[str, int]:
        """How many of its jobs are in each state."""
        table = schema.jobs
        query = select(table.c.state, func.count()).where(table.c.array_id == array_id).group_by(table.c.state)
        return dict(sorted((state, count) for state, count in self._all(query)))

    def arrays_of(self, ids: Collection[int]) -> dict[int, ArrayRow]:
        """Those of these ids that are arrays'; see ``array``."""
        numbers, table, found = sorted(ids), schema.arrays, dict[int, ArrayRow]()
        for at in range(0, len(numbers), _IDS_AT_ONCE):
            rows = self._all(columns_of(ArrayRow, table).where(table.c.id.in_(numbers[at : at + _IDS_AT_ONCE])))
            found |= {row.id: ArrayRow(*row) for row in rows}
        return found

    def first_in_array(self, array_id: int, *, without: str = "") -> JobRow | None:
        """The job with the lowest index that is in another state than ``without``; None for none."""
        return self.first_in_arrays([array_id], without=without).get(array_id)

    def first_in_arrays(self, ids: Collection[int], *, without: str = "") -> dict[int, JobRow]:
        """The same for several arrays, by array."""
        numbers, table, firsts = sorted(ids), schema.jobs, set[int]()
        for at in range(0, len(numbers), _IDS_AT_ONCE):
            some = table.c.array_id.in_(numbers[at : at + _IDS_AT_ONCE]), table.c.state != without
            rows = self._all(select(func.min(table.c.id).label("first")).where(*some).group_by(table.c.array_id))
            firsts |= {row.first for row in rows}
        return {row.array_id: row for row in self.jobs_of(firsts).values() if row.array_id is not None}

    def max_job_id(self) -> int:
        """The highest job id ever written, 0 for none; compaction does not lower it."""
        deleted = select(schema.meta.c.value).where(schema.meta.c.key == HIGHEST_DELETED_JOB)
        with self._read() as connection:
            highest = connection.execute(select(func.max(schema.jobs.c.id))).scalar_one() or 0
            return max(highest, int(connection.execute(deleted).scalar_one()))

    def list_jobs(
        self,
        *,
        states: Collection[str] = (),
        users: Collection[str] = (),
        budget: str | None = None,
        cluster: str | None = None,
        since: int | None = None,
        array: int | None = None,
        indices: Collection[int] | None = None,
        fold: bool = False,
        after: int | None = None,
        limit: int | None = 100,
    ) -> list[JobRow]:
        """Jobs, newest first. Empty or None does not filter.

        ``array``: only its jobs, of these ``indices``. ``fold``: of those of an array that have never started just the
        first, and the first that is held. ``budget``: this path and below. ``since``: submitted then or later.
        ``after``: the id of the last job of the page before. ``limit`` None: all.
        """
        table = schema.jobs
        # The ids first: sorting all that match with what they were submitted as would take its size times theirs.
        query = select(table.c.id).order_by(table.c.id.desc()).limit(limit)
        if states:
            query = query.where(table.c.state.in_(states))
        if users:
            query = query.where(table.c.user.in_(users))
        if budget is not None:
            query = query.where(under(table.c.budget, budget))
        if cluster is not None:
            query = query.where(table.c.cluster == cluster)
        if since is not None:
            query = query.where(table.c.submitted_at >= since)
        if array is not None:
            query = query.where(table.c.array_id == array)
        if indices is not None:
            query = query.where(table.c.array_index.in_(indices))
        if fold:
            first = select(func.min(table.c.id)).where(_never_started()).group_by(table.c.array_id, table.c.held)
            query = query.where(or_(~_never_started(), table.c.array_id.is_(None), table.c.id.in_(first)))
        if after is not None:
            query = query.where(table.c.id < after)
        return self._jobs_found(_jobs().where(table.c.id.in_(query)).order_by(table.c.id.desc()))

    def never_started(self, arrays: Collection[int]) -> dict[tuple[int, bool], list[int]]:
        """(Array, held or not) -> the indices of its jobs that wait and have never started, rising."""
        table = schema.jobs
        query = select(table.c.array_id, table.c.held, table.c.array_index)
        query = query.where(table.c.array_id.in_(arrays), _never_started())
        found: dict[tuple[int, bool], list[int]] = {}
        for array, held, index in self._all(query.order_by(table.c.array_id, table.c.array_index)):
            found.setdefault((array, bool(held)), []).append(index)
        return found

    def past_runs(self, user: str, limit: int = 100) -> list[PastRun]:
        """The last jobs of a person that succeeded, newest first, and how long they ran."""
        jobs, runs = schema.jobs, schema.attempts
        columns = jobs.c.id, jobs.c.name, jobs.c.gpus, jobs.c.min_runtime
        last = select(jobs.c.id).where(jobs.c.user == user, jobs.c.state == "succeeded")
        last = last.order_by(jobs.c.id.desc()).limit(limit)
        ran = func.sum(runs.c.ended_at - runs.c.running_at)
        query = select(*columns, ran).select_from(jobs.join(runs, runs.c.job_id == jobs.c.id))
        query = query.where(jobs.c.id.in_(last), runs.c.running_at.is_not(None), runs.c.ended_at.is_not(None))
        rows = self._all(query.group_by(*columns).order_by(jobs.c.id.desc()))
        return [PastRun(row[0], row[1], row[2], row[3], int(row[4])) for row in rows]

    def attempts_of(self, job_id: int) -> list[AttemptRow]:
        """The attempts of a job, first to last."""
        table = schema.attempts
        query = columns_of(AttemptRow, table).where(table.c.job_id == job_id).order_by(table.c.number)
        return [AttemptRow(*row) for row in self._all(query)]

    def protections_of(self, attempts: Sequence[str]) -> dict[str, int]:
        """Until when each of these attempts is or was protected, ms; without those that never were."""
        table, found = schema.attempts, dict[str, int]()
        for at in range(0, len(attempts), _IDS_AT_ONCE):
            some = table.c.id.in_(attempts[at : at + _IDS_AT_ONCE]) & table.c.protected_until.is_not(None)
            rows = self._all(select(table.c.id, table.c.protected_until).where(some))
            found |= {row.id: row.protected_until for row in rows}
        return found

    def attempts_of_all(self, job_ids: Sequence[int]) -> dict[int, list[AttemptRow]]:
        """The attempts of several jobs by job, first to last: one query for so many at a time."""
        table, found = schema.attempts, dict[int, list[AttemptRow]]()
        for at in range(0, len(job_ids), _IDS_AT_ONCE):
            some = table.c.job_id.in_(job_ids[at : at + _IDS_AT_ONCE])
            for row in self._all(columns_of(AttemptRow, table).where(some).order_by(table.c.job_id, table.c.number)):
                attempt = AttemptRow(*row)
                found.setdefault(attempt.job_id, []).append(attempt)
        return found

    def evictions(
        self, since: int | None = None, limit: int | None = 100, job_id: int | None = None
    ) -> list[EvictionRow]:
        """Evictions at ``since`` or later, newest first; of one job, as victim or as gainer."""
        table = schema.evictions
        query = columns_of(EvictionRow, table).order_by(table.c.id.desc()).limit(limit)
        if since is not None:
            query = query.where(table.c.at >= since)
        if job_id is not None:
            query = query.where(or_(table.c.job_id == job_id, table.c.gainer == job_id))
        return [EvictionRow(*row) for row in self._all(query)]

    def evictions_since(self, after: int = 0, limit: int | None = None) -> list[EvictionRow]:
        """Evictions whose ``id`` is above ``after``, oldest first: for whoever follows them."""
        table = schema.evictions
        query = columns_of(EvictionRow, table).where(table.c.id > after).order_by(table.c.id).limit(limit)
        return [EvictionRow(*row) for row in self._all(query)]

    def audit_log(self, since: int | None = None, limit: int | None = 100) -> list[AuditRow]:
        """What people did at ``since`` or later, newest first."""
        table = schema.audit
        query = columns_of(AuditRow, table).order_by(table.c.id.desc()).limit(limit)
        if since is not None:
            query = query.where(table.c.at >= since)
        return [AuditRow(*row) for row in self._all(query)]

    def record_audit(self, rows: Sequence[AuditRow]) -> None:
        """Append to the audit log what happened outside a scheduling pass, such as a new user."""
        if rows:
            with self._write() as connection:
                connection.execute(insert(schema.audit), [_audit(row) for row in rows])

    def _all(self, query: Select[Any]) -> Sequence[Any]:
        with self._read() as connection:
            return connection.execute(query).all()
