"""What an operator does to the database: replay, compaction, backup and restore."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tenure.engine import recovery
from tenure.engine.recovery import ReplayReport
from tenure.store import StoreError
from tenure.store import backup as store_backup
from tenure.store.database import sqlite_path
from tenure.store.rows import Compaction
from tenure.store.store import Store


def replay(database_url: str, progress: Callable[[int], None] | None = None) -> ReplayReport:
    """Decide the whole kept log again and compare. Reads only; may run beside the server. Raises StoreError."""
    with Store.open_to_read(database_url) as store:
        return recovery.replay(store, progress)


def compact(database_url: str, now: int, retention: int, lookback: int) -> Compaction:
    """Take away history older than ``retention`` ms; no sum changes. May run beside the server. Raises StoreError."""
    _check_is_there(database_url)
    with Store.open(database_url) as store:
        return store.compact(now - retention, lookback)


def backup(database_url: str, target: Path) -> None:
    """Copy the database to one file while the server runs. Raises StoreError."""
    _check_is_there(database_url)
    store_backup.backup(database_url, target)


def _check_is_there(database_url: str) -> None:
    """Opening it would make an empty one, for whoever runs this and not for the server."""
    path = sqlite_path(database_url)
    if path is not None and not path.is_file():
        raise StoreError(f"there is no database at {path}: has this server ever run?")


def restore(source: Path, target: Path, *, force: bool = False) -> None:
    """Put a backup in place of the database file ``target``; the server must be stopped. Raises StoreError."""
    store_backup.restore(source, target, force=force)
