"""Everything that must outlive the server: the log of batches, the ledger, jobs, users, in one database.

The store knows nothing of scheduling. It keeps rows and JSON text that it is handed, and gives them back.
"""

from tenure.store.backup import restore
from tenure.store.errors import DatabaseTooNew, StaleLeader, StoreError, UnknownUser, UserExists
from tenure.store.rows import (
    ArrayRow,
    AttemptRow,
    AuditRow,
    BatchRow,
    Compaction,
    EstimateRow,
    EvictionRow,
    JobRow,
    NoticePersonRow,
    NoticeRow,
    PastRun,
    SpanRow,
    TokenRow,
    UsageRow,
    UserRow,
)
from tenure.store.store import Store

__all__ = [
    "ArrayRow",
    "AttemptRow",
    "AuditRow",
    "BatchRow",
    "Compaction",
    "DatabaseTooNew",
    "EstimateRow",
    "EvictionRow",
    "JobRow",
    "NoticePersonRow",
    "NoticeRow",
    "PastRun",
    "SpanRow",
    "StaleLeader",
    "Store",
    "StoreError",
    "TokenRow",
    "UnknownUser",
    "UsageRow",
    "UserExists",
    "UserRow",
    "restore",
]
