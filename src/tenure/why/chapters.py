"""What the story of a job is made of, as frozen records in time order.

Times are ms UTC, amounts thousandths of a GPU, GPUs whole, GPU time thousandths of a GPU x ms. ``attempt`` is an
attempt's id. What the store no longer keeps is None.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenure.core.reasons import Because


@dataclass(frozen=True, slots=True)
class Submitted:
    """``min_runtime`` 0: unallocated."""

    at: int
    user: str
    budget: str
    gpus: int
    min_runtime: int
    resumable: bool


@dataclass(frozen=True, slots=True)
class Waited:
    """From its submission, or the end of an attempt, to the next one's start.

    ``until`` None: it waits still, and ``why`` is the reason; of a wait that is over it is the reason halfway, where
    somebody has asked for it. ``claimed_at``: since when its GPUs were promised to it,
    where others had to release them first. ``attempt``: the one that ended the wait.
    """

    at: int
    until: int | None
    claimed_at: int | None = None
    attempt: str | None = None
    why: Because | None = None


@dataclass(frozen=True, slots=True)
class ClaimLost:
    """GPUs were promised, and then the claim could not come true: it went on waiting."""

    at: int
    attempt: str
    planned_at: int
    why: Because


@dataclass(frozen=True, slots=True)
class Started:
    """GPUs were assigned. ``why``: what let it start; ``evicted``: the attempts that were evicted for it.

    ``running_at``: all replicas ran, None while they do not. ``protected_until``: None for unallocated ones and until
    all replicas run.
    """

    at: int
    attempt: str
    cluster: str
    hosts: tuple[str, ...]
    gpus: int
    amount: int
    charged: bool
    planned_at: int
    running_at: int | None
    protected_until: int | None
    why: Because | None
    evicted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exposed:
    """The protection of a charged attempt was over, and it went on."""

    at: int
    attempt: str
    min_runtime: int


@dataclass(frozen=True, slots=True)
class Gainer:
    """The job that somebody was evicted for. ``user`` '' when nothing else is known of it any more."""

    job: int
    label: str
    user: str
    budget: str


@dataclass(frozen=True, slots=True)
class Evicted:
    """An eviction was decided, or a failed host ended the attempt. ``why`` is the rule, with the ratios of then.

    ``gained``: GPU time that the gainer was promised on these GPUs. ``at_risk``: work since the last checkpoint when
    it was decided; ``lost``: the same at the end of the attempt, 0 when it said that it was done, None while it still
    runs. Who saves without reporting a checkpoint loses less. ``warned_at`` to ``kill_at`` is the grace.
    """

    at: int
    attempt: str
    gainer: Gainer | None
    why: Because
    gained: int
    at_risk: int
    lost: int | None
    warned_at: int | None
    kill_at: int | None
    released_at: int | None


@dataclass(frozen=True, slots=True)
class Left:
    """An attempt has ended. ``codes``: one exit code per replica. ``used``: what it occupied, GPU time.

    ``credited``: what its budget was given back for a failed host.
    """

    at: int
    attempt: str
    started_at: int
    gpus: int
    why: Because
    codes: tuple[int, ...]
    charged: bool
    used: int
    credited: int


@dataclass(frozen=True, slots=True)
class Totals:
    """What came of it. ``ran`` and ``waited`` are ms; the rest is GPU time.

    ``charged`` is less credits; ``lost`` is what evictions and failed hosts cost, as far as is known; ``lost_known``
    is False where records of it are missing.
    """

    attempts: int
    evictions: int
    ran: int
    waited: int
    charged: int
    unallocated: int
    lost: int
    lost_known: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """The job is over: ``state`` is its last one."""

    at: int
    state: str
    why: Because
    exit_code: int | None
    gpus: int
    totals: Totals


Chapter = Submitted | Waited | ClaimLost | Started | Exposed | Evicted | Left | Ended


@dataclass(frozen=True, slots=True)
class Story:
    """A job's chapters, and what came of it so far."""

    job: int
    at: int
    chapters: tuple[Chapter, ...]
    totals: Totals

    @property
    def ended(self) -> Ended | None:
        last = self.chapters[-1]
        return last if isinstance(last, Ended) else None

    @property
    def last_eviction(self) -> Evicted | None:
        """The eviction after which it has not started again, if there is one."""
        for chapter in reversed(self.chapters):
            if isinstance(chapter, Evicted):
                return chapter
            if isinstance(chapter, Started):
                return None
        return None
