"""The closed list of reasons. Every decision, every wait and every refusal carries one, with its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenure.core.model import Word

Number = int | str | tuple["Number", ...]
"""What may stand behind a reason: integers in the units of ``model``, names, tuples of those."""


class Reason(Word):
    # starts
    STARTED_FREE = "started_free"
    STARTED_BY_EVICTION = "started_by_eviction"
    STARTED_RESERVED = "started_reserved"
    RESERVED = "reserved"
    HEADROOM = "headroom"
    CLAIM_COMPLETE = "claim_complete"
    CLAIM_RELEASED = "claim_released"
    CLAIM_DROPPED = "claim_dropped"
    # waits
    WAITING_NEW = "waiting_new"
    WAITING_STANDING = "waiting_standing"
    WAITING_CAPACITY = "waiting_capacity"
    WAITING_WHOLE_HOSTS = "waiting_whole_hosts"
    WAITING_LABELS = "waiting_labels"
    WAITING_HOST_STATE = "waiting_host_state"
    WAITING_CPU_MEMORY = "waiting_cpu_memory"
    WAITING_OTHERS = "waiting_others"
    WAITING_EVICTION_CAP = "waiting_eviction_cap"
    WAITING_CLAIM = "waiting_claim"
    WAITING_TEAM_CAP = "waiting_team_cap"
    WAITING_TURN = "waiting_turn"
    WAITING_RESERVED = "waiting_reserved"
    WAITING_RESERVATION = "waiting_reservation"
    WAITING_DEPENDENCY = "waiting_dependency"
    WAITING_THROTTLE = "waiting_throttle"
    HELD_BY_PERSON = "held_by_person"
    HELD_NO_SHARE = "held_no_share"
    BACKING_OFF = "backing_off"
    PAUSED_STARTS = "paused_starts"
    PAUSED_EVICTIONS = "paused_evictions"
    # evictions and stops
    EVICTED_STANDING = "evicted_standing"
    EVICTED_PRIORITY = "evicted_priority"
    EVICTED_LEVEL = "evicted_level"
    EVICTED_UNALLOCATED = "evicted_unallocated"
    EVICTED_RESERVED = "evicted_reserved"
    EVICTED_HEADROOM = "evicted_headroom"
    EVICTED_MOVED = "evicted_moved"
    EVICTED_DRAIN = "evicted_drain"
    EVICTED_BY_PERSON = "evicted_by_person"
    HOST_FAILED = "host_failed"
    TIMED_OUT = "timed_out"
    START_TIMED_OUT = "start_timed_out"
    CANCELLED = "cancelled"
    NOT_RELEASED = "not_released"
    # ends of reservations
    RESERVATION_DISPLACED = "reservation_displaced"
    RESERVED_HOST_LOST = "reserved_host_lost"
    RESERVATIONS_OFF = "reservations_off"
    # ends of attempts and jobs
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NOT_STARTED = "not_started"
    EXECUTOR_LOST = "executor_lost"
    PREEMPTED = "preempted"
    DEPENDENCY_FAILED = "dependency_failed"
    REQUEUED = "requeued"
    # refusals at submission and of configurations
    UNKNOWN_BUDGET = "unknown_budget"
    UNKNOWN_CLUSTER = "unknown_cluster"
    UNKNOWN_JOB = "unknown_job"
    NOT_A_MEMBER = "not_a_member"
    NO_SHARE = "no_share"
    TOO_MANY_GPUS = "too_many_gpus"
    REPLICA_TOO_LARGE = "replica_too_large"
    NO_SUCH_LABEL = "no_such_label"
    MIN_RUNTIME_ABOVE_MAX = "min_runtime_above_max"
    MIN_RUNTIME_BELOW_FLOOR = "min_runtime_below_floor"
    MIN_RUNTIME_ABOVE_TIMEOUT = "min_runtime_above_timeout"
    CONTRACT_ABOVE_ENTITLEMENT = "contract_above_entitlement"
    GRACE_ABOVE_MAX = "grace_above_max"
    BAD_VALUE = "bad_value"
    HOST_IN_USE = "host_in_use"
    BUDGET_IN_USE = "budget_in_use"
    CLUSTER_IN_USE = "cluster_in_use"


@dataclass(frozen=True, slots=True)
class Because:
    """A reason and the numbers behind it; ``numbers`` keys are stable and documented in ``docs/reasons.md``."""

    reason: Reason
    numbers: Mapping[str, Number] = field(default_factory=dict)


@dataclass
class Refusal(Exception):
    """Why something is impossible: the field, the value it had, and what would work."""

    reason: Reason
    field: str
    value: str
    fix: str

    def __str__(self) -> str:
        return f"{self.field} = {self.value}: {self.fix}"
