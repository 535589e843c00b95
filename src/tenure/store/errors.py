"""What the store raises besides SQLAlchemy's own errors."""

from __future__ import annotations


class StoreError(Exception):
    """The store cannot do what was asked; the message says what to do instead."""


class StaleLeader(StoreError):
    """Another server has taken over since: nothing was written, and this one must stop deciding."""

    def __init__(self, mine: int, current: int) -> None:
        super().__init__(f"this server leads epoch {mine}, and the database is at epoch {current}")
        self.mine = mine
        self.current = current


class DatabaseTooNew(StoreError):
    """A newer version of Tenure has migrated this database."""


class UserExists(StoreError):
    """There is a user of this name already."""


class UnknownUser(StoreError):
    """There is no user of this name."""
