"""Arrays of jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

big_key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "arrays",
        sa.Column("id", big_key, autoincrement=False, nullable=False),
        sa.Column("indices", sa.Text(), nullable=False),
        sa.Column("throttle", sa.BigInteger(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_arrays"),
    )
    op.add_column("jobs", sa.Column("array_id", sa.BigInteger()))
    op.add_column("jobs", sa.Column("array_index", sa.BigInteger()))
    op.add_column("jobs", sa.Column("held", sa.Boolean()))
    op.create_index("ix_jobs_array_id_array_index", "jobs", ["array_id", "array_index"])


def downgrade() -> None:
    op.drop_index("ix_jobs_array_id_array_index", "jobs")
    op.drop_column("jobs", "held")
    op.drop_column("jobs", "array_index")
    op.drop_column("jobs", "array_id")
    op.drop_table("arrays")
