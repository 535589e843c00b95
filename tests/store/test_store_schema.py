"""Opening, migrating and refusing databases."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, Table, create_engine, text
from sqlalchemy.engine import make_url

from tenure.store import DatabaseTooNew, Store, StoreError, rows, schema


def _plain_engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    return create_engine(parsed)


def test_migrations_lead_to_the_declared_tables(new_url: str) -> None:
    Store.open(new_url).close()
    engine = _plain_engine(new_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, schema.metadata) == []
    engine.dispose()


@pytest.mark.parametrize(
    ("row", "table"),
    [
        (rows.BatchRow, schema.batches),
        (rows.JobRow, schema.jobs),
        (rows.ArrayRow, schema.arrays),
        (rows.AttemptRow, schema.attempts),
        (rows.SpanRow, schema.spans),
        (rows.EvictionRow, schema.evictions),
        (rows.AuditRow, schema.audit),
        (rows.EstimateRow, schema.estimates),
        (rows.UserRow, schema.users),
        (rows.NoticePersonRow, schema.notice_people),
        (rows.NoticeRow, schema.notices),
    ],
)
def test_rows_have_the_fields_of_their_tables(row: type, table: Table) -> None:
    assert {item.name for item in fields(row)} == set(table.c.keys())


def test_opening_again_changes_nothing(new_url: str) -> None:
    with Store.open(new_url) as store:
        store.take_leadership()
    with Store.open(new_url) as store:
        assert store.epoch() == 1


def test_several_servers_opening_a_new_database_at_once(new_url: str) -> None:
    with ThreadPoolExecutor(6) as pool:
        stores = [opening.result() for opening in [pool.submit(Store.open, new_url) for _ in range(6)]]
    assert sorted(store.take_leadership() for store in stores) == list(range(1, 7))
    for store in stores:
        store.close()


def test_a_database_from_the_future_is_refused_and_untouched(new_url: str) -> None:
    Store.open(new_url).close()
    engine = _plain_engine(new_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(DatabaseTooNew, match=r"9999.*0004.*newer"):
        Store.open(new_url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "9999"
    engine.dispose()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "cannot be read"),
        ("nonsense", "cannot be read"),
        ("mysql://root:secret@db/tenure", "mysql is not"),
        ("sqlite://", "plain file"),
        ("sqlite:///:memory:", "plain file"),
        ("sqlite:///file:x?mode=memory&uri=true", "plain file"),
    ],
)
def test_urls_that_are_refused(url: str, words: str) -> None:
    with pytest.raises(StoreError, match=words) as refusal:
        Store.open(url)
    assert "secret" not in str(refusal.value)


def test_the_password_is_not_shown(postgres: str) -> None:
    with Store.open(f"postgresql://tenure:secret@/postgres?host={postgres}") as store:
        assert "secret" not in store.url


def test_the_file_is_its_owners_alone_and_safe(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "tenure.db"
    with Store.open(f"sqlite:///{path}") as store:
        store.take_leadership()
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        with store._write() as connection:
            pragmas = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            values = [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in pragmas]
    assert values == ["wal", 2, 1, 20_000]


def test_downgrade_takes_everything_away(new_url: str) -> None:
    from alembic import command

    from tenure.store import migrate

    with Store.open(new_url) as store, store._write() as connection:
        config = migrate._config()
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
        context = MigrationContext.configure(connection)
        assert context.get_current_revision() is None
