"""Copies of a SQLite database, made while the server runs, and put back while it does not."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy.engine import URL

from tenure.store.database import sqlite_path
from tenure.store.errors import StoreError
from tenure.store.migrate import check_revision

_USE_PG_DUMP = (
    "this database is PostgreSQL, which has its own tools: back up with `pg_dump --format=custom`, "
    "put back with `pg_restore`"
)


def backup(url: str | URL, target: Path) -> None:
    """Copy the database behind ``url`` into the file ``target``, checked and on disk when this returns.

    The server may go on writing; the copy is of one moment. Raises StoreError for PostgreSQL, when ``target``
    exists, and when the copy is damaged.
    """
    source = _sqlite_file(url)
    if target.exists():
        raise StoreError(f"{target} exists: name a new file for the backup")
    if not target.parent.is_dir():
        raise StoreError(f"there is no directory {target.parent}")
    partial = _copy(source, target)
    _put(partial, target)


def restore(source: Path, target: str | Path, *, force: bool = False) -> None:
    """Put the backup ``source`` in place as the database ``target``, a path or a SQLite URL.

    Raises StoreError when ``source`` is damaged or no database of Tenure's, when ``target`` exists (unless
    ``force``) or a server has it open, for PostgreSQL, and DatabaseTooNew for a backup by a newer version.
    The old database is then untouched.
    """
    path = _sqlite_file(target) if isinstance(target, str) and "://" in target else Path(target)
    if path.exists() and not force:
        raise StoreError(f"{path} exists: force the restore to replace it")
    if not source.is_file():
        raise StoreError(f"there is no backup {source}")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _copy(source, path)
    try:
        _check_is_ours(partial, source)
        _retire(path)
    except BaseException:
        partial.unlink()
        raise
    _put(partial, path)


def _sqlite_file(url: str | URL) -> Path:
    path = sqlite_path(url)
    if path is None:
        raise StoreError(_USE_PG_DUMP)
    return path


def _copy(source: Path, target: Path) -> Path:
    """A checked copy of ``source`` beside ``target``, for its owner only. Raises StoreError."""
    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    try:
        # mode=rw: a source that is not there is an error and not a new, empty database.
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as origin,
            closing(sqlite3.connect(partial)) as copy,
        ):
            # All pages in one step: one view of the data, and in WAL mode no writer waits for it.
            origin.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            faults = [str(row[0]) for row in copy.execute("PRAGMA integrity_check") if row[0] != "ok"]
            faults += [f"a row of {row[0]} refers to nothing" for row in copy.execute("PRAGMA foreign_key_check")]
    except sqlite3.DatabaseError as error:
        partial.unlink()
        raise StoreError(f"{source} cannot be copied: {error}") from error
    except BaseException:
        partial.unlink()
        raise
    if faults:
        partial.unlink()
        raise StoreError(f"{source} is damaged: {'; '.join(faults[:3])}")
    return partial


def _check_is_ours(copy: Path, source: Path) -> None:
    with closing(sqlite3.connect(copy)) as connection:
        try:
            revision = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        except sqlite3.OperationalError as error:
            raise StoreError(f"{source} is not a database of Tenure's") from error
    check_revision(revision and revision[0])


def _retire(path: Path) -> None:
    """Make sure that nobody uses the old database, and that the new one never meets its write-ahead log."""
    if path.exists():
        try:
            with closing(sqlite3.connect(path, timeout=0)) as old:
                # Leaving WAL mode folds the log into the file, and needs the database for itself.
                old.execute("PRAGMA journal_mode = DELETE").fetchall()
        except sqlite3.OperationalError as error:
            raise StoreError(f"{path} is in use: stop the server first") from error
        except sqlite3.DatabaseError:
            # Too damaged to open, which is why it is being replaced.
            pass
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _put(partial: Path, target: Path) -> None:
    """Move the copy into place so that it is there after a power failure too."""
    _sync(partial)
    partial.replace(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
