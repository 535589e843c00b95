"""What a run leaves behind: plain tables, from which every metric and chart is computed.

Times are ms UTC, durations ms. GPU time is in *amount x ms*: thousandths of a GPU times milliseconds, as in the
ledger; ``hours`` turns it into GPU-hours. *Funded* work is what its owner's budget pays for: charged under Tenure,
and the same jobs under any other policy, so that policies are compared by the same yardstick.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.core.model import GPU, HOUR, Budget


def hours(amount_ms: int) -> float:
    """GPU-hours of an amount x ms."""
    return amount_ms / (GPU * HOUR)


@dataclass(slots=True)
class JobRow:
    """One job. ``min_runtime``, ``resumable``: as signed under Tenure; ``priority`` and ``protected``: as claimed under
    the policy of the run. ``runtime``: the work it needs. ``decided``: its first plan; ``started``: its first GPUs.
    ``state``: its final state, or the one at the end of the run, when ``ended`` is None. ``occupied`` and ``lost`` over
    all attempts: ``lost`` is work that had to be done again and restarts. ``reservations``: how many it was given,
    ``reserved``: when the first was made; ``told_by``: by when it was told then that it would start; ``starts_by``: the
    same of the one that it held at last.
    """

    id: int
    user: str
    budget: str
    cluster: str
    kind: str
    gpus: int
    min_runtime: int
    resumable: bool
    funded: bool
    priority: int
    protected: bool
    runtime: int
    submitted: int
    decided: int | None = None
    started: int | None = None
    ended: int | None = None
    state: str = "queued"
    attempts: int = 0
    evictions: int = 0
    occupied: int = 0
    lost: int = 0
    reservations: int = 0
    reserved: int | None = None
    told_by: int | None = None
    starts_by: int | None = None


@dataclass(slots=True)
class AttemptRow:
    """One run on GPUs. ``slots``: (host, GPU indices) of each replica. ``running``, ``ended``: None when it was not so
    by the end of the run. ``protected_until``: from when on the policy let others evict it (the start itself for work
    that is never protected, None: protected to its end). ``because``: the reason code of its end.
    """

    id: str
    job_id: int
    user: str
    budget: str
    cluster: str
    funded: bool
    amount: int
    slots: tuple[tuple[str, tuple[int, ...]], ...]
    started: int
    running: int | None = None
    protected_until: int | None = None
    ended: int | None = None
    because: str = ""
    lost: int = 0


@dataclass(slots=True)
class EvictionRow:
    """One eviction. ``because``: the reason code. ``gainer``: the job it made room for, 0 without one."""

    at: int
    attempt_id: str
    job_id: int
    budget: str
    cluster: str
    funded: bool
    gpus: int
    because: str
    gainer: int
    gainer_budget: str
    gained: int
    at_risk: int
    lost: int = 0


@dataclass(slots=True)
class HourRow:
    """One cluster over one hour, or part of one: the last, or up to a new configuration. All but times are amount x ms.

    ``length``: ms. ``declared``: GPUs of all hosts, in any state; ``healthy``: of those that could be used.
    ``unusable``: free GPUs while somebody waited, which nobody who waited could use (fragmentation). ``withheld``: the
    part of the free time that a rule of the policy kept from jobs which would have fitted.
    """

    cluster: str
    start: int
    length: int
    declared: int
    healthy: int
    funded: int
    unfunded: int
    unusable: int
    withheld: int
    demand_funded: int
    demand_unfunded: int


@dataclass(slots=True)
class BudgetHourRow:
    """One leaf of the tree on one cluster over one hour; GPU time in amount x ms.

    ``entitled``: allocation x healthy GPUs. ``demand``: funded jobs running or waiting, each once, without those held,
    backing off or unable to run. ``delivered``: what its funded attempts occupied; ``lost``: what of that was lost,
    booked in the hour of the loss. ``free``: what its unfunded attempts occupied. ``ratio_ppm`` and ``recent_ppm``: its
    usage ratio over the lookback and the last day at the end of the hour, parts per million, -1 without entitlement:
    the ledger's, promises included, under budgets; what was delivered over what it was entitled to under the others.
    """

    cluster: str
    start: int
    length: int
    budget: str
    entitled: int
    demand: int
    delivered: int
    lost: int
    free: int
    ratio_ppm: int
    recent_ppm: int


@dataclass(slots=True)
class Run:
    """Everything that one simulated run left. ``settings``: what was varied, as people wrote it."""

    policy: str
    seed: int
    workload: str
    settings: dict[str, str]
    budgets: tuple[Budget, ...]
    hosts: dict[str, tuple[tuple[str, int], ...]]
    """Cluster -> (host, GPUs), in order."""
    start: int
    until: int
    """How far it came."""
    planned_until: int
    warmup: int
    """Not counted in any metric: the first ``warmup`` ms."""
    events: int = 0
    steps: int = 0
    plans: int = 0
    wall_s: float = 0.0
    peak_mib: int = 0
    notes: list[str] = field(default_factory=list)
    """What readers should know: rows left out of a trace, refused jobs, an interruption."""
    jobs: list[JobRow] = field(default_factory=list)
    attempts: list[AttemptRow] = field(default_factory=list)
    evictions: list[EvictionRow] = field(default_factory=list)
    hours: list[HourRow] = field(default_factory=list)
    budget_hours: list[BudgetHourRow] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return self.until >= self.planned_until
