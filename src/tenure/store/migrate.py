"""Brings a database to the newest schema, and refuses one that is newer than this code."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from tenure.store.errors import DatabaseTooNew


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "tenure.store:migrations")
    return config


def check_revision(revision: str | None) -> bool:
    """Whether a database at ``revision`` (None: an empty one) needs no migration.

    Raises DatabaseTooNew when this code does not know the revision.
    """
    scripts = ScriptDirectory.from_config(_config())
    head = scripts.get_current_head()
    known = {script.revision for script in scripts.walk_revisions()}
    if revision is not None and revision not in known:
        raise DatabaseTooNew(
            f"the database is at schema revision {revision}, and this version of Tenure knows them up to "
            f"{head}: run the version that wrote it or a newer one, or restore a backup made by this version"
        )
    return revision == head


def is_newest(connection: Connection) -> bool:
    """Whether the database needs no migration. Raises DatabaseTooNew."""
    return check_revision(MigrationContext.configure(connection).get_current_revision())


def migrate(connection: Connection) -> None:
    """Migrate to the newest revision within the transaction of ``connection``.

    Raises DatabaseTooNew, with nothing changed.
    """
    if is_newest(connection):
        return
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
