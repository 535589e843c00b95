"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

big_key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
path = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    _meta()
    _batches()
    _snapshots()
    _jobs()
    _attempts()
    _spans()
    _evictions()
    _audit()
    _users()
    _tokens()
    _rollups()
    # Both are read under a lock before they are raised, so there is always a row to lock.
    facts = sa.table("meta", sa.column("key", sa.Text), sa.column("value", sa.Text))
    op.bulk_insert(facts, [{"key": "epoch", "value": "0"}, {"key": "highest_deleted_job", "value": "0"}])


def downgrade() -> None:
    for table in (
        "rollups",
        "tokens",
        "users",
        "audit",
        "evictions",
        "spans",
        "attempts",
        "jobs",
        "snapshots",
        "batches",
        "meta",
    ):
        op.drop_table(table)


def _meta() -> None:
    op.create_table(
        "meta",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_meta"),
    )


def _batches() -> None:
    op.create_table(
        "batches",
        sa.Column("seq", big_key, autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.Text(), nullable=False),
        sa.Column("outcomes", sa.Text(), nullable=False),
        sa.Column("plans", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_batches"),
    )


def _snapshots() -> None:
    op.create_table(
        "snapshots",
        sa.Column("seq", big_key, autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_snapshots"),
    )


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", big_key, autoincrement=False, nullable=False),
        sa.Column("client_key", sa.Text()),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("budget", path, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("charged", sa.Boolean(), nullable=False),
        sa.Column("gpus", sa.BigInteger(), nullable=False),
        sa.Column("min_runtime", sa.BigInteger(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("submitted_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger()),
        sa.Column("first_start_at", sa.BigInteger()),
        sa.Column("evictions", sa.BigInteger(), nullable=False),
        sa.Column("restarts", sa.BigInteger(), nullable=False),
        sa.Column("exit_code", sa.BigInteger()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("user", "client_key", name="uq_jobs_user_client_key"),
    )
    op.create_index("ix_jobs_budget", "jobs", ["budget"])
    op.create_index("ix_jobs_ended_at", "jobs", ["ended_at"])
    op.create_index("ix_jobs_state", "jobs", ["state"])
    op.create_index("ix_jobs_submitted_at", "jobs", ["submitted_at"])


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("leaf", path, nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("charged", sa.Boolean(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("slots", sa.Text(), nullable=False),
        sa.Column("planned_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger()),
        sa.Column("running_at", sa.BigInteger()),
        sa.Column("ended_at", sa.BigInteger()),
        sa.Column("min_runtime", sa.BigInteger(), nullable=False),
        sa.Column("protected_until", sa.BigInteger()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("exit_codes", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_attempts_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
    )
    op.create_index("ix_attempts_job_id_number", "attempts", ["job_id", "number"], unique=True)


def _spans() -> None:
    op.create_table(
        "spans",
        sa.Column("id", big_key, nullable=False),
        sa.Column("attempt_id", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("leaf", path, nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_spans"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_spans_cluster_end", "spans", ["cluster", "end"])
    op.create_index("ix_spans_end", "spans", ["end"])


def _evictions() -> None:
    op.create_table(
        "evictions",
        sa.Column("id", big_key, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("attempt_id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("gainer", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("numbers", sa.Text(), nullable=False),
        sa.Column("gained", sa.BigInteger(), nullable=False),
        sa.Column("at_risk", sa.BigInteger(), nullable=False),
        sa.Column("victim_leaf", path, nullable=False),
        sa.Column("gainer_leaf", path, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_evictions"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_evictions_at", "evictions", ["at"])
    op.create_index("ix_evictions_job_id", "evictions", ["job_id"])
    op.create_index("ix_evictions_gainer", "evictions", ["gainer"])


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", big_key, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_at", "audit", ["at"])


def _users() -> None:
    op.create_table(
        "users",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_users"),
    )


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", big_key, nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_used_at", sa.BigInteger()),
        sa.Column("expires_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(["user"], ["users.name"], name="fk_tokens_user"),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("hash", name="uq_tokens_hash"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tokens_user", "tokens", ["user"])


def _rollups() -> None:
    op.create_table(
        "rollups",
        sa.Column("day_start", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("leaf", path, nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("amount_ms", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("day_start", "cluster", "leaf", "user", "kind", name="pk_rollups"),
    )
