"""Backups of a database in use, and putting them back."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text
from store_makers import batch, job, lead

from tenure.store import DatabaseTooNew, Store, StoreError, restore


@pytest.fixture
def copy(sqlite_store: Store, tmp_path: Path) -> Path:
    """A backup with one job, of a database that went on to a second one."""
    lead(sqlite_store, 0)
    sqlite_store.write(batch(1), jobs=[job(1)])
    target = tmp_path / "backup.db"
    sqlite_store.backup(target)
    sqlite_store.write(batch(2), jobs=[job(2)])
    return target


def test_a_backup_is_one_file_with_everything(sqlite_store: Store, tmp_path: Path) -> None:
    lead(sqlite_store, 0)
    with sqlite_store._read() as reading, sqlite_store._write() as writing:
        reading.execute(text("SELECT * FROM jobs")).all()
        writing.execute(text("UPDATE meta SET value = '9' WHERE key = 'epoch'"))
        # Neither a reader nor a writer in the middle of its transaction keeps a backup from being made.
        sqlite_store.backup(tmp_path / "copy.db")
    files = sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(("copy", ".copy")))
    assert files == ["copy.db"]
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    with Store.open(f"sqlite:///{tmp_path}/copy.db") as restored:
        assert restored.epoch() == 1


def test_a_backup_replaces_nothing(copy: Path, sqlite_store: Store) -> None:
    with pytest.raises(StoreError, match="exists"):
        sqlite_store.backup(copy)
    with pytest.raises(StoreError, match="no directory"):
        sqlite_store.backup(copy.parent / "missing" / "copy.db")


@pytest.mark.parametrize("as_url", [False, True])
def test_restore_into_a_new_place(copy: Path, tmp_path: Path, as_url: bool) -> None:
    path = tmp_path / "elsewhere" / "tenure.db"
    restore(copy, f"sqlite:///{path}" if as_url else path)
    with Store.open(f"sqlite:///{path}") as store:
        assert [row.id for row in store.list_jobs()] == [1]
        assert store.take_leadership() == 2


def test_restore_over_a_database_only_when_forced_and_stopped(copy: Path, sqlite_store: Store) -> None:
    path = copy.parent / "tenure.db"
    with pytest.raises(StoreError, match="force"):
        restore(copy, path)
    with pytest.raises(StoreError, match="in use: stop the server"):
        restore(copy, path, force=True)
    assert [row.id for row in sqlite_store.list_jobs()] == [2, 1]
    sqlite_store.close()
    restore(copy, path, force=True)
    with Store.open(f"sqlite:///{path}") as store:
        assert [row.id for row in store.list_jobs()] == [1]
    assert [path.name for path in path.parent.glob(".*")] == []


def test_a_log_left_by_a_crash_does_not_meet_the_restored_database(copy: Path, tmp_path: Path) -> None:
    crashed = tmp_path / "crashed.db"
    crashed.write_bytes(b"not a database at all " * 1000)
    for suffix in ("-wal", "-shm"):
        crashed.with_name(crashed.name + suffix).write_bytes(b"old")
    restore(copy, crashed, force=True)
    assert sorted(path.name for path in tmp_path.glob("crashed*")) == ["crashed.db"]
    with Store.open(f"sqlite:///{crashed}") as store:
        assert [row.id for row in store.list_jobs()] == [1]


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8192])


def _scramble(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 6] = b"\xff" * 4096 * 3
    path.write_bytes(content)


def _not_ours(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()


def _orphan(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO tokens VALUES (1, 'nobody', 'hash', '', 0, NULL, NULL)")
    connection.close()


@pytest.mark.parametrize("damage", [_truncate, _scramble, _not_ours, _orphan, Path.unlink])
def test_a_bad_backup_is_refused_and_the_old_database_stays(
    copy: Path, sqlite_store: Store, damage: Callable[[Path], None]
) -> None:
    sqlite_store.close()
    damage(copy)
    path = copy.parent / "tenure.db"
    with pytest.raises(StoreError):
        restore(copy, path, force=True)
    with Store.open(f"sqlite:///{path}") as store:
        assert [row.id for row in store.list_jobs()] == [2, 1]
    assert list(path.parent.glob(".*")) == []


def test_a_backup_from_the_future_is_refused(copy: Path) -> None:
    with sqlite3.connect(copy) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(DatabaseTooNew, match="9999"):
        restore(copy, copy.parent / "new.db")
    assert not (copy.parent / "new.db").exists()


def test_postgresql_has_its_own_tools(copy: Path, new_postgres: Callable[[], str], tmp_path: Path) -> None:
    url = new_postgres()
    with Store.open(url) as store, pytest.raises(StoreError, match="pg_dump"):
        store.backup(tmp_path / "pg.db")
    with pytest.raises(StoreError, match="pg_restore"):
        restore(copy, url)
