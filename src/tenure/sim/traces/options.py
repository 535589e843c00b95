"""What can be chosen about a trace before it is replayed. Everything is frozen and can be sent to other processes.

Fractions and factors are parts per million (``SHARE_ONE`` = 1,000,000 is the whole), durations ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

from tenure.core.model import DAY, HOUR, MINUTE, SECOND, SHARE_ONE, Contract
from tenure.units import UnitError, parse_duration, parse_time


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a trace that is kept: submissions in [start, end). ms UTC if ``dated``, else from the trace's zero.

    None: open on that side.
    """

    start: int | None = None
    end: int | None = None
    dated: bool = False

    def __post_init__(self) -> None:
        if any(side % SECOND for side in (self.start, self.end) if side is not None):
            raise ValueError("a window starts and ends at whole seconds")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ValueError("a window's end must be after its start")

    @classmethod
    def parse(cls, text: str) -> Window:
        """``2017-10-03..2017-12-10`` (that last day included), RFC 3339 times, or ``10d..20d`` from the trace's zero.

        Either side may be empty. Raises ValueError.
        """
        head, dots, tail = (part.strip() for part in text.partition(".."))
        if not dots:
            raise ValueError(f"window {text!r}: write FROM..TO, as in 2017-10-03..2017-12-10 or 10d..20d")
        sides = [side for side in (head, tail) if side]
        dated = any(_is_date(side) for side in sides)
        if dated and not all(_is_date(side) for side in sides):
            raise ValueError(f"window {text!r}: two dates or two durations, not one of each")
        try:
            start = _moment(head, dated) if head else None
            end = _moment(tail, dated) + (DAY if dated and len(tail) == 10 else 0) if tail else None
        except UnitError as error:
            raise ValueError(f"window {text!r}: {error}") from error
        return cls(start, end, dated)


def _is_date(text: str) -> bool:
    return text[:4].isdigit() and text[4:5] == "-"


def _moment(text: str, dated: bool) -> int:
    if not dated:
        return parse_duration(text)
    return parse_time(f"{text}T00:00:00Z" if len(text) == 10 else text)


@dataclass(frozen=True, slots=True)
class Rule:
    """The contract of jobs of at most ``max_gpus`` and at most ``max_runtime`` (None: any)."""

    max_gpus: int | None
    max_runtime: int | None
    min_runtime: int
    resumable: bool

    def matches(self, gpus: int, runtime: int) -> bool:
        fits = self.max_gpus is None or gpus <= self.max_gpus
        return fits and (self.max_runtime is None or runtime <= self.max_runtime)

    @property
    def contract(self) -> Contract:
        return Contract(self.min_runtime, self.resumable)


DEFAULT_RULES = (
    Rule(8, 15 * MINUTE, 15 * MINUTE, False),
    Rule(None, HOUR, HOUR, False),
    Rule(8, None, HOUR, True),
    Rule(64, None, 2 * HOUR, True),
    Rule(None, None, 4 * HOUR, True),
)
"""No trace says how long a job must run to make progress. What ends soon is protected to its end and saves nothing;
what runs for long saves its state, and the larger it is the longer it runs before it is worth stopping."""


class Shares(StrEnum):
    """How the budgets' shares follow from a trace."""

    GPU_TIME = "gpu-time"
    """In proportion to the GPU time of each budget's jobs."""
    EQUAL = "equal"


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """``window``, ``teams_only`` and ``thin`` (the part of the jobs that is kept) choose jobs; ``durations`` scales
    runtimes and limits. All draws are by job id and ``seed``: the same jobs whatever else is chosen.

    ``gpus``: the cluster; None picks as many whole hosts of ``gpus_per_host`` as make the trace ask for ``demand``
    times the supply. Gangs larger than a host take whole hosts; ``round_up`` makes smaller jobs 1, 2, 4, ... GPUs.
    Jobs larger than the cluster are left out, or with ``cap`` made as large as it is.

    ``teams``: pairs of team and budget, for those teams whose budget is not of their own name. ``shares``: how they
    are split, or pairs of budget and share. All but the ``max_teams`` - 1 largest teams share the budget ``other``.

    ``rules``: the first that matches gives the contract. ``unallocated``: the part of the jobs that is submitted with
    min_runtime 0. ``add_debug``: debug jobs added per job of the trace, of less than 10 min.
    """

    window: Window | None = None
    teams_only: tuple[str, ...] = ()
    thin: int = SHARE_ONE
    durations: int = SHARE_ONE
    gpus: int | None = None
    demand: int = 2_500_000
    gpus_per_host: int = 8
    round_up: bool = False
    cap: bool = False
    organisation: str = "lab"
    teams: tuple[tuple[str, str], ...] = ()
    shares: Shares | tuple[tuple[str, int], ...] = Shares.GPU_TIME
    max_teams: int = 20
    rules: tuple[Rule, ...] = DEFAULT_RULES
    unallocated: int = 0
    add_debug: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (
            ("thin", 1, SHARE_ONE),
            ("durations", 1, 1000 * SHARE_ONE),
            ("demand", 1, 1000 * SHARE_ONE),
            ("gpus_per_host", 1, 1024),
            ("max_teams", 1, 10_000),
            ("unallocated", 0, SHARE_ONE),
            ("add_debug", 0, 100 * SHARE_ONE),
        ):
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} = {getattr(self, name)}: must be {least} to {most}")
        if self.gpus is not None and (self.gpus < self.gpus_per_host or self.gpus % self.gpus_per_host):
            raise ValueError(f"gpus = {self.gpus}: must be a multiple of the {self.gpus_per_host} GPUs of a host")
        last = self.rules[-1] if self.rules else None
        if last is None or last.max_gpus is not None or last.max_runtime is not None:
            raise ValueError("rules: the last one must match every job")

    def draw(self, purpose: str, job_id: str) -> int:
        """A number in [0, SHARE_ONE) that depends on the seed, the purpose and the job alone."""
        text = f"{self.seed}:{purpose}:{job_id}".encode("utf-8", "surrogatepass")
        return int.from_bytes(blake2b(text, digest_size=8).digest()) % SHARE_ONE

    def contract(self, job_id: str, gpus: int, runtime: int) -> Contract:
        contract = next(rule for rule in self.rules if rule.matches(gpus, runtime)).contract
        if self.unallocated and self.draw("unallocated", job_id) < self.unallocated:
            return Contract(0, contract.resumable)
        return contract
