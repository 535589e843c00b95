"""Estimates of when jobs start."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "estimates",
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("made_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("size_class", sa.Text(), nullable=False),
        sa.Column("low", sa.BigInteger(), nullable=False),
        sa.Column("likely", sa.BigInteger()),
        sa.Column("high", sa.BigInteger()),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("raw_low", sa.BigInteger(), nullable=False),
        sa.Column("raw_high", sa.BigInteger()),
        sa.Column("percent", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("job_id", "made_at", name="pk_estimates"),
    )
    op.create_index("ix_estimates_made_at", "estimates", ["made_at"])
    op.create_index("ix_estimates_size_class_made_at", "estimates", ["size_class", "made_at"])
    op.create_index("ix_estimates_started_at_high", "estimates", ["started_at", "high"])


def downgrade() -> None:
    op.drop_table("estimates")
