"""What the core decides, as frozen records: each is logged, then applied whole or not at all.

Two kinds. *Plans* come out of a scheduling pass (``cycle``): Start, Claim, Stop, Reserve, ... *Outcomes* follow
from events and due times alone (``transitions``): the rest. A restart applies recorded plans and derives the
outcomes anew; ``tenure replay`` derives both and compares.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenure.core.model import HostState, Slots
from tenure.core.reasons import Because


@dataclass(frozen=True, slots=True)
class Evict:
    """One victim: stop it against its will.

    ``gainer``: the job it makes room for (0: none). ``gained``: GPU-ms of the promise that becomes possible (the
    gainer's amount x min_runtime, shared over its victims by their amounts; 0 without a gainer), in thousandths.
    ``at_risk``: the victim's amount x time since its last checkpoint or start. The warning goes out at
    ``warn_at``, the kill at ``kill_at``; when its GPUs are not back by ``release_by`` its hosts drain as faulty.
    """

    attempt_id: str
    because: Because
    gainer: int
    gained: int
    at_risk: int
    warn_at: int
    kill_at: int
    release_by: int


@dataclass(frozen=True, slots=True)
class Start:
    """GPUs are free: assign them and open the spans at once."""

    at: int
    job_id: int
    attempt_id: str
    cluster: str
    slots: tuple[Slots, ...]
    amount: int
    because: Because


@dataclass(frozen=True, slots=True)
class Claim:
    """A plan with victims: GPUs are withheld, spans open when the last victim has released.

    ``leaving``: attempts that go for earlier plans and free more than those need, which this one waits for as well.
    """

    at: int
    job_id: int
    attempt_id: str
    cluster: str
    slots: tuple[Slots, ...]
    amount: int
    victims: tuple[Evict, ...]
    because: Because
    leaving: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """Evictions without a gainer: drains."""

    at: int
    victim: Evict


@dataclass(frozen=True, slots=True)
class Reserve:
    """Hold hosts for a job in turn (rule 10; see ``state.Reservation``). Nobody is disturbed by it yet."""

    at: int
    job_id: int
    cluster: str
    hosts: tuple[str, ...]
    amount: int
    told: int
    starts_by: int
    bounded: tuple[str, ...]
    because: Because


@dataclass(frozen=True, slots=True)
class Unreserve:
    """Give up what is held for a job: one that came later takes its place, or its budget has no share any more."""

    at: int
    job_id: int
    because: Because


@dataclass(frozen=True, slots=True)
class Headroom:
    """From now on these hosts are kept for short contracts (rule 10)."""

    at: int
    cluster: str
    hosts: tuple[str, ...]
    because: Because


Plan = Start | Claim | Stop | Reserve | Unreserve | Headroom


@dataclass(frozen=True, slots=True)
class ClaimOpened:
    """The last victim has released: the claim's spans open now."""

    at: int
    attempt_id: str
    because: Because


@dataclass(frozen=True, slots=True)
class ClaimDropped:
    """A claim that cannot come true (host lost, GPUs not released, cancelled): the job queues again."""

    at: int
    attempt_id: str
    because: Because


@dataclass(frozen=True, slots=True)
class Stopping:
    """An attempt is being stopped outside a plan: cancelled, timed out, forced by a person, host failed."""

    at: int
    victim: Evict


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """Spans closed at ``at``. ``because`` says how the attempt ended."""

    at: int
    attempt_id: str
    because: Because


@dataclass(frozen=True, slots=True)
class Requeued:
    """Back in the queue with its seniority. ``not_before``: when backing off, the earliest next start; else 0."""

    at: int
    job_id: int
    because: Because
    not_before: int = 0


@dataclass(frozen=True, slots=True)
class JobEnded:
    """Terminal: ``state`` is the job's final state's name."""

    at: int
    job_id: int
    state: str
    because: Because


@dataclass(frozen=True, slots=True)
class HostMarked:
    """The core itself changed a host's state (GPUs not released in time)."""

    at: int
    cluster: str
    host: str
    state: HostState
    because: Because


@dataclass(frozen=True, slots=True)
class Credited:
    """A credit span after a host failure: ``amount`` x (end - start) is taken off the budget's charge."""

    at: int
    attempt_id: str
    start: int
    end: int
    amount: int
    because: Because


@dataclass(frozen=True, slots=True)
class ReservationLost:
    """A reservation fell without a plan: a host of it is lost, or its job was held or cancelled."""

    at: int
    job_id: int
    because: Because


Outcome = (
    ReservationLost | ClaimOpened | ClaimDropped | Stopping | AttemptEnded | Requeued | JobEnded | HostMarked | Credited
)
Decision = Plan | Outcome
