"""The store: everything that must outlive the server, in SQLite or PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from tenure.store import backup
from tenure.store.access import Access
from tenure.store.estimates import Estimates
from tenure.store.history import History
from tenure.store.moments import Moments
from tenure.store.notices import Notices
from tenure.store.records import Records
from tenure.store.retention import Retention


class Store(History, Moments, Records, Access, Estimates, Notices, Retention):
    """One open database. The engine's thread writes batches; any thread may read, and other processes, too."""

    def backup(self, target: Path) -> None:
        """Copy this database into the single file ``target`` while it is in use.

        Raises StoreError for PostgreSQL, when ``target`` exists, and when the copy is damaged.
        """
        backup.backup(self._engine.url, target)
