"""A database that is opened to be read is left as it is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from tenure.store import Store, StoreError


def test_what_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="has this server ever run"):
        Store.open_to_read(f"sqlite:///{tmp_path / 'none' / 'tenure.db'}")
    assert not list(tmp_path.iterdir())


def test_nothing_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "tenure.db"
    with Store.open(f"sqlite:///{path}") as store:
        store.add_user("ada", "admin", 1)
    before = path.read_bytes()
    with Store.open_to_read(f"sqlite:///{path}") as store:
        assert [user.name for user in store.list_users()] == ["ada"]
        with pytest.raises(OperationalError, match="readonly"):
            store.add_user("bob", "user", 2)
    assert path.read_bytes() == before


def test_an_older_schema_is_left_to_the_server(tmp_path: Path) -> None:
    path = tmp_path / "tenure.db"
    Store.open(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("update alembic_version set version_num = '0001'")
        database.commit()
    with pytest.raises(StoreError, match="older version"):
        Store.open_to_read(f"sqlite:///{path}")


def test_what_cannot_be_read_is_told_with_what_would_do(tmp_path: Path) -> None:
    path = tmp_path / "tenure.db"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match=r"tenure\.db cannot be read .*: run this as the server's user"):
        Store.open_to_read(f"sqlite:///{path}")


def test_either_database_can_be_read(url: str) -> None:
    with Store.open(url) as store:
        store.add_user("ada", "admin", 1)
    with Store.open_to_read(url) as store:
        assert [user.name for user in store.list_users()] == ["ada"]
        assert store.kept_since() is None
