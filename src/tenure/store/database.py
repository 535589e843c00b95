"""Connections, transactions, the leader epoch and small facts: what every part of the store stands on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Engine, Select, Table, create_engine, event, insert, select, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError
from sqlalchemy.sql.dml import Insert

from tenure.store import schema
from tenure.store.errors import StoreError
from tenure.store.migrate import is_newest, migrate

BUSY_TIMEOUT = 20_000
"""ms that a SQLite writer waits for another process's transaction."""

HIGHEST_DELETED_JOB = "highest_deleted_job"
"""The fact that keeps compaction from making an id free again."""

_LONGEST_PAUSE = 0.1
"""Seconds. Who waits for SQLite from another process sleeps no longer than that before it asks again."""

_WRITES = "tenure_writes"
_TO_WRITE = ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "journal_size_limit = 67108864")
_MIGRATION_LOCK = 7_364_873
"""Key of the PostgreSQL advisory lock under which one server at a time migrates."""


def sqlite_path(url: str | URL) -> Path | None:
    """The file behind a SQLite URL, None for PostgreSQL.

    Raises StoreError for a URL of neither, and for a SQLite database in memory.
    """
    return _file_of(_parse(url))


def _parse(url: str | URL) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreError("the database URL cannot be read: write sqlite:///path or postgresql://host/name") from error
    if parsed.drivername in ("postgres", "postgresql"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    return parsed


def _file_of(url: URL) -> Path | None:
    backend = url.get_backend_name()
    if backend == "postgresql":
        return None
    if backend != "sqlite":
        raise StoreError(f"{backend} is not a database that Tenure can use: write sqlite:///path or postgresql://...")
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise StoreError("a SQLite database must be a plain file, since it must outlive the server: sqlite:///path")
    return Path(url.database)


def _prepare_file(path: Path) -> None:
    """Create the file for its owner alone: it holds what users submit, environments included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))


def _engine(url: URL, path: Path | None) -> Engine:
    # Errors go into logs, and parameters may be secrets: addresses of webhooks, environments of jobs.
    pool: dict[str, Any] = {"pool_size": 10, "max_overflow": 30, "pool_pre_ping": path is None}
    return create_engine(url, hide_parameters=True, **pool)


def _set_up_sqlite(engine: Engine, *, writes: bool = True) -> None:
    """``writes`` False: whoever tries to write gets an error."""
    pragmas = (f"busy_timeout = {BUSY_TIMEOUT}", *(_TO_WRITE if writes else ("query_only = ON",)))

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: object) -> None:
        # The driver would begin transactions by itself, late and only before some statements.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        # A writer that begins as a reader fails at once, without busy_timeout, when another one was faster.
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def upsert(dialect: str, table: Table) -> Insert:
    """An insert into ``table`` that replaces the row of the same primary key."""
    statement = sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)
    keys = [column.name for column in table.primary_key]
    values = {column.name: statement.excluded[column.name] for column in table.c if column.name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=values)


def columns_of(row: type[Any], table: Table) -> Select[Any]:
    """Select what the fields of ``row`` name, in their order."""
    return select(*(table.c[item.name] for item in fields(row)))


def as_dict(row: type[Any], *, without: tuple[str, ...] = ()) -> Callable[[Any], dict[str, Any]]:
    """A fast way from an instance of ``row`` to the parameters of a statement."""
    names = [item.name for item in fields(row) if item.name not in without]
    values = attrgetter(*names)
    return lambda instance: dict(zip(names, values(instance), strict=True))


class Database:
    """An open database. Methods may be called from any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.dialect = engine.dialect.name
        self.url = engine.url.render_as_string(hide_password=True)
        # Threads queue here rather than in SQLite, whose waiters sleep and may starve.
        self._turn: AbstractContextManager[Any] = nullcontext()
        if self.dialect == "sqlite":
            self._turn = threading.Lock()
            self._reader = engine
            self._writer = engine.execution_options(**{_WRITES: True})
        else:
            # One view of the data for all statements of a read, as SQLite has it anyway.
            self._reader = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            self._writer = engine.execution_options(isolation_level="READ COMMITTED")

    @classmethod
    def open(cls, url: str) -> Self:
        """Open ``sqlite:///path`` or ``postgresql://...`` and migrate it to the newest schema.

        Raises StoreError for a URL it cannot use, DatabaseTooNew when a newer version has been here.
        """
        parsed = _parse(url)
        path = _file_of(parsed)
        if path is not None:
            _prepare_file(path)
        engine = _engine(parsed, path)
        if path is not None:
            _set_up_sqlite(engine)
        database = cls(engine)
        try:
            with database._write() as connection:
                if path is None:
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
                migrate(connection)
        except BaseException:
            engine.dispose()
            raise
        return database

    @classmethod
    def open_to_read(cls, url: str) -> Self:
        """Open a database that is there, as it is: nothing is written, so a server that uses it is not disturbed.

        Raises StoreError where there is none, where it cannot be read, for an older schema, and as ``open`` does.
        """
        parsed = _parse(url)
        path = _file_of(parsed)
        if path is not None and not path.is_file():
            raise StoreError(f"there is no database at {path}: has this server ever run?")
        engine = _engine(parsed, path)
        if path is not None:
            _set_up_sqlite(engine, writes=False)
        database = cls(engine)
        try:
            with database._read() as connection:
                newest = is_newest(connection)
        except DatabaseError as error:
            engine.dispose()
            if path is None:
                raise
            # Readers share a file beside the database with those who write, so they have to be able to make it.
            raise StoreError(
                f"the database at {path} cannot be read ({error.orig}): run this as the server's user, or on "
                "a copy of your own, made with `tenure backup`"
            ) from error
        except BaseException:
            engine.dispose()
            raise
        if not newest:
            engine.dispose()
            raise StoreError("the database is of an older version of Tenure: start this version's server on it first")
        return database

    def close(self) -> None:
        """Close every connection. Other threads must have finished their calls."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        """A transaction that only reads, with one view of the data throughout."""
        with self._reader.begin() as connection:
            yield connection

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        """A transaction that writes: committed at the end, rolled back on an exception."""
        with self._turn, self._writer.begin() as connection:
            yield connection

    @contextmanager
    def _step(self) -> Iterator[Connection]:
        """One of many transactions that write, then a pause of the same length.

        Whoever waits for a lock in the meantime gets it: locks are not fair, and would come back here at once.
        """
        began = time.monotonic()
        with self._write() as connection:
            yield connection
        with suppress(OSError):  # under a faked clock (libfaketime) sleeping is refused
            time.sleep(min(time.monotonic() - began, _LONGEST_PAUSE))

    def take_leadership(self, above: int = 0) -> int:
        """Start a new leader epoch and return it; whoever led before can no longer write.

        The new epoch is above ``above`` too: the newest one that an executor has seen, which may be ahead of
        a database restored from a backup.
        """
        with self._write() as connection:
            row = select(schema.meta.c.value).where(schema.meta.c.key == "epoch").with_for_update()
            epoch = max(int(connection.execute(row).scalar_one()), above) + 1
            self._set(connection, "epoch", str(epoch))
        return epoch

    def epoch(self) -> int:
        """The current leader epoch, 0 before the first."""
        return int(self.meta("epoch") or 0)

    def meta(self, key: str) -> str | None:
        """A small fact kept under ``key``, None when there is none."""
        with self._read() as connection:
            row = select(schema.meta.c.value).where(schema.meta.c.key == key)
            return connection.execute(row).scalar_one_or_none()

    def _set(self, connection: Connection, key: str, value: str) -> None:
        changed = connection.execute(update(schema.meta).where(schema.meta.c.key == key).values(value=value))
        if not changed.rowcount:
            connection.execute(insert(schema.meta).values(key=key, value=value))
