"""What people want, and how a workload and the simulated site talk to each other.

All times are ms UTC, all durations ms. A workload is deterministic: it draws only from generators that it seeded
itself, and is called in the order of simulated time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tenure.core.model import MINUTE, SECOND, HostState, JobSpec
from tenure.reports.records import Run


@dataclass(frozen=True, slots=True)
class Insists:
    """What somebody claims whatever their work needs; what each is worth is the policy's. Durations ms.

    ``min_runtime``: the contract, None for the one that it needs. ``highest``: the highest priority. ``stays``: never
    to be preempted: protected where that can be claimed, and not to be run again. ``limit``: the time limit, where
    limits decide who fits in; None for the usual one.
    """

    min_runtime: int | None = None
    highest: bool = False
    stays: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """A job as its owner knows it: what is submitted, and what nobody tells the scheduler.

    ``spec`` is as submitted under Tenure; under other policies ``claims`` turns it into what people would claim there.
    ``owner`` is the workload's own number for whoever submits. ``kind`` names the sort of work (``debug``, ``train``,
    ``sweep``, ...). ``runtime`` is the useful work it needs in total, however many attempts that takes; it then exits
    with ``exit_code``. ``checkpoint_every``: between periodic checkpoints, 0 for none. ``save_time``: what saving one
    takes, so a resumable job loses nothing when it is warned at least that long before it is killed. ``startup``: from
    GPUs assigned to all replicas running. ``restart_cost``: what each attempt but the first repeats or reloads.
    ``insists``: what its owner claims instead of what it needs, if anything.
    """

    spec: JobSpec
    owner: int
    kind: str
    runtime: int
    exit_code: int = 0
    checkpoint_every: int = 60 * MINUTE
    save_time: int = 30 * SECOND
    startup: int = 20 * SECOND
    restart_cost: int = 5 * MINUTE
    insists: Insists | None = None

    @property
    def funded(self) -> bool:
        """Whether its owner pays for it: charged under Tenure, and demand that counts under every policy."""
        return self.spec.charged


@dataclass(frozen=True, slots=True)
class Submit:
    """``at`` is now, or later. ``token`` comes back in ``Workload.accepted``."""

    at: int
    work: Work
    token: int = 0


@dataclass(frozen=True, slots=True)
class Cancel:
    """Somebody gives a job up, whether it waits or runs. Nothing happens when it has ended."""

    at: int
    job_id: int


@dataclass(frozen=True, slots=True)
class Wake:
    """Call ``Workload.wake`` with this token at ``at``."""

    at: int
    token: int


@dataclass(frozen=True, slots=True)
class HostBecomes:
    """A host changes its state, for good or until it changes again."""

    at: int
    cluster: str
    host: str
    state: HostState
    why: str


Action = Submit | Cancel | Wake | HostBecomes


class Workload(Protocol):
    """Who submits what, and when. Closed-loop workloads answer to what becomes of their jobs; traces do not."""

    def begin(self, at: int) -> Iterable[Action]:
        """The first actions of a simulation that starts at ``at``."""

    def wake(self, at: int, token: int) -> Iterable[Action]: ...

    def accepted(self, at: int, token: int, job_id: int, work: Work) -> Iterable[Action]:
        """A ``Submit`` took place and its job has this id."""

    def refused(self, at: int, token: int, work: Work, why: str) -> Iterable[Action]:
        """A ``Submit`` was refused by admission."""

    def started(self, at: int, job_id: int, work: Work, waited: int) -> Iterable[Action]:
        """GPUs were assigned to an attempt, ``waited`` ms after the job was submitted or last requeued."""

    def requeued(self, at: int, job_id: int, work: Work) -> Iterable[Action]:
        """It was evicted or failed over, and waits again."""

    def ended(self, at: int, job_id: int, work: Work, state: str) -> Iterable[Action]:
        """It is over; ``state`` is the final state's name (``succeeded``, ``failed``, ``cancelled``, ...)."""


@runtime_checkable
class Telling(Protocol):
    """A workload that knows more of its people than the tables of a run."""

    def figures(self, run: Run) -> dict[str, Any]:
        """What its summary says beside the metrics, when the run is over."""


class Claims(Protocol):
    """What people claim for their work under a policy: priorities, protection. Under Tenure: what they signed."""

    def signed(self, work: Work) -> Work:
        """The work with the contract that its owner signs under the policy: usually as it is."""

    def spec(self, at: int, work: Work) -> JobSpec: ...

    def started(self, at: int, work: Work, waited: int) -> None:
        """An attempt of theirs got GPUs after waiting this long."""

    def evicted(self, at: int, work: Work) -> None:
        """An attempt of theirs had to go for somebody else's job."""

    def gone(self, at: int, work: Work) -> None:
        """It was refused, or is over: whatever it waited for, it waits no more."""


class AsSigned:
    """The contract as it is: what people submit under Tenure."""

    @classmethod
    def under(cls, policy: str, seed: int) -> AsSigned:
        """Under any policy."""
        return cls()

    def signed(self, work: Work) -> Work:
        return work

    def spec(self, at: int, work: Work) -> JobSpec:
        return work.spec

    def started(self, at: int, work: Work, waited: int) -> None:
        pass

    def evicted(self, at: int, work: Work) -> None:
        pass

    def gone(self, at: int, work: Work) -> None:
        pass
