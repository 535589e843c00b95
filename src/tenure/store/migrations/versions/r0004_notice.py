"""What people are told, and how they want to be told."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

big_key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "notice_people",
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("webhook", sa.Text(), nullable=False),
        sa.Column("salt", sa.Text(), nullable=False),
        sa.Column("kinds", sa.Text(), nullable=False),
        sa.Column("through", sa.Text(), nullable=False),
        sa.Column("digest", sa.BigInteger(), nullable=False),
        sa.Column("quiet", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user", name="pk_notice_people"),
    )
    op.create_table(
        "notices",
        sa.Column("id", big_key, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("message", sa.Text()),
        sa.Column("tries", sa.BigInteger(), nullable=False),
        sa.Column("first_try_at", sa.BigInteger()),
        sa.Column("done_at", sa.BigInteger()),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notices"),
        sa.UniqueConstraint("key", "channel", name="uq_notices_key_channel"),
        sqlite_autoincrement=True,
    )
    for columns in (["state", "due_at"], ["user", "id"], ["message"], ["job_id"], ["at"]):
        op.create_index(f"ix_notices_{'_'.join(columns)}", "notices", columns)


def downgrade() -> None:
    op.drop_table("notices")
    op.drop_table("notice_people")
