"""The tables, as declared. Alembic brings a database here; a test compares the two."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

BigKey = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite counts rows by itself only where the key is called INTEGER, which holds 64 bits there.

``sqlite_autoincrement`` keeps it from giving a deleted row's number to a new one.
"""

PathText = Text().with_variant(Text(collation="C"), "postgresql")
"""Budget paths, ordered by code point on both databases, so that a range of strings finds a subtree."""


class ExactInteger(TypeDecorator[int]):
    """An integer of any size as decimal text: sums may pass 64 bits, and SQLite has no exact numeric."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> int | None:
        return None if value is None else int(value)


meta = Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

batches = Table(
    "batches",
    metadata,
    Column("seq", BigKey, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("events", Text, nullable=False),
    Column("outcomes", Text, nullable=False),
    Column("plans", Text, nullable=False),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("seq", BigKey, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", BigKey, primary_key=True, autoincrement=False),
    Column("client_key", Text),
    Column("user", Text, nullable=False),
    Column("budget", PathText, nullable=False),
    Column("name", Text, nullable=False),
    Column("cluster", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("charged", Boolean, nullable=False),
    Column("gpus", BigInteger, nullable=False),
    Column("min_runtime", BigInteger, nullable=False),
    Column("priority", BigInteger, nullable=False),
    Column("submitted_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("first_start_at", BigInteger),
    Column("evictions", BigInteger, nullable=False),
    Column("restarts", BigInteger, nullable=False),
    Column("exit_code", BigInteger),
    Column("reason", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("array_id", BigInteger),
    Column("array_index", BigInteger),
    Column("held", Boolean),
    UniqueConstraint("user", "client_key"),
    Index(None, "array_id", "array_index"),
    Index(None, "state"),
    Index(None, "budget"),
    Index(None, "submitted_at"),
    Index(None, "ended_at"),
)
"""``held`` is null in rows from before there were arrays.

Jobs of one user are found by the index behind (user, client_key)."""

arrays = Table(
    "arrays",
    metadata,
    Column("id", BigKey, primary_key=True, autoincrement=False),
    Column("indices", Text, nullable=False),
    Column("throttle", BigInteger, nullable=False),
    Column("spec", Text, nullable=False),
)
"""What the jobs of an array share: their own ``spec`` is empty. No key to ``jobs``: the first of them may be gone."""

attempts = Table(
    "attempts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("job_id", BigInteger, ForeignKey("jobs.id"), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("cluster", Text, nullable=False),
    Column("leaf", PathText, nullable=False),
    Column("user", Text, nullable=False),
    Column("charged", Boolean, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("slots", Text, nullable=False),
    Column("planned_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("running_at", BigInteger),
    Column("ended_at", BigInteger),
    Column("min_runtime", BigInteger, nullable=False),
    Column("protected_until", BigInteger),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("exit_codes", Text, nullable=False),
    Index(None, "job_id", "number", unique=True),
)

spans = Table(
    "spans",
    metadata,
    Column("id", BigKey, primary_key=True),
    Column("attempt_id", Text, nullable=False),
    Column("cluster", Text, nullable=False),
    Column("leaf", PathText, nullable=False),
    Column("user", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("start", BigInteger, nullable=False),
    Column("end", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Index(None, "cluster", "end"),
    Index(None, "end"),
    sqlite_autoincrement=True,
)
"""No key to ``attempts``: a span counts as long as the lookback reaches, its job compacted or not."""

evictions = Table(
    "evictions",
    metadata,
    Column("id", BigKey, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("attempt_id", Text, nullable=False),
    Column("job_id", BigInteger, nullable=False),
    Column("gainer", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("numbers", Text, nullable=False),
    Column("gained", BigInteger, nullable=False),
    Column("at_risk", BigInteger, nullable=False),
    Column("victim_leaf", PathText, nullable=False),
    Column("gainer_leaf", PathText, nullable=False),
    Index(None, "at"),
    Index(None, "job_id"),
    Index(None, "gainer"),
    sqlite_autoincrement=True,
)

audit = Table(
    "audit",
    metadata,
    Column("id", BigKey, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Index(None, "at"),
    sqlite_autoincrement=True,
)

estimates = Table(
    "estimates",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("made_at", BigInteger, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("size_class", Text, nullable=False),
    Column("low", BigInteger, nullable=False),
    Column("likely", BigInteger),
    Column("high", BigInteger),
    Column("until", BigInteger, nullable=False),
    Column("raw_low", BigInteger, nullable=False),
    Column("raw_high", BigInteger),
    Column("percent", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Index(None, "made_at"),
    Index(None, "size_class", "made_at"),
    Index(None, "started_at", "high"),
)
"""No key to ``jobs``: how good estimates were is known after their jobs' history is gone."""

users = Table(
    "users",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("disabled", Boolean, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", BigKey, primary_key=True),
    Column("user", Text, ForeignKey("users.name"), nullable=False),
    Column("hash", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("last_used_at", BigInteger),
    Column("expires_at", BigInteger),
    UniqueConstraint("hash"),
    Index(None, "user"),
    sqlite_autoincrement=True,
)
"""``hash`` is the hexadecimal SHA-256 of the token."""

rollups = Table(
    "rollups",
    metadata,
    Column("day_start", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", Text, primary_key=True),
    Column("leaf", PathText, primary_key=True),
    Column("user", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("amount_ms", ExactInteger, nullable=False),
)
"""Spans older than any window, summed by UTC day."""

notice_people = Table(
    "notice_people",
    metadata,
    Column("user", Text, primary_key=True),
    Column("email", Text, nullable=False),
    Column("webhook", Text, nullable=False),
    Column("salt", Text, nullable=False),
    Column("kinds", Text, nullable=False),
    Column("through", Text, nullable=False),
    Column("digest", BigInteger, nullable=False),
    Column("quiet", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("changed_at", BigInteger, nullable=False),
)
"""How somebody wants to be told. The secret of a webhook is not here: it is made of ``salt`` and a key in a file."""

notices = Table(
    "notices",
    metadata,
    Column("id", BigKey, primary_key=True),
    Column("key", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("user", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("job_id", BigInteger, nullable=False),
    Column("title", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("data", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("message", Text),
    Column("tries", BigInteger, nullable=False),
    Column("first_try_at", BigInteger),
    Column("done_at", BigInteger),
    Column("error", Text, nullable=False),
    UniqueConstraint("key", "channel"),
    Index(None, "state", "due_at"),
    Index(None, "user", "id"),
    Index(None, "message"),
    Index(None, "job_id"),
    Index(None, "at"),
    sqlite_autoincrement=True,
)
"""What people are told, once for each way to reach them. Written together with the position in the log it came from."""
