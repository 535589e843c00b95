"""Runs the migrations on the connection, and in the transaction, that the caller hands over."""

from __future__ import annotations

from alembic import context

from tenure.store.schema import metadata

# Batch mode: SQLite cannot alter most of a table in place.
context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
