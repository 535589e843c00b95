"""What a recount writes down: attempts, jobs, spans, what a cluster is worth; and rule 5's order in fractions."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from tenure.core import decisions as d
from tenure.core.model import After, JobSpec, Slots

CHARGED, UNALLOCATED = "charged", "unallocated"


@dataclass
class Run:
    """An attempt, from the plan that gives it GPUs until these are back. Times in ms UTC."""

    id: str
    job: int
    cluster: str
    leaf: str
    user: str
    slots: tuple[Slots, ...]
    amount: int
    min_runtime: int
    planned: int
    turn: int
    opened: int | None = None
    up: int | None = None
    checkpoint: int | None = None
    stop: d.Evict | None = None
    unreleased: bool = False
    waits_for: set[str] = field(default_factory=set)

    @property
    def kind(self) -> str:
        return CHARGED if self.min_runtime else UNALLOCATED

    @property
    def gpus(self) -> int:
        return sum(len(slot.gpus) for slot in self.slots)

    @property
    def hosts(self) -> list[str]:
        return sorted({slot.host for slot in self.slots})

    @property
    def protected_until(self) -> int | None:
        return self.up + self.min_runtime if self.min_runtime and self.up is not None else None

    def protected(self, now: int) -> bool:
        return bool(self.min_runtime) and (self.protected_until is None or now < self.protected_until)

    def promised(self, now: int) -> int:
        """Amount x ms that is still promised: protection left, or what is left of a turn."""
        if self.stop is not None:
            return 0
        if not self.min_runtime:
            return self.amount * max(0, self.opened + self.turn - now) if self.opened is not None else 0
        until = self.protected_until
        return self.amount * (self.min_runtime if until is None else max(0, until - now))

    def in_turn(self, now: int) -> bool:
        """Whether an unallocated attempt has its first hour."""
        return not self.min_runtime and self.opened is not None and now < self.opened + self.turn

    def evictable(self, now: int) -> bool:
        """By anybody, as far as its own time goes."""
        return self.opened is not None and self.stop is None and not self.protected(now)

    def lost(self, now: int) -> int:
        """Amount x time since the last checkpoint, or since all replicas ran."""
        since = self.up if self.checkpoint is None else self.checkpoint
        return self.amount * max(0, now - since) if since is not None else 0


@dataclass
class Asked:
    """A job that has not ended."""

    id: int
    spec: JobSpec
    budget: str
    leaf: str
    submitted: int
    label: str
    array: int = 0
    throttle: int = 0
    after: tuple[After, ...] = ()
    held_by: str = ""
    not_before: int = 0
    failures: int = 0
    attempts: int = 0
    reserved: int = 0
    reservation: d.Reserve | None = None
    run: Run | None = None

    @property
    def kind(self) -> str:
        return CHARGED if self.spec.contract.min_runtime else UNALLOCATED

    @property
    def gpus(self) -> int:
        return sum(role.replicas * role.gpus for role in self.spec.roles)


@dataclass(frozen=True)
class Occupied:
    """A span that is over. ``sign`` is -1 for credits."""

    cluster: str
    leaf: str
    user: str
    kind: str
    amount: int
    start: int
    end: int
    sign: int = 1


@dataclass(frozen=True)
class Worth:
    """From ``at`` on a cluster has so many healthy GPUs, and each node this part of it."""

    at: int
    healthy: int
    parts: dict[str, Fraction]


@dataclass(frozen=True)
class Figures:
    """Usage and promises, and entitlement, over the lookback and over the last day: thousandths of a GPU x ms."""

    used: int
    owed: Fraction
    used_recent: int
    owed_recent: Fraction

    def ppm(self) -> int:
        return self.used * 1_000_000 // self.owed if self.owed else -1

    def recent_ppm(self) -> int:
        return self.used_recent * 1_000_000 // self.owed_recent if self.owed_recent else -1


def line(path: str) -> list[str]:
    """``a/b`` -> ``a``, ``a/b``."""
    names = path.split("/")
    return ["/".join(names[: i + 1]) for i in range(len(names))]


def before(a: Figures, b: Figures, shift: int = 0) -> bool:
    """Rule 5, and 7 with a shift: whether ``a`` comes strictly first with it added to ``a`` and taken from ``b``."""
    if not a.owed or not b.owed:
        return bool(a.owed)
    a_below, b_below = a.used_recent + shift < a.owed_recent, b.used_recent - shift < b.owed_recent
    if a_below != b_below:
        return a_below
    return (a.used + shift) / a.owed < (b.used - shift) / b.owed
